//! `poolwright apply` and `undo` on a mounted pool.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use poolwright_plan::Plan;
use serde_json::{Value, json};

use crate::common::mounted::{umount, until};
use crate::common::planned_database::PlannedDatabase;
use crate::common::skip_without_fuse;

#[test]
fn a_plan_is_applied_and_undone() {
    skip_without_fuse!();
    let database = PlannedDatabase::new("a.img:2G");
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
    let database = PlannedDatabase::new("a.img:2G");
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
    let database = PlannedDatabase::new("a.img:2G").with_log();
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
    let database = PlannedDatabase::new("a.img:2G").with_log();
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

#[test]
fn a_plan_that_the_database_contradicted_is_refused() {
    skip_without_fuse!();
    let database = PlannedDatabase::new("a.img:1G");
    let plan: Plan = serde_json::from_slice(&fs::read(database.at("plan.json")).unwrap()).unwrap();
    let mut found: Value =
        serde_json::from_str(include_str!("../../../../docs/examples/confirmation.json")).unwrap();
    (found["verdict"], found["plan"]) = (json!("not-confirmed"), json!(plan.id()));
    let write = |found: &str| fs::write(database.at("plan.confirmation.json"), found).unwrap();
    write(&found.to_string());
    let refusal = ["`poolwright confirm` contradicted this plan", "hint: use --unconfirmed"];
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
    let database = PlannedDatabase::new("a.img:2G");
    database.fails("apply plan.json", 3, &["refused: not confirmed", "hint: use --yes"]);
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
    let database = PlannedDatabase::new("a.img:512M");
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
        let database = PlannedDatabase::new("a.img:2G");
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
