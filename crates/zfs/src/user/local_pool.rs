//! An open pool of the engine that executes requests: a single one for a command, or any number while it is mounted.

mod clones;
mod dispatch;
mod files;
mod mounts;
mod properties;
mod snapshots;
mod vdevs;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use poolwright_base::quoted;
use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Access, Dataset, Engine, Pool, ScanState};

use crate::user::{
    Counters, DatasetCounters, DatasetInfo, Fault, FaultKind, FileCounters, FileFault, Kind, MountCounters,
    Mounted, PoolInfo, Scrub, ScrubHow, Value, name,
};

pub use mounts::{Mounts, NoMounts};

type Answer<T> = Result<T, Fault>;

/// An open pool with its mounts.
pub struct LocalPool {
    pool: Pool,
    mounts: Arc<dyn Mounts>,
    since_unix_ns: u64,
    /// Serializes changes of the dataset tree, and prevents a dataset from being opened twice.
    tree: Mutex<()>,
    /// Serializes changes of the vdevs.
    vdevs: Mutex<()>,
    /// Whether a vdev may be in the process of being replaced; the engine detaches the old one at the end.
    replacing: AtomicBool,
    /// The changes of the pool's files detected so far.
    faults: Mutex<Vec<FileFault>>,
}

fn unix_ns(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

impl LocalPool {
    /// Wraps an open pool, which was opened at `since`.
    pub fn new(pool: Pool, since: SystemTime, mounts: Arc<dyn Mounts>) -> LocalPool {
        let local = LocalPool {
            pool,
            mounts,
            since_unix_ns: unix_ns(since),
            tree: Mutex::new(()),
            vdevs: Mutex::new(()),
            replacing: AtomicBool::new(true),
            faults: Mutex::default(),
        };
        local.note_detached();
        local.register_found();
        local
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The pool's files.
    pub fn files(&self) -> Vec<PathBuf> {
        self.pool.files()
    }

    /// Returns the pool, so that the caller can export it.
    pub fn into_pool(self) -> Pool {
        self.note_detached();
        self.pool
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ()> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names of all datasets and snapshots in the pool.
    fn names(&self) -> Answer<Vec<String>> {
        Ok(self.pool.list()?)
    }

    fn check_mine(&self, name: &str) -> Answer<()> {
        name::check_dataset(name)?;
        if name::pool_of(name) == self.pool.name() {
            return Ok(());
        }
        Err(Fault::invalid(format!("{name} is not in the pool {}", self.pool.name())))
    }

    fn must_exist(&self, name: &str) -> Answer<()> {
        if self.names()?.iter().any(|known| known == name) {
            return Ok(());
        }
        let what = if name.contains('@') { "snapshot" } else { "dataset" };
        let pool = self.pool.name().to_owned();
        Err(Fault::new(libc::ENOENT, format!("{name}: no such {what}")).of_kind(FaultKind::NotFound { pool }))
    }

    /// The dataset's handle: that of its mount, or a new one. The caller must hold the lock.
    fn open(&self, dataset: &str) -> Answer<Dataset> {
        match self.mounts.dataset(dataset) {
            Some(open) => Ok(open),
            None => Ok(self.pool.open_dataset_with(name::inside(dataset), self.access())?),
        }
    }

    /// The access mode to read and set properties; ACLs do not matter because nodes are not accessed.
    fn access(&self) -> Access {
        Access { readonly: self.pool.is_readonly(), ignore_acls: true }
    }

    fn mounted_on(&self, dataset: &str) -> Vec<PathBuf> {
        let mounts = self.mounts.list().into_iter();
        mounts.filter(|(m, _)| m.dataset == dataset).map(|(m, _)| m.dir).collect()
    }

    fn refuse_mounted(&self, dataset: &str, what: &str) -> Answer<()> {
        self.refuse(dataset, what, |_| true)
    }

    /// Refuses a dataset that is being recorded: a trace identifies files by their object numbers, which other files may get
    /// after a rollback.
    fn refuse_recorded(&self, dataset: &str) -> Answer<()> {
        let what = "rolled back while its I/O is being recorded";
        self.refuse(dataset, what, |mounted| mounted.record.is_some())
    }

    fn refuse(&self, dataset: &str, what: &str, which: impl Fn(&Mounted) -> bool) -> Answer<()> {
        let all = self.mounts.list();
        let Some((m, _)) = all.iter().find(|(m, _)| m.dataset == dataset && which(m)) else { return Ok(()) };
        let dir = quoted(&m.dir);
        let message = format!(
            "{dataset} is mounted on {dir} and cannot be {what}\nhint: unmount it first (`umount {dir}`)"
        );
        Err(Fault::new(libc::EBUSY, message))
    }

    fn info(&self, full: &str) -> DatasetInfo {
        let snapshot = full.split_once('@');
        let kind = if snapshot.is_some() { Kind::Snapshot } else { Kind::Filesystem };
        let read = match snapshot {
            Some((dataset, snapshot)) => self.snapshot_stats(dataset, snapshot).map(|stats| (stats, None)),
            None => {
                self.open(full).and_then(|d| Ok((d.stats()?, d.fs_stats().ok().map(|stats| stats.available))))
            }
        };
        let (stats, available, trouble) = match read {
            Ok((stats, available)) => (Some(stats), available, None),
            Err(fault) => (None, None, Some(fault.message)),
        };
        let mounted_on = self.mounted_on(full);
        DatasetInfo { name: full.to_owned(), kind, stats, available, mounted_on, trouble }
    }

    fn create_one(&self, dataset: &str, settings: &Settings) -> Answer<()> {
        let inside = name::inside(dataset);
        let made = self.pool.create_dataset(inside, &Settings::new())?;
        let set = Self::set_all(&made, settings);
        drop(made);
        if set.is_err() {
            // Remove the new dataset. The caller needs the first error, so ignore this one.
            let _ = self.pool.destroy(inside);
        }
        set
    }

    /// Creates the missing parents of a new dataset if `parents`. Returns whether the dataset does not exist yet.
    fn make_place(&self, dataset: &str, parents: bool) -> Answer<bool> {
        let names = self.names()?;
        let exists = |name: &str| names.iter().any(|known| known == name);
        if exists(dataset) {
            return Ok(false);
        }
        let above: Vec<&str> =
            dataset.match_indices('/').map(|(at, _)| &dataset[..at]).filter(|n| !exists(n)).collect();
        if let (Some(missing), false) = (above.first(), parents) {
            let fault = Fault::new(libc::ENOENT, format!("{dataset}: its parent {missing} does not exist"));
            return Err(fault.of_kind(FaultKind::NoParent));
        }
        above.iter().try_for_each(|name| self.create_one(name, &Settings::new()))?;
        Ok(true)
    }

    /// A dataset and, if `recursive`, the datasets below it.
    fn subtree(&self, root: &str, recursive: bool) -> Answer<Vec<String>> {
        let is_in = |n: &String| !n.contains('@') && (n == root || recursive && name::is_below(n, root));
        Ok(self.names()?.into_iter().filter(is_in).collect())
    }

    /// The datasets and snapshots below a dataset, deepest first: an order in which they can be destroyed.
    fn below(&self, root: &str) -> Answer<Vec<String>> {
        let mut names: Vec<String> =
            self.names()?.into_iter().filter(|n| n != root && name::is_below(n, root)).collect();
        names.sort_by_key(|n| (std::cmp::Reverse(n.matches('/').count()), !n.contains('@')));
        Ok(names)
    }

    fn start_or_stop_scrub(&self, how: ScrubHow) -> Answer<()> {
        let pool = self.pool.name();
        let words = |fault: Fault| match fault.errno {
            libc::EBUSY => Fault::new(libc::EBUSY, format!("{pool} is already being scrubbed"))
                .of_kind(FaultKind::ScrubRunning),
            libc::ENOENT => Fault::new(libc::ENOENT, format!("{pool} is not being scrubbed")),
            _ => fault,
        };
        let done = match how {
            ScrubHow::Wait => self.pool.scrub(),
            ScrubHow::Start => self.pool.start_scrub(),
            ScrubHow::Stop => self.pool.stop_scrub(),
        };
        done.map_err(|why| words(why.into()))
    }

    fn scrub(&self, how: ScrubHow) -> Answer<Scrub> {
        self.refuse_unwritable()?;
        // A command that exports the pool after the request must wait for the end of the scrub.
        let how = if how == ScrubHow::Start && !self.mounts.owns() { ScrubHow::Wait } else { how };
        self.pool.sync()?;
        let before = self.pool.stats()?;
        let start = Instant::now();
        self.start_or_stop_scrub(how)?;
        let met = self.pool.stats()?.since(&before);
        let scan = self.pool.scan()?;
        Ok(Scrub {
            started_unix_s: scan.map_or(0, |scan| scan.start_unix_s),
            seconds: start.elapsed().as_secs_f64(),
            allocated: before.allocated,
            read_errors: met.read_errors,
            write_errors: met.write_errors,
            checksum_errors: met.checksum_errors,
            repaired: scan.map_or(0, |scan| scan.repaired),
            lost: scan.map_or(0, |scan| scan.errors),
            state: scan.map_or(ScanState::Scanning, |scan| scan.state),
        })
    }
}

/// Refuses to destroy a dataset that has snapshots or datasets below it.
fn refuse_dependents(dataset: &str, below: &[String]) -> Answer<()> {
    let message = match below {
        [] => return Ok(()),
        [one] => format!("{dataset} has a snapshot or dataset below it: {one}"),
        [first, ..] => format!("{dataset} has {} snapshots and datasets below it: {first}, …", below.len()),
    };
    Err(Fault::new(libc::EBUSY, message).of_kind(FaultKind::HasDependents { count: below.len() }))
}

impl LocalPool {
    /// Space, errors and mounts.
    ///
    /// # Errors
    /// If the engine cannot read the space, the vdevs or the scan of the pool.
    pub fn status(&self) -> Result<PoolInfo, Fault> {
        // Must come first, because it may change the states of vdevs.
        let file_faults = self.file_faults();
        Ok(PoolInfo {
            pool: self.pool.name().to_owned(),
            pid: std::process::id(),
            owned: self.mounts.owns(),
            since_unix_s: self.since_unix_ns / 1_000_000_000,
            engine: Engine::version(),
            files: self.pool.files(),
            stats: self.pool.stats()?,
            mounts: self.mounts.list().into_iter().map(|(mounted, _)| mounted).collect(),
            vdevs: self.pool.vdevs()?,
            scan: self.pool.scan()?,
            data_errors: self.pool.data_errors()?,
            file_faults,
        })
    }

    fn counters(&self) -> Answer<Counters> {
        let (mounted, mounts): (Vec<Mounted>, Vec<MountCounters>) = self.mounts.list().into_iter().unzip();
        let mut names: Vec<String> = mounted.into_iter().map(|m| m.dataset).collect();
        names.sort();
        names.dedup();
        let dataset = |name: String| {
            let open = self.mounts.dataset(&name)?;
            Some(DatasetCounters { name, zil: open.zil_stats(), replayed: open.replayed() })
        };
        let file = |(path, moved)| FileCounters { path, moved };
        Ok(Counters {
            version: Counters::VERSION,
            pool: self.pool.name().to_owned(),
            pid: std::process::id(),
            time_unix_ns: unix_ns(SystemTime::now()),
            since_unix_ns: self.since_unix_ns,
            stats: self.pool.stats()?,
            arc: self.pool.engine().arc_stats(),
            files: self.pool.vdev_stats().into_iter().map(file).collect(),
            vdevs: self.pool.vdevs()?,
            datasets: names.into_iter().filter_map(dataset).collect(),
            mounts,
        })
    }

    fn list(&self) -> Answer<Vec<DatasetInfo>> {
        let _tree = self.lock();
        self.settle()?;
        Ok(self.in_order_of_creation(self.names()?)?.iter().map(|name| self.info(name)).collect())
    }

    fn get(&self, dataset: &str, properties: &[String]) -> Answer<Vec<Value>> {
        let _tree = self.lock();
        if dataset.contains('@') {
            name::check_snapshot(dataset).map(drop)?
        } else {
            self.check_mine(dataset)?
        }
        self.must_exist(dataset)?;
        self.settle()?;
        let mut all = self.figures(dataset)?;
        if !dataset.contains('@') {
            all.extend(self.settings_of(dataset)?);
        }
        if properties.is_empty() {
            return Ok(all);
        }
        let pick = |wanted: &String| {
            let wanted = if wanted == "recsize" { "recordsize" } else { wanted };
            all.iter().find(|v| v.property == wanted).cloned().ok_or_else(|| {
                let known: Vec<_> = all.iter().map(|v| v.property.as_str()).collect();
                Fault::invalid(format!("{dataset} has no property {wanted:?} (known: {})", known.join(", ")))
            })
        };
        properties.iter().map(pick).collect()
    }

    fn set(&self, dataset: &str, settings: &BTreeMap<String, String>) -> Answer<()> {
        let _tree = self.lock();
        self.check_mine(dataset)?;
        self.must_exist(dataset)?;
        self.refuse_unwritable()?;
        Self::set_all(&self.open(dataset)?, settings)
    }

    fn create(&self, dataset: &str, settings: &BTreeMap<String, String>, parents: bool) -> Answer<()> {
        let _tree = self.lock();
        self.check_mine(dataset)?;
        self.refuse_unwritable()?;
        if !self.make_place(dataset, parents)? {
            let fault = Fault::new(libc::EEXIST, format!("the dataset {dataset} already exists"));
            return if parents { Ok(()) } else { Err(fault) };
        }
        self.create_one(dataset, settings)
    }

    fn snapshot(&self, full: &str, recursive: bool) -> Answer<Vec<String>> {
        let _tree = self.lock();
        let (dataset, snapshot) = name::check_snapshot(full)?;
        self.check_mine(dataset)?;
        self.must_exist(dataset)?;
        self.take_snapshots(&self.subtree(dataset, recursive)?, snapshot)
    }

    fn snapshot_all(&self, names: &[String]) -> Answer<Vec<String>> {
        let _tree = self.lock();
        let mut wanted: Vec<String> = Vec::new();
        let mut common = None;
        for full in names {
            let (dataset, snapshot) = name::check_snapshot(full)?;
            self.check_mine(dataset)?;
            self.must_exist(dataset)?;
            if *common.get_or_insert(snapshot) != snapshot {
                return Err(Fault::invalid(format!("{full} and {} have different names", names[0])));
            }
            if wanted.iter().any(|known| known == dataset) {
                return Err(Fault::invalid(format!("{dataset} is named twice")));
            }
            wanted.push(dataset.to_owned());
        }
        match common {
            Some(snapshot) => self.take_snapshots(&wanted, snapshot),
            None => Err(Fault::invalid("no snapshot is named")),
        }
    }

    fn rollback(&self, full: &str, recursive: bool) -> Answer<()> {
        let _tree = self.lock();
        let (dataset, snapshot) = name::check_snapshot(full)?;
        self.check_mine(dataset)?;
        self.must_exist(full)?;
        self.refuse_recorded(dataset)?;
        self.refuse_unwritable()?;
        let later = self.later_snapshots(dataset, snapshot)?;
        if let (Some(latest), false) = (later.first(), recursive) {
            let fault = Fault::new(libc::EEXIST, format!("{dataset}@{latest} is newer than {full}"));
            return Err(fault.of_kind(FaultKind::NewerSnapshots { snapshot: full.to_owned() }));
        }
        self.destroy_snapshots(dataset, &later)?;
        match self.mounts.roll_back(dataset, snapshot) {
            Some(done) => done,
            None => Ok(self.pool.rollback(name::inside(dataset), snapshot)?),
        }
    }

    fn destroy(&self, full: &str, recursive: bool) -> Answer<Vec<String>> {
        let _tree = self.lock();
        if full.contains('@') {
            name::check_snapshot(full).map(drop)?
        } else {
            self.check_mine(full)?
        }
        if full == self.pool.name() {
            let kind = FaultKind::RootDataset { pool: full.to_owned() };
            return Err(Fault::invalid(format!("{full} is the pool's root dataset")).of_kind(kind));
        }
        self.must_exist(full)?;
        self.refuse_unwritable()?;
        let below = if full.contains('@') { Vec::new() } else { self.below(full)? };
        if !recursive {
            refuse_dependents(full, &below)?;
        }
        let all: Vec<String> = below.into_iter().chain([full.to_owned()]).collect();
        all.iter().filter(|n| !n.contains('@')).try_for_each(|n| self.refuse_mounted(n, "destroyed"))?;
        self.refuse_origins(&all)?;
        all.iter().try_for_each(|name| self.destroy_one(name))?;
        Ok(all)
    }

    fn sync(&self) -> Answer<()> {
        self.refuse_lost()?;
        Ok(self.pool.sync()?)
    }

    /// Adds a mount.
    ///
    /// # Errors
    /// As [`crate::user::Request::Mount`].
    pub fn mount(&self, wanted: &Mounted) -> Result<Mounted, Fault> {
        self.mounts.settle(&wanted.dataset)?;
        let _tree = self.lock();
        self.check_mine(&wanted.dataset)?;
        self.must_exist(&wanted.dataset)?;
        self.refuse_mounted(&wanted.dataset, "mounted twice")?;
        if !wanted.readonly {
            self.refuse_readonly()?;
        }
        self.refuse_lost()?;
        self.mounts.mount(&self.pool, wanted)
    }

    fn release(&self) -> Answer<()> {
        self.refuse_lost()?;
        self.mounts.release()
    }
}
