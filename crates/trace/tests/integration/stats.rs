//! Statistics of traces with known figures, and their tables.

use crate::common::{Lcg, event, file, meta, trace};
use poolwright_trace::layout::Role;
use poolwright_trace::stats::{self, Stats};
use poolwright_trace::{Event, Flags, Op, Reader, Trace};

fn stats_of(trace: &Trace) -> Stats {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    trace.save(&path).unwrap();
    stats::collect(&Reader::open(&path).unwrap()).unwrap()
}

/// A small database: random 16K pages with a sync per 10 writes, a log of 512-byte appends with a sync after each, a
/// spill file, and a file of unknown role that is used as a log.
fn database() -> Trace {
    let mut lcg = Lcg(7);
    let files = vec![
        file("/db/t.ibd", "data", 1 << 30),
        file("/db/ib_logfile0", "wal", 96 << 20),
        file("/db/#sql-temptable-1.ibt", "temp", 0),
        file("/elsewhere/journal", "", 1 << 20),
        file("/db/never-used", "other", 5),
    ];
    let mut events = vec![event(0, Op::Create, 2, 0, 0)];
    for i in 0..1000 {
        let at = |step: u64| i * 1_000_000 + step * 1000;
        let page = lcg.below(4096) * 16384;
        let direct = |event: Event| Event { flags: Flags::DIRECT, ..event };
        events.push(direct(event(at(1), Op::Read, 0, page, 16384)));
        events.push(direct(event(at(2), Op::Write, 0, page, 16384)));
        if i % 10 == 9 {
            events.push(Event { dur_ns: 2_000_000, ..event(at(3), Op::Fsync, 0, 0, 0) });
        }
        events.push(event(at(4), Op::Write, 1, i * 512, 512));
        events.push(Event { dur_ns: 500_000, ..event(at(5), Op::Fdatasync, 1, 0, 0) });
        events.push(event(at(6), Op::Write, 2, (i % 16) * 65536, 65536));
        let sync = Event { flags: Flags::SYNC, ..event(at(7), Op::Write, 3, i * 4096, 4096) };
        events.push(sync);
    }
    events.push(event(999_999_999, Op::Unlink, 2, 0, 0));
    let meta = poolwright_trace::Meta { duration_ns: 1_000_000_000, ..meta() };
    Trace { meta, files, events }
}

#[test]
fn the_figures_are_right() {
    let stats = stats_of(&database());
    assert_eq!(stats.events, 2 + 5 * 1000 + 100 + 1000);
    assert_eq!((stats.duration_s, stats.lost_events), (1.0, 3));
    assert_eq!(stats.layout.as_deref(), Some("mariadb"));
    let data = &stats.roles[&Role::Data];
    assert_eq!((data.bytes.read, data.bytes.write), (16384 * 1000, 16384 * 1000));
    assert_eq!(data.read_size_histogram.0, [(16384, 1000)]);
    assert!(data.read.sequential.unwrap() < 0.05);
    assert_eq!((data.read.offset_alignment, data.write.length_alignment), (Some(16384), Some(16384)));
    assert_eq!((data.sync.writes_per_sync, data.sync.bytes_per_sync), (Some(10.0), Some(163_840.0)));
    let p99 = data.sync.latency_ns.unwrap().p99 as f64;
    assert!((p99 / 2e6 - 1.0).abs() < 0.033, "{p99}");
    assert_eq!(data.write.size_histogram_by_kind["direct"].total(), 1000);
    assert!(!data.write.size_histogram_by_kind.contains_key("sync"));

    // Two files: the log by name and the journal by use.
    let wal = &stats.roles[&Role::Wal];
    assert_eq!(wal.write_size_histogram.0, [(512, 1000), (4096, 1000)]);
    assert!(wal.write.sequential.unwrap() > 0.99);
    assert_eq!((wal.sync.calls, wal.sync.sync_writes), (1000, 1000));
    assert!(stats.files[3].role_from_use && stats.files[3].role == Role::Wal);
    assert_eq!(wal.overwrite_factor, Some(1.0), "1000 × 512 bytes are 125 whole blocks");

    let temp = &stats.roles[&Role::Temp];
    assert_eq!(temp.overwrite_factor, Some(1000.0 / 16.0));
    assert_eq!(temp.working_set.iter().map(|w| w.write_bytes).collect::<Vec<_>>(), [1 << 20; 3]);
    assert!(!stats.roles.contains_key(&Role::Other), "a role without events is not shown");
    assert_eq!(stats.files.len(), 5);

    assert_eq!(stats.throughput.len(), 60);
    assert_eq!(stats.throughput.iter().map(|t| t.write_bytes).sum::<u64>(), stats.total.bytes.write);
    assert!(stats.throughput.iter().all(|t| (16..=18).contains(&t.reads)));
}

