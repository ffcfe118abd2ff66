//! `poolwright backup` of a PostgreSQL under load, on a mounted pool.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::follows_schema;
use crate::common::mounted::{Mounted, until};
use crate::common::postgres::{Load, Postgres, skip_without_postgres};
use crate::common::skip_without_fuse;
use serde_json::Value;

const RUN: &str = "backup run data/db --to tank/backup";
const CREATE: &str = "backup run data/db --to tank/backup --mountpoint backup";

/// Restores a backup, and expects that it has all rows that were acknowledged before it.
fn restore(mounted: &Mounted, arguments: &[&str], check: &str) -> Value {
    let mut command = mounted.plain();
    command.args(["backup", "verify", "tank/backup", "--json"]).args(arguments).args(["--check", check]);
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    let shown = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{arguments:?}: {said}{shown}");
    follows_schema("backup-verify", serde_json::from_slice(&done.stdout).unwrap())
}

fn snapshots(mounted: &Mounted, dataset: &str) -> Vec<String> {
    let list = mounted.json("dataset list -t snapshot -r tank");
    let names = list["datasets"].as_array().unwrap().iter().map(|of| of["name"].as_str().unwrap().to_owned());
    let prefix = format!("{dataset}@");
    names.filter(|name| name.starts_with(&prefix)).collect()
}

/// What is in the snapshots of the dataset of backups: a digest of each.
fn digests(mounted: &Mounted) -> BTreeMap<String, String> {
    let digest = |name: String| {
        let short = name.split_once('@').unwrap().1.to_owned();
        let dir = mounted.at("backup/.zfs/snapshot").join(&short);
        let script = "find . -printf '%p %y %m %U %s %T@\n' | sort | sha256sum; \
                      find . -type f -print0 | sort -z | xargs -0 cat | sha256sum";
        let done = Command::new("sh").args(["-c", script]).current_dir(dir).output().unwrap();
        assert!(done.status.success());
        (short, String::from_utf8(done.stdout).unwrap())
    };
    snapshots(mounted, "tank/backup").into_iter().map(digest).collect()
}

#[test]
fn backups_under_load_are_restored() {
    skip_without_fuse!();
    skip_without_postgres!();
    let postgres = Postgres::start();
    let load = Load::start(&postgres);
    let planned = postgres.json(&format!("{CREATE} --dry-run"));
    let assessment = &planned["assessment"];
    assert_eq!(assessment["database"], "postgresql");
    // The log is found by the link in the data directory.
    let sources = assessment["sources"].as_array().unwrap().iter();
    let datasets: Vec<&Value> = sources.map(|source| &source["dataset"]).collect();
    assert_eq!(datasets, ["tank/data", "tank/wal", "tank/wal"], "the log and a tablespace");
    assert_eq!(assessment["created_with"]["recordsize"], "1M");
    assert!(planned.get("backup").is_none() && !postgres.at("backup").exists(), "a dry run changes nothing");

    let mut acked = BTreeMap::new();
    for line in [CREATE, RUN, RUN] {
        let before = load.acked();
        let report = postgres.json(line);
        let backup = &report["backup"];
        assert!(backup["database"]["quiesced_s"].as_f64().unwrap() > 0.0, "{backup}");
        assert!(backup["database"]["backup_label"].as_str().unwrap().contains("CHECKPOINT LOCATION"));
        assert_eq!(backup["database"]["consistency"], "session");
        acked.insert(backup["name"].as_str().unwrap().to_owned(), before);
        assert!(!postgres.is_held());
        for dataset in ["tank/data", "tank/wal"] {
            assert_eq!(snapshots(&postgres, dataset), [""; 0], "the snapshots of the database are gone");
        }
    }
    assert_eq!(acked.len(), 3, "each backup has a name of its own");
    let listed = postgres.json("backup list tank/backup");
    assert_eq!(listed["backups"].as_array().unwrap().len(), 3);
    assert!(listed.get("last_good_restore_age_s").is_none());
    // None has passed a restore, so none may go.
    let pruned = postgres.json("backup prune tank/backup --keep 1");
    assert!(pruned["decisions"].as_array().unwrap().iter().all(|of| of["kept"] == true), "{pruned}");

    let expected = ["files", "start and recovery", "pg_amcheck", "pg_dumpall"];
    for (name, before) in &acked {
        let report = restore(&postgres, &[name], &Postgres::check(*before));
        let checks = report["restores"][0]["checks"].as_array().unwrap();
        let passed = |check: &&Value| check["result"] == "passed";
        let names: Vec<&str> = checks.iter().filter(passed).map(|of| of["name"].as_str().unwrap()).collect();
        assert_eq!(&names[..4], expected);
        assert_eq!(&names[5..], ["shutdown", "pg_checksums"], "{names:?}");
    }
    drop(load);
    let listed = postgres.json("backup list tank/backup");
    assert!(listed["last_good_restore_age_s"].is_u64() && listed["newest_good_backup_age_s"].is_u64());
    let text = postgres.run("backup list tank/backup");
    assert!(text.contains("passed") && text.contains("last restore that passed: "), "{text}");

    let dry = postgres.json("backup prune tank/backup --keep 1 --dry-run");
    assert_eq!(dry["decisions"].as_array().unwrap().iter().filter(|of| of["kept"] == false).count(), 2);
    assert_eq!(snapshots(&postgres, "tank/backup").len(), 3);
    postgres.json("backup prune tank/backup --keep 1");
    assert_eq!(snapshots(&postgres, "tank/backup").len(), 1);
}

