//! `poolwright backup wal-create`, `wal-push` and `verify --until`: the log of a PostgreSQL is archived, and replayed to points in time.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::Stdio;

use crate::common::mounted::until;
use crate::common::postgres::{Postgres, skip_without_postgres};
use crate::common::{follows_schema, skip_without_fuse};
use serde_json::Value;

/// A running PostgreSQL that archives its log into `tank/archive`, with two backups in `tank/backup`: one from before the log was archived,
/// and one since then.
fn archiving() -> Postgres {
    let mut postgres = Postgres::start();
    postgres.run("backup run data/db --to tank/backup --mountpoint backup");
    let text = postgres.run("backup wal-create tank/backup --to tank/archive --mountpoint archive");
    assert!(text.contains("archive_mode = on") && text.contains("wal-push"), "{text}");
    let report = postgres.json("backup wal-create tank/backup --to tank/archive");
    let report = follows_schema("backup-wal-create", report);
    assert_eq!(report["created"], false, "the second time it exists");
    let command = report["archive_command"].as_str().unwrap();
    let program = postgres.program();
    let own = assert_cmd::cargo::cargo_bin!("poolwright").canonicalize().unwrap();
    let command = command.replace(own.to_str().unwrap(), program.to_str().unwrap());
    assert!(command.starts_with(program.to_str().unwrap()), "{command}");
    postgres.set(&[("archive_mode", "on"), ("archive_command", &command)]);
    let name = postgres.json("backup list tank/backup")["backups"][0]["manifest"]["name"].clone();
    let text = postgres.run("backup list tank/backup");
    assert!(text.contains("no segment yet"), "{text}");
    postgres.run("backup run data/db --to tank/backup");
    archive(&postgres);
    // A backup is used for times that are at least a second later.
    postgres.ask("SELECT pg_sleep(2.5)");
    let line = format!("backup verify tank/backup {} --until latest", name.as_str().unwrap());
    postgres.fails(&line, 3, &["refused", "the WAL archive does not have", "hint: "]);
    postgres
}

/// Ends the present segment, and waits until it is archived.
fn archive(postgres: &Postgres) -> PathBuf {
    let name = postgres.ask("SELECT pg_walfile_name(pg_switch_wal())");
    let path = postgres.at("archive").join(&name);
    until("the segment is archived", || path.exists());
    path
}

/// Inserts a row, and returns a time after its commit, with which RFC 3339 in whole seconds can name the state.
fn insert(postgres: &Postgres, n: u32) -> String {
    postgres.ask(&format!("INSERT INTO acked VALUES ({n})"));
    // The next transaction begins in a later second.
    postgres.ask("SELECT pg_sleep(2.1)");
    postgres
        .ask("SELECT to_char((now() - interval '1 s') AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')")
}

/// Restores a state, which must have exactly these rows.
fn recover(postgres: &Postgres, arguments: &[&str], rows: &str) -> Value {
    let check = format!(
        "psql -X -A -t -d postgres -c \"SELECT coalesce(string_agg(n::text, ',' ORDER BY n), '') FROM acked\" | grep -qx '{rows}'"
    );
    let mut command = postgres.plain();
    command.args(["backup", "verify", "tank/backup", "--json"]).args(arguments).args(["--check", &check]);
    let done = command.output().unwrap();
    let (said, shown) = (String::from_utf8_lossy(&done.stderr), String::from_utf8_lossy(&done.stdout));
    assert!(done.status.success(), "{arguments:?}, {rows}: {said}{shown}");
    let report = follows_schema("backup-verify", serde_json::from_slice(&done.stdout).unwrap());
    report["restores"][0].clone()
}

