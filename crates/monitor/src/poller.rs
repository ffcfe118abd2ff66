//! Runs each source in a separate thread, and keeps its last readings.
//!
//! A scrape calls [`Poller::refresh`], which starts a read of every idle source, waits up to a time limit, and returns the last readings of
//! all sources. A source that hangs occupies its thread, and for a moment one of the [`turns`]; the next scrapes do not start another read
//! of it.

mod turns;

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use self::turns::Turns;
use crate::family::{SOURCE, SOURCE_AGE, SOURCE_DURATION, SOURCE_FAILURES, SOURCE_READS, SOURCE_UP};
use crate::source::{Discovery, SourceName};
use crate::{Error, Readings, Result, Source};

/// Stack of a source's thread in bytes.
const STACK: usize = 512 << 10;

/// The last readings of a source, and how its reads went.
#[derive(Clone, Debug)]
pub struct SourceReadings {
    /// The source.
    pub name: SourceName,
    /// The last readings, shared with the poller; `None` before the first successful read.
    pub readings: Option<Arc<Readings>>,
    /// The time since they were read.
    pub age: Option<Duration>,
    /// Duration of the last finished read.
    pub duration: Option<Duration>,
    /// The error of the last finished read, if it failed.
    pub error: Option<String>,
    /// How long the present read has been running or waiting for its turn, if it exceeded the time limit of the scrape.
    pub overdue: Option<Duration>,
    /// Number of finished reads.
    pub reads: u64,
    /// Number of reads that failed.
    pub failures: u64,
}

impl SourceReadings {
    /// Whether the last read succeeded, and no read is overdue.
    pub fn is_up(&self) -> bool {
        self.readings.is_some() && self.error.is_none() && self.overdue.is_none()
    }
}

/// The metrics of the sources themselves.
pub fn source_metrics(sources: &[SourceReadings]) -> Readings {
    let mut readings = Readings::default();
    for source in sources {
        readings
            .add(&SOURCE, [source.name.source, &source.name.pool])
            .flag(&SOURCE_UP, source.is_up())
            .set(&SOURCE_AGE, source.age.map(|age| age.as_secs_f64()))
            .set(&SOURCE_DURATION, source.duration.map(|duration| duration.as_secs_f64()))
            .count(&SOURCE_READS, source.reads)
            .count(&SOURCE_FAILURES, source.failures);
    }
    readings
}

/// The state that a source's thread and the poller share.
#[derive(Debug, Default)]
struct State {
    /// When the poller requested a read that has not begun.
    requested: Option<Instant>,
    /// Set by the poller when the source no longer exists.
    ended: bool,
    /// The start of the present read.
    started: Option<Instant>,
    last: Option<(Arc<Readings>, Instant)>,
    /// Start and duration of the last finished read.
    finished: Option<(Instant, Duration)>,
    error: Option<String>,
    reads: u64,
    failures: u64,
}

impl State {
    fn is_busy(&self) -> bool {
        self.requested.is_some() || self.started.is_some()
    }
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    /// The state is consistent after every statement, so a panic of another thread does not invalidate it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a read is wanted. `false` if the source has ended.
    fn wait_wanted(&self) -> bool {
        let mut state = self.lock();
        while state.requested.is_none() && !state.ended {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.ended
    }
}

#[derive(Debug)]
struct Slot {
    shared: Arc<Shared>,
    interval: Duration,
}

impl Slot {
    fn start(source: Box<dyn Source>, turns: Arc<Turns>) -> Result<Slot> {
        let (shared, interval) = (Arc::new(Shared::default()), source.interval());
        let for_thread = Arc::clone(&shared);
        let name = source.name();
        thread::Builder::new()
            .name(format!("{} {}", name.source, name.pool).trim().chars().take(15).collect())
            .stack_size(STACK)
            .spawn(move || serve(source, &for_thread, &turns))
            .map_err(|cause| Error::Start { what: "the thread of a source", cause })?;
        Ok(Slot { shared, interval })
    }

