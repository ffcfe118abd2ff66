//! `poolwright record` as a user runs it: how it ends, its errors, and its trace after a kill.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use poolwright_trace::{CodecTime, Op, Trace};

const BIN: &str = env!("CARGO_BIN_EXE_poolwright");

fn record(args: &[&str]) -> Output {
    Command::new(BIN).arg("record").args(args).stdin(Stdio::null()).output().expect("poolwright starts")
}

fn messages(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Whether recording is possible here. Otherwise prints that the test is skipped, and why.
fn permitted(test: &str) -> bool {
    let dir = scratch();
    let out = dir.path().join("probe.parquet");
    let output =
        record(&["--dir", dir.path().to_str().unwrap(), "--for", "10ms", "-o", out.to_str().unwrap()]);
    let refused = messages(&output).contains("cannot record");
    if refused {
        eprintln!("SKIPPED {test}: {}", messages(&output).trim());
    }
    !refused
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("create a scratch directory")
}

/// A recorder of a directory that runs until it is stopped.
struct Live {
    child: Child,
}

impl Live {
    fn start(dir: &Path, out: &Path) -> Live {
        let child = Command::new(BIN)
            .args(["record", "--json", "--dir", dir.to_str().unwrap(), "-o", out.to_str().unwrap()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("poolwright starts");
        wait_until_it_records(&child);
        Live { child }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args([&format!("-{name}"), &pid]).status().expect("kill runs");
        assert!(status.success());
    }

    fn wait_for_end(mut self) -> Option<i32> {
        self.child.wait().expect("wait for the child").code()
    }

    fn wait(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().expect("wait for the child");
        let mut line = String::new();
        BufReader::new(self.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (status.code(), line)
    }
}

/// Waits until the recorder has loaded its programs and sleeps between two polls of the ring buffer.
fn wait_until_it_records(child: &Child) {
    let records = || {
        let stack = std::fs::read_to_string(format!("/proc/{}/wchan", child.id())).unwrap_or_default();
        let links = std::fs::read_dir(format!("/proc/{}/fd", child.id())).into_iter().flatten().flatten();
        let links = links.filter_map(|fd| std::fs::read_link(fd.path()).ok());
        links.filter(|to| to.to_string_lossy().contains("bpf")).count() > 8 && stack.contains("nanosleep")
    };
    let deadline = Instant::now() + Duration::from_secs(300);
    while !records() {
        assert!(Instant::now() < deadline, "the recorder does not start");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn write(dir: &Path, name: &str, times: usize) {
    let program = format!(
        "import os\nfd = os.open('{name}', 65)\nfor i in range({times}): os.pwrite(fd, b'x' * 512, i * 512)"
    );
    assert!(Command::new("python3").args(["-c", &program]).current_dir(dir).status().unwrap().success());
}

fn writes(trace: &Trace) -> usize {
    trace.events.iter().filter(|e| e.op == Op::Write).count()
}

#[test]
fn a_signal_finishes_the_trace() {
    if !permitted("a_signal_finishes_the_trace") {
        return;
    }
    for signal in ["INT", "TERM"] {
        let dir = scratch();
        let out = dir.path().join("t.parquet");
        let live = Live::start(dir.path(), &out);
        write(dir.path(), "f", 100);
        live.signal(signal);
        let (code, json) = live.wait();
        assert_eq!(code, Some(0), "SIG{signal}");
        let report = crate::common::json_output("record", json.as_bytes());
        assert_eq!(report["lost_events"], 0);
        assert_eq!(report["ended"], "asked");
        let trace = Trace::load(&out).unwrap();
        assert_eq!(report["events"], trace.events.len());
        assert_eq!(writes(&trace), 100);
    }
}

/// `replay` and `tune` then measure no codec.
#[test]
fn a_recording_has_the_times_of_codecs_for_the_data() {
    if !permitted("a_recording_has_the_times_of_codecs_for_the_data") {
        return;
    }
    let dir = scratch();
    let rows: String = (0..100_000u64)
        .map(|n| format!("{n:08} row {:x}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    std::fs::write(dir.path().join("table"), rows).unwrap();
    let out = dir.path().join("t.parquet");
    let live = Live::start(dir.path(), &out);
    write(dir.path(), "table", 100);
    live.signal("INT");
    assert_eq!(live.wait_for_end(), Some(0));
    let times = Trace::load(&out).unwrap().meta.codecs;
    for codec in ["lz4", "zstd-1", "zstd-3"] {
        for bytes in [4 << 10, 16 << 10, 128 << 10] {
            let of_size = |time: &&CodecTime| time.codec == codec && time.record_bytes == bytes;
            let time = times.iter().find(of_size).unwrap_or_else(|| panic!("{codec} {bytes}: {times:?}"));
            assert!(time.compress_ns > 0 && time.decompress_ns > 0, "{time:?}");
        }
    }
}

#[test]
fn a_killed_recorder_leaves_a_trace_that_opens() {
    if !permitted("a_killed_recorder_leaves_a_trace_that_opens") {
        return;
    }
    let dir = scratch();
    let out = dir.path().join("t.parquet");
    let live = Live::start(dir.path(), &out);
    write(dir.path(), "f", 1000);
    // The first checkpoint follows within some seconds.
    let deadline = Instant::now() + Duration::from_secs(300);
    while Trace::load(&out).map_or(0, |trace| writes(&trace)) < 1000 {
        assert!(Instant::now() < deadline, "no checkpoint contains the writes");
        std::thread::sleep(Duration::from_millis(200));
    }
    write(dir.path(), "g", 1000);
    live.signal("KILL");
    assert_eq!(live.wait().0, None);
    let trace = Trace::load(&out).expect("the trace opens");
    assert!(writes(&trace) >= 1000);
    assert!(trace.files.iter().any(|f| f.path.ends_with("/f")));
}

#[test]
fn a_process_that_ends_ends_the_recording() {
    if !permitted("a_process_that_ends_ends_the_recording") {
        return;
    }
    let dir = scratch();
    let out = dir.path().join("t.parquet");
    let stop = dir.path().join("stop");
    // Again, after the recording has started.
    let program = format!(
        "import os, time
while not os.path.exists({stop:?}):
    open('f', 'w').write('x')
    time.sleep(0.01)
open('f', 'w').write('x')"
    );
    let mut child = Command::new("python3").args(["-c", &program]).current_dir(dir.path()).spawn().unwrap();
    let recorder = Command::new(BIN)
        .args(["record", "--pid", &child.id().to_string(), "--for", "20m", "-o", out.to_str().unwrap()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("poolwright starts");
    wait_until_it_records(&recorder);
    std::fs::write(stop, "").unwrap();
    child.wait().unwrap();
    let output = recorder.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", messages(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("the process and its children ended"), "{text}");
    assert!(text.contains("no events lost"), "{text}");
    assert!(writes(&Trace::load(&out).unwrap()) > 0);
}

#[test]
fn an_idle_directory_is_reported_after_an_interrupt_too() {
    if !permitted("an_idle_directory_is_reported_after_an_interrupt_too") {
        return;
    }
    let dir = scratch();
    let live = Live::start(dir.path(), &dir.path().join("t.parquet"));
    live.signal("INT");
    assert_eq!(live.wait().0, Some(1));
}

#[test]
fn an_idle_directory_is_reported() {
    if !permitted("an_idle_directory_is_reported") {
        return;
    }
    let dir = scratch();
    let out = dir.path().join("t.parquet");
    let output =
        record(&["--dir", dir.path().to_str().unwrap(), "--for", "100ms", "-o", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(messages(&output).contains("nothing was recorded"), "{}", messages(&output));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "an empty trace was left behind");

    // An older trace is unchanged.
    let event = crate::common::event();
    let files = vec![poolwright_trace::File { path: "/db/x".to_owned(), ..Default::default() }];
    let elsewhere = scratch();
    let out = elsewhere.path().join("t.parquet");
    Trace { files, events: vec![event], ..Trace::default() }.save(&out).unwrap();
    let before = std::fs::read(&out).unwrap();
    let args =
        ["--dir", dir.path().to_str().unwrap(), "--for", "100ms", "--json", "-o", out.to_str().unwrap()];
    let output = record(&[&args[..], &["--force"]].concat());
    assert_eq!(output.status.code(), Some(1), "{}", messages(&output));
    let object = crate::common::json_output("record", &output.stdout);
    assert!(object["trace"].is_null() && object["events"] == 0, "{object}");
    assert_eq!(std::fs::read(&out).unwrap(), before);
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 1);
}

#[test]
fn a_missing_subject_is_named_and_leaves_no_file() {
    let dir = scratch();
    let out = dir.path().join("t.parquet");
    let out = out.to_str().unwrap();
    let missing = dir.path().join("missing");
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    for (args, fragments) in [
        (["--dir", missing.to_str().unwrap()], "cannot record"),
        (["--dir", file.to_str().unwrap()], "cannot record"),
        (["--pid", "4194305"], "no such process"),
    ] {
        let output = record(&[args[0], args[1], "-o", out]);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(messages(&output).contains(fragments), "{}", messages(&output));
        assert!(!Path::new(out).exists(), "{args:?}");
    }
}

#[test]
fn usage_errors_end_with_2() {
    for args in [
        &["-o", "t"][..],
        &["--dir", "/", "--pid", "1", "-o", "t"],
        &["--dir", "/"],
        &["--pid", "0", "-o", "t"],
        &["--dir", "/", "-o", "t", "--for", "soon"],
        &["--dir", "/", "-o", "t", "--buffer", "1K"],
    ] {
        assert_eq!(record(args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn a_file_that_is_not_a_trace_stays_unchanged() {
    let dir = scratch();
    let out = dir.path().join("precious");
    std::fs::write(&out, "not a trace").unwrap();
    let output =
        record(&["--dir", dir.path().to_str().unwrap(), "--for", "10ms", "-o", out.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "not a trace");
}

#[test]
fn an_earlier_recording_is_replaced_with_force_only() {
    let dir = scratch();
    let out = dir.path().join("t.parquet");
    let files = vec![poolwright_trace::File { path: "/db/x".to_owned(), ..Default::default() }];
    Trace { files, events: vec![crate::common::event()], ..Trace::default() }.save(&out).unwrap();
    let before = std::fs::read(&out).unwrap();
    let args = ["--dir", dir.path().to_str().unwrap(), "--for", "10ms", "-o", out.to_str().unwrap()];
    let output = record(&args);
    assert_eq!(output.status.code(), Some(3), "{}", messages(&output));
    for expected in ["will not overwrite", "it is an earlier recording", "hint: ", "--force"] {
        assert!(messages(&output).contains(expected), "{}", messages(&output));
    }
    assert_eq!(std::fs::read(&out).unwrap(), before);
    if !permitted("an_earlier_recording_is_replaced_with_force_only") {
        return;
    }
    let db = scratch();
    let args = ["record", "--force", "--dir", db.path().to_str().unwrap(), "-o", out.to_str().unwrap()];
    let child = Command::new(BIN).args(args).stdout(Stdio::null()).spawn().unwrap();
    wait_until_it_records(&child);
    let live = Live { child };
    write(db.path(), "f", 10);
    live.signal("INT");
    assert_eq!(live.wait_for_end(), Some(0));
    assert_eq!(writes(&Trace::load(&out).unwrap()), 10);
}

/// Without capabilities (dropped from the bounding set, so that even root has none), the message names the alternatives.
#[test]
fn without_privilege_the_other_ways_are_named() {
    let dir = scratch();
    let out = dir.path().join("t.parquet");
    let output = Command::new("setpriv")
        .args([
            "--bounding-set=-all",
            "--inh-caps=-all",
            "--no-new-privs",
            BIN,
            "record",
            "--for",
            "10ms",
            "--dir",
        ])
        .arg(dir.path())
        .arg("-o")
        .arg(&out)
        .output();
    let Ok(output) = output else {
        eprintln!("SKIPPED without_privilege_the_other_ways_are_named: setpriv is not installed");
        return;
    };
    let text = messages(&output);
    if text.contains("setpriv:") {
        eprintln!("SKIPPED without_privilege_the_other_ways_are_named: {text}");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{text}");
    for fragments in ["CAP_BPF", "CAP_PERFMON", "trace import"] {
        assert!(text.contains(fragments), "{text}");
    }
    assert!(!out.exists(), "a failed start must leave no trace");
}
