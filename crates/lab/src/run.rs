//! Runs a campaign: every trial that the results lack, one after another.

pub mod checks;
pub mod child;
mod progress_text;
pub mod scratch_dir;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use poolwright_host::machine::MachineInfo;
use poolwright_host::memory;
use poolwright_host::quoted;
use poolwright_host::time::now;
use poolwright_openzfs::{Engine, property};
use poolwright_trace::{counted, format_duration};

pub use child::Progress;
pub use progress_text::{RunProgress, Update, phase};

use crate::campaign::{Campaign, Study};
use crate::order::{self, Plan};
use crate::run_target::RunTarget;
use crate::statistics;
use crate::store::{Run, Store, Trial};
use crate::{Assets, Error, Outcome, Result, TrialKey};
use scratch_dir::ScratchDir;

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
    let scratch_dir = prepare(campaign, options, &studies)?;
    let began = Instant::now();
    let run = new_run(campaign, text, options);
    let before = store.runs()?;
    let id = store.begin(&run)?;
    let mut work = Work {
        plan: Plan {
            campaign,
            scale: &options.scale,
            seed: options.seed,
            target: &options.target,
            space: campaign.space(&options.scale),
            assets: &options.assets,
        },
        options,
        scratch_dir: &scratch_dir,
        trials: store.trials(id)?,
        store,
        run: id,
        summary: Summary { run: id, ..Summary::default() },
        expected: 0,
        waiting: &studies,
        written: PoolWrites::default(),
    };
    work.begin(&studies, changed(&before, id, &run), watch);
    if let RunTarget::Dataset { options, .. } = &options.target {
        let pool = options.pool();
        watch(Event::Note(format!(
            "vdevs, ashift, ARC and module parameters are those of {pool}, not the campaign's"
        )));
    }
    for (number, study) in studies.iter().enumerate() {
        work.waiting = &studies[number..];
        match work.study(study, interrupted, watch) {
            Err(Error::Interrupted) => {
                work.summary.interrupted = true;
                break;
            }
            other => other?,
        }
    }
    let mut summary = work.summary;
    summary.seconds = began.elapsed().as_secs_f64();
    Ok(summary)
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
    let studies: Vec<&Study> =
        of_scale.into_iter().filter(|s| options.only.is_empty() || options.only.contains(&s.name)).collect();
    let unfit = studies.iter().find_map(|study| Some((study, options.target.unfit(study)?)));
    if let Some((study, why)) = unfit {
        let others = studies.iter().filter(|study| options.target.unfit(study).is_none());
        let others = others.map(|study| study.name.clone()).collect();
        return Err(Error::UnfitTarget { study: study.name.clone(), why, others });
    }
    Ok(studies)
}

/// Returns the largest ARC of any case, in bytes.
fn largest_arc(campaign: &Campaign, options: &Options, studies: &[&Study]) -> u64 {
    let arcs = studies.iter().flat_map(|study| {
        let of = |case: &_| order::conditions(campaign, study, &options.scale, case).pool.arc;
        order::cases(study).iter().map(of).collect::<Vec<String>>()
    });
    arcs.filter_map(|arc| property::parse_size(&arc).ok()).max().unwrap_or(0)
}

fn prepare(campaign: &Campaign, options: &Options, studies: &[&Study]) -> Result<ScratchDir> {
    checks::drivers(&options.assets, campaign, &options.scale, studies)?;
    let needed = campaign.space(&options.scale);
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
    let scratch_dir = ScratchDir::take(&options.scratch)?;
    if options.target == RunTarget::Pool {
        checks::space(scratch_dir.root(), needed)?;
    }
    Ok(scratch_dir)
}

