//! `poolwright apply --online` on a dataset whose quota ends while a file is written.

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::Stdio;

use common::mounted::{Mounted, until};
use common::second_pool::write_plan;
use common::skip_without_fuse;
use serde_json::json;

const M: usize = 1 << 20;

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
