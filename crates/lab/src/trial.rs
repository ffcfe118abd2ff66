//! One trial, in a process of its own: datasets, the phases of a driver on them, what was measured.
//!
//! What is started here ends here: the trial adopts orphans, and whoever dies of the trial is told by the kernel. So one
//! process runs one trial, from its main thread.

pub mod driver;
mod figures;
mod histogram;
mod log_tail;
mod phase;
pub mod processes;
pub mod protocol;
mod sampler;
pub mod target;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::{Error, Outcome, Result, TrialSpec};
use target::Target;

/// What a trial has from its starter.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The program whose verbs make and mount pools.
    pub program: PathBuf,
    /// Whether a signal came.
    pub interrupted: fn() -> bool,
    /// Takes what the starter may show: objects with `phase`, or with `log`.
    pub say: fn(&serde_json::Value),
}

/// Runs it. Whatever comes of it, nothing is left running or mounted.
pub fn run(spec: &TrialSpec, setting: &Setting) -> Result<Outcome> {
    let began = Instant::now();
    processes::adopt_orphans()
        .map_err(Error::host("becoming the reaper of", Path::new("what the driver starts")))?;
    let logs = Logs::create(spec)?;
    let outcome = on_target(spec, setting, &logs);
    processes::end(&[], Duration::from_secs(2));
    // what a failed trial said is worth more than a clean directory, which its starter removes anyway
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

/// The directories of a trial below its scratch, beside the target's.
#[derive(Debug)]
struct Logs {
    driver: PathBuf,
    logs: PathBuf,
}

impl Logs {
    fn create(spec: &TrialSpec) -> Result<Logs> {
        let logs = Logs { driver: spec.scratch.join("driver"), logs: spec.scratch.join("log") };
        for dir in [&spec.cache, &logs.driver, &logs.logs] {
            poolwright_host::private::make_dirs(dir).map_err(Error::host("making", dir))?;
        }
        Ok(logs)
    }

    /// Where a phase's driver says what it has to say beside the protocol.
    fn of(&self, phase: &str) -> PathBuf {
        self.logs.join(format!("{phase}.log"))
    }

    fn remove(&self) -> Result<()> {
        for dir in [&self.driver, &self.logs] {
            std::fs::remove_dir_all(dir).map_err(Error::host("removing", dir))?;
        }
        Ok(())
    }
}
