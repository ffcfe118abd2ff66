//! The engine without a file system in front of it, as the reference for what a mount adds: a few of fio's jobs on one
//! file. `jobs VDEV JOB SECONDS MIB`, where JOB is one of sync-write, write, cold-read, read; one line of JSON.
//!
//! 16K records with lz4; sync-write writes 16K at random places of MIB and syncs each; read and cold-read read.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Config, Engine, Node, Pool, Spec};

const RECORD: u64 = 16 << 10;
const BIG: u64 = 1 << 20;

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

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [vdev, job, seconds, mib] = args.as_slice() else {
        eprintln!("usage: jobs VDEV sync-write|write|cold-read|read SECONDS MIB");
        std::process::exit(2);
    };
    let vdev = PathBuf::from(vdev);
    let limit = Duration::from_secs_f64(seconds.parse().expect("SECONDS is a number"));
    let bytes: u64 = mib.parse::<u64>().expect("MIB is a number") << 20;
    let engine = Engine::start(&Config { arc_bytes: (2 * bytes).max(1 << 30), ..Config::default() });
    let settings: Settings =
        [("recordsize", "16K"), ("compression", "lz4")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let mut pool = Pool::create(engine, &Spec::single("jobs", vdev.clone(), 12)).expect("a fresh pool");
    let mut ds = pool.create_dataset("d", &settings).expect("a dataset");
    let mut file = ds.create_file("f").expect("a file").node().clone();
    let mut buf = content(BIG);
    let (ops, took) = match job.as_str() {
        "sync-write" => {
            fill(&file, bytes);
            pool.sync().expect("a txg");
            random(bytes, limit, |at| {
                file.write_at(at, &buf[..RECORD as usize], false).expect("writing");
                file.sync().expect("syncing");
            })
        }
        "write" => {
            let start = Instant::now();
            fill(&file, bytes);
            file.sync().expect("syncing");
            (bytes / BIG, start.elapsed().as_secs_f64())
        }
        "cold-read" => {
            fill(&file, bytes);
            drop((file, ds));
            pool.export().expect("exporting");
            pool = Pool::import(engine, &[vdev], false).expect("importing");
            ds = pool.open_dataset("d").expect("opening");
            file = ds.open_file("f").expect("opening").node().clone();
            let start = Instant::now();
            (0..bytes / BIG).for_each(|i| {
                file.read_at(i * BIG, &mut buf).expect("reading");
            });
            (bytes / BIG, start.elapsed().as_secs_f64())
        }
        "read" => {
            fill(&file, bytes);
            pool.sync().expect("a txg");
            random(bytes, limit, |at| {
                file.read_at(at, &mut buf[..RECORD as usize]).expect("reading");
            })
        }
        other => panic!("{other} is no job"),
    };
    println!("{{\"job\":\"{job}\",\"ops\":{ops},\"seconds\":{took:.3},\"ops_s\":{:.1}}}", ops as f64 / took);
    drop((file, ds));
    pool.export().expect("exporting");
}
