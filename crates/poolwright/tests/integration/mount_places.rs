//! Permitted and refused mount points, mounts directly after unmounts, refused exports, and logs.

use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::Deref;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::mounted::{is_mounted, umount_soon as umount, until};
use crate::common::skip_without_fuse;

/// A pool `tank`, and directories to mount on. Dropping it unmounts everything.
struct TestDir(crate::common::TestDir);

impl Deref for TestDir {
    type Target = crate::common::TestDir;

    fn deref(&self) -> &crate::common::TestDir {
        &self.0
    }
}

impl TestDir {
    fn new() -> TestDir {
        let test_dir = crate::common::TestDir::new();
        for dir in ["m", "n", "full"] {
            std::fs::create_dir(test_dir.at(dir)).unwrap();
        }
        test_dir.run("pool create tank img:1G");
        TestDir(test_dir)
    }

    fn is_mounted(&self, dir: &str) -> bool {
        is_mounted(&self.at(dir))
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        for dir in ["m/sub", "full", "n", "m", "m"] {
            if self.is_mounted(dir) {
                umount(&self.at(dir));
            }
        }
        // An owner that is ending still has the files open.
        let _ = self.command("pool export tank").output();
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

#[test]
fn a_log_is_kept_for_what_it_says_and_a_failed_mount_makes_none() {
    skip_without_fuse!();
    let p = TestDir::new();
    p.fails("mount none m --background", 1, &["no such pool: \"none\""]);
    p.fails("mount tank/none m --background", 1, &["no such dataset"]);
    let logs = || std::fs::read_dir(p.at("state/log")).map_or(0, |all| all.count());
    assert_eq!(logs(), 0);
    let log = p.at("state/log/tank.log");
    let says = |fragments: &str| std::fs::read_to_string(&log).is_ok_and(|text| text.contains(fragments));
    p.run("mount tank m --background --arc 64M");
    assert!(umount(&p.at("m")));
    until("the export is logged", || says("note: tank exported\n"));
    p.run("pool export tank");
    assert_eq!(logs(), 0, "a log with only routine lines is removed");

    p.run("pool import tank img");
    p.run("mount tank m --background --arc 64M");
    p.run("pool export tank");
    let left = std::fs::read_to_string(&log).unwrap_or_default();
    assert_eq!(logs(), 0, "lines that come late do not make it again: {left}");

    p.run("pool import tank img");
    p.run("mount tank m --background --arc 64M");
    until("the mount is logged", || says("mounted on"));
    let mut file = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
    file.write_all(b"2026-01-01T00:00:00Z [1] ASSERT at x.c:1\n").unwrap();
    drop(file);
    let done = p.command("pool export tank").assert().success();
    let messages = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
    assert!(messages.contains("the log of tank is kept") && says("ASSERT"), "{messages}");
}

/// Mounts in the background, and accesses the mount at once.
fn mount_and_use(p: &TestDir, line: &str, dir: &str) {
    p.run(&format!("mount {line} {dir} --background --arc 64M"));
    let answers = Command::new("stat").args(["-f", "-c", "%T"]).arg(p.at(dir)).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&answers.stdout).trim(), "fuseblk", "{line}: {answers:?}");
    assert!(p.is_mounted(dir), "{line}");
    std::fs::write(p.at(dir).join("used"), line).unwrap();
}

#[test]
fn a_mount_right_after_an_unmount_works() {
    skip_without_fuse!();
    let p = TestDir::new();
    for round in 0..25 {
        mount_and_use(&p, "tank", "m");
        assert!(umount(&p.at("m")), "round {round}");
    }
    // The process continues for another mount.
    p.run("dataset create tank/db");
    mount_and_use(&p, "tank", "m");
    for round in 0..25 {
        mount_and_use(&p, "tank/db", "n");
        assert!(umount(&p.at("n")), "round {round}");
        p.run("dataset get recordsize tank/db");
    }
    assert!(umount(&p.at("m")));
}

#[test]
fn a_pool_is_exported_right_after_an_unmount() {
    skip_without_fuse!();
    let p = TestDir::new();
    for round in 0..12 {
        mount_and_use(&p, "tank", "m");
        assert!(umount(&p.at("m")), "round {round}");
        if round % 2 == 0 {
            p.run("pool status tank");
        }
        assert_eq!(p.run("pool export tank"), "tank exported\n", "round {round}");
        let labels = p.json(&format!("pool import -d {}", p.dir.path().display()));
        assert_eq!(labels["pools"][0]["state"], "exported", "round {round}");
        p.run("pool import tank img");
    }
}

