//! PostgreSQL: a non-exclusive backup in one session of `psql`.
//!
//! Starting a backup makes a checkpoint and forces full page writes. The snapshot is atomic over all datasets of the database, so it
//! recovers as after a crash from that checkpoint. It must be restored without the text of `backup_label`: with it, PostgreSQL waits
//! for the end of the online backup, which is written after the snapshot.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::{QuiesceFacts, QuiesceOptions, QuiesceSession, START_TIME};
use crate::client::{ClientFailure, ClientSession};
use crate::postgresql::{PRINT, PostgresqlServer};

/// The first version with `pg_backup_start`.
const NEW_NAMES: i64 = 150_000;
/// How long a question may take.
const QUESTION_TIME: Duration = Duration::from_secs(60);

const QUESTION: &str = "SELECT json_build_object('data_directory', current_setting('data_directory'), \
     'version', current_setting('server_version'), 'number', current_setting('server_version_num')::int, \
     'superuser', (SELECT rolname FROM pg_roles WHERE oid = 10));";

/// A session in which a backup was started.
pub(super) struct OnlineBackup {
    session: ClientSession,
    facts: QuiesceFacts,
    stop: &'static str,
}

/// Starts a backup; `None` if no server runs on the data directory.
pub(super) fn begin(
    root: &Path,
    options: &QuiesceOptions,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Option<OnlineBackup>, ClientFailure> {
    let failed = |why: String| ClientFailure::Ended(why);
    let Some(server) = PostgresqlServer::of(root)? else {
        return match options.connect {
            None => Ok(None),
            Some(_) => Err(failed(format!("no server runs on {}", poolwright_base::quoted(root)))),
        };
    };
    let mut session = ClientSession::start(server.psql(options.connect.as_deref()))?;
    let answer = session.ask(QUESTION, PRINT, QUESTION_TIME, is_interrupted)?;
    let found: Value = answer.first().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    let directory = text("data_directory");
    if Path::new(&directory).canonicalize().ok().as_deref() != Some(root) {
        return Err(failed(format!(
            "the server's data directory is {directory:?}, not {}",
            poolwright_base::quoted(root)
        )));
    }
    let (start, stop) = match found["number"].as_i64() {
        Some(NEW_NAMES..) => ("SELECT pg_backup_start('poolwright', true);", "pg_backup_stop(false)"),
        _ => ("SELECT pg_start_backup('poolwright', true, false);", "pg_stop_backup(false, false)"),
    };
    session.ask(start, PRINT, START_TIME, is_interrupted)?;
    let facts = QuiesceFacts {
        version: Some(text("version")),
        facts: [("superuser".to_owned(), text("superuser"))].into(),
        backup_label: None,
    };
    Ok(Some(OnlineBackup { session, facts, stop }))
}

impl QuiesceSession for OnlineBackup {
    fn release(mut self: Box<Self>, limit: Duration) -> Result<QuiesceFacts, ClientFailure> {
        let stop = format!("SELECT row_to_json(stopped) FROM {} AS stopped;", self.stop);
        let answer = self.session.ask(&stop, PRINT, limit, &|| false)?;
        let found: Option<Value> = answer.first().and_then(|line| serde_json::from_str(line).ok());
        let label = found.and_then(|found| Some(found["labelfile"].as_str()?.to_owned()));
        let Some(label) = label else {
            return Err(ClientFailure::Ended(format!("unexpected answer: {}", answer.join("; "))));
        };
        let QuiesceFacts { version, facts, .. } = self.facts.clone();
        self.session.end();
        Ok(QuiesceFacts { version, facts, backup_label: Some(label) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quiesce::tests::options;

    #[test]
    fn a_directory_without_a_server_has_no_session() {
        let dir = tempfile::tempdir().unwrap();
        let options = options();
        assert!(begin(dir.path(), &options, &|| false).is_ok_and(|begun| begun.is_none()));
        let options = QuiesceOptions { connect: Some("host=/none".to_owned()), ..options };
        let none = begin(dir.path(), &options, &|| false).err().unwrap();
        assert!(none.to_string().contains("no server runs"), "{none:?}");
    }
}
