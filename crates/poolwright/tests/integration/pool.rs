//! `poolwright pool` and `poolwright dataset` as a user runs them, with pools that are not mounted.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::common::TestDir;

/// The first fields of a listing without a heading.
fn listed(test_dir: &TestDir, line: &str) -> Vec<String> {
    test_dir.run(line).lines().map(|l| l.split('\t').next().unwrap_or_default().to_owned()).collect()
}

fn files_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .filter(|name| name != "state" && name != "run")
        .collect();
    names.sort();
    names
}

#[test]
fn a_pool_in_zpools_grammar_is_found_by_its_name() {
    let p = TestDir::new();
    let made = p.json(
        "pool create tank mirror a:128M b:128M mirror c:128M d:128M log l:128M cache x:128M \
         -o ashift=13 -O recordsize=16K -O compression=lz4",
    );
    assert_eq!((made["ashift"].as_u64(), made["files"].as_array().unwrap().len()), (Some(13), 6));
    let entry = p.at("state/pools/tank.json");
    assert_eq!(std::fs::metadata(&entry).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(p.at("state")).unwrap().permissions().mode() & 0o777, 0o700);

    let status = p.json("pool status tank");
    let status = &status["pools"][0];
    assert_eq!((status["state"].as_str(), &status["trouble"]), (Some("ONLINE"), &Value::Null));
    assert_eq!(status["layout"]["guid"], made["guid"]);
    let kinds: Vec<&str> =
        status["layout"]["vdevs"].as_array().unwrap().iter().filter_map(|v| v["kind"].as_str()).collect();
    assert_eq!(kinds, ["mirror", "mirror", "file"]);
    let text = p.run("pool status");
    for fragment in [
        "pool: tank",
        "ONLINE",
        "mirror-0",
        "mirror-1",
        "logs",
        "cache",
        "/a ",
        "scan: none requested",
        "errors: No known",
    ] {
        assert!(text.contains(fragment), "no {fragment:?} in\n{text}");
    }
    assert_eq!(listed(&p, "pool list -H"), ["tank"]);
    let list = p.json("pool list");
    let size = list["pools"][0]["size"].as_u64().unwrap();
    assert!((150 << 20..=256 << 20).contains(&size), "two mirrors of 128M: {size}");
    assert_eq!(
        p.run("dataset get -H -p recordsize,compression tank"),
        "tank\trecordsize\t16384\tlocal\ntank\tcompression\tlz4\tlocal\n"
    );
    assert!(p.run("pool iostat -v tank").contains("mirror-1"));
}

#[test]
fn a_file_without_a_size_is_sparse_and_large() {
    use std::os::unix::fs::MetadataExt as _;
    let p = TestDir::new();
    p.run("pool create big img");
    let meta = std::fs::metadata(p.at("img")).unwrap();
    assert_eq!(meta.len(), 200 << 30);
    assert!(meta.blocks() * 512 < 64 << 20, "{} blocks", meta.blocks());
}

#[test]
fn nothing_is_made_when_something_is_wrong() {
    let p = TestDir::new();
    std::fs::write(p.at("precious"), "data").unwrap();
    p.fails("pool create tank fresh:128M precious:128M", 3, &["refused", "precious", "not empty"]);
    p.fails("pool create tank mirror a:128M", 2, &["at least 2 files"]);
    p.fails("pool create tank a:1M", 2, &["64M"]);
    p.fails("pool create tank a:128M a:128M", 2, &["named twice"]);
    p.fails("pool create tank a:128M -o ashift=20", 2, &["ashift", "9 to 16"]);
    p.fails("pool create tank a:128M -o comment=x", 2, &["comment", "-O"]);
    p.fails("pool create tank a:128M -O recordsize=3K", 2, &["recordsize=3K"]);
    p.fails("pool create tank a:128M -O recordsize=8K,16K", 2, &["one value"]);
    p.fails("pool create tank a:128M -O colour=red", 2, &["colour", "recordsize"]);
    p.fails("pool create mirror a:128M", 2, &["mirror"]);
    p.fails("pool create 9tank a:128M", 2, &["letter"]);
    p.fails("pool create tank/x a:128M", 2, &["tank/x"]);
    p.fails("pool create tank none/a:128M", 1, &["no such directory"]);
    assert_eq!(files_in(p.dir.path()), ["precious"]);
    assert_eq!(std::fs::read(p.at("precious")).unwrap(), b"data");
    assert!(!p.at("state").exists());

    p.run("pool create tank a:128M");
    p.fails("pool create tank b:128M", 3, &["a pool named tank already exists", "/a", "pool export tank"]);
    p.fails("pool create other a:128M", 3, &["not empty"]);
    assert_eq!(files_in(p.dir.path()), ["a", "precious"]);
}

