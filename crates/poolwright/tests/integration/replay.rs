//! `poolwright replay` as a user runs it: limits of time, space and memory, and the source of the data.

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use poolwright_trace::layout::Role;
use poolwright_trace::{CodecTime, Event, File, Flags, Op, Trace};

const PAGE: u64 = 16384;

/// A write of one page of the only file.
fn write(t_ns: u64, page: u64) -> Event {
    Event {
        t_ns,
        dur_ns: 1000,
        op: Op::Write,
        file: 0,
        offset: page * PAGE,
        len: PAGE,
        pid: 1,
        tid: 1,
        flags: Flags::default(),
        gap: None,
    }
}

/// Creates a file with `pages` pages, and a trace of it.
fn recorded(dir: &Path, pages: u64, events: Vec<Event>) {
    let path = dir.join("table.ibd");
    std::fs::write(&path, vec![b'x'; (pages * PAGE) as usize]).unwrap();
    let file = File {
        path: path.display().to_string(),
        size: pages * PAGE,
        role: Some(Role::Data),
        ..File::default()
    };
    Trace { files: vec![file], events, ..Trace::default() }.save(dir.join("t.parquet")).unwrap();
}

/// Writes with a sync after each. On a device with a flush of 50 ms they take 20 s, unless syncs are ignored; on the virtual clock, not
/// of this machine's time.
fn many_syncs(dir: &Path) {
    let synced = |i: u64| {
        let write = write(i * 1_000_000, i % 64);
        [write, Event { t_ns: write.t_ns + 10_000, op: Op::Fsync, offset: 0, len: 0, ..write }]
    };
    recorded(dir, 64, (0..400).flat_map(synced).collect());
}

fn replay(dir: &Path, more: &str) -> Output {
    Command::new(assert_cmd::cargo::cargo_bin!("poolwright"))
        .current_dir(dir)
        .args("replay t.parquet --warm 0 --arc 64M --device flush=50ms --scratch .".split(' '))
        .args(more.split(' '))
        .output()
        .unwrap()
}

#[test]
fn a_trial_that_takes_too_long_has_no_result() {
    let dir = tempfile::tempdir().unwrap();
    many_syncs(dir.path());
    let out =
        replay(dir.path(), "-o sync=standard,disabled --clock real --repeat 2 --trial-timeout 8s --json");
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let result = crate::common::json_output("replay", &out.stdout);
    let runs = result["runs"].as_array().unwrap();
    let syncs: Vec<_> = runs.iter().map(|run| run["settings"]["data"]["sync"].as_str()).collect();
    assert_eq!(syncs, [Some("disabled"); 2]);
    assert_eq!(result["comparisons"], serde_json::json!([]));
    let stopped = serde_json::json!([{"settings": {"*": {"sync": "standard"}}, "trial": 1, "limit_s": 8.0}]);
    assert_eq!(result["stopped"], stopped, "and it is not tried again");
}

#[test]
fn a_pass_ends_after_the_time_given() {
    let dir = tempfile::tempdir().unwrap();
    many_syncs(dir.path());
    // The syncs alone take 20 s.
    let out = replay(dir.path(), "--application --for 2s --json");
    assert_eq!(out.status.code(), Some(0), "{}", messages(&out));
    let run = crate::common::json_output("replay", &out.stdout);
    let (share, rate) = (run["work_share"].as_f64().unwrap(), run["work_rate"].as_f64().unwrap());
    assert!(share > 0.0 && share < 0.5 && rate > 0.0, "{share} {rate}");
    assert!(run["ops"].as_f64().unwrap() < 0.6 * 800.0, "{}", run["ops"]);
    refused(dir.path(), "--for 2s", &["--application"]);
}

