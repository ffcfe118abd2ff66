//! The running server, from which a standby is built.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use poolwright_base::{cannot, mountinfo, process, quoted};
use poolwright_dbms::client::{ClientFailure, ClientSession};
use poolwright_dbms::postgresql::control::Lsn;
use poolwright_dbms::postgresql::{PRINT, PostgresqlServer};
use poolwright_dbms::program::is_trusted_by;
use serde::Deserialize;

use super::server_dirs::ServerDirs;
use crate::error::refused;
use crate::{Error, Result};

/// The first version that has a manifest of base backups, and `pg_verifybackup`.
const OLDEST: u32 = 130_000;
/// How long a statement may take: a checkpoint can take long.
const STATEMENT_TIME: Duration = Duration::from_secs(3600);
/// The programs that are needed.
const PROGRAMS: [&str; 4] = ["postgres", "pg_basebackup", "pg_verifybackup", "pg_controldata"];

/// Asks the server for everything that a standby depends on. A standby needs at least the primary's limits (documentation of PostgreSQL,
/// "Hot Standby", "Administrator's Overview"), and the libraries that can be in its log.
const QUESTION: &str = "SELECT json_build_object('data_directory', current_setting('data_directory'), \
     'version', current_setting('server_version_num')::int, 'user', current_user::text, \
     'catalog', (SELECT catalog_version_no::text FROM pg_control_system()), \
     'is_standby', pg_is_in_recovery(), 'wal_level', current_setting('wal_level'), \
     'synchronous', current_setting('synchronous_standby_names'), 'config_file', current_setting('config_file'), \
     'free_senders', current_setting('max_wal_senders')::int - (SELECT count(*) FROM pg_stat_replication), \
     'free_slots', current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_replication_slots), \
     'settings', (SELECT json_object_agg(name, current_setting(name)) FROM pg_settings WHERE name IN ('max_connections', \
     'max_worker_processes', 'max_wal_senders', 'max_prepared_transactions', 'max_locks_per_transaction', 'shared_preload_libraries')));";
/// A replication slot that does not end with its session.
const SLOT: &str = "SELECT coalesce(min(slot_name::text), '') FROM pg_replication_slots WHERE NOT temporary;";
/// Lets statements and idle sessions take as long as they need. Not all versions have all of these.
const NO_LIMITS: &str = "SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN ('statement_timeout', \
     'idle_session_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout');";
/// How many connections of a standby and slots must be free: `pg_basebackup` has two connections, the standby one of each, this program
/// a slot.
const FREE: i64 = 2;

/// The server's answer.
#[derive(Clone, Debug, Deserialize)]
struct Answer {
    data_directory: PathBuf,
    version: u32,
    user: String,
    is_standby: bool,
    wal_level: String,
    synchronous: String,
    config_file: PathBuf,
    catalog: String,
    free_senders: i64,
    free_slots: i64,
    settings: BTreeMap<String, String>,
}

/// The running server.
#[derive(Debug)]
pub(super) struct Primary {
    pub server: PostgresqlServer,
    /// The directory of its programs.
    pub bindir: PathBuf,
    /// `server_version_num`.
    pub version: u32,
    pub user: String,
    /// The name of the directories of this server in those of tablespaces.
    pub space_name: String,
    pub config_file: PathBuf,
    /// Settings that a standby must share.
    pub settings: BTreeMap<String, String>,
}

