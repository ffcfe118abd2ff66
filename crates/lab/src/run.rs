//! Runs a campaign: the trials that are missing from the results, one after another on this machine, or on the nodes of a cluster
//! ([`share`], [`run_task`]).

pub mod checks;
pub mod child;
mod node;
mod progress_text;
pub mod scratch_dir;
mod shared;
mod trials;
mod worker;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use poolwright_base::machine::MachineInfo;
use poolwright_base::memory;
use poolwright_base::time::now;
use poolwright_base::units::{counted, format_duration};
use poolwright_base::{cannot, kernel};
use poolwright_openzfs::{Engine, property};

pub use child::Progress;
pub use node::{RanTask, Shared, run_task, share};
pub use progress_text::{RunProgress, Update, phase, trial_name};
pub use shared::{SharedDir, SharedRun, TaskCounts};

use crate::campaign::{Campaign, Study};
use crate::order::{self, Plan};
use crate::run_target::RunTarget;
use crate::store::{Run, Store, Trial};
use crate::{Assets, Error, Result, TrialKey};
use scratch_dir::ScratchDir;
use trials::RunTrials;
use worker::TrialWorker;

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Location of the drivers.
    pub assets: Assets,
    /// The program whose verb `trial` runs a trial.
    pub program: PathBuf,
    /// Scale of the run.
    pub scale: String,
    /// Seed of the order and of the workloads.
    pub seed: u64,
    /// Number of blocks, which overrides that of the studies.
    pub repeats: Option<u32>,
    /// The time after which no trial begins.
    pub limit: Option<Duration>,
    /// Names of the studies to run; an empty list means all.
    pub only: Vec<String>,
    /// The storage of the datasets.
    pub target: RunTarget,
    /// Parent of the scratch directory.
    pub scratch: PathBuf,
    /// Whether to keep the trials' scratch directories.
    pub keep: bool,
}