#[test]
fn datasets_from_birth_to_death() {
    let p = TestDir::new();
    p.run("pool create tank a:128M");
    p.fails("dataset create tank/x/y", 1, &["tank/x", "-p"]);
    p.run("dataset create -p tank/x/y -o recordsize=8K");
    p.fails("dataset create tank/x", 1, &["already"]);
    p.run("dataset set recordsize=16K compression=zstd tank/x");
    let got = p.run("dataset get -H recordsize,compression,mounted tank/x tank/x/y");
    assert_eq!(
        got,
        "tank/x\trecordsize\t16K\tlocal\ntank/x\tcompression\tzstd\tlocal\ntank/x\tmounted\tno\t-\n\
         tank/x/y\trecordsize\t8K\tlocal\ntank/x/y\tcompression\tzstd\tinherited from tank/x\n\
         tank/x/y\tmounted\tno\t-\n"
    );
    assert_eq!(
        p.run("dataset get -H -o value,source sync,snapdir tank/x"),
        "standard\tdefault\nhidden\tdefault\n"
    );
    assert_eq!(p.json("dataset get sync tank/x")["values"][0]["source"], "default");
    assert!(p.run("dataset get sync tank/x").contains("SOURCE"));
    p.fails("dataset get -o colour sync tank/x", 2, &["source"]);
    p.fails("dataset set snapdir=sometimes tank/x", 2, &["hidden, visible"]);
    assert!(p.run("dataset get all tank/x").contains("compressratio"));
    p.fails("dataset get colour tank/x", 2, &["colour", "recordsize"]);
    p.fails("dataset set recordsize=3K tank/x", 2, &["recordsize=3K"]);
    p.fails("dataset set tank/x recordsize", 2, &["PROP=VALUE"]);
    p.fails("dataset set recordsize=8K tank/none", 1, &["no such dataset", "dataset list"]);
    let loud = p.command("dataset set sync=disabled tank/x/y").assert().success();
    assert!(String::from_utf8_lossy(&loud.get_output().stderr).contains("a crash loses"));

    let taken = p.json("dataset snapshot -r tank/x@one");
    assert_eq!(taken["snapshots"], serde_json::json!(["tank/x@one", "tank/x/y@one"]));
    p.fails("dataset snapshot tank/x@one", 1, &["already"]);
    assert_eq!(listed(&p, "dataset list -H"), ["tank", "tank/x", "tank/x/y"]);
    assert_eq!(listed(&p, "dataset list -H tank/x"), ["tank/x"]);
    assert_eq!(listed(&p, "dataset list -H -r tank/x"), ["tank/x", "tank/x/y"]);
    assert_eq!(listed(&p, "dataset list -H -r -t snapshot tank"), ["tank/x/y@one", "tank/x@one"]);
    assert_eq!(listed(&p, "dataset list -H -t snapshot tank/x"), ["tank/x@one"]);

    p.fails("dataset destroy tank/x", 3, &["refused", "-r"]);
    p.fails("dataset destroy -r tank", 2, &["the pool's root dataset"]);
    p.run("dataset destroy tank/x/y@one");
    p.fails("dataset destroy tank/x/y@one", 1, &["no such snapshot"]);
    let gone = p.json("dataset destroy -r tank/x");
    assert_eq!(gone["destroyed"], serde_json::json!(["tank/x/y", "tank/x@one", "tank/x"]));
    assert_eq!(listed(&p, "dataset list -H -t all"), ["tank"]);
}

