//! Quiesces a database for a snapshot.
//!
//! | database | how | state in the snapshot |
//! | --- | --- | --- |
//! | PostgreSQL | `pg_backup_start(fast)` … `pg_backup_stop()` | like the state after a crash just after a checkpoint; no torn pages, even
//! with `full_page_writes=off` |
//! | MariaDB | `BACKUP STAGE START` … `BLOCK_COMMIT` … `END` | no commit and no DDL is under way; MyISAM and Aria tables are closed |
//! | SQLite | `BEGIN IMMEDIATE` … `ROLLBACK` for each file | no transaction is being written |
//! | LMDB | nothing | LMDB never overwrites pages of its last two transactions |
//! | others | commands of the user | depends on the commands |
//!
//! A quiesced database is released when [`Quiesced`] is dropped or this process is killed.

mod hook;
pub mod mariadb;
mod postgresql;
mod sqlite;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use hook::Hook;

use crate::client::ClientFailure;
use crate::database::{DatabaseKind, LocatedDatabase};
use crate::directories::DatabaseDirs;
use crate::program::Programs;
use crate::{Error, Result};

/// How long a database may take until it is quiesced: a checkpoint, or running transactions, come first.
const START_TIME: Duration = Duration::from_secs(600);

/// How a database is quiesced.
#[derive(Clone, Debug)]
pub struct QuiesceOptions {
    /// Where the database's client connects to: for PostgreSQL a connection string, for MariaDB arguments of the client.
    pub connect: Option<String>,
    /// Commands of the user instead of the client.
    pub hook: Option<Hook>,
    /// The longest time for which the database may be quiesced.
    pub limit: Duration,
    /// Where its client is.
    pub programs: Programs,
}

/// The method by which the snapshot of a backup is consistent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ConsistencyMeans {
    /// A session of the database's client kept it quiesced.
    Session,
    /// Commands of the user kept it quiesced.
    Hook,
    /// The snapshot alone, which is atomic over all datasets.
    Snapshot,
    /// The database was not running.
    Stopped,
}

/// Facts about the database, known when it has been released.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuiesceFacts {
    /// Its version.
    pub version: Option<String>,
    /// The facts that a restore needs.
    pub facts: BTreeMap<String, String>,
    /// PostgreSQL's `backup_label`.
    pub backup_label: Option<String>,
}

/// A session that keeps a database quiesced.
trait QuiesceSession {
    /// Releases the database, and confirms that it was quiesced until now.
    fn release(self: Box<Self>, limit: Duration) -> std::result::Result<QuiesceFacts, ClientFailure>;
}

/// A quiesced database.
pub struct Quiesced {
    session: Option<Box<dyn QuiesceSession>>,
    means: ConsistencyMeans,
    since: Instant,
}

impl Quiesced {
    /// Quiesces a database.
    ///
    /// # Errors
    /// [`Error::Quiesce`] if the database refuses or is another one; [`Error::Interrupted`].
    pub fn begin(
        database: &LocatedDatabase,
        sources: &DatabaseDirs,
        options: &QuiesceOptions,
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<Quiesced> {
        let since = Instant::now();
        let failed = |failure: ClientFailure| match failure {
            ClientFailure::Interrupted => Error::Interrupted,
            failure => Error::Quiesce { what: "quiesce", why: failure.to_string() },
        };
        let session = |session: Box<dyn QuiesceSession>| (Some(session), ConsistencyMeans::Session);
        let (session, means) = match (&options.hook, database.kind) {
            (Some(hook), _) => {
                let frozen = hook.freeze(options.limit, is_interrupted).map_err(failed)?;
                (Some(Box::new(frozen) as Box<dyn QuiesceSession>), ConsistencyMeans::Hook)
            }
            (None, DatabaseKind::Postgresql) => {
                match postgresql::begin(&database.root, options, is_interrupted).map_err(failed)? {
                    Some(begun) => session(Box::new(begun)),
                    None => (None, ConsistencyMeans::Stopped),
                }
            }
            (None, DatabaseKind::Mariadb) => session(Box::new(
                mariadb::begin(&database.root, sources, options, is_interrupted).map_err(failed)?,
            )),
            (None, DatabaseKind::Sqlite) => {
                session(Box::new(sqlite::begin(sources, options, is_interrupted).map_err(failed)?))
            }
            (None, DatabaseKind::Openldap | DatabaseKind::None) => (None, ConsistencyMeans::Snapshot),
        };
        let since = if database.kind == DatabaseKind::Postgresql && means == ConsistencyMeans::Session {
            // The checkpoint before does not hold up the database.
            Instant::now()
        } else {
            since
        };
        Ok(Quiesced { session, means, since })
    }

    /// The method by which the snapshot is consistent.
    pub fn means(&self) -> ConsistencyMeans {
        self.means
    }

    /// Releases the database. Returns what it has said, and for how many seconds it was quiesced; `None` if it was not.
    ///
    /// # Errors
    /// [`Error::Quiesce`] if the database was not quiesced any more, or cannot be released.
    pub fn release(mut self, limit: Duration) -> Result<(QuiesceFacts, Option<f64>)> {
        let Some(session) = self.session.take() else { return Ok((QuiesceFacts::default(), None)) };
        let facts = session
            .release(limit)
            .map_err(|failure| Error::Quiesce { what: "release", why: failure.to_string() })?;
        Ok((facts, Some(self.since.elapsed().as_secs_f64())))
    }
}

#[cfg(test)]
mod tests;
