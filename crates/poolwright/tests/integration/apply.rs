//! `poolwright apply` and `undo` on a mounted pool.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::mounted::{Mounted, umount, until};
use crate::common::{TestDir, follows_schema, skip_without_fuse};
use poolwright_plan::Plan;
use serde_json::{Value, json};

/// The attributes of a file or directory that apply and undo keep, and its content.
type Manifest = BTreeMap<PathBuf, (u32, u32, u64, i64, i64, u64, Vec<u8>)>;

/// What is below a directory.
fn manifest(dir: &Path) -> Manifest {
    let (mut found, mut rest) = (Manifest::new(), vec![dir.to_owned()]);
    while let Some(path) = rest.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let content = match () {
            () if meta.is_dir() => {
                rest.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                Vec::new()
            }
            () if meta.is_file() && meta.len() < 64 << 20 => fs::read(&path).unwrap(),
            () if meta.is_file() => {
                let (file, mut end) = (fs::File::open(&path).unwrap(), [0; 64]);
                file.read_exact_at(&mut end, meta.len() - 64).unwrap();
                end.to_vec()
            }
            () => fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
        };
        let times = (meta.mtime(), meta.mtime_nsec());
        let links = if meta.is_dir() { 0 } else { meta.nlink() };
        found.insert(path, (meta.mode(), meta.uid(), links, times.0, times.1, meta.len(), content));
    }
    found
}

/// A mounted pool with files of several kinds.
struct Database(Mounted);

impl std::ops::Deref for Database {
    type Target = Mounted;

    fn deref(&self) -> &Mounted {
        &self.0
    }
}

