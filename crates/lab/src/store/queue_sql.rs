//! The statements of the queue.

use std::collections::BTreeMap;

use super::queue::choose;
use super::statements::{Done, Statements, Value, json, key, key_values, parsed, small, text, whole};
use super::trial_sql::save;
use super::{Claim, Claimant, MOST_ATTEMPTS, Task, TaskState, Trial};
use crate::TrialKey;

const ADD: &str = "INSERT INTO lab_task (run, study, levels, block, rank, state, node, owner, token, attempts, until_ms) \
    VALUES ($1, $2, $3, $4, $5, 'queued', '', NULL, 0, 0, 0) ON CONFLICT DO NOTHING";
/// The row of a trial that has ended says on which node. A user may have deleted the trial to repeat it.
const CLEAR: &str = "DELETE FROM lab_task WHERE run = $1 AND (state IN ('queued', 'failed') OR (state = 'ended' AND NOT EXISTS \
    (SELECT 1 FROM lab_trial t WHERE t.run = lab_task.run AND t.study = lab_task.study AND t.levels = lab_task.levels \
    AND t.block = lab_task.block AND t.failed IS NULL)))";
/// `CLOCK` is replaced with the present time.
const ALL: &str = "SELECT study, levels, block, rank, state, node, owner, token, attempts, until_ms - CLOCK FROM lab_task \
    WHERE run = $1 ORDER BY rank, study, levels, block";
const TAKE: &str = "UPDATE lab_task SET state = 'claimed', node = $5, owner = $6, token = $7, attempts = attempts + 1, until_ms = $8 \
    WHERE run = $1 AND study = $2 AND levels = $3 AND block = $4";
const GIVE_UP: &str =
    "UPDATE lab_task SET state = 'failed' WHERE run = $1 AND study = $2 AND levels = $3 AND block = $4";
const RENEW: &str = "UPDATE lab_task SET until_ms = $6 \
    WHERE run = $1 AND study = $2 AND levels = $3 AND block = $4 AND state = 'claimed' AND token = $5";
const RELEASE: &str = "UPDATE lab_task SET state = 'queued', attempts = attempts - 1, owner = NULL \
    WHERE run = $1 AND study = $2 AND levels = $3 AND block = $4 AND state = 'claimed' AND token = $5";
const END: &str = "UPDATE lab_task SET state = $6, owner = NULL, until_ms = $7 \
    WHERE run = $1 AND study = $2 AND levels = $3 AND block = $4 AND state = 'claimed' AND token = $5";
const HAS_ENDED: &str = "SELECT token FROM lab_task WHERE run = $1 AND study = $2 AND levels = $3 AND block = $4 AND token = $5 \
    AND state IN ('ended', 'failed')";
const POSITION: &str = "SELECT CAST(COALESCE(MAX(p), -1) + 1 AS BIGINT) FROM (SELECT MAX(position) AS p FROM lab_trial WHERE run = $1 \
    UNION ALL SELECT MAX(token) - 1 AS p FROM lab_task WHERE run = $1) AS positions";
/// What a machine lacked may be there now.
const CLEAR_NODES: &str = "DELETE FROM lab_node WHERE run = $1 AND machine LIKE '%\"problem\":%'";
const DROP_NODE: &str = "DELETE FROM lab_node WHERE run = $1 AND node = $2";
const ADD_NODE: &str = "INSERT INTO lab_node (run, node, machine) VALUES ($1, $2, $3)";
const ALL_NODES: &str = "SELECT node, machine FROM lab_node WHERE run = $1 ORDER BY node";

type Answer<T> = std::result::Result<T, String>;

pub(super) fn enqueue(statements: &mut dyn Statements, run: i64, first: i64, trials: &[TrialKey]) -> Done {
    for (rank, key) in (first..).zip(trials) {
        let values = [key_values(run, key)?, vec![Value::Whole(rank)]].concat();
        statements.execute(ADD, &values)?;
    }
    Ok(())
}

pub(super) fn clear(statements: &mut dyn Statements, run: i64) -> Done {
    statements.execute(CLEAR, &[Value::Whole(run)])?;
    statements.execute(CLEAR_NODES, &[Value::Whole(run)]).map(drop)
}

pub(super) fn tasks(statements: &mut dyn Statements, clock: &str, run: i64) -> Answer<Vec<Task>> {
    statements
        .query(&ALL.replace("CLOCK", clock), &[Value::Whole(run)])?
        .iter()
        .map(|row| task(row))
        .collect()
}

