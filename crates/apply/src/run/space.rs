//! Watches the free space while files are copied, so that the database does not run out of it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use poolwright_base::directory::Directory;
use poolwright_base::units::format_size;
use poolwright_base::{cannot, quoted, room};

use crate::assessment::RESERVE;
use crate::error::refused;
use crate::{Error, Result};

/// For how long the database must be able to go on writing at its rate. Within this time, a run that ends has removed its copies, and their
/// space is free again.
const RESERVE_TIME: Duration = Duration::from_secs(20);
/// How often the free space is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The maximum number of bytes copied between two checks of the space.
const LOOK_BYTES: u64 = 16 << 20;
/// How long check results are kept. OpenZFS counts what was written at the end of a transaction group, by default every 5 s.
const WINDOW: Duration = Duration::from_secs(6);
/// Rates are not measured over less than this.
const MIN_TIME: Duration = Duration::from_secs(1);
/// For how long a rate of the database is valid, unless it writes more than [`UNEXPECTED`].
const VALID: Duration = Duration::from_secs(5);
/// So many bytes that were not copied make a measured rate invalid.
const UNEXPECTED: u64 = 16 << 20;
/// How often a pause checks whether the user wants to stop.
const POLL: Duration = Duration::from_millis(50);

/// The free space at a time.
#[derive(Clone, Copy, Debug)]
struct SpaceLook {
    at: Instant,
    /// Bytes available, and bytes copied until then.
    available: u64,
    copied: u64,
}

/// The parts of the run that a watch needs.
pub(super) struct SpaceContext<'a> {
    /// The mount point of the dataset in which files are copied.
    pub root: &'a Directory,
    /// Whether the user wants to stop.
    pub is_interrupted: &'a dyn Fn() -> bool,
    /// Writes to the pool what was copied, so that it does not count for the database.
    pub flush: &'a dyn Fn() -> Result<()>,
}

/// Watches the free space of a dataset while files are copied in it. Quotas of the dataset and of those above it count too.
#[derive(Debug)]
pub(super) struct SpaceWatch {
    /// Whether the database may run.
    is_online: bool,
    copied: u64,
    looks: VecDeque<SpaceLook>,
    /// When the rate of the database was measured, and the bytes that had to stay free according to it.
    measured: Option<(SpaceLook, u64)>,
}

impl SpaceWatch {
    /// For copying while the database may run (`is_online`) or is stopped.
    pub fn new(is_online: bool) -> SpaceWatch {
        SpaceWatch { is_online, copied: 0, looks: VecDeque::new(), measured: None }
    }

    /// Refuses if too little space would be left after copying this many more bytes. If it could end soon, pauses to measure what the
    /// database writes.
    ///
    /// # Errors
    /// [`Error::Refused`]; [`Error::Interrupted`]; the errors of the host and of the flush.
    pub fn add(&mut self, bytes: u64, context: &SpaceContext<'_>) -> Result<()> {
        self.copied += bytes;
        let is_new =
            |last: &SpaceLook| last.at.elapsed() < LOOK_EVERY && self.copied - last.copied < LOOK_BYTES;
        if self.looks.back().is_some_and(is_new) {
            return Ok(());
        }
        self.looks.retain(|look| look.at.elapsed() < WINDOW);
        let mut now = self.look(context.root)?;
        let mut first = *self.looks.front().unwrap_or(&now);
        if now.available < RESERVE.saturating_add(now.copied - first.copied) {
            // What was copied in this time may not be counted yet.
            (context.flush)()?;
            now = self.look(context.root)?;
            first = now;
            self.looks.clear();
        }
        if now.available < RESERVE {
            return short(context.root, now.available, 0);
        }
        self.looks.push_back(now);
        // Both rates contain what was copied, so they are above that of the database.
        let all = rate(first, now).max(per_second(now.copied - first.copied, first.at.elapsed()));
        if self.is_online && now.available < reserve(all) && self.is_measurement_due(now) {
            self.measure(context)?;
        }
        Ok(())
    }

    fn is_measurement_due(&self, now: SpaceLook) -> bool {
        let Some((then, reserve)) = self.measured else { return true };
        let (used, copied) = (then.available.saturating_sub(now.available), now.copied - then.copied);
        now.at.duration_since(then.at) >= VALID
            || used.saturating_sub(copied) >= UNEXPECTED
            || then.available.saturating_sub(copied) < reserve.saturating_add(LOOK_BYTES)
    }