impl Database {
    fn new(pool: &str) -> Database {
        let database = Database(Mounted::on(pool));
        let at = |name: &str| database.at("m").join(name);
        fs::create_dir_all(at("base/1")).unwrap();
        for i in 0..30_u32 {
            let row = format!("{i} row of a table that compresses well; ");
            let size = [100, 9_000, 200_000, 1_500_000][i as usize % 4];
            fs::write(at(&format!("base/1/{i}")), row.repeat(size / row.len())).unwrap();
        }
        fs::hard_link(at("base/1/2"), at("base/link")).unwrap();
        fs::write(at("empty"), "").unwrap();
        fs::set_permissions(at("base/1/3"), fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("base/1", at("symlink")).unwrap();
        let sparse = fs::File::create(at("sparse")).unwrap();
        sparse.write_all_at(&[9; 100], 5 << 30).unwrap();
        let status =
            Command::new("touch").args(["-d", "1999-12-31 23:59:59.123456789"]).arg(at("base/1/2")).status();
        assert!(status.unwrap().success());
        database.plan(json!({"recordsize": "16K", "compression": "zstd-3"}));
        database
    }

    /// Writes a plan that recommends these properties.
    fn plan(&self, recommended: Value) {
        let example = include_str!("../../../../docs/examples/plan.json");
        let mut plan: Value = serde_json::from_str(example).unwrap();
        let m = self.at("m").canonicalize().unwrap();
        plan["subject"] = json!({"directory": m, "file_system": "fuse.poolwright", "dataset": "tank",
            "files": 1, "bytes": 1, "allocated_bytes": 1});
        let role = &mut plan["roles"][0];
        role["place"] = json!({"mountpoint": m, "separable": true});
        role["paths"] = json!([m]);
        role["path"] = json!(m);
        role["current"] = json!({"recordsize": "128K", "compression": "on"});
        role["recommended"] = recommended;
        fs::write(self.at("plan.json"), plan.to_string()).unwrap();
    }

    /// Adds a log, and a role of the plan that moves it into a dataset of its own.
    fn with_log(self) -> Database {
        let log = self.at("m/pg_wal");
        fs::create_dir_all(log.join("archive_status")).unwrap();
        for i in 0..6_u32 {
            fs::write(log.join(i.to_string()), format!("record {i} ").repeat(30_000)).unwrap();
        }
        fs::hard_link(log.join("5"), log.join("archive_status/5")).unwrap();
        std::os::unix::fs::symlink("../base", log.join("symlink")).unwrap();
        fs::set_permissions(&log, fs::Permissions::from_mode(0o2750)).unwrap();
        let touched = Command::new("touch").args(["-d", "2001-02-03 04:05:06.789"]).arg(&log).status();
        assert!(touched.unwrap().success());
        let m = self.at("m").canonicalize().unwrap();
        let (link, new) = (m.join("pg_wal"), m.with_file_name("m-wal"));
        self.edit_plan(|plan| {
            let mut role = plan["roles"][0].clone();
            role["role"] = json!("wal");
            role["path"] = json!(link);
            role["paths"] = json!([link]);
            role["place"] = json!({"mountpoint": new, "dataset": "tank", "separable": true, "how": "a link", "link": link});
            role["recommended"] = json!({"recordsize": "64K", "logbias": "throughput"});
            role["together_with"] = json!([]);
            plan["roles"].as_array_mut().unwrap().truncate(1);
            plan["roles"].as_array_mut().unwrap().push(role);
        });
        self
    }

    /// The names of all datasets.
    fn datasets(&self) -> Vec<String> {
        let list = self.json("dataset list");
        let names = list["datasets"].as_array().unwrap().iter();
        names.map(|of| of["name"].as_str().unwrap().to_owned()).filter(|name| !name.contains('@')).collect()
    }

    /// The manifest, with the files of the moved log where they were.
    fn manifest_with_log(&self) -> Manifest {
        let mut found = self.manifest();
        let (link, new) = (self.at("m/pg_wal"), self.at("m-wal"));
        if fs::symlink_metadata(&link).unwrap().is_symlink() {
            assert_eq!(fs::read_link(&link).unwrap(), new.canonicalize().unwrap());
            found.remove(&link);
            for (path, of) in manifest(&new) {
                found.insert(link.join(path.strip_prefix(&new).unwrap()), of);
            }
            // `join` of an empty path appends a separator, which `Path` ignores.
        }
        found
    }

    fn edit_plan(&self, edit: impl FnOnce(&mut Value)) {
        let mut plan = serde_json::from_slice(&fs::read(self.at("plan.json")).unwrap()).unwrap();
        edit(&mut plan);
        fs::write(self.at("plan.json"), plan.to_string()).unwrap();
    }

    /// Value and source of a property.
    fn property(&self, property: &str) -> (String, String) {
        let found = self.json(&format!("dataset get {property} tank"));
        let text = |key: &str| found["values"][0][key].as_str().unwrap().to_owned();
        (text("value"), text("source"))
    }

    fn snapshots(&self) -> usize {
        let list = self.json("dataset list -t snapshot tank");
        list["datasets"].as_array().unwrap().len()
    }

    fn block_size(&self, name: &str) -> u64 {
        fs::metadata(self.at("m").join(name)).unwrap().blksize()
    }

    fn manifest(&self) -> Manifest {
        manifest(&self.at("m"))
    }

    fn is_default(&self) -> bool {
        ["recordsize", "compression"].iter().all(|of| self.property(of).1 == "default")
    }
}

#[test]
fn a_plan_is_applied_and_undone() {
    skip_without_fuse!();
    let database = Database::new("a.img:2G");
    let before = database.manifest();
    let planned = database.json("apply plan.json --dry-run");
    let of = &planned["assessment"]["datasets"][0];
    // The empty file is not rewritten, and the hard-linked one counts once.
    assert_eq!((of["files"].as_u64(), of["rewritten_files"].as_u64()), (Some(32), Some(31)));
    assert!(
        database.is_default() && database.block_size("base/1/3") == 128 << 10,
        "a dry run changes nothing"
    );

    let done = database.json("apply plan.json --yes");
    assert_eq!(done["outcome"]["action"], "applied");
    assert_eq!(done["outcome"]["files"], 31);
    assert_eq!(done["outcome"]["downtime_s"], Value::Null, "nothing was running");
    assert!(database.manifest() == before, "content and attributes are the same");
    for name in ["base/1/2", "base/1/3", "base/link", "sparse"] {
        assert_eq!(database.block_size(name), 16 << 10, "{name}");
    }
    let inode = |name: &str| fs::metadata(database.at("m").join(name)).unwrap().ino();
    assert_eq!(inode("base/1/2"), inode("base/link"));
    let sparse = fs::metadata(database.at("m/sparse")).unwrap();
    assert!(sparse.blocks() < 1000, "holes stay holes: {} blocks", sparse.blocks());
    assert_eq!(database.property("recordsize"), ("16384".to_owned(), "local".to_owned()));
    assert_eq!(database.snapshots(), 1);

    let again = database.json("apply plan.json --yes");
    assert_eq!(again["outcome"]["action"], "nothing");
    assert_eq!(again["assessment"]["datasets"].as_array().unwrap().len(), 0);

    // A write makes a rollback impossible: it would lose the write.
    fs::write(database.at("m/base/1/3"), vec![7; 300_000]).unwrap();
    fs::write(database.at("m/new"), vec![8; 300_000]).unwrap();
    let changed = database.manifest();
    let undone = database.json("undo plan.json --yes");
    assert_eq!((undone["action"].as_str(), undone["rolled_back"].as_bool()), (Some("undone"), Some(false)));
    assert!(database.manifest() == changed);
    assert_eq!((database.block_size("base/1/2"), database.block_size("new")), (128 << 10, 128 << 10));
    assert!(database.is_default());
    assert_eq!(database.snapshots(), 0);
    assert_eq!(database.json("undo plan.json --yes")["action"], "nothing");
    database.umount();
}

#[test]
fn a_plan_is_rolled_back_if_nothing_was_written() {
    skip_without_fuse!();
    let database = Database::new("a.img:2G");
    let (before, inode) = (database.manifest(), fs::metadata(database.at("m/sparse")).unwrap().ino());
    database.run("apply plan.json --yes");
    let undone = database.json("undo plan.json --yes");
    assert_eq!((undone["action"].as_str(), undone["rolled_back"].as_bool()), (Some("undone"), Some(true)));
    assert!(database.manifest() == before);
    assert_eq!(fs::metadata(database.at("m/sparse")).unwrap().ino(), inode);
    assert!(database.is_default() && database.snapshots() == 0);

    // Applied again, and kept.
    database.run("apply plan.json --yes");
    let kept = database.json("undo plan.json --discard --yes");
    assert_eq!(kept["action"], "discarded");
    assert_eq!((database.snapshots(), database.block_size("sparse")), (0, 16 << 10));
    database.fails("undo plan.json --yes", 3, &["refused", "cannot be undone", "hint: "]);
    assert!(database.manifest() == before);
    database.umount();
}

#[test]
fn a_log_moves_into_a_dataset_of_its_own_and_back() {
    skip_without_fuse!();
    let database = Database::new("a.img:2G").with_log();
    let before = database.manifest();
    let planned = database.json("apply plan.json --dry-run");
    let moves = &planned["assessment"]["datasets"][0]["relocations"][0];
    assert_eq!((moves["dataset"].as_str(), moves["files"].as_u64()), (Some("tank/pg_wal"), Some(6)));
    assert_eq!(moves["settings"]["recordsize"], "64K");
    // The new dataset would inherit the codec that the plan recommends for the data.
    assert_eq!(moves["settings"]["compression"], "on");
    assert!(database.manifest() == before && database.datasets() == ["tank"], "a dry run changes nothing");

    let done = database.json("apply plan.json --yes");
    assert_eq!(done["outcome"]["relocated"].as_array().unwrap().len(), 1);
    assert!(database.manifest_with_log() == before, "content and attributes are the same");
    assert_eq!(database.datasets(), ["tank", "tank/pg_wal"]);
    assert_eq!((database.block_size("pg_wal/5"), database.block_size("base/1/3")), (64 << 10, 16 << 10));
    let again = database.json("apply plan.json --yes");
    assert_eq!(again["outcome"]["action"], "nothing");
    assert_eq!(again["assessment"]["datasets"].as_array().unwrap().len(), 0, "{again}");

    // Nothing was written: a rollback, and the new dataset goes.
    let undone = database.json("undo plan.json --yes");
    assert_eq!((undone["action"].as_str(), undone["rolled_back"].as_bool()), (Some("undone"), Some(true)));
    assert!(database.manifest() == before && database.is_default());
    assert_eq!((database.datasets(), database.snapshots()), (vec!["tank".to_owned()], 0));
    assert!(!database.at("m-wal").exists());

    // What was written to the new dataset comes back.
    database.run("apply plan.json --yes");
    fs::write(database.at("m/pg_wal/new"), vec![8; 300_000]).unwrap();
    fs::remove_file(database.at("m/pg_wal/0")).unwrap();
    let changed = database.manifest_with_log();
    let undone = database.json("undo plan.json --yes");
    assert_eq!((undone["action"].as_str(), undone["rolled_back"].as_bool()), (Some("undone"), Some(false)));
    assert!(database.manifest() == changed && database.datasets() == ["tank"]);
    assert_eq!(database.block_size("pg_wal/new"), 128 << 10);
    database.umount();
}

#[test]
fn a_log_that_cannot_move_is_refused() {
    skip_without_fuse!();
    let database = Database::new("a.img:2G").with_log();
    let before = database.manifest();
    let refused = |words: &[&str]| {
        database.fails("apply plan.json --yes", 3, &[&["refused", "hint: "], words].concat());
        assert!(database.manifest() == before && database.is_default());
    };
    fs::create_dir(database.at("m-wal")).unwrap();
    fs::write(database.at("m-wal/file"), "").unwrap();
    refused(&["is not empty"]);
    fs::remove_file(database.at("m-wal/file")).unwrap();
    database.run("dataset create tank/pg_wal");
    refused(&["tank/pg_wal exists"]);
    database.run("dataset destroy tank/pg_wal");
    fs::hard_link(database.at("m/pg_wal/1"), database.at("m/outside")).unwrap();
    let done = database.command("apply plan.json --yes").output().unwrap();
    let text = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(3) && text.contains("has 2 names"), "{text}");
    assert_eq!(database.datasets(), ["tank"]);
    fs::remove_file(database.at("m/outside")).unwrap();

