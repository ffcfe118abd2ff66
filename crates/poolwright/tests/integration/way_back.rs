//! What `apply` and `undo` leave after errors: everything that can be restored is restored, and the same command goes on.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::common::mounted::{Mounted, umount, until};
use crate::common::second_pool::write_plan;
use crate::common::skip_without_fuse;
use serde_json::{Value, json};

/// A mounted pool with files of noise, and a plan for it.
struct Database(Mounted);

impl std::ops::Deref for Database {
    type Target = Mounted;

    fn deref(&self) -> &Mounted {
        &self.0
    }
}

impl Database {
    fn new() -> Database {
        Database::on("a.img:1G", json!({"recordsize": "16K"}))
    }

    /// On these vdevs, with these recommendations of the plan.
    fn on(vdevs: &str, recommended: Value) -> Database {
        let database = Database(Mounted::on(vdevs));
        let noise: Vec<u8> =
            (0..250_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        fs::create_dir(database.at("m/base")).unwrap();
        for i in 0..12 {
            fs::write(database.at(&format!("m/base/{i}")), &noise).unwrap();
        }
        let m = database.at("m").canonicalize().unwrap();
        write_plan(&database, None, &m, &m, recommended);
        database
    }

    /// Adds a directory of this name, and a role of the plan that moves it into a dataset of its own.
    fn with_log(self, name: &str) -> Database {
        let log = self.at("m").canonicalize().unwrap().join(name);
        fs::create_dir(&log).unwrap();
        fs::write(log.join("record"), "record ".repeat(30_000)).unwrap();
        let mut plan: Value = serde_json::from_slice(&fs::read(self.at("plan.json")).unwrap()).unwrap();
        let mut role = plan["roles"][0].clone();
        role["role"] = json!("wal");
        (role["path"], role["paths"]) = (json!(log), json!([log]));
        let new = self.new_mountpoint();
        role["place"] =
            json!({"mountpoint": new, "dataset": "tank", "separable": true, "how": "a link", "link": log});
        role["recommended"] = json!({"recordsize": "64K"});
        role["together_with"] = json!([]);
        plan["roles"].as_array_mut().unwrap().push(role);
        fs::write(self.at("plan.json"), plan.to_string()).unwrap();
        self
    }

    fn new_mountpoint(&self) -> PathBuf {
        self.at("m").canonicalize().unwrap().with_file_name("m-wal")
    }

    fn is_default(&self) -> bool {
        self.json("dataset get recordsize tank")["values"][0]["source"] == "default"
    }

    fn datasets(&self) -> Vec<String> {
        let list = self.json("dataset list");
        list["datasets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|of| of["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The files with their contents, without those of hidden directories.
    fn contents(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let (mut found, mut rest) = (BTreeMap::new(), vec![self.at("m")]);
        while let Some(dir) = rest.pop() {
            for entry in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap()) {
                let is_hidden = entry.file_name().to_string_lossy().starts_with(".poolwright");
                match entry.file_type().unwrap() {
                    _ if is_hidden => {}
                    kind if kind.is_dir() => rest.push(entry.path()),
                    _ => drop(found.insert(entry.path(), fs::read(entry.path()).unwrap())),
                }
            }
        }
        found
    }

    /// The hidden directory with copies.
    fn hidden(&self) -> Option<PathBuf> {
        let mut entries = fs::read_dir(self.at("m")).unwrap().map(|entry| entry.unwrap().path());
        entries.find(|path| path.file_name().unwrap().to_string_lossy().starts_with(".poolwright"))
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

#[test]
fn an_undo_that_cannot_remove_the_copies_restores_the_properties() {
    skip_without_fuse!();
    let database = Database::new();
    let before = database.contents();
    let mut command = database.plain();
    command.args(["apply", "plan.json", "--yes", "--online", "--rate", "1M"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "copying files"));
    until("there are copies", || {
        database.hidden().is_some_and(|dir| fs::read_dir(dir).unwrap().next().is_some())
    });
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
    assert!(!database.is_default());

    // The owner of the mount point can do this at any time.
    let (hidden, aside) = (database.hidden().unwrap(), database.at("m/aside"));
    fs::rename(&hidden, &aside).unwrap();
    fs::create_dir(&hidden).unwrap();
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o755)).unwrap();
    database.fails("undo plan.json --yes", 3, &["was not created by this plan", "hint: "]);
    assert!(database.is_default(), "the rest was restored");
    database.fails("undo plan.json --yes", 3, &["was not created by this plan", "hint: "]);
    fs::remove_dir(&hidden).unwrap();
    fs::rename(&aside, &hidden).unwrap();
    database.run("undo plan.json --yes");
    assert!(database.is_default() && database.hidden().is_none() && database.contents() == before);
    database.umount();
}

#[test]
fn a_dataset_that_is_mounted_twice_is_left_alone() {
    skip_without_fuse!();
    if !is_root() {
        eprintln!("skipped: only root can mount a directory twice");
        return;
    }
    let database = Database::new();
    let before = database.contents();
    let second = database.at("second");
    fs::create_dir(&second).unwrap();
    let mount_again = |dir: &Path| {
        assert!(Command::new("mount").arg("--bind").args([dir, &second]).status().unwrap().success());
    };
    let refused = |line: &str| {
        database.fails(
            line,
            3,
            &["refused", "tank is also mounted on", "second, through which", "hint: unmount"],
        );
        assert!(database.contents() == before);
        until("it can be unmounted", || umount(&second));
    };
    for line in ["apply plan.json --dry-run", "apply plan.json --yes"] {
        mount_again(&database.at("m"));
        refused(line);
        // Nothing was begun.
        database.fails("undo plan.json --yes", 3, &["was not applied"]);
    }
    mount_again(&database.at("m/base"));
    refused("apply plan.json --yes");
    database.run("apply plan.json --yes");
    for dir in ["m", "m/base"] {
        mount_again(&database.at(dir));
        refused("undo plan.json --yes");
        assert!(!database.is_default());
    }
    database.run("undo plan.json --yes");
    assert!(database.is_default() && database.contents() == before);
    database.umount();
}

/// That a plan whose new dataset cannot be created leaves nothing of it.
fn leaves_nothing(database: &Database, causes: &[&str]) {
    let before = database.contents();
    let done = database.command("apply plan.json --yes").output().unwrap();
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && !text.contains("panicked"), "{text}");
    for expected in [causes, &["everything is as before"]].concat() {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!database.new_mountpoint().exists(), "{text}");
    assert_eq!(database.datasets(), ["tank"]);
    assert!(database.is_default() && database.hidden().is_none() && database.contents() == before);
    // The journal says so.
    assert_eq!(database.json("undo plan.json --yes")["action"], "nothing");
}

/// The space for the files suffices, because an empty directory needs none, but that for the dataset does not.
#[test]
fn a_dataset_that_cannot_be_created_leaves_nothing() {
    skip_without_fuse!();
    let database = Database::on("a.img:256M", json!({})).with_log("pg_wal");
    fs::remove_file(database.at("m/pg_wal/record")).unwrap();
    let mut filler = fs::File::create(database.at("m/filler")).unwrap();
    let mut size = 1 << 20;
    let is_full = || !database.command("dataset create tank/probe").output().unwrap().status.success();
    while !is_full() {
        database.run("dataset destroy tank/probe");
        let noise: Vec<u8> =
            (0..size / 4).flat_map(|n: u32| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
        while filler.write_all(&noise).and_then(|()| filler.sync_all()).is_ok() {}
        size = (size / 2).max(4096);
    }
    drop(filler);
    leaves_nothing(&database, &["zfs create -o recordsize=64K tank/pg_wal", "space"]);
    database.umount();
}

/// No dataset can have this name.
#[test]
fn a_directory_that_cannot_name_a_dataset_is_refused() {
    skip_without_fuse!();
    let database = Database::new().with_log("pg+wal");
    let before = database.contents();
    let done = database.command("apply plan.json --yes").output().unwrap();
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && text.contains("invalid name \"tank/pg+wal\""), "{text}");
    assert!(database.is_default() && !database.new_mountpoint().exists() && database.contents() == before);
    database.fails("undo plan.json --yes", 3, &["was not applied"]);
    database.umount();
}

#[test]
fn a_mount_point_that_cannot_be_created_leaves_nothing() {
    skip_without_fuse!();
    let database = Database::new().with_log("pg_wal");
    let chattr = |flag: &str| {
        let done = Command::new("chattr").arg(flag).arg(database.dir.path()).stderr(Stdio::null()).status();
        done.is_ok_and(|status| status.success())
    };
    if !chattr("+i") {
        eprintln!("skipped: the file system of the test has no immutable directories");
        return;
    }
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        leaves_nothing(&database, &["cannot create", "m-wal"]);
    }));
    assert!(chattr("-i"));
    result.unwrap();
    database.run("apply plan.json --yes");
    database.run("undo plan.json --yes");
    database.umount();
}
