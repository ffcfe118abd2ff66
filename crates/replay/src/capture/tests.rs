//! The data that a capture copies and synthesizes.

use super::*;
use poolwright_trace::layout::Role;
use poolwright_trace::{File, Flags, Op};

fn event(op: Op, file: u32, offset: u64, len: u64) -> Event {
    Event { t_ns: 0, dur_ns: 1, op, file, offset, len, pid: 1, tid: 1, flags: Flags::default(), gap: None }
}

fn file(path: &Path, role: &str, size: u64) -> File {
    File { path: path.display().to_string(), size, role: Role::from_name(role), ..File::default() }
}

fn options() -> Options {
    Options { region: 1 << 16, max_bytes: 1 << 30, side_by_side: 1, seed: 1, roles: vec![] }
}

/// Takes a capture whose directory is removed at once; the image stays open.
fn take(trace: &Trace, options: &Options) -> Capture {
    let dir = tempfile::tempdir().unwrap();
    Capture::take(trace, options, &SourceFiles::at_recorded_paths(trace), dir.path()).unwrap()
}

/// Returns the captured bytes of a file at `offset`, at most `len`, and how many of them are real.
fn bytes(capture: &Capture, file: u32, offset: u64, len: u64) -> (Vec<u8>, u64) {
    let mut buf = vec![0; len as usize];
    let (bytes, real) = capture.read(file, offset, len, &mut buf).unwrap();
    (bytes.to_vec(), real)
}

#[test]
fn takes_what_is_touched_and_survives_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("table");
    let content: Vec<u8> = (0..1_000_000u32).map(|i| (i / 100) as u8).collect();
    fs::write(&path, &content).unwrap();
    let gone = dir.path().join("gone");
    let trace = Trace {
        files: vec![file(&path, "data", 1_000_000), file(&gone, "data", 100_000)],
        events: vec![
            event(Op::Read, 0, 10, 100),
            event(Op::Write, 0, 70_000, 70_000),
            event(Op::Read, 0, 990_000, 10_000),
            event(Op::Write, 1, 0, 5000),
        ],
        ..Trace::default()
    };
    Capture::take(&trace, &options(), &SourceFiles::at_recorded_paths(&trace), &dir.path().join("c"))
        .unwrap();
    let back = Capture::load(&dir.path().join("c")).unwrap();
    assert_eq!(back.files[0].extents.len(), 2, "{:?}", back.files[0]);
    assert_eq!(bytes(&back, 0, 70_000, 70_000), (content[70_000..140_000].to_vec(), 70_000));
    let mut small = [0; 100];
    assert_eq!(back.read(0, 70_000, 70_000, &mut small).unwrap(), (&content[70_000..70_100], 100));
    assert_eq!(bytes(&back, 0, 999_990, 100).0, &content[999_990..]);
    assert!(bytes(&back, 0, 500_000, 10).0.is_empty());
    let (made_up, real) = bytes(&back, 1, 0, 5000);
    assert_eq!((made_up.len(), real), (5000, 0));
    assert!(made_up.iter().any(|b| *b != 0), "made up from the data role");
    assert_eq!(back.synthetic_bytes, 65_536);
    fs::write(dir.path().join("c/image"), b"short").unwrap();
    assert!(Capture::load(&dir.path().join("c")).unwrap_err().to_string().contains("5 bytes"));
}

/// Operations on logs are all replayed, whatever they touch, and the image stays small.
#[test]
fn logs_beyond_their_share_use_bytes_of_the_log() {
    const LEN: u64 = 300 << 10;
    let dir = tempfile::tempdir().unwrap();
    let wal = dir.path().join("wal");
    fs::write(&wal, vec![7; 3 << 20]).unwrap();
    let (wal, gone) = (file(&wal, "wal", 3 << 20), file(Path::new("/nowhere/temp"), "temp", 0));
    let data = file(Path::new("/nowhere/data"), "data", 0);
    // 1200 MiB of log written through, and as much of temporary data in places far apart.
    let events: Vec<Event> = (0..4096)
        .flat_map(|i| {
            let apart = (i % 64) << 34;
            [
                event(Op::Write, 0, i * LEN, LEN),
                event(Op::Write, 1, apart, LEN),
                event(Op::Read, 2, i << 20, 4096),
            ]
        })
        .collect();
    let trace = Trace { files: vec![wal, gone, data], events, ..Trace::default() };
    let max_bytes = 16 << 20;
    let c = take(&trace, &Options { max_bytes, ..options() });
    assert!(c.image_bytes() <= max_bytes * 5 / 4 + 3 * (1 << 16), "{}", c.image_bytes());
    assert!(c.pool_bytes() > 1 << 30 && c.real_bytes > 1 << 20, "{} {}", c.pool_bytes(), c.real_bytes);
    for e in trace.events.iter().filter(|e| e.file < 2) {
        assert!(c.keeps(e));
        let mut done = 0;
        while done < e.len {
            let (bytes, _) = bytes(&c, e.file, e.offset + done, e.len - done);
            assert!(!bytes.is_empty() && bytes[0] != 0, "file {} at {}", e.file, e.offset + done);
            done += bytes.len() as u64;
        }
    }
}

