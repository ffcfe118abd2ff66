//! The extents of each format, and the errors of damaged files.

use std::path::{Path, PathBuf};

use crate::common::{END, Map, event, extent, free, oracle_bytes, read, save_trace};
use poolwright_base::PathError;
use poolwright_mrc::input::{self, Direct, Format, Input, Select, Skipped, Unit};
use poolwright_mrc::{Error, Extent, Kind};
use poolwright_trace::layout::Role;
use poolwright_trace::{Flags, Op};

struct Dir(tempfile::TempDir);

impl Dir {
    fn new() -> Dir {
        Dir(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

fn open(path: &Path) -> Box<dyn Input> {
    input::open(path, None, &Select::default()).unwrap()
}

/// The message of the first error, of opening or of reading.
fn fails(path: &Path, format: Option<Format>) -> String {
    let select = Select::default();
    let error = input::open(path, format, &select).and_then(|mut input| read(&mut *input)).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Malformed { .. }
                | Error::UnknownFormat { .. }
                | Error::Trace(_)
                | Error::Empty(_)
                | Error::Io(PathError { action: "read", .. })
        ),
        "{error:?}"
    );
    error.to_string()
}

const LIS: &str = "10 2 0 1\n7 1 0 2\r\n\n  0 4194304 9 3";

#[test]
fn lis_lines_are_runs_of_512_byte_pages() {
    let dir = Dir::new();
    let extents = [extent(0, 0, 5120, 1024), extent(0, 0, 3584, 512), extent(0, 0, 0, 1 << 31)];
    for (name, bytes) in [
        ("t.lis", LIS.as_bytes().to_vec()),
        ("t.lis.zst", zstd::encode_all(LIS.as_bytes(), 1).unwrap()),
        ("unnamed", LIS.as_bytes().to_vec()),
    ] {
        let mut input = open(&dir.file(name, &bytes));
        assert_eq!((input.format(), input.unit()), ("lis", Unit::Bytes { recordsize: 512 }));
        assert_eq!(read(&mut *input).unwrap(), extents, "{name}");
        assert_eq!((input.skipped(), input.progress()), (Skipped::default(), Some(1.0)));
    }
}

#[test]
fn invalid_lis_lines_are_counted_and_malformed_ones_have_a_position() {
    let dir = Dir::new();
    let odd = "1 0 0 1\n1 4194305 0 2\n99999999999999999999999 1 0 3\n2251799813685248 1 0 4\n5 1 0 5\n";
    let mut input = open(&dir.file("odd.lis", odd.as_bytes()));
    assert_eq!(read(&mut *input).unwrap(), [extent(0, 0, 2560, 512)]);
    let skipped = Skipped { zero_length: 1, too_long: 1, too_far: 2, ..Skipped::default() };
    assert_eq!(input.skipped(), skipped);
    assert_eq!(skipped.counts().len(), 3);

    let after = |line: &str| fails(&dir.file("bad.lis", format!("1 1 0 1\n{line}\n").as_bytes()), None);
    for (line, words) in [
        ("1 1", "line 2: 2 fields, expected 4"),
        ("1 1 0 1 1", "line 2: 5 fields"),
        ("SELECT 1 0 1", "line 2: \"SELECT\" is not a number"),
        ("-5 1 0 1", "line 2: \"-5\" is not a number"),
        ("1.5 1 0 1", "line 2: \"1.5\" is not a number"),
        (&"7 ".repeat(2000), "line 2: the line is longer"),
    ] {
        let message = after(line);
        assert!(message.contains(words) && message.contains("bad.lis"), "{message}");
    }
    let long = vec![b'1'; 1 << 20];
    assert!(fails(&dir.file("long.lis", &long), None).contains("line 1: the line is longer"));
}

#[test]
fn oracle_records_are_objects_with_times_from_the_first() {
    let dir = Dir::new();
    let bytes =
        oracle_bytes(&[(100, u64::MAX, 700, 3), (101, 1 << 63, 1 << 20, -1), (103, u64::MAX, 700, -1)]);
    let object = |s: u64, id, len| extent(s * 1_000_000_000, 0, id, len);
    let extents = [object(0, u64::MAX, 700), object(1, 1 << 63, 1 << 20), object(3, u64::MAX, 700)];
    for (name, bytes) in [
        ("t.oracleGeneral", bytes.clone()),
        ("t.oracleGeneral.zst", zstd::encode_all(&bytes[..], 1).unwrap()),
        ("unnamed", bytes.clone()),
        ("unnamed.zst", zstd::encode_all(&bytes[..], 1).unwrap()),
    ] {
        let mut input = open(&dir.file(name, &bytes));
        assert_eq!((input.format(), input.unit()), ("oraclegeneral", Unit::Objects));
        assert_eq!(read(&mut *input).unwrap(), extents, "{name}");
        assert_eq!((input.skipped(), input.duration_ns()), (Skipped::default(), 3_000_000_000));
    }
}

#[test]
fn invalid_oracle_records_are_counted() {
    let dir = Dir::new();
    let odd = [(50, 1, 0, 5), (50, 2, u32::MAX, -1), (50, 3, 512, -1), (40, 4, 512, -1), (51, 5, 512, -1)];
    let path = dir.file("odd.oracleGeneral", &oracle_bytes(&odd));
    let mut input = open(&path);
    let times: Vec<_> = read(&mut *input).unwrap().iter().map(|p| (p.t_ns, p.offset)).collect();
    assert_eq!(times, [(0, 3), (0, 4), (1_000_000_000, 5)]);
    assert_eq!(input.skipped(), Skipped { zero_length: 1, too_long: 1, unsorted: 1, ..Skipped::default() });
    // More than one chunk without a valid request is not the end.
    let mut many = vec![(1, 9, 0, -1); 70_000];
    many.push((1, 9, 1, -1));
    let mut input = open(&dir.file("many.oracleGeneral", &oracle_bytes(&many)));
    assert_eq!(read(&mut *input).unwrap().len(), 1);
}

#[test]
fn truncated_input_has_a_position() {
    let dir = Dir::new();
    let bytes = oracle_bytes(&[(1, 2, 3, -1); 7]);
    let plain = fails(&dir.file("t.oracleGeneral", &bytes[..7 * 24 - 5]), None);
    assert!(plain.contains("record 7 (byte 144): truncated after 19 of 24 bytes"), "{plain}");
    let packed = zstd::encode_all(&bytes[..7 * 24 - 5], 1).unwrap();
    let inside = fails(&dir.file("t.oracleGeneral.zst", &packed), None);
    assert!(inside.contains("record 7 (byte 144)"), "{inside}");
    let noise: Vec<u8> = (0..100_000u32).flat_map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    let packed = zstd::encode_all(&noise[..], 1).unwrap();
    let outside = fails(&dir.file("cut.oracleGeneral.zst", &packed[..packed.len() - 7]), None);
    assert!(outside.contains("the zstd data is truncated"), "{outside}");
    let mut damaged = packed.clone();
    damaged[4] |= 8; // a bit that must be 0 (RFC 8878, 3.1.1.1.1.4)
    assert!(fails(&dir.file("bad.lis.zst", &damaged), None).contains("the zstd data is damaged"));
    let lis = fails(&dir.file("cut.lis", b"1 1 0 1\n2 1 0"), None);
    assert!(lis.contains("line 2: 3 fields"), "{lis}");
}

#[test]
fn a_compressed_trace_is_not_read_as_requests() {
    let dir = Dir::new();
    // The head of a gzip file, and noise as its content is.
    let noise = (0..6_000u32).flat_map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes());
    let packed: Vec<u8> = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0].into_iter().chain(noise).take(24_000).collect();
    let path = dir.file("t.oracleGeneral.gz", &packed);
    for format in [None, Some(Format::OracleGeneral), Some(Format::Lis)] {
        let error = fails(&path, format);
        assert!(
            error.contains("is compressed by gzip") && error.contains("hint: decode it: gzip -dc <"),
            "{error}"
        );
    }
}