    /// Measures how fast the space shrinks while nothing is copied.
    fn measure(&mut self, context: &SpaceContext<'_>) -> Result<()> {
        (context.flush)()?;
        let first = self.look(context.root)?;
        while first.at.elapsed() < MIN_TIME {
            if (context.is_interrupted)() {
                return Err(Error::Interrupted);
            }
            std::thread::sleep(POLL);
        }
        (context.flush)()?;
        let now = self.look(context.root)?;
        let rate = rate(first, now);
        if now.available < reserve(rate).saturating_add(LOOK_BYTES) {
            return short(context.root, now.available, rate);
        }
        self.looks = VecDeque::from([now]);
        self.measured = Some((now, reserve(rate)));
        Ok(())
    }

    fn look(&self, root: &Directory) -> Result<SpaceLook> {
        let available = room::available(&root.descriptor_path());
        let available = available.map_err(cannot("inspect", root.path()))?;
        Ok(SpaceLook { at: Instant::now(), available, copied: self.copied })
    }
}

/// The bytes that must stay free if others write this many per second.
fn reserve(rate: u64) -> u64 {
    RESERVE.saturating_add(rate.saturating_mul(RESERVE_TIME.as_secs()))
}

/// How fast the space shrinks, in bytes a second.
fn rate(from: SpaceLook, to: SpaceLook) -> u64 {
    per_second(from.available.saturating_sub(to.available), to.at.duration_since(from.at))
}

fn per_second(bytes: u64, time: Duration) -> u64 {
    (bytes as f64 / time.max(MIN_TIME).as_secs_f64()) as u64
}

fn short(root: &Directory, available: u64, rate: u64) -> Result<()> {
    let writes = match rate {
        0 => String::new(),
        rate => format!(
            ": the database writes {} a second, so {} must stay free",
            format_size(rate),
            format_size(reserve(rate))
        ),
    };
    refused(format!(
        "{} has only {} left{writes}\nhint: free space, or destroy unneeded snapshots; a quota counts too",
        quoted(root.path()),
        format_size(available)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: u64 = 1 << 20;

    fn watch(at: Instant, available: u64, reserve: u64) -> SpaceWatch {
        let look = SpaceLook { at, available, copied: 0 };
        SpaceWatch { measured: Some((look, reserve)), ..SpaceWatch::new(true) }
    }

    #[test]
    fn the_reserve_grows_with_the_rate_of_the_database() {
        let start = Instant::now();
        let look = |after: u64, available| SpaceLook {
            at: start + Duration::from_millis(after),
            available,
            copied: 0,
        };
        assert_eq!(rate(look(0, 500 * M), look(2000, 300 * M)), 100 * M);
        assert_eq!(rate(look(0, 500 * M), look(100, 490 * M)), 10 * M, "not over less than a second");
        assert_eq!(rate(look(0, 300 * M), look(1000, 500 * M)), 0);
        assert_eq!(reserve(0), RESERVE);
        assert_eq!(reserve(10 * M), RESERVE + 200 * M);
    }

    #[test]
    fn the_database_is_measured_again_when_it_writes_more_or_the_space_is_used_up() {
        let start = Instant::now();
        let watch = watch(start, 1000 * M, 100 * M);
        let is_due = |ms, available, copied| {
            watch.is_measurement_due(SpaceLook { at: start + Duration::from_millis(ms), available, copied })
        };
        assert!(!is_due(500, 900 * M, 100 * M), "only what was copied is gone");
        assert!(!is_due(500, 1000 * M, 300 * M), "what was copied is not counted yet");
        assert!(is_due(500, 880 * M, 100 * M), "others write");
        assert!(is_due(500, 1000 * M, 890 * M), "no more may be copied");
        assert!(is_due(5000, 1000 * M, 0), "it is old");
    }

    #[test]
    fn a_file_system_that_is_nearly_full_is_refused_and_a_pause_can_be_interrupted() {
        let dir = tempfile::tempdir().unwrap();
        let root = Directory::open(dir.path()).unwrap();
        let context = |is_interrupted| SpaceContext { root: &root, is_interrupted, flush: &|| Ok(()) };
        let mut watch = SpaceWatch::new(true);
        watch.add(M, &context(&|| false)).unwrap();
        assert!(matches!(watch.measure(&context(&|| true)), Err(Error::Interrupted)));
        let why = short(&root, 70 * M, 10 * M).unwrap_err();
        assert!(why.is_refusal() && why.to_string().contains("writes 10"), "{why}");
    }
}
