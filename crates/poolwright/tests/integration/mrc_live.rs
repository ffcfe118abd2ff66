//! `poolwright mrc --dir`: the curve of a running database.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const BIN: &str = env!("CARGO_BIN_EXE_poolwright");

fn mrc(args: &[&str]) -> Child {
    let mut command = Command::new(BIN);
    command.arg("mrc").args(args).args([
        "--model",
        "lru,arc",
        "--recordsize",
        "8K",
        "--sizes",
        "64K,16M",
        "--json",
    ]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("poolwright starts")
}

fn messages(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("create a scratch directory")
}

/// Whether recording is possible here. Otherwise prints that the test is skipped, and why.
fn permitted(test: &str) -> bool {
    let dir = scratch();
    let output = mrc(&["--dir", dir.path().to_str().unwrap(), "--for", "10ms"]).wait_with_output().unwrap();
    let refused = messages(&output).contains("cannot record");
    if refused {
        eprintln!("SKIPPED {test}: {}", messages(&output).trim());
    } else {
        assert_eq!(output.status.code(), Some(1), "{}", messages(&output));
        assert!(messages(&output).contains("nothing was recorded"), "{}", messages(&output));
    }
    !refused
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

/// 100 pages of 8K written in a new file, and read ten times in turn.
fn work(dir: &Path) {
    let program = "import os\nfd = os.open('t', os.O_RDWR | os.O_CREAT)\n\
                   for i in range(100): os.pwrite(fd, b'x' * 8192, i * 8192)\n\
                   for i in range(1000): os.pread(fd, 8192, i % 100 * 8192)";
    assert!(Command::new("python3").args(["-c", program]).current_dir(dir).status().unwrap().success());
}

#[test]
fn a_signal_ends_the_recording_and_shows_the_curve() {
    if !permitted("a_signal_ends_the_recording_and_shows_the_curve") {
        return;
    }
    let dir = scratch();
    let child = mrc(&["--dir", dir.path().to_str().unwrap()]);
    wait_until_it_records(&child);
    work(dir.path());
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", messages(&output));
    let found = crate::common::json_output("mrc", &output.stdout);
    assert_eq!((&found["format"], &found["ended"]), (&"live".into(), &"done".into()));
    assert_eq!((found["requests"].as_u64(), found["records"].as_u64()), (Some(1100), Some(100)));
    let ratio =
        |curve: usize, point: usize| found["curves"][curve]["points"][point]["miss_ratio"].as_f64().unwrap();
    // A cyclic scan of more than fits never hits in LRU. If all pages fit, only the writes miss, and they read nothing.
    assert_eq!(ratio(0, 0), 1.0);
    let point = &found["curves"][0]["points"][1];
    let writes = point["write_miss_ratio"].as_f64().unwrap();
    for share in [ratio(0, 1), ratio(1, 1), writes] {
        assert!((share - 100.0 / 1100.0).abs() < 1e-9, "{share}");
    }
    assert_eq!(point["update_miss_ratio"], 0.0);
    assert!(std::fs::read_dir(dir.path()).unwrap().count() == 1, "nothing is written beside the database");
}

/// Pages in random order; files grow, shrink, replace other files and are removed.
const HISTORY: &str = "
import os, random
random.seed(7)
old = os.open('old', os.O_RDWR)
log = os.open('log', os.O_WRONLY | os.O_APPEND)
for i in range(3000):
    page = int(random.paretovariate(0.4)) % 400
    if i % 4: os.pread(old, 8192, page * 8192)
    else: os.pwrite(old, b'y' * random.choice([8192, 100, 20000]), page * 8192)
    if i % 7 == 0: os.write(log, b'z' * 700)
    if i % 500 == 0:
        new = os.open('new', os.O_RDWR | os.O_CREAT)
        os.pwrite(new, b'n' * 300000, 0)
        os.ftruncate(new, 100000)
        os.pread(new, 300000, 0)
        os.close(new)
        os.rename('new', 'kept')
    if i % 900 == 0: os.ftruncate(old, 200 * 8192)
os.unlink('kept')
";

/// The live curve equals that of a trace that a second recorder has written at the same time.
#[test]
fn live_is_as_recorded() {
    if !permitted("live_is_as_recorded") {
        return;
    }
    let scratch = scratch();
    let (dir, trace) = (scratch.path().join("db"), scratch.path().join("t.parquet"));
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("old"), vec![1; 400 * 8192]).unwrap();
    std::fs::write(dir.join("log"), vec![1; 12_345]).unwrap();
    let live = mrc(&["--dir", dir.to_str().unwrap()]);
    let mut record = Command::new(BIN);
    record.args(["record", "--json", "--dir", dir.to_str().unwrap(), "-o", trace.to_str().unwrap()]);
    let record = record.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("poolwright starts");
    for child in [&live, &record] {
        wait_until_it_records(child);
    }
    assert!(Command::new("python3").args(["-c", HISTORY]).current_dir(&dir).status().unwrap().success());
    for child in [&live, &record] {
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    }
    assert!(record.wait_with_output().unwrap().status.success());
    let read = mrc(&[trace.to_str().unwrap()]).wait_with_output().unwrap();
    let live = live.wait_with_output().unwrap();
    let [live, read] = [&live, &read].map(|output| -> Value {
        assert!(output.status.success(), "{}", messages(output));
        crate::common::json_output("mrc", &output.stdout)
    });
    assert!(live["requests"].as_u64().unwrap() > 3500, "{live}");
    for key in ["requests", "records", "skipped", "lost_events"] {
        assert_eq!(live[key], read[key], "{key}");
    }
    for curve in 0..2 {
        assert_eq!(live["curves"][curve]["points"], read["curves"][curve]["points"]);
    }
}

#[test]
fn it_ends_with_its_process_or_its_time() {
    if !permitted("it_ends_with_its_process_or_its_time") {
        return;
    }
    let dir = scratch();
    // Waits for a line of input before it works, so that all of its I/O is recorded.
    let program =
        "import os\ninput()\nfd = os.open('t', 66)\nfor i in range(50): os.pwrite(fd, b'x' * 8192, i * 8192)";
    let mut subject = Command::new("python3");
    subject.args(["-c", program]).current_dir(dir.path()).stdin(Stdio::piped());
    let mut subject = subject.spawn().expect("python3 starts");
    let child = mrc(&["--pid", &subject.id().to_string()]);
    wait_until_it_records(&child);
    std::io::Write::write_all(subject.stdin.as_mut().unwrap(), b"go\n").unwrap();
    assert!(subject.wait().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", messages(&output));
    let found = crate::common::json_output("mrc", &output.stdout);
    assert!(found["requests"].as_u64().unwrap() >= 50);

    let missing = mrc(&["--dir", "/no/such/database"]).wait_with_output().unwrap();
    assert_eq!(missing.status.code(), Some(1));
    assert!(messages(&missing).contains("/no/such/database"), "{}", messages(&missing));
}
