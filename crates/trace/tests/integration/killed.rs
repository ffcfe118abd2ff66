//! A recorder that is killed with a signal, and a full disk.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{event, file, meta};
use poolwright_trace::{Error, Meta, Op, Reader, Writer};

const CHILD: &str = "POOLWRIGHT_TEST_KILLED_CHILD";

/// The process that [`a_kill_leaves_a_trace_that_opens`] kills; not a test in its own right. It writes checkpoints
/// endlessly.
#[test]
fn child() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let mut writer = Writer::create(path, meta()).unwrap();
    let id = writer.file(file("/db/t.ibd", "data", 1 << 20));
    for t in 0.. {
        writer.push(event(t, Op::Write, id, t * 4096, 4096)).unwrap();
        if t % 500 == 499 {
            writer.checkpoint().unwrap();
        }
    }
}

#[test]
fn a_kill_leaves_a_trace_that_opens() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..8 {
        let path = dir.path().join(format!("{round}.parquet"));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::child"])
            .env(CHILD, &path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let started = Instant::now();
        let wanted = 50_000 + round * 7919; // bytes: each kill falls elsewhere
        while std::fs::metadata(&path).map_or(0, |found| found.len()) < wanted {
            assert!(started.elapsed() < Duration::from_secs(60), "the child writes nothing");
            std::thread::sleep(Duration::from_micros(200));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let reader = Reader::open(&path).unwrap();
        let times: Vec<_> = reader.events().map(|event| event.unwrap().t_ns).collect();
        assert!(times.len() >= 500 && times.len() % 500 == 0, "{}: whole checkpoints only", times.len());
        assert!(times.iter().copied().eq(0..times.len() as u64));
        assert_eq!(reader.files()[0].path, "/db/t.ibd");
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let full = Writer::create("/dev/full", Meta::default()).err();
    assert!(matches!(full, Some(Error::CutShort { events: 0, .. })), "{full:?}");
}

/// Unmounts when dropped.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn what_was_written_before_the_disk_was_full_is_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(dir.path()).stderr(Stdio::null());
    if !mount.status().is_ok_and(|status| status.success()) {
        return eprintln!("SKIPPED what_was_written_before_the_disk_was_full_is_a_trace: cannot mount");
    }
    let _mounted = Mounted(dir.path());
    let path = dir.path().join("t.parquet");
    let mut writer = Writer::create(&path, meta()).unwrap();
    let id = writer.file(file("/db/t.ibd", "data", 1 << 20));
    let mut t = 0;
    let failed = loop {
        writer.push(event(t, Op::Write, id, t * 4096, 4096)).unwrap();
        t += 1;
        match writer.checkpoint() {
            Ok(()) => {}
            Err(failed) => break failed,
        }
    };
    assert!(matches!(failed, Error::CutShort { events, .. } if events == t - 1), "{failed:?} at {t}");
    assert!(failed.to_string().contains("\nhint: the trace is valid up to this point, with "), "{failed}");
    drop(writer);
    let reader = Reader::open(&path).unwrap();
    assert_eq!((reader.len(), reader.recovered()), (t - 1, None));
}