impl Primary {
    /// The server that runs on a data directory.
    ///
    /// # Errors
    /// [`Error::Refused`] if none runs, it cannot be queried, or a standby would not have everything that it has.
    pub fn find(dirs: &ServerDirs, is_interrupted: &dyn Fn() -> bool) -> Result<Primary> {
        let root = quoted(&dirs.root);
        let Some(server) = PostgresqlServer::of(&dirs.root)? else {
            return refused(format!(
                "no server runs on {root}\nhint: start it, or move it without a standby"
            ));
        };
        if server.owner().0 == 0 {
            return refused("PostgreSQL does not run as root, which owns its data directory");
        }
        let bindir = bindir(&server)?;
        let said = ask(server.psql(None), QUESTION, is_interrupted)?;
        let found: std::result::Result<Answer, _> = serde_json::from_str(&said);
        let Ok(found) = found else { return refused(format!("unexpected answer of the server: {said}")) };
        if found.data_directory.canonicalize().ok().as_ref() != Some(&dirs.root) {
            let other = quoted(&found.data_directory);
            return refused(format!("the server's data directory is {other}, not {root}"));
        }
        found.check()?;
        let Answer { version, user, catalog, config_file, settings, .. } = found;
        let space_name = format!("PG_{}_{catalog}", version / 10_000);
        let primary = Primary { server, bindir, version, user, space_name, config_file, settings };
        primary.check_again(dirs, is_interrupted)?;
        Ok(primary)
    }

    /// Refuses what can be created at any time, and what a standby would not have: replication slots and unlogged tables.
    pub fn check_again(&self, dirs: &ServerDirs, is_interrupted: &dyn Fn() -> bool) -> Result<()> {
        let slot = self.ask(SLOT, is_interrupted)?;
        if !slot.is_empty() {
            return refused(format!(
                "the server has the replication slot {slot}, which a standby does not receive\nhint: move it without a standby"
            ));
        }
        check_logged(dirs, &self.space_name)
    }

    /// The first line of its answer to a statement.
    pub fn ask(&self, statement: &str, is_interrupted: &dyn Fn() -> bool) -> Result<String> {
        ask(self.server.psql(None), statement, is_interrupted)
    }

    /// Whether the standby receives its log.
    pub fn has_standby(&self) -> bool {
        let question = "SELECT count(*) FROM pg_stat_replication WHERE application_name = 'poolwright' AND state IN ('catchup', \
             'streaming');";
        self.ask(question, &|| false).is_ok_and(|count| count != "0")
    }

    /// Makes it keep the segments of its log from now on, until the session ends: by a temporary replication slot.
    pub fn keep_log(&self, is_interrupted: &dyn Fn() -> bool) -> Result<ClientSession> {
        let mut session = session(self.server.psql(None), is_interrupted)?;
        let slot = format!("poolwright_{}", std::process::id());
        let statement = format!("SELECT pg_create_physical_replication_slot('{slot}', true, true);");
        session.ask(&statement, PRINT, STATEMENT_TIME, is_interrupted).map_err(unanswered)?;
        Ok(session)
    }

    /// How far its log is written.
    pub fn position(&self, is_interrupted: &dyn Fn() -> bool) -> Result<Lsn> {
        position(&self.ask("SELECT pg_current_wal_flush_lsn();", is_interrupted)?)
    }

    /// The host to which clients connect.
    pub fn host(&self) -> &str {
        match self.server.socket_dir.as_str() {
            "" => "localhost",
            dir => dir,
        }
    }
}

impl Answer {
    /// Refuses what a standby would not have.
    fn check(&self) -> Result<()> {
        if self.version < OLDEST {
            return refused("a standby needs PostgreSQL 13 or later\nhint: move it without a standby");
        }
        if self.is_standby {
            return refused("the server is itself a standby\nhint: move it without a standby");
        }
        if self.wal_level == "minimal" {
            return refused("wal_level is minimal\nhint: set it to replica, or move it without a standby");
        }
        if self.synchronous.contains('*') {
            return refused(
                "synchronous_standby_names contains *, so commits would wait for the standby\nhint: name the standbys there, or move it \
                 without a standby",
            );
        }
        for (name, free) in
            [("max_wal_senders", self.free_senders), ("max_replication_slots", self.free_slots)]
        {
            if free < FREE {
                return refused(format!(
                    "{name} leaves {free} free, and a standby needs {FREE}\nhint: increase it, or move it without a standby"
                ));
            }
        }
        Ok(())
    }
}

