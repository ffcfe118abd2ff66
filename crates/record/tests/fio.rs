//! Compares recordings with fio's own counts, bytes and log of offsets.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Live, events_on, installed, scratch};
use poolwright_record::Subject;
use poolwright_trace::{Event, Flags, Op};

/// A fio job: `extra` arguments, and flags that every transfer must have.
struct Job {
    engine: &'static str,
    extra: &'static [&'static str],
    flags: u16,
}

fn fio(dir: &Path, args: &[&str]) -> serde_json::Value {
    let output = Command::new("fio")
        .args(["--name=job", "--filename=data", "--size=16M", "--output-format=json"])
        // `--directory` would not work: with `--write_iolog`, fio 3.33 ignores it.
        .current_dir(dir)
        .args(args)
        .output()
        .expect("fio starts");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "fio failed: {text}");
    let start = text.find('{').expect("fio prints JSON");
    serde_json::from_str(&text[start..]).expect("fio prints JSON")
}

/// Returns the transfers and their positions from fio's log.
fn logged(iolog: &Path) -> Vec<(Op, u64, u64)> {
    let text = std::fs::read_to_string(iolog).expect("fio wrote its log");
    let transfer = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [.., action, offset, length] = words.as_slice() else { return None };
        let op = match *action {
            "read" => Op::Read,
            "write" => Op::Write,
            _ => return None,
        };
        Some((op, offset.parse().ok()?, length.parse().ok()?))
    };
    text.lines().filter_map(transfer).collect()
}

fn check(job: &Job) {
    if !installed("fio") {
        return;
    }
    let scratch = scratch();
    let dir = scratch.path().join("db");
    std::fs::create_dir(&dir).unwrap();
    fio(&dir, &["--rw=write", "--bs=1M", "--ioengine=psync", "--end_fsync=1"]);
    let iolog = scratch.path().join("log");
    let log_arg = format!("--write_iolog={}", iolog.display());
    let engine = format!("--ioengine={}", job.engine);
    let mut args =
        vec!["--rw=randrw", "--bs=4k", "--io_size=8M", "--fsync=32", "--randseed=7", &engine, &log_arg];
    args.extend(job.extra);

    let out = scratch.path().join("t.parquet");
    let Some(live) = Live::start(Subject::Dir(dir.clone()), &out) else { return };
    let report = fio(&dir, &args);
    let (summary, trace) = live.finish();

    assert_eq!(summary.meta.lost_events, 0);
    // Any process of the machine may call sync.
    let unseen = summary.meta.unseen.iter().filter(|(what, _)| !what.starts_with("calls of sync"));
    assert_eq!(unseen.collect::<Vec<_>>(), [] as [&(String, u64); 0], "fio uses nothing that cannot be seen");
    let events = events_on(&trace, "db/data");
    let of = |op: Op| events.iter().filter(|e| e.op == op).copied().collect::<Vec<Event>>();
    let job_report = &report["jobs"][0];
    for (op, key) in [(Op::Read, "read"), (Op::Write, "write")] {
        let recorded = of(op);
        assert_eq!(recorded.len() as u64, job_report[key]["total_ios"].as_u64().unwrap(), "{key} operations");
        let bytes: u64 = recorded.iter().map(|e| e.len).sum();
        assert_eq!(bytes, job_report[key]["io_bytes"].as_u64().unwrap(), "{key} bytes");
        for event in recorded {
            assert!(event.flags.contains(Flags(job.flags)), "{event:?} lacks flags {:?}", job.flags);
            assert!(event.dur_ns > 0, "{event:?} has no duration");
        }
    }
    assert_eq!(of(Op::Fsync).len() as u64, job_report["sync"]["total_ios"].as_u64().unwrap(), "syncs");
    let mut recorded: Vec<_> = events
        .iter()
        .filter(|e| matches!(e.op, Op::Read | Op::Write))
        .map(|e| (e.op, e.offset, e.len))
        .collect();
    let mut issued = logged(&iolog);
    // Asynchronous requests of one batch start at the same time, so their order is arbitrary.
    if job.flags & (Flags::AIO.0 | Flags::URING.0) != 0 {
        recorded.sort_unstable();
        issued.sort_unstable();
    }
    assert_eq!(recorded.len(), issued.len());
    assert!(recorded == issued, "the places differ from fio's log");
}

#[test]
fn psync() {
    check(&Job { engine: "psync", extra: &[], flags: 0 });
}

#[test]
fn psync_direct() {
    let flags = Flags::DIRECT.0;
    check(&Job { engine: "psync", extra: &["--direct=1"], flags });
}

#[test]
fn seek_and_read() {
    check(&Job { engine: "sync", extra: &[], flags: 0 });
}

#[test]
fn vectors() {
    check(&Job { engine: "vsync", extra: &[], flags: 0 });
    check(&Job { engine: "pvsync", extra: &[], flags: 0 });
    check(&Job { engine: "pvsync2", extra: &[], flags: 0 });
}

#[test]
fn libaio() {
    let flags = Flags::AIO.0 | Flags::DIRECT.0;
    let extra = &["--direct=1", "--iodepth=16"];
    check(&Job { engine: "libaio", extra, flags });
}

#[test]
fn io_uring() {
    let flags = Flags::URING.0 | Flags::DIRECT.0;
    let extra = &["--direct=1", "--iodepth=16"];
    check(&Job { engine: "io_uring", extra, flags });
}

#[test]
fn io_uring_buffered() {
    let extra = &["--iodepth=8"];
    check(&Job { engine: "io_uring", extra, flags: Flags::URING.0 });
}

#[test]
fn io_uring_with_fixed_files_and_a_polling_kernel_thread() {
    let flags = Flags::URING.0 | Flags::DIRECT.0;
    let extra = &["--direct=1", "--iodepth=8", "--registerfiles=1", "--sqthread_poll=1"];
    let job = Job { engine: "io_uring", extra, flags };
    check(&job);
}