fn new_run(campaign: &Campaign, text: &str, options: &Options) -> Run {
    let mut machine = MachineInfo::read().fields();
    machine.insert("openzfs".into(), Engine::version());
    machine.insert("poolwright".into(), env!("CARGO_PKG_VERSION").to_owned());
    machine.insert("host".into(), rustix::system::uname().nodename().to_string_lossy().into_owned());
    machine.insert("scratch".into(), options.scratch.display().to_string());
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

/// Whether an earlier run differs only in the text of the campaign.
fn changed(before: &[(i64, Run)], id: i64, run: &Run) -> bool {
    let alike = |r: &Run| {
        (&r.campaign, &r.scale, r.seed, &r.target, r.host())
            == (&run.campaign, &run.scale, run.seed, &run.target, run.host())
    };
    !before.iter().any(|(other, _)| *other == id) && before.iter().any(|(_, r)| alike(r))
}

/// A run in progress.
struct Work<'a> {
    plan: Plan<'a>,
    options: &'a Options,
    scratch_dir: &'a ScratchDir,
    store: &'a mut dyn Store,
    run: i64,
    /// All known trials, including those of earlier runs.
    trials: Vec<Trial>,
    summary: Summary,
    /// Number of trials expected so far.
    expected: usize,
    /// The current study and those after it.
    waiting: &'a [&'a Study],
    written: PoolWrites,
}

/// The bytes that the devices of a kernel's pool wrote during the trials.
#[derive(Debug, Default)]
struct PoolWrites {
    all: u64,
    /// In the trial with the most.
    most: u64,
}

impl PoolWrites {
    /// Refuses another trial if it would write more than the limit.
    fn check(&self, target: &RunTarget) -> Result<()> {
        match target {
            RunTarget::Dataset { max_bytes: limit, .. } if self.all + self.most > *limit => {
                Err(poolwright_replay::Error::WroteEnough { next: self.most, limit: *limit }.into())
            }
            _ => Ok(()),
        }
    }

    fn add(&mut self, bytes: u64) {
        self.all += bytes;
        self.most = self.most.max(bytes);
    }
}