/// The directory of the programs of a running server.
fn bindir(server: &PostgresqlServer) -> Result<PathBuf> {
    let program = process::program(server.pid);
    let Some(dir) = program.as_deref().filter(|path| path.is_file()).and_then(Path::parent) else {
        return refused(format!(
            "the program of the server (process {}) was replaced or removed since it started\nhint: start it again",
            server.pid
        ));
    };
    match PROGRAMS.iter().find(|name| !dir.join(name).is_file()) {
        // The owner of the directory can name any process as the server.
        None if !is_trusted_by(server.owner(), dir) => refused(format!(
            "other users can change the server's programs in {}\nhint: move it without a standby",
            quoted(&dir)
        )),
        None => Ok(dir.to_owned()),
        Some(name) => {
            refused(format!("{} has no {name}\nhint: install it, or move it without a standby", quoted(dir)))
        }
    }
}

/// A session without limits of time.
fn session(psql: Command, is_interrupted: &dyn Fn() -> bool) -> Result<ClientSession> {
    let mut session = ClientSession::start(psql).map_err(unanswered)?;
    session.ask(NO_LIMITS, PRINT, STATEMENT_TIME, is_interrupted).map_err(unanswered)?;
    Ok(session)
}

/// The first line of a server's answer.
pub(super) fn ask(psql: Command, statement: &str, is_interrupted: &dyn Fn() -> bool) -> Result<String> {
    let mut session = session(psql, is_interrupted)?;
    let lines = session.ask(statement, PRINT, STATEMENT_TIME, is_interrupted).map_err(unanswered)?;
    session.end();
    Ok(lines.into_iter().next().unwrap_or_default())
}

/// A position in an answer.
pub(super) fn position(text: &str) -> Result<Lsn> {
    match Lsn::parse(text) {
        Some(lsn) => Ok(lsn),
        None => refused(format!("unexpected answer of the server: {text:?} is not a position in its log")),
    }
}

fn unanswered(failure: ClientFailure) -> Error {
    match failure {
        ClientFailure::Interrupted => Error::Interrupted,
        failure => Error::Refused(format!("cannot query the server: {failure}")),
    }
}

/// Refuses tables whose content is not in the log (`CREATE UNLOGGED TABLE`): a standby has them, but empty. Each has a file that ends with
/// `_init`.
pub(super) fn check_logged(dirs: &ServerDirs, space_name: &str) -> Result<()> {
    let spaces = dirs.tablespaces.iter().map(|dir| dir.join(space_name));
    for dir in [dirs.root.join("base")].into_iter().chain(spaces) {
        // In it are DATABASE/FILE.
        if let Some(path) = init_fork(&dir, 2)? {
            return refused(format!(
                "{} belongs to an unlogged table, which would be empty on the standby\nhint: in each database, `SELECT oid::regclass FROM \
                 pg_class WHERE relpersistence = 'u'` names them; make them logged, or move it without a standby",
                quoted(&path)
            ));
        }
    }
    Ok(())
}

fn init_fork(dir: &Path, depth: usize) -> Result<Option<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        // It was dropped in the meantime.
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        entries => entries.map_err(cannot("list", dir))?,
    };
    for entry in entries {
        let entry = entry.map_err(cannot("list", dir))?;
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_dir && depth > 1 {
            if let Some(found) = init_fork(&entry.path(), depth - 1)? {
                return Ok(Some(found));
            }
        } else if depth == 1 && is_init_fork(&entry.file_name().to_string_lossy()) {
            return Ok(Some(entry.path()));
        }
    }
    Ok(None)
}

fn is_init_fork(name: &str) -> bool {
    name.strip_suffix("_init")
        .is_some_and(|of| !of.is_empty() && of.bytes().all(|digit| digit.is_ascii_digit()))
}

/// Refuses a replication slot that was made in the meantime: it is lost with the old directory. The server does not run.
pub(super) fn check_slots(dirs: &ServerDirs) -> Result<()> {
    let dir = dirs.root.join("pg_replslot");
    let mut entries = fs::read_dir(&dir).map_err(cannot("list", &dir))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => {
            refused("the server has a replication slot, which the standby does not get\nhint: drop it")
        }
    }
}

