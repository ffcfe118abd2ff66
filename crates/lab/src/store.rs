//! The results of runs, in an SQLite file.
//!
//! `lab_measure` repeats the outcomes' figures for SQL queries by users; the store itself reads `lab_trial.outcome`.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use poolwright_base::{private, quoted};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, TransactionBehavior, params};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::{Error, Outcome, Result, TrialKey};

/// The version of the tables.
const FORMAT: i64 = 1;

const TABLES: &str = "
CREATE TABLE IF NOT EXISTS lab_format (version BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS lab_run (
    id INTEGER PRIMARY KEY,
    campaign TEXT NOT NULL,
    text TEXT NOT NULL,
    scale TEXT NOT NULL,
    seed BIGINT NOT NULL,
    target TEXT NOT NULL,
    host TEXT NOT NULL,
    started TEXT NOT NULL,
    machine TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS lab_trial (
    run BIGINT NOT NULL REFERENCES lab_run (id),
    study TEXT NOT NULL,
    levels TEXT NOT NULL,
    block BIGINT NOT NULL,
    position BIGINT NOT NULL,
    started TEXT NOT NULL,
    failed TEXT,
    outcome TEXT,
    node TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (run, study, levels, block)
);
CREATE TABLE IF NOT EXISTS lab_measure (
    run BIGINT NOT NULL REFERENCES lab_run (id),
    study TEXT NOT NULL,
    levels TEXT NOT NULL,
    block BIGINT NOT NULL,
    phase TEXT NOT NULL,
    measure TEXT NOT NULL,
    value DOUBLE PRECISION NOT NULL,
    unit TEXT NOT NULL,
    PRIMARY KEY (run, study, levels, block, phase, measure)
);
CREATE TABLE IF NOT EXISTS lab_node (
    run BIGINT NOT NULL REFERENCES lab_run (id),
    node TEXT NOT NULL,
    machine TEXT NOT NULL,
    PRIMARY KEY (run, node)
);
";

/// A run of a campaign. Trials of one run are comparable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Name of the campaign.
    pub campaign: String,
    /// Text of the campaign's file at the time of the run, so that a report needs nothing else.
    pub text: String,
    /// Scale of the run.
    pub scale: String,
    /// Seed of the order and of the workloads.
    pub seed: u64,
    /// `pool` or `directory PATH`.
    pub target: String,
    /// Start of the run, RFC 3339 in UTC.
    pub started: String,
    /// The machine: the fields of [`poolwright_base::machine::MachineInfo`], `openzfs`, `poolwright`, `scratch`, and its name as `host`.
    pub machine: BTreeMap<String, String>,
}

impl Run {
    /// Returns the machine's name: trials of different machines are not compared.
    pub fn host(&self) -> &str {
        self.machine.get("host").map_or("", String::as_str)
    }
}

/// A finished trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Identity of the trial.
    pub key: TrialKey,
    /// Position in the order of execution, from 0.
    pub position: u32,
    /// Start of the trial, RFC 3339 in UTC.
    pub started: String,
    /// The machine on which it ran: trials of one block on different machines are not compared.
    pub node: String,
    /// The outcome, or why there is none.
    pub outcome: std::result::Result<Outcome, String>,
}

/// A file of results. A trial is saved completely or not at all, and a successful one only once.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
    path: PathBuf,
    /// An expression for the machine of a trial.
    node: &'static str,
}

type Done<T> = std::result::Result<T, String>;

impl Store {
    /// Opens the file, or creates it.
    ///
    /// # Errors
    /// [`Error::Store`] if the file cannot be opened, is not an SQLite database of results, or has another format.
    pub fn open(path: &Path) -> Result<Store> {
        let failed = |why: String| Error::Store { location: quoted(&path).to_string(), why };
        // SQLite would create the file with the umask's permissions, but results quote messages of drivers and databases, which may
        // contain rows of a table. If the file exists or cannot be created, `Connection::open` handles it.
        let _ = private::create_new(path);
        let connection = Connection::open(path).map_err(|why| failed(why.to_string()))?;
        connection.busy_timeout(Duration::from_secs(10)).map_err(|why| failed(why.to_string()))?;
        let node = prepare(&connection).map_err(failed)?;
        Ok(Store { connection, path: path.to_owned(), node })
    }

