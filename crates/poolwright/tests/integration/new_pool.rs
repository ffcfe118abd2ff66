//! `poolwright apply --new-pool` and `undo` after it, with two mounted pools.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::mounted::{Mounted, until};
use crate::common::second_pool::{FastPool, add_fast, dataset_on, write_plan};
use crate::common::systemctl::{self, load_state, take_verbs, with_unit, without_unit};
use crate::common::{TestDir, follows_schema, skip_without_fuse};
use serde_json::{Value, json};

/// Attributes and content of everything below a directory, by relative path. Directories on which another file system is mounted are
/// those of that file system.
type Tree = BTreeMap<PathBuf, (u32, u32, i64, i64, u64, Vec<u8>)>;

fn tree(root: &Path) -> Tree {
    let (mut found, mut rest) = (Tree::new(), vec![root.to_owned()]);
    while let Some(path) = rest.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let (mut links, mut content) = (0, Vec::new());
        if meta.is_dir() {
            rest.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if meta.is_file() {
            links = meta.nlink();
            content = fs::read(&path).unwrap();
        } else {
            content = fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes();
        }
        let relative = path.strip_prefix(root).unwrap().to_owned();
        found.insert(relative, (meta.mode(), meta.uid(), meta.mtime(), meta.mtime_nsec(), links, content));
    }
    found
}

/// Files on `tank/db`, which is mounted on `db`, and a log on `tank/db/log`, which is mounted in it.
struct Files {
    // Its mounts are removed with those of the second pool, after this one's process was killed.
    _fast: FastPool,
    mounted: Mounted,
}

impl std::ops::Deref for Files {
    type Target = Mounted;

    fn deref(&self) -> &Mounted {
        &self.mounted
    }
}

impl Files {
    fn new() -> Files {
        let mounted = Mounted::on("a.img:4G");
        let _fast = FastPool(add_fast(&mounted));
        let files = Files { _fast, mounted };
        files.run("dataset create tank/db -o logbias=throughput");
        files.run("dataset create tank/db/log");
        fs::create_dir(files.at("db")).unwrap();
        files.run("mount tank/db db");
        fs::create_dir_all(files.at("db/log")).unwrap();
        files.run("mount tank/db/log db/log");
        fs::create_dir_all(files.at("db/base/1")).unwrap();
        for i in 0..24_u32 {
            let row = format!("{i} row of a table that compresses well; ");
            let size = [100, 9_000, 200_000, 1_500_000][i as usize % 4];
            fs::write(files.at(&format!("db/base/1/{i}")), row.repeat(size / row.len())).unwrap();
            fs::write(files.at(&format!("db/log/{i}")), format!("record {i} ").repeat(9_000)).unwrap();
        }
        fs::hard_link(files.at("db/base/1/2"), files.at("db/base/link")).unwrap();
        std::os::unix::fs::symlink("base/1", files.at("db/symlink")).unwrap();
        fs::write(files.at("db/empty"), "").unwrap();
        let sparse = fs::File::create(files.at("db/sparse")).unwrap();
        sparse.write_all_at(&[9; 100], 20 << 20).unwrap();
        touch(&files.at("db/base/1/2"), "1999-12-31 23:59:59.123456789");
        let db = files.at("db").canonicalize().unwrap();
        write_plan(&files, None, &db, &db, json!({"recordsize": "16K", "compression": "zstd-3"}));
        files
    }

    /// Runs `apply --new-pool` or `undo`, and returns its report.
    fn report(&self, line: &str) -> Value {
        report(&self.mounted, line)
    }

    fn tree(&self) -> Tree {
        tree(&self.at("db"))
    }

    /// The datasets on the two directories.
    fn places(&self) -> [Option<String>; 2] {
        [dataset_on(&self.at("db")), dataset_on(&self.at("db/log"))]
    }

