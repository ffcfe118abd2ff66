//! Advice on memory: what ARCs of many sizes would read of the recording, under the settings that the plan recommends.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use poolwright_mrc::advice::{Explained, GIB, Given, Host};
use poolwright_mrc::footprint::grid;
use poolwright_mrc::openzfs::PrimaryCache;
use poolwright_mrc::{Access, Kind, Lru, Model, OpenZfs, Run};
use poolwright_openzfs::Device;
use poolwright_openzfs::property::Settings;
use poolwright_trace::{File, Op, Trace, format_count, format_size};

use crate::accesses::{Accesses, Records};
use crate::candidates::{of_interest, same, with};
use crate::model::{arc, primarycache};
use crate::plan::{EvidenceKind, Memory, Role};
use crate::{Error, Result};

/// The least ARC that OpenZFS takes (`arc_abs_min` is half of it, and below that nothing works well).
const LEAST_ARC: u64 = 64 << 20;
/// Fewer reads than this say nothing.
const LEAST_READS: u64 = 1000;
/// Where less than this share of the reads are of something read before, the recording is too short to tell what is used
/// again.
const LEAST_AGAIN: f64 = 0.1;
/// Of more accesses than this only LRU's curve is made, which takes one pass for all sizes.
const MOST_ACCESSES: u64 = 3_000_000;
/// And where a model of each size would take more than this together, at 64 bytes a record.
const MOST_MEMORY: u64 = 512 << 20;
const RECORD_MEMORY: u64 = 64;

/// What the ARC holds beside a record, and beside all of them: headers and dbufs; indirect blocks, the pool's own, and how
/// far it grows over its size before it is cut back ([`poolwright_mrc::openzfs::Options`]). Rounded up: it is the last size.
const BESIDE_A_RECORD: u64 = 1024;
const BESIDE: u64 = 24 << 20;

/// What is known of one role's records.
struct RoleRecords {
    records: Records,
    cached: bool,
}

