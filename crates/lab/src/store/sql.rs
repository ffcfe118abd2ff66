//! The parts that SQLite and PostgreSQL share: tables, statements, and the store that uses them.
//!
//! `lab_measure` repeats the outcomes' figures for SQL queries by users; the store itself reads
//! `lab_trial.outcome`.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use super::{Run, Store, Trial};
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
";

const FIND_RUN: &str = "SELECT id FROM lab_run WHERE campaign = $1 AND text = $2 AND scale = $3 AND seed = $4 \
    AND target = $5 AND host = $6 ORDER BY id DESC LIMIT 1";
const ADD_RUN: &str = "INSERT INTO lab_run (campaign, text, scale, seed, target, host, started, machine) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8) RETURNING id";
const ALL_RUNS: &str =
    "SELECT id, campaign, text, scale, seed, target, started, machine FROM lab_run ORDER BY id";
const DROP_FAILED: &str = "DELETE FROM lab_trial WHERE run = $1 AND study = $2 AND levels = $3 AND block = $4 \
    AND failed IS NOT NULL";
const ADD_TRIAL: &str = "INSERT INTO lab_trial (run, study, levels, block, position, started, failed, outcome) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING";
const ADD_MEASURE: &str = "INSERT INTO lab_measure (run, study, levels, block, phase, measure, value, unit) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
const ALL_TRIALS: &str = "SELECT study, levels, block, position, started, failed, outcome FROM lab_trial \
    WHERE run = $1 ORDER BY position, study, levels, block";

/// A value of a row or a parameter.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Null,
    Whole(i64),
    Real(f64),
    Text(String),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

/// A database. All work is done in transactions that do not overlap.
pub(super) trait Database {
    /// The type of automatic row numbers.
    const IDENTITY: &'static str;

    /// Returns the path or URL for messages, without a password.
    fn location(&self) -> String;

    /// Runs several statements without parameters.
    fn batch(&mut self, sql: &str) -> std::result::Result<(), String>;

    /// Runs `work` in a transaction, completely or not at all.
    fn transaction(&mut self, work: &mut dyn FnMut(&mut dyn Statements) -> Done) -> Done;
}

/// Success, or the database's error message.
pub(super) type Done = std::result::Result<(), String>;

/// The statements of a transaction. Parameters are `$1` …
pub(super) trait Statements {
    /// Runs a statement; returns the number of changed rows.
    fn execute(&mut self, sql: &str, values: &[Value]) -> std::result::Result<u64, String>;

    /// Runs a query; returns the rows.
    fn query(&mut self, sql: &str, values: &[Value]) -> std::result::Result<Vec<Vec<Value>>, String>;
}

/// A store of results in a database.
pub(super) struct SqlStore<D>(D);

impl<D: Database> SqlStore<D> {
    /// Creates the tables, or checks that they have the right format.
    ///
    /// # Errors
    /// [`Error::Store`] if the database cannot be read or written, or has tables of another format.
    pub fn new(mut database: D) -> Result<SqlStore<D>> {
        let location = database.location();
        let failed = |why: String| Error::Store { location: location.clone(), why };
        database.batch(&TABLES.replace("IDENTITY", D::IDENTITY)).map_err(failed)?;
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
            _ => Ok(SqlStore(database)),
        }
    }

    fn within(&mut self, work: &mut dyn FnMut(&mut dyn Statements) -> Done) -> Result<()> {
        let location = self.0.location();
        self.0.transaction(work).map_err(|why| Error::Store { location, why })
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
        let mut id = 0;
        self.within(&mut |statements| {
            if let Some(row) = statements.query(FIND_RUN, &same)?.first() {
                id = whole(row, 0);
                return Ok(());
            }
            let mut all = same.clone();
            all.extend([run.started.as_str().into(), Value::Text(json(&run.machine)?)]);
            id = whole(statements.query(ADD_RUN, &all)?.first().ok_or("no row was added")?, 0);
            Ok(())
        })?;
        Ok(id)
    }

    fn save(&mut self, run: i64, trial: &Trial) -> Result<()> {
        self.within(&mut |statements| save(statements, run, trial))
    }

    fn trials(&mut self, run: i64) -> Result<Vec<Trial>> {
        let mut trials = Vec::new();
        self.within(&mut |statements| {
            trials = statements
                .query(ALL_TRIALS, &[Value::Whole(run)])?
                .iter()
                .map(|r| trial(r))
                .collect::<std::result::Result<_, _>>()?;
            Ok(())
        })?;
        Ok(trials)
    }

    fn runs(&mut self) -> Result<Vec<(i64, Run)>> {
        let mut runs = Vec::new();
        self.within(&mut |statements| {
            let rows = statements.query(ALL_RUNS, &[])?;
            runs = rows
                .iter()
                .map(|row| Ok((whole(row, 0), a_run(row)?)))
                .collect::<std::result::Result<_, String>>()?;
            Ok(())
        })?;
        Ok(runs)
    }
}

fn save(statements: &mut dyn Statements, run: i64, trial: &Trial) -> Done {
    let key = vec![
        Value::Whole(run),
        trial.key.study.as_str().into(),
        Value::Text(json(&trial.key.case)?),
        Value::Whole(trial.key.block.into()),
    ];
    let with = |more: Vec<Value>| [key.clone(), more].concat();
    statements.execute(DROP_FAILED, &key)?;
    let (failed, outcome) = match &trial.outcome {
        Ok(outcome) => (Value::Null, Value::Text(json(outcome)?)),
        Err(why) => (why.as_str().into(), Value::Null),
    };
    let row = with(vec![Value::Whole(trial.position.into()), trial.started.as_str().into(), failed, outcome]);
    let added = statements.execute(ADD_TRIAL, &row)?;
    for phase in trial.outcome.iter().flat_map(|o| &o.phases).filter(|p| added > 0 && p.measured) {
        for (name, figure) in &phase.measures {
            let figure = [
                phase.name.as_str().into(),
                name.as_str().into(),
                Value::Real(figure.value),
                figure.unit.as_str().into(),
            ];
            statements.execute(ADD_MEASURE, &with(figure.to_vec()))?;
        }
    }
    Ok(())
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

fn trial(row: &[Value]) -> std::result::Result<Trial, String> {
    let small = |i| u32::try_from(whole(row, i)).map_err(|_| "a number is out of range".to_owned());
    Ok(Trial {
        key: TrialKey { study: text(row, 0), case: parsed(&text(row, 1))?, block: small(2)? },
        position: small(3)?,
        started: text(row, 4),
        outcome: if row.get(5) == Some(&Value::Null) {
            Ok(parsed(&text(row, 6))?)
        } else {
            Err(text(row, 5))
        },
    })
}

fn whole(row: &[Value], i: usize) -> i64 {
    if let Some(Value::Whole(value)) = row.get(i) { *value } else { 0 }
}

fn text(row: &[Value], i: usize) -> String {
    if let Some(Value::Text(value)) = row.get(i) { value.clone() } else { String::new() }
}

fn json(value: &impl serde::Serialize) -> std::result::Result<String, String> {
    serde_json::to_string(value).map_err(|e| e.to_string())
}

fn parsed<T: DeserializeOwned>(text: &str) -> std::result::Result<T, String> {
    serde_json::from_str(text).map_err(|e| format!("invalid row: {e}"))
}
