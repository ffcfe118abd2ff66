//! The statements of trials.
//!
//! `lab_measure` repeats the outcomes' figures for SQL queries by users; the store itself reads
//! `lab_trial.outcome`.

use super::Trial;
use super::statements::{Done, Statements, Value, json, key, key_values, parsed, small, text};
use crate::TrialKey;

const DROP_FAILED: &str = "DELETE FROM lab_trial WHERE run = $1 AND study = $2 AND levels = $3 AND block = $4 \
    AND failed IS NOT NULL";
const ADD_TRIAL: &str = "INSERT INTO lab_trial (run, study, levels, block, position, started, failed, outcome) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING";
const ADD_MEASURE: &str = "INSERT INTO lab_measure (run, study, levels, block, phase, measure, value, unit) \
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
/// A trial of an earlier release has no row in `lab_task`; it ran on the machine of the run.
const TRIALS: &str = "SELECT t.study, t.levels, t.block, t.position, t.started, t.failed, t.outcome, COALESCE(q.node, r.host) \
    FROM lab_trial t JOIN lab_run r ON r.id = t.run \
    LEFT JOIN lab_task q ON q.run = t.run AND q.study = t.study AND q.levels = t.levels AND q.block = t.block";
/// The same without `lab_task`.
const TRIALS_WITHOUT_QUEUE: &str = "SELECT t.study, t.levels, t.block, t.position, t.started, t.failed, t.outcome, r.host \
    FROM lab_trial t JOIN lab_run r ON r.id = t.run";

fn trials_of(has_queue: bool) -> &'static str {
    if has_queue { TRIALS } else { TRIALS_WITHOUT_QUEUE }
}

/// Saves a trial. Replaces a failed trial with the same key; keeps a successful one.
pub(super) fn save(statements: &mut dyn Statements, run: i64, trial: &Trial) -> Done {
    let key = key_values(run, &trial.key)?;
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

/// Reads one trial.
pub(super) fn one(
    statements: &mut dyn Statements,
    has_queue: bool,
    run: i64,
    key: &TrialKey,
) -> std::result::Result<Option<Trial>, String> {
    let sql = format!(
        "{} WHERE t.run = $1 AND t.study = $2 AND t.levels = $3 AND t.block = $4",
        trials_of(has_queue)
    );
    let rows = statements.query(&sql, &key_values(run, key)?)?;
    rows.first().map(|row| trial(row)).transpose()
}

/// Reads all trials of a run, in the order in which they ran.
pub(super) fn all(
    statements: &mut dyn Statements,
    has_queue: bool,
    run: i64,
) -> std::result::Result<Vec<Trial>, String> {
    let sql =
        format!("{} WHERE t.run = $1 ORDER BY t.position, t.study, t.levels, t.block", trials_of(has_queue));
    statements.query(&sql, &[Value::Whole(run)])?.iter().map(|row| trial(row)).collect()
}

fn trial(row: &[Value]) -> std::result::Result<Trial, String> {
    Ok(Trial {
        key: key(row)?,
        position: small(row, 3)?,
        started: text(row, 4),
        node: text(row, 7),
        outcome: if row.get(5) == Some(&Value::Null) {
            Ok(parsed(&text(row, 6))?)
        } else {
            Err(text(row, 5))
        },
    })
}
