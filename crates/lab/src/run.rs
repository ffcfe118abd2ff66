//! Runs a campaign: every trial that the results lack, one after another.

pub mod checks;
pub mod child;
mod cluster;
mod coordinator;
mod executor;
mod launcher;
mod lease;
mod progress_text;
pub mod scratch_dir;
mod work;
mod worker;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use poolwright_host::kernel;
use poolwright_host::machine::MachineInfo;
use poolwright_host::memory;
use poolwright_host::time::now;
use poolwright_openzfs::{Engine, property};
use poolwright_trace::{counted, format_duration};

pub use child::Progress;
pub use executor::{Cluster, Executor, KubernetesOptions, SchedulerKind, SlurmOptions};
pub use progress_text::{RunProgress, Update, phase, trial_name};
pub use work::{Worked, work};

use crate::campaign::{Campaign, Study};
use crate::order::{self, Plan};
use crate::run_target::RunTarget;
use crate::store::{Run, Store, Trial};
use crate::{Assets, Error, Result, TrialKey};
use cluster::ClusterLauncher;
use coordinator::Coordinator;
use launcher::{Launcher, LocalLauncher};
use scratch_dir::ScratchDir;

/// For how long a worker tries to save its result, and a coordinator to read results, if the store cannot be reached.
const PATIENCE: Duration = Duration::from_secs(600);

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
    /// Names of the studies to run; an empty list means all.
    pub only: Vec<String>,
    /// The storage of the datasets.
    pub target: RunTarget,
    /// Parent of the scratch directory.
    pub scratch: PathBuf,
    /// Whether to keep the trials' scratch directories.
    pub keep: bool,
    /// Location of the results.
    pub results: String,
    /// A worker that does not renew its lease for so long is given up, and another one runs its trial.
    pub lease: Duration,
    /// What runs the trials.
    pub executor: Executor,
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
        /// Number of trials expected so far; a stop rule may add some.
        of: usize,
        /// Estimated time until the end of the run, including this trial.
        left: Option<Duration>,
    },
    /// Progress of the current trial.
    Progress(&'a Progress),
    /// The trials that run on a cluster have changed.
    Workers {
        /// The nodes with the trials that run on them.
        running: &'a [(String, TrialKey)],
        /// Number of trials that have ended.
        ended: usize,
        /// Number of trials expected so far.
        of: usize,
        /// Estimated time until the end of the run.
        left: Option<Duration>,
    },
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
    store: &mut dyn Store,
    interrupted: &dyn Fn() -> bool,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Summary> {
    let studies = chosen(campaign, options)?;
    let mut launcher: Box<dyn Launcher + '_> = match &options.executor {
        Executor::Local => {
            let scratch_dir = prepare(campaign, options, &studies, "poolwright-lab")?;
            Box::new(LocalLauncher::new(plan(campaign, options), options, scratch_dir))
        }
        Executor::Cluster(cluster) => Box::new(ClusterLauncher::new(cluster, options)?),
    };
    let began = Instant::now();
    let run = new_run(campaign, text, options, launcher.as_ref());
    let before = store.runs()?;
    let id = store.begin(&run)?;
    store.clear_queue(id)?;
    let mut coordinator = Coordinator::begin(store, id, campaign, &studies, options)?;
    coordinator.announce(changed(&before, id, &run), watch);
    if let RunTarget::Dataset { options, .. } = &options.target {
        let pool = options.pool();
        watch(Event::Note(format!(
            "vdevs, ashift, ARC and module parameters are those of {pool}, not the campaign's"
        )));
    }
    let ended = until_complete(&mut coordinator, launcher.as_mut(), interrupted, watch);
    if let Err(error) = &ended
        && !is_of_store(error)
        && let Err(why) = launcher.cancel()
    {
        watch(Event::Note(format!("its workers may still run: {why}")));
    }
    let mut summary = coordinator.summary;
    match ended {
        Err(Error::Interrupted) => summary.interrupted = true,
        other => other?,
    }
    summary.seconds = began.elapsed().as_secs_f64();
    Ok(summary)
}

/// Creates or finds the run, and returns what would be submitted to the scheduler for its missing trials, for the user to read or to
/// submit by other means. Nothing is submitted.
///
/// # Errors
/// As [`run`]; [`Error::Usage`] if the trials do not run on a cluster.
pub fn job(campaign: &Campaign, text: &str, options: &Options, store: &mut dyn Store) -> Result<String> {
    let Executor::Cluster(cluster) = &options.executor else {
        return Err(Error::Usage("trials in this process are not a job".to_owned()));
    };
    let studies = chosen(campaign, options)?;
    let launcher = ClusterLauncher::new(cluster, options)?;
    let id = store.begin(&new_run(campaign, text, options, &launcher))?;
    let coordinator = Coordinator::begin(store, id, campaign, &studies, options)?;
    Ok(launcher.job(id, coordinator.missing()))
}

fn new_run(campaign: &Campaign, text: &str, options: &Options, launcher: &dyn Launcher) -> Run {
    Run {
        campaign: campaign.name.clone(),
        text: text.to_owned(),
        scale: options.scale.clone(),
        seed: options.seed,
        target: options.target.text(),
        started: now(),
        machine: launcher.machine().clone(),
    }
}

fn until_complete(
    coordinator: &mut Coordinator<'_>,
    launcher: &mut dyn Launcher,
    interrupted: &dyn Fn() -> bool,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<()> {
    let mut unreachable: Option<Instant> = None;
    loop {
        let advanced = match coordinator.is_complete() {
            Ok(true) => return Ok(()),
            Ok(false) if interrupted() => return Err(Error::Interrupted),
            Ok(false) => launcher.advance(coordinator, interrupted, watch),
            Err(error) => Err(error),
        };
        match advanced {
            Ok(()) if unreachable.take().is_some() => {
                watch(Event::Note("the results can be reached again".to_owned()));
            }
            Ok(()) => {}
            // Workers on other machines have the same patience.
            Err(error) if is_of_store(&error) && launcher.has_patience() && !interrupted() => {
                let since = *unreachable.get_or_insert_with(|| {
                    watch(Event::Note(format!("{error}; trying again")));
                    Instant::now()
                });
                if since.elapsed() > PATIENCE {
                    return Err(error);
                }
                std::thread::sleep(Duration::from_secs(1));
            }
            Err(error) => return Err(error),
        }
    }
}

fn is_of_store(error: &Error) -> bool {
    matches!(error, Error::Store { .. })
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
        poolwright_host::private::make_dirs(&dir).map_err(Error::host("creating", &dir))?;
    }
    let scratch_dir = ScratchDir::take_named(&options.scratch, name)?;
    if options.target == RunTarget::Pool {
        checks::space(scratch_dir.root(), needed)?;
    }
    Ok(scratch_dir)
}

/// What is known of this machine.
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
