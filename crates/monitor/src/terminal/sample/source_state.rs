//! How the last reads of a source went.

use std::time::{Duration, Instant};

use crate::SourceReadings;
use crate::source::SourceName;
use poolwright_report::text::age;

/// Time after which a source that has not answered counts as down, as a scrape of the exporter sees it.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// A source, and how its last read went.
#[derive(Clone, Debug)]
pub struct SourceState {
    /// The source.
    pub name: SourceName,
    /// When its last readings were read.
    pub read_at: Option<Instant>,
    /// When the present read began, if one was running.
    pub reading_since: Option<Instant>,
    /// Duration of the last finished read.
    pub duration: Option<Duration>,
    /// The error of the last finished read, if it failed.
    pub error: Option<String>,
    /// Number of finished reads.
    pub reads: u64,
    /// Number of reads that failed.
    pub failures: u64,
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
    /// The state of a source at the time `now`.
    pub fn new(source: &SourceReadings, now: Instant) -> SourceState {
        let before = |time: Duration| now.checked_sub(time);
        SourceState {
            name: source.name.clone(),
            read_at: source.age.and_then(before),
            reading_since: source.overdue.and_then(before),
            duration: source.duration,
            error: source.error.clone(),
            reads: source.reads,
            failures: source.failures,
        }
    }

    /// Whether it works at the time `now`.
    pub fn condition(&self, now: Instant) -> Condition {
        let running = self.reading_since.map(|since| now.saturating_duration_since(since));
        match running.filter(|running| *running >= ANSWER_LIMIT) {
            Some(running) => Condition::NoAnswer(running),
            None if self.error.is_some() => Condition::Failed,
            None if self.read_at.is_none() => Condition::Starting,
            None => Condition::Up,
        }
    }

    /// Whether its readings are not the present ones, because it fails or does not answer.
    pub fn is_down(&self, now: Instant) -> bool {
        matches!(self.condition(now), Condition::NoAnswer(_) | Condition::Failed)
    }

    /// The age of its readings.
    pub fn age(&self, now: Instant) -> Option<Duration> {
        self.read_at.map(|at| now.saturating_duration_since(at))
    }

    /// The source's name, followed by its pool.
    pub fn title(&self) -> String {
        format!("{} {}", self.name.source, self.name.pool).trim_end().to_owned()
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
