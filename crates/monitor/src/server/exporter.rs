//! Readings, shared by all clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use poolwright_base::process::{ProcessStat, clock_ticks_per_second};
use tokio::sync::Mutex;

use super::connection;
use super::generation::{AnswerKind, Generation, Generations};
use crate::family::*;
use crate::poller::source_metrics;
use crate::{Poller, Readings, Result, SourceReadings};

/// Clients that send a request within this time receive the same answer.
const SHARED_FOR: Duration = Duration::from_secs(1);

/// The poller, and its last readings.
pub struct Exporter {
    poller: Arc<Poller>,
    limit: Duration,
    version: String,
    alerts: Option<Arc<dyn AlertSource>>,
    scrapes: AtomicU64,
    /// Holding the lock while the sources are read makes other clients wait for the same readings.
    last: Mutex<Last>,
}

/// The last readings, and the time of the request that caused the read.
#[derive(Debug, Default)]
struct Last {
    generation: Option<(Arc<Generation>, Instant)>,
    in_use: Generations,
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
    pub async fn answer(self: &Arc<Exporter>, kind: AnswerKind) -> Result<Body> {
        if matches!(kind, AnswerKind::Text(_)) {
            self.scrapes.fetch_add(1, Ordering::Relaxed);
        }
        Ok(self.readings().await?.body(kind))
    }

    async fn readings(self: &Arc<Exporter>) -> Result<Arc<Generation>> {
        let mut last = self.last.lock().await;
        if let Some((generation, at)) = last.generation.take()
            && at.elapsed() < SHARED_FOR
        {
            last.generation = Some((Arc::clone(&generation), at));
            return Ok(generation);
        }
        let exporter = Arc::clone(self);
        let refreshed = tokio::task::spawn_blocking(move || exporter.refresh()).await;
        let generation = refreshed.map_err(|why| crate::Error::Start {
            what: "reading the sources",
            cause: std::io::Error::other(why),
        })??;
        last.in_use.add(&generation);
        last.generation = Some((Arc::clone(&generation), Instant::now()));
        Ok(generation)
    }

    /// Reads the sources and decides the alerts. It blocks.
    fn refresh(&self) -> Result<Arc<Generation>> {
        let sources = self.poller.refresh(self.limit)?;
        let own = self.own_readings(&sources);
        let alerts = self.decide(&sources, &own);
        Ok(Arc::new(Generation::new(sources, own, alerts)))
    }

    /// Whether there is an [`AlertSource`].
    pub fn decides_alerts(&self) -> bool {
        self.alerts.is_some()
    }

    /// Decides the alerts, and returns their text; empty without an [`AlertSource`].
    fn decide(&self, sources: &[SourceReadings], own: &Readings) -> String {
        let Some(alerts) = &self.alerts else { return String::new() };
        let read = sources.iter().filter_map(|source| source.readings.as_deref());
        alerts.observe(&read.chain([own]).collect::<Vec<_>>());
        alerts.to_json()
    }

    /// The metrics of the sources and of the exporter.
    fn own_readings(&self, sources: &[SourceReadings]) -> Readings {
        let mut readings = source_metrics(sources);
        let stat = ProcessStat::read(std::process::id() as i32);
        let memory = poolwright_base::process::resident_bytes();
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
