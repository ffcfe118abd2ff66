//! The mounts of this process.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use poolwright_mount::{Caching, Mount, Options, SnapshotInUse, TraceRecorder, refuse_working_directory};
use poolwright_openzfs::{Dataset, Pool};
use poolwright_userpool::{ENDING, Fault, MountCounters, Mounted, Mounts};

use super::open;

/// How long a mount that was taken out of sight, and that its serving threads still have, is waited for: they notice at
/// once, unless programs or another mount namespace still use it.
const NOTICE: Duration = Duration::from_secs(10);

struct Entry {
    mounted: Mounted,
    state: State,
}

enum State {
    /// It is being mounted.
    Starting,
    Live(Arc<Mount>),
    /// The last changes are being written.
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

/// All mounts; each has a thread that waits for its end.
#[derive(Default)]
pub struct Table {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    rows: Mutex<Rows>,
    changed: Condvar,
    /// Whether mounts and unmounts are said, for a log.
    logged: AtomicBool,
}

#[derive(Default)]
struct Rows {
    entries: Vec<Entry>,
    /// The last mount has ended: no other is taken.
    ended: bool,
    /// Those who are unmounting all; meanwhile none is taken.
    releasing: usize,
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, rows: MutexGuard<'a, Rows>, longest: Duration) -> MutexGuard<'a, Rows> {
        self.changed.wait_timeout(rows, longest).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Changes the rows, and tells those who wait for that.
    fn change(&self, change: impl FnOnce(&mut Rows)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// The mount of a dataset; one that is writing its last changes is waited for. Not to be used under the lock: a
    /// rollback may take its time.
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

    /// A place for a mount that is being made. After this, the process stays until it has been made or given up.
    fn reserve(&self, pool: &Pool, mounted: &Mounted) -> Result<(), Fault> {
        let mut rows = self.lock();
        if rows.ended || rows.releasing > 0 {
            return Err(Fault::ending(pool.name(), std::process::id()));
        }
        if let Some(other) = rows.entries.iter().find(|e| e.mounted.dataset == mounted.dataset) {
            let (dataset, dir) = (&mounted.dataset, other.mounted.dir.display());
            return Err(Fault::new(libc::EBUSY, format!("{dataset} is being mounted on {dir} already")));
        }
        rows.entries.push(Entry { mounted: mounted.clone(), state: State::Starting });
        Ok(())
    }

    fn log_mount(&self, mounted: &Mounted) {
        if self.logged.load(Ordering::Relaxed) {
            tell!("poolwright: note: {} mounted on {}", mounted.dataset, mounted.dir.display());
        }
    }

    fn forget(&self, dataset: &str) {
        self.change(|rows| rows.entries.retain(|e| e.mounted.dataset != dataset));
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
    let mut options = Options { readonly: wanted.readonly, overlay: wanted.overlay, ..Options::default() };
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
    Mounted { caching: Some(caching.into()), threads: Some(options.threads), caller: None, ..wanted.clone() }
}

/// The refusal to destroy a snapshot that a program uses.
fn snapshot_in_use(dataset: &str, snapshot: &str, mount: &Mount, used: SnapshotInUse) -> Fault {
    let dir = mount.path().display();
    let how = match used.open {
        0 => "a program has its working directory in it".to_owned(),
        1 => "1 file or directory of it is open".to_owned(),
        n => format!("{n} files and directories of it are open"),
    };
    Fault::new(
        libc::EBUSY,
        format!(
            "{dataset}@{snapshot} is in use in {dir}/.zfs/snapshot/{snapshot}: {how}\nhint: `fuser -vm {dir}` shows the \
             programs; try again when they have left it"
        ),
    )
}

fn fault(why: &poolwright_mount::Error) -> Fault {
    use poolwright_mount::Error as E;
    let errno = match why {
        E::Busy { .. } | E::Covered { .. } => libc::EBUSY,
        E::Unsafe { .. } => libc::EPERM,
        E::NotEmpty { .. } => libc::ENOTEMPTY,
        E::NoDevice(why) => why.raw_os_error().unwrap_or(libc::ENODEV),
        E::DeadMount { .. } => libc::ENOTCONN,
        _ => libc::EIO,
    };
    Fault::new(errno, why.to_string())
}

impl Table {
    /// From now on says what is mounted and unmounted, for a log; also what is mounted already.
    pub fn log(&self) {
        self.inner.logged.store(true, Ordering::Relaxed);
        let rows = self.inner.lock();
        rows.entries.iter().filter(|e| e.live().is_some()).for_each(|e| self.inner.log_mount(&e.mounted));
    }

    /// Waits until something changes, at most so long. Whether a mount is left; if not, no other is taken
    /// from now on.
    pub fn wait(&self, longest: Duration) -> bool {
        let mut rows = self.inner.lock();
        if !rows.entries.is_empty() {
            rows = self.inner.wait(rows, longest);
        }
        rows.ended |= rows.entries.is_empty();
        !rows.entries.is_empty()
    }

    /// Whether a dataset is mounted: none that is only being flushed after its end.
    pub fn serves(&self) -> bool {
        self.inner.lock().entries.iter().filter_map(Entry::live).any(|mount| !mount.is_ending())
    }

    /// Waits for the end of a mount, whoever ends it, and lets go of what it held.
    fn follow(
        &self,
        mount: Arc<Mount>,
        mounted: &Mounted,
        recorder: Option<TraceRecorder>,
    ) -> std::io::Result<()> {
        let inner = Arc::clone(&self.inner);
        let (dataset, dir) = (mounted.dataset.clone(), mounted.dir.display().to_string());
        let thread = std::thread::Builder::new().name("mount".into());
        thread.spawn(move || {
            if let Err(why) = mount.wait() {
                tell!("poolwright: {dir}: {why}");
            }
            let mut rows = inner.lock();
            let entry = rows.entries.iter_mut().find(|e| e.mounted.dataset == dataset);
            let live = entry.map(|entry| std::mem::replace(&mut entry.state, State::Ending));
            drop(rows);
            inner.changed.notify_all();
            // The trace ends with the last hold on the mount. With it the dataset is closed, which waits for its last
            // transaction group. Neither under the lock.
            drop(live);
            drop(mount);
            if let Some(why) = recorder.and_then(|recorder| recorder.finish().err()) {
                tell!("poolwright: the trace of {dir}: {why:#}");
            }
            if inner.logged.load(Ordering::Relaxed) {
                tell!("poolwright: note: {dataset} unmounted from {dir}");
            }
            inner.forget(&dataset);
        })?;
        Ok(())
    }

    /// Mounts what has its place among the entries.
    fn start(
        &self,
        pool: &Pool,
        wanted: &Mounted,
        mut options: Options,
    ) -> Result<(Arc<Mount>, Option<TraceRecorder>), Fault> {
        let dataset = open::dataset(pool, wanted)?;
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
        drop(dataset); // the mount has its own hold on it, and a rollback needs the only one
        match started {
            Ok(mount) => Ok((Arc::new(mount), recorder)),
            Err(why) => {
                // It holds the dataset open until it has ended.
                let _ = recorder.map(TraceRecorder::finish);
                Err(fault(&why))
            }
        }
    }

    /// Unmounts what is free, the last one first: it may be mounted inside an earlier one. `EBUSY` names one in use. No mount
    /// is taken from now on.
    pub fn unmount_free(&self) -> Result<(), Fault> {
        self.inner.lock().ended = true;
        let mut first = Ok(());
        for (mount, _) in self.live() {
            first = first.and(mount.unmount().map_err(|why| fault(&why)));
        }
        first?;
        self.wait_flushed()
    }

    /// All that is mounted, the last one first.
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
                return Err(Fault::new(libc::ETIMEDOUT, "unmounted, and still flushing; ask again later"));
            }
        }
        Ok(())
    }

    /// Unmounts all if all can be unmounted.
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
                return Err(halfway(fault(&why), &unmounted));
            }
            unmounted.push(format!("{dataset} from {}", dir.display()));
        }
        Ok(())
    }
}

/// A program began to use a mount after all had been found free.
fn halfway(why: Fault, unmounted: &[String]) -> Fault {
    if unmounted.is_empty() {
        return why;
    }
    let words = format!(
        "{}; unmounted before that: {}\nhint: mount these again with `poolwright mount DATASET DIR`",
        why.message,
        unmounted.join(", ")
    );
    Fault::new(why.errno, words)
}

impl Mounts for Table {
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
                let dir = entry.mounted.dir.display();
                return Err(Fault::new(
                    libc::EBUSY,
                    format!(
                        "{dataset} was unmounted from {dir} and is still in use after {} s\n\
                         hint: end the programs that have files open in it; another mount namespace may have it too",
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