    // A log on which another program has put a link.
    database.run("apply plan.json --yes");
    fs::remove_file(database.at("m/pg_wal")).unwrap();
    std::os::unix::fs::symlink("/tmp", database.at("m/pg_wal")).unwrap();
    database.fails("undo plan.json --yes", 3, &["neither a directory nor a link"]);
    assert!(database.datasets().contains(&"tank/pg_wal".to_owned()), "its files stay");
    until("the log can be unmounted", || umount(&database.at("m-wal")));
    database.umount();
}

/// A process that appends numbered lines to a file of the database, and rewrites another in place.
struct Writer(Child, PathBuf);

impl Drop for Writer {
    /// Also the process that the start command has started, if the test fails.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        if let Ok(pid) = fs::read_to_string(&self.1) {
            let _ = Command::new("kill").arg(pid.trim()).stderr(Stdio::null()).status();
        }
    }
}

impl Writer {
    const SCRIPT: &str = "
        n=$(wc -l <m/log); echo $$ >pid
        exec 9>>m/log
        while :; do
            n=$((n + 1)); echo line $n >&9
            printf %08d $n | dd of=m/base/1/7 bs=1 seek=$((n % 150000)) conv=notrunc 2>/dev/null
        done";

    fn start(dir: &TestDir) -> Writer {
        fs::write(dir.at("writer.sh"), Writer::SCRIPT).unwrap();
        fs::write(dir.at("stop.sh"), "kill $(cat pid); rm pid; touch stopped; sleep 0.3").unwrap();
        let start = "sh writer.sh >/dev/null 2>&1 & until [ -e pid ]; do sleep 0.05; done; touch started";
        fs::write(dir.at("start.sh"), start).unwrap();
        fs::write(dir.at("m/log"), "").unwrap();
        let mut command = Command::new("sh");
        command.arg("writer.sh").current_dir(dir.dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        until("the writer has begun", || fs::metadata(dir.at("m/log")).is_ok_and(|log| log.len() > 100));
        Writer(child, dir.at("pid"))
    }

    /// Stops the writer that the start command has started, and returns its lines.
    fn finish(mut self, dir: &TestDir) -> Vec<String> {
        let pid = fs::read_to_string(dir.at("pid")).unwrap();
        let before = fs::metadata(dir.at("m/log")).unwrap().len();
        until("the writer goes on", || fs::metadata(dir.at("m/log")).unwrap().len() > before);
        Command::new("kill").arg(pid.trim()).status().unwrap();
        let _ = self.0.kill();
        self.0.wait().unwrap();
        fs::remove_file(&self.1).unwrap();
        until("it has ended", || !Path::new("/proc").join(pid.trim()).exists());
        fs::read_to_string(dir.at("m/log")).unwrap().lines().map(str::to_owned).collect()
    }
}

#[test]
fn a_running_database_is_stopped_and_started() {
    skip_without_fuse!();
    for online in ["", "--online --max-downtime 10m"] {
        let database = Database::new("a.img:2G");
        let writer = Writer::start(&database);
        database.fails(
            "apply plan.json --yes",
            3,
            &["refused", "is running", "hint: name its unit with --unit"],
        );
        assert!(database.is_default() && !database.at("stopped").exists());
        let mut command = database.plain();
        command.args([
            "apply",
            "plan.json",
            "--yes",
            "--json",
            "--stop",
            "sh stop.sh",
            "--start",
            "sh start.sh",
        ]);
        let done = command.args(online.split_whitespace()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let report: Value = follows_schema("apply", serde_json::from_slice(&done.stdout).unwrap());
        assert!(report["outcome"]["downtime_s"].as_f64().unwrap() > 0.3, "{report}");
        assert_eq!(report["outcome"]["expected_downtime_s"].is_null(), online.is_empty());
        assert_eq!(report["assessment"]["running"]["name"], "sh");
        assert!(database.at("stopped").exists() && database.at("started").exists());
        let lines = writer.finish(&database);
        // No line was lost: the numbers go on where they were, and the file was rewritten.
        for (at, line) in lines.iter().enumerate() {
            assert_eq!(*line, format!("line {}", at + 1));
        }
        assert_eq!(database.block_size("base/1/7"), 16 << 10);
        assert_eq!(database.block_size("sparse"), 16 << 10);
        database.umount();
    }
}

#[test]
fn a_database_that_does_not_stop_is_left_alone() {
    skip_without_fuse!();
    let database = Database::new("a.img:2G");
    let writer = Writer::start(&database);
    let mut command = database.plain();
    command.args([
        "apply",
        "plan.json",
        "--yes",
        "--stop",
        "echo not now; exit 7",
        "--start",
        "touch started",
    ]);
    let done = command.output().unwrap();
    let messages = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(1), "{messages}");
    assert!(
        messages.contains("exit status 7: not now") && messages.contains("everything is as before"),
        "{messages}"
    );
    assert!(database.is_default() && database.snapshots() == 0);
    let hidden = fs::read_dir(database.at("m"))
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(".poolwright"));
    assert_eq!(hidden.count(), 0);
    writer.finish(&database);
    database.umount();
}

