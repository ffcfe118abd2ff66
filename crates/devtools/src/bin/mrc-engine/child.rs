//! The jobs of child processes, because there is one engine per process: filling a pool, and replaying on it.

use std::fs::File as HostFile;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{ArcSizes, ArcStats, Config, Engine, File, Layout, Pool, Spec, Use, VdevGroup};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::ops::{self, Op, fill_record};

/// The argument that makes the program a child, and the path of its job; the result is written beside it.
const TASK: &str = "POOLWRIGHT_MRC_TASK";
const JOB: &str = "POOLWRIGHT_MRC_JOB";

/// Runs a job in a child process: this program again, as [`serve`].
pub fn start<T: DeserializeOwned>(task: &str, dir: &Path, job: &Job) -> Result<T> {
    let (path, result) = (dir.join("job"), dir.join("result"));
    std::fs::write(&path, serde_json::to_vec(job)?)?;
    let _ = std::fs::remove_file(&result);
    let mut child = Command::new(std::env::current_exe()?);
    // In a test these arguments select the test of this name; otherwise they have no meaning.
    child.args(["openzfs::serve", "--exact", "--ignored", "--nocapture"]);
    let out = child.env(TASK, task).env(JOB, &path).output()?;
    if !out.status.success() || !result.exists() {
        bail!("{task} of {job:?} failed: {}", String::from_utf8_lossy(&out.stderr));
    }
    Ok(serde_json::from_slice(&std::fs::read(result)?)?)
}

/// In a child, runs the job. Returns whether the process was a child.
pub fn serve() -> Result<bool> {
    let (Ok(task), Some(path)) = (std::env::var(TASK), std::env::var_os(JOB)) else { return Ok(false) };
    let job: Job = serde_json::from_slice(&std::fs::read(&path)?)?;
    let result = match task.as_str() {
        "fill" => serde_json::to_vec(&fill(&job)?)?,
        _ => serde_json::to_vec(&replay(&job)?)?,
    };
    std::fs::write(Path::new(&path).with_file_name("result"), result)?;
    Ok(true)
}

/// `zfs_dirty_data_max` of the replays.
pub const DIRTY_BYTES: u64 = 256 << 20;
/// Operations between two samples of the ARC.
pub const SAMPLE: usize = 5000;

/// A job for a child process, in a file whose name is an argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub pool: PathBuf,
    pub ops: PathBuf,
    pub settings: Settings,
    pub recordsize: u64,
    pub arc_bytes: u64,
    /// Lengths of the files.
    pub files: Vec<u64>,
    /// The file for the times of the operations: a `u32` of milliseconds for each.
    pub times: PathBuf,
    /// Bytes of a cache vdev, `cache` beside the pool; 0 for none.
    pub l2arc: u64,
    /// Maximum operations per second; 0 for no limit.
    pub pace: u32,
}

/// Bytes of the pool's files after filling.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Filled {
    pub blocks: u64,
    pub psize: u64,
    pub indirect_count: u64,
    pub indirect_asize: u64,
}

/// The counts of the engine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Replayed {
    pub start: ArcStats,
    pub start_sizes: ArcSizes,
    pub stats: ArcStats,
    pub sizes: ArcSizes,
    /// Bytes of a header, a handle and a dbuf.
    pub structures: [u32; 3],
    pub largest: u64,
    /// Samples after every [`SAMPLE`] operations.
    pub samples: Vec<(ArcStats, ArcSizes)>,
    pub vdev_read_ops: u64,
    pub seconds: f64,
}

fn engine(job: &Job) -> Engine {
    Engine::start(&Config { arc_bytes: job.arc_bytes, dirty_bytes: DIRTY_BYTES, ..Config::default() })
        .expect("starting the engine")
}

fn devices(job: &Job) -> Vec<PathBuf> {
    let cache = (job.l2arc > 0).then(|| job.pool.with_file_name("cache"));
    std::iter::once(job.pool.clone()).chain(cache).collect()
}

/// Bytes of the pool for this many bytes of files. Rewritten records get new locations, and a file in memory does not
/// shrink: in a pool without a limit a few replays with writes and records of 128K took 22 GB.
pub fn pool_bytes(files: u64) -> u64 {
    2 * files + (1 << 30)
}

/// Opens the pool, and adds the cache vdev if requested. A cache vdev below 1G is empty after an import.
fn spec(job: &Job) -> Spec {
    let mut spec = Spec::single("mrc", &job.pool, 12);
    spec.groups[0].files[0].1 = pool_bytes(job.files.iter().sum());
    if job.l2arc > 0 {
        let files = vec![(job.pool.with_file_name("cache"), job.l2arc)];
        spec.groups.push(VdevGroup { layout: Layout::Stripe, usage: Use::Cache, files });
    }
    spec
}

fn fill(job: &Job) -> Result<Filled> {
    let engine = engine(job);
    let pool = Pool::create(engine, &spec(job))?;
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

fn replay(job: &Job) -> Result<Replayed> {
    let engine = engine(job);
    let pool = Pool::import(engine, &devices(job), false)?;
    let dataset = pool.open_dataset("d")?;
    for (name, value) in &job.settings {
        if name != "recordsize" {
            dataset.set(name, value)?;
        }
    }
    let files: Vec<File> =
        (0..job.files.len()).map(|n| dataset.open_file(&format!("f{n}"))).collect::<Result<_, _>>()?;
    let ops = ops::load(&job.ops)?;
    let mut times = BufWriter::new(create(&job.times)?);
    // Sync right before the clock starts, because the next transaction group is due a fixed time after the last one
    // began.
    pool.sync()?;
    let (start, start_sizes) = (engine.arc_stats(), engine.arc_sizes());
    let reads = engine.vdev_stats().read_ops;
    let mut buffer = vec![0u8; 1 << 20];
    let (mut largest, mut samples) = (0, Vec::new());
    // Streams of sequential readers are distinguished by whole seconds of the clock, so start at the beginning of one.
    let phase = SystemTime::now().duration_since(UNIX_EPOCH)?.subsec_micros();
    let clock = Instant::now();
    for (n, op) in ops.iter().enumerate() {
        wait_for_turn(n, job.pace, clock);
        let now_us = u128::from(phase) + clock.elapsed().as_micros();
        times.write_all(&((now_us / 1000) as u32).to_le_bytes())?;
        run(op, job.recordsize, &files[op.file as usize], &mut buffer)?;
        if n % SAMPLE == 0 {
            samples.push((engine.arc_stats(), engine.arc_sizes()));
        }
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
    Ok(Replayed {
        start,
        start_sizes,
        stats,
        sizes,
        structures: engine.arc_structures(),
        largest,
        samples,
        vdev_read_ops,
        seconds,
    })
}

/// Sleeps until operation `n` is due. Checks only from time to time, because a sleep for each operation would take too
/// long.
fn wait_for_turn(n: usize, pace: u32, clock: Instant) {
    if pace > 0 && n.is_multiple_of(256) {
        let due = Duration::from_secs_f64(n as f64 / f64::from(pace));
        std::thread::sleep(due.saturating_sub(clock.elapsed()));
    }
}

fn run(op: &Op, recordsize: u64, file: &File, buffer: &mut [u8]) -> Result<()> {
    let len = (op.len as usize).min(buffer.len());
    if op.write {
        op.content(recordsize, &mut buffer[..len]);
        file.write_at(op.offset, &buffer[..len])?;
    } else {
        file.read_at(op.offset, &mut buffer[..len])?;
    }
    Ok(())
}

fn create(path: &Path) -> Result<HostFile> {
    HostFile::create(path).with_context(|| format!("creating {}", path.display()))
}