    /// Requests a read, unless one is running or the last one is recent.
    fn request(&self) {
        let mut state = self.shared.lock();
        let recent = state.finished.is_some_and(|(began, _)| began.elapsed() < self.interval);
        if !recent && !state.is_busy() {
            state.requested = Some(Instant::now());
            self.shared.changed.notify_all();
        }
    }

    /// Waits until no read is running, at most until `end`, and not for a read that has already taken `limit`.
    fn wait(&self, end: Instant, limit: Duration) {
        let mut state = self.shared.lock();
        while state.is_busy() {
            let end = state.started.map_or(end, |began| end.min(began + limit));
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let woken = self.shared.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn readings(&self, name: &SourceName) -> SourceReadings {
        let state = self.shared.lock();
        SourceReadings {
            name: name.clone(),
            readings: state.last.as_ref().map(|(readings, _)| Arc::clone(readings)),
            age: state.last.as_ref().map(|(_, at)| at.elapsed()),
            duration: state.finished.map(|(_, duration)| duration),
            error: state.error.clone(),
            overdue: state.started.or(state.requested).map(|began| began.elapsed()),
            reads: state.reads,
            failures: state.failures,
        }
    }
}

impl Drop for Slot {
    /// The thread ends when it is idle; a read that hangs keeps its thread.
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
    }
}

/// The thread of a source: reads whenever a read is wanted.
fn serve(mut source: Box<dyn Source>, shared: &Shared, turns: &Turns) {
    while shared.wait_wanted() {
        // Ends after the new readings have replaced the old ones.
        let _turn = turns.wait();
        let began = Instant::now();
        {
            let mut state = shared.lock();
            if state.ended {
                return;
            }
            (state.requested, state.started) = (None, Some(began));
        }
        let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| source.read()));
        let mut state = shared.lock();
        state.started = None;
        state.finished = Some((began, began.elapsed()));
        state.reads += 1;
        match read {
            Ok(Ok(mut readings)) => {
                readings.shrink();
                (state.last, state.error) = (Some((Arc::new(readings), began)), None);
            }
            Ok(Err(error)) => state.error = Some(error.to_string()),
            Err(_) => state.error = Some("the source's code panicked".to_owned()),
        }
        state.failures += u64::from(state.error.is_some());
        shared.changed.notify_all();
    }
}

/// All sources.
pub struct Poller {
    discoveries: Vec<Box<dyn Discovery>>,
    turns: Arc<Turns>,
    slots: Mutex<BTreeMap<SourceName, Slot>>,
}

impl std::fmt::Debug for Poller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Poller").finish_non_exhaustive()
    }
}

impl Poller {
    /// A poller of the sources that `discoveries` find at each refresh.
    pub fn new(discoveries: Vec<Box<dyn Discovery>>) -> Poller {
        Poller { discoveries, turns: Arc::default(), slots: Mutex::default() }
    }

    /// Reads all sources whose interval has passed and that are idle, for at most `limit`, and returns the last readings of
    /// every source, by name.
    ///
    /// # Errors
    /// [`Error::Start`] if the thread of a new source cannot be started.
    pub fn refresh(&self, limit: Duration) -> Result<Vec<SourceReadings>> {
        let end = Instant::now() + limit;
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let mut old = std::mem::take(&mut *slots);
        for source in self.discoveries.iter().flat_map(|discovery| discovery.sources()) {
            let name = source.name();
            let slot = match old.remove(&name) {
                Some(slot) => slot,
                None => Slot::start(source, Arc::clone(&self.turns))?,
            };
            slots.insert(name, slot);
        }
        slots.values().for_each(Slot::request);
        slots.values().for_each(|slot| slot.wait(end, limit));
        Ok(slots.iter().map(|(name, slot)| slot.readings(name)).collect())
    }
}

#[cfg(test)]
mod tests;
