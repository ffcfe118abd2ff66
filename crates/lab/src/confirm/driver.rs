//! The driver of a confirmation's trials: copies the database into the trial's datasets, and runs the user's commands on it.
//! It speaks the protocol of all drivers (`docs/lab.md`).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};

use super::command::{Shell, make_dir, stated_work};
use super::tree::Tree;
use super::writers::writer;
use super::{COPY, DATASET, LOAD, LOAD_S, STATED, Task, WORK, copy};
use crate::trial::processes;
use crate::{Error, Result};

/// How long what the stop command ends may take to be gone.
const FAREWELL: Duration = Duration::from_secs(10);
/// Between two words of progress.
const SAY_EVERY: Duration = Duration::from_millis(500);

/// What a driver reads, as far as this one needs it.
#[derive(Debug, Deserialize)]
struct Input {
    phase: String,
    parameters: Task,
    paths: BTreeMap<String, PathBuf>,
    scratch: PathBuf,
}

/// Runs one phase. `input` is what a driver reads, and `say` takes the lines that it prints.
///
/// # Errors
/// If the database is in use or cannot be copied, or a command fails; [`Error::Interrupted`].
pub fn run(input: &str, interrupted: &dyn Fn() -> bool, say: &mut dyn FnMut(&Value)) -> Result<()> {
    let input: Input =
        serde_json::from_str(input).map_err(|why| Error::Trial(format!("invalid driver input: {why}")))?;
    let place = input.paths.get(DATASET).ok_or_else(|| Error::Trial("the trial has no dataset".into()))?;
    match input.phase.as_str() {
        COPY => copy_database(&input.parameters, place, interrupted, say),
        LOAD => load(&input, place, interrupted, say),
        other => Err(Error::Trial(format!("unknown phase {other:?}"))),
    }
}

fn copy_database(
    task: &Task,
    place: &std::path::Path,
    interrupted: &dyn Fn() -> bool,
    say: &mut dyn FnMut(&Value),
) -> Result<()> {
    let tree = Tree::look(&task.dir)?;
    check_unused(&tree)?;
    let mut said: Option<Instant> = None;
    copy::copy(&task.dir, place, &mut |done| {
        if said.is_none_or(|at| at.elapsed() >= SAY_EVERY) {
            said = Some(Instant::now());
            say(&json!({"progress": {"done": done as f64, "of": tree.bytes as f64, "unit": "bytes"}}));
        }
        !interrupted()
    })
}

/// Refuses a database that a process may be writing.
pub(super) fn check_unused(tree: &Tree) -> Result<()> {
    match writer(&tree.roots) {
        None => Ok(()),
        Some(found) => Err(Error::InUse { pid: found.pid, name: found.name, path: found.path }),
    }
}

fn load(
    input: &Input,
    place: &std::path::Path,
    interrupted: &dyn Fn() -> bool,
    say: &mut dyn FnMut(&Value),
) -> Result<()> {
    processes::adopt_orphans()
        .map_err(Error::host("becoming the reaper of", std::path::Path::new("the commands")))?;
    let task = &input.parameters;
    let dir = input.scratch.join("commands");
    make_dir(&dir)?;
    let shell = |reaps| Shell {
        environment: vec![
            ("POOLWRIGHT_DIR", place.display().to_string()),
            ("POOLWRIGHT_SETTING", task.setting.clone()),
            ("POOLWRIGHT_BLOCK", (task.block + 1).to_string()),
            ("POOLWRIGHT_SCRATCH", dir.display().to_string()),
        ],
        working_dir: &task.working_dir,
        dir: &input.scratch,
        limit: Duration::from_secs_f64(task.limit_s),
        interrupted,
        reaps,
    };
    if let Some(start) = &task.commands.start {
        shell(true).run("start", start)?;
    }
    settle(Duration::from_secs_f64(task.settle_s), interrupted)?;
    say(&json!({"measure": "start"}));
    let ran = shell(false).run("load", &task.commands.load)?;
    say(&json!({"measure": "stop"}));
    let stated = stated_work(&ran.output);
    let mut figure = |name: &str, value: f64, unit: &str| {
        say(&json!({"figure": {"name": name, "value": value, "unit": unit}}));
    };
    figure(LOAD_S, ran.took.as_secs_f64(), "s");
    figure(WORK, stated.unwrap_or(1.0), "count");
    figure(STATED, f64::from(u8::from(stated.is_some())), "count");
    if let Some(stop) = &task.commands.stop {
        shell(true).run("stop", stop)?;
    }
    check_stopped(task.commands.stop.is_some())
}

fn settle(time: Duration, interrupted: &dyn Fn() -> bool) -> Result<()> {
    const LOOK: Duration = Duration::from_millis(50);
    let began = Instant::now();
    while let Some(left) = time.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
        if interrupted() {
            return Err(Error::Interrupted);
        }
        std::thread::sleep(left.min(LOOK));
    }
    Ok(())
}

/// The pool can only be exported, and its space be read, once nothing uses it.
fn check_stopped(has_stop: bool) -> Result<()> {
    let left = processes::settled(&[], FAREWELL);
    if left.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = left.iter().map(|p| format!("{} (process {})", p.name, p.pid)).collect();
    let which = if has_stop { "stop" } else { "load" };
    Err(Error::Trial(format!("{} still running after the {which} command", names.join(", "))))
}
