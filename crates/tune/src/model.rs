//! A small model of the cost of a setting, which chooses the settings that are worth a trial. It ranks settings and
//! is never quoted as a result.
//!
//! It predicts foreground wait, CPU time and device bytes of a setting. The tuner compares them with the prediction
//! for today's settings, which it calibrates with one trial ([`Anchor`]).
//!
//! `poolwright-mrc`'s model of the ARC counts the records that are read. Its input are the events as accesses to
//! records of the setting's size, which take their compressed size: a read outside the cache reads its record; a
//! write to part of an uncached record reads it first. Each transaction group (by recorded time, or as soon as too
//! much data is dirty) writes every record that became dirty in it once, with its share of indirect blocks; synced
//! writes go through the log as well. A direct read reads its records each time; the log refers to the records of a direct write.
//! `tests/model.rs` compares the predicted bytes with the engine's.

use std::collections::{HashMap, HashSet};

use poolwright_mrc::openzfs::{Options, PrimaryCache};
use poolwright_mrc::{Counts, Model, OpenZfs};
use poolwright_openzfs::Device;
use poolwright_openzfs::property::Settings;
use poolwright_trace::{Event, Flags, Op, Trace};

use crate::Result;
use crate::accesses::{Accesses, Records};
use crate::candidates::recordsize_and_compression;
use crate::direct::is_past_arc;
use crate::objective::Metrics;

/// The effect of a codec on a role's data at one recordsize.
#[derive(Clone, Copy, Debug)]
pub struct Packing {
    /// Logical bytes per allocated byte.
    pub ratio: f64,
    /// Compression speed of one core in bytes per second; infinite for `off`.
    pub compress_bytes_s: f64,
    /// Decompression speed of one core in bytes per second; infinite for `off`.
    pub decompress_bytes_s: f64,
}

/// The environment that the model assumes.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// ARC limit in bytes.
    pub arc_bytes: u64,
    /// `zfs_dirty_data_max` in bytes.
    pub dirty_bytes: u64,
    /// Transaction group timeout in recorded nanoseconds.
    pub txg_ns: u64,
    /// The device.
    pub device: Device,
    /// Number of cores that compress.
    pub cores: f64,
    /// Whether requests with `O_DIRECT` bypass the ARC, as since OpenZFS 2.3.
    pub direct_io: bool,
}

/// The prediction for the I/O of a role.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prediction {
    /// Bytes read from devices.
    pub read_bytes: f64,
    /// Bytes written to devices.
    pub write_bytes: f64,
    /// Time that the foreground's operations wait, including their own CPU time, in nanoseconds.
    pub wait_ns: f64,
    /// CPU time of all operations and of writeback, in nanoseconds.
    pub cpu_ns: f64,
}

/// The result of one trial of today's settings, per recorded second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Anchor {
    /// Wall seconds that the work took.
    pub seconds: f64,
    /// CPU seconds of the whole process.
    pub cpu_seconds: f64,
    /// Number of cores available to the process.
    pub cores: f64,
    /// Number of foreground threads.
    pub threads: f64,
    /// Recorded seconds that the predictions cover.
    pub recorded_s: f64,
}

/// How sharply the slower of two bounds dominates (the exponent of a p-norm): 1 would add the bounds, infinity
/// would take only the larger one. Near saturation both delay the work.
const SHARPNESS: f64 = 4.0;

impl Anchor {
    /// Returns the work rate under a setting. `model` is the prediction for it and `today` the one for today's
    /// settings. The work takes the time of its serial parts or its CPU time on all cores, whichever is longer.
    pub fn work_rate(&self, model: &Prediction, today: &Prediction) -> f64 {
        let bound = self.cpu_seconds / self.cores;
        // The serial part accounts for the part of today's time that the CPU bound does not; it is at least
        // half of today's time, because the CPU time was measured together with it.
        let serial = (self.seconds.powf(SHARPNESS) - bound.min(self.seconds).powf(SHARPNESS))
            .max((0.5 * self.seconds).powf(SHARPNESS))
            .powf(1.0 / SHARPNESS);
        let per_second = |ns: f64| ns / 1e9 / self.recorded_s.max(1e-3);
        let serial = serial + per_second(model.wait_ns - today.wait_ns) / self.threads.max(1.0);
        let bound = bound + per_second(model.cpu_ns - today.cpu_ns) / self.cores;
        let least = 0.02 * self.seconds;
        1.0 / (serial.max(least).powf(SHARPNESS) + bound.max(least).powf(SHARPNESS)).powf(1.0 / SHARPNESS)
    }
}

