//! MariaDB: the stages of a backup in one session of its client.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::{QuiesceFacts, QuiesceOptions, QuiesceSession, START_TIME};
use crate::client::{ClientFailure, ClientSession};
use crate::directories::DatabaseDirs;
use crate::mariadb::{PRINT, client};

/// How long a question may take.
const QUESTION_TIME: Duration = Duration::from_secs(60);

/// The facts are named after the server's variables.
const QUESTION: &str = "SELECT JSON_OBJECT('version', @@version, 'datadir', @@datadir, \
     'innodb_data_home_dir', IFNULL(@@innodb_data_home_dir, ''), 'innodb_log_group_home_dir', @@innodb_log_group_home_dir, \
     'innodb_undo_directory', @@innodb_undo_directory, 'innodb_data_file_path', @@innodb_data_file_path, \
     'innodb_page_size', @@innodb_page_size, 'innodb_undo_tablespaces', @@innodb_undo_tablespaces, \
     'lower_case_table_names', @@lower_case_table_names);";
/// The variables that name directories.
pub const DIRECTORIES: [&str; 3] =
    ["innodb_data_home_dir", "innodb_log_group_home_dir", "innodb_undo_directory"];
/// The facts that a server on a restored directory needs.
pub const LAYOUT: [&str; 4] =
    ["innodb_data_file_path", "innodb_page_size", "innodb_undo_tablespaces", "lower_case_table_names"];

/// A session that blocks commits.
pub(super) struct BlockedCommits {
    session: ClientSession,
    facts: QuiesceFacts,
}

/// Blocks commits.
pub(super) fn begin(
    root: &Path,
    sources: &DatabaseDirs,
    options: &QuiesceOptions,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<BlockedCommits, ClientFailure> {
    let mut session = ClientSession::start(client(root, &options.programs, options.connect.as_deref())?)?;
    let answer = session.ask(QUESTION, PRINT, QUESTION_TIME, is_interrupted)?;
    let found: Value = answer.first().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    let directories = check_directories(&found, root, sources)?;
    let seconds = options.limit.as_secs().max(1);
    // The server ends the session of a client that is stuck, and waits for locks no longer than the limit.
    let mut ask = |statement: &str, limit| session.ask(statement, PRINT, limit, is_interrupted);
    ask(&format!("SET SESSION wait_timeout={seconds}, lock_wait_timeout={seconds};"), QUESTION_TIME)?;
    for stage in ["START", "FLUSH", "BLOCK_DDL", "BLOCK_COMMIT"] {
        ask(&format!("BACKUP STAGE {stage};"), START_TIME)?;
    }
    let text = |key: &str| match &found[key] {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let layout = LAYOUT.iter().map(|key| ((*key).to_owned(), text(key)));
    let facts = layout.chain(directories).collect();
    let facts = QuiesceFacts { version: Some(text("version")), facts, backup_label: None };
    Ok(BlockedCommits { session, facts })
}

/// The server's directories outside of its data directory, by the names of the variables; an error if the backup lacks one.
fn check_directories(
    found: &Value,
    root: &Path,
    sources: &DatabaseDirs,
) -> Result<Vec<(String, String)>, ClientFailure> {
    let datadir = PathBuf::from(found["datadir"].as_str().unwrap_or_default());
    if datadir.canonicalize().ok().as_deref() != Some(root) {
        let (datadir, root) = (poolwright_base::quoted(&datadir), poolwright_base::quoted(root));
        return Err(ClientFailure::Ended(format!("the server's datadir is {datadir}, not {root}")));
    }
    let mut directories = Vec::new();
    for name in DIRECTORIES {
        let text = found[name].as_str().unwrap_or_default();
        let path = datadir.join(text);
        let path = path.canonicalize().unwrap_or(path);
        if text.is_empty() || path == root {
            continue;
        }
        if !sources.contain(&path) {
            let path = poolwright_base::quoted(&path);
            return Err(ClientFailure::Ended(format!(
                "the server's {name} is {path}, which is not in the backup\nhint: name this directory too"
            )));
        }
        directories.push((name.to_owned(), path.to_string_lossy().into_owned()));
    }
    Ok(directories)
}

impl QuiesceSession for BlockedCommits {
    fn release(mut self: Box<Self>, limit: Duration) -> Result<QuiesceFacts, ClientFailure> {
        // Fails if the session was lost, which would have let commits through.
        self.session.ask("BACKUP STAGE END;", PRINT, limit, &|| false)?;
        let facts = self.facts.clone();
        self.session.end();
        Ok(facts)
    }
}