#[test]
fn a_damaged_backup_does_not_pass() {
    skip_without_fuse!();
    skip_without_postgres!();
    let postgres = Postgres::start();
    postgres.run(CREATE);
    restore(&postgres, &[], "true");
    // A page of a table is damaged in the database itself, so that the next backup has the damage.
    let path = postgres.ask("SELECT pg_relation_filepath('pgbench_accounts')");
    let file = fs::OpenOptions::new().write(true).open(postgres.at("data/db").join(path)).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0x5a; 4096], 40 * 8192 + 2000).unwrap();
    postgres.run(RUN);
    let done = postgres.command("backup verify tank/backup --json").output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    let report: Value = follows_schema("backup-verify", serde_json::from_slice(&done.stdout).unwrap());
    assert_eq!(report["restores"][0]["passed"], false, "{report}");
    // The good one stays, and the newest.
    let pruned = postgres.json("backup prune tank/backup --keep 0");
    let kept: Vec<&Value> = pruned["decisions"].as_array().unwrap().iter().map(|of| &of["kept"]).collect();
    assert_eq!(kept, [true, true], "{pruned}");
}

/// The stages as standard error names them.
const STAGES: [&str; 6] = [
    "quiescing the database",
    "taking the snapshot",
    "releasing the database",
    "copying",
    "comparing the copy",
    "completing the backup",
];

