//! A mounted pool on a file, for the duration of a test.

#![allow(dead_code)] // not every test file uses all of it

pub mod map;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use poolwright_mount::{Error, Mount, Options};
use poolwright_openzfs::Error::Locked;
use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Config, Dataset, Engine, Layout, Pool, Spec, Use, VdevGroup};

pub struct Fixture {
    // The order of the fields is the order of dropping: mount, dataset, pool, directory.
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

/// Whether this machine cannot mount at all; prints the reason.
fn refused(test: &str, why: &Error) -> bool {
    let refused = matches!(why, Error::NoDevice(_) | Error::Refused { .. });
    if refused {
        eprintln!("SKIPPED {test}: {why}");
    }
    refused
}

/// Whether this process runs as root, which tests that change owners need; prints a note if not.
pub fn root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("SKIPPED {test}: needs root, to change owners");
    }
    root
}

impl Fixture {
    /// Creates a pool `t-TEST` and mounts its dataset `d`; `None` if this machine cannot mount.
    pub fn new(test: &str, options: Options) -> Option<Fixture> {
        Fixture::sized(test, options, 16 << 30, &Settings::default())
    }

    /// Like [`Fixture::new`], with a pool of this many bytes and a dataset with these properties. Uses io_uring if the kernel
    /// offers it, unless POOLWRIGHT_MOUNT_DEVICE=1 is set.
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

    /// Sets the options for the next mount.
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

    /// Drops the dataset's handle. Only the mount has one then, so the dataset can be rolled back.
    pub fn let_go(&mut self) {
        self.dataset = None;
    }

    /// Unmounts, exports, imports and mounts, so that everything found afterwards was on disk.
    pub fn again(&mut self) {
        self.end();
        // A child process of another test inherits every descriptor, and with it the lock of the pool's file, until it calls
        // `exec`.
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

/// Pseudo-random bytes.
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
