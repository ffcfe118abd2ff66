//! A written trace is read back unchanged; a truncated one is read up to its last checkpoint.

use std::path::Path;

use crate::common::{event, file, meta, trace};
use poolwright_base::PathError;
use poolwright_trace::layout::Role;
use poolwright_trace::{CpuSecond, Error, Event, File, Flags, Gap, Meta, Op, Reader, Trace, Writer};
use proptest::prelude::*;

#[test]
fn what_is_written_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let trace = trace(600_000, 1); // more than two row groups
    let summary = trace.save(&path).unwrap();
    assert_eq!(summary.events, 600_000);
    assert_eq!(summary.bytes, std::fs::metadata(&path).unwrap().len());
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.recovered(), None);
    assert_eq!(reader.len(), 600_000);
    assert_eq!(reader.row_groups(), 3);
    let loaded = Trace::load(&path).unwrap();
    assert!(loaded == trace, "the loaded trace differs");
}

#[test]
fn the_format_page_names_every_operation_and_flag() {
    let page = include_str!("../../../../docs/trace-format.md");
    for op in Op::ALL {
        assert!(page.contains(&format!("`{}`", op.name())), "{} is not documented", op.name());
    }
    let flags = [
        Flags::DIRECT,
        Flags::SYNC,
        Flags::APPEND,
        Flags::AIO,
        Flags::URING,
        Flags::SHARED,
        Flags::FAILED,
        Flags::CACHED,
    ]
    .map(|flag| flag.0);
    assert_eq!(flags, [1, 2, 4, 8, 16, 32, 64, 128]);
    assert!(
        page.contains("1 `O_DIRECT`, 2 synchronous") && page.contains("4 appended, 8 libaio, 16 io_uring")
    );
    assert!(page.contains("for `lock`: 32 shared, 64 refused") && page.contains("for a page fault: 128"));
    assert_eq!(poolwright_trace::FORMAT_VERSION, 1);
}

/// The fixture was written by `poolwright trace import` of the commit before the gap columns were added.
#[test]
fn a_trace_without_the_columns_of_a_gap_opens() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/without-gap.parquet");
    let trace = Trace::load(path).unwrap();
    assert!(trace.events.iter().all(|event| event.gap.is_none()));
    let seen: Vec<_> = trace.events.iter().map(|e| (e.t_ns, e.op, e.file, e.offset, e.len)).collect();
    let expected = [
        (10_000, Op::Read, 0, 0, 16384),
        (250_000, Op::Write, 0, 16384, 16384),
        (300_000, Op::Write, 1, 0, 512),
        (310_000, Op::Fdatasync, 1, 0, 0),
        (900_000, Op::Punch, 0, 32768, 4096),
    ];
    assert_eq!(
        seen.into_iter().filter(|e| !matches!(e.1, Op::Open | Op::Close)).collect::<Vec<_>>(),
        expected
    );
    assert_eq!((trace.meta.cores, trace.meta.cpu.len()), (0, 0));
}

#[test]
fn gaps_and_cpu_seconds_survive_at_their_extremes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let gaps = [
        None,
        Some(Gap::default()),
        Some(Gap {
            cpu_ns: i64::MAX as u64,
            ready_ns: u32::MAX,
            wake_ns: u32::MAX,
            waker: Gap::OTHER,
            served_ns: u32::MAX,
        }),
        None,
        Some(Gap { cpu_ns: 1, ready_ns: 1 << 31, wake_ns: (1 << 31) - 1, waker: 1 << 31, served_ns: 1 }),
    ];
    let mut trace = trace(gaps.len() as u64, 1);
    for (event, gap) in trace.events.iter_mut().zip(gaps) {
        event.gap = gap;
    }
    trace.meta.cores = 64;
    trace.meta.cpu =
        vec![CpuSecond { host_ns: 64_000_000_000, subject_ns: 7, others_ns: 9 }, CpuSecond::default()];
    trace.save(&path).unwrap();
    assert_eq!(Trace::load(&path).unwrap(), trace);
    // The value is limited like those of the other 64-bit columns.
    trace.events[1].gap = Some(Gap { cpu_ns: u64::MAX, ..Gap::default() });
    trace.save(&path).unwrap();
    let cut = Trace::load(&path).unwrap().events[1].gap.unwrap();
    assert_eq!(cut.cpu_ns, i64::MAX as u64);
}