#[test]
fn the_content_decides_before_the_name() {
    let dir = Dir::new();
    let oracle = dir.file("requests.lis", &oracle_bytes(&[(1, 2, 3, -1); 7]));
    assert_eq!(open(&oracle).format(), "oraclegeneral");
    let lis = dir.file("t.oracleGeneral", LIS.as_bytes());
    assert_eq!(open(&lis).format(), "lis");
    let log = dir.file("t.oracleGeneral.log", b"fio version 3 iolog\n0 /a add\n");
    let error = input::open(&log, None, &Select::default()).err().unwrap().to_string();
    assert!(error.contains("hint: convert it: poolwright trace import"), "{error}");
}

#[test]
fn other_files_are_refused() {
    let dir = Dir::new();
    assert!(fails(&dir.file("empty", b""), None).contains("empty is empty"));
    assert!(fails(dir.0.path(), None).contains("it is a directory"));
    assert!(fails(&dir.file("notes.txt", b"Dear diary,\n"), None).contains("unknown format"));
    assert!(fails(&dir.file("zeros", &[0; 240]), None).contains("unknown format"));
    let text = dir.file("t.lis", LIS.as_bytes());
    let message = fails(&text, Some(Format::OracleGeneral));
    assert!(message.contains("record") && !message.contains("line"), "{message}");
    let prose = dir.file("prose", "three and four words ok\n".repeat(10).as_bytes());
    assert!(fails(&prose, Some(Format::OracleGeneral)).contains("this is a text file"));
    let message = fails(&text, Some(Format::Trace));
    assert!(message.contains("is not a Poolwright trace"), "{message}");
    let binary = dir.file("b", &oracle_bytes(&[(1, 2, 3, -1)]));
    assert!(fails(&binary, Some(Format::Lis)).contains("line 1"));
    let missing = input::open(Path::new("/no/such/trace"), None, &Select::default());
    assert!(matches!(missing.err(), Some(Error::Io(PathError { action: "open", .. }))));
}

