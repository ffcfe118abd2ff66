//! Advice on memory: the reads from the devices that ARCs of many sizes would need for the recorded accesses, under the recommended
//! settings.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use poolwright_base::units::{format_count, format_size};
use poolwright_mrc::advice::{Explained, GIB, Given, Host};
use poolwright_mrc::footprint::grid;
use poolwright_mrc::openzfs::Options;
use poolwright_mrc::{Access, Kind, Lru, Model, OpenZfs, Run};
use poolwright_openzfs::Device;
use poolwright_openzfs::property::Settings;
use poolwright_trace::{Event, File, Op, Trace};

use crate::accesses::{Accesses, Records};
use crate::candidates::{block_size_and_compression, with};
use crate::direct::is_past_arc;
use crate::{Error, Result};
use poolwright_plan::{Memory, Role, RolePlan};

/// The smallest ARC in bytes that OpenZFS can use well; `arc_abs_min` is half of it.
const MIN_ARC: u64 = 64 << 20;
/// Fewer reads than this give no usable curve.
const MIN_READS: u64 = 1000;
/// If less than this share of the reads are repeated, the recording is too short to show what is used again.
const MIN_REUSE: f64 = 0.1;
/// Above this number of accesses, only the LRU curve is computed, which takes one pass for all sizes.
const MAX_ACCESSES: u64 = 3_000_000;
/// The same applies if the models of all sizes together would take more than this many bytes.
const MAX_MEMORY: u64 = 512 << 20;
const RECORD_MEMORY: u64 = 64;

/// Memory of the ARC in addition to the records, rounded up, in bytes. Per record: headers and dbufs. In total:
/// indirect blocks, the pool's own blocks, and the excess over its size before eviction
/// ([`poolwright_mrc::openzfs::Options`]).
const OVERHEAD_PER_RECORD: u64 = 1024;
const FIXED_OVERHEAD: u64 = 24 << 20;

/// The records of one role, whether the ARC may contain them, and the settings that say so.
struct RoleRecords {
    records: Records,
    cached: bool,
    settings: Settings,
}

/// Computes the miss-ratio curve of the recording with the recommended settings of `roles`. `ratios`: logical bytes per byte in the ARC, for
/// roles where that is known. With `direct_io`, reads with `O_DIRECT`
/// bypass the ARC unless the settings say otherwise.
pub(crate) fn advise(
    trace: &Trace,
    roles: &[RolePlan],
    ratios: &BTreeMap<Role, f64>,
    device: &Device,
    direct_io: bool,
    stop: &AtomicBool,
) -> Result<Memory> {
    let known: BTreeMap<Role, RoleRecords> =
        roles.iter().map(|r| (r.role, records_of(r, ratios.get(&r.role)))).collect();
    let recordsizes = roles
        .iter()
        .filter(|r| known[&r.role].cached)
        .map(|r| (r.role, format_size(known[&r.role].records.recordsize)))
        .collect();
    let host = Host::here();
    // Roles are sorted by size, largest first: this is the recordsize of most of the data that can be cached.
    let cached = roles.iter().filter_map(|r| known.get(&r.role)).find(|k| k.cached);
    let recordsize = cached.map_or(128 << 10, |k| k.records.recordsize);
    let recording = Recording { trace, known: &known, recordsize, direct_io, stop };
    let mut memory = Memory { recordsizes, host, ..Memory::default() };
    let first = recording.count_accesses()?;
    if let Some(why) = recording.uncached().or_else(|| too_short(trace, &first)) {
        memory.unknown = Some(why);
        return Ok(memory);
    }
    let footprint = first.footprint;
    let run = recording
        .simulate(&first, sizes(footprint + first.records * OVERHEAD_PER_RECORD + FIXED_OVERHEAD, &host))?;
    let one = one_recordsize(&known);
    let Some(curve) = run.curves(one, first.records).into_iter().next() else { return Ok(memory) };
    memory.miss_latency_ns = miss_latency(device, first.bytes / first.accesses.max(1));
    let given = Given {
        seconds: Some(trace.meta.duration_ns as f64 / 1e9).filter(|s| *s > 0.0),
        miss_latency_ns: memory.miss_latency_ns,
        footprint_bytes: Some(footprint),
        host,
    };
    memory.curve = Some(Explained::new(curve, &given));
    Ok(memory)
}

