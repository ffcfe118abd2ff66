//! Common functions of the tests: structured content, and pools for comparison.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use poolwright_estimate::{Estimate, Input, Layout, Options, estimate};
use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Blocks, Config, Engine, Pool, Spec, Use, VdevGroup};
use rand::{Rng as _, RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Generates content of a kind: 0 noise, 1 zeros, 2 words, 3 rows of numbers, 4 base-16 text of noise, 5 one byte.
pub fn content(kind: u8, len: usize, rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut out = vec![0; len];
    match kind {
        0 => rng.fill_bytes(&mut out),
        2 => fill(&mut out, |_| {
            WORDS[(rng.random::<f64>().powi(2) * WORDS.len() as f64) as usize].as_bytes().to_vec()
        }),
        3 => fill(&mut out, |i| {
            let mut row = (i as u64).to_le_bytes().to_vec();
            row.extend_from_slice(&rng.random_range(0u32..100_000).to_le_bytes());
            row.extend_from_slice(&[0; 12]);
            row
        }),
        4 => out.iter_mut().for_each(|b| *b = b"0123456789abcdef"[rng.random_range(0..16usize)]),
        5 => out.fill(b'x'),
        _ => {}
    }
    out
}

const WORDS: &[&str] = &[
    "record ",
    "block ",
    "the ",
    "pool ",
    "of ",
    "vdev ",
    "a ",
    "sector ",
    "write ",
    "amplification ",
    "and ",
    "cache ",
    "in ",
    "transaction ",
    "group ",
    "to ",
    "mirror ",
    "\"name\":",
    "\"id\":",
    "{",
    "}",
    ",\n",
    "database ",
    "is ",
];

fn fill(out: &mut [u8], mut extent: impl FnMut(usize) -> Vec<u8>) {
    let (mut at, mut i) = (0, 0);
    while at < out.len() {
        let bytes = extent(i);
        let n = bytes.len().min(out.len() - at);
        out[at..at + n].copy_from_slice(&bytes[..n]);
        at += n;
        i += 1;
    }
}

pub fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// Generates content of stretches of all kinds, of up to `stretch` bytes each.
pub fn mixed(len: usize, stretch: usize, seed: u64) -> Vec<u8> {
    let mut rng = rng(seed);
    let mut out = Vec::with_capacity(len);
    while out.len() < len {
        let n = rng.random_range(1..=stretch).min(len - out.len());
        let kind = rng.random_range(0..6);
        out.extend(content(kind, n, &mut rng));
    }
    out
}

pub fn engine() -> Engine {
    Engine::start(&Config { arc_bytes: 128 << 20, dirty_bytes: 128 << 20, ..Config::default() }).unwrap()
}

/// Creates a pool on sparse files in `dir`, with a unique name because tests run concurrently in one process.
pub fn pool(dir: &Path, ashift: u32, layout: Layout) -> Pool {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("estimate{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let (kind, disks) = match layout {
        Layout::Plain => (poolwright_openzfs::Layout::Stripe, 1),
        Layout::Mirror => (poolwright_openzfs::Layout::Mirror, 2),
        Layout::Raidz { parity, disks } => (poolwright_openzfs::Layout::Raidz(parity as u8), disks),
    };
    let files = (0..disks).map(|i| (dir.join(format!("{name}-{i}")), 40 << 30)).collect();
    let groups = vec![VdevGroup { layout: kind, usage: Use::Data, files }];
    Pool::create(engine(), &Spec { name, ashift, groups }).unwrap()
}

/// Writes `source` to a new dataset, leaving out holes, and returns the space of its blocks.
pub fn store(pool: &Pool, dataset: &str, recordsize: u64, compression: &str, source: &Path) -> (Blocks, u64) {
    let settings: Settings =
        [("recordsize".into(), recordsize.to_string()), ("compression".into(), compression.into())].into();
    let ds = pool.create_dataset(dataset, &settings).unwrap();
    let file = ds.create_file("data").unwrap();
    let bytes = fs::read(source).unwrap();
    for (start, end) in extents(source, bytes.len() as u64) {
        for at in (start..end).step_by(1 << 20) {
            file.write_at(at, &bytes[at as usize..(at + (1 << 20)).min(end) as usize]).unwrap();
        }
    }
    file.truncate(bytes.len() as u64).unwrap();
    pool.sync().unwrap();
    (file.blocks().unwrap(), file.object())
}

/// Returns the ranges in which the host's file has data.
fn extents(path: &Path, len: u64) -> Vec<(u64, u64)> {
    let file = fs::File::open(path).unwrap();
    let (mut out, mut at) = (Vec::new(), 0);
    while let Ok(start) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at)) {
        let end = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(start)).unwrap().min(len);
        out.push((start, end));
        at = end;
    }
    out
}

/// Estimates one file in full.
pub fn full(
    path: &Path,
    recordsizes: &[u64],
    compressions: &[&str],
    ashifts: &[u32],
    layouts: &[Layout],
) -> Estimate {
    let options = Options {
        recordsizes: recordsizes.to_vec(),
        compressions: compressions.iter().map(|s| (*s).to_owned()).collect(),
        ashifts: ashifts.to_vec(),
        layouts: layouts.to_vec(),
        full: true,
        ..Options::default()
    };
    engine();
    estimate(&Input::paths(&[path.to_owned()]).unwrap(), &options, &mut |_| {}).unwrap()
}

/// Creates a file with this content.
pub fn file(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, bytes).unwrap();
    path
}
