//! `poolwright apply --online` on a dataset whose quota ends while a file is written.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::common::mounted::{Mounted, until};
use crate::common::second_pool::write_plan;
use crate::common::skip_without_fuse;
use serde_json::json;

const M: usize = 1 << 20;
/// The owner of files with a quota.
const OWNER: u32 = 12345;

/// Bytes that no codec makes smaller.
fn noise(len: usize, mut seed: u64) -> Vec<u8> {
    let mut one = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 56) as u8
    };
    (0..len).map(|_| one()).collect()
}

/// Content and modification time of the dataset's files and of its mount point.
fn contents(mounted: &Mounted) -> BTreeMap<PathBuf, (i64, i64, Vec<u8>)> {
    let entries = fs::read_dir(mounted.at("m")).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| {
        let meta = fs::metadata(&path).unwrap();
        let content = if meta.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        (path, (meta.mtime(), meta.mtime_nsec(), content))
    };
    entries.chain([mounted.at("m")]).map(of).collect()
}

/// Lets the quota end: it becomes what the dataset uses in the last transaction group. Returns false if the next one came meanwhile.
fn end_quota(mounted: &Mounted) -> bool {
    let used = mounted.run("dataset get -H -p -o value referenced tank");
    let used = used.trim();
    mounted.command(&format!("dataset set refquota={used} tank")).output().unwrap().status.success()
}

/// The run looks at the free space between two writes, and ends before the space does. So the quota shrinks between such a look and the next
/// write, which fails with `EDQUOT`.
#[test]
fn a_write_over_a_quota_takes_everything_back() {
    skip_without_fuse!();
    let mounted = Mounted::on("a.img:2G");
    for i in 0..4 {
        fs::write(mounted.at(&format!("m/noise{i}")), noise(12 * M, i)).unwrap();
    }
    let m = mounted.at("m").canonicalize().unwrap();
    write_plan(&mounted, None, &m, &m, json!({"recordsize": "16K"}));
    let before = contents(&mounted);
    let mut is_seen = false;
    for _ in 0..10 {
        let mut command = mounted.plain();
        // A write takes much less time than the pause until the next one.
        command.args("apply plan.json --yes --online --rate 4M".split(' '));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut messages = BufReader::new(child.stderr.take().unwrap());
        let mut text = String::new();
        while !text.ends_with("copying files\n") {
            assert!(messages.read_line(&mut text).unwrap() > 0, "{text}");
        }
        let is_hidden =
            |path: &PathBuf| path.file_name().unwrap().as_encoded_bytes().starts_with(b".poolwright-");
        let copied = || -> u64 {
            let hidden = fs::read_dir(&m).unwrap().map(|entry| entry.unwrap().path()).find(is_hidden);
            let copies = hidden.and_then(|dir| fs::read_dir(dir).ok()).into_iter().flatten();
            copies.map(|copy| copy.unwrap().metadata().map_or(0, |meta| meta.len())).sum()
        };
        until("a part of a file is copied", || copied() >= 2 * M as u64);
        until("the quota ends", || end_quota(&mounted));
        messages.read_to_string(&mut text).unwrap();
        let code = child.wait().unwrap().code();
        // It may have looked before it wrote.
        is_seen = text.contains("Disk quota exceeded");
        assert!(is_seen || text.contains("has only"), "{text}");
        assert_eq!(code, Some(if is_seen { 1 } else { 3 }), "{text}");
        assert!(text.contains("everything is as before"), "{text}");
        assert!(contents(&mounted) == before, "{text}");
        let recordsize = mounted.json("dataset get recordsize tank");
        assert_eq!(recordsize["values"][0]["source"], "default", "{text}");
        let snapshots = mounted.json("dataset list -t snapshot tank");
        assert_eq!(snapshots["datasets"], json!([]), "{text}");
        mounted.run("dataset set refquota=none tank");
        if is_seen {
            break;
        }
    }
    assert!(is_seen, "no write failed");
    mounted.run("apply plan.json --yes --online");
    assert_eq!(fs::metadata(mounted.at("m/noise3")).unwrap().blksize(), 16 << 10);
    mounted.umount();
}

/// The quota of the files' owner counts what was replaced until the pool is synced. The engine has no such quotas, so that a library has
/// the one of the run.
#[test]
fn a_file_that_is_over_its_owners_quota_is_replaced_after_a_sync() {
    skip_without_fuse!();
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("skipped: only root can give files to another user");
        return;
    }
    let mounted = Mounted::on("a.img:1G");
    let library = mounted.at("quota.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/quota.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(source);
    assert!(compiler.status().unwrap().success());
    for i in 0..4 {
        let file = mounted.at(&format!("m/noise{i}"));
        fs::write(&file, noise(M, i)).unwrap();
        std::os::unix::fs::chown(&file, Some(OWNER), Some(OWNER)).unwrap();
    }
    let m = mounted.at("m").canonicalize().unwrap();
    write_plan(&mounted, None, &m, &m, json!({"recordsize": "16K"}));
    let before = contents(&mounted);
    let run = |line: &str, pool: &str| {
        let mut command = mounted.plain();
        command.args(line.split(' ')).env("LD_PRELOAD", &library).env("QUOTA_USER", OWNER.to_string());
        command.env("QUOTA_POOL", mounted.at(pool)).env("QUOTA_LOG", mounted.at("refusals"));
        let done = command.output().unwrap();
        let refusals = fs::read_to_string(mounted.at("refusals")).unwrap_or_default().lines().count();
        let _ = fs::remove_file(mounted.at("refusals"));
        (done.status.code(), refusals, String::from_utf8_lossy(&done.stderr).into_owned())
    };
    // One that stays used up: once more after a sync, not for ever.
    let (code, refusals, text) = run("apply plan.json --yes --online", "absent");
    assert_eq!((code, refusals), (Some(1), 2), "{text}");
    assert!(text.contains("Disk quota exceeded") && text.contains("some files were replaced"), "{text}");
    // The other copies are kept beside the files.
    let now = contents(&mounted);
    assert!(now.len() == before.len() + 1, "{text}");
    assert!(before.iter().all(|(path, file)| *path == mounted.at("m") || now[path] == *file), "{text}");

    let block_size = |i: u32| fs::metadata(mounted.at(&format!("m/noise{i}"))).unwrap().blksize();
    let (code, refusals, text) = run("apply plan.json --yes --online", "a.img");
    assert_eq!(code, Some(0), "{text}");
    assert!(refusals > 0, "no file was refused");
    assert!((0..4).all(|i| block_size(i) == 16 << 10) && contents(&mounted) == before, "{text}");
    let (code, _, text) = run("undo plan.json --yes", "a.img");
    assert_eq!(code, Some(0), "{text}");
    assert!((0..4).all(|i| block_size(i) == 128 << 10) && contents(&mounted) == before, "{text}");
    mounted.umount();
}
