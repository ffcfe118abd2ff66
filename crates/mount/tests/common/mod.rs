//! A pool on a file, mounted, for as long as a test runs.

#![allow(dead_code)] // not every test file uses all of it

pub mod map;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use poolwright_mount::{Error, Mount, Options};
use poolwright_openzfs::Error::Locked;
use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Config, Dataset, Engine, Layout, Pool, Spec, Use, VdevGroup};

pub struct Fixture {
    // In this order they must go: the mount, the dataset, the pool, the directory.
    mount: Option<Mount>,
    dataset: Option<Dataset>,
    pool: Option<Pool>,
    settings: Options,
    dir: tempfile::TempDir,
}

pub fn engine() -> Engine {
    Engine::start(&Config {
        arc_bytes: 128 << 20,
        dirty_bytes: 64 << 20,
        txg_timeout_s: 5,
        ..Config::default()
    })
    .unwrap()
}

/// Whether this machine can mount at all. Says why not.
fn refused(test: &str, why: &Error) -> bool {
    let refused = matches!(why, Error::NoDevice(_) | Error::Refused { .. });
    if refused {
        eprintln!("SKIPPED {test}: {why}");
    }
    refused
}

/// Whether this is root, as tests that change owners need it. Says so if not.
pub fn root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("SKIPPED {test}: needs root, to change owners");
    }
    root
}

impl Fixture {
    /// A fresh pool `t-TEST`, its dataset `d` mounted; `None` where mounting is not possible.
    pub fn new(test: &str, options: Options) -> Option<Fixture> {
        Fixture::sized(test, options, 16 << 30, &Settings::default())
    }

    /// The same with a pool of so many bytes and a dataset with these properties. Where the kernel has io_uring switched
    /// on, all goes through it; POOLWRIGHT_MOUNT_DEVICE=1 uses `/dev/fuse` nevertheless.
    pub fn sized(test: &str, mut options: Options, bytes: u64, settings: &Settings) -> Option<Fixture> {
        options.uring &= std::env::var_os("POOLWRIGHT_MOUNT_DEVICE").is_none_or(|v| v != "1");
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("mnt")).unwrap();
        let files = vec![(dir.path().join("vdev"), bytes)];
        let spec = Spec {
            name: format!("t-{test}"),
            ashift: 12,
            groups: vec![VdevGroup { layout: Layout::Stripe, usage: Use::Data, files }],
        };
        let pool = Pool::create(engine(), &spec).unwrap();
        drop(pool.create_dataset("d", settings).unwrap());
        let mut new = Fixture { mount: None, dataset: None, pool: Some(pool), settings: options, dir };
        match new.start() {
            Ok(()) => Some(new),
            Err(why) if refused(test, &why) => None,
            Err(why) => panic!("{why}"),
        }
    }

    fn start(&mut self) -> Result<(), Error> {
        let pool = self.pool.as_ref().unwrap();
        let dataset = pool.open_dataset("d").unwrap();
        self.mount = Some(Mount::start(pool, &dataset, &self.dir.path().join("mnt"), &self.settings)?);
        self.dataset = Some(dataset);
        Ok(())
    }

    /// For the next time it is mounted.
    pub fn settings(&mut self, options: Options) {
        self.settings = options;
    }

    pub fn root(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub fn vdev(&self) -> PathBuf {
        self.dir.path().join("vdev")
    }

    pub fn mount(&self) -> &Mount {
        self.mount.as_ref().unwrap()
    }

    pub fn pool(&self) -> &Pool {
        self.pool.as_ref().unwrap()
    }

    pub fn dataset(&self) -> &Dataset {
        self.dataset.as_ref().unwrap()
    }

    /// Lets go of the dataset, so that only the mount has it: it can be rolled back.
    pub fn let_go(&mut self) {
        self.dataset = None;
    }

    /// Unmounts, exports, imports, mounts: what is there then has been on disk.
    pub fn again(&mut self) {
        self.end();
        // What another test starts as a process has a copy of every descriptor until it is another program, and with it of
        // the lock of the pool's file.
        let began = Instant::now();
        let imported = loop {
            match Pool::import(engine(), &[self.vdev()], false) {
                Err(Locked(_)) if began.elapsed() < Duration::from_secs(60) => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                imported => break imported,
            }
        };
        self.pool = Some(imported.unwrap());
        self.start().unwrap();
    }

    pub fn end(&mut self) {
        self.mount.take().unwrap().unmount().unwrap();
        self.dataset = None;
        self.pool.take().unwrap().export().unwrap();
    }
}

/// Bytes that differ from place to place.
pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(len);
    out
}

/// The errno of a failed call.
pub fn errno<T: std::fmt::Debug>(result: std::io::Result<T>) -> i32 {
    result.unwrap_err().raw_os_error().unwrap()
}

pub fn names(dir: &Path) -> Vec<String> {
    let mut all: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    all.sort();
    all
}
