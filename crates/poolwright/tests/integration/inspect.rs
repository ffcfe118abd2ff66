//! `poolwright inspect` on a dataset of the user-space engine, and elsewhere.

use std::fs;
use std::io::Write as _;

use serde_json::Value;

use crate::common::mounted::Mounted;
use crate::common::{TestDir, skip_without_fuse};

/// A SQLite database in rollback mode, by its header, with 4 MiB of text that compresses well.
fn database(path: &std::path::Path) {
    let mut head = vec![0; 4096];
    head[..16].copy_from_slice(b"SQLite format 3\0");
    head[16..20].copy_from_slice(&[16, 0, 1, 1]);
    let mut file = fs::File::create(path).unwrap();
    file.write_all(&head).unwrap();
    for row in 0..100_000 {
        writeln!(file, "{row:08}: a row of a table with words").unwrap();
    }
    file.sync_all().unwrap();
}

/// Inspects; returns the exit code and the result.
fn inspect(dir: &TestDir, arguments: &str) -> (i32, Value) {
    let done = dir.command(&format!("inspect {arguments} --json")).output().unwrap();
    assert!(done.stderr.is_empty(), "{done:?}");
    (done.status.code().unwrap(), serde_json::from_slice(&done.stdout).unwrap())
}

fn rules(inspection: &Value) -> Vec<&str> {
    let findings = inspection["findings"].as_array().unwrap().iter();
    findings.map(|finding| finding["rule"].as_str().unwrap()).collect()
}

#[test]
fn faults_of_a_mounted_dataset_are_found() {
    skip_without_fuse!();
    let mounted = Mounted::on("a.img:1G");
    mounted.run("dataset set recordsize=16K tank");
    fs::create_dir(mounted.at("m/shop")).unwrap();
    database(&mounted.at("m/shop/shop.db"));

    // The dataset by its directory and by its name.
    let (code, sound) = inspect(&mounted, "m/shop");
    assert_eq!((code, rules(&sound)), (0, vec![]), "{sound:#}");
    assert_eq!(sound["databases"][0]["system"], "SQLite");
    assert_eq!(sound["databases"][0]["datasets"][0], "tank");
    assert_eq!(sound["databases"][0]["file_system"], Value::Null);
    assert_eq!(inspect(&mounted, "tank").1["databases"], sound["databases"]);

    let plant = |property: &str, expected: &[&str]| {
        mounted.run(&format!("dataset set {property} tank"));
        let (code, found) = inspect(&mounted, "m");
        assert_eq!(rules(&found), expected, "{property}: {found:#}");
        code
    };
    assert_eq!(plant("compression=off", &["compression-off"]), 1);
    plant("compression=lz4", &[]);
    plant("recordsize=2K", &["records-below-pages", "small-records"]);
    plant("recordsize=1M", &["records-above-pages"]);
    assert_eq!(plant("recordsize=16K", &[]), 0);
    assert_eq!(plant("primarycache=metadata", &["primarycache"]), 1);
    let text = mounted.command("inspect tank -v").output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    for part in [
        "warning   tank: primarycache=metadata",
        "found   poolwright dataset get primarycache tank: metadata (local)",
        "do      poolwright dataset set primarycache=all tank",
        "source  zfsprops(7), primarycache: https://",
        " rules: 1 warning\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_directory_that_is_not_on_openzfs() {
    let dir = TestDir::new();
    fs::create_dir(dir.at("shop")).unwrap();
    database(&dir.at("shop/shop.db"));
    fs::create_dir(dir.at("files")).unwrap();
    fs::write(dir.at("files/notes"), "text").unwrap();
    let (code, found) = inspect(&dir, "shop files");
    assert_eq!((code, rules(&found)), (0, vec![]), "{found:#}");
    let databases = found["databases"].as_array().unwrap();
    assert_eq!((&databases[0]["system"], &databases[1]["system"]), (&Value::Null, &"SQLite".into()));
    assert!(databases.iter().all(|of| of["file_system"].is_string()), "{found:#}");
    assert!(dir.run("inspect shop").contains("not on OpenZFS"));
}

#[test]
fn names_that_are_neither_directories_nor_pools_are_refused() {
    let dir = TestDir::new();
    fs::write(dir.at("file"), "").unwrap();
    dir.fails(
        "inspect no-such-pool",
        2,
        &["no-such-pool is neither a directory nor a pool or dataset", "hint: "],
    );
    dir.fails("inspect /no/such/directory", 2, &["/no/such/directory is not a directory"]);
    dir.fails("inspect file", 2, &["file is not a directory"]);
}
