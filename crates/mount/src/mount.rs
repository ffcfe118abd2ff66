//! A mounted dataset, from its start to its end.

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

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
/// Dropping it unmounts, at the worst out of sight while programs still use it. The pool can be exported when the mount
/// has been dropped.
#[derive(Debug)]
pub struct Mount {
    pub(crate) point: MountPoint,
    dataset: String,
    pub(crate) session: Arc<Session>,
    threads: Mutex<Vec<JoinHandle<Result<()>>>>,
    /// One rollback at a time, with what is told after it.
    rolling: Mutex<()>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("agreed", &self.agreed).finish_non_exhaustive()
    }
}

impl Mount {
    /// Mounts a dataset of `pool` on a directory. When this returns, programs can use it: a `statfs` was answered.
    pub fn start(pool: &Pool, dataset: &Dataset, mountpoint: &Path, options: &Options) -> Result<Mount> {
        let name = dataset.name().to_owned();
        let fs = FileSystem::new(pool, dataset, options).map_err(|why| Error::Engine {
            doing: "opening the root directory of",
            dataset: name.clone(),
            why,
        })?;
        // The kernel looks at its switch when the mount is made, and again when it takes our answer to that.
        let uring = options.uring && uring::available();
        let switched = uring.then(uring::SwitchedOn::now);
        let (point, device) = MountPoint::mount(mountpoint, &name, fs.root_mode(), options)?;
        let served = serve(fs, device, options, uring);
        drop(switched);
        let (session, threads) = match served {
            Ok(served) => served,
            Err(why) => {
                // The device is closed: whatever is left of the mount would be a dead one.
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

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.point.path()
    }

    /// Whether it is still among the mounts that this process sees. It may be in use all the same: by programs that had
    /// files open when it was taken out of sight, or in another mount namespace.
    pub fn is_mounted(&self) -> bool {
        self.point.is_mounted()
    }

    /// Whether its serving threads end, as they do when nothing uses it: only what is not on disk yet is to be
    /// written.
    pub fn is_ending(&self) -> bool {
        self.session.is_ending()
    }

    /// Whether [`Mount::unmount`] would find it free: [`Error::Busy`] if not. `inside` are mounts below it that are unmounted
    /// before it.
    pub fn check_idle(&self, inside: &[&Path]) -> Result<()> {
        if self.is_ending() { Ok(()) } else { self.point.check_idle(inside) }
    }

    /// What was served so far.
    pub fn counters(&self) -> Counters {
        self.session.counters()
    }

    /// Whether io_uring was agreed on; otherwise requests come through `/dev/fuse`.
    pub fn uses_uring(&self) -> bool {
        !self.session.ring_refused.load(Ordering::Relaxed) && self.session.agreed.has(init::OVER_IO_URING)
    }

    /// The FUSE protocol's minor version that was agreed on.
    pub fn protocol(&self) -> u32 {
        self.session.agreed.minor
    }

    /// Waits until it is unmounted, by whomever, and everything is put away: nothing acknowledged is only in memory.
    pub fn wait(&self) -> Result<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let mut first = Ok(());
        for thread in threads.drain(..) {
            // A thread's panic was reported by the panic handler; the others have gone on serving.
            first = first.and(thread.join().unwrap_or(Ok(())));
        }
        first?;
        match self.session.finished() {
            Some(Err(why)) => Err(self.engine("writing the last changes of", why)),
            _ => Ok(()),
        }
    }

    /// Unmounts and waits. [`Error::Busy`] if programs use it; it then stays mounted.
    pub fn unmount(&self) -> Result<()> {
        if self.session.finished().is_none() {
            self.point.unmount()?;
        }
        self.wait()
    }

    /// Takes it out of sight at once, even while programs use it. They may go on; it ends with the last of them.
    pub fn detach(&self) -> Result<()> {
        self.point.detach()
    }

    /// From now on everything that would change the dataset, or make changes durable, fails with `EIO`: what is written
    /// would be lost.
    pub fn refuse_changes(&self) {
        self.session.refuses_changes.store(true, Ordering::Relaxed);
    }

    /// The dataset. Waits while it is being rolled back; `None` if it could not be opened again after that.
    ///
    /// Whoever keeps this handle keeps the dataset from being rolled back.
    pub fn dataset(&self) -> Option<Dataset> {
        self.session.sharded_lock.read(0).as_ref().map(|fs| fs.head().clone())
    }

    /// Takes the dataset back to its latest snapshot while it is mounted, as a kernel does: requests wait, and go on in
    /// the tree as it was. Files and directories that are there before and after stay open; open files that are gone
    /// fail with `EIO`. With [`Caching::Writeback`] all files that are open fail so, because the kernel does not ask for
    /// their length again.
    ///
    /// Changes that only the kernel's page cache has (a shared mapping's, and all with [`Caching::Writeback`]) are dropped,
    /// those that programs make while this runs too: they count as made before.
    ///
    /// The handle that the mount was started with must have been dropped, and all others: they are waited for ten
    /// seconds. If the dataset cannot be opened again, everything fails with `EIO` until it is unmounted.
    pub fn roll_back(&self, snapshot: &str) -> poolwright_openzfs::Result<()> {
        let _one = self.rolling.lock().unwrap_or_else(PoisonError::into_inner);
        let change = |fs: FileSystem| {
            let RolledBack { fs, result } = fs.roll_back(snapshot);
            (fs, result)
        };
        let gone =
            || Err(poolwright_openzfs::Error::Busy(format!("{} (an earlier rollback failed)", self.dataset)));
        let stale = self.session.sharded_lock.change(change).unwrap_or_else(gone)?;
        // Requests are served again: whoever has a page or a directory locked, for which this has to wait, is answered.
        self.tell(&stale);
        if let Some(fs) = &*self.session.sharded_lock.read(0) {
            fs.lift_fence();
        }
        Ok(())
    }

    /// What the kernel does not know it need not forget, and a mount that is gone knows nothing.
    fn tell(&self, stale: &Stale) {
        let device = self.session.device.as_ref();
        for (parent, name) in &stale.names {
            let _ = device::forget_entry(device, *parent, name);
        }
        for nodeid in &stale.nodes {
            let _ = device::forget_inode(device, *nodeid, 0, 0);
        }
    }

    fn id_of(&self, object: u64) -> Option<u64> {
        self.session.sharded_lock.read(0).as_ref().map(|fs| fs.id_of(object))
    }

    /// The kernel forgets attributes and cached bytes of an object (after something changed it other than through this
    /// mount).
    pub fn invalidate(&self, object: u64) -> Result<()> {
        let Some(nodeid) = self.id_of(object) else { return Ok(()) };
        device::forget_inode(self.session.device.as_ref(), nodeid, 0, 0)
    }

    /// The kernel forgets a name in a directory.
    pub fn invalidate_name(&self, directory: u64, name: &CStr) -> Result<()> {
        let Some(nodeid) = self.id_of(directory) else { return Ok(()) };
        device::forget_entry(self.session.device.as_ref(), nodeid, name)
    }

    /// The kernel forgets a snapshot that it knows under `.zfs/snapshot`, so that it can be destroyed.
    pub fn invalidate_snapshot(&self, name: &CStr) -> Result<()> {
        device::forget_entry(self.session.device.as_ref(), crate::fs::SNAPSHOTS_ID, name)
    }

    fn engine(&self, doing: &'static str, why: Errno) -> Error {
        Error::Engine { doing, dataset: self.dataset.clone(), why }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.session.finished().is_none() && self.unmount().is_err() && self.point.detach().is_err() {
            // Without a reader too: this is no place to end the process.
            use std::io::Write as _;
            let _ = writeln!(
                std::io::stderr(),
                "poolwright: {} could not be unmounted",
                self.point.path().display()
            );
        }
    }
}

/// Lets the kernel read ahead as much as one request can carry; by itself it stops at 128 KiB. Only root may say so, and
/// without it everything works, slower.
fn read_ahead(path: &Path) {
    use std::os::unix::fs::MetadataExt;
    let Ok(meta) = std::fs::metadata(path) else { return };
    let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    let kibibytes = (MAX_WRITE >> 10).to_string();
    let _ = std::fs::write(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"), kibibytes);
}

/// So many CPUs may have all their threads.
const MANY_QUEUES: usize = 8;

type Served = (Arc<Session>, Vec<JoinHandle<Result<()>>>);

fn serve(fs: FileSystem, device: OwnedFd, options: &Options, uring: bool) -> Result<Served> {
    let each = options.threads.max(1);
    let wanted = Wanted { writeback: options.caching == Caching::Writeback, uring };
    let queues = uring::queues();
    // Several per CPU let hits pass while one waits for a disk; where there are many CPUs, others do that.
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
        // Where only fusermount3 may open the device, all threads share the one descriptor that it gave.
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