#[test]
fn export_forgets_and_import_finds_again() {
    let p = TestDir::new();
    p.run("pool create tank raidz1 a:128M b:128M c:128M cache x:128M -O recordsize=64K");
    p.run("pool create other o:128M");
    assert_eq!(p.run("pool export tank"), "tank exported\n");
    assert_eq!(files_in(p.dir.path()), ["a", "b", "c", "o", "x"], "files are never removed");
    p.fails("dataset list tank", 1, &["no such pool: \"tank\"", "--pool-file", "pool import tank"]);
    let files = "--pool-file a --pool-file x --pool-file b --pool-file c";
    assert_eq!(
        p.run(&format!("dataset get -H -p recordsize tank {files}")),
        "tank\trecordsize\t65536\tlocal\n"
    );
    p.fails("dataset list tank --pool-file o", 1, &["contains the pool other, not tank"]);
    p.fails("dataset list tank --pool-file gone", 1, &["gone"]);

    let dir = p.dir.path().display().to_string();
    p.run("pool export other");
    let found = p.json(&format!("pool import -d {dir}"));
    let names: Vec<&str> =
        found["pools"].as_array().unwrap().iter().filter_map(|x| x["pool"].as_str()).collect();
    assert_eq!(names, ["other", "tank"]);
    let text = p.run(&format!("pool import -d {dir}"));
    assert!(text.contains("raidz1-0") && text.contains("state: exported"), "{text}");
    p.fails(&format!("pool import none -d {dir}"), 1, &["no pool none", "other, tank"]);
    p.fails("pool import tank o", 1, &["contains the pool other"]);
    p.fails("pool import tank", 2, &["-d DIR"]);
    assert!(listed(&p, "pool list -H").iter().all(|line| !line.starts_with("tank")));

    p.run("pool import tank a b c x");
    assert_eq!(p.run("dataset get -H -p recordsize tank"), "tank\trecordsize\t65536\tlocal\n");
    p.run(&format!("pool import other -d {dir}"));
    assert_eq!(listed(&p, "pool list -H"), ["other", "tank"]);
}

#[test]
fn a_pool_that_lost_a_file_says_which() {
    let p = TestDir::new();
    p.run("pool create tank mirror a:128M b:128M");
    p.run("pool create flat c:128M d:128M");
    std::fs::rename(p.at("d"), p.at("hidden")).unwrap();
    let done = p.command("pool status flat").assert().code(1);
    let text = String::from_utf8_lossy(&done.get_output().stdout).into_owned();
    assert!(text.contains("UNAVAIL") && text.contains("/d"), "{text}");
    p.fails("dataset list flat", 1, &["/d"]);
    p.fails("pool import flat c", 1, &["incomplete"]);
    assert_eq!(listed(&p, "dataset list -H tank"), ["tank"], "the other pool is not touched by that");
    std::fs::remove_file(p.at("hidden")).unwrap();
    std::fs::remove_file(p.at("c")).unwrap();
    let gone = p.command("pool export flat").assert().success();
    assert!(String::from_utf8_lossy(&gone.get_output().stderr).contains("removed from the registry"));
}

#[test]
fn a_lost_file_is_replaced() {
    let t = TestDir::new();
    t.run("pool create tank mirror a:128M b:128M cache x:128M");
    std::fs::remove_file(t.at("b")).unwrap();
    t.fails("pool replace tank b c", 1, &["b: no such file", "hint: "]);
    let done = t.json("pool replace tank b c --pool-file a --pool-file x");
    assert_eq!((&done["replacing"], &done["resilver"]["state"]), (&Value::Bool(false), &"finished".into()));
    let status = &t.json("pool status tank")["pools"][0];
    assert_eq!(status["state"], "ONLINE");
    assert_eq!(status["info"]["files"].as_array().unwrap().len(), 3);
    t.run("pool scrub tank");

    // The process that detached a file was killed before it could update the registry.
    let entry = t.at("state/pools/tank.json");
    let before = std::fs::read_to_string(&entry).unwrap();
    t.run("pool detach tank a");
    std::fs::write(&entry, &before).unwrap();
    assert!(t.run("dataset list -H tank").starts_with("tank"));
    std::fs::write(&entry, &before).unwrap();
    std::fs::remove_file(t.at("a")).unwrap();
    assert!(t.run("dataset list -H tank").starts_with("tank"));
    t.run("pool export tank");
    t.run("pool import tank c x");
    // A missing cache file is missed, because no other file's label says whether it belongs to the pool.
    std::fs::remove_file(t.at("x")).unwrap();
    t.fails("dataset list tank", 1, &["x: no such file"]);
}

