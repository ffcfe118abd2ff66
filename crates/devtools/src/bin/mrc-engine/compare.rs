//! Replays on one pool with ARCs of several sizes, and the model on the same accesses.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use poolwright_mrc::openzfs::{OpenZfs, Options, PrimaryCache, Structures};
use poolwright_mrc::{Access, Intern, Model};
use poolwright_openzfs::codec::{Codec, Compression, Geometry};
use poolwright_openzfs::{ArcSizes, ArcStats, Config, Engine};

use super::child::{self, DIRTY_BYTES, Filled, Job, Replayed, SAMPLE};
use super::ops::{self, Ops, fill_record};

/// One comparison.
#[derive(Clone, Debug)]
pub struct EngineCase {
    pub recordsize: u64,
    pub compression: String,
    pub prefetch: String,
    pub primarycache: String,
    /// Bytes of a cache vdev; 0 for none.
    pub l2arc: u64,
    /// Maximum operations per second; 0 for no limit. With a limit, what a thread does by the clock (feeding a cache
    /// vdev) is done as often on a fast machine as on a slow one.
    pub pace: u32,
    /// Number of replays of each size; the medians count.
    pub repeats: usize,
    /// Sizes of the ARC in bytes.
    pub sizes: Vec<u64>,
    pub verbose: bool,
}

/// The result of one size, with medians of several replays. Hit ratios are the share of accesses to records, in
/// percent, for which the engine did not read data on demand.
pub struct SizeResult {
    pub arc_bytes: u64,
    pub engine: f64,
    pub model: f64,
    pub seconds: f64,
    /// The range of the repeats: runs of the engine differ.
    pub engine_spread: f64,
    pub model_spread: f64,
    /// The largest error of the model in one of them.
    pub worst: f64,
    pub repeats: usize,
    /// Share of the accesses that the cache vdev answered, in percent.
    pub engine_l2: f64,
    pub model_l2: f64,
}

/// One replay, and the model with its times. A [`SizeResult`] has the medians.
struct Run {
    engine: f64,
    model: f64,
    seconds: f64,
    engine_l2: f64,
    model_l2: f64,
}

impl SizeResult {
    fn of(arc_bytes: u64, runs: &[Run]) -> SizeResult {
        let sorted = |of: fn(&Run) -> f64| {
            let mut all: Vec<f64> = runs.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let median = |of| {
            let all = sorted(of);
            (all[(all.len() - 1) / 2] + all[all.len() / 2]) / 2.0
        };
        let spread = |of| {
            let all = sorted(of);
            all[all.len() - 1] - all[0]
        };
        SizeResult {
            arc_bytes,
            engine: median(|run| run.engine),
            model: median(|run| run.model),
            seconds: median(|run| run.seconds),
            engine_spread: spread(|run| run.engine),
            model_spread: spread(|run| run.model),
            worst: runs.iter().map(|run| (run.model - run.engine).abs()).fold(0.0, f64::max),
            repeats: runs.len(),
            engine_l2: median(|run| run.engine_l2),
            model_l2: median(|run| run.model_l2),
        }
    }

    /// The error of the model in percentage points.
    pub fn off(&self) -> f64 {
        self.model - self.engine
    }
}

impl fmt::Display for SizeResult {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (engine, model, off, seconds) = (self.engine, self.model, self.off(), self.seconds);
        write!(f, "engine {engine:6.2}  model {model:6.2}  off {off:+6.2}  ({seconds:.0} s)")?;
        if self.repeats > 1 {
            let (engine, model, worst, n) = (self.engine_spread, self.model_spread, self.worst, self.repeats);
            write!(f, "  {n} runs apart by {engine:.2}, of the model by {model:.2}, one off by {worst:.2}")?;
        }
        Ok(())
    }
}

/// A directory for the pool and a cache vdev: in memory if their maximum size is at most a third of the available
/// memory, otherwise on disk.
pub fn scratch(ops: &Ops, l2arc: u64) -> Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let wanted = child::pool_bytes(ops.files.iter().sum()) + l2arc;
    let fits = memory.is_dir() && wanted <= memory_available()? / 3;
    let parent = if fits { PathBuf::from(memory) } else { std::env::temp_dir() };
    Ok(tempfile::Builder::new().prefix("poolwright-mrc-").tempdir_in(parent)?)
}