/// Software time of an operation without I/O or codec: nanoseconds per operation, and bytes copied per second.
/// Measured on a 2.6 GHz core (`docs/method.md`, "Screening"); only the ranking depends on them.
const OP_NS: f64 = 12_000.0;
const COPY_BYTES_S: f64 = 4e9;
/// Software time of a record read in nanoseconds, in addition to the device's.
const MISS_NS: f64 = 20_000.0;
/// A level-1 indirect block has 1024 pointers of 128 bytes and compresses to about a quarter. It is written twice
/// (metadata has a second copy) when any record below it is written.
const POINTERS: u64 = 1024;
/// Bytes written for an indirect block: two compressed copies.
const INDIRECT_BYTES: f64 = 2.0 * 32768.0;
/// Bytes of labels, space maps, the dnode and the MOS in a transaction group.
const TXG_BYTES: f64 = 400_000.0;
/// Smallest log block in bytes.
const LOG_BLOCK: u64 = 4096;
/// Bytes from which the log refers to a record instead of containing the data (`zfs_immediate_write_sz`).
const INDIRECT_LOG_FROM: u64 = 32768;

/// Predicts the cost of one setting for the events of one role.
///
/// # Errors
/// Fails if the recordsize or the events are invalid input of the cache model.
pub fn predict<'a>(
    trace: &'a Trace,
    events: impl Iterator<Item = &'a Event> + Clone,
    settings: &Settings,
    packing: Packing,
    around: &Surroundings,
    is_foreground: &dyn Fn(&Event) -> bool,
) -> Result<Prediction> {
    let (recordsize, _) = recordsize_and_compression(settings);
    let stored = recordsize as f64 / packing.ratio.max(1e-3);
    let records = Records { recordsize, ratio: packing.ratio };
    let arc = Options { primarycache: primarycache(settings), ..arc(around.arc_bytes, recordsize) };
    let is_direct = |event: &Event| around.direct_io && is_past_arc(event, settings);
    let cached = events.clone().filter(|event| event.op != Op::Read || !is_direct(event));
    let loads = loads(trace, cached, records, arc)?;
    let mut state = State {
        recordsize,
        stored,
        packing,
        around,
        dirty: HashSet::new(),
        indirect: HashSet::new(),
        unsynced: HashMap::new(),
        // A transaction group is pushed out at zfs_dirty_data_sync_percent (20 %) of the limit. Writers are
        // stopped at the inner limit of zfs_arc_dirty_limit_percent (a quarter of the ARC, uncompressed)
        // until one is written.
        most_dirty: (around.dirty_bytes / 5).min(around.arc_bytes / 4),
        throughput: settings.get("logbias").is_some_and(|v| v == "throughput"),
        is_direct: &is_direct,
        direct_loads: 0,
        out: Prediction::default(),
        waits: true,
    };
    let mut txg = None;
    for event in events {
        let now = event.t_ns / around.txg_ns;
        if txg.is_some_and(|before| before != now) {
            state.end_txg();
        }
        txg = Some(now);
        state.waits = is_foreground(event);
        state.event(event);
    }
    state.end_txg();
    // The cache model does not report which thread's reads loaded a record; almost all are the foreground's.
    state.waits = true;
    let direct = state.direct_loads;
    state.load(&Loads { device: loads.device + direct, dbufs: loads.dbufs + direct });
    Ok(state.out)
}

/// Returns the options of OpenZFS's ARC with `bytes` of memory and prefetch.
pub(crate) fn arc(bytes: u64, recordsize: u64) -> Options {
    Options { prefetch: true, ..Options::new(bytes, recordsize as u32) }
}

/// Returns the data that a setting admits to the ARC.
pub(crate) fn primarycache(settings: &Settings) -> PrimaryCache {
    match settings.get("primarycache").map(String::as_str) {
        Some("metadata") => PrimaryCache::Metadata,
        Some("none") => PrimaryCache::None,
        _ => PrimaryCache::All,
    }
}

/// Returns the records that an ARC and its dbufs load for `events`.
fn loads<'a>(
    trace: &Trace,
    events: impl Iterator<Item = &'a Event>,
    records: Records,
    arc: Options,
) -> Result<Loads> {
    let mut arc = OpenZfs::new(arc);
    Accesses::new(trace, |_| records)?.each(events, |chunk, keys| {
        arc.feed(chunk, keys);
        Ok(())
    })?;
    let device = arc.counts().first().map_or(0, Counts::device_reads);
    Ok(Loads { device, dbufs: arc.record_loads() })
}

/// How many records were read into memory.
struct Loads {
    /// Records read from the device.
    device: u64,
    /// Records read into a dbuf, from the device or from the ARC, which contains them compressed.
    dbufs: u64,
}

/// The data that a sync of a file makes durable.
#[derive(Default)]
struct Unsynced {
    /// Bytes that the log contains.
    logged: u64,
    /// Records written to their place, with a log entry that refers to them.
    records: HashSet<(u32, u64)>,
}

struct State<'a> {
    recordsize: u64,
    stored: f64,
    packing: Packing,
    around: &'a Surroundings,
    /// Records that the next transaction group writes.
    dirty: HashSet<(u32, u64)>,
    /// Indirect blocks above records that were written since the last transaction group.
    indirect: HashSet<(u32, u64)>,
    /// The data of each file that was written since its last sync.
    unsynced: HashMap<u32, Unsynced>,
    most_dirty: u64,
    throughput: bool,
    is_direct: &'a dyn Fn(&Event) -> bool,
    /// Records that direct reads read, each time from the device.
    direct_loads: u64,
    out: Prediction,
    /// Whether the foreground waits for the current operation.
    waits: bool,
}