/// Returns the records of a role under its recommended settings.
fn records_of(role: &RolePlan, ratio: Option<&f64>) -> RoleRecords {
    let settings = with(&role.current, &role.recommended);
    let (recordsize, _) = block_size_and_compression(&settings);
    let ratio = ratio.copied().unwrap_or(1.0);
    let cached = settings.get("primarycache").is_none_or(|v| v == "all");
    RoleRecords { records: Records { recordsize, ratio }, cached, settings }
}

fn one_recordsize(known: &BTreeMap<Role, RoleRecords>) -> Option<u64> {
    let mut sizes = known.values().filter(|k| k.cached).map(|k| k.records.recordsize);
    let first = sizes.next()?;
    sizes.all(|s| s == first).then_some(first)
}

/// The counts of the first pass over the recording.
#[derive(Default)]
struct Counted {
    accesses: u64,
    bytes: u64,
    /// Accesses that need the record's content.
    reads: u64,
    /// Of those, the misses of an infinite cache.
    cold: u64,
    records: u64,
    /// The largest number of bytes in an infinite cache.
    footprint: u64,
    holds: u64,
    /// Bytes of each record in the infinite cache; 0 if the record was never read or was freed.
    held: Vec<u32>,
}

impl Counted {
    fn see(&mut self, access: &Access) {
        let record = access.record as usize;
        if record >= self.held.len() {
            self.held.resize(record + 1, 0);
        }
        let freed = access.kind == Kind::Free;
        let bytes = if freed { 0 } else { access.bytes };
        let before = std::mem::replace(&mut self.held[record], bytes);
        self.holds = self.holds - u64::from(before) + u64::from(bytes);
        self.footprint = self.footprint.max(self.holds);
        self.accesses += u64::from(!freed);
        self.bytes += u64::from(bytes);
        if access.kind.needs_content() {
            self.reads += 1;
            self.cold += u64::from(before == 0);
        }
    }
}

struct Recording<'a> {
    trace: &'a Trace,
    known: &'a BTreeMap<Role, RoleRecords>,
    /// The recordsize that the model uses for its dbuf cache and its prefetch, of which it has only one.
    recordsize: u64,
    direct_io: bool,
    stop: &'a AtomicBool,
}