#[test]
fn an_empty_trace_opens() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let summary = Writer::create(&path, meta()).unwrap().finish().unwrap();
    assert_eq!((summary.events, summary.path), (0, path.clone()));
    let reader = Reader::open(&path).unwrap();
    assert!(reader.is_empty() && reader.events().next().is_none());
    assert_eq!(reader.meta().lost_events, 3);
}

#[test]
fn rows_are_sorted_inside_a_row_group_and_the_file_table_is_the_last_known() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let mut writer = Writer::create(&path, meta()).unwrap();
    let id = writer.file(file("/db/a", "other", 0));
    for t in [5, 3, 9, 1] {
        writer.push(event(t, Op::Read, id, t * 10, 1)).unwrap();
    }
    writer.file_mut(id).unwrap().role = Some(Role::Data);
    writer.finish().unwrap();
    let trace = Trace::load(&path).unwrap();
    assert_eq!(trace.events.iter().map(|e| e.t_ns).collect::<Vec<_>>(), [1, 3, 5, 9]);
    assert_eq!(trace.events[0].offset, 10);
    assert_eq!(trace.files[0].role, Some(Role::Data));
    assert_eq!(trace.meta.duration_ns, 9 + 1000, "a missing duration is the end of the last operation");
}

#[test]
fn a_trace_has_its_name_from_the_first_event_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let names = || {
        let names = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.map(|name| name.into_string().unwrap()).collect::<Vec<_>>()
    };
    let begin = || {
        let mut writer = Writer::create(&path, meta()).unwrap();
        let id = writer.file(file("/db/a", "data", 0));
        writer.checkpoint().unwrap();
        (writer, id)
    };
    drop(begin());
    assert!(names().is_empty(), "nothing was recorded: {:?}", names());
    trace(10, 1).save(&path).unwrap();
    let (mut writer, id) = begin();
    assert_eq!(Reader::open(&path).unwrap().len(), 10, "the older one, until there is an event");
    writer.push(event(1, Op::Read, id, 0, 1)).unwrap();
    writer.checkpoint().unwrap();
    assert_eq!((Reader::open(&path).unwrap().len(), names()), (1, vec!["t.parquet".to_owned()]));
    drop(writer);
    drop(begin());
    assert_eq!((Reader::open(&path).unwrap().len(), names()), (1, vec!["t.parquet".to_owned()]));
    // `finish` writes an empty trace.
    begin().0.finish().unwrap();
    assert!(Reader::open(&path).unwrap().is_empty());
}

#[test]
fn a_link_to_a_trace_stays_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let (real, link) = (dir.path().join("real.parquet"), dir.path().join("link.parquet"));
    trace(10, 1).save(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    trace(20, 1).save(&link).unwrap();
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(Reader::open(&real).unwrap().len(), 20);
}

#[test]
fn an_unknown_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(dir.path().join("t.parquet"), Meta::default()).unwrap();
    let refused = writer.push(event(0, Op::Read, 0, 0, 1));
    assert!(matches!(refused, Err(Error::UnknownFile { file: 0, known: 0 })));
}

#[test]
fn a_foreign_file_is_neither_read_nor_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("table.ibd");
    std::fs::write(&path, vec![7; 1 << 16]).unwrap();
    assert!(matches!(Reader::open(&path), Err(Error::NotATrace { .. })));
    assert!(matches!(Writer::create(&path, Meta::default()), Err(Error::NotOverwritten(_))));
    assert_eq!(std::fs::read(&path).unwrap(), vec![7; 1 << 16]);
    assert!(matches!(Reader::open(dir.path()), Err(Error::NotATrace { .. })));
    assert!(matches!(
        Reader::open(dir.path().join("missing")),
        Err(Error::Io(PathError { action: "open", .. }))
    ));
    let empty = dir.path().join("empty");
    std::fs::write(&empty, b"").unwrap();
    assert!(matches!(Reader::open(&empty), Err(Error::NotATrace { .. })));
    // An older trace may be replaced.
    let old = dir.path().join("old.parquet");
    trace(10, 1).save(&old).unwrap();
    trace(20, 1).save(&old).unwrap();
    assert_eq!(Reader::open(&old).unwrap().len(), 20);
}

