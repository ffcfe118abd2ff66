//! The mounts of this process. Each has a thread that waits for its end.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::{Caching, Mount, Options, SnapshotInUse, TraceRecorder, refuse_working_directory};
use poolwright_base::quoted;
use poolwright_openzfs::{Dataset, Pool};
use poolwright_zfs::user::{ENDING, Fault, FaultKind, MountCounters, Mounted, Mounts};

use crate::server::open_dataset::open_dataset;
use crate::server::{Frontend, Severity};

/// How long to wait for the serving threads of a mount that was unmounted. They notice it at once, unless programs or
/// another mount namespace still use the mount.
const NOTICE: Duration = Duration::from_secs(10);

struct Entry {
    mounted: Mounted,
    state: State,
}

enum State {
    /// The dataset is being mounted.
    Starting,
    Live(Arc<Mount>),
    /// The dataset is unmounted; its last changes are being written.
    Ending,
}

impl Entry {
    fn live(&self) -> Option<&Arc<Mount>> {
        match &self.state {
            State::Live(mount) => Some(mount),
            State::Starting | State::Ending => None,
        }
    }
}

/// All mounts of this process.
pub struct MountTable {
    inner: Arc<Inner>,
}

struct Inner {
    rows: Mutex<Rows>,
    changed: Condvar,
    frontend: Arc<dyn Frontend>,
    /// Whether to report mounts and unmounts.
    is_logged: AtomicBool,
}