#[test]
fn a_part_of_a_recording_is_replayed_with_the_files_of_that_time() {
    let dir = tempfile::tempdir().unwrap();
    // Each second, the file grows by ten pages.
    recorded(dir.path(), 100, (0..100).map(|i| write(i * 100_000_000, i)).collect());
    let out = replay(dir.path(), "--from 4s --first 2s --json");
    assert_eq!(out.status.code(), Some(0), "{}", messages(&out));
    let run = crate::common::json_output("replay", &out.stdout);
    let pages = |field: &str| run[field].as_u64().unwrap() / PAGE;
    assert_eq!((pages("filled_bytes"), pages("written_bytes")), (40, 21), "{run}");
}

/// The recording has the times of codecs, so the trials measure nothing on this machine.
#[test]
fn a_replay_with_the_same_seed_has_the_same_figures() {
    let dir = tempfile::tempdir().unwrap();
    many_syncs(dir.path());
    let path = dir.path().join("t.parquet");
    let mut trace = Trace::load(&path).unwrap();
    let time = |codec: &str, record_bytes: u64| CodecTime {
        codec: codec.to_owned(),
        record_bytes,
        ratio_bits: 1,
        compress_ns: record_bytes * 2,
        decompress_ns: record_bytes,
    };
    let sizes = [4 << 10, 16 << 10, 128 << 10, 1 << 20];
    trace.meta.codecs = ["lz4", "zstd-1", "zstd-3"]
        .into_iter()
        .flat_map(|codec| sizes.map(|bytes| time(codec, bytes)))
        .collect();
    trace.save(&path).unwrap();
    let figures = || {
        let out = replay(dir.path(), "--application --json -o compression=lz4,zstd-1");
        assert!(out.status.success(), "{}", messages(&out));
        let mut runs = crate::common::json_output("replay", &out.stdout)["runs"].as_array().unwrap().clone();
        for run in &mut runs {
            assert_eq!(run["codec_costs"], serde_json::Value::Null, "nothing is measured");
            // The only figure of this machine's clock.
            run.as_object_mut().unwrap().remove("fill_seconds");
        }
        runs
    };
    assert_eq!(figures(), figures());
}

/// The trial would write ten times the size of the file system.
/// The bounds of the file are those of the engine, which refuses costs of a codec that it does not have.
#[test]
fn costs_at_their_bounds_reach_the_engine() {
    let dir = tempfile::tempdir().unwrap();
    many_syncs(dir.path());
    let codec = |codec: u32, decompress: bool| {
        format!(
            r#"{{"codec": {codec}, "level": 255, "size_bits": 25, "ratio_bits": 7, "decompress": {decompress}, "ns": 60000000000}}"#
        )
    };
    let costs = |codecs: &str| {
        let base = r#""call_ns": 0, "switch_ns": 100000000, "copy_ps": 0, "checksum_ps": 0"#;
        std::fs::write(dir.path().join("costs.json"), format!("{{{base}, \"codecs\": [{codecs}]}}")).unwrap();
        replay(dir.path(), "--costs costs.json --json")
    };
    let out = costs(&[codec(3, true), codec(16, true), codec(16, false)].join(", "));
    assert!(out.status.success(), "{}", messages(&out));
    let out = costs(&codec(17, true));
    assert_eq!(out.status.code(), Some(2), "{}", messages(&out));
    for fragment in
        ["invalid costs in costs.json: entry 1 of codecs: codec 17 is unknown", "\nhint: give a JSON object"]
    {
        assert!(messages(&out).contains(fragment), "{}", messages(&out));
    }
}