#[test]
fn a_database_is_recovered_to_points_in_time() {
    skip_without_fuse!();
    skip_without_postgres!();
    let postgres = archiving();
    let first = insert(&postgres, 1);
    let second = insert(&postgres, 2);
    let segment = archive(&postgres);
    assert_eq!(fs::metadata(&segment).unwrap().uid(), fs::metadata(postgres.at("data/db")).unwrap().uid());
    postgres.run("backup run data/db --to tank/backup");
    insert(&postgres, 3);
    // What a careless user does.
    postgres.ask("DELETE FROM acked");
    archive(&postgres);

    let list = follows_schema("backup-list", postgres.json("backup list tank/backup"));
    let oldest = list["backups"][1]["manifest"]["name"].as_str().unwrap();
    assert_eq!(list["wal"]["replayable_from"], oldest, "{list}");
    assert!(list["wal"]["segments"].as_u64().unwrap() > 0 && list["wal"].get("gaps").is_none(), "{list}");
    let restore = recover(&postgres, &["--until", &first], "1");
    assert_eq!(restore["name"], oldest, "the newest backup before that time");
    assert_eq!(restore["until"], first.as_str());
    let last = restore["last_transaction"].as_str().unwrap().trim_end_matches('Z');
    assert!(last < first.trim_end_matches('Z'), "{restore}");
    recover(&postgres, &["--until", &second], "1,2");
    let restore = recover(&postgres, &["--until", "latest"], "");
    assert_ne!(restore["name"], oldest);
    recover(&postgres, &[oldest, "--until", "latest"], "");
    recover(&postgres, &[], "1,2");

    // The backup before the last one needs all of the log, the last one only the end of it.
    let pruned = follows_schema("backup-prune", postgres.json("backup prune tank/backup --keep 2"));
    let begins = pruned["wal"]["needed_from"].as_str().unwrap();
    assert!(begins <= segment.file_name().unwrap().to_str().unwrap() && segment.exists(), "{pruned}");
    recover(&postgres, &["--until", &first], "1");
    let segments = fs::read_dir(postgres.at("archive")).unwrap().count();
    let dry = postgres.json("backup prune tank/backup --keep 1 --dry-run");
    assert_eq!(fs::read_dir(postgres.at("archive")).unwrap().count(), segments);
    let pruned = postgres.json("backup prune tank/backup --keep 1");
    assert!(pruned["wal"]["files"].as_u64() > Some(0) && !segment.exists(), "{pruned}");
    assert_eq!(pruned["wal"], dry["wal"]);
    recover(&postgres, &["--until", "latest"], "");
    postgres.fails(&format!("backup verify tank/backup --until {first}"), 3, &["refused", "made before"]);
}

#[test]
fn a_gap_in_the_log_is_found() {
    skip_without_fuse!();
    skip_without_postgres!();
    let postgres = archiving();
    insert(&postgres, 1);
    archive(&postgres);
    insert(&postgres, 2);
    let lost = archive(&postgres);
    let time = insert(&postgres, 3);
    archive(&postgres);
    insert(&postgres, 4);
    archive(&postgres);
    recover(&postgres, &["--until", &time], "1,2,3");
    fs::remove_file(&lost).unwrap();
    let list = postgres.json("backup list tank/backup");
    assert_eq!(list["wal"]["gaps"][0], lost.file_name().unwrap().to_str().unwrap());
    assert!(list["wal"].get("replayable_from").is_none(), "{list}");
    postgres.fails(
        "backup verify tank/backup --until latest",
        3,
        &["refused", "cannot be replayed to its end", "hint: "],
    );
    let text = postgres.run("backup list tank/backup");
    assert!(text.contains("is missing: recoveries from before end there"), "{text}");
    let done =
        postgres.command(&format!("backup verify tank/backup --until {time} --json")).output().unwrap();
    assert_eq!(done.status.code(), Some(1), "the time is not reached");
    let report: Value = serde_json::from_slice(&done.stdout).unwrap();
    let check = report["restores"][0]["checks"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (check["name"].as_str(), check["result"].as_str()),
        (Some("start and recovery"), Some("failed"))
    );
    let list = postgres.json("backup list tank/backup");
    let is_untested = |of: &Value| of.get("last_restore").is_none();
    assert!(list["backups"].as_array().unwrap().iter().all(is_untested), "it is not the backup's failure");
    // The archive is not mounted: the server keeps its log, and nothing is written to the directory.
    until("the archive can be unmounted", || crate::common::mounted::umount(&postgres.at("archive")));
    let failed = postgres.ask("SELECT failed_count FROM pg_stat_archiver");
    let name = postgres.ask("INSERT INTO acked VALUES (5); SELECT pg_walfile_name(pg_switch_wal())");
    until("the server fails to archive", || {
        postgres.ask("SELECT failed_count FROM pg_stat_archiver") != failed
    });
    assert_eq!(fs::read_dir(postgres.at("archive")).unwrap().count(), 0);
    assert!(postgres.at("data/db/pg_wal").join(name).exists());
    let list = postgres.json("backup list tank/backup");
    assert!(list["wal"]["problem"].as_str().unwrap().contains("not mounted"), "{list}");
    let pruned = postgres.json("backup prune tank/backup --keep 1");
    assert!(pruned["wal"]["reason"].as_str().unwrap().contains("not mounted"), "{pruned}");
}

