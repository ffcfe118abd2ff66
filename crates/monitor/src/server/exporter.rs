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
use crate::poller::source_metrics;
use crate::{Poller, Readings, Result, SourceReadings};

/// Clients that ask within this time receive the same answer.
const SHARED_FOR: Duration = Duration::from_secs(1);

/// The poller, and the answers made from its last readings.
pub struct Exporter {
    poller: Arc<Poller>,
    limit: Duration,
    version: String,
    alerts: Option<Arc<dyn AlertSource>>,
    scrapes: AtomicU64,
    /// Holding the lock while the sources are read makes other clients wait for the same answer.
    last: Mutex<Option<Answer>>,
}

/// Decides alerts on the readings of each refresh.
pub trait AlertSource: Send + Sync {
    /// Decides the alerts on the present readings of all sources and of the exporter.
    fn observe(&self, readings: &[&Readings]);

    /// The text of `/api/v1/alerts`.
    fn to_json(&self) -> String;
}

impl std::fmt::Debug for Exporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exporter").field("poller", &self.poller).finish_non_exhaustive()
    }
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
    /// Empty without an [`AlertSource`].
    alerts: Bytes,
}

/// The kinds of answers.
#[derive(Clone, Copy, Debug)]
pub enum AnswerKind {
    /// Metrics as text.
    Text(TextFormat),
    /// The readings as JSON.
    Json,
    /// The alerts as JSON.
    Alerts,
}

impl Exporter {
    /// An exporter whose scrapes wait for at most `limit`.
    pub fn new(
        poller: Poller,
        limit: Duration,
        version: String,
        alerts: Option<Arc<dyn AlertSource>>,
    ) -> Exporter {
        Exporter {
            poller: Arc::new(poller),
            limit,
            version,
            alerts,
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
            let alerts = self.decide(&sources, &own);
            *last = Some(Answer::new(sources, own, alerts));
        }
        let answer = last.as_mut().expect("it was made");
        Ok(answer.body(kind))
    }

    /// Whether there is an [`AlertSource`].
    pub fn decides_alerts(&self) -> bool {
        self.alerts.is_some()
    }

    /// Decides the alerts, and returns their text.
    fn decide(&self, sources: &[SourceReadings], own: &Readings) -> Bytes {
        let Some(alerts) = &self.alerts else { return Bytes::new() };
        let read = sources.iter().filter_map(|source| source.readings.as_deref());
        alerts.observe(&read.chain([own]).collect::<Vec<_>>());
        alerts.to_json().into()
    }

    /// The metrics of the sources and of the exporter.
    fn own_readings(&self, sources: &[SourceReadings]) -> Readings {
        let mut readings = source_metrics(sources);
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
    fn new(sources: Vec<SourceReadings>, own: Arc<Readings>, alerts: Bytes) -> Answer {
        let sources = Arc::new(sources);
        Answer { at: Instant::now(), sources, own, prometheus: None, open_metrics: None, json: None, alerts }
    }

    fn body(&mut self, kind: AnswerKind) -> Bytes {
        let (sources, own) = (&self.sources, &self.own);
        let cached = match kind {
            AnswerKind::Text(TextFormat::Prometheus) => &mut self.prometheus,
            AnswerKind::Text(TextFormat::OpenMetrics) => &mut self.open_metrics,
            AnswerKind::Json => &mut self.json,
            AnswerKind::Alerts => return self.alerts.clone(),
        };
        let made = cached.get_or_insert_with(|| match kind {
            AnswerKind::Text(format) => {
                let read = sources.iter().filter_map(|source| source.readings.as_deref());
                let all: Vec<&Readings> = read.chain([&**own]).collect();
                exposition::text(&all, format).into()
            }
            AnswerKind::Json | AnswerKind::Alerts => ApiReadings::of(sources).to_json().into(),
        });
        made.clone()
    }
}
