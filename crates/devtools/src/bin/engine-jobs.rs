//! Runs a few of fio's jobs on one file of the engine, without a file system: the reference for the cost of a mount.
//!
//! `engine-jobs VDEV JOB SECONDS MIB` prints one line of JSON. JOB is sync-write, write, cold-read or read. If VDEV does not
//! exist, a pool is made in it and filled once.
//!
//! Records are 16K, with lz4. sync-write writes 16K at random offsets within MIB and syncs each write; read and cold-read read.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Config, Dataset, Engine, Node, Pool, Spec};

/// As in the program, so that the same code is measured.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const RECORD: u64 = 16 << 10;
const BIG: u64 = 1 << 20;
const VDEV_BYTES: u64 = 3 << 30;

/// Half text, half noise, as the jobs of fio beside which this is measured.
fn content(len: u64) -> Vec<u8> {
    let mut x = 1u64;
    let mut out = Vec::with_capacity(len as usize);
    while (out.len() as u64) < len {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        if (out.len() / 2048) % 2 == 0 { out.extend(x.to_le_bytes()) } else { out.extend(b"database") }
    }
    out
}

fn fill(file: &Node, bytes: u64) {
    let block = content(BIG);
    (0..bytes / BIG).for_each(|i| file.write_at(i * BIG, &block, false).expect("filling"));
}

/// Calls `one` with pseudo-random records until the time is over; how many calls, and seconds.
fn random(bytes: u64, limit: Duration, mut one: impl FnMut(u64)) -> (u64, f64) {
    let (mut x, mut n, start) = (7u64, 0, Instant::now());
    while start.elapsed() < limit {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        one((x >> 20) % (bytes / RECORD) * RECORD);
        n += 1;
    }
    (n, start.elapsed().as_secs_f64())
}

/// Writes most of a fresh pool's file once and frees it again, as in a pool that has been in use: the host's finding room
/// for a file's first bytes is not what is measured.
fn age(pool: &Pool) {
    let plain: Settings = [("compression".to_owned(), "off".to_owned())].into();
    let ds = pool.create_dataset("old", &plain).expect("a dataset");
    let file = ds.create_file("f").expect("a file").node().clone();
    fill(&file, VDEV_BYTES / 4 * 3);
    file.truncate(0).expect("truncating");
    drop((file, ds));
    pool.sync().expect("a txg");
}

fn open(engine: Engine, vdev: &PathBuf) -> (Pool, Dataset) {
    if vdev.exists() {
        let pool = Pool::import(engine, std::slice::from_ref(vdev), false).expect("importing");
        let ds = pool.open_dataset("d").expect("opening");
        return (pool, ds);
    }
    let mut spec = Spec::single("jobs", vdev, 12);
    spec.groups[0].files[0].1 = VDEV_BYTES;
    let pool = Pool::create(engine, &spec).expect("a fresh pool");
    age(&pool);
    let settings: Settings =
        [("recordsize", "16K"), ("compression", "lz4")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let ds = pool.create_dataset("d", &settings).expect("a dataset");
    (pool, ds)
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [vdev, job, seconds, mib] = args.as_slice() else {
        eprintln!("usage: engine-jobs VDEV sync-write|write|cold-read|read SECONDS MIB");
        std::process::exit(2);
    };
    let vdev = PathBuf::from(vdev);
    let limit = Duration::from_secs_f64(seconds.parse().expect("SECONDS is a number"));
    let bytes: u64 = mib.parse::<u64>().expect("MIB is a number") << 20;
    let engine = Engine::start(&Config { arc_bytes: (2 * bytes).max(1 << 30), ..Config::default() })
        .expect("starting the engine");
    let (mut pool, mut ds) = open(engine, &vdev);
    let _ = ds.root().expect("a root").unlink(c"f");
    let mut file = ds.create_file("f").expect("a file").node().clone();
    let mut buf = content(BIG);
    if job != "write" {
        fill(&file, bytes);
        pool.sync().expect("a txg");
    }
    let (ops, took) = match job.as_str() {
        "sync-write" => random(bytes, limit, |at| {
            file.write_at(at, &buf[..RECORD as usize], false).expect("writing");
            file.sync().expect("syncing");
        }),
        "write" => {
            let start = Instant::now();
            fill(&file, bytes);
            file.sync().expect("syncing");
            (bytes / BIG, start.elapsed().as_secs_f64())
        }
        "cold-read" => {
            drop((file, ds));
            pool.export().expect("exporting");
            (pool, ds) = open(engine, &vdev);
            file = ds.open_file("f").expect("opening").node().clone();
            let start = Instant::now();
            (0..bytes / BIG).for_each(|i| {
                file.read_at(i * BIG, &mut buf).expect("reading");
            });
            (bytes / BIG, start.elapsed().as_secs_f64())
        }
        "read" => random(bytes, limit, |at| {
            file.read_at(at, &mut buf[..RECORD as usize]).expect("reading");
        }),
        other => panic!("{other} is no job"),
    };
    println!("{{\"job\":\"{job}\",\"ops\":{ops},\"seconds\":{took:.3},\"ops_s\":{:.1}}}", ops as f64 / took);
    drop((file, ds));
    pool.export().expect("exporting");
}