fn memory_available() -> Result<u64> {
    let info = std::fs::read_to_string("/proc/meminfo")?;
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib =
        line.and_then(|rest| rest.split_whitespace().next()).context("/proc/meminfo has no MemAvailable")?;
    Ok(kib.parse::<u64>()? << 10)
}

/// Compares all sizes of one pool, and reports each when it is done.
pub fn compare(
    dir: &Path,
    ops: &Ops,
    case: &EngineCase,
    mut each: impl FnMut(&SizeResult),
) -> Result<Vec<SizeResult>> {
    let settings = [
        ("recordsize", case.recordsize.to_string()),
        ("compression", case.compression.clone()),
        ("prefetch", case.prefetch.clone()),
        ("primarycache", case.primarycache.clone()),
    ];
    let mut job = Job {
        pool: dir.join("pool"),
        ops: dir.join("ops"),
        settings: settings.map(|(name, value)| (name.to_owned(), value)).into(),
        recordsize: case.recordsize,
        arc_bytes: 256 << 20,
        files: ops.files.iter().map(|bytes| bytes.next_multiple_of(case.recordsize)).collect(),
        times: dir.join("times"),
        l2arc: case.l2arc,
        pace: case.pace,
    };
    let _ = std::fs::remove_file(&job.pool);
    let _ = std::fs::remove_file(dir.join("cache"));
    ops::save(&job.ops, &ops.ops)?;
    let filled: Filled = child::start("fill", dir, &job)?;
    let psizes = psizes(&job.files, case.recordsize, &case.compression)?;
    let mut rows = Vec::new();
    for &arc_bytes in &case.sizes {
        job.arc_bytes = arc_bytes;
        let mut runs = Vec::new();
        for _ in 0..case.repeats.max(1) {
            let engine: Replayed = child::start("replay", dir, &job)?;
            runs.push(beside(&job, ops, &psizes, &filled, &engine, case.verbose)?);
        }
        let row = SizeResult::of(arc_bytes, &runs);
        each(&row);
        rows.push(row);
    }
    Ok(rows)
}

/// A replay and the model of it.
fn beside(
    job: &Job,
    ops: &Ops,
    psizes: &[Vec<u32>],
    filled: &Filled,
    engine: &Replayed,
    verbose: bool,
) -> Result<Run> {
    let (requests, model) = modelled(job, ops, psizes, filled, engine, verbose)?;
    if verbose {
        describe(filled, engine, &model);
    }
    let did = engine.stats.since(&engine.start);
    let percent = |count: u64| 100.0 * count as f64 / requests as f64;
    Ok(Run {
        engine: 100.0 - percent(did.demand_data_misses),
        model: 100.0 * (1.0 - model.counts()[0].miss_ratio()),
        seconds: engine.seconds,
        engine_l2: percent(did.l2_hits),
        model_l2: percent(model.l2arc_hits()),
    })
}

fn of_engine(stats: &ArcStats, z: &ArcSizes) -> String {
    let mb = |bytes: u64| format!("{:.1}", bytes as f64 / 1048576.0);
    let two = |data: u64, metadata: u64| format!("{}+{}", mb(data), mb(metadata));
    let share = |x: u64| x as f64 / (1u64 << 32) as f64;
    format!(
        "used {} mru {} mfu {} ghosts {} {} anon {} meta {:.3} pd {:.3} pm {:.3} copies {}",
        mb(stats.size),
        two(z.mru_data, z.mru_metadata),
        two(z.mfu_data, z.mfu_metadata),
        two(z.mru_ghost_data, z.mru_ghost_metadata),
        two(z.mfu_ghost_data, z.mfu_ghost_metadata),
        two(z.anon_data, z.anon_metadata),
        share(z.meta),
        share(z.pd),
        share(z.pm),
        mb(z.overhead_size),
    )
}