#[test]
fn refusals() {
    skip_without_fuse!();
    skip_without_postgres!();
    let postgres = Postgres::start();
    let refused = |line: &str, words: &[&str]| postgres.fails(line, 3, &[&["refused"], words].concat());
    postgres.run("dataset create tank/other");
    refused(
        "backup wal-create tank/data --to tank/archive --mountpoint archive",
        &["is not a dataset of backups"],
    );
    postgres.run("backup run data/db --to tank/backup --mountpoint backup");
    refused("backup verify tank/backup --until latest", &["has no WAL archive", "hint: "]);
    refused("backup wal-create tank/backup --to tank/backup", &["is in the dataset of the backups"]);
    refused(
        "backup wal-create tank/backup --to tank/backup/wal --mountpoint x",
        &["is in the dataset of the backups"],
    );
    refused("backup wal-create tank/backup --to tank/archive", &["no mount point is named"]);
    refused(
        "backup wal-create tank/backup --to tank/archive --mountpoint data/db/x",
        &["is in the database's directory"],
    );
    refused(
        "backup wal-create tank/backup --to tank/archive --mountpoint backup/x",
        &["is in the mount of tank/backup"],
    );
    refused("backup wal-create tank/backup --to tank/data", &["is in the database's directory"]);
    assert!(!postgres.run("dataset list").contains("tank/archive"), "it is not created");
    postgres.fails("backup verify tank/backup --until yesterday", 2, &["a time with its zone"]);
    postgres.fails("backup verify tank/backup --until latest --all", 2, &["--all"]);
    postgres.run("backup wal-create tank/backup --to tank/archive --mountpoint archive");
    refused(
        "backup wal-create tank/backup --to tank/other",
        &["the WAL archive of tank/backup is tank/archive"],
    );
    refused("backup wal-push socket data/db/PG_VERSION", &["is not a WAL archive", "hint: "]);
    refused("backup wal-push archive data/db/PG_VERSION", &["is not the name of a file of PostgreSQL's log"]);
    // A new backup finds its dataset as before.
    postgres.run("backup run data/db --to tank/backup");
}