impl Work<'_> {
    fn begin(&mut self, studies: &[&Study], changed: bool, watch: &mut dyn FnMut(Event<'_>)) {
        let keys: Vec<TrialKey> = studies.iter().flat_map(|s| self.keys(s)).collect();
        self.expected = keys.len();
        self.summary.skipped = keys.iter().filter(|k| self.is_done(k)).count();
        watch(Event::Begun { trials: self.expected, skipped: self.summary.skipped, changed });
    }

    fn blocks(&self, study: &Study) -> u32 {
        self.options.repeats.unwrap_or(study.repeats)
    }

    /// Returns the keys of a study's trials, without those that a stop rule adds.
    fn keys(&self, study: &Study) -> Vec<TrialKey> {
        (0..self.blocks(study)).flat_map(|block| self.block(study, block)).collect()
    }

    fn block(&self, study: &Study, block: u32) -> Vec<TrialKey> {
        let cases = order::block(study, self.plan.seed, block).into_iter();
        cases.map(|case| TrialKey { study: study.name.clone(), case, block }).collect()
    }

    fn is_done(&self, key: &TrialKey) -> bool {
        self.trials.iter().any(|t| t.key == *key && t.outcome.is_ok())
    }

    fn study(
        &mut self,
        study: &Study,
        interrupted: &dyn Fn() -> bool,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<()> {
        let mut block = 0;
        loop {
            let planned = self.blocks(study);
            let most =
                study.stop.filter(|_| self.options.repeats.is_none()).map_or(planned, |stop| stop.most);
            if block >= most || (block >= planned && is_precise_enough(study, &self.trials)) {
                return Ok(());
            }
            let keys = self.block(study, block);
            if block >= planned {
                self.expected += keys.len();
                self.summary.skipped += keys.iter().filter(|k| self.is_done(k)).count();
            }
            for key in keys {
                self.summary.trials += 1;
                if !self.is_done(&key) {
                    self.trial(study, key, interrupted, watch)?;
                }
            }
            block += 1;
        }
    }

    fn trial(
        &mut self,
        study: &Study,
        key: TrialKey,
        interrupted: &dyn Fn() -> bool,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<()> {
        if interrupted() {
            return Err(Error::Interrupted);
        }
        self.written.check(&self.options.target)?;
        let number = self.summary.trials;
        watch(Event::Trial { key: &key, number, of: self.expected, left: self.left() });
        let position = self.trials.iter().map(|t| t.position + 1).max().unwrap_or(0);
        let scratch = self.scratch_dir.trial(position)?;
        let spec = self.plan.spec(study, &key.case, key.block, scratch);
        let started = now();
        let mut report = |progress: Progress| watch(Event::Progress(&progress));
        let ended =
            child::run(&self.options.program, &spec, position, self.scratch_dir, interrupted, &mut report);
        let (pool, killed) = ended.as_ref().map_or((None, 0), |ended| (ended.pool, ended.killed));
        self.written.add(pool.map_or(0, |pool| pool.device_written_bytes));
        let ran = self.tidy(ended.map(|ended| ended.outcome), position, killed, watch)?;
        let trial = Trial { key, position, started, outcome: ran };
        self.store.save(self.run, &trial)?;
        match &trial.outcome {
            Ok(_) => self.summary.done += 1,
            Err(why) => self.summary.failed.push((trial.key.clone(), why.clone())),
        }
        watch(Event::Ended(&trial));
        self.warn_of_measures(study, &trial, watch);
        self.trials.retain(|t| t.key != trial.key);
        self.trials.push(trial);
        Ok(())
    }

    /// Ends what the trial left running, and removes or keeps its scratch directory. `killed` processes were ended already.
    fn tidy(
        &self,
        ran: Result<std::result::Result<Outcome, String>>,
        position: u32,
        killed: usize,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<std::result::Result<Outcome, String>> {
        if self.options.keep && ran.is_ok() {
            let kept = self.scratch_dir.keep(position)?;
            watch(Event::Note(format!("kept: {}", quoted(&kept))));
        }
        let left = killed + self.scratch_dir.clear()?;
        if left > 0 && matches!(ran, Ok(Ok(_))) {
            watch(Event::Note(match left {
                1 => "the trial left 1 process running, which was killed".to_owned(),
                left => format!("the trial left {left} processes running, which were killed"),
            }));
        }
        ran
    }

    /// Warns of measures that the first trial of a study does not have, or has in another unit: only the driver knows what it
    /// reports.
    fn warn_of_measures(&self, study: &Study, trial: &Trial, watch: &mut dyn FnMut(Event<'_>)) {
        let first = !self.trials.iter().any(|t| t.key.study == study.name && t.outcome.is_ok());
        let Some(outcome) = trial.outcome.as_ref().ok().filter(|_| first) else { return };
        let named = study.measures.iter().chain(study.claims.iter().map(|c| &c.measure));
        let criteria = study.recommend.iter().flat_map(|r| r.criteria.iter().map(|c| &c.measure));
        for measure in named.chain(criteria) {
            let (unit, study) = (study.info(measure).unit, &study.name);
            match outcome.measure(measure) {
                None => {
                    watch(Event::Note(format!("study {study:?}: the first trial has no measure {measure:?}")))
                }
                Some(found) if found.unit != unit => watch(Event::Note(format!(
                    "study {study:?}: {measure:?} is reported in {:?}, but the campaign declares {unit:?}",
                    found.unit
                ))),
                Some(_) => {}
            }
        }
    }

    /// Estimates the remaining time from the mean duration of each study's trials, or of all trials.
    fn left(&self) -> Option<Duration> {
        let mut by_study: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for trial in &self.trials {
            if let Ok(outcome) = &trial.outcome {
                by_study.entry(&trial.key.study).or_default().push(outcome.seconds);
            }
        }
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
        let all: Vec<f64> = by_study.values().flatten().copied().collect();
        if all.is_empty() {
            return None;
        }
        let missing = |s: &Study| self.keys(s).iter().filter(|k| !self.is_done(k)).count().max(1) as f64;
        let of = |s: &Study| by_study.get(s.name.as_str()).map_or_else(|| mean(&all), |v| mean(v));
        // Earlier studies are complete, except for failed trials.
        let seconds = self.waiting.iter().map(|s| missing(s) * of(s)).sum();
        Some(Duration::from_secs_f64(seconds))
    }
}

/// Whether every cell's interval of the leading measure is as narrow as the stop rule requires. A case that never
/// succeeded does not count.
fn is_precise_enough(study: &Study, trials: &[Trial]) -> bool {
    let (Some(stop), Some(measure)) = (study.stop, study.measures.first()) else { return true };
    let cells = statistics::cells(study, trials, measure);
    cells.iter().filter(|c| !c.values.is_empty()).all(|cell| match cell.interval {
        Some((low, high)) => high - low <= 2.0 * stop.interval * cell.median.abs(),
        None => false,
    })
}
