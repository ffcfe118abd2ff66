//! Counts events while streaming the trace. Counts are per file; roles and the total are sums of files.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::working_set::{Touched, WorkingSet};
use super::{
    Bytes, Direction, FileStats, Group, LatencyHistogram, SizeHistogram, Stats, Sync, THROUGHPUT_BUCKETS,
    Throughput, WORKING_SET_BLOCKS, WorkingSetSize,
};
use crate::layout::{self, Role, Usage, by_use};
use crate::{Event, File, Flags, Meta, Op, Reader, Result, Trace, path_text};

/// Streams a trace and returns its statistics.
///
/// # Errors
///
/// Returns an error at the first damaged row group.
pub fn collect(reader: &Reader) -> Result<Stats> {
    let mut collector = Collector::new(reader.meta().duration_ns);
    for event in reader.events() {
        collector.add(&event?);
    }
    let mut stats = collector.finish(reader.meta(), reader.files());
    stats.torn_bytes = reader.recovered().unwrap_or(0);
    Ok(stats)
}

/// Loads a trace with a role for every file: those that no layout knows get it from their use, as in the statistics.
///
/// # Errors
///
/// As [`Trace::load`] and [`collect`].
pub fn load_with_roles(path: &Path) -> Result<Trace> {
    let mut trace = Trace::load(path)?;
    if trace.files.iter().any(|file| file.role.is_none()) {
        let stats = collect(&Reader::open(path)?)?;
        for (file, shown) in trace.files.iter_mut().zip(stats.files) {
            file.role = Some(shown.role);
        }
    }
    Ok(trace)
}

/// The kinds for which sizes are counted separately, and the flags that select them.
const KINDS: [(&str, Flags, bool); 4] = [
    ("sync", Flags::SYNC, true),
    ("async", Flags::SYNC, false),
    ("direct", Flags::DIRECT, true),
    ("buffered", Flags::DIRECT, false),
];
/// When more streams than this are tracked, all positions at which threads' operations ended are forgotten.
const STREAMS: usize = 1 << 20;
/// The number of possible alignments: 2^0 to 2^20 bytes.
const ALIGNMENTS: usize = 21;
/// The share of offsets or lengths that an alignment must divide.
const ALIGNED_SHARE: f64 = 0.99;

/// Counts events one by one.
pub struct Collector {
    bucket_ns: u64,
    files: Vec<Counts>,
    streams: HashMap<(u32, u32, bool), u64>,
    working_sets: Vec<WorkingSet>,
    throughput: Vec<Throughput>,
}

/// The counts of one file, and their sums.
#[derive(Clone, Default)]
struct Counts {
    ops: [u64; Op::ALL.len()],
    reads: DirectionStats,
    writes: DirectionStats,
    cached_faults: u64,
    sync_latency: LatencyHistogram,
    sync_writes: u64,
    /// Writes and bytes since the file's last commit: a sync call or a synchronous write.
    unsynced: (u64, u64),
    /// Writes and bytes before any of its commits.
    synced: (u64, u64),
    /// The end of the file in bytes, as far as events show it, and the number of writes that could be compared with it.
    end: Option<u64>,
    appended: (u64, u64),
    working_set: [Touched; WORKING_SET_BLOCKS.len()],
}

#[derive(Clone, Default)]
struct DirectionStats {
    ops: u64,
    bytes: u64,
    sizes: SizeHistogram,
    by_kind: [SizeHistogram; KINDS.len()],
    sequential: u64,
    /// The end of the last operation, and the number of those that began at that of the one before, of any thread.
    end: u64,
    continued: u64,
    offsets: [u64; ALIGNMENTS],
    lengths: [u64; ALIGNMENTS],
    latency: LatencyHistogram,
}

impl Collector {
    /// Creates a collector for a recording of `duration_ns` nanoseconds. Later events count to its last part.
    pub fn new(duration_ns: u64) -> Collector {
        Collector {
            bucket_ns: duration_ns.div_ceil(THROUGHPUT_BUCKETS as u64).max(1),
            files: Vec::new(),
            streams: HashMap::new(),
            working_sets: WORKING_SET_BLOCKS.map(WorkingSet::new).into(),
            throughput: vec![Throughput::default(); THROUGHPUT_BUCKETS],
        }
    }

