//! Runs a recorder in the background of a test.
//!
//! The recorder leaves out its own process, so child processes do the recorded work. Each file of tests is a program of its own: a recording
//! of a directory counts calls that it cannot show of any process that uses the directory, and so those of other tests.

#![allow(dead_code)] // not every test file uses all of it

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use poolwright_record::{Options, Recorder, Result, Subject, Summary, probe_support};
use poolwright_trace::{Event, Op, Trace};

/// Whether recording is permitted. Otherwise prints that the test is skipped, and why.
pub fn permitted(test: &str) -> bool {
    let sets = probe_support();
    if sets.iter().any(|set| set.refused.is_none()) {
        return true;
    }
    for set in sets {
        if let Some(reason) = set.refused {
            eprintln!("SKIPPED {test}: {reason}");
        }
    }
    false
}

/// Whether a program is installed. Otherwise prints that the test is skipped.
pub fn installed(program: &str, test: &str) -> bool {
    let found =
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("SKIPPED {test}: {program} is not installed");
    }
    found
}

/// Creates a scratch directory on a disk: /tmp may be a tmpfs, which has no page-cache faults and no O_DIRECT.
pub fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("create a scratch directory")
}

/// A running recording.
pub struct Live {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Summary>>,
    out: PathBuf,
}

impl Live {
    /// Starts a recording. Returns when the subject is being recorded.
    pub fn start(subject: Subject, out: &Path) -> Live {
        Live::start_with(subject, Options::new(out))
    }

    pub fn start_with(subject: Subject, options: Options) -> Live {
        Live::start_held(subject, options, Arc::default())
    }

    /// Starts a recording that does not read the ring buffer while another thread holds the lock `held`.
    pub fn start_held(subject: Subject, options: Options, held: Arc<Mutex<()>>) -> Live {
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, started) = mpsc::channel();
        let (until, out) = (Arc::clone(&stop), options.out.clone());
        let thread = std::thread::spawn(move || {
            let recorder = Recorder::start(subject, &options)?;
            ready.send(()).expect("the test waits");
            let over = || {
                drop(held.lock());
                until.load(Ordering::Relaxed)
            };
            recorder.run(over, |_| {})
        });
        if started.recv().is_err() {
            panic!("the recorder did not start: {:?}", thread.join());
        }
        Live { stop, thread, out }
    }

    /// Waits for a recording that ends with its subject.
    pub fn join(self) -> (Summary, Trace) {
        let out = self.out.clone();
        (self.wait(), Trace::load(&out).expect("the trace opens"))
    }

    fn wait(self) -> Summary {
        self.thread.join().expect("no panic").expect("the recording succeeds")
    }

    /// Stops a recording that may have seen no event, and so left no trace.
    pub fn stop(self) -> Summary {
        self.stop.store(true, Ordering::Relaxed);
        self.wait()
    }

    pub fn finish(self) -> (Summary, Trace) {
        self.stop.store(true, Ordering::Relaxed);
        self.join()
    }
}

/// Runs a Python program in `dir`.
pub fn python(dir: &Path, program: &str) {
    let status =
        Command::new("python3").args(["-c", program]).current_dir(dir).status().expect("python3 starts");
    assert!(status.success(), "the program failed: {program}");
}

/// Returns the operations on files whose path ends with `name`, as (operation, offset, length).
pub fn ops_on(trace: &Trace, name: &str) -> Vec<(Op, u64, u64)> {
    events_on(trace, name).iter().map(|e| (e.op, e.offset, e.len)).collect()
}

pub fn events_on(trace: &Trace, name: &str) -> Vec<Event> {
    let of_file = |e: &&Event| trace.files[e.file as usize].path.ends_with(name);
    trace.events.iter().filter(of_file).copied().collect()
}