    fn datasets(&self, pool: &str) -> Vec<String> {
        let list = self.json(&format!("dataset list -r {pool}"));
        list["datasets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|of| of["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// That nothing is left of a move in either direction but the datasets of `tank`.
    fn is_on_tank(&self) {
        assert_eq!(self.places(), [Some("tank/db".to_owned()), Some("tank/db/log".to_owned())]);
        assert_eq!(self.datasets("fast"), ["fast"]);
        assert_eq!(self.datasets("tank"), ["tank", "tank/db", "tank/db/log"], "no snapshot is left");
        assert!(!self.has_staging());
    }

    fn is_on_fast(&self) {
        assert_eq!(self.places(), [Some("fast/db".to_owned()), Some("fast/db/log".to_owned())]);
        assert_eq!(self.datasets("fast"), ["fast", "fast/db", "fast/db/log"], "no snapshot is left");
        assert_eq!(self.datasets("tank"), ["tank", "tank/db", "tank/db/log"], "no snapshot is left");
        assert!(!self.has_staging());
    }

    fn has_staging(&self) -> bool {
        let names = fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.into_iter().any(|name| name.to_string_lossy().starts_with(".poolwright-"))
    }

    fn block_size(&self, name: &str) -> u64 {
        fs::metadata(self.at("db").join(name)).unwrap().blksize()
    }
}

/// Runs a command with `--json`, and returns the report of a migration.
fn report(test_dir: &TestDir, line: &str) -> Value {
    let done = test_dir.command(&format!("{line} --json")).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{line}: {said}");
    follows_schema("apply-new-pool", serde_json::from_slice(&done.stdout).unwrap())
}

/// Sets the modification time of a file.
fn touch(path: &Path, time: &str) {
    assert!(Command::new("touch").args(["-d", time]).arg(path).status().unwrap().success());
}

#[test]
fn files_move_to_another_pool_and_back() {
    skip_without_fuse!();
    let files = Files::new();
    let before = files.tree();
    let planned = files.report("apply plan.json --new-pool fast --dry-run");
    let moves = planned["assessment"]["datasets"].as_array().unwrap();
    assert_eq!((moves.len(), &moves[1]["target"]), (2, &json!("fast/db/log")));
    assert_eq!(
        (&moves[0]["settings"]["recordsize"], &moves[0]["settings"]["logbias"]),
        (&json!("16K"), &json!("throughput"))
    );
    assert_eq!(
        moves[1]["settings"]["recordsize"], "131072",
        "the plan recommends nothing for the log: {planned}"
    );
    let text = files.run("apply plan.json --new-pool fast --dry-run");
    assert!(text.contains("recordsize  128K → 16K") && text.contains("tank/db on "), "{text}");
    files.is_on_tank();

    let done = files.report("apply plan.json --new-pool fast --yes");
    assert_eq!((&done["outcome"]["moved"], &done["outcome"]["files"]), (&json!(true), &json!(50)), "{done}");
    assert!(files.tree() == before, "content and attributes are the same");
    files.is_on_fast();
    assert_eq!((files.block_size("base/1/3"), files.block_size("sparse")), (16 << 10, 16 << 10));
    assert!(fs::metadata(files.at("db/sparse")).unwrap().blocks() < 1000, "holes stay holes");
    let again = files.report("apply plan.json --new-pool fast --yes");
    assert_eq!((&again["outcome"]["moved"], &again["outcome"]["files"]), (&json!(true), &json!(0)));
    files.fails("apply plan.json --yes", 3, &["refused", "is on fast", "hint: "]);
    files.fails("apply plan.json --new-pool other --yes", 3, &["refused", "is on fast", "hint: "]);
    files.fails("undo plan.json --discard --yes", 3, &["refused", "zfs destroy -r tank/db"]);

    let undone = files.report("undo plan.json --yes");
    assert_eq!((&undone["outcome"]["moved"], &undone["outcome"]["unchanged"]), (&json!(false), &json!(true)));
    assert!(files.tree() == before);
    files.is_on_tank();

    // What is written on the new pool comes back.
    files.run("apply plan.json --new-pool fast --yes");
    fs::write(files.at("db/base/1/3"), vec![7; 300_000]).unwrap();
    fs::remove_file(files.at("db/base/1/5")).unwrap();
    fs::write(files.at("db/log/new"), vec![8; 300_000]).unwrap();
    fs::rename(files.at("db/base"), files.at("db/moved")).unwrap();
    let changed = files.tree();
    let undone = files.report("undo plan.json --yes");
    assert_eq!(
        (&undone["outcome"]["unchanged"], &undone["outcome"]["files"]),
        (&json!(false), &json!(50)),
        "{undone}"
    );
    assert!(files.tree() == changed);
    files.is_on_tank();
    assert_eq!(files.block_size("moved/1/2"), 128 << 10);
}

/// Runs that are killed after each message that they print, and then continued or undone.
#[test]
fn a_move_that_is_killed_continues_or_is_undone() {
    skip_without_fuse!();
    let files = Files::new();
    let before = files.tree();
    let kill_after = |line: &str, text: &str| -> bool {
        let mut command = files.plain();
        command.args(line.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let is_said = said.any(|line| line.contains(text));
        child.kill().unwrap();
        child.wait().unwrap();
        is_said
    };
    let forth = "apply plan.json --new-pool fast --yes";
    let steps = [
        "zfs create",
        "copying what has changed",
        "zfs snapshot",
        "mounting the datasets",
        "zfs unmount tank/db/log",
        "zfs unmount tank/db",
        "zfs destroy",
        // Only when it moves back.
        "zfs destroy fast/db/log",
    ];
    let mut killed = 0;
    for (at, step) in steps.iter().enumerate() {
        killed += u32::from(kill_after(forth, step));
        if at % 2 == 0 {
            files.run("undo plan.json --yes");
        } else {
            files.run(forth);
            assert!(files.tree() == before, "after {step:?}");
            files.is_on_fast();
            fs::write(files.at("db/log/3"), format!("written after {step}")).unwrap();
            let changed = files.tree();
            killed += u32::from(kill_after("undo plan.json --yes", step));
            files.run("undo plan.json --yes");
            assert!(files.tree() == changed, "after {step:?}");
            fs::write(files.at("db/log/3"), "record 3 ".repeat(9_000)).unwrap();
            let (_, _, seconds, nanoseconds, ..) = before[Path::new("log/3")];
            touch(&files.at("db/log/3"), &format!("@{seconds}.{nanoseconds:09}"));
        }
        assert!(files.tree() == before, "after {step:?}");
        files.is_on_tank();
    }
    assert!(killed >= 7, "{killed} runs were killed");
}

/// Ctrl-C after every second message that a move prints: everything is as before, or it goes on.
#[test]
fn a_move_that_is_interrupted_continues_or_is_undone() {
    skip_without_fuse!();
    let files = Files::new();
    let before = files.tree();
    let interrupt = |line: &str, lines: usize| -> (Option<i32>, String) {
        let mut command = files.plain();
        command.args(line.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut messages = BufReader::new(child.stderr.take().unwrap());
        let mut text = String::new();
        for _ in 0..lines {
            messages.read_line(&mut text).unwrap();
        }
        Command::new("kill").args(["-INT", &child.id().to_string()]).stderr(Stdio::null()).status().unwrap();
        std::io::Read::read_to_string(&mut messages, &mut text).unwrap();
        (child.wait().unwrap().code(), text)
    };
    let forth = "apply plan.json --new-pool fast --yes";
    let mut stopped = 0;
    for (at, lines) in (0..).step_by(2).enumerate() {
        let (code, text) = interrupt(forth, lines);
        // Without a handler yet, the signal ends the process before it has done anything.
        assert!(matches!(code, None | Some(0 | 130)), "after {lines} lines: {code:?} {text}");
        assert!(files.tree() == before, "after {lines} lines: {text}");
        stopped += u32::from(code == Some(130));
        if at % 2 == 0 && code != Some(0) {
            let undone = files.command("undo plan.json --yes").output().unwrap();
            let said = String::from_utf8_lossy(&undone.stderr);
            // Nothing may have begun.
            assert!(undone.status.success() || said.contains("the plan was not applied"), "{said}");
            files.is_on_tank();
            continue;
        }
        files.run(forth);
        assert!(files.tree() == before, "after {lines} lines: {text}");
        files.is_on_fast();
        let (back, said) = interrupt("undo plan.json --yes", lines);
        assert!(matches!(back, None | Some(0 | 130)), "undo after {lines} lines: {back:?} {said}");
        assert!(files.tree() == before, "undo after {lines} lines: {said}");
        files.run("undo plan.json --yes");
        assert!(files.tree() == before, "undo after {lines} lines: {said}");
        files.is_on_tank();
        if code == Some(0) && text.lines().count() <= lines {
            break;
        }
    }
    assert!(stopped > 0, "no run was interrupted");
}

#[test]
fn refusals_to_move() {
    skip_without_fuse!();
    let files = Files::new();
    let before = files.tree();
    let refused = |line: &str, words: &[&str]| {
        files.fails(line, 3, &[&["refused"], words].concat());
        assert!(files.tree() == before);
    };
    let line = "apply plan.json --new-pool fast --yes";
    refused("apply plan.json --new-pool tank --yes", &["is in the pool tank already", "hint: "]);
    refused("apply plan.json --new-pool fast/none --yes", &["fast/none does not exist", "hint: "]);
    refused("apply plan.json --new-pool absent --yes", &["no pool named absent is mounted", "hint: "]);
    files.run("dataset create fast/db");
    refused(line, &["fast/db exists", "hint: "]);
    files.run("dataset destroy fast/db");
    files.run("dataset create tank/db/other");
    refused(line, &["tank/db/other is below tank/db", "hint: "]);
    files.run("dataset destroy tank/db/other");
    files.run("dataset create fast/small -o quota=1M");
    refused("apply plan.json --new-pool fast/small --yes", &["available, but the files take", "hint: "]);
    files.run("dataset destroy fast/small");
    let open = fs::OpenOptions::new().append(true).open(files.at("db/base/1/0")).unwrap();
    refused(line, &["is running", "--unit"]);
    drop(open);

    // A program that only reads keeps the dataset from being unmounted.
    let reading = fs::File::open(files.at("db/base/1/0")).unwrap();
    refused(line, &["hint: a program uses it", "the database is on the datasets that it was on"]);
    assert_eq!(files.places(), [Some("tank/db".to_owned()), Some("tank/db/log".to_owned())]);
    drop(reading);
    files.run("undo plan.json --yes");
    files.is_on_tank();
    assert_eq!(
        files.report("undo plan.json --yes")["outcome"]["moved"],
        json!(false),
        "a second time, there is nothing to do"
    );
    files.fails("apply plan.json --new-pool fast --no-move", 2, &["cannot be used with"]);
    assert!(files.tree() == before);
}

/// Starts a run, and kills it when it says that it begins a step.
fn kill_at(mut command: Command, step: &str) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains(step)));
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success(), "it was killed");
}