    /// Counts one event.
    pub fn add(&mut self, event: &Event) {
        let id = event.file as usize;
        if id >= self.files.len() {
            self.files.resize(id + 1, Counts::default());
        }
        self.files[id].ops[event.op as usize] += 1;
        let at = ((event.t_ns / self.bucket_ns) as usize).min(THROUGHPUT_BUCKETS - 1);
        match event.op {
            Op::Read | Op::Map if event.is_read() => {
                self.throughput[at].reads += 1;
                let sum = &mut self.throughput[at].read_bytes;
                *sum = sum.saturating_add(event.len);
                self.transfer(event, false);
            }
            Op::Write => {
                self.throughput[at].writes += 1;
                let sum = &mut self.throughput[at].write_bytes;
                *sum = sum.saturating_add(event.len);
                self.transfer(event, true);
            }
            Op::Map if event.is_page_fault() => self.files[id].cached_faults += 1,
            Op::Open => self.files[id].end = Some(self.files[id].end.unwrap_or(0).max(event.len)),
            Op::Create => self.files[id].end = Some(0),
            Op::Truncate => self.files[id].end = Some(event.offset),
            _ => {}
        }
        if event.op.is_commit(event.flags) {
            self.throughput[at].syncs += 1;
            self.files[id].sync(event);
        }
    }

    fn transfer(&mut self, event: &Event, write: bool) {
        let end = event.offset.saturating_add(event.len);
        if self.streams.len() >= STREAMS {
            self.streams.clear();
        }
        let sequential = self.streams.insert((event.file, event.tid, write), end) == Some(event.offset);
        let counts = &mut self.files[event.file as usize];
        if write {
            counts.written(event, end);
        }
        let way = if write { &mut counts.writes } else { &mut counts.reads };
        way.add(event, sequential);
        for set in &mut self.working_sets {
            set.touch(event.file, event.offset, event.len, write);
        }
    }

    /// The role of each file: that of the table, or one from the file's use. Files of a directory whose names differ only in their digits
    /// have the same use, so they get the role with most bytes.
    fn roles(&self, files: &[File]) -> Vec<Role> {
        let mut bytes: HashMap<String, BTreeMap<Role, u64>> = HashMap::new();
        for (file, counts) in files.iter().zip(&self.files).filter(|(file, _)| file.role.is_none()) {
            let role = by_use(&counts.usage(file.size));
            let sum = bytes.entry(without_digits(&file.path)).or_default().entry(role).or_default();
            *sum += counts.reads.bytes + counts.writes.bytes;
        }
        let of_use = |file: &File| {
            let of_name = bytes[&without_digits(&file.path)].iter().max_by_key(|(_, bytes)| **bytes);
            of_name.map_or(Role::Other, |(role, _)| *role)
        };
        files.iter().map(|file| file.role.unwrap_or_else(|| of_use(file))).collect()
    }