#[test]
fn a_plan_that_the_database_contradicted_is_refused() {
    skip_without_fuse!();
    let database = Database::new("a.img:1G");
    let plan: Plan = serde_json::from_slice(&fs::read(database.at("plan.json")).unwrap()).unwrap();
    let mut found: Value =
        serde_json::from_str(include_str!("../../../../docs/examples/confirmation.json")).unwrap();
    (found["verdict"], found["plan"]) = (json!("not-confirmed"), json!(plan.id()));
    let write = |found: &str| fs::write(database.at("plan.confirmation.json"), found).unwrap();
    write(&found.to_string());
    let refusal = ["`poolwright confirm` contradicted this plan", "hint: --unconfirmed"];
    database.fails("apply plan.json --dry-run", 3, &refusal);
    database.json("apply plan.json --dry-run --unconfirmed");
    write("{}");
    database.fails(
        "apply plan.json --dry-run",
        1,
        &["plan.confirmation.json is not a poolwright-confirmation"],
    );
    // The confirmation of another plan, which was at this path before.
    found["plan"] = json!("0123456789abcdef");
    write(&found.to_string());
    database.json("apply plan.json --dry-run");
}

#[test]
fn what_the_plan_does_not_describe_is_refused() {
    skip_without_fuse!();
    let database = Database::new("a.img:2G");
    database.fails("apply plan.json", 3, &["refused: not confirmed", "hint: --yes"]);
    let refused = |edit: fn(&mut Value), fragments: &[&str]| {
        database.plan(json!({"recordsize": "16K"}));
        database.edit_plan(edit);
        database.fails("apply plan.json --yes", 3, fragments);
    };
    refused(
        |plan| plan["subject"]["database"] = json!("PostgreSQL 15"),
        &["an unknown database", "PostgreSQL"],
    );
    refused(|plan| plan["subject"]["directory"] = json!("/gone"), &["cannot be opened"]);
    refused(
        |plan| plan["roles"][0]["place"]["dataset"] = json!("tank/other"),
        &["is on tank now", "tank/other"],
    );
    refused(
        |plan| plan["roles"][0]["current"]["recordsize"] = json!("8K"),
        &["recordsize of tank is", "was 8K"],
    );
    refused(
        |plan| {
            let base = format!("{}/base", plan["subject"]["directory"].as_str().unwrap());
            plan["roles"][0]["place"]["mountpoint"] = json!(base);
        },
        &["is not the mount point of a dataset", "hint: create a dataset with -o recordsize=16K"],
    );
    database.plan(json!({"sync": "disabled"}));
    database.fails(
        "apply plan.json --yes",
        3,
        &["can lose data", "sync=disabled", "hint: ", "--allow-unsafe sync"],
    );
    database.plan(json!({}));
    database.edit_plan(|plan| plan["verdict"] = json!("keep"));
    database.fails("apply plan.json --yes", 4, &["recommends no change"]);
    database.plan(json!({"recordsize": "16K"}));
    database.fails("undo plan.json --yes", 3, &["was not applied"]);
    database.fails("apply none.json", 1, &["cannot read none.json"]);
    database.fails("apply plan.json --stop x", 2, &["--start"]);
    assert!(database.is_default() && database.snapshots() == 0);

    // Another plan, and a property that was changed since.
    database.run("apply plan.json --yes");
    database.run("dataset set recordsize=32K tank");
    database.fails("undo plan.json --yes", 3, &["recordsize of tank is 32768", "was changed since"]);
    database.run("dataset set recordsize=16K tank");
    database.run("undo plan.json --yes");
    assert!(database.is_default());
    database.umount();
}

