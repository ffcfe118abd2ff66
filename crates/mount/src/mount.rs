//! A mounted dataset: start, rollback and unmounting.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use poolwright_base::quoted;
use poolwright_openzfs::{Dataset, Errno, Pool};

use crate::counters::Counters;
use crate::fs::{FileSystem, RolledBack, Stale};
use crate::mountpoint::MountPoint;
use crate::options::{Caching, Options};
use crate::proto::wire::init;
use crate::proto::{MAX_WRITE, Negotiated, Wanted};
use crate::session::Session;
use crate::{Error, Result, device, uring};

/// A dataset that is mounted and served by threads of this process.
///
/// Dropping it unmounts the dataset, lazily (`MNT_DETACH`) if programs still use it. The pool can be exported once the
/// mount has been dropped.
#[derive(Debug)]
pub struct Mount {
    pub(crate) point: MountPoint,
    dataset: String,
    pub(crate) session: Arc<Session>,
    threads: Mutex<Vec<JoinHandle<Result<()>>>>,
    /// Serializes rollbacks, including the kernel notifications that follow each of them.
    rolling: Mutex<()>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("agreed", &self.agreed).finish_non_exhaustive()
    }
}

impl Mount {
    /// Mounts a dataset of `pool` on a directory. When this returns, programs can use it: a `statfs` was answered.
    ///
    /// # Errors
    /// If the mount point is unusable or must not be covered, the kernel or fusermount3 refuses the mount, or the engine
    /// cannot open the dataset's root directory.
    pub fn start(pool: &Pool, dataset: &Dataset, mountpoint: &Path, options: &Options) -> Result<Mount> {
        let name = dataset.name().to_owned();
        let fs = FileSystem::new(pool, dataset, options).map_err(|why| Error::Engine {
            doing: "opening the root directory of",
            dataset: name.clone(),
            why,
        })?;
        // The kernel checks `enable_uring` when it creates the mount, and again when it processes our answer to INIT.
        let uring = options.uring && uring::available();
        let switched = uring.then(uring::SwitchedOn::now);
        let (point, device) = MountPoint::mount(mountpoint, &name, fs.root_mode(), options)?;
        let served = serve(fs, device, options, uring);
        drop(switched);
        let (session, threads) = match served {
            Ok(served) => served,
            Err(why) => {
                // `serve` has closed the device, so the mount is dead; remove it.
                let _ = point.detach();
                return Err(why);
            }
        };
        let threads = Mutex::new(threads);
        let mut mount = Mount { point, dataset: name, session, threads, rolling: Mutex::new(()) };
        mount.point.answer()?;
        if options.caching != Caching::Through {
            read_ahead(mount.path());
        }
        Ok(mount)
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        self.point.path()
    }

    /// Whether the mount is still visible to this process. A mount that is not can still be in use: by programs that had
    /// files open when it was detached, or in another mount namespace.
    pub fn is_mounted(&self) -> bool {
        self.point.is_mounted()
    }

    /// Whether the serving threads are ending because nothing uses the mount any more. The last changes may still have to be
    /// written to disk.
    pub fn is_ending(&self) -> bool {
        self.session.is_ending()
    }

    /// Checks that [`Mount::unmount`] would succeed, without unmounting. `inside` lists mounts below this one that are
    /// unmounted first.
    ///
    /// # Errors
    /// [`Error::Busy`] if programs use the mount.
    pub fn check_idle(&self, inside: &[&Path]) -> Result<()> {
        if self.is_ending() { Ok(()) } else { self.point.check_idle(inside) }
    }

    /// The requests and bytes served so far.
    pub fn counters(&self) -> Counters {
        self.session.counters()
    }

    /// Whether requests arrive through io_uring; otherwise they arrive through `/dev/fuse`.
    pub fn uses_uring(&self) -> bool {
        !self.session.ring_refused.load(Ordering::Relaxed) && self.session.agreed.has(init::OVER_IO_URING)
    }

    /// The negotiated minor version of the FUSE protocol.
    pub fn protocol(&self) -> u32 {
        self.session.agreed.minor
    }

