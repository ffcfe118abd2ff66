//! Ctrl-C at any message of `backup verify` and `backup restore`: nothing is left of the one, and the other goes on.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::backups::Pool;
use crate::common::skip_without_fuse;

/// A pool with a backup of files of noise.
fn pool() -> Pool {
    let pool = Pool::new();
    let noise: Vec<u8> = (0..150_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    fs::create_dir(pool.at("data/db/below")).unwrap();
    for i in 0..24 {
        fs::write(pool.at(&format!("data/db/below/{i}")), &noise[i..]).unwrap();
    }
    pool.back_up(&["--database", "none"]);
    pool
}

/// The contents of the files below a directory.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut rest) = (BTreeMap::new(), vec![dir.to_owned()]);
    while let Some(path) = rest.pop() {
        if path.is_dir() {
            rest.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            found.insert(path.strip_prefix(dir).unwrap().to_owned(), fs::read(&path).unwrap());
        }
    }
    found
}

/// Runs a command, and sends SIGINT to it so long after so many lines of its messages, or after its end. Returns the exit code, and the
/// messages.
fn interrupted(pool: &Pool, line: &str, lines: usize, delay: Duration) -> (Option<i32>, String) {
    let mut command = pool.plain();
    command.args(line.split_whitespace()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut messages = BufReader::new(child.stderr.take().unwrap());
    let mut text = String::new();
    for _ in 0..lines {
        messages.read_line(&mut text).unwrap();
    }
    std::thread::sleep(delay);
    Command::new("kill").args(["-INT", &child.id().to_string()]).stderr(Stdio::null()).status().unwrap();
    messages.read_to_string(&mut text).unwrap();
    (child.wait().unwrap().code(), text)
}

/// The points at which a command is interrupted: after each of its messages, at once and somewhat later.
fn points() -> impl Iterator<Item = (usize, Duration)> {
    (0..6).flat_map(|lines| [0, 20, 150].map(|ms| (lines, Duration::from_millis(ms))))
}

#[test]
fn a_restore_test_that_is_interrupted_leaves_nothing_and_no_result() {
    skip_without_fuse!();
    let pool = pool();
    fs::create_dir(pool.at("scratch")).unwrap();
    let before = contents(&pool.at("data/db"));
    let mut stopped = 0;
    for (lines, delay) in points() {
        let line = "backup verify tank/backup --check true --scratch scratch --rate 40M";
        let (code, text) = interrupted(&pool, line, lines, delay);
        assert!(matches!(code, None | Some(0 | 130)), "{lines} {delay:?}: {code:?} {text}");
        // Without a handler yet, the signal ends the process before it has done anything.
        stopped += u32::from(code == Some(130));
        assert_eq!(fs::read_dir(pool.at("scratch")).unwrap().count(), 0, "{lines} {delay:?}: {text}");
        let listed = pool.json("backup list tank/backup");
        assert_eq!(listed["backups"].as_array().unwrap().len(), 1);
        // An interrupted run has no result.
        assert!(!listed.to_string().contains("\"passed\":false"), "{listed}");
    }
    assert!(stopped > 0, "no run was interrupted");
    let (passed, code) = pool.restore(&["--check", "true"]);
    assert!(code == Some(0) && !passed.is_empty());
    assert!(contents(&pool.at("data/db")) == before);
}

#[test]
fn a_restore_that_is_interrupted_is_continued() {
    skip_without_fuse!();
    let pool = pool();
    let before = contents(&pool.at("data/db"));
    let mut stopped = 0;
    for (at, (lines, delay)) in points().enumerate() {
        let (top, line) = (pool.at("out"), "backup restore tank/backup --to out");
        let (code, text) = interrupted(&pool, &format!("{line} --rate 40M"), lines, delay);
        assert!(matches!(code, None | Some(0 | 130)), "{lines} {delay:?}: {code:?} {text}");
        stopped += u32::from(code == Some(130));
        if code != Some(0) {
            if at % 2 == 0 {
                // Twice.
                interrupted(&pool, &format!("{line} --rate 40M"), lines, delay);
            }
            let done = pool.command(line).output().unwrap();
            let is_whole = String::from_utf8_lossy(&done.stderr).contains("is not empty");
            assert!(done.status.success() || is_whole, "{}", String::from_utf8_lossy(&done.stderr));
        }
        let data = pool.at("data/db").canonicalize().unwrap();
        let restored = top.join(data.strip_prefix("/").unwrap());
        assert!(contents(&restored) == before, "{lines} {delay:?}: {text}");
        assert!(contents(&top).len() == before.len(), "nothing else is left");
        fs::remove_dir_all(top).unwrap();
    }
    assert!(stopped > 0, "no run was interrupted");
    assert!(contents(&pool.at("data/db")) == before);
}
