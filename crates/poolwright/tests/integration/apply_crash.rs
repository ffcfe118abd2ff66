//! `poolwright apply` and `undo` after a kill of the program or a crash of the pool.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::mounted::{is_mounted, umount, until};
use crate::common::planned_database::PlannedDatabase;
use crate::common::skip_without_fuse;

/// Runs `verb` and kills it after a while. Returns its duration if it had ended by itself.
fn killed(database: &PlannedDatabase, verb: &str, after: Duration) -> Option<Duration> {
    let mut command = database.plain();
    command.args([verb, "plan.json", "--yes"]).stdout(Stdio::null()).stderr(Stdio::null());
    let start = std::time::Instant::now();
    let mut child = command.spawn().unwrap();
    while start.elapsed() < after {
        if child.try_wait().unwrap().is_some() {
            return Some(start.elapsed());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = child.kill();
    child.wait().unwrap();
    None
}

/// The number of crashes of each kind; a long test sets more.
fn crashes() -> u64 {
    std::env::var("POOLWRIGHT_CRASHES").ok().and_then(|n| n.parse().ok()).unwrap_or(12)
}

/// A kill of the program, or a crash of the pool, at any point: continuing or going back gives the same end.
#[test]
fn crashes_lose_nothing() {
    skip_without_fuse!();
    crash_at_random_points(PlannedDatabase::new("a.img:2G"), false);
}

#[test]
fn crashes_while_a_log_moves_lose_nothing() {
    skip_without_fuse!();
    crash_at_random_points(PlannedDatabase::new("a.img:2G").with_log(), true);
}

/// `moves`: the plan moves a log into a dataset of its own.
fn crash_at_random_points(mut database: PlannedDatabase, moves: bool) {
    let before = database.manifest();
    // The time of a whole run, of which the crashes take parts.
    let start = std::time::Instant::now();
    database.run("apply plan.json --yes");
    let mut whole = start.elapsed();
    database.run("undo plan.json --yes");
    let mut interrupted = 0;
    for crash in 0..crashes() {
        let verb = if crash % 2 == 0 { "apply" } else { "undo" };
        if verb == "undo" {
            database.run("apply plan.json --yes");
            // Not rolled back, but rewritten.
            fs::write(database.at("m/empty"), "").unwrap();
        }
        let part = whole.mul_f64((crash * 37 % 100) as f64 / 100.0);
        match killed(&database, verb, part) {
            // The first run was slower: the machine does less beside the test now.
            Some(duration) => whole = whole.min(duration),
            None => interrupted += 1,
        }
        if crash % 3 == 2 {
            Command::new("kill").args(["-KILL", &database.pid.to_string()]).status().unwrap();
            let has_dataset = is_mounted(&database.at("m-wal"));
            if has_dataset {
                until("the mount of the log can be removed", || umount(&database.at("m-wal")));
            }
            until("its mount can be removed", || umount(&database.at("m")));
            database.0.mount();
            if moves && database.datasets().contains(&"tank/pg_wal".to_owned()) {
                database.run("mount tank/pg_wal m-wal --background");
            }
        }
        // Continue, or go back from half of the applications.
        let end = if verb == "apply" && crash % 4 == 0 { "apply" } else { "undo" };
        database.run(&format!("{end} plan.json --yes"));
        let mut now = if moves { database.manifest_with_log() } else { database.manifest() };
        let empty = database.at("m/empty");
        for path in [empty, database.at("m")] {
            // A crash between the creation of a directory and the restoration of the times above it changes these.
            now.insert(path.clone(), before[&path].clone());
        }
        let differing: Vec<_> =
            before.iter().filter(|(path, of)| now.get(*path) != Some(of)).map(|(path, _)| path).collect();
        assert!(differing.is_empty() && now.len() == before.len(), "crash {crash} of {verb}: {differing:?}");
        let size = if end == "apply" { 16 << 10 } else { 128 << 10 };
        assert_eq!(database.block_size("base/1/3"), size, "crash {crash} of {verb}");
        if end == "apply" {
            database.run("undo plan.json --yes");
        }
        assert!(database.is_default() && database.snapshots() == 0, "crash {crash} of {verb}");
        assert_eq!(database.datasets(), ["tank"], "crash {crash} of {verb}");
    }
    assert!(interrupted * 3 > crashes(), "only {interrupted} runs were interrupted");
    database.umount();
}