#[test]
fn a_pool_that_is_too_small_stays_as_it_was() {
    skip_without_fuse!();
    let database = Database::new("a.img:512M");
    let noise: Vec<u8> =
        (0..1_000_003_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    for i in 0..60 {
        let path = database.at(&format!("m/noise{i}"));
        if fs::write(&path, &noise).is_err() {
            fs::remove_file(path).unwrap();
            break;
        }
    }
    let before = database.manifest();
    database.fails("apply plan.json --yes", 3, &["refused", "available", "hint: free space"]);
    assert!(database.is_default() && database.snapshots() == 0 && database.manifest() == before);
    database.umount();
}

/// Without compression, the copies take more than the files, so the space ends while files are copied.
#[test]
fn a_quota_that_ends_while_files_are_copied_leaves_everything_as_it_was() {
    skip_without_fuse!();
    const M: u64 = 1 << 20;
    for (quota, how) in [("refquota", ""), ("quota", "--online")] {
        let database = Database::new("a.img:2G");
        for i in 0..10_u32 {
            fs::write(database.at(&format!("m/text{i}")), format!("{i} row ").repeat(1 << 20)).unwrap();
        }
        database.plan(json!({"recordsize": "16K", "compression": "off"}));
        // What was written counts from now on.
        database.run("dataset snapshot tank@now");
        database.run("dataset destroy tank@now");
        let before = database.manifest();
        let planned = database.json("apply plan.json --dry-run");
        let planned = &planned["assessment"]["datasets"][0];
        let number = |key: &str| planned[key].as_u64().unwrap();
        let used = database.json("dataset list tank")["datasets"][0]["stats"]["used"].as_u64().unwrap();
        let limit = used + number("needed") + 64 * M + 24 * M;
        assert!(number("available") > limit && number("needed") < 24 * M, "{planned}");
        database.run(&format!("dataset set {quota}={limit} tank"));
        database.fails(
            &format!("apply plan.json --yes {how}"),
            3,
            &["refused", "has only", "a quota counts too", "everything is as before"],
        );
        assert!(database.is_default() && database.snapshots() == 0, "{quota}");
        assert!(database.manifest() == before, "{quota}");
        // A dry run says the same as a run that cannot begin.
        database.run(&format!("dataset set {quota}={} tank", used + 60 * M));
        for how in ["--dry-run", "--yes"] {
            database.fails(
                &format!("apply plan.json {how}"),
                3,
                &["refused", "available", "hint: free space"],
            );
        }
        database.umount();
    }
}

/// Runs `verb` and kills it after a while. Returns its duration if it had ended by itself.
fn killed(database: &Database, verb: &str, after: Duration) -> Option<Duration> {
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

/// Whether something is mounted on a directory.
fn is_mount_point(dir: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.contains(&format!(" {} ", dir.display()))
}

/// The number of crashes of each kind; a long test sets more.
fn crashes() -> u64 {
    std::env::var("POOLWRIGHT_CRASHES").ok().and_then(|n| n.parse().ok()).unwrap_or(12)
}

/// A kill of the program, or a crash of the pool, at any point: continuing or going back gives the same end.
#[test]
fn crashes_lose_nothing() {
    skip_without_fuse!();
    crash_at_random_points(Database::new("a.img:2G"), false);
}

#[test]
fn crashes_while_a_log_moves_lose_nothing() {
    skip_without_fuse!();
    crash_at_random_points(Database::new("a.img:2G").with_log(), true);
}

/// `moves`: the plan moves a log into a dataset of its own.
fn crash_at_random_points(mut database: Database, moves: bool) {
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
            let has_dataset = is_mount_point(&database.at("m-wal"));
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