/// Refuses directories for which a mount namespace cannot be made, or in which the programs would miss something.
pub(super) fn check_places(dirs: &ServerDirs, roots: &[PathBuf]) -> Result<()> {
    let mounts = mountinfo::read()?;
    for dir in dirs.all() {
        let mount = mountinfo::containing(&mounts, dir);
        if mount.is_none_or(|mount| !roots.contains(&mount.point)) {
            return refused(format!("{} is not on a dataset that moves", quoted(dir)));
        }
    }
    let is_inner = |dir: &&PathBuf| roots.iter().any(|outer| outer != *dir && dir.starts_with(outer));
    match roots.iter().find(is_inner) {
        None => Ok(()),
        Some(dir) => refused(format!(
            "{} is mounted in another dataset of the database, where a standby cannot be built\nhint: move it without a standby",
            quoted(dir)
        )),
    }
}

/// Refuses a server whose programs or socket are on the datasets that move: the programs that build a standby see the new ones there.
pub(super) fn check_outside(primary: &Primary, roots: &[PathBuf]) -> Result<()> {
    let inside = |path: &Path| roots.iter().any(|root| path.starts_with(root));
    let socket_dir = Path::new(&primary.server.socket_dir);
    for (what, dir) in [("programs", primary.bindir.as_path()), ("socket", socket_dir)] {
        if inside(&dir.canonicalize().unwrap_or_else(|_| dir.to_owned())) {
            return refused(format!(
                "the server's {what} in {} would move with its datasets\nhint: move it without a standby",
                quoted(&dir)
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Answer {
        let settings = BTreeMap::from([("max_connections".to_owned(), "100".to_owned())]);
        Answer {
            data_directory: "/db".into(),
            version: 150_004,
            user: "postgres".to_owned(),
            is_standby: false,
            wal_level: "replica".to_owned(),
            synchronous: "east, west".to_owned(),
            config_file: "/db/postgresql.conf".into(),
            catalog: "202209061".to_owned(),
            free_senders: 10,
            free_slots: 2,
            settings,
        }
    }

    #[test]
    fn what_a_standby_would_not_have_is_refused() {
        answer().check().unwrap();
        let refusal = |of: Answer| of.check().unwrap_err().to_string();
        assert!(refusal(Answer { version: 120_017, ..answer() }).contains("PostgreSQL 13"));
        assert!(refusal(Answer { is_standby: true, ..answer() }).contains("itself a standby"));
        assert!(refusal(Answer { wal_level: "minimal".to_owned(), ..answer() }).contains("wal_level"));
        assert!(refusal(Answer { synchronous: "ANY 1 (*)".to_owned(), ..answer() }).contains("would wait"));
        assert!(refusal(Answer { free_senders: 1, ..answer() }).contains("max_wal_senders leaves 1 free"));
        assert!(
            refusal(Answer { free_slots: 0, ..answer() }).contains("max_replication_slots leaves 0 free")
        );
    }

    #[test]
    fn unlogged_tables_are_found_by_their_files() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in [
            "db/base/1",
            "db/base/pgsql_tmp",
            "db/pg_replslot",
            "space/PG_15_202209061/5",
            "space/PG_13_202007201/5",
        ] {
            fs::create_dir_all(at(name)).unwrap();
        }
        for name in ["db/base/1/1259", "db/base/1/1259_vm", "db/base/1/_init", "db/base/1/x_init"] {
            fs::write(at(name), "").unwrap();
        }
        let dirs = ServerDirs { root: at("db"), log: None, tablespaces: vec![at("space")] };
        // Of another server, which pg_upgrade has left.
        fs::write(at("space/PG_13_202007201/5/16385_init"), "").unwrap();
        check_logged(&dirs, "PG_15_202209061").unwrap();
        fs::write(at("space/PG_15_202209061/5/16385_init"), "").unwrap();
        let why = check_logged(&dirs, "PG_15_202209061").unwrap_err();
        assert!(why.is_refusal() && why.to_string().contains("16385_init"), "{why}");
        check_slots(&dirs).unwrap();
        fs::create_dir(at("db/pg_replslot/east")).unwrap();
        assert!(check_slots(&dirs).unwrap_err().is_refusal());
    }
}
