//! Runs one trial in its own process: creates the datasets, runs the driver's phases on them, and measures.
//!
//! The trial ends every process that it starts: it adopts orphans, and the kernel signals its children if it is killed.
//! Therefore one process runs one trial, from its main thread.

mod calls;
pub mod driver;
mod figures;
mod log_tail;
mod phase;
pub mod processes;
pub mod protocol;
mod sampler;
mod snapshots;
pub mod target;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::{Error, Outcome, Result, TrialSpec};
use poolwright_base::cannot;
use target::Target;

/// The environment that the starting process provides.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The program whose verbs create and mount pools.
    pub program: PathBuf,
    /// Returns whether a signal has arrived.
    pub interrupted: fn() -> bool,
    /// Receives messages for display: objects with `phase` or with `log`.
    pub say: fn(&serde_json::Value),
}

/// Runs the trial. Whatever happens, no process is left running and nothing mounted.
///
/// # Errors
/// Fails if the target cannot be created or used, if the driver fails, exceeds a limit or violates the protocol, or
/// if the user interrupts the trial.
pub fn run(spec: &TrialSpec, setting: &Setting) -> Result<Outcome> {
    let began = Instant::now();
    processes::adopt_orphans()
        .map_err(cannot("become the reaper of", Path::new("what the driver starts")))?;
    let logs = Logs::create(spec)?;
    let outcome = on_target(spec, setting, &logs);
    processes::end(&[], Duration::from_secs(2));
    // The error of a failed trial matters more than a clean directory, which the starting process removes
    // anyway.
    let cleared = if matches!(outcome, Ok(_) | Err(Error::Interrupted)) { logs.remove() } else { Ok(()) };
    let mut outcome = outcome?;
    cleared?;
    outcome.seconds = began.elapsed().as_secs_f64();
    Ok(outcome)
}

fn on_target(spec: &TrialSpec, setting: &Setting, logs: &Logs) -> Result<Outcome> {
    let mut target = target::create(spec, setting)?;
    let outcome = all_phases(spec, setting, logs, &mut *target)?;
    target.tear_down()?;
    Ok(outcome)
}

fn all_phases(spec: &TrialSpec, setting: &Setting, logs: &Logs, target: &mut dyn Target) -> Result<Outcome> {
    let mut outcome = Outcome { versions: target.versions()?, ..Outcome::default() };
    for phase in &spec.phases {
        (setting.say)(&serde_json::json!({"phase": phase.name, "done": 0, "of": 0, "unit": ""}));
        let done = phase::run(spec, setting, phase, target, logs).map_err(|why| match why {
            Error::Trial(why) => Error::Trial(format!("phase {}: {why}", phase.name)),
            other => other,
        })?;
        outcome.versions.extend(done.versions);
        outcome.phases.push(done.outcome);
    }
    Ok(outcome)
}

/// The directories of a trial in its scratch directory, in addition to those of the target.
#[derive(Debug)]
struct Logs {
    driver: PathBuf,
    logs: PathBuf,
}

impl Logs {
    fn create(spec: &TrialSpec) -> Result<Logs> {
        let logs = Logs { driver: spec.scratch.join("driver"), logs: spec.scratch.join("log") };
        for dir in [&spec.cache, &logs.driver, &logs.logs] {
            poolwright_base::private::make_dirs(dir).map_err(cannot("create", dir))?;
        }
        Ok(logs)
    }

    /// Returns the path of the log file for a phase's driver.
    fn of(&self, phase: &str) -> PathBuf {
        self.logs.join(format!("{phase}.log"))
    }

    fn remove(&self) -> Result<()> {
        for dir in [&self.driver, &self.logs] {
            std::fs::remove_dir_all(dir).map_err(cannot("remove", dir))?;
        }
        Ok(())
    }
}
