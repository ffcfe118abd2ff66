//! The recording of a process ends when the process and all its children have ended.

mod common;

use std::io::BufRead as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use common::{permitted, scratch};
use poolwright_record::{Ended, Error, Options, Recorder, Subject};

/// The time limit for the recorder to notice the end of the process. It checks every 100 ms.
const LIMIT: Duration = Duration::from_secs(60);

/// Writes from three children, after a line of input.
const PROGRAM: &str = "read -r go; for i in 1 2 3; do (echo $i >\"child$i\") & done; wait";

/// The outcome of a recording.
#[derive(Debug, PartialEq)]
enum Outcome {
    Ended,
    /// The process had ended before the recorder started.
    TooLate,
    Hung,
}

/// Records [`PROGRAM`], which continues after `delay`, measured from the start of the recorder.
fn record(delay: Duration) -> Outcome {
    let scratch = scratch();
    let mut child = Command::new("sh")
        .args(["-c", PROGRAM])
        .current_dir(scratch.path())
        .stdin(Stdio::piped())
        .spawn()
        .expect("sh starts");
    let pid = child.id();
    let options = Options::new(scratch.path().join("t.parquet"));
    let stop = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&stop);
    let (sender, result) = mpsc::channel();
    let recording = std::thread::spawn(move || {
        let run = |recorder: Recorder| recorder.run(|| until.load(Ordering::Relaxed), |_| {});
        sender.send(Recorder::start(Subject::Pid(pid), &options).and_then(run)).expect("the test waits");
    });
    std::thread::sleep(delay);
    drop(child.stdin.take());
    child.wait().expect("sh ends");
    let outcome = match result.recv_timeout(LIMIT) {
        Ok(Ok(summary)) => {
            assert_eq!(summary.ended, Ended::SubjectGone);
            Outcome::Ended
        }
        Ok(Err(Error::Process(_))) => Outcome::TooLate,
        Ok(Err(why)) => panic!("recording failed: {why}"),
        Err(_) => Outcome::Hung,
    };
    stop.store(true, Ordering::Relaxed);
    recording.join().expect("no panic");
    outcome
}

/// As `top -H` and `ps -L` show them.
#[test]
fn the_number_of_a_thread_is_refused_with_that_of_its_process() {
    let program = "import sys, threading
threading.Thread(target=sys.stdin.readline).start()
print('started', flush=True)";
    let mut child = Command::new("python3")
        .args(["-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 starts");
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let threads = std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().flatten();
    let ids = threads.map(|entry| entry.file_name().to_str().unwrap().parse::<u32>().unwrap());
    let thread = ids.into_iter().find(|id| *id != child.id()).expect("a second thread");
    let refused = Recorder::start(Subject::Pid(thread), &Options::new("/nonexistent/t.parquet")).err();
    let process = child.id();
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(
        matches!(refused, Some(Error::Thread { tid, pid }) if (tid, pid) == (thread, process)),
        "{refused:?}"
    );
    let text = refused.unwrap().to_string();
    assert!(text.ends_with(&format!("hint: record process {process}")), "{text}");
}

/// The children start and end at various moments of the recorder's start and first checks. `POOLWRIGHT_RECORDINGS=1000`
/// sets the number of recordings.
#[test]
fn recordings_of_short_processes_end() {
    if !permitted() {
        return;
    }
    let wanted = std::env::var("POOLWRIGHT_RECORDINGS").ok().and_then(|n| n.parse().ok()).unwrap_or(30);
    let (mut ended, mut run) = (0, 0);
    // On a busy machine the recorder starts late, and only a process that lives longer is still there.
    while run < wanted || ended == 0 {
        let delay = Duration::from_millis(run * 37 % (400 << (run / wanted)));
        match record(delay) {
            Outcome::Ended => ended += 1,
            Outcome::TooLate => {}
            Outcome::Hung => panic!("recording {run} did not end within {LIMIT:?} (delay {delay:?})"),
        }
        run += 1;
    }
    println!("{ended} of {run} recordings ended with their process, the others had no process left");
}