/// Two databases that no layout knows, with maps as the recorder shows them: one writes pages by `write` and reads them
/// through its map, the other does both through the map and syncs it.
fn mapped_databases() -> Trace {
    let files = vec![file("/db/pages", "", 64 << 20), file("/db/map", "", 64 << 20)];
    let mut lcg = Lcg(11);
    let mut events = Vec::new();
    for file in 0..2 {
        events.push(Event { dur_ns: 1000, ..event(0, Op::Map, file, 0, 64 << 20) });
    }
    for i in 0..1000 {
        let at = |step: u64| 1000 + i * 1_000_000 + step * 1000;
        for file in 0..2 {
            let page = lcg.below(16384) * 4096;
            let fault = Event { dur_ns: 0, ..event(at(1), Op::Map, file, page, 4096) };
            let around = Event { offset: page & !65535, len: 65536, flags: Flags::CACHED, ..fault };
            events.extend([fault, around]);
            events.push(event(at(4), Op::Fdatasync, file, 0, 0));
        }
        events.push(event(at(3), Op::Write, 0, i * 4096, 4096));
    }
    let meta = poolwright_trace::Meta { duration_ns: 1_000_000_000, ..meta() };
    Trace { meta, files, events }
}

#[test]
fn page_faults_are_reads_and_mapped_files_are_data() {
    let stats = stats_of(&mapped_databases());
    for file in &stats.files {
        assert_eq!((file.role, file.role_from_use), (Role::Data, true), "{}", file.path);
        assert_eq!((file.group.bytes.read, file.group.ops["map"]), (4096 * 1000, 2001), "{}", file.path);
        assert_eq!(file.group.read_size_histogram.0, [(4096, 1000)], "{}", file.path);
        assert_eq!(file.group.cached_faults, 1000, "{}", file.path);
    }
    assert_eq!((stats.total.ops["read"], stats.total.bytes.write), (0, 4096 * 1000));
    assert_eq!(stats.throughput.iter().map(|t| t.reads).sum::<u64>(), 2000);
    let tables = stats::render(&stats, 3);
    let row = tables.lines().find(|line| line.starts_with("data ")).unwrap();
    assert!(row.split_whitespace().take(3).eq(["data", "2,000", "7.81M"]), "{row}");
    assert!(tables.contains("not counted as reads: 2,000 page faults in mapped files"), "{tables}");
}

#[test]
fn a_trace_is_loaded_with_roles_from_use() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.parquet");
    database().save(&path).unwrap();
    let roles: Vec<_> = stats::load_with_roles(&path).unwrap().files.into_iter().map(|f| f.role).collect();
    assert_eq!(roles, [Role::Data, Role::Wal, Role::Temp, Role::Wal, Role::Other].map(Some));
}

/// As OpenDJ, whose threads take turns in reading an LDIF.
#[test]
fn a_file_that_two_threads_read_to_its_end_in_turns_is_an_import() {
    let reads = (0..1000)
        .map(|n| Event { tid: 1 + n as u32 / 3 % 2, ..event(n * 1000, Op::Read, 0, n * 8192, 8192) });
    let trace = |size| Trace {
        meta: meta(),
        files: vec![file("/ldif/a.ldif", "", size)],
        events: reads.clone().collect(),
    };
    let role = |size| stats_of(&trace(size)).files[0].role;
    assert_eq!(
        (role(1000 * 8192), role(2000 * 8192)),
        (Role::Import, Role::Data),
        "of all and of half of a file"
    );
}

#[test]
fn totals_are_the_sums_of_roles() {
    let stats = stats_of(&trace(5000, 9));
    for op in Op::ALL {
        let sum: u64 = stats.roles.values().filter_map(|group| group.ops.get(op.name())).sum();
        assert_eq!(sum, stats.total.ops[op.name()], "{}", op.name());
    }
    let written: u64 = stats.roles.values().map(|group| group.bytes.write).sum();
    assert_eq!(written, stats.total.bytes.write);
    let sizes: u64 = stats.roles.values().map(|group| group.write_size_histogram.total()).sum();
    assert_eq!(sizes, stats.total.ops["write"]);
}

#[test]
fn the_json_has_the_documented_shape() {
    let json = serde_json::to_value(stats_of(&database())).unwrap();
    assert_eq!(json["lost_events"], 3);
    assert_eq!(json["duration_s"], 1.0);
    assert_eq!(json["ops"]["write"], 4000);
    assert_eq!(json["ops"]["map"], 0, "every operation is named");
    assert_eq!(json["bytes"]["read"], 16384 * 1000);
    assert_eq!(json["read_size_histogram"], serde_json::json!([[16384, 1000]]));
    assert_eq!(json["files"][0]["path"], "/db/t.ibd");
    assert_eq!(json["files"][0]["role"], "data");
    assert_eq!(json["files"][0]["size"], 1 << 30);
    let back: Stats = serde_json::from_value(json).unwrap();
    assert_eq!(back.files.len(), 5);
}

#[test]
fn the_tables_look_like_this() {
    insta::assert_snapshot!(stats::render(&stats_of(&database()), 3));
}

#[test]
fn an_empty_trace_has_tables_too() {
    let empty = Trace { meta: meta(), ..Trace::default() };
    insta::assert_snapshot!(stats::render(&stats_of(&empty), 3));
}
