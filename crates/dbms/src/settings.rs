//! The settings of a running server, as the server itself reports them, and those that SQLite's files have.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::client::{ClientFailure, ClientSession};
use crate::database::{DatabaseKind, SQLITE_MAGIC};
use crate::mariadb;
use crate::postgresql::{self, PostgresqlServer};
use crate::program::Programs;

/// The settings of MariaDB and MySQL that are read, besides `datadir`.
const MARIADB: [&str; 6] = [
    "innodb_buffer_pool_size",
    "innodb_data_file_buffering",
    "innodb_doublewrite",
    "innodb_flush_log_at_trx_commit",
    "innodb_flush_method",
    "innodb_flush_neighbors",
];
/// The settings of PostgreSQL that are read, besides `data_directory`. `shared_buffers` is in bytes.
const POSTGRESQL: [&str; 5] =
    ["fsync", "full_page_writes", "synchronous_commit", "wal_init_zero", "wal_recycle"];
/// The number of SQLite files whose mode is read.
const SQLITE_FILES: usize = 100;
/// The setting of PostgreSQL that is converted to bytes.
const POSTGRESQL_CACHE: &str = "shared_buffers";

/// Reads the settings that matter for the storage of a running server on a data directory, by their names in the database. A setting that
/// the release does not have is missing.
///
/// `command_line` is that of the server's process: MariaDB's socket is taken from it.
///
/// # Errors
/// [`ClientFailure`] if the client is not installed or not let in, does not answer within `limit`, or reaches a server with another data
/// directory.
pub fn of_server(
    kind: DatabaseKind,
    root: &Path,
    command_line: &str,
    limit: Duration,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<BTreeMap<String, String>, ClientFailure> {
    let (directory, settings) = match kind {
        DatabaseKind::Mariadb => ("datadir", of_mariadb(root, command_line, limit, is_interrupted)?),
        DatabaseKind::Postgresql => ("data_directory", of_postgresql(root, limit, is_interrupted)?),
        _ => return Ok(BTreeMap::new()),
    };
    let found = settings.get(directory).cloned().unwrap_or_default();
    if Path::new(&found).canonicalize().ok() != root.canonicalize().ok() {
        let root = poolwright_base::quoted(root);
        return Err(ClientFailure::Ended(format!("the server's {directory} is {found:?}, not {root}")));
    }
    Ok(settings)
}

fn of_mariadb(
    root: &Path,
    command_line: &str,
    limit: Duration,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<BTreeMap<String, String>, ClientFailure> {
    let socket = command_line.split_whitespace().find(|word| word.starts_with("--socket="));
    let client = mariadb::client(root, &Programs::default(), socket)?;
    let names: Vec<String> = MARIADB.iter().chain(&["datadir"]).map(|name| format!("'{name}'")).collect();
    let statement = format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({});", names.join(", "));
    let lines = ClientSession::start(client)?.ask(&statement, mariadb::PRINT, limit, is_interrupted)?;
    let pairs = lines.iter().filter_map(|line| line.split_once('\t'));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

fn of_postgresql(
    root: &Path,
    limit: Duration,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<BTreeMap<String, String>, ClientFailure> {
    let server = PostgresqlServer::of(root)?;
    let server = server.ok_or_else(|| ClientFailure::Ended("no server runs".to_owned()))?;
    let names = POSTGRESQL.iter().chain(&["data_directory"]);
    let pairs: Vec<String> = names.map(|name| format!("'{name}', current_setting('{name}', true)")).collect();
    let statement = format!(
        "SELECT json_build_object({}, '{POSTGRESQL_CACHE}', pg_size_bytes(current_setting('{POSTGRESQL_CACHE}'))::text);",
        pairs.join(", ")
    );
    let answer = postgresql::ask(server.psql(None), &statement, limit, is_interrupted)?;
    let found: BTreeMap<String, Value> = serde_json::from_str(&answer)
        .map_err(|why| ClientFailure::Ended(format!("unexpected answer {answer:?}: {why}")))?;
    let texts = found.into_iter().filter_map(|(name, value)| Some((name, value.as_str()?.to_owned())));
    Ok(texts.collect())
}

/// The settings of SQLite databases: `journal_mode` is `wal` if one of the first 100 files is in WAL mode, `delete` otherwise (which stands
/// for all modes with a rollback journal). Empty if none of the files is one.
pub fn of_sqlite(files: &[PathBuf]) -> BTreeMap<String, String> {
    let modes: Vec<bool> = files.iter().take(SQLITE_FILES).filter_map(|file| is_in_wal_mode(file)).collect();
    let mode = if modes.contains(&true) { "wal" } else { "delete" };
    let found = modes.first().map(|_| ("journal_mode".to_owned(), mode.to_owned()));
    found.into_iter().collect()
}

/// Whether a SQLite database is in WAL mode: the version of its format for writing (`sqlite.org/fileformat2.html`).
fn is_in_wal_mode(file: &Path) -> Option<bool> {
    const WRITE_VERSION: usize = 18;
    const WAL: u8 = 2;
    let mut head = [0; WRITE_VERSION + 1];
    poolwright_base::regular::open(file).ok()?.read_exact_at(&mut head, 0).ok()?;
    head.starts_with(SQLITE_MAGIC).then_some(head[WRITE_VERSION] == WAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_without_a_server_has_no_settings() {
        let dir = tempfile::tempdir().unwrap();
        let of = |kind| of_server(kind, dir.path(), "", Duration::from_secs(60), &|| false);
        assert!(of(DatabaseKind::Postgresql).unwrap_err().to_string().contains("no server runs"));
        // No client, no server at the default socket, or one with another directory.
        assert!(of(DatabaseKind::Mariadb).is_err());
        assert_eq!(of(DatabaseKind::Sqlite).unwrap(), BTreeMap::new());
    }

    #[test]
    fn the_mode_of_sqlite_files() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = vec![dir.path().join("none"), dir.path().join("text")];
        std::fs::write(&files[1], "this is a text of more than one line").unwrap();
        assert_eq!(of_sqlite(&files), BTreeMap::new());
        let mut mode = |name: &str, version: u8| {
            let head = [b"SQLite format 3\0".as_slice(), &[16, 0, version, version]].concat();
            files.push(dir.path().join(name));
            std::fs::write(files.last().unwrap(), head).unwrap();
            of_sqlite(&files).remove("journal_mode").unwrap()
        };
        assert_eq!(
            (mode("a.db", 1), mode("b.db", 2), mode("c.db", 1)),
            ("delete".into(), "wal".into(), "wal".into())
        );
    }
}