/// Writes a trace with several checkpoints, like a long recording. Returns it and the number of durable events at each
/// length.
fn checkpointed(path: &Path) -> (Trace, Vec<(u64, u64)>) {
    let trace = trace(20_000, 5);
    let mut writer = Writer::create(path, trace.meta.clone()).unwrap();
    for file in &trace.files {
        writer.file(file.clone());
    }
    let begun = path.with_file_name(format!(".whole.parquet.part-{}", std::process::id()));
    let mut known = vec![(std::fs::metadata(begun).unwrap().len(), 0)];
    for (i, event) in trace.events.iter().enumerate() {
        writer.push(*event).unwrap();
        if (i + 1) % 4000 == 0 {
            writer.checkpoint().unwrap();
            known.push((std::fs::metadata(path).unwrap().len(), i as u64 + 1));
        }
    }
    writer.finish().unwrap();
    (trace, known)
}

#[test]
fn a_trace_cut_anywhere_opens_with_what_was_durable_then() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("whole.parquet");
    let (trace, known) = checkpointed(&path);
    let bytes = std::fs::read(&path).unwrap();
    let cut = dir.path().join("cut.parquet");
    let steps = (0..50).map(|i| bytes.len() * i / 50);
    let edges = known.iter().flat_map(|&(len, _)| [len as usize - 1, len as usize, len as usize + 1]);
    let mut opened = 0;
    for len in steps.chain(edges).filter(|&len| len <= bytes.len()) {
        std::fs::write(&cut, &bytes[..len]).unwrap();
        let durable = known.iter().rev().find(|(at, _)| *at <= len as u64);
        match (Trace::load(&cut), durable) {
            (Ok(found), Some((_, events))) => {
                assert!(found.events == trace.events[..*events as usize], "cut at {len}");
                opened += 1;
            }
            (Err(Error::Truncated(_) | Error::NotATrace { .. }), None) => {}
            (found, _) => panic!("cut at {len}: {:?}", found.map(|t| t.events.len())),
        }
    }
    assert!(opened > 40);
    let last = Reader::open(&path).unwrap();
    assert_eq!(last.good_len(), bytes.len() as u64);
}

#[test]
fn a_dropped_writer_keeps_its_events() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let mut writer = Writer::create(&path, Meta::default()).unwrap();
    let id = writer.file(File::default());
    writer.push(event(1, Op::Write, id, 0, 4096)).unwrap();
    drop(writer);
    assert_eq!(Reader::open(&path).unwrap().len(), 1);
}

/// Recomputes the checksum before the last footer, as `docs/trace-format.md` describes it.
fn reseal(bytes: &mut [u8]) {
    let tail = bytes.len() - 8;
    let length = u32::from_le_bytes(bytes[tail..tail + 4].try_into().unwrap()) as usize;
    let start = tail - length;
    let mut crc = !0u32;
    for byte in &bytes[start..tail] {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    bytes[start - 8..start - 4].copy_from_slice(&(!crc).to_le_bytes());
}

#[test]
fn a_later_format_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    trace(10, 1).save(&path).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let key = b"poolwright.version";
    let at = bytes.windows(key.len()).rposition(|w| w == key).unwrap();
    bytes[at + key.len() + 2] = b'9'; // behind the value's field header and length
    reseal(&mut bytes);
    std::fs::write(&path, bytes).unwrap();
    let error = Reader::open(&path).unwrap_err();
    assert!(matches!(&error, Error::Newer { version, .. } if version == "9"), "{error}");
}

