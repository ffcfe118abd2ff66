//! The comparison: a pool for each recordsize and compression, a replay for each ARC size, and the model on the same.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use poolwright_mrc::openzfs::{OpenZfs, Options, PrimaryCache, Structures};
use poolwright_mrc::{Access, Intern, Model};
use poolwright_openzfs::codec::{Codec, Compression, Geometry};
use poolwright_openzfs::{ArcSizes, ArcStats, Config, Engine};
use serde::de::DeserializeOwned;

use crate::child::{DIRTY_BYTES, Filled, Job, Replayed, SAMPLE};
use crate::ops::{self, Ops, fill_record};

/// Most that the model may be off, in percentage points of the hit ratio.
const BAR: f64 = 1.0;

struct Plan {
    traces: Vec<String>,
    recordsizes: Vec<u64>,
    compressions: Vec<String>,
    sizes: Vec<u64>,
    requests: usize,
    prefetch: String,
    primarycache: String,
    verbose: bool,
}

pub fn run(args: &[String]) -> Result<()> {
    let plan = parse(args)?;
    let scratch = tempfile::Builder::new().prefix("poolwright-mrc-").tempdir_in(scratch_dir())?;
    let mut worst = 0f64;
    for name in &plan.traces {
        let ops = trace(name, plan.requests)?;
        ops::save(&scratch.path().join("ops"), &ops.ops)?;
        for &recordsize in &plan.recordsizes {
            for compression in &plan.compressions {
                worst = worst.max(rows(&plan, scratch.path(), name, &ops, recordsize, compression)?);
            }
        }
    }
    println!("largest difference: {worst:.2} percentage points (bar {BAR})");
    if worst > BAR {
        std::process::exit(1);
    }
    Ok(())
}

fn scratch_dir() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() }
}

fn parse(args: &[String]) -> Result<Plan> {
    let mut plan = Plan {
        traces: Vec::new(),
        recordsizes: vec![8 << 10, 16 << 10, 128 << 10],
        compressions: vec!["off".into(), "lz4".into()],
        sizes: [64, 96, 128, 192, 256, 384].map(|mib: u64| mib << 20).to_vec(),
        requests: 200_000,
        prefetch: "none".into(),
        primarycache: "all".into(),
        verbose: false,
    };
    let mut args = args.iter();
    let numbers = |text: &str| text.split(',').map(|n| Ok(n.parse::<u64>()?)).collect::<Result<Vec<u64>>>();
    while let Some(arg) = args.next() {
        let mut value = || args.next().with_context(|| format!("{arg} wants a value"));
        match arg.as_str() {
            "--recordsize" => plan.recordsizes = numbers(value()?)?.iter().map(|kib| kib << 10).collect(),
            "--compression" => plan.compressions = value()?.split(',').map(str::to_owned).collect(),
            "--sizes" => plan.sizes = numbers(value()?)?.iter().map(|mib| mib << 20).collect(),
            "--requests" => plan.requests = value()?.parse()?,
            "--prefetch" => plan.prefetch = value()?.clone(),
            "--primarycache" => plan.primarycache = value()?.clone(),
            "--verbose" => plan.verbose = true,
            name if !name.starts_with('-') => plan.traces.push(name.to_owned()),
            _ => bail!("unknown option {arg}"),
        }
    }
    Ok(plan)
}

fn trace(name: &str, requests: usize) -> Result<Ops> {
    match name {
        "scans" => Ok(ops::scans(requests, 60_000, false)),
        "updates" => Ok(ops::scans(requests, 60_000, true)),
        path if path.contains(".lis") => ops::lis(Path::new(path), requests),
        _ => bail!("{name}: no such trace"),
    }
}

/// All sizes of one pool; the largest difference.
fn rows(plan: &Plan, dir: &Path, name: &str, ops: &Ops, recordsize: u64, compression: &str) -> Result<f64> {
    let settings = [
        ("recordsize", recordsize.to_string()),
        ("compression", compression.to_owned()),
        ("prefetch", plan.prefetch.clone()),
        ("primarycache", plan.primarycache.clone()),
    ];
    let mut job = Job {
        pool: dir.join("pool"),
        ops: dir.join("ops"),
        settings: settings.map(|(name, value)| (name.to_owned(), value)).into(),
        recordsize,
        arc_bytes: 256 << 20,
        files: ops.files.iter().map(|bytes| bytes.next_multiple_of(recordsize)).collect(),
        times: dir.join("times"),
    };
    let _ = std::fs::remove_file(&job.pool);
    let filled: Filled = in_child("fill", dir, &job)?;
    let psizes = psizes(&job.files, recordsize, compression)?;
    let short = name.rsplit('/').next().unwrap_or(name).trim_end_matches(".lis.zst");
    let mut worst = 0f64;
    for &arc_bytes in &plan.sizes {
        job.arc_bytes = arc_bytes;
        let engine: Replayed = in_child("replay", dir, &job)?;
        let (requests, model) = modelled(&job, ops, &psizes, &filled, &engine, plan.verbose)?;
        let misses = engine.stats.demand_data_misses - engine.start.demand_data_misses;
        let hits = 100.0 * (1.0 - misses as f64 / requests as f64);
        let modelled = 100.0 * (1.0 - model.counts()[0].miss_ratio());
        let off = modelled - hits;
        worst = worst.max(off.abs());
        println!(
            "{short:12} {:4}K {compression:4} {:4}M  engine {hits:6.2}  model {modelled:6.2}  off {off:+6.2}{}  ({:.0}s)",
            recordsize >> 10,
            arc_bytes >> 20,
            if off.abs() > BAR { " !" } else { "  " },
            engine.seconds,
        );
        if plan.verbose {
            describe(&filled, &engine, &model);
        }
    }
    Ok(worst)
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

/// The model on the same accesses, at the times at which the engine had them.
fn modelled(
    job: &Job,
    ops: &Ops,
    psizes: &[Vec<u32>],
    filled: &Filled,
    engine: &Replayed,
    verbose: bool,
) -> Result<(u64, OpenZfs)> {
    let mut options = Options::new(job.arc_bytes, job.recordsize as u32);
    options.structures = Structures::LIBRARY;
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

/// What each record takes compressed: the engine's own codec on the same content.
fn psizes(files: &[u64], recordsize: u64, compression: &str) -> Result<Vec<Vec<u32>>> {
    let engine = Engine::start(&Config { arc_bytes: 64 << 20, ..Config::default() });
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

fn in_child<T: DeserializeOwned>(what: &str, dir: &Path, job: &Job) -> Result<T> {
    let path = dir.join("job");
    std::fs::write(&path, serde_json::to_vec(job)?)?;
    let out = Command::new(std::env::current_exe()?).arg(what).arg(&path).output()?;
    if !out.status.success() {
        bail!("{what} of {job:?} failed: {}", String::from_utf8_lossy(&out.stderr));
    }
    Ok(serde_json::from_slice(&out.stdout)?)
}