#[test]
fn a_trial_leaves_room_on_its_file_system() {
    let dir = tempfile::tempdir().unwrap();
    let pages = 2048;
    recorded(dir.path(), pages, (0..200_000).map(|i| write(i * 10_000, i * 797 % pages)).collect());
    let small = dir.path().join("small");
    std::fs::create_dir(&small).unwrap();
    let mut mount = std::process::Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=320m", "poolwright-test"]).arg(&small);
    if !mount.output().is_ok_and(|out| out.status.success()) {
        eprintln!("SKIPPED a_trial_leaves_room_on_its_file_system: mounting a small tmpfs is not permitted");
        return;
    }
    // The trial may still write as much as this device writes in a second.
    let line = "replay t.parquet --warm 0 --arc 64M --device write=1ms,write_bw=30M,depth=4 --scratch small -o compression=off";
    let out = Command::new(assert_cmd::cargo::cargo_bin!("poolwright"))
        .current_dir(dir.path())
        .args(line.split(' '))
        .output();
    let left: Vec<_> =
        std::fs::read_dir(&small).into_iter().flatten().flatten().map(|e| e.file_name()).collect();
    let unmounted = std::process::Command::new("umount").arg(&small).status();
    let out = out.unwrap();
    assert!(unmounted.unwrap().success());
    assert_eq!(out.status.code(), Some(1), "{}", messages(&out));
    assert!(messages(&out).contains("MiB free") && messages(&out).contains("hint: "), "{}", messages(&out));
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn trials_that_all_take_too_long_are_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    many_syncs(dir.path());
    let slow = [("-o recordsize=16K --clock real", "recordsize=16K"), ("--dir . --paced=0.01", " in .")];
    for (options, setting) in slow {
        let out = replay(dir.path(), &format!("{options} --trial-timeout 1s"));
        let (messages, why) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert_eq!(out.status.code(), Some(1), "{messages}{why}");
        assert!(messages.contains("Stopped after 1 s, so there is no result for "), "{messages}");
        assert!(
            messages.contains(&format!("{setting}.")) && !messages.contains("OpenZFS defaults"),
            "{messages}"
        );
        assert!(why.contains("--trial-timeout") && why.contains("--first"), "{why}");
    }
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().flatten().map(|e| e.file_name()).collect();
    assert_eq!(left.len(), 2, "the table and the trace only: {left:?}");
}

fn messages(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
}

fn refused(dir: &Path, more: &str, fragments: &[&str]) {
    let out = replay(dir, more);
    assert_eq!(out.status.code(), Some(2), "{more}: {}", messages(&out));
    for fragment in fragments {
        assert!(messages(&out).contains(fragment), "{more}: {fragment:?} is not in {}", messages(&out));
    }
}

#[test]
fn a_directory_without_the_files_is_refused_though_the_originals_are_there() {
    let dir = tempfile::tempdir().unwrap();
    many_syncs(dir.path());
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    refused(dir.path(), "--data missing", &["--data missing: no such directory"]);
    refused(dir.path(), "--data empty", &["the only file that the trace", "table.ibd", "\nhint: "]);
}

#[test]
fn bytes_come_from_the_named_directory_only() {
    let dir = tempfile::tempdir().unwrap();
    many_syncs(dir.path());
    let mut trace = Trace::load(dir.path().join("t.parquet")).unwrap();
    let other = dir.path().join("other.ibd");
    std::fs::write(&other, vec![b'y'; 64 * PAGE as usize]).unwrap();
    trace.files.push(File { path: other.display().to_string(), ..trace.files[0].clone() });
    trace.events.truncate(4);
    trace.events[2].file = 1;
    trace.save(dir.path().join("t.parquet")).unwrap();
    let copy = dir.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    std::fs::copy(dir.path().join("table.ibd"), copy.join("table.ibd")).unwrap();
    let out = replay(dir.path(), "--data copy --json");
    assert_eq!(out.status.code(), Some(0), "{}", messages(&out));
    assert!(messages(&out).contains("warning: 1 of the 2 files"), "{}", messages(&out));
    let run = crate::common::json_output("replay", &out.stdout);
    assert_eq!(run["written_real"].as_f64(), Some(0.5), "one of the two writes is of a file that is there");
}