/// Renames columns in the last footer.
fn rename_columns(path: &Path, names: &[(&str, &str)]) {
    let mut bytes = std::fs::read(path).unwrap();
    let tail = bytes.len() - 8;
    let start = tail - u32::from_le_bytes(bytes[tail..tail + 4].try_into().unwrap()) as usize;
    for (from, to) in names {
        let places = (start..tail).filter(|&at| bytes[at..].starts_with(from.as_bytes())).collect::<Vec<_>>();
        assert_eq!(places.len(), 2, "{from}: once in the schema and once in the row group");
        places.into_iter().for_each(|at| bytes[at..at + to.len()].copy_from_slice(to.as_bytes()));
    }
    reseal(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn the_columns_of_a_gap_come_together_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    let trace = trace(100, 1);
    trace.save(&path).unwrap();
    rename_columns(&path, &[("gap_ready_ns", "later_column")]);
    let why = Reader::open(&path).unwrap_err().to_string();
    assert!(why.contains("column gap_ready_ns is missing"), "{why}");
    trace.save(&path).unwrap();
    let all = ["gap_cpu_ns", "gap_ready_ns", "gap_wake_ns", "waker"].map(|name| (name, "x_"));
    rename_columns(&path, &all);
    let read = Trace::load(&path).unwrap();
    assert!(read.events.iter().all(|event| event.gap.is_none()));
    assert_eq!(read.events.len(), 100);
    trace.save(&path).unwrap();
    rename_columns(&path, &[("gap_served_ns", "later_column_")]);
    let without_served = |event: &Event| event.gap.map(|gap| Gap { served_ns: 0, ..gap });
    let read = Trace::load(&path).unwrap();
    assert!(
        read.events.iter().map(|event| event.gap).eq(trace.events.iter().map(without_served)),
        "an earlier release's trace"
    );
}

fn any_event() -> impl Strategy<Value = Event> {
    let time = 0..=i64::MAX as u64;
    let gap =
        (time.clone(), any::<[u32; 4]>()).prop_map(|(cpu_ns, [ready_ns, wake_ns, waker, served_ns])| Gap {
            cpu_ns,
            ready_ns,
            wake_ns,
            waker,
            served_ns,
        });
    let location = (0..3u32, time.clone(), time.clone());
    (time.clone(), time, 0..Op::ALL.len(), location, any::<(u32, u32, u16)>(), prop::option::of(gap))
        .prop_map(|(t_ns, dur_ns, op, (file, offset, len), (pid, tid, flags), gap)| Event {
            t_ns,
            dur_ns,
            op: Op::ALL[op],
            file,
            offset,
            // The reader cuts lengths that no call can move; lengths of other operations are not limited.
            len: if matches!(Op::ALL[op], Op::Read | Op::Write | Op::Map) { len >> 32 } else { len },
            pid,
            tid,
            flags: Flags(flags),
            gap,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_event_survives(mut events in prop::collection::vec(any_event(), 0..50), path in ".*") {
        events.sort_by_key(|e| e.t_ns);
        let dir = tempfile::tempdir().unwrap();
        let file = File { path, ..File::default() };
        let meta = Meta { duration_ns: 1, ..meta() };
        let trace = Trace { meta, files: vec![file, File::default(), File::default()], events };
        let target = dir.path().join("t.parquet");
        trace.save(&target).unwrap();
        prop_assert_eq!(Trace::load(&target).unwrap(), trace);
    }

    #[test]
    fn arbitrary_bytes_are_an_error(bytes in prop::collection::vec(any::<u8>(), 0..4096), magic: bool) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let mut content = bytes;
        if magic {
            content.splice(0..0, *b"PAR1");
            content.extend_from_slice(&[20, 0, 0, 0]);
            content.extend_from_slice(b"PAR1");
        }
        std::fs::write(&path, content).unwrap();
        prop_assert!(Trace::load(&path).is_err());
    }

    #[test]
    fn a_flipped_byte_is_noticed(at in any::<prop::sample::Index>(), value in 1..=255u8) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.parquet");
        let trace = trace(200, 3);
        trace.save(&path).unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= value;
        std::fs::write(&path, bytes).unwrap();
        // The result is an error, the empty checkpoint before the damage, or the whole trace if a dead byte was hit.
        if let Ok(found) = Trace::load(&path) {
            prop_assert!(found.events.is_empty() || found == trace);
        }
    }
}
