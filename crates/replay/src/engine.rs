//! The engine as a target: a pool on a scratch file, with one dataset per role, and each volume of the trace.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::RwLock;
use std::sync::atomic::{AtomicU32, Ordering};

use poolwright_openzfs::clock::{Costs, Turn, VirtualClock};
use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Config, Dataset, DatasetStats, Device, Engine, Pool, Spec, Volume, ZilStats};
use poolwright_trace::File;
use poolwright_trace::layout::Role;
use rustix::io::fcntl_dupfd_cloexec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::cpu_seconds;
use crate::error::host;
use crate::settings::RoleSettings;
use crate::{Counters, Result, Target};

/// The pool's device and limits.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct EngineOptions {
    /// The directory of the pool's file. The file is removed even if the process is killed.
    pub scratch: PathBuf,
    /// Sector size as a power of two.
    pub ashift: u32,
    /// ARC limit in bytes.
    pub arc_bytes: u64,
    /// `zfs_dirty_data_max` in bytes.
    pub dirty_bytes: u64,
    /// The device to emulate.
    pub device: Device,
    /// `zfs_txg_timeout` in seconds; of recorded time unless the replay is paced.
    pub txg_timeout_s: u32,
    /// Module parameters of OpenZFS that differ from their defaults, from [`Engine::tunables`].
    #[serde(default)]
    pub tunables: BTreeMap<String, u64>,
    /// The virtual clock. Without it, the trial takes as long as its work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<VirtualClock>,
}

/// A file of the trace in the pool.
#[derive(Clone)]
enum Stored {
    File(poolwright_openzfs::File),
    Volume { volume: Volume, size: u64 },
}

/// A scratch pool that contains the trace's files.
pub struct EngineTarget {
    engine: Engine,
    pool: Pool,
    datasets: BTreeMap<Role, Dataset>,
    files: Vec<RwLock<Option<Stored>>>,
    creating: Turn,
    roles: Vec<Role>,
}

impl std::fmt::Debug for EngineTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineTarget").field("pool", &self.pool.name()).finish_non_exhaustive()
    }
}

impl EngineTarget {
    /// Starts the engine and creates the pool for the files of a trace. `settings` contains the properties of each role's dataset. With
    /// `paced`, the engine's timer starts transaction groups; otherwise [`Target::start_txg`] does, by recorded time.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine cannot be started, or the pool or a dataset cannot be created.
    pub fn create(
        options: &EngineOptions,
        files: &[File],
        settings: &RoleSettings,
        paced: bool,
    ) -> Result<EngineTarget> {
        let engine = Engine::start(&Config {
            arc_bytes: options.arc_bytes,
            dirty_bytes: options.dirty_bytes,
            txg_timeout_s: if paced { options.txg_timeout_s } else { 3600 },
            clock: options.clock.clone(),
            ..Config::default()
        })?;
        for (name, value) in &options.tunables {
            engine.set_tunable(name, *value)?;
        }
        let pool = scratch_pool(engine, &options.scratch, options.ashift)?;
        let mut datasets = BTreeMap::new();
        let mut stored = Vec::new();
        let none = Settings::new();
        for (number, file) in files.iter().enumerate() {
            let role = file.known_role();
            let settings = settings.get(&role).unwrap_or(&none);
            let mut volume = None;
            if role == Role::Volume {
                let made = pool.create_volume(&format!("volume{number}"), file.size, settings)?;
                volume = Some(Stored::Volume { volume: made, size: file.size });
            } else if let Entry::Vacant(dataset) = datasets.entry(role) {
                dataset.insert(pool.create_dataset(role.name(), settings)?);
            }
            stored.push(RwLock::new(volume));
        }
        let roles = files.iter().map(File::known_role).collect();
        Ok(EngineTarget { engine, pool, datasets, files: stored, creating: Turn::default(), roles })
    }

    /// Switches the emulated device and the measurement of codecs on. The pool is filled without them.
    pub fn set_device(&self, device: &Device) {
        Costs::measure_codecs();
        self.engine.set_device(device);
    }

    /// Returns the bytes referenced by each role's dataset.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine cannot read a dataset's statistics.
    pub fn allocated_by_role(&self) -> Result<BTreeMap<Role, u64>> {
        let mut allocated = BTreeMap::new();
        for (role, stats) in self.stats()? {
            *allocated.entry(role).or_default() += stats.referenced;
        }
        Ok(allocated)
    }

    /// The volumes among the files.
    fn volumes(&self) -> impl Iterator<Item = Volume> {
        self.files.iter().filter_map(|slot| match slot.read().expect("lock is not poisoned").as_ref()? {
            Stored::Volume { volume, .. } => Some(volume.clone()),
            Stored::File(_) => None,
        })
    }

    /// The figures of all datasets and volumes, by role.
    fn stats(&self) -> Result<Vec<(Role, DatasetStats)>> {
        let datasets = self.datasets.iter().map(|(role, dataset)| Ok((*role, dataset.stats()?)));
        let volumes = self.volumes().map(|volume| Ok((Role::Volume, volume.stats()?)));
        datasets.chain(volumes).collect()
    }

    fn stored(&self, file: u32) -> Result<Stored> {
        let slot = &self.files[file as usize];
        let open = || slot.read().expect("lock is not poisoned").clone();
        if let Some(open) = open() {
            return Ok(open);
        }
        let _creating = self.creating.take();
        if let Some(open) = open() {
            return Ok(open);
        }
        let created = Stored::File(self.datasets[&self.roles[file as usize]].create_file(&name(file))?);
        *slot.write().expect("lock is not poisoned") = Some(created.clone());
        Ok(created)
    }
}