/// Restores the database into its own directories, where another server then runs.
#[test]
fn a_database_is_restored_for_use() {
    skip_without_fuse!();
    skip_without_postgres!();
    let mut postgres = archiving();
    let before = insert(&postgres, 1);
    postgres.ask("DELETE FROM acked");
    archive(&postgres);
    let line = format!("backup restore tank/backup --until {before}");
    postgres.fails(&line, 3, &["refused", "is not empty", "hint: "]);
    postgres.stop();
    for dir in ["data/db", "wal/log", "wal/space"] {
        fs::rename(postgres.at(dir), postgres.at(&format!("{dir}.damaged"))).unwrap();
    }
    let planned = postgres.json(&format!("{line} --dry-run"));
    assert!(planned.get("notes").is_none(), "{planned}");
    assert!(planned["dry_run"] == true && !postgres.at("data/db").exists(), "a dry run changes nothing");
    // Runs that are interrupted leave what no server can use, and the next one continues.
    for (stage, file) in [("restoring", "data/db/base"), ("comparing", "data/db/global/pg_control")] {
        let mut child = postgres
            .plain()
            .args(line.split_whitespace())
            .args(["--rate", "8M"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        said.find(|line| line.starts_with(stage)).unwrap();
        until("the file is restored", || postgres.at(file).exists());
        child.kill().unwrap();
        child.wait().unwrap();
        let held = fs::metadata(postgres.at("data/db")).unwrap();
        assert_eq!((held.uid(), held.mode() & 0o777), (0, 0o700), "{stage}");
        assert!(!postgres.at("data/db/recovery.signal").exists());
    }
    let restored = follows_schema("backup-restore", postgres.json(&line));
    assert_eq!(restored["until"], before.as_str());
    assert_eq!(restored["settings"].as_array().unwrap().len(), 4, "{restored}");
    let names = |dir: &str| -> Vec<String> {
        let names = fs::read_dir(postgres.at(dir)).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect()
    };
    assert!(names("data/db").contains(&"recovery.signal".to_owned()));
    postgres.start_again();
    until("the log is replayed", || postgres.ask("SELECT pg_is_in_recovery()") == "f");
    assert_eq!(postgres.ask("SELECT string_agg(n::text, ',') FROM acked"), "1");
    // It archives its own timeline beside the old one.
    let segment = archive(&postgres);
    assert!(segment.file_name().unwrap().to_str().unwrap().starts_with("00000002"));
    // Another time on the old timeline can still be reached, and the newest timeline.
    recover(&postgres, &["--until", &before], "1");
    recover(&postgres, &["--until", "latest"], "1");

    // The state of the backup itself, in a server that archives too.
    postgres.stop();
    for dir in ["data/db", "wal/log", "wal/space"] {
        fs::rename(postgres.at(dir), postgres.at(&format!("{dir}.second"))).unwrap();
    }
    let restored = postgres.json("backup restore tank/backup");
    assert!(
        restored.get("until").is_none() && restored["settings"].as_array().unwrap().len() == 4,
        "{restored}"
    );
    postgres.start_again();
    until("the server has a new timeline", || postgres.ask("SELECT pg_is_in_recovery()") == "f");
    assert_eq!(postgres.ask("SELECT count(*) FROM acked"), "0");
    let segment = archive(&postgres);
    assert!(segment.file_name().unwrap().to_str().unwrap().starts_with("00000003"), "{}", segment.display());

    // Below another directory, with the links between the directories. A link of the database's owner is not followed.
    let secret = postgres.at("secret");
    fs::write(&secret, "text").unwrap();
    std::os::unix::fs::symlink(&secret, postgres.at("data/db/recovery.signal")).unwrap();
    postgres.run("backup run data/db --to tank/backup");
    archive(&postgres);
    fs::create_dir(postgres.at("copy")).unwrap();
    postgres.run("backup restore tank/backup --to copy --until latest");
    assert!(fs::read_to_string(&secret).unwrap() == "text" && fs::metadata(&secret).unwrap().uid() == 0);
    let top = postgres.at("copy").canonicalize().unwrap();
    let log = postgres.at("wal/log").canonicalize().unwrap();
    let link = top.join(postgres.at("data/db/pg_wal").strip_prefix("/").unwrap());
    assert_eq!(fs::read_link(&link).unwrap(), top.join(log.strip_prefix("/").unwrap()));
    assert!(!link.with_file_name("postmaster.pid").exists());
    assert!(fs::symlink_metadata(link.with_file_name("recovery.signal")).unwrap().is_file());
    postgres.fails("backup restore tank/backup --to copy", 3, &["is not empty"]);
}

/// The log that a backup in an archive needs stays, although the newer backups beside it need none of it.
#[test]
fn backups_in_an_archive_keep_their_segments() {
    skip_without_fuse!();
    skip_without_postgres!();
    let postgres = archiving();
    postgres.run("backup archive tank/backup --to tank/old --mountpoint old -o compression=lz4");
    insert(&postgres, 1);
    let segment = archive(&postgres);
    postgres.run("backup run data/db --to tank/backup");
    let pruned = postgres.json("backup prune tank/backup --keep 1 --unverified --archive tank/old");
    assert_eq!(pruned["decisions"].as_array().unwrap().iter().filter(|of| of["kept"] == true).count(), 1);
    assert_eq!((&pruned["wal"]["files"], segment.exists()), (&Value::from(0), true), "{pruned}");
    let pruned = postgres.json("backup prune tank/backup --keep 1 --unverified");
    assert!(pruned["wal"]["files"].as_u64() > Some(0) && !segment.exists(), "without the archive: {pruned}");
}