#[test]
fn the_largest_offsets_are_captured() {
    let far = file(Path::new("/nowhere/wal"), "wal", u64::MAX);
    let events = vec![event(Op::Write, 0, i64::MAX as u64, 1 << 31), event(Op::Write, 0, 0, 1 << 31)];
    let trace = Trace { files: vec![far], events, ..Trace::default() };
    let c = take(&trace, &Options { max_bytes: 1 << 20, ..options() });
    assert!(c.image_bytes() <= 2 << 20, "{}", c.image_bytes());
}

#[test]
fn holes_stay_holes() {
    const MIB: u64 = 1 << 20;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("map");
    let map = fs::File::create(&path).unwrap();
    map.set_len(16 * MIB).unwrap();
    map.write_all_at(&vec![3; MIB as usize], 4 * MIB).unwrap();
    let events = vec![event(Op::Read, 0, 0, 16 * MIB)];
    let trace = Trace { files: vec![file(&path, "data", 16 * MIB)], events, ..Trace::default() };
    let into = dir.path().join("c");
    let taken = Capture::take(&trace, &options(), &SourceFiles::new(&trace, None), &into).unwrap();
    assert_eq!((taken.real_bytes, taken.synthetic_bytes), (16 * MIB, 0));
    let mut back = Capture::load(&dir.path().join("c")).unwrap();
    back.begin_at(&trace, 0);
    assert_eq!(back.files[0].filled().collect::<Vec<_>>(), [(4 * MIB, 5 * MIB)]);
    assert!(bytes(&back, 0, 4 * MIB - 10, 20).0.ends_with(&[0, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3]));
}

#[test]
fn a_pipe_in_a_files_place_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let events = vec![event(Op::Read, 0, 0, 4096), event(Op::Read, 1, 0, 4096)];
    let files = vec![file(&pipe, "data", 4096), file(Path::new("/dev/zero"), "data", 4096)];
    let trace = Trace { files, events, ..Trace::default() };
    let c = take(&trace, &options());
    assert_eq!(c.real_bytes, 0);
}

#[test]
fn appended_files_begin_where_the_appends_began() {
    let p = Path::new("/nowhere");
    let trace = Trace {
        files: vec![file(p, "binlog", 1000), file(p, "data", 5000), file(p, "temp", 300)],
        events: vec![
            event(Op::Write, 0, 400, 300),
            event(Op::Write, 0, 700, 300),
            event(Op::Write, 1, 1000, 500),
            event(Op::Create, 2, 0, 0),
            event(Op::Write, 2, 0, 300),
        ],
        ..Trace::default()
    };
    assert_eq!(initial_sizes(&trace), [(true, 400), (true, 5000), (false, 0)]);
}

#[test]
fn large_captures_are_sampled_by_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("big");
    let size = 64 << 20;
    fs::File::create(&path).unwrap().set_len(size).unwrap();
    let events: Vec<Event> = (0..1024).map(|i| event(Op::Read, 0, (i << 16) + 100, 4096)).collect();
    let trace = Trace { files: vec![file(&path, "data", size)], events, ..Trace::default() };
    let c = take(&trace, &Options { max_bytes: 16 << 20, ..options() });
    assert!((c.rate - 0.25).abs() < 1e-9);
    let kept = trace.events.iter().filter(|e| c.keeps(e)).count();
    assert!((180..340).contains(&kept), "{kept} of 1024 kept at a quarter");
    for e in trace.events.iter().filter(|e| c.keeps(e)) {
        assert_eq!(bytes(&c, 0, e.offset, e.len).0.len() as u64, e.len);
    }
}