    /// Computes the statistics. `files` is the trace's file table.
    pub fn finish(mut self, meta: &Meta, files: &[File]) -> Stats {
        self.files.resize(self.files.len().max(files.len()), Counts::default());
        for (at, set) in self.working_sets.iter().enumerate() {
            for (counts, touched) in self.files.iter_mut().zip(set.per_file(files.len())) {
                counts.working_set[at] = touched;
            }
        }
        let mut total = Counts::default();
        let mut roles: BTreeMap<Role, Counts> = BTreeMap::new();
        let mut shown = Vec::with_capacity(files.len());
        for ((file, counts), role) in files.iter().zip(&self.files).zip(self.roles(files)) {
            let (usage, role_from_use) = (counts.usage(file.size), file.role.is_none());
            total.merge(counts);
            roles.entry(role).or_default().merge(counts);
            let (path, size) = (file.path.clone(), file.size);
            shown.push(FileStats { path, role, role_from_use, size, group: counts.group(false), usage });
        }
        roles.retain(|_, counts| counts.ops.iter().any(|n| *n > 0));
        for (at, part) in self.throughput.iter_mut().enumerate() {
            part.start_s = (at as u64 * self.bucket_ns) as f64 / 1e9;
        }
        let sampled = self.working_sets.iter().map(|set| (set.block().to_string(), set.rate())).collect();
        Stats {
            duration_s: meta.duration_ns as f64 / 1e9,
            events: total.ops.iter().sum(),
            lost_events: meta.lost_events,
            unseen: meta.unseen.clone(),
            torn_bytes: 0,
            creator: meta.creator.clone(),
            probe_set: meta.probe_set.clone(),
            subject: meta.subject.clone(),
            layout: layout::detect_paths(files.iter().map(|f| f.path.as_str())).map(|l| l.name.to_owned()),
            total: total.group(true),
            roles: roles.into_iter().map(|(role, counts)| (role, counts.group(false))).collect(),
            files: shown,
            throughput: self.throughput,
            working_set_sampled: sampled,
        }
    }
}

/// A path with each number in the file's name replaced by `#`.
fn without_digits(path: &str) -> String {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    format!("{dir}/{}", path_text::with_numbers_as('#', name))
}

impl Counts {
    fn written(&mut self, event: &Event, end: u64) {
        self.unsynced.0 += 1;
        self.unsynced.1 = self.unsynced.1.saturating_add(event.len);
        self.sync_writes += u64::from(event.flags.contains(Flags::SYNC));
        if let Some(known) = self.end {
            self.appended.1 += 1;
            self.appended.0 += u64::from(event.offset >= known);
        }
        self.end = Some(self.end.unwrap_or(0).max(end));
    }

    fn sync(&mut self, event: &Event) {
        self.synced.0 += self.unsynced.0;
        self.synced.1 = self.synced.1.saturating_add(self.unsynced.1);
        self.unsynced = (0, 0);
        if event.dur_ns > 0 {
            self.sync_latency.add(event.dur_ns);
        }
    }

    fn count(&self, op: Op) -> u64 {
        self.ops[op as usize]
    }

    fn sync_calls(&self) -> u64 {
        self.count(Op::Fsync) + self.count(Op::Fdatasync)
    }

    fn overwrite(&self) -> Option<f64> {
        let distinct = self.working_set[0].written * WORKING_SET_BLOCKS[0];
        (distinct > 0).then(|| self.writes.bytes as f64 / distinct as f64)
    }

    /// The use of a file of this length in bytes.
    fn usage(&self, size: u64) -> Usage {
        Usage {
            reads: self.reads.ops,
            writes: self.writes.ops,
            read_bytes: self.reads.bytes,
            write_bytes: self.writes.bytes,
            syncs: self.sync_calls() + self.sync_writes,
            appended: share(self.appended.0, self.appended.1).unwrap_or(0.0),
            sequential_writes: self.writes.sequential_of_any_thread(),
            sequential_reads: self.reads.sequential_of_any_thread(),
            reread: share(self.reads.bytes, self.working_set[0].read * WORKING_SET_BLOCKS[0]).unwrap_or(0.0),
            overwrite: self.overwrite().unwrap_or(0.0),
            mapped: self.count(Op::Map) > 0,
            created: self.count(Op::Create) > 0,
            unlinked: self.count(Op::Unlink) > 0,
            size,
        }
    }

    fn merge(&mut self, other: &Counts) {
        for (sum, n) in self.ops.iter_mut().zip(other.ops) {
            *sum += n;
        }
        self.reads.merge(&other.reads);
        self.writes.merge(&other.writes);
        self.sync_latency.merge(&other.sync_latency);
        self.cached_faults += other.cached_faults;
        self.sync_writes += other.sync_writes;
        self.synced.0 += other.synced.0;
        self.synced.1 = self.synced.1.saturating_add(other.synced.1);
        for (sum, touched) in self.working_set.iter_mut().zip(other.working_set) {
            sum.read += touched.read;
            sum.written += touched.written;
            sum.any += touched.any;
        }
    }