impl Recording<'_> {
    fn count_accesses(&self) -> Result<Counted> {
        let mut counted = Counted::default();
        let records = self.pass(|chunk, _| chunk.iter().for_each(|access| counted.see(access)))?;
        Ok(Counted { records, held: Vec::new(), ..counted })
    }

    fn simulate(&self, first: &Counted, sizes: Vec<u64>) -> Result<Run> {
        let mut run = Run::default();
        let memory = first.records * RECORD_MEMORY * sizes.len() as u64;
        if first.accesses > MAX_ACCESSES || memory > MAX_MEMORY {
            run.add("lru", vec![Box::new(Lru::new(&sizes))]);
        } else {
            let of = |bytes| -> Box<dyn Model> {
                Box::new(OpenZfs::new(Options {
                    prefetch: true,
                    ..Options::new(bytes, self.recordsize as u32)
                }))
            };
            run.add("openzfs", sizes.into_iter().map(of).collect());
        }
        self.pass(|chunk, keys| run.feed(chunk, keys))?;
        Ok(run)
    }

    /// Whether the ARC may contain the data of each file.
    fn cached(&self) -> Vec<bool> {
        let cached = |file: &File| self.known.get(&file.known_role()).is_none_or(|k| k.cached);
        self.trace.files.iter().map(cached).collect()
    }

    /// Whether each event bypasses the ARC because of `O_DIRECT`.
    fn direct(&self) -> impl Fn(&Event) -> bool {
        let of = |file: &File| self.known.get(&file.known_role()).map(|known| &known.settings);
        let settings: Vec<Option<&Settings>> = self.trace.files.iter().map(of).collect();
        let none = Settings::new();
        move |event| {
            let of = settings.get(event.file as usize).copied().flatten().unwrap_or(&none);
            self.direct_io && event.op == Op::Read && is_past_arc(event, of)
        }
    }

    /// Returns the reason for leaving out the curve if most reads bypass the ARC, by `primarycache` or `O_DIRECT`.
    fn uncached(&self) -> Option<String> {
        let (cached, is_direct) = (self.cached(), self.direct());
        let (mut inside, mut excluded, mut direct) = (0, 0, 0);
        for event in self.trace.events.iter().filter(|e| e.op == Op::Read) {
            match cached.get(event.file as usize) {
                Some(true) if is_direct(event) => direct += 1,
                Some(true) => inside += 1,
                _ => excluded += 1,
            }
        }
        let (why, outside) = if direct > excluded {
            (
                "bypass the ARC with O_DIRECT (direct=disabled in OpenZFS 2.3, or the database, can change that)",
                direct,
            )
        } else {
            ("are excluded from the ARC by primarycache", excluded)
        };
        (inside < MIN_READS && outside > inside).then(|| {
            format!(
                "{} of the {} recorded reads {why}",
                format_count(outside),
                format_count(inside + excluded + direct)
            )
        })
    }

    /// Passes the accesses of the recording to `see`. Returns the number of distinct records.
    fn pass(&self, mut see: impl FnMut(&[Access], &[u64])) -> Result<u64> {
        let whole = Records { recordsize: 128 << 10, ratio: 1.0 };
        let of = |file: &File| self.known.get(&file.known_role()).map_or(whole, |k| k.records);
        let (cached, is_direct) = (self.cached(), self.direct());
        let is_cached = |e: &&Event| cached.get(e.file as usize).is_some_and(|c| *c) && !is_direct(e);
        let events = self.trace.events.iter().filter(is_cached);
        let mut accesses = Accesses::new(self.trace, of)?;
        accesses.each(events, |chunk, keys| {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            see(chunk, keys);
            Ok(())
        })?;
        Ok(accesses.records())
    }
}

/// Returns the cache sizes of the curve in bytes: up to the size of all accessed data, and, if within that range,
/// today's ARC and today's ARC plus 1 GiB.
fn sizes(footprint: u64, host: &Host) -> Vec<u64> {
    let mut sizes = grid(footprint, MIN_ARC);
    let last = sizes.last().copied().unwrap_or(0);
    let today = host.arc_max_bytes.into_iter().flat_map(|today| [today, today.saturating_add(GIB)]);
    sizes.extend(today.filter(|size| (MIN_ARC..last).contains(size)));
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Explains why the recording gives no curve, or returns `None` if it does.
fn too_short(trace: &Trace, first: &Counted) -> Option<String> {
    let seconds = trace.meta.duration_ns as f64 / 1e9;
    let (reads, footprint) = (first.reads, first.footprint);
    if reads < MIN_READS {
        return Some(format!(
            "the recording of {seconds:.0} s contains {} reads, too few for a curve; record for longer, or under more load",
            format_count(reads)
        ));
    }
    let again = 1.0 - first.cold as f64 / reads as f64;
    if again < MIN_REUSE {
        return Some(format!(
            "of {} reads in {seconds:.0} s, only {:.1} % read data that was accessed before; record for longer to see which data is \
             used again",
            format_count(reads),
            again * 100.0
        ));
    }
    if footprint <= MIN_ARC {
        return Some(format!("all accessed data ({}) fits into the smallest ARC", format_size(footprint)));
    }
    None
}

/// Returns the nanoseconds that recording a record of `bytes` takes on the device, or `None` if no device is
/// emulated.
fn miss_latency(device: &Device, bytes: u64) -> Option<u64> {
    let wait = device.read_latency_ns + device.seek_ns;
    let transfer = (bytes * 1_000_000_000).checked_div(device.read_bytes_s).unwrap_or(0);
    (wait > 0).then_some(wait + transfer)
}

#[cfg(test)]
mod tests;