#[test]
fn another_file_at_a_recorded_path_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    many_syncs(dir.path());
    let mut trace = Trace::load(dir.path().join("t.parquet")).unwrap();
    trace.events.truncate(4);
    // As of a process that had another file system mounted there.
    (trace.files[0].device, trace.files[0].ino) = ("0:1048575".into(), 7);
    trace.save(dir.path().join("t.parquet")).unwrap();
    let out = replay(dir.path(), "--json");
    assert_eq!(out.status.code(), Some(0), "{}", messages(&out));
    for part in ["at the paths of 1 of the 1 file", "another device or inode", "hint: ", "--data"] {
        assert!(messages(&out).contains(part), "{}", messages(&out));
    }
    let run = crate::common::json_output("replay", &out.stdout);
    assert_eq!(run["written_real"].as_f64(), Some(0.0));
    let out = replay(dir.path(), "--data . --json");
    let run = crate::common::json_output("replay", &out.stdout);
    assert_eq!(run["written_real"].as_f64(), Some(1.0), "the user says that it is the file");
}

#[test]
fn settings_of_roles_that_are_not_replayed_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    many_syncs(dir.path());
    refused(dir.path(), "-o wal:logbias=throughput", &["-o wal:", "it has data"]);
    refused(dir.path(), "--role wal", &["wal", "it has data"]);
    let mut trace = Trace::load(dir.path().join("t.parquet")).unwrap();
    trace.files.push(File { path: "/log".into(), role: Some(Role::Wal), ..File::default() });
    trace.save(dir.path().join("t.parquet")).unwrap();
    refused(dir.path(), "--role data -o wal:logbias=throughput", &["--role replays only data"]);
}

#[test]
fn a_plain_directory_has_no_settings_and_no_arc() {
    let dir = tempfile::tempdir().unwrap();
    many_syncs(dir.path());
    let out = replay(dir.path(), "--dir . --first 100ms");
    assert_eq!(out.status.code(), Some(0), "{}", messages(&out));
    let text = messages(&out);
    let row = text.lines().find(|l| l.contains(" in .")).unwrap_or_else(|| panic!("no row in {text}"));
    assert!(!text.contains("OpenZFS defaults") && !row.contains('%'), "{text}");
}

#[test]
fn a_sample_that_is_too_small_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    many_syncs(dir.path());
    let out = replay(dir.path(), "--sample-bytes 1");
    assert_eq!(out.status.code(), Some(1), "{}", messages(&out));
    assert!(messages(&out).contains("a sample of 1B of the 1M"), "{}", messages(&out));
    assert!(
        messages(&out).contains("--sample-bytes") && !messages(&out).contains("no read or write on"),
        "{}",
        messages(&out)
    );
}

/// An access to every MiB of a log of 400 GiB: the limit permits the capture, but the scratch directory has no room for it.
#[test]
fn a_capture_that_exceeds_the_scratch_directory_is_refused_before_it_is_made() {
    const MIB: u64 = 1 << 20;
    let dir = tempfile::tempdir().unwrap();
    if poolwright_base::room::available(dir.path()).is_ok_and(|free| free > 400 << 30) {
        eprintln!("not tested: the temporary directory has more room than that");
        return;
    }
    let event = |i: u64| Event {
        t_ns: i,
        dur_ns: 1,
        op: Op::Write,
        file: 0,
        offset: i * 2 * MIB,
        len: 4096,
        pid: 1,
        tid: 1,
        flags: Flags::default(),
        gap: None,
    };
    let file = File { path: "/nowhere/log".into(), role: Some(Role::Wal), ..File::default() };
    let trace = Trace { files: vec![file], events: (0..400 << 10).map(event).collect(), ..Trace::default() };
    trace.save(dir.path().join("t.parquet")).unwrap();
    let out = replay(dir.path(), "--sample-bytes 1T");
    assert_eq!(out.status.code(), Some(1), "{}", messages(&out));
    assert!(
        messages(&out).contains("MiB free") && messages(&out).contains("--sample-bytes"),
        "{}",
        messages(&out)
    );
}