fn describe(filled: &Filled, engine: &Replayed, model: &OpenZfs) {
    let s = engine.stats.since(&engine.start);
    println!("   {filled:?}, most {} MB", engine.largest >> 20);
    println!(
        "   engine: data {}/{}/{} metadata {}/{}/{}, {} {} B of headers, {} of dbufs",
        s.demand_data_hits,
        s.demand_data_iohits,
        s.demand_data_misses,
        s.demand_metadata_hits,
        s.demand_metadata_iohits,
        s.demand_metadata_misses,
        of_engine(&engine.stats, &engine.sizes),
        engine.sizes.hdr_size,
        engine.sizes.dbuf_size,
    );
    println!("   model:  {} metadata misses {}", model.state(), model.metadata_misses());
}

/// The model on the same accesses, with the times of the engine's replay.
fn modelled(
    job: &Job,
    ops: &Ops,
    psizes: &[Vec<u32>],
    filled: &Filled,
    engine: &Replayed,
    verbose: bool,
) -> Result<(u64, OpenZfs)> {
    let mut options = Options::new(job.arc_bytes, job.recordsize as u32);
    let [header, buffer, dbuf] = engine.structures;
    options.structures = Structures { header, buffer, dbuf };
    options.txg_bytes = DIRTY_BYTES / 5;
    if let Some(each) = filled.indirect_asize.checked_div(filled.indirect_count) {
        // Metadata is stored twice.
        options.indirect_bytes = (each / 2) as u32;
    }
    options.prefetch = job.settings["prefetch"] == "all";
    options.primarycache = match job.settings["primarycache"].as_str() {
        "metadata" => PrimaryCache::Metadata,
        "none" => PrimaryCache::None,
        _ => PrimaryCache::All,
    };
    options.l2arc_bytes = job.l2arc;
    let writes = ops.ops.iter().filter(|op| op.write);
    let (count, bytes) = writes.fold((0, 0), |(count, bytes), op| (count + 1, bytes + u64::from(op.len)));
    options.update_bytes = bytes.checked_div(count).unwrap_or(0) as u32;
    options.partial_reads = job.recordsize > ops::PAGE;
    let mut model = OpenZfs::new(options);
    for (file, bytes) in job.files.iter().enumerate() {
        model.set_file_records(file as u32, bytes / job.recordsize);
    }
    let mut intern = Intern::default();
    let times = ops::load_times(&job.times)?;
    for (n, (op, &t_ms)) in ops.ops.iter().zip(&times).enumerate() {
        if verbose && n % SAMPLE == 0 && n > 0 {
            let (stats, z) = &engine.samples[n / SAMPLE];
            let misses = stats.demand_data_misses - engine.start.demand_data_misses;
            println!("   at {n} ({t_ms} ms): engine misses {misses} {}", of_engine(stats, z));
            println!("            model  misses {} {}", model.counts()[0].misses, model.state());
        }
        let last = (op.offset + u64::from(op.len) - 1) / job.recordsize;
        for index in op.offset / job.recordsize..=last {
            let record = intern.number(u64::from(op.file) << 40 | index)?;
            let bytes = psizes[op.file as usize][index as usize];
            let kind = op.kind(index, job.recordsize);
            model.feed(&[Access { record, bytes, t_ms, kind }], intern.keys());
        }
    }
    Ok((model.counts()[0].requests, model))
}

/// The compressed size of each record, from the engine's codec on the same content.
fn psizes(files: &[u64], recordsize: u64, compression: &str) -> Result<Vec<Vec<u32>>> {
    let engine =
        Engine::start(&Config { arc_bytes: 64 << 20, ..Config::default() }).expect("starting the engine");
    let mut codec = Codec::new(engine, &Compression::parse(compression)?, recordsize as usize);
    let mut record = vec![0u8; recordsize as usize];
    let geometry = Geometry::plain(12);
    let mut each = |(file, bytes): (usize, &u64)| -> Result<Vec<u32>> {
        (0..bytes.div_ceil(recordsize))
            .map(|index| {
                if compression == "off" {
                    return Ok(recordsize as u32);
                }
                fill_record(file as u64, index, &mut record);
                Ok(codec.store(&record, &geometry)?.asize(&geometry) as u32)
            })
            .collect()
    };
    files.iter().enumerate().map(&mut each).collect()
}