impl State<'_> {
    /// Adds CPU time of the thread that performs the operation.
    fn compute(&mut self, ns: f64) {
        self.out.cpu_ns += ns;
        self.wait(ns);
    }

    fn wait(&mut self, ns: f64) {
        if self.waits {
            self.out.wait_ns += ns;
        }
    }

    fn event(&mut self, event: &Event) {
        match event.op {
            // [`State::load`] adds the cost of reads from the totals of the cache model and of direct reads.
            Op::Read if (self.is_direct)(event) => {
                self.each_record(event, |state, _| state.direct_loads += 1)
            }
            Op::Read => {}
            Op::Write => {
                self.each_record(event, Self::write);
                if self.throughput || event.len >= INDIRECT_LOG_FROM || (self.is_direct)(event) {
                    self.each_record(event, Self::write_to_place);
                } else {
                    self.unsynced.entry(event.file).or_default().logged += event.len;
                }
                if event.flags.contains(Flags::SYNC) {
                    self.sync(event.file);
                }
            }
            Op::Fsync | Op::Fdatasync => self.sync(event.file),
            _ => return,
        }
        self.compute(OP_NS + event.len as f64 / COPY_BYTES_S * 1e9);
    }

    fn each_record(&mut self, event: &Event, what: fn(&mut Self, (u32, u64))) {
        if event.len == 0 {
            return;
        }
        let end = event.offset + event.len;
        for record in event.offset / self.recordsize..=(end - 1) / self.recordsize {
            what(self, (event.file, record));
        }
    }

    fn load(&mut self, loads: &Loads) {
        let d = &self.around.device;
        let transfer = if d.read_bytes_s == 0 { 0.0 } else { self.stored / d.read_bytes_s as f64 * 1e9 };
        let each = (d.read_latency_ns + d.seek_ns) as f64 + transfer;
        let decompressed = self.recordsize as f64 / self.packing.decompress_bytes_s * 1e9;
        self.out.read_bytes += loads.device as f64 * self.stored;
        self.wait(loads.device as f64 * each);
        self.compute(loads.device as f64 * MISS_NS + loads.dbufs as f64 * decompressed);
    }

    fn write(&mut self, record: (u32, u64)) {
        self.indirect.insert((record.0, record.1 / POINTERS));
        self.dirty.insert(record);
        if self.dirty.len() as u64 * self.recordsize > self.most_dirty {
            self.end_txg();
        }
    }

    fn write_to_place(&mut self, record: (u32, u64)) {
        self.unsynced.entry(record.0).or_default().records.insert(record);
    }

    fn sync(&mut self, file: u32) {
        let unsynced = self.unsynced.remove(&file).unwrap_or_default();
        let d = &self.around.device;
        let mut bytes = (unsynced.logged + 192).next_multiple_of(LOG_BLOCK) as f64;
        // `dmu_sync` writes a record as a whole, however little of it changed. The transaction group does
        // not write it again unless it is modified again.
        for record in &unsynced.records {
            self.dirty.remove(record);
        }
        let records = unsynced.records.len() as f64;
        bytes += records * self.stored;
        self.compute(records * self.recordsize as f64 / self.packing.compress_bytes_s * 1e9);
        let transfer = if d.write_bytes_s == 0 { 0.0 } else { bytes / d.write_bytes_s as f64 * 1e9 };
        self.out.write_bytes += bytes;
        self.wait((d.write_latency_ns + d.flush_latency_ns) as f64 + transfer);
    }

    fn end_txg(&mut self) {
        if self.indirect.is_empty() {
            return;
        }
        let records = self.dirty.len() as f64;
        self.out.write_bytes +=
            records * self.stored + self.indirect.len() as f64 * INDIRECT_BYTES + TXG_BYTES;
        self.out.cpu_ns += records * self.recordsize as f64 / self.packing.compress_bytes_s * 1e9;
        self.dirty.clear();
        self.indirect.clear();
        // Data that a transaction group has written no longer needs the log.
        self.unsynced.clear();
    }
}

impl Prediction {
    /// Returns the prediction as metrics, so that the objective can rank it. `allocated` are the bytes of the
    /// space estimate; `work_rate` is the result of [`Anchor::work_rate`].
    pub fn metrics(&self, allocated: f64, written_by_trace: u64, work_rate: f64) -> Metrics {
        let mut m = Metrics::from([
            ("allocated_bytes".to_string(), allocated),
            ("vdev_write_bytes".to_string(), self.write_bytes),
            ("vdev_read_bytes".to_string(), self.read_bytes),
            ("work_rate".to_string(), work_rate),
        ]);
        if written_by_trace > 0 {
            m.insert("write_amplification".into(), self.write_bytes / written_by_trace as f64);
        }
        m
    }
}