    fn group(&self, every_op: bool) -> Group {
        let named = Op::ALL.iter().map(|op| (op.name().to_owned(), self.count(*op)));
        let calls = self.sync_calls();
        let commits = calls + self.sync_writes;
        let working_set =
            WORKING_SET_BLOCKS.iter().zip(self.working_set).map(|(&block, touched)| WorkingSetSize {
                block,
                read_bytes: touched.read * block,
                write_bytes: touched.written * block,
                bytes: touched.any * block,
            });
        Group {
            ops: named.filter(|(_, n)| every_op || *n > 0).collect(),
            bytes: Bytes { read: self.reads.bytes, write: self.writes.bytes },
            read_size_histogram: self.reads.sizes.clone(),
            write_size_histogram: self.writes.sizes.clone(),
            cached_faults: self.cached_faults,
            read: self.reads.direction(),
            write: self.writes.direction(),
            sync: Sync {
                calls,
                sync_writes: self.sync_writes,
                writes_per_sync: share(self.synced.0, commits),
                bytes_per_sync: share(self.synced.1, commits),
                latency_ns: self.sync_latency.quantiles(),
            },
            working_set: working_set.collect(),
            overwrite_factor: self.overwrite(),
        }
    }
}

impl DirectionStats {
    fn add(&mut self, event: &Event, sequential: bool) {
        self.ops += 1;
        self.bytes = self.bytes.saturating_add(event.len);
        self.sizes.add(event.len);
        for ((_, flag, set), sizes) in KINDS.iter().zip(&mut self.by_kind) {
            if event.flags.contains(*flag) == *set {
                sizes.add(event.len);
            }
        }
        self.sequential += u64::from(sequential);
        self.continued += u64::from(event.offset == self.end);
        self.end = event.offset.saturating_add(event.len);
        let tier = |value: u64| (value.trailing_zeros() as usize).min(ALIGNMENTS - 1);
        self.offsets[tier(event.offset)] += 1;
        self.lengths[tier(event.len)] += 1;
        if event.dur_ns > 0 {
            self.latency.add(event.dur_ns);
        }
    }

    fn merge(&mut self, other: &DirectionStats) {
        self.ops += other.ops;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.sizes.merge(&other.sizes);
        self.by_kind.iter_mut().zip(&other.by_kind).for_each(|(sum, sizes)| sum.merge(sizes));
        self.sequential += other.sequential;
        self.offsets.iter_mut().zip(other.offsets).for_each(|(sum, n)| *sum += n);
        self.lengths.iter_mut().zip(other.lengths).for_each(|(sum, n)| *sum += n);
        self.latency.merge(&other.latency);
    }

    /// The share of operations that began where the same thread's last one ended, or that of any thread.
    fn sequential_of_any_thread(&self) -> f64 {
        share(self.sequential.max(self.continued), self.ops).unwrap_or(0.0)
    }

    fn direction(&self) -> Direction {
        let kinds = KINDS.iter().zip(&self.by_kind).filter(|(_, sizes)| sizes.total() > 0);
        Direction {
            size_histogram_by_kind: kinds
                .map(|((name, ..), sizes)| ((*name).to_owned(), sizes.clone()))
                .collect(),
            sequential: share(self.sequential, self.ops),
            offset_alignment: alignment(&self.offsets),
            length_alignment: alignment(&self.lengths),
            latency_ns: self.latency.quantiles(),
        }
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Returns the largest power of two that divides the required share of values. `tiers` counts values by their number of
/// trailing zero bits.
fn alignment(tiers: &[u64; ALIGNMENTS]) -> Option<u64> {
    let total: u64 = tiers.iter().sum();
    let wanted = (total as f64 * ALIGNED_SHARE).ceil() as u64;
    let mut aligned = 0;
    let found = (0..ALIGNMENTS).rev().find(|&tier| {
        aligned += tiers[tier];
        aligned >= wanted
    });
    found.filter(|_| total > 0).map(|tier| 1 << tier)
}