/// Starts a run, and sends a signal to it in a stage, after a delay. Returns the exit code, if there is one.
fn interrupt(mounted: &Mounted, stage: &str, delay: Duration, signal: &str) -> Option<i32> {
    let mut command = mounted.plain();
    command.args(RUN.split_whitespace()).stderr(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    lines.find(|line| line == stage);
    std::thread::sleep(delay);
    Command::new("kill").args([signal, &child.id().to_string()]).stderr(Stdio::null()).status().unwrap();
    lines.for_each(drop);
    child.wait().unwrap().code()
}

#[test]
fn a_backup_that_is_interrupted_while_the_database_is_held_leaves_it_released() {
    skip_without_fuse!();
    skip_without_postgres!();
    interrupted(&STAGES[..3]);
}

#[test]
fn a_backup_that_is_interrupted_while_it_copies_leaves_older_ones_whole() {
    skip_without_fuse!();
    skip_without_postgres!();
    interrupted(&STAGES[3..4]);
}

#[test]
fn a_backup_that_is_interrupted_at_its_end_leaves_older_ones_whole() {
    skip_without_fuse!();
    skip_without_postgres!();
    interrupted(&STAGES[4..]);
}

/// Interrupts backups at five points of each of the stages: the database is released after each, the older backups stay as they are,
/// and the next run completes.
fn interrupted(stages: &[&str]) {
    let postgres = Postgres::start();
    let load = Load::start(&postgres);
    let first = load.acked();
    postgres.run(CREATE);
    let mut known = digests(&postgres);
    let mut ends: BTreeMap<String, u32> = BTreeMap::new();
    for (index, stage) in stages.iter().enumerate() {
        for (delay_ms, signal) in [(0, "-KILL"), (7, "-KILL"), (60, "-KILL"), (0, "-INT"), (20, "-INT")] {
            let code = interrupt(&postgres, stage, Duration::from_millis(delay_ms), signal);
            let end = code.map_or_else(|| "killed".to_owned(), |code| format!("exit {code}"));
            *ends.entry(format!("{index} {stage} {signal}: {end}")).or_default() += 1;
            assert!(matches!(code, None | Some(0 | 130)), "{stage} {signal}: {code:?}");
            until("the database is released", || !postgres.is_held());
        }
        let now = digests(&postgres);
        for (name, digest) in &known {
            assert_eq!(now.get(name), Some(digest), "{name} after interruptions while {stage}");
        }
        known = now;
    }
    eprintln!("{ends:#?}");
    let before = load.acked();
    postgres.run(RUN);
    for dataset in ["tank/data", "tank/wal"] {
        assert_eq!(snapshots(&postgres, dataset), [""; 0], "leftovers are removed");
    }
    restore(&postgres, &[], &Postgres::check(before));
    drop(load);
    let oldest = known.keys().next().unwrap();
    restore(&postgres, &[oldest], &Postgres::check(first));
}

#[test]
fn refusals() {
    skip_without_fuse!();
    skip_without_postgres!();
    let postgres = Postgres::start();
    let (mounted, refused) = (&postgres.mounted, "refused");
    mounted.fails("backup run socket --to tank/backup", 3, &[refused, "no known database"]);
    mounted.fails("backup run data/db --to tank/data", 3, &[refused, "holds the database itself"]);
    mounted.fails("backup run data/db --to tank", 3, &[refused, "is the root dataset of its pool"]);
    mounted.fails("backup run data/db --to tank/new", 3, &[refused, "no mount point is named"]);
    mounted.fails(
        "backup run data/db --to tank/new --mountpoint data/db/new",
        3,
        &["in the database's directory"],
    );
    mounted.fails("backup run data/db --to tank/new/deep --mountpoint new", 1, &["parent"]);
    // Not empty.
    mounted.fails(
        "backup run data/db --to tank/new --mountpoint socket",
        3,
        &[refused, "socket is not empty"],
    );
    assert!(!mounted.run("dataset list").contains("tank/new"), "it is not created");
    mounted.fails("backup run none --to tank/backup", 1, &["none"]);
    mounted.fails("backup run data/db --to tank/backup --freeze true", 2, &["--thaw"]);
    mounted.fails("backup run data/db --to tank/backup --database mariadb", 3, &["has files of PostgreSQL"]);
    mounted.fails("backup list tank/none", 3, &[refused, "not mounted"]);
    mounted.fails("backup prune tank/backup", 2, &["--keep"]);
    mounted.run(CREATE);
    mounted.fails("backup verify tank/backup none", 3, &[refused, "has no backup none"]);
    // Another database.
    fs::create_dir(mounted.at("data/other")).unwrap();
    mounted.fails(
        "backup run data/other --to tank/backup --database none",
        3,
        &[refused, "has backups of another database"],
    );
    mounted.fails(
        "backup run backup --to tank/backup --database none",
        3,
        &[refused, "holds the database itself"],
    );
    // Another run.
    let lock = fs::File::open(mounted.at("backup")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    mounted.fails(RUN, 3, &[refused, "another backup or removal uses tank/backup"]);
    mounted.fails("backup prune tank/backup --keep 1", 3, &[refused, "another backup or removal"]);
    drop(lock);
}

#[test]
fn datasets_that_are_not_ours_are_refused() {
    skip_without_fuse!();
    skip_without_postgres!();
    let postgres = Postgres::start();
    let (mounted, refused) = (&postgres.mounted, "refused");
    // Files that are not ours.
    mounted.run("dataset create tank/used");
    fs::create_dir(mounted.at("used")).unwrap();
    mounted.run("mount tank/used used");
    fs::write(mounted.at("used/notes"), "mine").unwrap();
    mounted.fails("backup run data/db --to tank/used", 3, &[refused, "is not a dataset of backups"]);
    mounted.fails("backup prune tank/used --keep 1", 3, &[refused, "is not a dataset of backups"]);
    assert_eq!(fs::read_to_string(mounted.at("used/notes")).unwrap(), "mine");
    assert!(crate::common::mounted::umount_soon(&mounted.at("used")));
    // No directory of another pool of the same name, which another user's process has open.
    let other = Mounted::on("b.img:1G");
    let mut command = mounted.plain();
    command.args(["backup", "run"]).arg(mounted.at("data/db")).arg(other.at("m"));
    let done = command.args(["--to", "tank/backup"]).output().unwrap();
    assert_eq!(done.status.code(), Some(3));
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("is on a mount of another pool with the name of tank"), "{said}");
    other.umount();
}

/// Prints the smallest, the middle and the largest of some numbers.
fn show(what: &str, mut numbers: Vec<f64>) {
    numbers.sort_by(f64::total_cmp);
    let [first, .., last] = numbers[..] else { return };
    eprintln!(
        "{what}: {first:.3} / {:.3} / {last:.3} (min / median / max of {})",
        numbers[numbers.len() / 2],
        numbers.len()
    );
}

#[test]
#[ignore = "takes minutes: cargo test --release -p poolwright --test integration backup -- --ignored --nocapture"]
fn each_of_many_backups_under_load_is_restored() {
    skip_without_fuse!();
    skip_without_postgres!();
    const BACKUPS: usize = 24;
    let postgres = Postgres::start();
    let load = Load::start(&postgres);
    let mut acked = Vec::new();
    let (mut quiesced, mut took, mut restored, mut checked) = (vec![], vec![], vec![], vec![]);
    for number in 0..BACKUPS {
        let (before, start) = (load.acked(), std::time::Instant::now());
        let report = postgres.json(if number == 0 { CREATE } else { RUN });
        took.push(start.elapsed().as_secs_f64());
        quiesced.push(report["backup"]["database"]["quiesced_s"].as_f64().unwrap());
        acked.push((report["backup"]["name"].as_str().unwrap().to_owned(), before));
    }
    eprintln!(
        "{} rows were acknowledged, and {} transactions of pgbench",
        load.acked(),
        postgres.ask("SELECT count(*) FROM pgbench_history")
    );
    drop(load);
    for (name, before) in &acked {
        let report = restore(&postgres, &[name], &Postgres::check(*before));
        let result = &report["restores"][0];
        restored.push(result["restore_s"].as_f64().unwrap());
        checked.push(result["check_s"].as_f64().unwrap());
    }
    let list = postgres.json("backup list tank/backup");
    let backups = list["backups"].as_array().unwrap();
    assert_eq!(backups.len(), BACKUPS);
    assert!(backups.iter().all(|of| of["last_restore"]["passed"] == true));
    let bytes =
        backups.iter().map(|of| of["manifest"]["bytes"].as_f64().unwrap() / f64::from(1 << 20)).collect();
    let used =
        postgres.json("dataset get used tank/backup")["values"][0]["value"].as_str().unwrap().to_owned();
    show("quiesced, s", quiesced);
    show("backup run, s", took);
    show("restore, s", restored);
    show("checks, s", checked);
    show("files of a backup, MiB", bytes);
    eprintln!("space of all backups: {:.1} MiB", used.parse::<f64>().unwrap() / f64::from(1 << 20));
}