/// A step of the run, for display.
#[derive(Debug)]
pub enum Event<'a> {
    /// The run begins.
    Begun {
        /// Number of trials of all studies.
        trials: usize,
        /// Number of trials that are already in the results.
        skipped: usize,
        /// Whether the campaign's file has changed since the previous run, whose results are kept.
        changed: bool,
    },
    /// A trial begins.
    Trial {
        /// Identity of the trial.
        key: &'a TrialKey,
        /// Number of the trial in the run, from 1.
        number: usize,
        /// Number of trials expected so far; undecided claims may add some.
        of: usize,
        /// Estimated time until the end of the run, including this trial.
        left: Option<Duration>,
    },
    /// Progress of the current trial.
    Progress(&'a Progress),
    /// A trial ended and is saved.
    Ended(&'a Trial),
    /// A remark, one line.
    Note(String),
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Number of the run in the results.
    pub run: i64,
    /// Number of trials considered, including those finished in earlier runs.
    pub trials: usize,
    /// Number of trials finished in earlier runs.
    pub skipped: usize,
    /// Number of trials that succeeded in this run.
    pub done: usize,
    /// Trials that failed in this run, with the reasons.
    pub failed: Vec<(TrialKey, String)>,
    /// Number of trials that the run's time limit left over.
    pub left: usize,
    /// Wall time of this run in seconds.
    pub seconds: f64,
    /// Whether the user interrupted the run.
    pub interrupted: bool,
}

impl Summary {
    /// One line on the run, and one on each failed trial. `location` names the results.
    pub fn text(&self, campaign: &str, location: &str) -> String {
        let mut out = format!(
            "{campaign}: {} done in {}, {} there before, {} failed; run {} in {location}\n",
            counted(self.done as u64, "trial"),
            format_duration(Duration::from_secs_f64(self.seconds)),
            self.skipped,
            self.failed.len(),
            self.run
        );
        if self.left > 0 {
            let left = counted(self.left as u64, "trial");
            out += &format!("  the time is over: {left} did not begin; the same command continues the run\n");
        }
        for (key, why) in &self.failed {
            out += &format!("  failed: {}: {why}\n", progress_text::trial_name(key));
        }
        out
    }
}

/// Runs the missing trials. A failed trial is saved as failed, and the run continues.
///
/// # Errors
/// Fails if a study or a requirement of the campaign is missing, if the scratch directory is in use or cannot be
/// used, or if the results cannot be read or written.
pub fn run(
    campaign: &Campaign,
    text: &str,
    options: &Options,
    store: &mut Store,
    interrupted: &dyn Fn() -> bool,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Summary> {
    let studies = chosen(campaign, options)?;
    let scratch_dir = prepare(campaign, options, &studies, "poolwright-lab")?;
    let began = Instant::now();
    let run = new_run(campaign, text, options, local_machine(&options.scratch));
    let before = store.runs()?;
    let id = store.begin(&run)?;
    let mut trials = RunTrials::new(id, campaign, &studies, options, store.trials(id)?);
    trials.announce(changed(&before, id, &run), watch);
    if let RunTarget::Dataset { options, .. } = &options.target {
        let pool = options.pool();
        watch(Event::Note(format!(
            "vdevs, ashift, ARC and module parameters are those of {pool}, not the campaign's"
        )));
    }
    let mut worker = TrialWorker::new(plan(campaign, options), options, scratch_dir, run.host());
    let is_over = || options.limit.is_some_and(|limit| began.elapsed() >= limit);
    let ended = run_trials(&mut trials, &mut worker, id, store, &is_over, interrupted, watch);
    let mut summary = trials.summary;
    match ended {
        Err(Error::Interrupted) => summary.interrupted = true,
        other => other?,
    }
    summary.seconds = began.elapsed().as_secs_f64();
    Ok(summary)
}

fn run_trials(
    trials: &mut RunTrials<'_>,
    worker: &mut TrialWorker<'_>,
    run: i64,
    store: &mut Store,
    is_over: &dyn Fn() -> bool,
    interrupted: &dyn Fn() -> bool,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<()> {
    loop {
        let missing = trials.missing();
        let Some(key) = missing.iter().flatten().next().cloned() else {
            return Ok(());
        };
        if is_over() {
            trials.summary.left = missing.iter().map(Vec::len).sum();
            return Ok(());
        }
        if interrupted() {
            return Err(Error::Interrupted);
        }
        trials.begun(&key, watch);
        let trial = worker.run(&key, interrupted, watch)?;
        store.save(run, &trial)?;
        trials.ended(trial, watch);
    }
}

fn new_run(campaign: &Campaign, text: &str, options: &Options, machine: BTreeMap<String, String>) -> Run {
    Run {
        campaign: campaign.name.clone(),
        text: text.to_owned(),
        scale: options.scale.clone(),
        seed: options.seed,
        target: options.target.text(),
        started: now(),
        machine,
    }
}

fn plan<'a>(campaign: &'a Campaign, options: &'a Options) -> Plan<'a> {
    Plan {
        campaign,
        scale: &options.scale,
        seed: options.seed,
        target: &options.target,
        assets: &options.assets,
    }
}

/// Returns the studies that are run.
///
/// # Errors
/// Returns [`Error::Usage`] for an unknown scale or study, and [`Error::UnfitTarget`] for a study that cannot run on the target.
pub fn chosen<'a>(campaign: &'a Campaign, options: &Options) -> Result<Vec<&'a Study>> {
    if !campaign.scale.contains_key(&options.scale) {
        let known: Vec<&str> = campaign.scale.keys().map(String::as_str).collect();
        return Err(Error::Usage(format!(
            "{} has no scale {:?}; it has {}",
            campaign.name,
            options.scale,
            known.join(", ")
        )));
    }
    let of_scale: Vec<&Study> = campaign.studies.iter().filter(|s| s.is_of(&options.scale)).collect();
    for name in &options.only {
        if !of_scale.iter().any(|s| s.name == *name) {
            let known: Vec<&str> = of_scale.iter().map(|s| s.name.as_str()).collect();
            let scale = &options.scale;
            return Err(Error::Usage(format!(
                "{} has no study {name:?} at the scale {scale}; it has {}",
                campaign.name,
                known.join(", ")
            )));
        }
    }
    let studies: Vec<&Study> = of_scale
        .into_iter()
        .filter(|s| if options.only.is_empty() { !s.on_request } else { options.only.contains(&s.name) })
        .collect();
    let unfit = studies.iter().find_map(|study| Some((study, options.target.unfit(study)?)));
    if let Some((study, why)) = unfit {
        let others = studies.iter().filter(|study| options.target.unfit(study).is_none());
        let others = others.map(|study| study.name.clone()).collect();
        return Err(Error::UnfitTarget { study: study.name.clone(), why, others });
    }
    Ok(studies)
}

/// Returns the largest size of a case's ARCs together, in bytes.
fn largest_arc(campaign: &Campaign, options: &Options, studies: &[&Study]) -> u64 {
    let arcs = studies.iter().flat_map(|study| {
        let of = |case: &_| {
            let conditions = order::conditions(campaign, study, &options.scale, case);
            let pools = conditions.pools.values().chain([&conditions.pool]);
            pools.filter_map(|pool| property::parse_size(&pool.arc).ok()).sum()
        };
        order::cases(study).iter().map(of).collect::<Vec<u64>>()
    });
    arcs.max().unwrap_or(0)
}

/// Checks the requirements of the studies on this machine, and locks its scratch directory of this name.
fn prepare(campaign: &Campaign, options: &Options, studies: &[&Study], name: &str) -> Result<ScratchDir> {
    checks::drivers(&options.assets, campaign, &options.scale, studies)?;
    let needed = studies.iter().map(|study| study.space(&options.scale)).max().unwrap_or(0);
    match &options.target {
        RunTarget::Pool => {
            checks::fuse()?;
            checks::memory(largest_arc(campaign, options, studies), memory::total().unwrap_or(0))?;
        }
        RunTarget::Dataset { options, available, .. } if *available < needed => {
            return Err(Error::NoSpace { path: PathBuf::from(&options.parent), free: *available, needed });
        }
        RunTarget::Dataset { .. } => {}
        RunTarget::Directory(dir) => checks::space(dir, needed)?,
    }
    for dir in [options.assets.tools(), options.assets.cache(&campaign.name)] {
        poolwright_base::private::make_dirs(&dir).map_err(cannot("create", &dir))?;
    }
    let scratch_dir = ScratchDir::take_named(&options.scratch, name)?;
    if options.target == RunTarget::Pool {
        checks::space(scratch_dir.root(), needed)?;
    }
    Ok(scratch_dir)
}

/// Facts about this machine.
fn local_machine(scratch: &Path) -> BTreeMap<String, String> {
    let mut machine = MachineInfo::read().fields();
    machine.insert("openzfs".into(), Engine::version());
    machine.insert("poolwright".into(), env!("CARGO_PKG_VERSION").to_owned());
    machine.insert("host".into(), kernel::host_name());
    machine.insert("scratch".into(), scratch.display().to_string());
    machine
}

/// Whether an earlier run differs only in the text of the campaign.
fn changed(before: &[(i64, Run)], id: i64, run: &Run) -> bool {
    let alike = |r: &Run| {
        (&r.campaign, &r.scale, r.seed, &r.target, r.host())
            == (&run.campaign, &run.scale, run.seed, &run.target, run.host())
    };
    !before.iter().any(|(other, _)| *other == id) && before.iter().any(|(_, r)| alike(r))
}
