//! For benchmarks: mounts a pool's dataset `d` on a directory until it is unmounted, then prints the counters.
//!
//!     mount-serve VDEV DIR [through|pages|writeback] [threads] [device] [arc=MIB] [vdev=MIB] [recordsize=SIZE] [ashift=N]
//!
//! Creates the vdev file, sparse and of the size in `vdev=`, if it does not exist.

use std::path::PathBuf;

use poolwright_mount::{Caching, Mount, Options};
use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Config, Dataset, Engine, Pool, Spec};

/// As in the program, so that the same code is measured.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Opens the pool and its dataset, or creates both.
fn open(
    engine: Engine,
    vdev: PathBuf,
    vdev_mib: Option<u64>,
    recordsize: &str,
    ashift: u32,
) -> Result<(Pool, Dataset), Box<dyn std::error::Error>> {
    if vdev.exists() {
        let pool = Pool::import(engine, &[vdev], false)?;
        let dataset = pool.open_dataset("d")?;
        return Ok((pool, dataset));
    }
    let mut spec = Spec::single("measured", vdev, ashift);
    if let Some(mib) = vdev_mib {
        spec.groups[0].files[0].1 = mib << 20;
    }
    // The jobs read with O_DIRECT past the kernel's page cache, and from the ARC.
    let settings: Settings = [("recordsize", recordsize), ("compression", "lz4"), ("direct", "disabled")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let pool = Pool::create(engine, &spec)?;
    let dataset = pool.create_dataset("d", &settings)?;
    Ok((pool, dataset))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [vdev, dir, rest @ ..] = words.as_slice() else {
        let words =
            "[through|pages|writeback] [threads] [device] [arc=MIB] [vdev=MIB] [recordsize=SIZE] [ashift=N]";
        return Err(format!("usage: mount-serve VDEV DIR {words}").into());
    };
    let mut options = Options::default();
    let (mut arc_mib, mut recordsize, mut ashift) = (3072, "16K", 12);
    let mut vdev_mib = None;
    for word in rest {
        match word.as_str() {
            "through" => options.caching = Caching::Through,
            "pages" => options.caching = Caching::Pages,
            "writeback" => options.caching = Caching::Writeback,
            "device" => options.uring = false,
            word => match word.split_once('=') {
                Some(("arc", mib)) => arc_mib = mib.parse()?,
                Some(("vdev", mib)) => vdev_mib = Some(mib.parse::<u64>()?),
                Some(("recordsize", size)) => recordsize = size,
                Some(("ashift", bits)) => ashift = bits.parse()?,
                _ => options.threads = word.parse()?,
            },
        }
    }
    let engine = Engine::start(&Config {
        arc_bytes: arc_mib << 20,
        dirty_bytes: 512 << 20,
        txg_timeout_s: 5,
        ..Config::default()
    })
    .expect("starting the engine");
    let vdev = PathBuf::from(vdev);
    let (pool, dataset) = open(engine, vdev, vdev_mib, recordsize, ashift)?;
    let mount = Mount::start(&pool, &dataset, dir.as_ref(), &options)?;
    let transport = if mount.uses_uring() { "io_uring" } else { "/dev/fuse" };
    println!("mounted on {} through {transport}, protocol 7.{}", mount.path().display(), mount.protocol());
    mount.wait()?;
    let counters = mount.counters();
    for (op, n) in counters.by_kind() {
        println!("{:>12} {}", n, op.name());
    }
    println!("{} bytes read, {} written", counters.read_bytes, counters.written_bytes);
    drop((mount, dataset));
    pool.export()?;
    Ok(())
}