    /// Runs `work` in a transaction, completely or not at all.
    fn within<T>(&mut self, work: impl FnOnce(&Transaction<'_>) -> Done<T>) -> Result<T> {
        let transaction = |connection: &mut Connection| {
            let begun = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(text)?;
            let value = work(&begun)?;
            begun.commit().map_err(text)?;
            Ok(value)
        };
        transaction(&mut self.connection).map_err(|why| self.failed(why))
    }

    fn failed(&self, why: String) -> Error {
        Error::Store { location: quoted(&self.path).to_string(), why }
    }

    /// Creates a run, or finds the one with the same campaign, text, scale, seed, target and host, whether finished or not. Returns its
    /// number.
    ///
    /// # Errors
    /// [`Error::Store`] if the file cannot be read or written.
    pub fn begin(&mut self, run: &Run) -> Result<i64> {
        const FIND: &str = "SELECT id FROM lab_run WHERE campaign = ? AND text = ? AND scale = ? AND seed = ? AND target = ? \
            AND host = ? ORDER BY id DESC LIMIT 1";
        const ADD: &str = "INSERT INTO lab_run (campaign, text, scale, seed, target, host, started, machine) \
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
        let seed = run.seed as i64;
        self.within(|statements| {
            let same = params![run.campaign, run.text, run.scale, seed, run.target, run.host()];
            let found = statements.query_row(FIND, same, |row| row.get(0)).optional().map_err(text)?;
            if let Some(id) = found {
                return Ok(id);
            }
            let (host, machine) = (run.host(), json(&run.machine)?);
            let all =
                params![run.campaign, run.text, run.scale, seed, run.target, host, run.started, machine];
            statements.execute(ADD, all).map_err(text)?;
            Ok(statements.last_insert_rowid())
        })
    }

    /// Saves a trial; its position becomes the next one of the run. Replaces a failed trial with the same key, and keeps a successful one.
    ///
    /// # Errors
    /// [`Error::Store`] if the file cannot be written; the trial is then not saved at all.
    pub fn save(&mut self, run: i64, trial: &Trial) -> Result<()> {
        const DROP_FAILED: &str = "DELETE FROM lab_trial WHERE run = ? AND study = ? AND levels = ? AND block = ? AND failed IS NOT NULL";
        const ADD: &str = "INSERT INTO lab_trial (run, study, levels, block, position, started, failed, outcome, node) \
            VALUES (?1, ?2, ?3, ?4, (SELECT COALESCE(MAX(position) + 1, 0) FROM lab_trial WHERE run = ?1), ?5, ?6, ?7, ?8) \
            ON CONFLICT DO NOTHING";
        const ADD_MEASURE: &str = "INSERT INTO lab_measure (run, study, levels, block, phase, measure, value, unit) \
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
        let TrialKey { study, case, block } = &trial.key;
        let (levels, outcome) = (json(case), trial.outcome.as_ref().ok().map(json).transpose());
        self.within(|statements| {
            let (levels, outcome) = (levels?, outcome?);
            statements.execute(DROP_FAILED, params![run, study, levels, block]).map_err(text)?;
            let row = params![
                run,
                study,
                levels,
                block,
                trial.started,
                trial.outcome.as_ref().err(),
                outcome,
                trial.node
            ];
            let added = statements.execute(ADD, row).map_err(text)?;
            let phases = trial.outcome.iter().flat_map(|outcome| &outcome.phases);
            for phase in phases.filter(|phase| added > 0 && phase.measured) {
                for (name, figure) in &phase.measures {
                    let row = params![run, study, levels, block, phase.name, name, figure.value, figure.unit];
                    statements.execute(ADD_MEASURE, row).map_err(text)?;
                }
            }
            Ok(())
        })
    }

    /// Saves what is known of a node of a cluster, for the report.
    ///
    /// # Errors
    /// [`Error::Store`] if the file cannot be written.
    pub fn save_node(&mut self, run: i64, node: &str, machine: &BTreeMap<String, String>) -> Result<()> {
        const ADD: &str = "INSERT OR REPLACE INTO lab_node (run, node, machine) VALUES (?, ?, ?)";
        let machine = json(machine);
        self.within(|statements| {
            statements.execute(ADD, params![run, node, machine?]).map(drop).map_err(text)
        })
    }

    /// The nodes of a run by name; empty for a run on one machine.
    ///
    /// # Errors
    /// [`Error::Store`] if the file cannot be read.
    pub fn nodes(&mut self, run: i64) -> Result<BTreeMap<String, BTreeMap<String, String>>> {
        const ALL: &str = "SELECT node, machine FROM lab_node WHERE run = ?";
        Ok(self.query(ALL, params![run], |row| Ok((column(row, 0)?, parsed(row, 1)?)))?.into_iter().collect())
    }

    /// All trials of a run, in the order in which they ran.
    ///
    /// # Errors
    /// [`Error::Store`] if the file cannot be read, or a trial in it cannot be parsed.
    pub fn trials(&mut self, run: i64) -> Result<Vec<Trial>> {
        let all = format!(
            "SELECT t.study, t.levels, t.block, t.position, t.started, t.failed, t.outcome, {} FROM lab_trial t \
             JOIN lab_run r ON r.id = t.run WHERE t.run = ? ORDER BY t.position, t.study, t.levels, t.block",
            self.node
        );
        self.query(&all, params![run], |row| {
            let failed: Option<String> = column(row, 5)?;
            Ok(Trial {
                key: TrialKey { study: column(row, 0)?, case: parsed(row, 1)?, block: column(row, 2)? },
                position: column(row, 3)?,
                started: column(row, 4)?,
                node: column(row, 7)?,
                outcome: match failed {
                    Some(why) => Err(why),
                    None => Ok(parsed(row, 6)?),
                },
            })
        })
    }

    /// All runs by number, the latest one last.
    ///
    /// # Errors
    /// [`Error::Store`] if the file cannot be read, or a run in it cannot be parsed.
    pub fn runs(&mut self) -> Result<Vec<(i64, Run)>> {
        const ALL: &str =
            "SELECT id, campaign, text, scale, seed, target, started, machine FROM lab_run ORDER BY id";
        self.query(ALL, params![], |row| {
            let run = Run {
                campaign: column(row, 1)?,
                text: column(row, 2)?,
                scale: column(row, 3)?,
                seed: column::<i64>(row, 4)? as u64,
                target: column(row, 5)?,
                started: column(row, 6)?,
                machine: parsed(row, 7)?,
            };
            Ok((column(row, 0)?, run))
        })
    }

    fn query<T>(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        convert: impl Fn(&Row<'_>) -> Done<T>,
    ) -> Result<Vec<T>> {
        let read = || {
            let mut statement = self.connection.prepare(sql).map_err(text)?;
            let mut rows = statement.query(values).map_err(text)?;
            let mut all = Vec::new();
            while let Some(row) = rows.next().map_err(text)? {
                all.push(convert(row)?);
            }
            Ok(all)
        };
        read().map_err(|why| self.failed(why))
    }
}

/// Creates the tables, or checks their format. Returns an expression for the machine of a trial.
fn prepare(connection: &Connection) -> Done<&'static str> {
    let created = connection.execute_batch(TABLES);
    let has = |query: &str| connection.prepare(query).is_ok();
    if !has("SELECT 1 FROM lab_trial") {
        created.map_err(text)?;
    }
    let version: Option<i64> = connection
        .query_row("SELECT version FROM lab_format", [], |row| row.get(0))
        .optional()
        .map_err(text)?;
    match version {
        None => {
            connection.execute("INSERT INTO lab_format (version) VALUES (?)", [FORMAT]).map_err(text)?;
        }
        Some(FORMAT) => {}
        Some(other) => {
            return Err(format!(
                "their format is {other}, but this release reads {FORMAT}: use the release that wrote them, or another file"
            ));
        }
    }
    // An earlier release kept the machine of a trial in a table of its own, or not at all. A file that cannot be written stays as it is.
    if !has("SELECT node FROM lab_trial") {
        let _ = connection.execute_batch("ALTER TABLE lab_trial ADD COLUMN node TEXT NOT NULL DEFAULT ''");
        let _ = connection.execute_batch(
            "UPDATE lab_trial AS t SET node = COALESCE((SELECT q.node FROM lab_task q WHERE q.run = t.run \
             AND q.study = t.study AND q.levels = t.levels AND q.block = t.block), '')",
        );
    }
    Ok(if has("SELECT node FROM lab_trial") { "COALESCE(NULLIF(t.node, ''), r.host)" } else { "r.host" })
}

fn text(why: rusqlite::Error) -> String {
    why.to_string()
}

fn column<T: rusqlite::types::FromSql>(row: &Row<'_>, at: usize) -> Done<T> {
    row.get(at).map_err(text)
}

fn parsed<T: DeserializeOwned>(row: &Row<'_>, at: usize) -> Done<T> {
    let text: String = column(row, at)?;
    serde_json::from_str(&text).map_err(|why| format!("invalid row: {why}"))
}

fn json(value: &impl Serialize) -> Done<String> {
    serde_json::to_string(value).map_err(|why| why.to_string())
}