#[test]
fn a_scrub_finds_and_repairs_a_damaged_side() {
    let p = TestDir::new();
    p.run("pool create tank mirror a:128M b:128M");
    for i in 0..8 {
        p.run(&format!("dataset create tank/d{i}"));
    }
    let clean = p.json("pool scrub tank");
    assert_eq!((clean["checksum_errors"].as_u64(), clean["read_errors"].as_u64()), (Some(0), Some(0)));
    let file = std::fs::OpenOptions::new().write(true).open(p.at("a")).unwrap();
    for at in (4..120u64).step_by(1) {
        file.write_all_at(&vec![0x5a; 1 << 20], at << 20).unwrap();
    }
    drop(file);
    let found = p.command("pool scrub tank --json").assert().code(1);
    let found = crate::common::json_output("pool-scrub", &found.get_output().stdout);
    assert!(found["checksum_errors"].as_u64().unwrap() > 0, "{found}");
    assert!(found["repaired"].as_u64().unwrap() > 0 && found["lost"] == 0, "{found}");
    assert_eq!(found["state"], "finished");
    let text = p.run("pool status tank");
    assert!(text.contains("scan: scrub repaired ") && text.contains(" with 0 errors on 20"), "{text}");
    let again = p.json("pool scrub -w tank");
    assert_eq!(again["checksum_errors"], 0, "the other side had everything");
    assert!(p.run("pool status tank").contains("scan: scrub repaired 0B in 00:00:0"));
    p.fails("pool scrub -s tank", 1, &["tank is not being scrubbed"]);
    p.fails("pool scrub -s -w tank", 2, &["cannot be used with"]);
}

