//! What runs in a process of its own, because the engine is one per process: filling a pool, and replaying on it.

use std::fs::File as HostFile;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{ArcSizes, ArcStats, Config, Engine, File, Pool, Spec};
use serde::{Deserialize, Serialize};

use crate::ops::{self, Op};

/// One job for a child: written to a file, its name given as argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub pool: PathBuf,
    pub ops: PathBuf,
    pub settings: Settings,
    pub recordsize: u64,
    pub arc_bytes: u64,
    /// Lengths of the files.
    pub files: Vec<u64>,
    /// Where the times of the operations go: a `u32` of milliseconds each.
    pub times: PathBuf,
}

/// What the pool's files take, after filling.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Filled {
    pub blocks: u64,
    pub psize: u64,
    pub indirect_count: u64,
    pub indirect_asize: u64,
}

/// What the engine did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Replayed {
    pub start: ArcStats,
    pub start_sizes: ArcSizes,
    pub stats: ArcStats,
    pub sizes: ArcSizes,
    pub largest: u64,
    pub vdev_read_ops: u64,
    pub seconds: f64,
}

/// The content of a record, by its place: random bytes in front, zeros behind, so that lz4 keeps a known part of it.
pub fn fill_record(file: u64, index: u64, record: &mut [u8]) {
    let mut x = (file << 40 ^ index).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let part = record.len() / 20 * [5, 8, 11, 15][(x >> 61) as usize % 4];
    for word in record[..part].chunks_mut(8) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        word.copy_from_slice(&x.to_le_bytes()[..word.len()]);
    }
    record[part..].fill(0);
}

fn engine(job: &Job) -> Engine {
    Engine::start(&Config { arc_bytes: job.arc_bytes, dirty_bytes: 256 << 20, ..Config::default() })
}

pub fn fill(job: &Job) -> Result<Filled> {
    let engine = engine(job);
    let pool = Pool::create(engine, &Spec::single("mrc", &job.pool, 12))?;
    let dataset = pool.create_dataset("d", &job.settings)?;
    let mut filled = Filled::default();
    let mut record = vec![0u8; job.recordsize as usize];
    for (number, &bytes) in job.files.iter().enumerate() {
        let file = dataset.create_file(&format!("f{number}"))?;
        for at in (0..bytes).step_by(record.len()) {
            fill_record(number as u64, at / job.recordsize, &mut record);
            file.write_at(at, &record[..record.len().min((bytes - at) as usize)])?;
        }
        pool.sync()?;
        let blocks = file.blocks()?;
        filled.blocks += blocks.count;
        filled.psize += blocks.psize;
        filled.indirect_count += blocks.indirect_count;
        filled.indirect_asize += blocks.indirect_asize;
    }
    drop(dataset);
    pool.export()?;
    Ok(filled)
}

pub fn replay(job: &Job) -> Result<Replayed> {
    let engine = engine(job);
    let pool = Pool::import(engine, std::slice::from_ref(&job.pool), false)?;
    let dataset = pool.open_dataset("d")?;
    for (name, value) in &job.settings {
        if name != "recordsize" {
            dataset.set(name, value)?;
        }
    }
    pool.sync()?;
    let files: Vec<File> =
        (0..job.files.len()).map(|n| dataset.open_file(&format!("f{n}"))).collect::<Result<_, _>>()?;
    let ops = ops::load(&job.ops)?;
    let mut times = BufWriter::new(create(&job.times)?);
    let (start, start_sizes) = (engine.arc_stats(), engine.arc_sizes());
    let reads = engine.vdev_stats().read_ops;
    let mut buffer = vec![0u8; 1 << 20];
    let mut largest = 0;
    let clock = Instant::now();
    for (n, op) in ops.iter().enumerate() {
        times.write_all(&(clock.elapsed().as_millis() as u32).to_le_bytes())?;
        run(op, &files[op.file as usize], &mut buffer)?;
        if n % 256 == 0 {
            largest = largest.max(engine.arc_stats().size);
        }
    }
    let seconds = clock.elapsed().as_secs_f64();
    let (stats, sizes) = (engine.arc_stats(), engine.arc_sizes());
    let vdev_read_ops = engine.vdev_stats().read_ops - reads;
    times.flush()?;
    drop(files);
    drop(dataset);
    pool.export()?;
    Ok(Replayed { start, start_sizes, stats, sizes, largest, vdev_read_ops, seconds })
}

fn run(op: &Op, file: &File, buffer: &mut [u8]) -> Result<()> {
    let len = (op.len as usize).min(buffer.len());
    if op.write {
        // A few bytes that differ, so that no write is taken for the same content.
        buffer[..8].copy_from_slice(&op.offset.to_le_bytes());
        file.write_at(op.offset, &buffer[..len])?;
    } else {
        file.read_at(op.offset, &mut buffer[..len])?;
    }
    Ok(())
}

fn create(path: &Path) -> Result<HostFile> {
    HostFile::create(path).with_context(|| format!("creating {}", path.display()))
}
