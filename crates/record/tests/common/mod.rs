//! Runs a recorder in the background of a test.
//!
//! The recorder leaves out its own process, so child processes do the recorded work. Each file of tests is a program of its own: a recording
//! of a directory counts calls that it cannot show of any process that uses the directory, and so those of other tests.

#![allow(dead_code)] // not every test file uses all of it

use std::fmt::Display;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use poolwright_base::ReportedError as _;
use poolwright_record::{Options, Recorder, Result, Subject, Summary, Watcher};
use poolwright_trace::{Event, File, Op, Trace};

/// Prints that the running test is skipped.
pub fn skip(why: impl Display) {
    let thread = std::thread::current();
    eprintln!("SKIPPED {}: {why}", thread.name().unwrap_or("a part of a test"));
}

/// Whether recording is permitted. Otherwise prints that the test is skipped, and why.
pub fn permitted() -> bool {
    let started = Recorder::watch(Subject::Pid(std::process::id()), 1 << 16, Box::new(Nobody));
    started.map_err(skip).is_ok()
}

struct Nobody;

impl Watcher for Nobody {
    fn file(&mut self, _: &File) {}
    fn event(&mut self, _: &Event) {}
}

/// Whether a program is installed. Otherwise prints that the test is skipped.
pub fn installed(program: &str) -> bool {
    let found =
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        skip(format!("{program} is not installed"));
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
}

impl Live {
    /// Starts a recording, and returns when the subject is being recorded. Prints that the test is skipped, and returns
    /// `None`, if recording is not permitted.
    pub fn start(subject: Subject, out: &Path) -> Option<Live> {
        Live::start_held(subject, Options::new(out), Arc::default())
    }

    /// Starts a recording that does not read the ring buffer while another thread holds the lock `held`.
    pub fn start_held(subject: Subject, options: Options, held: Arc<Mutex<()>>) -> Option<Live> {
        Live::spawn(move || Recorder::start(subject, &options), held)
    }

    /// Starts a recording of a directory without a trace.
    pub fn watch(dir: &Path, watcher: impl Watcher + Send + 'static) -> Option<Live> {
        let subject = Subject::Dir(dir.to_owned());
        Live::spawn(move || Recorder::watch(subject, 1 << 20, Box::new(watcher)), Arc::default())
    }

    fn spawn(
        start: impl FnOnce() -> Result<Recorder> + Send + 'static,
        held: Arc<Mutex<()>>,
    ) -> Option<Live> {
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, started) = mpsc::channel();
        let until = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let recorder = start()?;
            ready.send(()).expect("the test waits");
            let over = || {
                drop(held.lock());
                until.load(Ordering::Relaxed)
            };
            recorder.run(over, |_| {})
        });
        if started.recv().is_ok() {
            return Some(Live { stop, thread });
        }
        match thread.join().expect("no panic") {
            Err(why) if why.hint().is_some() => skip(why),
            other => panic!("the recorder did not start: {other:?}"),
        }
        None
    }

    /// Waits for a recording that ends with its subject.
    pub fn join(self) -> (Summary, Trace) {
        let summary = self.wait();
        let trace = Trace::load(&summary.trace.path).expect("the trace opens");
        (summary, trace)
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
