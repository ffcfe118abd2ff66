//! `poolwright backup run` of a source that is not what it was: not mounted, or without files.

use std::fs;

use crate::common::backups::Pool;
use crate::common::mounted::umount_soon;
use crate::common::skip_without_fuse;

#[test]
fn a_source_that_is_not_mounted_is_refused() {
    skip_without_fuse!();
    let pool = Pool::new();
    pool.run("dataset create tank/data/inner");
    fs::create_dir(pool.at("data/inner")).unwrap();
    pool.run("mount tank/data/inner data/inner");
    fs::write(pool.at("data/inner/table"), "rows").unwrap();
    let run = "backup run data/inner --to tank/backup --mountpoint backup --database none";
    pool.run(run);
    assert!(umount_soon(&pool.at("data/inner")));
    let moved = ["refused", "was on tank/data/inner", "is on tank/data now", "--accept-change"];
    pool.fails(&format!("{run} --dry-run"), 3, &moved);
    pool.fails(run, 3, &moved);
    assert_eq!(pool.json("backup list tank/backup")["backups"].as_array().unwrap().len(), 1);
    // The user says that it is meant, once.
    pool.run(&format!("{run} --accept-change"));
    pool.run(run);
    pool.run("mount tank/data/inner data/inner");
    pool.fails(run, 3, &["refused", "was on tank/data ", "is on tank/data/inner now"]);
    assert!(umount_soon(&pool.at("data/inner")));
}

#[test]
fn a_source_that_has_lost_its_files_is_refused() {
    skip_without_fuse!();
    let pool = Pool::new();
    fs::create_dir(pool.at("data/db/dir")).unwrap();
    for number in 0..4 {
        fs::write(pool.at(&format!("data/db/dir/{number}")), "rows").unwrap();
    }
    let run = "backup run data/db --to tank/backup --mountpoint backup --database none";
    pool.run(run);
    for number in 1..4 {
        fs::remove_file(pool.at(&format!("data/db/dir/{number}"))).unwrap();
    }
    let (_, _, said) = pool.output(&run.split_whitespace().collect::<Vec<_>>());
    assert!(said.contains("note: there are 1 files, and 4 in the last backup"), "{said}");
    fs::remove_file(pool.at("data/db/dir/0")).unwrap();
    pool.fails(run, 3, &["refused", "there is no file in", "--accept-change"]);
    let copy = pool.at("backup/files/0/dir/0");
    assert!(copy.exists(), "the copy is as it was");
    pool.run(&format!("{run} --accept-change"));
    assert!(!copy.exists());
    pool.run(run);
}