/// The unit of a database that does not run is masked until the datasets are in their places, also after a kill.
#[test]
fn a_unit_that_does_not_run_cannot_be_started_while_its_database_moves() {
    skip_without_fuse!();
    let files = Files::new();
    systemctl::install(&files, "inactive");
    let run = |line: &str| {
        let done = with_unit(&files, line).output().unwrap();
        (done.status.code(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    let (forth, back) = ("apply plan.json --new-pool fast --yes", "undo plan.json --yes");
    for line in [forth, back] {
        let (code, said) = run(line);
        assert!(code == Some(0) && said.contains("+ systemctl mask --runtime"), "{said}");
        assert_eq!(take_verbs(&files), ["mask", "unmask"], "it is not started: {said}");
    }
    files.is_on_tank();

    // A run that is refused.
    let open = fs::OpenOptions::new().append(true).open(files.at("db/base/1/0")).unwrap();
    let (code, said) = run(forth);
    assert!(code == Some(3) && said.contains("open for writing"), "{said}");
    drop(open);
    assert_eq!(
        (take_verbs(&files), load_state(&files)),
        (vec!["mask".into(), "unmask".into()], "loaded".into())
    );

    for (step, after) in [("zfs unmount tank/db/log", forth), ("mounting the datasets", back)] {
        kill_at(with_unit(&files, forth), step);
        assert_eq!((take_verbs(&files), load_state(&files)), (vec!["mask".to_owned()], "masked".to_owned()));
        // After a crash of the host, the mask is gone, and the datasets are not mounted.
        let is_crash = after == back;
        if is_crash {
            fs::write(files.at("load"), "loaded\n").unwrap();
        }
        let (code, said) = run(after);
        let verbs = take_verbs(&files);
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(verbs, if is_crash { vec!["mask", "unmask"] } else { vec!["unmask"] }, "{said}");
        assert_eq!(load_state(&files), "loaded");
        if after == forth {
            run(back);
            take_verbs(&files);
        }
        files.is_on_tank();
    }
}

/// A run that does not know the unit removes the mask of one that was killed, whether that has stopped the database or found it stopped.
#[test]
fn any_run_removes_the_masks_of_those_before_and_no_others() {
    skip_without_fuse!();
    let files = Files::new();
    systemctl::install(&files, "inactive");
    // The database has no files open.
    fs::write(files.at("db.sh"), "exit 0\n").unwrap();
    let write = |name: &str, text: &str| fs::write(files.at(name), text).unwrap();
    let run = |mut command: Command| {
        let done = command.output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{said}");
        said
    };
    let (forth, back) = ("apply plan.json --new-pool fast --yes", "undo plan.json --yes");
    for (state, after) in [("active", forth), ("active", back), ("inactive", forth), ("inactive", back)] {
        write("active", state);
        kill_at(with_unit(&files, forth), "zfs unmount tank/db/log");
        let verbs = if state == "active" { &["stop", "mask"][..] } else { &["mask"] };
        assert_eq!(take_verbs(&files), verbs);
        assert_eq!(load_state(&files), "masked");
        let said = run(without_unit(&files, after));
        assert_eq!(take_verbs(&files), ["unmask"], "{said}");
        assert_eq!(load_state(&files), "loaded");
        assert_eq!(said.contains("start it now"), state == "active", "{said}");
        if after == forth {
            run(without_unit(&files, back));
        }
        files.is_on_tank();
    }

    // A run with another unit, which is masked too.
    write("active", "inactive");
    kill_at(with_unit(&files, forth), "zfs unmount tank/db/log");
    run(without_unit(&files, &format!("{forth} --unit other.service")));
    let calls = fs::read_to_string(files.at("calls")).unwrap();
    let is_called = |verb: &str| calls.contains(&format!("<{verb}><--runtime><other.service>"));
    assert!(is_called("mask") && is_called("unmask"), "{calls}");
    assert_eq!(load_state(&files), "loaded", "{calls}");
    run(without_unit(&files, back));
    fs::remove_file(files.at("calls")).unwrap();

    // The administrator masks the unit after the end of a killed run has unmasked it.
    for state in ["active", "inactive"] {
        write("active", state);
        kill_at(with_unit(&files, forth), "copying what has changed");
        until("it is unmasked", || load_state(&files) == "loaded");
        let is_active = || fs::read_to_string(files.at("active")).is_ok_and(|text| text.trim() == "active");
        until("it is started", || state == "inactive" || is_active());
        write("active", "inactive");
        write("load", "masked");
        // The guardian may still hold the lock.
        until("the next run has ended", || without_unit(&files, forth).output().unwrap().status.success());
        assert_eq!(load_state(&files), "masked");
        run(with_unit(&files, back));
        assert_eq!(load_state(&files), "masked");
        write("load", "loaded");
        files.is_on_tank();
    }
}
