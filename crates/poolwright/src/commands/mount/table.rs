//! The mounts of this process.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use poolwright_control::{Fault, MountCounters, Mounted, Mounts, name};
use poolwright_mount::{Caching, Mount, Options};
use poolwright_openzfs::{Dataset, Pool};

use super::record::Recording;

/// How long an unmounted file system may take to flush before its end is reported as missing.
const FLUSH: Duration = Duration::from_secs(120);

struct Entry {
    mounted: Mounted,
    /// Gone while the last changes are being written.
    live: Option<Arc<Mount>>,
}

/// All mounts; each has a thread that waits for its end.
#[derive(Default)]
pub struct Table {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: Mutex<Vec<Entry>>,
    changed: Condvar,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The mount of a dataset. Not to be used under the lock: a rollback may take its time.
    fn of(&self, dataset: &str) -> Option<Arc<Mount>> {
        let entries = self.lock();
        entries.iter().find(|e| e.mounted.dataset == dataset)?.live.clone()
    }
}

/// The caching mode of that name.
pub fn caching(name: &str) -> Option<Caching> {
    match name {
        "through" => Some(Caching::Through),
        "pages" => Some(Caching::Pages),
        "writeback" => Some(Caching::Writeback),
        _ => None,
    }
}

fn options(wanted: &Mounted) -> Result<Options, Fault> {
    let mut options = Options { readonly: wanted.readonly, ..Options::default() };
    if let Some(how) = &wanted.caching {
        options.caching = caching(how).ok_or_else(|| {
            Fault::invalid(format!("caching={how}: there are through, pages and writeback"))
        })?;
    }
    if let Some(threads) = wanted.threads {
        options.threads = threads.clamp(1, 256);
    }
    Ok(options)
}

/// How a mount really is, the defaults filled in.
fn described(wanted: &Mounted, options: &Options) -> Mounted {
    let caching = match options.caching {
        Caching::Through => "through",
        Caching::Pages => "pages",
        Caching::Writeback => "writeback",
    };
    Mounted { caching: Some(caching.into()), threads: Some(options.threads), ..wanted.clone() }
}

fn fault(why: &poolwright_mount::Error) -> Fault {
    let errno = match why {
        poolwright_mount::Error::Busy { .. } => libc::EBUSY,
        poolwright_mount::Error::NoDevice(why) => why.raw_os_error().unwrap_or(libc::ENODEV),
        poolwright_mount::Error::DeadMount { .. } => libc::ENOTCONN,
        _ => libc::EIO,
    };
    Fault::new(errno, why.to_string())
}

impl Table {
    /// Waits until something changes, at most so long. Whether a mount is left.
    pub fn wait(&self, longest: Duration) -> bool {
        let entries = self.inner.lock();
        if entries.is_empty() {
            return false;
        }
        let (entries, _) =
            self.inner.changed.wait_timeout(entries, longest).unwrap_or_else(PoisonError::into_inner);
        !entries.is_empty()
    }

    /// Waits for the end of a mount, whoever ends it, and lets go of what it held.
    fn follow(&self, mount: Arc<Mount>, dir: &Path, recording: Option<Recording>) -> std::io::Result<()> {
        let inner = Arc::clone(&self.inner);
        let dir = dir.to_owned();
        let thread = std::thread::Builder::new().name("mount".into());
        thread.spawn(move || {
            if let Err(why) = mount.wait() {
                tell!("poolwright: {}: {why}", dir.display());
            }
            let own = |e: &Entry| e.live.as_ref().is_some_and(|other| Arc::ptr_eq(other, &mount));
            let mut entries = inner.lock();
            let at = entries.iter().position(own);
            let live = at.and_then(|at| entries[at].live.take());
            drop(entries);
            // The recording ends with the last hold on the mount. With it the dataset is closed, which waits for its last
            // transaction group. Neither under the lock.
            drop(live);
            drop(mount);
            if let Some(why) = recording.and_then(|recording| recording.finish().err()) {
                tell!("poolwright: the trace of {}: {why:#}", dir.display());
            }
            inner.lock().retain(|e| e.live.is_some() || e.mounted.dir != dir);
            inner.changed.notify_all();
        })?;
        Ok(())
    }
}

impl Mounts for Table {
    fn list(&self) -> Vec<(Mounted, MountCounters)> {
        let one = |e: &Entry| {
            let mount = e.live.as_ref()?;
            let counters = mount.counters();
            let ops: BTreeMap<String, u64> =
                counters.by_kind().map(|(op, n)| (op.name().to_owned(), n)).collect();
            let counters = MountCounters {
                dataset: e.mounted.dataset.clone(),
                dir: e.mounted.dir.clone(),
                ops,
                read_bytes: counters.read_bytes,
                write_bytes: counters.written_bytes,
            };
            Some((e.mounted.clone(), counters))
        };
        self.inner.lock().iter().filter_map(one).collect()
    }

    fn dataset(&self, name: &str) -> Option<Dataset> {
        self.inner.of(name)?.dataset()
    }

    fn roll_back(&self, dataset: &str, snapshot: &str) -> Option<Result<(), Fault>> {
        Some(self.inner.of(dataset)?.roll_back(snapshot).map_err(Fault::from))
    }

    fn mount(&self, pool: &Pool, wanted: &Mounted) -> Result<Mounted, Fault> {
        let mut options = options(wanted)?;
        let mounted = described(wanted, &options);
        let dataset = pool.open_dataset(name::inside(&wanted.dataset))?;
        if dataset.replayed() > 0 {
            tell!(
                "poolwright: {}: {} log records of an earlier crash were played back",
                wanted.dataset,
                dataset.replayed()
            );
        }
        let recording = match &wanted.record {
            Some(trace) => Some(
                Recording::start(trace, wanted, &options, &dataset)
                    .map_err(|why| Fault::new(libc::EIO, format!("{why:#}")))?,
            ),
            None => None,
        };
        options.observer = recording.as_ref().map(Recording::observer);
        let started = Mount::start(pool, &dataset, &wanted.dir, &options);
        drop(options);
        drop(dataset); // the mount has its own hold on it, and a rollback needs the only one
        let mount = match started {
            Ok(mount) => Arc::new(mount),
            Err(why) => {
                // It holds the dataset open until it has ended.
                let _ = recording.map(Recording::finish);
                return Err(fault(&why));
            }
        };
        let entry = Entry { mounted: mounted.clone(), live: Some(Arc::clone(&mount)) };
        self.inner.lock().push(entry);
        self.follow(mount, &wanted.dir, recording)
            .map_err(|why| Fault::new(libc::EAGAIN, format!("starting a thread: {why}")))?;
        Ok(mounted)
    }

    /// The last one first: it may be mounted inside an earlier one.
    fn release(&self) -> Result<(), Fault> {
        let mounts: Vec<Arc<Mount>> = {
            let entries = self.inner.lock();
            entries.iter().rev().filter_map(|e| Some(Arc::clone(e.live.as_ref()?))).collect()
        };
        for mount in mounts {
            mount.unmount().map_err(|why| fault(&why))?;
        }
        let start = Instant::now();
        while self.wait(Duration::from_millis(100)) {
            if start.elapsed() > FLUSH {
                return Err(Fault::new(libc::ETIMEDOUT, "unmounted, and still flushing; ask again later"));
            }
        }
        Ok(())
    }

    fn owns(&self) -> bool {
        true
    }
}
