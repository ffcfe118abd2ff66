//! `poolwright monitor` on a mounted pool: its tables, and its screen in a pseudo-terminal.

use std::process::Command;

use crate::common::mounted::{Mounted, until};
use crate::common::pty::PtyProgram;
use crate::common::{TestDir, skip_without_fuse};

/// The screen with short times between the readings.
fn screen(dir: &TestDir, dimensions: (u16, u16)) -> PtyProgram {
    let mut command = dir.plain();
    command.args(["monitor", "--every", "200ms"]);
    PtyProgram::start(&command, dimensions)
}

/// The fields of the row that begins with `name`, in the table with this title.
fn row<'a>(tables: &'a str, title: &str, name: &str) -> Vec<&'a str> {
    let lines = tables.lines().skip_while(|line| *line != title);
    let mut rows = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.find(|fields| fields.first() == Some(&name)).unwrap_or_else(|| panic!("no {name}:\n{tables}"))
}

#[test]
fn once_prints_the_figures_of_the_other_verbs() {
    skip_without_fuse!();
    let mounted = Mounted::on("a.img:1G");
    mounted.run("dataset create tank/db");
    std::fs::write(mounted.at("m/file"), vec![7; 3 << 20]).unwrap();
    std::fs::File::open(mounted.at("m/file")).unwrap().sync_all().unwrap();
    // Between two commands, the pool may write another transaction group.
    until("the figures are equal", || {
        let tables = mounted.run("monitor --once --every 100ms");
        let list = mounted.run("pool list");
        let used = mounted.run("dataset list -r tank");
        let pool = row(&tables, "Pools", "tank");
        let listed = list.lines().find(|line| line.starts_with("tank")).unwrap().split_whitespace();
        let dataset = row(&tables, "Datasets", "tank/db");
        let listed_dataset = used.lines().find(|line| line.starts_with("tank/db")).unwrap();
        assert_eq!(pool[1], "ONLINE", "{tables}");
        listed.collect::<Vec<_>>().starts_with(&["tank", pool[2], pool[3]])
            && listed_dataset.split_whitespace().nth(1) == Some(dataset[1])
    });
    let tables = mounted.run("monitor --once --every 100ms");
    assert!(!tables.contains('\u{1b}'), "{tables:?}");
    let path = mounted.at("a.img");
    assert_eq!(row(&tables, "Pools", path.to_str().unwrap())[1], "ONLINE");
    assert_eq!(row(&tables, "Sources", "user-pool")[..3], ["user-pool", "tank", "up"]);
    assert_eq!(row(&tables, "ARC", "tank")[2], "64M", "the target that the mount has set");

    let readings = mounted.json("monitor --once");
    let pools = mounted.json("pool list");
    let resources = readings["resources"].as_array().unwrap();
    let pool = resources.iter().find(|one| one["type"] == "pool" && one["labels"]["pool"] == "tank").unwrap();
    assert_eq!(pool["values"]["poolwright_pool_size_bytes"].as_f64(), pools["pools"][0]["size"].as_f64());
}

#[test]
fn it_needs_a_terminal() {
    let dir = TestDir::new();
    dir.fails("monitor", 2, &["is not a terminal", "hint: `poolwright monitor --once`"]);
    dir.fails("monitor --json", 2, &["--once"]);
    let tables = dir.run("monitor --once --every 10ms");
    assert!(tables.contains("no plan to compare"), "{tables}");
    let mut command = dir.plain();
    command.arg("monitor").env("TERM", "dumb");
    let mut program = PtyProgram::start(&command, (80, 24));
    assert_eq!(program.ended(), 2);
}

#[test]
fn tabs_sizes_and_pauses_of_the_screen() {
    skip_without_fuse!();
    let mounted = Mounted::on("a.img:1G");
    let mut screen = screen(&mounted, (100, 24));
    screen.until_shows(&["[1 Pools]", "tank", "ONLINE", "a.img"]);
    screen.press("2");
    screen.until_shows(&["[2 Datasets]", "order: dataset"]);
    screen.press("/xyz\r");
    screen.until_shows(&["no dataset matches the filter"]);
    screen.press("\u{1b}");
    screen.until_shows(&["1 of 1"]);
    screen.press("\t");
    screen.until_shows(&["[3 ARC]", "maximum", "hits in the last"]);
    screen.resize((60, 15));
    screen.press("4");
    screen.until_shows(&["[4 Plan]", "no plan to compare"]);
    screen.press("5p");
    screen.until_shows(&["[5 Sources]", "user-pool tank", "PAUSED"]);
    screen.press("?");
    screen.until_shows(&["Ctrl-C", "quit"]);
    screen.press("q");
    assert_eq!(screen.ended(), 0);
}

#[test]
fn a_key_right_after_a_resize_is_not_lost() {
    let dir = TestDir::new();
    let mut screen = screen(&dir, (100, 24));
    screen.until_shows(&["[1 Pools]"]);
    for round in 0..100 {
        screen.resize(if round % 2 == 0 { (90, 20) } else { (100, 24) });
        screen.press(if round % 2 == 0 { "5" } else { "1" });
        screen.until_shows(&[if round % 2 == 0 { "[5 Sources]" } else { "[1 Pools]" }]);
    }
}

#[test]
fn signals_end_it_with_the_terminal_restored() {
    let dir = TestDir::new();
    for end in ["-TERM", "-HUP", "-INT", "\u{3}"] {
        let mut screen = screen(&dir, (80, 24));
        screen.until_shows(&["[1 Pools]", "no pools"]);
        assert!(!screen.is_restored());
        if end.starts_with('-') {
            screen.signal(end)
        } else {
            screen.press(end)
        }
        assert_eq!(screen.ended(), 130, "{end:?}");
    }
}

#[test]
fn a_stop_restores_the_terminal_until_the_process_continues() {
    let dir = TestDir::new();
    let mut screen = screen(&dir, (80, 24));
    screen.until_shows(&["[1 Pools]", "no pools"]);
    for stop in ["-TSTP", "\u{1a}"] {
        if stop.starts_with('-') {
            screen.signal(stop)
        } else {
            screen.press(stop)
        }
        until("it stops", || screen.is_stopped());
        until("the terminal is restored", || screen.is_restored());
        screen.signal("-CONT");
        until("it has the terminal again", || !screen.is_restored());
        screen.until_shows(&["[1 Pools]", "no pools"]);
    }
    // Nothing can catch SIGSTOP; afterwards the screen is drawn again, whatever the terminal shows.
    screen.signal("-STOP");
    until("it stops", || screen.is_stopped());
    screen.signal("-CONT");
    screen.press("5");
    screen.until_shows(&["[5 Sources]"]);
    screen.press("q");
    assert_eq!(screen.ended(), 0);
}

#[test]
fn a_hung_owner_does_not_hang_the_screen() {
    skip_without_fuse!();
    let mounted = Mounted::on("a.img:1G");
    let mut screen = screen(&mounted, (100, 24));
    screen.until_shows(&["tank", "ONLINE"]);
    let owner = |signal: &str| {
        assert!(Command::new("kill").args([signal, &mounted.pid.to_string()]).status().unwrap().success());
    };
    owner("-STOP");
    screen.until_shows(&["source", "down: user-pool tank", "no answer for", "ONLINE"]);
    screen.press("5");
    screen.until_shows(&["[5 Sources]", "no answer for"]);
    owner("-CONT");
    until("the notice disappears", || !screen.shown().contains("down:"));
    screen.press("q");
    assert_eq!(screen.ended(), 0);
}