#[derive(Default)]
struct Rows {
    entries: Vec<Entry>,
    /// Whether the last mount has ended. New mounts are then refused.
    ended: bool,
    /// Number of requests that are unmounting everything. New mounts are refused during that time.
    releasing: usize,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, rows: MutexGuard<'a, Rows>, longest: Duration) -> MutexGuard<'a, Rows> {
        self.changed.wait_timeout(rows, longest).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Changes the rows, and wakes the threads that wait for a change.
    fn change(&self, change: impl FnOnce(&mut Rows)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// The mount of a dataset. Waits for a mount that is writing its last changes. The caller uses the mount without the
    /// lock, because a rollback can take long.
    fn of(&self, dataset: &str) -> Option<Arc<Mount>> {
        let start = Instant::now();
        let mut rows = self.lock();
        loop {
            let entry = rows.entries.iter().find(|e| e.mounted.dataset == dataset)?;
            if !matches!(entry.state, State::Ending) || start.elapsed() > ENDING {
                return entry.live().cloned();
            }
            rows = self.wait(rows, Duration::from_secs(1));
        }
    }

    /// Adds a row for a mount that is being made. The process does not exit before the mount has succeeded or failed.
    fn reserve(&self, pool: &Pool, mounted: &Mounted) -> Result<(), Fault> {
        let mut rows = self.lock();
        if rows.ended || rows.releasing > 0 {
            return Err(Fault::ending(pool.name(), std::process::id()));
        }
        if let Some(other) = rows.entries.iter().find(|e| e.mounted.dataset == mounted.dataset) {
            let (dataset, dir) = (&mounted.dataset, quoted(&other.mounted.dir));
            return Err(Fault::new(libc::EBUSY, format!("{dataset} is already being mounted on {dir}")));
        }
        rows.entries.push(Entry { mounted: mounted.clone(), state: State::Starting });
        Ok(())
    }

    fn log(&self, message: &str) {
        if self.is_logged.load(Ordering::Relaxed) {
            self.frontend.log(Severity::Note, message);
        }
    }

    fn log_mount(&self, mounted: &Mounted) {
        self.log(&format!("{} mounted on {}", mounted.dataset, quoted(&mounted.dir)));
    }

    fn forget(&self, dataset: &str) {
        self.change(|rows| rows.entries.retain(|e| e.mounted.dataset != dataset));
    }
}

fn options(wanted: &Mounted) -> Result<Options, Fault> {
    let mut options = Options { readonly: wanted.readonly, overlay: wanted.overlay, ..Options::default() };
    if let Some(how) = &wanted.caching {
        options.caching = Caching::from_name(how)
            .ok_or_else(|| Fault::invalid(format!("caching={how}: expected through, pages or writeback")))?;
    }
    if let Some(threads) = wanted.threads {
        options.threads = threads.clamp(1, 256);
    }
    Ok(options)
}

/// The mount with the defaults filled in.
fn described(wanted: &Mounted, options: &Options) -> Mounted {
    let caching = Some(options.caching.name().to_owned());
    Mounted { caching, threads: Some(options.threads), caller: None, ..wanted.clone() }
}

/// The refusal to close a snapshot that a program uses.
fn snapshot_in_use(dataset: &str, snapshot: &str, mount: &Mount, used: SnapshotInUse) -> Fault {
    let dir = quoted(mount.path());
    let how = match used.open {
        0 => "a program has its working directory in it".to_owned(),
        1 => "1 file or directory of it is open".to_owned(),
        n => format!("{n} files and directories of it are open"),
    };
    Fault::new(
        libc::EBUSY,
        format!(
            "{dataset}@{snapshot} is in use in {dir}/.zfs/snapshot/{snapshot}: {how}\n\
             hint: end the programs that `fuser -vm {dir}` lists, then try again"
        ),
    )
}

fn fault(why: &crate::Error) -> Fault {
    use crate::Error as E;
    let errno = match why {
        E::Busy(_) | E::Covered { .. } | E::WorkingDirectory { .. } => libc::EBUSY,
        E::Vital(_) | E::System(_) => libc::EPERM,
        E::NotEmpty { .. } => libc::ENOTEMPTY,
        E::NoDevice(why) => why.raw_os_error().unwrap_or(libc::ENODEV),
        E::DeadMount(_) => libc::ENOTCONN,
        _ => libc::EIO,
    };
    Fault { kind: why.kind().map(Box::new), ..Fault::new(errno, why.to_string()) }
}

impl MountTable {
    /// An empty table, which reports to `frontend`.
    pub fn new(frontend: Arc<dyn Frontend>) -> MountTable {
        let (rows, changed, is_logged) = (Mutex::default(), Condvar::new(), AtomicBool::new(false));
        MountTable { inner: Arc::new(Inner { rows, changed, frontend, is_logged }) }
    }

    /// Reports all mounts, and from now on every mount and unmount.
    pub fn start_logging(&self) {
        self.inner.is_logged.store(true, Ordering::Relaxed);
        let rows = self.inner.lock();
        rows.entries.iter().filter(|e| e.live().is_some()).for_each(|e| self.inner.log_mount(&e.mounted));
    }

    /// Waits until something changes, at most for `longest`. Returns whether a mount is left; if not, all further mounts are
    /// refused.
    pub fn wait(&self, longest: Duration) -> bool {
        let mut rows = self.inner.lock();
        if !rows.entries.is_empty() {
            rows = self.inner.wait(rows, longest);
        }
        rows.ended |= rows.entries.is_empty();
        !rows.entries.is_empty()
    }

    /// Whether a dataset is mounted and not only writing its last changes.
    pub fn serves(&self) -> bool {
        self.inner.lock().entries.iter().filter_map(Entry::live).any(|mount| !mount.is_ending())
    }

    /// Starts the thread that waits for the end of a mount, and then closes its dataset and its trace.
    fn follow(
        &self,
        mount: Arc<Mount>,
        mounted: &Mounted,
        recorder: Option<TraceRecorder>,
    ) -> std::io::Result<()> {
        let inner = Arc::clone(&self.inner);
        let (dataset, dir) = (mounted.dataset.clone(), quoted(&mounted.dir).to_string());
        let thread = std::thread::Builder::new().name("mount".into());
        thread.spawn(move || {
            if let Err(why) = mount.wait() {
                inner.frontend.log(Severity::Warning, &format!("{dir}: {why}"));
            }
            let mut rows = inner.lock();
            let entry = rows.entries.iter_mut().find(|e| e.mounted.dataset == dataset);
            let live = entry.map(|entry| std::mem::replace(&mut entry.state, State::Ending));
            drop(rows);
            inner.changed.notify_all();
            // Dropping the last reference to the mount ends the trace and closes the dataset, which waits for its last
            // transaction group. Not under the lock.
            drop(live);
            drop(mount);
            if let Some(why) = recorder.and_then(|recorder| recorder.finish().err()) {
                inner.frontend.log(Severity::Warning, &format!("the trace of {dir}: {why}"));
            }
            inner.log(&format!("{dataset} unmounted from {dir}"));
            inner.forget(&dataset);
        })?;
        Ok(())
    }

    /// Mounts a dataset that has a row.
    fn start(
        &self,
        pool: &Pool,
        wanted: &Mounted,
        mut options: Options,
    ) -> Result<(Arc<Mount>, Option<TraceRecorder>), Fault> {
        let dataset = open_dataset(pool, wanted, &*self.inner.frontend)?;
        let recorder = match &wanted.record {
            Some(trace) => Some(
                TraceRecorder::start(trace, &dataset, &wanted.dir, &options)
                    .map_err(|why| Fault::new(libc::EIO, why.to_string()))?,
            ),
            None => None,
        };
        options.observer = recorder.as_ref().map(TraceRecorder::observer);
        let started = Mount::start(pool, &dataset, &wanted.dir, &options);
        drop(options);
        drop(dataset); // a rollback needs the mount's handle to be the only one
        match started {
            Ok(mount) => Ok((Arc::new(mount), recorder)),
            Err(why) => {
                // The recorder holds the dataset open until it has ended.
                let _ = recorder.map(TraceRecorder::finish);
                Err(fault(&why))
            }
        }
    }

    /// Unmounts every mount that no program uses, the newest first, because it may be inside an older one. Refuses all further
    /// mounts.
    ///
    /// # Errors
    /// `EBUSY`, which names a mount in use.
    pub fn unmount_idle(&self) -> Result<(), Fault> {
        self.inner.lock().ended = true;
        let mut first = Ok(());
        for (mount, _) in self.live() {
            first = first.and(mount.unmount().map_err(|why| fault(&why)));
        }
        first?;
        self.wait_flushed()
    }

    /// All mounts, the newest first.
    fn live(&self) -> Vec<(Arc<Mount>, Mounted)> {
        let mut rows = self.inner.lock();
        while rows.entries.iter().any(|e| matches!(e.state, State::Starting)) {
            rows = self.inner.wait(rows, Duration::from_secs(1));
        }
        rows.entries.iter().rev().filter_map(|e| Some((Arc::clone(e.live()?), e.mounted.clone()))).collect()
    }

    fn wait_flushed(&self) -> Result<(), Fault> {
        let start = Instant::now();
        while self.wait(Duration::from_millis(100)) {
            if start.elapsed() > ENDING {
                return Err(Fault::new(
                    libc::ETIMEDOUT,
                    "unmounted, but still flushing\nhint: try again later",
                ));
            }
        }
        Ok(())
    }

    /// Unmounts all mounts, or none if a program uses one of them.
    fn unmount_all(&self) -> Result<(), Fault> {
        let all = self.live();
        for (mount, mounted) in &all {
            let others = all.iter().map(|(_, other)| other.dir.as_path());
            let inside: Vec<&Path> =
                others.filter(|dir| *dir != mounted.dir && dir.starts_with(&mounted.dir)).collect();
            mount.check_idle(&inside).map_err(|why| fault(&why))?;
        }
        let mut unmounted: Vec<String> = Vec::new();
        for (mount, Mounted { dataset, dir, .. }) in &all {
            if let Err(why) = mount.unmount() {
                return Err(partly_unmounted(fault(&why), &unmounted));
            }
            unmounted.push(format!("{dataset} from {}", quoted(&dir)));
        }
        Ok(())
    }
}

/// Adds the mounts that were unmounted before a program began to use another one.
fn partly_unmounted(why: Fault, unmounted: &[String]) -> Fault {
    if unmounted.is_empty() {
        return why;
    }
    let (cause, hint) = why.message.split_at(why.message.find('\n').unwrap_or(why.message.len()));
    let message = format!("{cause} (unmounted before that: {}){hint}", unmounted.join(", "));
    Fault::new(why.errno, message).of_kind(FaultKind::PartlyUnmounted)
}

impl Mounts for MountTable {
    fn list(&self) -> Vec<(Mounted, MountCounters)> {
        let one = |e: &Entry| {
            let counters = e.live()?.counters();
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
        self.inner.lock().entries.iter().filter_map(one).collect()
    }

    fn dataset(&self, name: &str) -> Option<Dataset> {
        self.inner.of(name)?.dataset()
    }

    fn with_snapshot(
        &self,
        dataset: &str,
        snapshot: &str,
        look: &mut dyn FnMut(&Dataset),
    ) -> Option<Result<(), Fault>> {
        let looked = self.inner.of(dataset)?.with_snapshot(snapshot, look);
        Some(
            looked.map_err(|why| {
                Fault::new(why.0, format!("opening the snapshot {dataset}@{snapshot}: {why}"))
            }),
        )
    }

    fn without_snapshot(
        &self,
        dataset: &str,
        snapshot: &str,
        then: &mut dyn FnMut() -> Result<(), Fault>,
    ) -> Option<Result<(), Fault>> {
        let mount = self.inner.of(dataset)?;
        let done = mount.without_snapshot(snapshot, then);
        Some(done.unwrap_or_else(|used| Err(snapshot_in_use(dataset, snapshot, &mount, used))))
    }

    fn refuse_changes(&self) {
        self.inner.lock().entries.iter().filter_map(Entry::live).for_each(|mount| mount.refuse_changes());
    }

    fn roll_back(&self, dataset: &str, snapshot: &str) -> Option<Result<(), Fault>> {
        Some(self.inner.of(dataset)?.roll_back(snapshot).map_err(Fault::from))
    }

    fn settle(&self, dataset: &str) -> Result<(), Fault> {
        let start = Instant::now();
        let mut rows = self.inner.lock();
        while let Some(entry) = rows.entries.iter().find(|e| e.mounted.dataset == dataset) {
            let longest = match &entry.state {
                State::Starting => return Ok(()),
                State::Live(mount) if mount.is_mounted() => return Ok(()),
                State::Live(mount) if !mount.is_ending() => NOTICE,
                State::Live(_) | State::Ending => ENDING,
            };
            if start.elapsed() > longest {
                let dir = quoted(&entry.mounted.dir);
                return Err(Fault::new(
                    libc::EBUSY,
                    format!(
                        "{dataset} was unmounted from {dir} and is still in use after {} s\n\
                         hint: in every mount namespace, end the programs that have files open in it",
                        start.elapsed().as_secs()
                    ),
                ));
            }
            rows = self.inner.wait(rows, Duration::from_millis(50));
        }
        Ok(())
    }

    fn mount(&self, pool: &Pool, wanted: &Mounted) -> Result<Mounted, Fault> {
        let options = options(wanted)?;
        let mounted = described(wanted, &options);
        if let (Some(caller), false) = (wanted.caller, wanted.overlay) {
            refuse_working_directory(&wanted.dir, caller).map_err(|why| fault(&why))?;
        }
        self.inner.reserve(pool, &mounted)?;
        let (mount, recorder) = match self.start(pool, wanted, options) {
            Ok(started) => started,
            Err(why) => {
                self.inner.forget(&mounted.dataset);
                return Err(why);
            }
        };
        let live = Arc::clone(&mount);
        self.inner.change(|rows| {
            let entry = rows.entries.iter_mut().find(|e| e.mounted.dataset == mounted.dataset);
            if let Some(entry) = entry {
                entry.state = State::Live(live);
            }
        });
        self.inner.log_mount(&mounted);
        self.follow(mount, &mounted, recorder)
            .map_err(|why| Fault::new(libc::EAGAIN, format!("starting a thread: {why}")))?;
        Ok(mounted)
    }

    fn release(&self) -> Result<(), Fault> {
        self.inner.lock().releasing += 1;
        let released = self.unmount_all().and_then(|()| self.wait_flushed());
        self.inner.change(|rows| rows.releasing -= 1);
        released
    }

    fn owns(&self) -> bool {
        true
    }
}
