//! Readings and their texts, shared by all clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use poolwright_host::process::{ProcessStat, clock_ticks_per_second};
use tokio::sync::Mutex;

use super::api::ApiReadings;
use super::connection;
use crate::exposition::{self, TextFormat};
use crate::family::*;
use crate::{Poller, Readings, Result, SourceReadings};

/// Clients that ask within this time receive the same answer.
const SHARED_FOR: Duration = Duration::from_secs(1);

/// The poller, and the answers made from its last readings.
#[derive(Debug)]
pub struct Exporter {
    poller: Arc<Poller>,
    limit: Duration,
    version: String,
    scrapes: AtomicU64,
    /// Holding the lock while the sources are read makes other clients wait for the same answer.
    last: Mutex<Option<Answer>>,
}

/// The answers that are made from one refresh. Each is made when a client first asks for it.
#[derive(Debug)]
struct Answer {
    at: Instant,
    sources: Arc<Vec<SourceReadings>>,
    own: Arc<Readings>,
    prometheus: Option<Bytes>,
    open_metrics: Option<Bytes>,
    json: Option<Bytes>,
}

/// The kinds of answers.
#[derive(Clone, Copy, Debug)]
pub enum AnswerKind {
    /// Metrics as text.
    Text(TextFormat),
    /// The readings as JSON.
    Json,
}

impl Exporter {
    /// An exporter whose scrapes wait for at most `limit`.
    pub fn new(poller: Poller, limit: Duration, version: String) -> Exporter {
        Exporter {
            poller: Arc::new(poller),
            limit,
            version,
            scrapes: AtomicU64::new(0),
            last: Mutex::default(),
        }
    }

    /// An answer with readings that are at most a second older than this call, apart from those of sources that are read
    /// less often or hang.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub async fn answer(self: &Arc<Exporter>, kind: AnswerKind) -> Result<Bytes> {
        if matches!(kind, AnswerKind::Text(_)) {
            self.scrapes.fetch_add(1, Ordering::Relaxed);
        }
        let mut last = self.last.lock().await;
        if last.as_ref().is_none_or(|answer| answer.at.elapsed() >= SHARED_FOR) {
            *last = None;
            let (poller, limit) = (Arc::clone(&self.poller), self.limit);
            let refreshed = tokio::task::spawn_blocking(move || poller.refresh(limit)).await;
            let sources = refreshed.map_err(|why| crate::Error::Start {
                what: "reading the sources",
                cause: std::io::Error::other(why),
            })??;
            let own = Arc::new(self.own_readings(&sources));
            *last = Some(Answer::new(sources, own));
        }
        let answer = last.as_mut().expect("it was made");
        Ok(answer.body(kind))
    }

    /// The metrics of the sources and of the exporter.
    fn own_readings(&self, sources: &[SourceReadings]) -> Readings {
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
        let stat = ProcessStat::read(std::process::id() as i32);
        let memory = poolwright_host::process::resident_bytes();
        readings.add(&EXPORTER_RELEASE, [&self.version]).flag(&EXPORTER_INFO, true);
        readings
            .add(&EXPORTER, [])
            .count(&EXPORTER_SCRAPES, self.scrapes.load(Ordering::Relaxed))
            .count(&EXPORTER_REJECTED, connection::REJECTED.load(Ordering::Relaxed))
            .count(&EXPORTER_MEMORY, memory)
            .set(&EXPORTER_CPU, stat.map(|stat| stat.own.total() as f64 / clock_ticks_per_second() as f64));
        readings
    }
}

impl Answer {
    fn new(sources: Vec<SourceReadings>, own: Arc<Readings>) -> Answer {
        let sources = Arc::new(sources);
        Answer { at: Instant::now(), sources, own, prometheus: None, open_metrics: None, json: None }
    }

    fn body(&mut self, kind: AnswerKind) -> Bytes {
        let (sources, own) = (&self.sources, &self.own);
        let cached = match kind {
            AnswerKind::Text(TextFormat::Prometheus) => &mut self.prometheus,
            AnswerKind::Text(TextFormat::OpenMetrics) => &mut self.open_metrics,
            AnswerKind::Json => &mut self.json,
        };
        let made = cached.get_or_insert_with(|| match kind {
            AnswerKind::Text(format) => {
                let read = sources.iter().filter_map(|source| source.readings.as_deref());
                let all: Vec<&Readings> = read.chain([&**own]).collect();
                exposition::text(&all, format).into()
            }
            AnswerKind::Json => ApiReadings::of(sources).to_json().into(),
        });
        made.clone()
    }
}
