//! The state of the files when a slice begins later.

use std::collections::BTreeMap;
use std::path::Path;

use poolwright_trace::layout::Role;
use poolwright_trace::{File, Flags};
use proptest::prelude::*;

use super::*;
use crate::capture::Options;
use crate::{Directory, Pace, Schedule, SourceFiles, drive};

const PAGE: u64 = 512;
const PAGES: u64 = 64;
const FILES: u32 = 3;

fn event(t_ns: u64, op: Op, file: u32, offset: u64, len: u64) -> Event {
    Event { t_ns, dur_ns: 1, op, file, offset, len, pid: 1, tid: 1, flags: Flags::default(), gap: None }
}

/// A trace of files of 64 pages of 512 bytes, without zeros.
fn trace(dir: &Path, events: Vec<Event>) -> Trace {
    let file = |n: u32| {
        let path = dir.join(format!("source{n}"));
        std::fs::write(&path, vec![n as u8 + 1; (PAGES * PAGE) as usize]).unwrap();
        let path = path.display().to_string();
        File { path, size: PAGES * PAGE, role: Some(Role::Data), ..File::default() }
    };
    Trace { files: (0..FILES).map(file).collect(), events, ..Trace::default() }
}

fn capture(trace: &Trace) -> Capture {
    let options = Options { region: 8 * PAGE, max_bytes: 1 << 30, side_by_side: 1, seed: 1, roles: vec![] };
    let dir = tempfile::tempdir().unwrap();
    Capture::take(trace, &options, &SourceFiles::at_recorded_paths(trace), dir.path()).unwrap()
}

/// The contents of the files `fileN` in the only directory below `parent`.
fn contents(parent: &Path) -> BTreeMap<u32, Vec<u8>> {
    let scratch = std::fs::read_dir(parent).unwrap().next().unwrap().unwrap().path();
    let read = |n: u32| Some((n, std::fs::read(scratch.join(format!("file{n}"))).ok()?));
    (0..FILES).filter_map(read).collect()
}

/// Fills a directory with the files as they were at `t_ns`, and returns their contents.
fn filled_at(dir: &Path, trace: &Trace, t_ns: u64) -> BTreeMap<u32, Vec<u8>> {
    let mut capture = capture(trace);
    capture.begin_at(trace, t_ns);
    let parent = tempfile::tempdir_in(dir).unwrap();
    let target = Directory::create(parent.path(), trace.files.len()).unwrap();
    capture.fill(&target, &|| false).unwrap();
    contents(parent.path())
}

/// Fills a directory with the files as they were when the recording began, performs the operations before `t_ns`, and
/// returns the contents.
fn replayed_until(dir: &Path, trace: &Trace, t_ns: u64) -> BTreeMap<u32, Vec<u8>> {
    let capture = capture(trace);
    let parent = tempfile::tempdir_in(dir).unwrap();
    let target = Directory::create(parent.path(), trace.files.len()).unwrap();
    capture.fill(&target, &|| false).unwrap();
    let before = Schedule::build(trace, |e| e.t_ns < t_ns);
    drive(&before, &capture, &target, Pace::AsFastAsPossible, 0, &|| false).unwrap();
    contents(parent.path())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Filling the files as they were at a time results in the same files as replaying everything before it: names,
    /// lengths and bytes.
    #[test]
    fn a_later_begin_has_the_files_of_a_replay_up_to_it(
        raw in prop::collection::vec((0u8..12, 0..FILES, 0..PAGES * PAGE, 1..9 * PAGE), 1..60),
        at in 0u64..60,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut unlinked = [false; FILES as usize];
        let mut events = Vec::new();
        for (t_ns, (kind, file, offset, len)) in raw.into_iter().enumerate() {
            let len = len.min(PAGES * PAGE - offset);
            let op = match kind {
                // An unlinked file begins anew: a replay does not know that a process has it open.
                _ if unlinked[file as usize] => Op::Create,
                0..=5 => Op::Write,
                6..=7 => Op::Read,
                8..=9 => Op::Truncate,
                10 => Op::Punch,
                _ => Op::Unlink,
            };
            unlinked[file as usize] = op == Op::Unlink;
            events.push(event(t_ns as u64, op, file, offset, len));
        }
        // Every page is captured.
        for file in 0..FILES {
            events.push(event(1000, if unlinked[file as usize] { Op::Create } else { Op::Read }, file, 0, PAGES * PAGE));
            events.push(event(1001, Op::Read, file, 0, PAGES * PAGE));
        }
        let trace = trace(dir.path(), events);
        let (there, replayed) = (filled_at(dir.path(), &trace, at), replayed_until(dir.path(), &trace, at));
        prop_assert_eq!(there.keys().collect::<Vec<_>>(), replayed.keys().collect::<Vec<_>>());
        for (file, content) in &there {
            prop_assert_eq!(content.len(), replayed[file].len(), "length of file {}", file);
            prop_assert!(*content == replayed[file], "content of file {}", file);
        }
    }
}

#[test]
fn a_removed_file_that_a_process_has_open_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let events = vec![
        event(1, Op::Write, 0, PAGES * PAGE, PAGE),
        event(2, Op::Unlink, 0, 0, 0),
        event(3, Op::Unlink, 1, 0, 0),
        // File 2 takes the name of file 0, and then of a file that is not recorded.
        event(4, Op::Rename, 2, 0, 0),
        event(5, Op::Rename, 2, i64::MAX as u64, 0),
        event(10, Op::Read, 0, 0, PAGE),
        event(11, Op::Create, 1, 0, 0),
        event(12, Op::Write, 1, 0, PAGE),
        event(13, Op::Read, 2, 0, PAGE),
    ];
    let trace = trace(dir.path(), events);
    let lengths = |t_ns| -> Vec<(u32, usize)> {
        filled_at(dir.path(), &trace, t_ns).into_iter().map(|(file, content)| (file, content.len())).collect()
    };
    let page = PAGE as usize;
    let whole = PAGES as usize * page;
    assert_eq!(lengths(10), [(0, whole + page), (2, whole)]);
    assert_eq!(lengths(11), [(2, whole)], "file 0 is no longer used");
    assert_eq!(lengths(12), [(1, 0), (2, whole)]);
}

#[test]
fn an_opened_file_has_the_length_that_was_seen() {
    let dir = tempfile::tempdir().unwrap();
    let events = vec![
        event(1, Op::Open, 0, 0, 3 * PAGE),
        event(2, Op::Write, 0, 5 * PAGE, PAGE),
        event(3, Op::Open, 0, 0, 6 * PAGE),
        event(4, Op::Write, 1, 0, PAGE),
        event(5, Op::Open, 1, 0, 7 * PAGE),
    ];
    let trace = trace(dir.path(), events);
    let whole = (true, PAGES * PAGE);
    assert_eq!(initial_sizes(&trace), [(true, 3 * PAGE), whole, whole]);
}
