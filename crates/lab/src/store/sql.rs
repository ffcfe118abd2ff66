//! The parts that SQLite and PostgreSQL share: tables, statements, and the store that uses them.

use std::collections::BTreeMap;

use super::queue_sql::EndedClaim;
use super::statements::{Done, Statements, Value, json, parsed, text, whole};
use super::{Claim, Claimant, Run, Store, Task, Trial, queue_sql, trial_sql};
use crate::{Error, Result, TrialKey};

/// Version of the tables; a higher one was created by a later release.
const FORMAT: i64 = 1;

/// The tables; `IDENTITY` is replaced with the database's type of automatic row numbers.
const TABLES: &str = "
CREATE TABLE IF NOT EXISTS lab_format (version BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS lab_run (
    id IDENTITY,
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
CREATE TABLE IF NOT EXISTS lab_task (
    run BIGINT NOT NULL REFERENCES lab_run (id),
    study TEXT NOT NULL,
    levels TEXT NOT NULL,
    block BIGINT NOT NULL,
    rank BIGINT NOT NULL,
    state TEXT NOT NULL,
    node TEXT NOT NULL,
    owner TEXT,
    token BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    until_ms BIGINT NOT NULL,
    PRIMARY KEY (run, study, levels, block)
);
CREATE TABLE IF NOT EXISTS lab_node (
    run BIGINT NOT NULL REFERENCES lab_run (id),
    node TEXT NOT NULL,
    machine TEXT NOT NULL,
    PRIMARY KEY (run, node)
);
";

const FIND_RUN: &str = "SELECT id FROM lab_run WHERE campaign = $1 AND text = $2 AND scale = $3 AND seed = $4 \
    AND target = $5 AND host = $6 ORDER BY id DESC LIMIT 1";
const ADD_RUN: &str = "INSERT INTO lab_run (campaign, text, scale, seed, target, host, started, machine) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING id";
const ALL_RUNS: &str =
    "SELECT id, campaign, text, scale, seed, target, started, machine FROM lab_run ORDER BY id";

/// A database. All work is done in transactions that do not overlap.
pub(super) trait Database {
    /// The type of automatic row numbers.
    const IDENTITY: &'static str;
    /// An expression for the present time in milliseconds since 1970. All workers use the clock of the database.
    const NOW_MS: &'static str;

    /// Returns the path or URL for messages, without a password.
    fn location(&self) -> String;

    /// Runs several statements without parameters.
    fn batch(&mut self, sql: &str) -> std::result::Result<(), String>;

    /// Runs `work` in a transaction, completely or not at all.
    fn transaction(&mut self, work: &mut dyn FnMut(&mut dyn Statements) -> Done) -> Done;
}

/// A store of results in a database.
pub(super) struct SqlStore<D> {
    database: D,
    /// Whether there is a queue: a file of an earlier release that cannot be written has none.
    has_queue: bool,
}

impl<D: Database> SqlStore<D> {
    /// Creates the tables, or checks that they have the right format.
    ///
    /// # Errors
    /// [`Error::Store`] if the database cannot be read or written, or has tables of another format.
    pub fn new(mut database: D) -> Result<SqlStore<D>> {
        let location = database.location();
        let failed = |why: String| Error::Store { location: location.clone(), why };
        let created = database.batch(&TABLES.replace("IDENTITY", D::IDENTITY));
        let mut has = |table: &str| {
            let sql = format!("SELECT 1 FROM {table} WHERE 1 = 0");
            database.transaction(&mut |statements| statements.query(&sql, &[]).map(drop)).is_ok()
        };
        let has_queue = created.is_ok() || has("lab_task");
        if !has_queue && !has("lab_trial") {
            created.map_err(failed)?;
        }
        let mut version = None;
        let mut check = |statements: &mut dyn Statements| {
            version =
                statements.query("SELECT version FROM lab_format", &[])?.first().map(|row| whole(row, 0));
            if version.is_none() {
                statements
                    .execute("INSERT INTO lab_format (version) VALUES ($1)", &[Value::Whole(FORMAT)])?;
            }
            Ok(())
        };
        database.transaction(&mut check).map_err(failed)?;
        match version {
            Some(other) if other != FORMAT => Err(failed(format!(
                "their format is {other}, but this release reads {FORMAT}: use the release that wrote them, or another file or database"
            ))),
            _ => Ok(SqlStore { database, has_queue }),
        }
    }

    fn within(&mut self, work: &mut dyn FnMut(&mut dyn Statements) -> Done) -> Result<()> {
        let location = self.database.location();
        self.database.transaction(work).map_err(|why| Error::Store { location, why })
    }

    /// Runs `work` in a transaction, and returns its value.
    fn returning<T>(
        &mut self,
        work: &mut dyn FnMut(&mut dyn Statements) -> std::result::Result<T, String>,
    ) -> Result<T> {
        let mut value = None;
        self.within(&mut |statements| {
            value = Some(work(statements)?);
            Ok(())
        })?;
        let location = self.database.location();
        value.ok_or(Error::Store { location, why: "the transaction was not run".to_owned() })
    }
}

impl<D: Database> Store for SqlStore<D> {
    fn begin(&mut self, run: &Run) -> Result<i64> {
        let same: Vec<Value> = vec![
            run.campaign.as_str().into(),
            run.text.as_str().into(),
            run.scale.as_str().into(),
            Value::Whole(run.seed as i64),
            run.target.as_str().into(),
            run.host().into(),
        ];
        self.returning(&mut |statements| {
            if let Some(row) = statements.query(FIND_RUN, &same)?.first() {
                return Ok(whole(row, 0));
            }
            let mut all = same.clone();
            all.extend([run.started.as_str().into(), Value::Text(json(&run.machine)?)]);
            Ok(whole(statements.query(ADD_RUN, &all)?.first().ok_or("no row was added")?, 0))
        })
    }

    fn enqueue(&mut self, run: i64, first: i64, trials: &[TrialKey]) -> Result<()> {
        self.within(&mut |statements| queue_sql::enqueue(statements, run, first, trials))
    }

    fn clear_queue(&mut self, run: i64) -> Result<()> {
        self.within(&mut |statements| queue_sql::clear(statements, run))
    }

    fn queue(&mut self, run: i64) -> Result<Vec<Task>> {
        self.returning(&mut |statements| queue_sql::tasks(statements, D::NOW_MS, run))
    }

    fn claim(&mut self, run: i64, worker: &Claimant) -> Result<Option<Claim>> {
        self.returning(&mut |statements| queue_sql::claim(statements, D::NOW_MS, run, worker))
    }

    fn renew(&mut self, run: i64, worker: &Claimant, claim: &Claim) -> Result<bool> {
        self.returning(&mut |statements| queue_sql::renew(statements, D::NOW_MS, run, worker, claim))
    }

    fn release(&mut self, run: i64, claim: &Claim) -> Result<()> {
        self.within(&mut |statements| queue_sql::release(statements, run, claim))
    }

    fn save(&mut self, run: i64, claim: &Claim, trial: &Trial) -> Result<bool> {
        self.returning(&mut |statements| {
            let ended = queue_sql::end(statements, D::NOW_MS, run, claim, trial.outcome.is_ok())?;
            if ended == EndedClaim::Now {
                trial_sql::save(statements, run, trial)?;
            }
            Ok(ended != EndedClaim::Lost)
        })
    }

    fn save_node(&mut self, run: i64, node: &str, machine: &BTreeMap<String, String>) -> Result<()> {
        self.within(&mut |statements| queue_sql::save_node(statements, run, node, machine))
    }

    fn nodes(&mut self, run: i64) -> Result<BTreeMap<String, BTreeMap<String, String>>> {
        if !self.has_queue {
            return Ok(BTreeMap::new());
        }
        self.returning(&mut |statements| queue_sql::nodes(statements, run))
    }

    fn trial(&mut self, run: i64, key: &TrialKey) -> Result<Option<Trial>> {
        let has_queue = self.has_queue;
        self.returning(&mut |statements| trial_sql::one(statements, has_queue, run, key))
    }

    fn trials(&mut self, run: i64) -> Result<Vec<Trial>> {
        let has_queue = self.has_queue;
        self.returning(&mut |statements| trial_sql::all(statements, has_queue, run))
    }

    fn runs(&mut self) -> Result<Vec<(i64, Run)>> {
        self.returning(&mut |statements| {
            let rows = statements.query(ALL_RUNS, &[])?;
            rows.iter().map(|row| Ok((whole(row, 0), a_run(row)?))).collect()
        })
    }
}

fn a_run(row: &[Value]) -> std::result::Result<Run, String> {
    Ok(Run {
        campaign: text(row, 1),
        text: text(row, 2),
        scale: text(row, 3),
        seed: whole(row, 4) as u64,
        target: text(row, 5),
        started: text(row, 6),
        machine: parsed::<BTreeMap<String, String>>(&text(row, 7))?,
    })
}
