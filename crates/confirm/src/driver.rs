//! The driver of a confirmation's trials: copies the database into the trial's datasets, and runs the user's commands on the
//! copy. `docs/lab.md` describes the protocol of drivers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use poolwright_base::writers::find_writer;
use poolwright_lab::trial::processes;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::command::{Shell, make_dir, stated_work};
use crate::tree::Tree;
use crate::{COPY, DATASET, Error, LOAD, LOAD_S, Result, STATED, Task, WORK, copy};

/// The time that processes have to disappear after the stop command.
const EXIT_TIME: Duration = Duration::from_secs(10);
/// The interval between two reports of progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// The part of a driver's input that this driver needs.
#[derive(Debug, Deserialize)]
struct Input {
    phase: String,
    parameters: Task,
    paths: BTreeMap<String, PathBuf>,
    scratch: PathBuf,
}

/// Runs one phase. `input` is the driver's standard input; `say` prints a line of its output.
///
/// # Errors
/// If the database is in use or cannot be copied, or if a command fails; [`Error::Interrupted`].
pub fn run(input: &str, interrupted: &dyn Fn() -> bool, say: &mut dyn FnMut(&Value)) -> Result<()> {
    let input: Input =
        serde_json::from_str(input).map_err(|why| Error::Trial(format!("invalid driver input: {why}")))?;
    let dir = input.paths.get(DATASET).ok_or_else(|| Error::Trial("the trial has no dataset".into()))?;
    match input.phase.as_str() {
        COPY => copy_database(&input.parameters, dir, interrupted, say),
        LOAD => load(&input, dir, interrupted, say),
        other => Err(Error::Trial(format!("unknown phase {other:?}"))),
    }
}

fn copy_database(
    task: &Task,
    to: &Path,
    interrupted: &dyn Fn() -> bool,
    say: &mut dyn FnMut(&Value),
) -> Result<()> {
    let tree = Tree::scan(&task.dir)?;
    check_unused(&tree)?;
    let mut reported: Option<Instant> = None;
    copy::copy(&task.dir, to, &mut |done| {
        if reported.is_none_or(|at| at.elapsed() >= PROGRESS_EVERY) {
            reported = Some(Instant::now());
            say(&json!({"progress": {"done": done as f64, "of": tree.bytes as f64, "unit": "bytes"}}));
        }
        !interrupted()
    })
}

/// Refuses a database that a process may be writing.
///
/// # Errors
/// [`Error::InUse`].
pub(crate) fn check_unused(tree: &Tree) -> Result<()> {
    match find_writer(&tree.roots) {
        None => Ok(()),
        Some(found) => Err(Error::InUse { pid: found.pid, name: found.name, path: found.path }),
    }
}

/// Runs the start command, the load and the stop command.
fn load(input: &Input, to: &Path, interrupted: &dyn Fn() -> bool, say: &mut dyn FnMut(&Value)) -> Result<()> {
    processes::adopt_orphans()
        .map_err(|why| Error::Trial(format!("cannot adopt the commands' processes: {why}")))?;
    let task = &input.parameters;
    let own_dir = input.scratch.join("commands");
    make_dir(&own_dir)?;
    let shell = |reaps| Shell {
        environment: vec![
            ("POOLWRIGHT_DIR", to.display().to_string()),
            ("POOLWRIGHT_SETTING", task.setting.clone()),
            ("POOLWRIGHT_BLOCK", (task.block + 1).to_string()),
            ("POOLWRIGHT_SCRATCH", own_dir.display().to_string()),
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

/// Waits until the database has settled after its start.
fn settle(time: Duration, interrupted: &dyn Fn() -> bool) -> Result<()> {
    const POLL: Duration = Duration::from_millis(50);
    let began = Instant::now();
    while let Some(left) = time.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
        if interrupted() {
            return Err(Error::Interrupted);
        }
        std::thread::sleep(left.min(POLL));
    }
    Ok(())
}

/// Fails if a process is still running: the pool cannot be exported while a process uses it.
fn check_stopped(has_stop: bool) -> Result<()> {
    let running = processes::settled(&[], EXIT_TIME);
    if running.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = running.iter().map(|p| format!("{} (process {})", p.name, p.pid)).collect();
    let which = if has_stop { "stop" } else { "load" };
    Err(Error::Trial(format!("{} still running after the {which} command", names.join(", "))))
}