/// One file for each kind of history, with the extents of its events.
#[test]
fn a_traces_events_become_reads_writes_and_frees() {
    let dir = Dir::new();
    let path = dir.0.path().join("t.parquet");
    let k = 1024;
    let events = [
        event(1, Op::Open, 0, 0, 64 * k),
        event(2, Op::Read, 0, 16 * k, 16 * k),
        event(3, Op::Write, 0, 0, 8 * k),
        event(4, Op::Truncate, 0, 32 * k, 0),
        event(5, Op::Truncate, 0, 99 * k, 0), // extends the file: a hole
        event(6, Op::Punch, 0, 8 * k, 16 * k),
        event(7, Op::Create, 1, 0, 0),
        event(8, Op::Write, 1, 0, 4 * k),
        event(9, Op::Fsync, 1, 0, 0),
        event(10, Op::Unlink, 1, 0, 0), // still open
        event(11, Op::Read, 1, 0, 4 * k),
        event(12, Op::Close, 1, 0, 0),
        event(13, Op::Write, 2, 20 * k, 4 * k), // open before the recording: has the length of the table
        event(14, Op::Close, 2, 0, 0),
        event(15, Op::Rename, 0, 2, 0), // file 0 replaces file 2
        Map { t: 16, fault: true }.event(0, 4 * k, 4 * k),
        Map { t: 17, fault: false }.event(0, 0, 64 * k),
        event(18, Op::Read, 0, 0, 0),
    ];
    save_trace(
        &path,
        &[("/db/t.ibd", "data", 0), ("/db/tmp", "temp", 0), ("/db/old.ibd", "data", 40 * k)],
        &events,
    );
    let mut input = open(&path);
    let read_at = |t, file, offset, len| extent(t, file, offset, len);
    let write_at = |t, file, offset, len| Extent { kind: Kind::Write, ..extent(t, file, offset, len) };
    let wanted = [
        free(1, 0, 64 * k),
        read_at(2, 0, 16 * k, 16 * k),
        write_at(3, 0, 0, 8 * k),
        free(4, 0, 32 * k),
        Extent { kind: Kind::Free, ..extent(6, 0, 8 * k, 16 * k) },
        free(7, 1, 0),
        write_at(8, 1, 0, 4 * k),
        read_at(11, 1, 0, 4 * k),
        free(12, 1, 0),
        free(13, 2, 40 * k),
        write_at(13, 2, 20 * k, 4 * k),
        free(15, 2, 0),
        read_at(16, 0, 4 * k, 4 * k),
    ];
    assert_eq!(read(&mut *input).unwrap(), wanted);
    assert_eq!(input.skipped(), Skipped { zero_length: 1, ..Skipped::default() });
    assert_eq!(input.unit(), Unit::Bytes { recordsize: 128 * k });
}

#[test]
fn files_are_selected_by_role_and_path() {
    let dir = Dir::new();
    let path = dir.0.path().join("t.parquet");
    let files = [("/db/a.ibd", "data", 0), ("/db/log", "wal", 0), ("/other/b.ibd", "data", 0)];
    let events: Vec<_> = (0..3).map(|file| event(1, Op::Read, file, 0, 512)).collect();
    save_trace(&path, &files, &events);
    let seen = |roles: &[Role], paths: &[&str]| {
        let select = Select {
            roles: roles.to_vec(),
            paths: paths.iter().map(PathBuf::from).collect(),
            ..Select::default()
        };
        let mut input = input::open(&path, None, &select)?;
        let extents = read(&mut *input)?.into_iter().filter(|extent| extent.kind == Kind::Read);
        Ok::<_, Error>(extents.map(|extent| extent.file).collect::<Vec<_>>())
    };
    assert_eq!(seen(&[], &[]).unwrap(), [0, 1, 2]);
    assert_eq!(seen(&[Role::Data], &[]).unwrap(), [0, 2]);
    assert_eq!(seen(&[Role::Data, Role::Wal], &["/db"]).unwrap(), [0, 1]);
    assert_eq!(seen(&[], &["/db/log", "/other/b.ibd"]).unwrap(), [1, 2]);
    let none = seen(&[Role::Temp], &[]).unwrap_err().to_string();
    assert!(none.contains("none of its 3 files") && none.contains("roles: data, wal"), "{none}");
    let lis = dir.file("t.lis", LIS.as_bytes());
    let select = Select { roles: vec![Role::Data], ..Select::default() };
    assert!(input::open(&lis, None, &select).is_err());
}