#[test]
fn a_pool_in_use_is_refused_by_name() {
    let p = TestDir::new();
    p.run("pool create tank a:128M");
    let mut holder = std::process::Command::new("flock")
        .arg(p.at("a"))
        .args(["sh", "-c", "echo locked; cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("flock(1) of util-linux");
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pid = format!("process {}", holder.id());
    p.fails("dataset list tank", 3, &["refused", "tank is in use", &pid, "flock"]);
    drop(holder.stdin.take());
    holder.wait().unwrap();
    p.run("dataset list tank");
}

#[test]
fn damaged_registry_entries_are_named_and_others_work() {
    let p = TestDir::new();
    p.run("pool create tank a:128M");
    std::fs::write(p.at("state/pools/broken.json"), "{").unwrap();
    p.fails("dataset list broken", 1, &["broken.json", "import the pool again"]);
    assert_eq!(listed(&p, "pool list -H"), ["tank"]);
}

#[test]
fn properties_are_inherited_and_limits_are_not() {
    let p = TestDir::new();
    p.run("pool create tank a:128M -O compression=lz4");
    p.run("dataset create -p tank/x/y -o compression=zstd");
    p.run("dataset set compression=gzip recordsize=8K tank/x");
    assert_eq!(p.json("dataset inherit compression tank/x")["datasets"], serde_json::json!(["tank/x"]));
    let got = p.run("dataset get -H -o value,source compression tank/x tank/x/y");
    assert_eq!(got, "lz4\tinherited from tank\nzstd\tlocal\n");
    let done = p.json("dataset inherit -r compression tank");
    assert_eq!(done["datasets"], serde_json::json!(["tank", "tank/x", "tank/x/y"]));
    assert_eq!(
        p.run("dataset get -H -o value,source compression tank tank/x/y"),
        "on\tdefault\non\tdefault\n"
    );
    assert_eq!(p.run("dataset get -H -o value,source recordsize tank/x/y"), "8K\tinherited from tank/x\n");
    p.fails("dataset inherit colour tank/x", 2, &["unknown property \"colour\"", "recordsize", "quota"]);
    p.fails("dataset set recordsize=5K tank/x", 2, &["recordsize=5K"]);
    p.fails(
        "dataset inherit quota tank/x",
        2,
        &["not inherited", "\nhint: `poolwright dataset set quota=none tank/x`"],
    );
    p.fails("dataset inherit sync tank/none", 1, &["no such dataset"]);

    assert_eq!(
        p.run("dataset get -H quota,refquota tank/x"),
        "tank/x\tquota\tnone\tdefault\ntank/x\trefquota\tnone\tdefault\n"
    );
    p.run("dataset set quota=64M refquota=32M tank/x");
    assert_eq!(p.run("dataset get -H -o value,source quota,refquota tank/x"), "64M\tlocal\n32M\tlocal\n");
    assert_eq!(p.run("dataset get -H -p -o value quota tank/x tank/x/y"), "67108864\n0\n");
    let list = p.json("dataset list tank/x");
    assert!(list["datasets"][0]["available"].as_u64().unwrap() <= 32 << 20, "{list}");
    let below = p.json("dataset list tank/x/y");
    let room = below["datasets"][0]["available"].as_u64().unwrap();
    assert!(room <= 64 << 20 && room > 32 << 20, "{below}");
    p.fails("dataset set quota=much tank/x", 2, &["quota=much", "none or a size"]);
    p.fails("dataset set quota=4K tank/x", 1, &["quota=4K", "already uses or has reserved more"]);
    assert_eq!(p.run("dataset get -H -o value quota tank/x"), "64M\n");
    p.run("dataset set quota=none tank/x");
    assert_eq!(p.run("dataset get -H -o value quota tank/x"), "none\n");
}

#[test]
fn a_pool_is_imported_by_a_file_of_it() {
    let p = TestDir::new();
    p.run("pool create tank mirror a:128M b:128M log l:128M");
    p.run("pool export tank");
    let found = p.json("pool import b");
    assert_eq!(
        (found["pool"].as_str(), found["files"].as_array().unwrap().len()),
        (Some("tank"), 3),
        "{found}"
    );
    p.run("pool export tank");
    let dir = p.dir.path().display().to_string();
    assert!(p.run(&format!("pool import {dir}")).contains("pool: tank"), "a directory is listed");
    p.run(&format!("pool import tank {dir}"));
    p.run("pool export tank");
    assert!(p.run("pool import ./a ./b ./l").contains("tank imported"));
    p.run("pool export tank");
    std::fs::copy(p.at("a"), p.at("copy")).unwrap();
    p.fails("pool import b", 1, &["/a", "/copy", "are the same vdev"]);
    std::fs::write(p.at("text"), "no such pool").unwrap();
    p.fails("pool import text", 1, &["contains no pool"]);
    p.fails("pool import ./none", 1, &["none"]);
    p.fails("pool import", 2, &["-d DIR"]);
    assert!(p.run("pool import --help").contains("pool import -D /srv/tank.img"));
}

#[test]
fn a_pool_is_destroyed_and_brought_back() {
    let p = TestDir::new();
    p.run("pool create tank a:128M");
    p.run("dataset create tank/x");
    p.fails("pool destroy tan", 1, &["no such pool: \"tan\""]);
    let done = p.run("pool destroy tank");
    assert!(done.starts_with("tank destroyed; its files stay: ") && done.contains("/a"), "{done}");
    assert_eq!(files_in(p.dir.path()), ["a"]);
    assert!(listed(&p, "pool list -H").is_empty());
    p.fails("dataset list tank", 1, &["no such pool"]);
    p.fails("pool import tank a", 1, &["importing tank: the pool was destroyed", "import -D"]);
    p.run("pool import -D tank a");
    assert_eq!(listed(&p, "dataset list -H"), ["tank", "tank/x"]);
    p.run("pool export tank");
    p.run("pool import a");
}