/// Sends a request directly to the owner, which must not rely on a client's checks.
fn ask_owner(p: &TestDir, request: &Value) -> Value {
    let mut socket = UnixStream::connect(p.at("run/tank.sock")).unwrap();
    socket.write_all(format!("{request}\n").as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

#[test]
fn existing_contents_are_not_mounted_over() {
    skip_without_fuse!();
    let p = TestDir::new();
    for dataset in ["tank/a", "tank/b"] {
        p.run(&format!("dataset create {dataset}"));
    }
    std::fs::write(p.at("full/.file"), "mine").unwrap();
    p.fails("mount tank full", 3, &["refused", "/full", "not empty", ".file", "\nhint: ", "-O"]);
    mount_and_use(&p, "tank", "m");
    p.fails("mount tank/a m", 3, &["refused", "tank (fuse.poolwright) is already mounted there", "\nhint: "]);
    p.fails("mount tank/a full", 3, &["not empty"]);
    let mut inside = p.plain();
    inside.args(["mount", "tank/a", "."]).current_dir(p.at("n"));
    let refused = inside.output().unwrap();
    let messages = String::from_utf8_lossy(&refused.stderr);
    assert!(
        refused.status.code() == Some(3) && messages.contains("working directory of process"),
        "{messages}"
    );

    let wanted = |dir: &Path| serde_json::json!({"verb": "mount", "dataset": "tank/a", "dir": dir});
    for (dir, errno) in [
        (Path::new("/proc"), 1),
        (Path::new("/usr/bin"), 1),
        (&p.at("full"), 39),
        (&p.at("m"), 16),
        (&std::env::current_dir().unwrap(), 16), // the working directory of the requesting process
    ] {
        let reply = ask_owner(&p, &wanted(dir));
        assert_eq!(reply["error"]["errno"], errno, "{dir:?}: {reply}");
    }
    // With -O, but not over system directories.
    let mut over = wanted(Path::new("/proc/self"));
    over["overlay"] = true.into();
    assert_eq!(ask_owner(&p, &over)["error"]["errno"], 1);
    p.run("mount tank/a full -O");
    assert!(p.is_mounted("full") && !p.at("full/.file").exists());
    assert!(umount(&p.at("full")));
    assert_eq!(std::fs::read_to_string(p.at("full/.file")).unwrap(), "mine");
    p.run("mount tank/b m -O");
    assert!(umount(&p.at("m")) && p.at("m/used").exists() && umount(&p.at("m")));
}

#[test]
fn the_system_is_not_mounted_over() {
    // In a separate mount namespace, so that a missing refusal does not hide directories of this machine.
    skip_without_fuse!();
    if !is_root() {
        eprintln!("skipped: a mount namespace of its own needs root");
        return;
    }
    let p = TestDir::new();
    for (dir, options, fragments) in [
        ("/", "", "needs its contents to run"),
        ("/proc", "", "needs its contents to run"),
        ("/proc", "-O", "needs its contents to run"),
        ("/dev", "-O", "needs its contents to run"),
        ("/usr", "", "system directory"),
        ("/tmp", "", "system directory"),
    ] {
        let program = assert_cmd::cargo::cargo_bin!("poolwright");
        let mut command = Command::new("timeout");
        command.args(["120", "unshare", "--mount", "--propagation", "private"]).arg(program);
        command.args(["mount", "tank", dir]).args(options.split_whitespace()).current_dir(p.dir.path());
        command.env("POOLWRIGHT_STATE_DIR", p.at("state")).env("POOLWRIGHT_RUNTIME_DIR", p.at("run"));
        let out = command.output().unwrap();
        let messages = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(3), "{dir}: {messages}");
        assert!(messages.contains(fragments) && messages.contains("\nhint: "), "{dir}: {messages}");
    }
}

#[test]
fn a_refused_export_leaves_every_dataset_mounted() {
    skip_without_fuse!();
    let p = TestDir::new();
    p.run("dataset create tank/a");
    p.run("dataset create tank/b");
    mount_and_use(&p, "tank", "m");
    p.run("mount tank/a n");
    std::fs::create_dir(p.at("m/sub")).unwrap();
    p.run("mount tank/b m/sub");
    let all = |p: &TestDir| ["m", "n", "m/sub"].map(|dir| p.is_mounted(dir));
    for held in ["m/held", "n/held", "m/sub/held"] {
        let file = std::fs::File::create(p.at(held)).unwrap();
        // Twice, because the check itself must not change anything.
        for _ in 0..2 {
            p.fails("pool export tank", 3, &["refused", "in use"]);
            assert_eq!(all(&p), [true; 3], "{held}");
        }
        drop(file);
    }
    p.run("dataset list tank");
    std::fs::write(p.at("n/after"), "x").unwrap();
    assert_eq!(p.run("pool export tank"), "tank exported\n");
    assert_eq!(all(&p), [false; 3]);
}