#[test]
fn direct_reads_bypass_the_cache() {
    let dir = Dir::new();
    let path = dir.0.path().join("t.parquet");
    let mut events: Vec<_> = (0..4).map(|n| event(n, Op::Read, 0, n * 4096, 4096)).collect();
    for event in &mut events[1..] {
        event.flags = Flags::DIRECT;
    }
    (events[2].len, events[3].op) = (512, Op::Write);
    save_trace(&path, &[("/db/a.ibd", "data", 0)], &events);
    let seen = |direct| {
        let mut input = input::open(&path, None, &Select { direct, ..Select::default() }).unwrap();
        let extents = read(&mut *input).unwrap();
        let used =
            extents.iter().filter(|extent| extent.kind != Kind::Free).map(|extent| extent.offset / 4096);
        (used.collect::<Vec<_>>(), input.skipped().direct)
    };
    assert_eq!(seen(Direct::Disabled), (vec![0, 1, 2, 3], 0));
    assert_eq!(seen(Direct::Standard), (vec![0, 2, 3], 1));
    assert_eq!(seen(Direct::Always), (vec![2, 3], 2));
}

/// If the recorder did not know a role, it follows from the use of the file, as in `trace show`.
#[test]
fn an_unknown_role_follows_from_the_use() {
    let dir = Dir::new();
    let path = dir.0.path().join("t.parquet");
    let mut events = Vec::new();
    for n in 0..400 {
        events.push(event(2 * n, Op::Read, 0, n * 37 % 100 * 4096, 4096));
        events.push(event(2 * n + 1, Op::Write, 1, n * 4096, 4096));
        events.push(event(2 * n + 1, Op::Fdatasync, 1, 0, 0));
    }
    save_trace(&path, &[("/x/one", "", 409_600), ("/x/two", "", 0)], &events);
    let select = Select { roles: vec![Role::Wal], ..Select::default() };
    let mut input = input::open(&path, None, &select).unwrap();
    assert!(read(&mut *input).unwrap().iter().all(|extent| extent.file == 1));
}

/// An append tells where the file ended. A write elsewhere in a file that was open before does not.
#[test]
fn appended_data_did_not_exist_before() {
    let dir = Dir::new();
    let path = dir.0.path().join("t.parquet");
    let mut append = event(1, Op::Write, 0, 5000, 100);
    append.flags = Flags::APPEND;
    save_trace(&path, &[("/db/log", "wal", 5100)], &[append]);
    assert_eq!(read(&mut *open(&path)).unwrap()[0], free(1, 0, 5000));
}

/// A slow operation may be one row group after operations that began later.
#[test]
fn events_of_two_row_groups_are_merged_by_time() {
    let dir = Dir::new();
    let path = dir.0.path().join("t.parquet");
    let mut events: Vec<_> = (0..600_000).map(|n| event(2 * n, Op::Read, 0, n % 7 * 512, 512)).collect();
    events[300_000].t_ns = 3; // belongs to the first row group
    events[599_999].t_ns = 5; // too far from its row group
    save_trace(&path, &[("/db/t", "data", 4096)], &events);
    let mut input = open(&path);
    let extents = read(&mut *input).unwrap();
    assert_eq!(extents.len(), 600_001); // including the length of the file
    assert!(extents.is_sorted_by_key(|extent| extent.t_ns));
    assert_eq!(extents[3].t_ns, 3);
    assert_eq!(input.skipped(), Skipped { unsorted: 1, ..Skipped::default() });
}

#[test]
fn invalid_times_offsets_and_lengths_are_counted() {
    let dir = Dir::new();
    let path = dir.0.path().join("t.parquet");
    let events = [
        event(1, Op::Read, 0, END, 1),
        event(2, Op::Read, 0, END - 1, 1),
        event(3, Op::Write, 0, i64::MAX as u64, i64::MAX as u64),
        event(4, Op::Write, 0, i64::MAX as u64, 512),
        event(5, Op::Truncate, 0, i64::MAX as u64, 0),
        event(6, Op::Rename, 0, i64::MAX as u64, 0),
        event(7, Op::Punch, 0, i64::MAX as u64, 1),
    ];
    save_trace(&path, &[("/db/t", "data", u64::MAX)], &events);
    let mut input = open(&path);
    let extents = read(&mut *input).unwrap();
    assert_eq!(extents.iter().filter(|extent| extent.kind == Kind::Read).count(), 1);
    // The trace reader limits lengths to the maximum of a call, so none is too long here.
    assert_eq!(input.skipped(), Skipped { too_far: 4, ..Skipped::default() });
}
