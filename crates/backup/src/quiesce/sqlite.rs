//! SQLite: a transaction that keeps writers out, in one session for each file.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{QuiesceFacts, QuiesceOptions, QuiesceSession};
use crate::client::{ClientFailure, ClientSession};
use crate::database::sqlite_files;
use crate::sources::BackupSources;

/// Prints the mark that ends an answer.
const PRINT: &str = ".print MARK";
/// The most files: each needs a process.
const MOST_FILES: usize = 64;

/// The sessions.
pub(super) struct LockedFiles {
    sessions: Vec<ClientSession>,
    version: Option<String>,
}

/// Keeps writers out of all files.
pub(super) fn begin(
    sources: &BackupSources,
    options: &QuiesceOptions,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<LockedFiles, ClientFailure> {
    let files: Vec<_> = sources.all.iter().flat_map(|source| sqlite_files(&source.path)).collect();
    if files.is_empty() || files.len() > MOST_FILES {
        let count = files.len();
        return Err(ClientFailure::Ended(format!(
            "{count} SQLite files; between 1 and {MOST_FILES} can be locked"
        )));
    }
    let mut locked = LockedFiles { sessions: Vec::new(), version: None };
    for file in &files {
        let (session, version) = lock(file, options.limit, is_interrupted)?;
        locked.sessions.push(session);
        locked.version = version;
    }
    Ok(locked)
}

fn lock(
    file: &Path,
    limit: Duration,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<(ClientSession, Option<String>), ClientFailure> {
    let mut command = Command::new("sqlite3");
    command.args(["-batch", "-bail", "-init", "/dev/null"]).arg(file);
    let mut session = ClientSession::start(command)?;
    let version = session.ask("SELECT sqlite_version();", PRINT, limit, is_interrupted)?;
    let begin = format!(".timeout {}\nBEGIN IMMEDIATE;", limit.as_millis());
    session.ask(&begin, PRINT, limit + Duration::from_secs(5), is_interrupted)?;
    Ok((session, version.into_iter().next()))
}

impl QuiesceSession for LockedFiles {
    fn release(self: Box<Self>, limit: Duration) -> Result<QuiesceFacts, ClientFailure> {
        for mut session in self.sessions {
            session.ask("ROLLBACK;", PRINT, limit, &|| false)?;
            session.end();
        }
        Ok(QuiesceFacts { version: self.version, ..QuiesceFacts::default() })
    }
}
