//! The outcome of the last reads of a source.

use std::time::{Duration, Instant};

use crate::SourceReadings;
use poolwright_report::text::age;

/// Time after which a source that has not answered counts as down, as a scrape of the exporter sees it.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// A source, and how its last read went.
#[derive(Clone, Debug)]
pub struct SourceState {
    /// The source as the poller returned it.
    pub last: SourceReadings,
    /// When the poller returned it.
    taken: Instant,
}

/// Whether a source works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The last read succeeded.
    Up,
    /// The first read has not ended yet.
    Starting,
    /// The present read has been running for longer than [`ANSWER_LIMIT`].
    NoAnswer(Duration),
    /// The last read failed.
    Failed,
}

impl SourceState {
    /// The state of a source that the poller returned at the time `taken`.
    pub fn new(source: &SourceReadings, taken: Instant) -> SourceState {
        SourceState { last: source.clone(), taken }
    }

    /// Whether it works at the time `now`.
    pub fn condition(&self, now: Instant) -> Condition {
        let running = self.last.overdue.map(|overdue| overdue + now.saturating_duration_since(self.taken));
        match running.filter(|running| *running >= ANSWER_LIMIT) {
            Some(running) => Condition::NoAnswer(running),
            None if self.last.error.is_some() => Condition::Failed,
            None if self.last.age.is_none() => Condition::Starting,
            None => Condition::Up,
        }
    }

    /// Whether its readings are not the present ones, because it fails or does not answer.
    pub fn is_down(&self, now: Instant) -> bool {
        matches!(self.condition(now), Condition::NoAnswer(_) | Condition::Failed)
    }

    /// The age of its readings.
    pub fn age(&self, now: Instant) -> Option<Duration> {
        self.last.age.map(|age| age + now.saturating_duration_since(self.taken))
    }

    /// The source's name, followed by its pool.
    pub fn title(&self) -> String {
        format!("{} {}", self.last.name.source, self.last.name.pool).trim_end().to_owned()
    }
}

impl Condition {
    /// The condition in a few words.
    pub fn text(self) -> String {
        match self {
            Condition::Up => "up".to_owned(),
            Condition::Starting => "starting".to_owned(),
            Condition::NoAnswer(time) => format!("no answer for {}", age(time.as_secs())),
            Condition::Failed => "error".to_owned(),
        }
    }
}