    /// Waits until the dataset is unmounted, by this process or by another, and all acknowledged changes are on disk.
    ///
    /// # Errors
    /// The first error of a serving thread, or that of writing the last changes.
    pub fn wait(&self) -> Result<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let mut first = Ok(());
        for thread in threads.drain(..) {
            // The panic hook has reported a thread's panic; the other threads went on serving.
            first = first.and(thread.join().unwrap_or(Ok(())));
        }
        first?;
        match self.session.finished() {
            Some(Err(why)) => Err(self.engine("writing the last changes of", why)),
            _ => Ok(()),
        }
    }

    /// Unmounts, and waits as [`Mount::wait`] does.
    ///
    /// # Errors
    /// [`Error::Busy`] if programs use the mount, which then stays; otherwise the errors of unmounting and of
    /// [`Mount::wait`].
    pub fn unmount(&self) -> Result<()> {
        if self.session.finished().is_none() {
            self.point.unmount()?;
        }
        self.wait()
    }

    /// Unmounts lazily (`MNT_DETACH`): the mount disappears at once, and ends when the last program stops using it.
    ///
    /// # Errors
    /// [`Error::Unmount`] if another file system is mounted on top, or the kernel or fusermount3 refuses.
    pub fn detach(&self) -> Result<()> {
        self.point.detach()
    }

    /// Makes every later request that would change the dataset, or make changes durable, fail with `EIO`, because the data
    /// would be lost.
    pub fn refuse_changes(&self) {
        self.session.refuses_changes.store(true, Ordering::Relaxed);
    }

    /// The dataset, or `None` if it could not be opened again after a rollback. Waits for a rollback in progress.
    ///
    /// The dataset cannot be rolled back while the caller holds this handle.
    pub fn dataset(&self) -> Option<Dataset> {
        self.session.sharded_lock.read(0).as_ref().map(|fs| fs.head().clone())
    }

    /// Rolls the dataset back to its latest snapshot while it is mounted, as the ZFS kernel module can. Requests wait, and
    /// then continue on the older tree. Files and directories that exist before and after stay open; requests on open files
    /// that no longer exist fail with `EIO`. With [`Caching::Writeback`] requests on all open files fail, because the kernel
    /// does not ask for their length again.
    ///
    /// Changes that are only in the kernel's page cache (those of shared mappings, and all with [`Caching::Writeback`]) are
    /// dropped, including those that programs make while this function runs: they count as made before the rollback.
    ///
    /// The caller must have dropped the handle that it passed to [`Mount::start`], and all others; this function waits ten
    /// seconds for that. If the dataset cannot be opened again, all requests fail with `EIO` until it is unmounted.
    ///
    /// # Errors
    /// The engine's, if it cannot roll back or an earlier rollback has lost the dataset.
    pub fn roll_back(&self, snapshot: &str) -> poolwright_openzfs::Result<()> {
        let _one = self.rolling.lock().unwrap_or_else(PoisonError::into_inner);
        let change = |fs: FileSystem| {
            let RolledBack { fs, result } = fs.roll_back(snapshot);
            (fs, result)
        };
        let gone =
            || Err(poolwright_openzfs::Error::Busy(format!("{} (an earlier rollback failed)", self.dataset)));
        let stale = self.session.sharded_lock.change(change).unwrap_or_else(gone)?;
        // The notifications wait for programs that hold a page or a directory locked. Requests are served again, so those
        // programs get their answers.
        self.tell(&stale);
        if let Some(fs) = &*self.session.sharded_lock.read(0) {
            fs.lift_fence();
        }
        Ok(())
    }

    /// Tells the kernel to drop stale nodes and names. Ignores errors: the kernel does not know the node or name, or the mount
    /// is gone.
    fn tell(&self, stale: &Stale) {
        let device = self.session.device.as_ref();
        for (parent, name) in &stale.names {
            let _ = device::forget_entry(device, *parent, name);
        }
        for nodeid in &stale.nodes {
            let _ = device::forget_inode(device, *nodeid, 0, 0);
        }
    }

    fn engine(&self, doing: &'static str, why: Errno) -> Error {
        Error::Engine { doing, dataset: self.dataset.clone(), why }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.session.finished().is_none() && self.unmount().is_err() && self.point.detach().is_err() {
            // `eprintln!` would panic if standard error is closed.
            use std::io::Write as _;
            let _ =
                writeln!(std::io::stderr(), "poolwright: failed to unmount {}", quoted(&self.point.path()));
        }
    }
}

/// Raises the kernel's readahead from 128 KiB to the size of the largest request. Only root may do so; the mount works
/// without it, but more slowly.
fn read_ahead(path: &Path) {
    use std::os::unix::fs::MetadataExt;
    let Ok(meta) = std::fs::metadata(path) else { return };
    let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    let kibibytes = (MAX_WRITE >> 10).to_string();
    let _ = std::fs::write(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"), kibibytes);
}

/// The largest number of queues (one per CPU) that all get [`Options::threads`] threads.
const MANY_QUEUES: usize = 8;

type Served = (Arc<Session>, Vec<JoinHandle<Result<()>>>);

fn serve(fs: FileSystem, device: OwnedFd, options: &Options, uring: bool) -> Result<Served> {
    let each = options.threads.max(1);
    let wanted = Wanted { writeback: options.caching == Caching::Writeback, uring };
    let queues = uring::queues();
    // With several threads per CPU, cache hits are served while one thread waits for a disk. With many CPUs, the threads
    // of other CPUs serve them.
    let per_queue = if queues <= MANY_QUEUES { each } else { (each * MANY_QUEUES / queues).max(1) };
    let workers =
        |agreed: &Negotiated| if agreed.has(init::OVER_IO_URING) { 1 + queues * per_queue } else { each };
    let session = Arc::new(Session::meet(fs, device, wanted, workers)?);
    if session.agreed.has(init::OVER_IO_URING) {
        let mut threads = vec![by_device(&session, 0, session.device.clone())?];
        for at in 0..queues * per_queue {
            let served = session.clone();
            threads.push(spawn(1 + at, move || served.run_uring(1 + at, at % queues, at < queues))?);
        }
        return Ok((session, threads));
    }
    let mut descriptors = vec![session.device.clone()];
    for _ in 1..each {
        // If only fusermount3 may open the device, all threads share the descriptor that it passed.
        descriptors.push(device::another(&session.device).map_or_else(|_| session.device.clone(), Arc::new));
    }
    let start = |(number, fd)| by_device(&session, number, fd);
    let threads = descriptors.into_iter().enumerate().map(start).collect::<Result<_>>()?;
    Ok((session, threads))
}

fn by_device(session: &Arc<Session>, number: usize, fd: Arc<OwnedFd>) -> Result<JoinHandle<Result<()>>> {
    let session = session.clone();
    spawn(number, move || session.run(number, &fd))
}

fn spawn(number: usize, run: impl FnOnce() -> Result<()> + Send + 'static) -> Result<JoinHandle<Result<()>>> {
    std::thread::Builder::new()
        .name(format!("fuse-{number}"))
        .spawn(run)
        .map_err(|why| Error::Device { doing: "starting a thread", why })
}