/// Returns the file as the recorded program had opened it. Parts of a recorded request may be less aligned than the request,
/// and OpenZFS 2.3 would refuse them.
fn opened(file: poolwright_openzfs::File, direct: bool, offset: u64, buf: &[u8]) -> poolwright_openzfs::File {
    if direct && is_page_aligned(offset, buf) { file.into_direct() } else { file }
}

/// Whether direct I/O can serve a request. The alignment of the memory is the engine's matter.
fn is_page_aligned(offset: u64, buf: &[u8]) -> bool {
    const PAGE: u64 = 4096;
    offset.is_multiple_of(PAGE) && (buf.len() as u64).is_multiple_of(PAGE)
}

fn name(file: u32) -> String {
    format!("file{file}")
}

/// The descriptor of the directory with the pool's file, or the next free one.
const DIRECTORY: i32 = 200;

/// Creates a pool whose file is unlinked at once, so that nothing is left on the host however the process ends. Its name and the path of
/// its file are the same in each trial: they are part of the pool's metadata, whose compressed size would otherwise move every later allocation.
fn scratch_pool(engine: Engine, scratch: &Path, ashift: u32) -> Result<Pool> {
    static POOLS: AtomicU32 = AtomicU32::new(0);
    let number = POOLS.fetch_add(1, Ordering::Relaxed);
    let dir = scratch.join(format!("poolwright-trial-{}-{number}", std::process::id()));
    poolwright_base::private::make_dir(&dir).map_err(host("create the scratch directory", &dir))?;
    let opened = std::fs::File::open(&dir).and_then(|dir| Ok(fcntl_dupfd_cloexec(dir, DIRECTORY)?));
    let opened = opened.map_err(host("open the scratch directory", &dir))?;
    let vdev = PathBuf::from(format!("/proc/self/fd/{}/vdev", opened.as_raw_fd()));
    let pool = Pool::create(engine, &Spec::single(&format!("trial-{number}"), &vdev, ashift));
    let _ = std::fs::remove_file(dir.join("vdev"));
    let _ = std::fs::remove_dir(&dir);
    Ok(pool?)
}

impl Target for EngineTarget {
    fn create(&self, file: u32) -> Result<()> {
        self.stored(file).map(drop)
    }

    fn read(&self, file: u32, offset: u64, buf: &mut [u8], direct: bool) -> Result<usize> {
        match self.stored(file)? {
            Stored::File(file) => Ok(opened(file, direct, offset, buf).read_at(offset, buf)?),
            Stored::Volume { volume, size } => {
                let n = (buf.len() as u64).min(size.saturating_sub(offset)) as usize;
                volume.read_at(offset, &mut buf[..n])?;
                Ok(n)
            }
        }
    }

    fn write(&self, file: u32, offset: u64, buf: &[u8], sync: bool, direct: bool) -> Result<()> {
        match self.stored(file)? {
            Stored::File(file) if sync => opened(file, direct, offset, buf).write_sync_at(offset, buf)?,
            Stored::File(file) => opened(file, direct, offset, buf).write_at(offset, buf)?,
            Stored::Volume { volume, .. } => volume.write_at(offset, buf, sync)?,
        }
        Ok(())
    }

    fn sync(&self, file: u32) -> Result<()> {
        match self.stored(file)? {
            Stored::File(file) => file.sync()?,
            Stored::Volume { volume, .. } => volume.flush()?,
        }
        Ok(())
    }

    fn truncate(&self, file: u32, size: u64) -> Result<()> {
        match self.stored(file)? {
            Stored::File(file) => Ok(file.truncate(size)?),
            Stored::Volume { .. } => Ok(()), // has its length from its creation
        }
    }

    fn punch(&self, file: u32, offset: u64, len: u64) -> Result<()> {
        match self.stored(file)? {
            Stored::File(file) => file.punch(offset, len)?,
            Stored::Volume { volume, .. } => volume.discard(offset, len)?,
        }
        Ok(())
    }

    fn unlink(&self, file: u32) -> Result<()> {
        if self.roles[file as usize] == Role::Volume {
            return Ok(()); // no operation of a device removes it
        }
        let open = self.files[file as usize].write().expect("lock is not poisoned").take();
        if open.is_some() {
            self.datasets[&self.roles[file as usize]].remove_file(&name(file))?;
        }
        Ok(())
    }

    fn start_txg(&self) -> Result<()> {
        Ok(self.pool.start_txg()?)
    }

    fn settle(&self) -> Result<()> {
        Ok(self.pool.sync()?)
    }

    fn counters(&self) -> Result<Counters> {
        let logs = self.datasets.values().map(Dataset::zil_stats);
        let logs = logs.chain(self.volumes().map(|volume| volume.zil_stats()));
        let zil = logs.fold(ZilStats::default(), |sum, one| sum.plus(&one));
        Ok(Counters {
            vdev: self.engine.vdev_stats(),
            arc: self.engine.arc_stats(),
            zil,
            cpu_seconds: cpu_seconds(),
        })
    }

    fn allocated_bytes(&self) -> Result<u64> {
        Ok(self.allocated_by_role()?.values().sum())
    }

    fn logical_bytes(&self) -> Result<u64> {
        Ok(self.stats()?.iter().map(|(_, stats)| stats.logicalreferenced).sum())
    }
}

impl Drop for EngineTarget {
    fn drop(&mut self) {
        self.engine.set_device(&Device::none());
        self.files.clear();
    }
}