/// Reads the recording as the files of `roles` would be accessed under what is recommended for them.
pub(crate) fn advise(trace: &Trace, roles: &[Role], device: &Device, stop: &AtomicBool) -> Result<Memory> {
    let known: BTreeMap<&str, RoleRecords> = roles.iter().map(|r| (r.role.as_str(), known(r))).collect();
    let recordsizes = roles
        .iter()
        .filter(|r| known[r.role.as_str()].cached)
        .map(|r| (r.role.clone(), format_size(known[r.role.as_str()].records.recordsize)))
        .collect();
    let host = Host::here();
    // Roles come by their bytes, largest first: the recordsize of most of what can be cached.
    let cached = roles.iter().filter_map(|r| known.get(r.role.as_str())).find(|k| k.cached);
    let recordsize = cached.map_or(128 << 10, |k| k.records.recordsize);
    let reading = Reading { trace, known: &known, recordsize, stop };
    let mut memory = Memory { recordsizes, host, ..Memory::default() };
    let first = reading.first()?;
    if let Some(why) = reading.uncached().or_else(|| too_short(trace, &first)) {
        memory.unknown = Some(why);
        return Ok(memory);
    }
    let footprint = first.footprint;
    let run = reading.second(&first, sizes(footprint + first.records * BESIDE_A_RECORD + BESIDE, &host))?;
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

/// The records of a role under what is recommended for it, as far as the space estimate knows their compression.
fn known(role: &Role) -> RoleRecords {
    let settings = with(&role.current, &role.recommended);
    let (recordsize, compression) = of_interest(&settings);
    let pair = |recordsize: &str, compression: &str| {
        Settings::from([
            ("recordsize".to_string(), recordsize.to_string()),
            ("compression".to_string(), compression.to_string()),
        ])
    };
    let wanted = pair(&recordsize.to_string(), compression);
    let estimate = role.evidence.iter().find(|e| {
        let (recordsize, compression) = of_interest(&e.settings);
        e.kind == EvidenceKind::Estimate && same(&pair(&recordsize.to_string(), compression), &wanted)
    });
    let ratio = estimate.and_then(|e| Some(e.metrics.get("space_ratio")?.median)).unwrap_or(1.0);
    let cached = primarycache(&settings) == PrimaryCache::All;
    // Compression never makes a record larger in the ARC.
    RoleRecords { records: Records { recordsize, ratio: ratio.clamp(1.0, 1e3) }, cached }
}

fn one_recordsize(known: &BTreeMap<&str, RoleRecords>) -> Option<u64> {
    let mut sizes = known.values().filter(|k| k.cached).map(|k| k.records.recordsize);
    let first = sizes.next()?;
    sizes.all(|s| s == first).then_some(first)
}

/// What a first pass over the recording counts.
#[derive(Default)]
struct Counted {
    accesses: u64,
    bytes: u64,
    /// Accesses that need the record's content.
    reads: u64,
    /// Of those, the ones that a cache without an end would miss.
    cold: u64,
    records: u64,
    /// The most bytes that such a cache holds.
    footprint: u64,
    holds: u64,
    /// By record; 0 if it was never there, or was freed.
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

struct Reading<'a> {
    trace: &'a Trace,
    known: &'a BTreeMap<&'a str, RoleRecords>,
    /// For what the model knows one of only: its dbuf cache and its reading ahead.
    recordsize: u64,
    stop: &'a AtomicBool,
}

impl Reading<'_> {
    fn first(&self) -> Result<Counted> {
        let mut counted = Counted::default();
        let records = self.pass(|chunk, _| chunk.iter().for_each(|access| counted.see(access)))?;
        Ok(Counted { records, held: Vec::new(), ..counted })
    }

    fn second(&self, first: &Counted, sizes: Vec<u64>) -> Result<Run> {
        let mut run = Run::new();
        let memory = first.records * RECORD_MEMORY * sizes.len() as u64;
        if first.accesses > MOST_ACCESSES || memory > MOST_MEMORY {
            run.add("lru", vec![Box::new(Lru::new(&sizes))]);
        } else {
            let of = |bytes| -> Box<dyn Model> { Box::new(OpenZfs::new(arc(bytes, self.recordsize))) };
            run.add("openzfs", sizes.into_iter().map(of).collect());
        }
        self.pass(|chunk, keys| run.feed(chunk, keys))?;
        Ok(run)
    }

    /// By file: whether the ARC may hold its data.
    fn cached(&self) -> Vec<bool> {
        let cached = |file: &File| self.known.get(file.role.as_str()).is_none_or(|k| k.cached);
        self.trace.files.iter().map(cached).collect()
    }

    /// Why there is nothing to say where `primarycache` keeps what was read out of the ARC.
    fn uncached(&self) -> Option<String> {
        let cached = self.cached();
        let reads = |wanted: bool| {
            let events = self.trace.events.iter().filter(|e| e.op == Op::Read);
            events.filter(|e| cached.get(e.file as usize) == Some(&wanted)).count() as u64
        };
        let (inside, outside) = (reads(true), reads(false));
        (inside < LEAST_READS && outside > inside).then(|| {
            format!(
                "primarycache keeps the data of {} of the {} reads in the recording out of the ARC",
                format_count(outside),
                format_count(inside + outside)
            )
        })
    }

    /// Shows the recording to `see`; the number of different records.
    fn pass(&self, mut see: impl FnMut(&[Access], &[u64])) -> Result<u64> {
        let whole = Records { recordsize: 128 << 10, ratio: 1.0 };
        let of = |file: &File| self.known.get(file.role.as_str()).map_or(whole, |k| k.records);
        let cached = self.cached();
        let events = self.trace.events.iter().filter(|e| cached.get(e.file as usize).is_some_and(|c| *c));
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

/// Sizes to ask for: up to what the recording touches, and where today's ARC is among them, that and a gigabyte more.
fn sizes(footprint: u64, host: &Host) -> Vec<u64> {
    let mut sizes = grid(footprint, LEAST_ARC);
    let last = sizes.last().copied().unwrap_or(0);
    let today = host.arc_max_bytes.into_iter().flat_map(|today| [today, today.saturating_add(GIB)]);
    sizes.extend(today.filter(|size| (LEAST_ARC..last).contains(size)));
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Why the recording says nothing about memory, if it does not.
fn too_short(trace: &Trace, first: &Counted) -> Option<String> {
    let seconds = trace.meta.duration_ns as f64 / 1e9;
    let (reads, footprint) = (first.reads, first.footprint);
    if reads < LEAST_READS {
        return Some(format!(
            "the recording of {seconds:.0} s holds {} reads, too few to tell; record for longer, or under more load",
            format_count(reads)
        ));
    }
    let again = 1.0 - first.cold as f64 / reads as f64;
    if again < LEAST_AGAIN {
        return Some(format!(
            "of {} reads in {seconds:.0} s only {:.1} % were of something read before: record for longer to see what is used \
             again",
            format_count(reads),
            again * 100.0
        ));
    }
    if footprint <= LEAST_ARC {
        return Some(format!(
            "all that the recording touched, {}, fits the smallest ARC",
            format_size(footprint)
        ));
    }
    None
}

/// What reading a record of so many bytes takes on the device; `None` without an emulated one.
fn miss_latency(device: &Device, bytes: u64) -> Option<u64> {
    let wait = device.read_latency_ns + device.seek_ns;
    let transfer = (bytes * 1_000_000_000).checked_div(device.read_bytes_s).unwrap_or(0);
    (wait > 0).then_some(wait + transfer)
}

#[cfg(test)]
mod tests;
