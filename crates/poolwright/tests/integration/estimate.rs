//! `poolwright estimate` with valid and invalid input.

use std::fs;

use assert_cmd::Command;
use predicates::prelude::*;

fn poolwright() -> Command {
    let mut command = Command::cargo_bin("poolwright").unwrap();
    command.arg("estimate").timeout(std::time::Duration::from_secs(120));
    command
}

#[test]
fn a_directory_gives_the_documented_object() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("text"), "a line of text that repeats itself\n".repeat(20_000)).unwrap();
    fs::write(dir.path().join("zeros"), vec![0; 500_000]).unwrap();
    fs::hard_link(dir.path().join("text"), dir.path().join("text again")).unwrap();
    let options = ["--json", "-o", "recordsize=16K,128K", "-o", "compression=off,lz4", "--ashift", "9,12"];
    let out = poolwright().args(options).arg(dir.path()).assert().success().get_output().stdout.clone();
    let found = crate::common::json_output("estimate", &out);
    assert_eq!(found["files"], 2, "a hard link counts once");
    assert_eq!(found["logical_bytes"], 700_000 + 500_000);
    assert_eq!(found["cells"].as_array().unwrap().len(), 2 * 2 * 2);
    let cell = |recordsize: u64, codec: &str| {
        let is = |c: &&serde_json::Value| {
            c["recordsize"] == recordsize && c["compression"] == codec && c["ashift"] == 12
        };
        found["cells"].as_array().unwrap().iter().find(is).unwrap().clone()
    };
    // 700,000 and 500,000 bytes are 43 and 31 records of 16K
    assert_eq!(cell(16384, "off")["allocated_bytes"], (43 + 31) * 16384);
    // Each record of text compresses to one sector, and each record of zeros takes no space.
    assert_eq!(cell(16384, "lz4")["allocated_bytes"], 43 * 4096);
    assert_eq!(cell(16384, "lz4")["ratio_ci95"][0], cell(16384, "lz4")["ratio"]);
}

#[test]
fn linked_tablespaces_are_included_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let (root, space) = (dir.path().join("pg"), dir.path().join("space"));
    for dir in [&root.join("base"), &root.join("global"), &root.join("pg_tblspc"), &space] {
        fs::create_dir_all(dir).unwrap();
    }
    fs::write(root.join("PG_VERSION"), "15\n").unwrap();
    fs::write(root.join("global/pg_control"), vec![1; 8192]).unwrap();
    fs::write(space.join("16400"), vec![1; 1 << 20]).unwrap();
    std::os::unix::fs::symlink(&space, root.join("pg_tblspc/16384")).unwrap();
    let options = ["--json", "-o", "recordsize=16K", "-o", "compression=off"];
    let out = poolwright().args(options).arg(&root).assert().success();
    let out = out
        .stderr(predicate::str::contains("pg_tblspc/16384 leads outside the directory"))
        .get_output()
        .clone();
    let found = crate::common::json_output("estimate", &out.stdout);
    assert_eq!((&found["files"], &found["logical_bytes"]), (&3.into(), &(3 + 8192 + (1 << 20)).into()));
}

#[test]
fn tables_are_for_people() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("text"), "some more text\n".repeat(9_000)).unwrap();
    let shown = predicate::str::contains("recordsize")
        .and(predicate::str::contains("128K"))
        .and(predicate::str::contains("*"));
    poolwright().arg(dir.path()).assert().success().stdout(shown);
}

/// Columns and lines of a terminal, without the line of the prompt.
const SCREEN: (usize, usize) = (80, 23);

fn printed(options: &[&str], path: &std::path::Path) -> String {
    let out = poolwright().args(options).arg(path).assert().success().get_output().stdout.clone();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_default_grid_fits_a_screen() {
    let dir = tempfile::tempdir().unwrap();
    let rows: String = (0..40_000).map(|i| format!("{i:06} customer {:03}; ", i * 7919 % 997)).collect();
    fs::write(dir.path().join("rows"), &rows).unwrap();
    for options in [&["--full"][..], &["--within", "5%"]] {
        let text = printed(options, dir.path());
        assert!(text.lines().all(|line| line.chars().count() <= SCREEN.0), "{text}");
        assert!(text.lines().count() <= SCREEN.1, "{} lines:\n{text}", text.lines().count());
        assert!(text.starts_with("1 file, "), "{text}");
        for fragment in ["ashift=12, plain", "best at ashift=9: ", ", 13: ", "zstd-3", "  1M", "--long"] {
            assert!(text.contains(fragment), "no {fragment:?}:\n{text}");
        }
        assert!(!text.contains("ashift=9, plain"), "{text}");
    }
    let long = printed(&["--full", "--long"], dir.path());
    assert!(
        ["ashift=9, plain", "ashift=12, plain", "ashift=13, plain"].iter().all(|t| long.contains(t)),
        "{long}"
    );
    let asked = printed(&["--full", "--ashift", "9,13"], dir.path());
    assert!(asked.contains("ashift=9, plain") && asked.contains("ashift=13, plain"), "{asked}");
    // More codecs than fit in one line.
    let all = printed(&["--full", "-o", "compression=all", "-o", "recordsize=128K"], dir.path());
    assert!(all.lines().all(|line| line.chars().count() <= SCREEN.0), "{all}");
    assert!(all.contains("zstd-19") && all.contains("lzjb"), "{all}");
}

#[test]
fn a_file_in_a_block_pointer_is_not_called_a_hole() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("tiny"), "abc\n").unwrap();
    let text = printed(&["-o", "compression=off,lz4"], dir.path());
    assert!(!text.contains("all holes") && text.contains("no block"), "{text}");
    assert!(text.starts_with("1 file, 4B: "), "{text}");
    assert!(text.contains("which are stored in the block pointer"), "{text}");
}

#[test]
fn bad_input_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let empty = predicate::str::contains("no files found");
    poolwright().arg(dir.path()).assert().code(1).stderr(empty).stdout("");
    fs::write(dir.path().join("hollow"), "").unwrap();
    poolwright().arg(dir.path()).assert().code(1).stderr(predicate::str::contains("no content"));
    let missing = dir.path().join("missing");
    poolwright().arg(&missing).assert().code(1).stderr(predicate::str::contains(missing.to_str().unwrap()));
    fs::write(dir.path().join("file"), "x").unwrap();
    for (options, why) in [
        (["-o", "recordsize=3K"], "power of two"),
        (["-o", "compression=lzma"], "lzma"),
        (["-o", "primarycache=none"], "does not change the space"),
        (["--ashift", "17"], "ashift"),
        (["--layout", "raidz9:3"], "raidz1:N"),
        (["--within", "0%"], "not a percentage"),
        (["--rate", "0"], "200M"),
    ] {
        poolwright()
            .args(options)
            .arg(dir.path())
            .assert()
            .code(2)
            .stderr(predicate::str::contains(why))
            .stdout("");
    }
}

#[test]
fn special_files_are_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
    fs::write(dir.path().join("file"), "content").unwrap();
    std::os::unix::fs::symlink("/", dir.path().join("link")).unwrap();
    let out = poolwright().arg("--json").arg(dir.path()).assert().success().get_output().stdout.clone();
    let found = crate::common::json_output("estimate", &out);
    assert_eq!((found["files"].as_u64(), found["special"].as_u64()), (Some(1), Some(1)));
}
