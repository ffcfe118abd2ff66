//! Readings, shared by all clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use poolwright_host::process::{ProcessStat, clock_ticks_per_second};
use tokio::sync::Mutex;

use super::connection;
use super::generation::{AnswerKind, Generation, Generations};
use crate::family::*;
use crate::{Poller, Readings, Result, SourceReadings};

/// Clients that ask within this time receive the same answer.
const SHARED_FOR: Duration = Duration::from_secs(1);

/// The poller, and its last readings.
#[derive(Debug)]
pub struct Exporter {
    poller: Arc<Poller>,
    limit: Duration,
    version: String,
    scrapes: AtomicU64,
    /// Holding the lock while the sources are read makes other clients wait for the same readings.
    last: Mutex<Last>,
}

/// The last readings, and the time of the request that asked for them.
#[derive(Debug, Default)]
struct Last {
    generation: Option<(Arc<Generation>, Instant)>,
    in_use: Generations,
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
        let (poller, limit) = (Arc::clone(&self.poller), self.limit);
        let refreshed = tokio::task::spawn_blocking(move || poller.refresh(limit)).await;
        let sources = refreshed.map_err(|why| crate::Error::Start {
            what: "reading the sources",
            cause: std::io::Error::other(why),
        })??;
        let own = self.own_readings(&sources);
        let generation = Arc::new(Generation::new(sources, own));
        last.in_use.add(&generation);
        last.generation = Some((Arc::clone(&generation), Instant::now()));
        Ok(generation)
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
