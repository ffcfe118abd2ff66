//! Makes a pool with a volume through the engine, writes to it at random, and ends itself with SIGKILL instead of exporting the pool, for the
//! tests against a kernel's OpenZFS (`make test-kernel`).
//!
//!     engine-volume VDEV IMAGE SEED PROPERTY=VALUE…
//!
//! IMAGE gets the data that the volume has after the last flush, which is the last operation. Most of it is only in the intent log. The pool has
//! the name of the file VDEV.

use std::path::{Path, PathBuf};

use poolwright_openzfs::property::{self, Settings};
use poolwright_openzfs::{Config, Engine, Pool, Spec, VdevGroup, Volume};
use rustix::process::{Signal, getpid, kill_process};

/// As in the program, so that the same code is measured.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const VDEV_BYTES: u64 = 4 << 30;
const SIZE: u64 = 64 << 20;
const SECTOR: u64 = 512;
const OPERATIONS: usize = 400;
/// Operations in a transaction group that ends; the others are only in the log.
const SYNCED: usize = 100;

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % most
    }
}

/// Does one operation on the volume and on its image in memory. A discard frees only whole blocks of `block` bytes.
fn operate(
    volume: &Volume,
    image: &mut [u8],
    block: u64,
    random: &mut Random,
) -> poolwright_openzfs::Result<()> {
    let len = [SECTOR, 4096, block, 3 * block, 1 << 20][random.below(5) as usize];
    let offset = random.below((SIZE - len) / SECTOR) * SECTOR;
    match random.below(10) {
        0 => volume.flush(),
        1 => {
            let (start, end) = (offset.next_multiple_of(block), (offset + len) / block * block);
            if start < end {
                image[start as usize..end as usize].fill(0);
            }
            volume.discard(offset, len)
        }
        kind => {
            let mark = random.below(u64::from(u8::MAX)) as u8;
            let bytes: Vec<u8> = (0..len).map(|i| mark ^ (i / 48) as u8).collect();
            image[offset as usize..(offset + len) as usize].copy_from_slice(&bytes);
            volume.write_at(offset, &bytes, kind < 4)
        }
    }
}

fn run(
    vdev: &Path,
    image_file: &Path,
    seed: u64,
    settings: &Settings,
) -> Result<(), Box<dyn std::error::Error>> {
    let name = vdev.file_name().and_then(|name| name.to_str()).ok_or("the path of the vdev has no name")?;
    // Only the explicit sync ends a transaction group.
    let engine = Engine::start(&Config { txg_timeout_s: 3600, ..Config::default() })?;
    let mut spec = Spec::single(name, vdev, 12);
    spec.groups = vec![VdevGroup { files: vec![(vdev.to_owned(), VDEV_BYTES)], ..spec.groups.remove(0) }];
    let pool = Pool::create(engine, &spec)?;
    let volume = pool.create_volume("v", SIZE, settings)?;
    let block = settings.get("volblocksize").map_or(Ok(16 << 10), |value| property::parse_size(value))?;
    let (mut image, mut random) = (vec![0; SIZE as usize], Random(seed));
    for n in 0..OPERATIONS {
        operate(&volume, &mut image, block, &mut random)?;
        if n == SYNCED {
            pool.sync()?;
        }
    }
    std::fs::write(image_file, &image)?;
    volume.flush()?;
    kill_process(getpid(), Signal::KILL)?;
    Ok(())
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().unwrap_or_else(|| usage());
    let (vdev, image) = (PathBuf::from(next()), PathBuf::from(next()));
    let seed = next().parse().unwrap_or_else(|_| usage());
    let setting = |text: String| property::parse_assignment(&text).unwrap_or_else(|_| usage());
    let settings = arguments.map(setting).collect();
    if let Err(why) = run(&vdev, &image, seed, &settings) {
        eprintln!("engine-volume: {why}");
        std::process::exit(1);
    }
}

fn usage() -> ! {
    eprintln!("usage: engine-volume VDEV IMAGE SEED PROPERTY=VALUE…");
    std::process::exit(2)
}
