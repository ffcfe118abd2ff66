//! A watcher receives the same files and events as a trace of the same recording.

mod common;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use common::{Live, ops_on, python, scratch};
use poolwright_record::{Subject, Watcher};
use poolwright_trace::{Event, File, Op};

enum Seen {
    File(File),
    Event(Event),
    Tick,
}

struct Eye(Sender<Seen>);

impl Watcher for Eye {
    fn file(&mut self, file: &File) {
        self.0.send(Seen::File(file.clone())).unwrap();
    }

    fn event(&mut self, event: &Event) {
        self.0.send(Seen::Event(*event)).unwrap();
    }

    fn tick(&mut self) {
        self.0.send(Seen::Tick).unwrap();
    }
}

const PROGRAM: &str = "import os\nfd = os.open('grows', 66)\nfor i in range(500): os.pwrite(fd, b'x' * 512, i * 512)\n\
                       os.pread(fd, 4096, 0)\nos.close(fd)\nos.unlink('grows')\nold = os.open('old', 2)\nos.pread(old, 10, 0)";

/// Receives until the last operation of the program and a tick have been seen.
fn follow(seen: &Receiver<Seen>) -> (Vec<File>, Vec<Event>) {
    let (mut files, mut events, mut ticked) = (Vec::new(), Vec::new(), false);
    while !ticked || !events.iter().any(|e: &Event| e.op == Op::Read && e.len == 10) {
        match seen.recv_timeout(Duration::from_secs(300)).expect("the last read and a tick are seen") {
            Seen::File(file) => files.push(file),
            Seen::Event(event) => events.push(event),
            Seen::Tick => ticked = true,
        }
    }
    (files, events)
}

#[test]
fn events_arrive_during_the_recording() {
    let scratch = scratch();
    let dir = scratch.path().join("db");
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("old"), [7; 5000]).unwrap();
    let out = scratch.path().join("t.parquet");
    let Some(trace) = Live::start(Subject::Dir(dir.clone()), &out) else { return };
    let (to, seen) = channel();
    let watched = Live::watch(&dir, Eye(to)).unwrap();
    python(&dir, PROGRAM);
    let (files, events) = follow(&seen);
    let summary = watched.stop();
    let (_, trace) = trace.finish();

    assert_eq!(summary.trace.files, files.len());
    assert!(summary.trace.path.as_os_str().is_empty() && summary.bytes >= 500 * 512 + 4096 + 10);
    for (name, size) in [("grows", 0), ("old", 5000)] {
        let id = files.iter().position(|file| file.path.ends_with(name)).unwrap();
        assert_eq!(files[id].size, size, "{name}: as long as it was at its first event");
        let told = events.iter().filter(|e| e.file as usize == id).map(|e| (e.op, e.offset, e.len));
        assert_eq!(told.collect::<Vec<_>>(), ops_on(&trace, name), "{name}");
    }
}