fn task(row: &[Value]) -> Answer<Task> {
    let name = text(row, 4);
    let state = TaskState::ALL.into_iter().find(|state| state.name() == name);
    let owner = text(row, 6);
    Ok(Task {
        key: key(row)?,
        rank: whole(row, 3),
        state: state.ok_or_else(|| format!("invalid state of a task: {name:?}"))?,
        node: text(row, 5),
        owner: if owner.is_empty() { None } else { Some(parsed(&owner)?) },
        token: whole(row, 7),
        attempts: small(row, 8)?,
        left_ms: whole(row, 9),
    })
}

fn now_ms(statements: &mut dyn Statements, expression: &str) -> Answer<i64> {
    Ok(statements.query(&format!("SELECT {expression}"), &[])?.first().map_or(0, |row| whole(row, 0)))
}

/// Tokens are unique in the run, and a trial's position is its token less one.
pub(super) fn claim(
    statements: &mut dyn Statements,
    clock: &str,
    run: i64,
    worker: &Claimant,
) -> Answer<Option<Claim>> {
    let now = now_ms(statements, clock)?;
    let mut tasks = tasks(statements, clock, run)?;
    let mut position =
        statements.query(POSITION, &[Value::Whole(run)])?.first().map_or(0, |row| whole(row, 0));
    while let Some(at) = choose(&tasks, worker) {
        let task = tasks.swap_remove(at);
        let key = key_values(run, &task.key)?;
        if task.attempts >= MOST_ATTEMPTS {
            statements.execute(GIVE_UP, &key)?;
            save(statements, run, &given_up(task, position)?)?;
            position += 1;
            continue;
        }
        let token = position + 1;
        let values = [
            worker.node.as_str().into(),
            Value::Text(json(&worker.process)?),
            Value::Whole(token),
            Value::Whole(now + worker.lease.as_millis() as i64),
        ];
        statements.execute(TAKE, &[key, values.to_vec()].concat())?;
        let position = u32::try_from(position).map_err(|_| "too many trials".to_owned())?;
        return Ok(Some(Claim { key: task.key, position, token }));
    }
    Ok(None)
}

/// The result of a trial whose workers died.
fn given_up(task: Task, position: i64) -> Answer<Trial> {
    Ok(Trial {
        key: task.key,
        position: u32::try_from(position).map_err(|_| "too many trials".to_owned())?,
        started: poolwright_host::time::now(),
        node: task.node,
        outcome: Err(format!("{} workers ended without a result of this trial", task.attempts)),
    })
}

fn claim_values(run: i64, claim: &Claim, more: &[Value]) -> Answer<Vec<Value>> {
    Ok([&key_values(run, &claim.key)?, &[Value::Whole(claim.token)][..], more].concat())
}

pub(super) fn renew(
    statements: &mut dyn Statements,
    clock: &str,
    run: i64,
    worker: &Claimant,
    claim: &Claim,
) -> Answer<bool> {
    let until = now_ms(statements, clock)? + worker.lease.as_millis() as i64;
    Ok(statements.execute(RENEW, &claim_values(run, claim, &[Value::Whole(until)])?)? > 0)
}

pub(super) fn release(statements: &mut dyn Statements, run: i64, claim: &Claim) -> Done {
    statements.execute(RELEASE, &claim_values(run, claim, &[])?).map(drop)
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EndedClaim {
    /// It has ended now, and its result is to be saved.
    Now,
    /// It had ended before: the answer of the database to that was lost.
    Before,
    /// Another worker has claimed the trial.
    Lost,
}

/// Ends a claim.
pub(super) fn end(
    statements: &mut dyn Statements,
    clock: &str,
    run: i64,
    claim: &Claim,
    succeeded: bool,
) -> Answer<EndedClaim> {
    let state = if succeeded { TaskState::Ended } else { TaskState::Failed };
    let values = [state.name().into(), Value::Whole(now_ms(statements, clock)?)];
    if statements.execute(END, &claim_values(run, claim, &values)?)? > 0 {
        return Ok(EndedClaim::Now);
    }
    let is_ended = !statements.query(HAS_ENDED, &claim_values(run, claim, &[])?)?.is_empty();
    Ok(if is_ended { EndedClaim::Before } else { EndedClaim::Lost })
}

pub(super) fn save_node(
    statements: &mut dyn Statements,
    run: i64,
    node: &str,
    machine: &BTreeMap<String, String>,
) -> Done {
    let key = [Value::Whole(run), node.into()];
    statements.execute(DROP_NODE, &key)?;
    let values = [key.to_vec(), vec![Value::Text(json(machine)?)]].concat();
    statements.execute(ADD_NODE, &values).map(drop)
}

pub(super) fn nodes(
    statements: &mut dyn Statements,
    run: i64,
) -> Answer<BTreeMap<String, BTreeMap<String, String>>> {
    let rows = statements.query(ALL_NODES, &[Value::Whole(run)])?;
    rows.iter().map(|row| Ok((text(row, 0), parsed(&text(row, 1))?))).collect()
}
