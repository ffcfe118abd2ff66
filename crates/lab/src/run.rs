//! A run: every trial of a campaign that is not in the results yet, one after another.

pub mod checks;
pub mod child;
pub mod scratch_dir;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use poolwright_host::machine::MachineInfo;
use poolwright_host::memory;
use poolwright_host::time::now;
use poolwright_openzfs::{Engine, property};

pub use child::Progress;

use crate::campaign::{Campaign, Study};
use crate::order::{self, Plan};
use crate::statistics;
use crate::store::{Run, Store, Trial};
use crate::{Assets, Error, Outcome, Result, TrialKey};
use scratch_dir::ScratchDir;

/// What is run, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where the drivers are.
    pub assets: Assets,
    /// The program whose verb `trial` runs a trial.
    pub program: PathBuf,
    /// Scale.
    pub scale: String,
    /// Seed of order and workloads.
    pub seed: u64,
    /// Blocks, over those of the studies.
    pub repeats: Option<u32>,
    /// Only these studies; none: all.
    pub only: Vec<String>,
    /// A directory for the datasets instead of a pool.
    pub directory: Option<PathBuf>,
    /// Where the scratch folder is made.
    pub scratch: PathBuf,
    /// Keep the folders of the trials of this run.
    pub keep: bool,
}

/// A step of the run, for the caller to show.
#[derive(Debug)]
pub enum Event<'a> {
    /// The run has its trials: so many, of which so many are in the results already.
    Begun {
        /// Of all studies.
        trials: usize,
        /// Finished before.
        skipped: usize,
        /// The campaign's file has changed since the last run, which is kept.
        changed: bool,
    },
    /// A trial starts.
    Trial {
        /// Which.
        key: &'a TrialKey,
        /// Its number, from 1, of those of the run.
        number: usize,
        /// As far as is known: a stop rule may add some.
        of: usize,
        /// How long the rest will take, itself included.
        left: Option<Duration>,
    },
    /// It goes on.
    Progress(&'a Progress),
    /// It ended, and is saved.
    Ended(&'a Trial),
    /// Something worth a line.
    Note(String),
}

/// What became of a run.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Its number in the results.
    pub run: i64,
    /// Trials that were come to, of this time and before.
    pub trials: usize,
    /// Finished before.
    pub skipped: usize,
    /// Finished this time.
    pub done: usize,
    /// With the reasons.
    pub failed: Vec<(TrialKey, String)>,
    /// Of this time.
    pub seconds: f64,
    /// Ctrl-C.
    pub interrupted: bool,
}

/// Runs what is missing. A trial that fails is kept as failed, and the others go on.
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
            directory: options.directory.clone(),
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
    };
    work.begin(&studies, changed(&before, id, &run), watch);
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

/// The studies that are run, which all have to be possible on the target.
pub fn chosen<'a>(campaign: &'a Campaign, options: &Options) -> Result<Vec<&'a Study>> {
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
    if options.directory.is_some() {
        let (no, yes): (Vec<&Study>, Vec<&Study>) = studies.iter().partition(|s| s.needs_pool());
        if let Some(first) = no.first() {
            let hint = match yes.as_slice() {
                [] => "none of the campaign's studies can run there".to_owned(),
                some => {
                    let names: Vec<&str> = some.iter().map(|s| s.name.as_str()).collect();
                    format!("what can run there: --only {}", names.join(","))
                }
            };
            return Err(Error::Usage(format!(
                "study {:?} varies properties, which a directory has not; {hint}",
                first.name
            )));
        }
    }
    Ok(studies)
}

/// The largest ARC of any case, in bytes.
fn largest_arc(campaign: &Campaign, options: &Options, studies: &[&Study]) -> u64 {
    let arcs = studies.iter().flat_map(|study| {
        let of = |case: &_| order::conditions(campaign, study, &options.scale, case).pool.arc;
        order::cases(study).iter().map(of).collect::<Vec<String>>()
    });
    arcs.filter_map(|arc| property::parse_size(&arc).ok()).max().unwrap_or(0)
}

fn prepare(campaign: &Campaign, options: &Options, studies: &[&Study]) -> Result<ScratchDir> {
    checks::drivers(&options.assets, campaign, &options.scale, studies)?;
    match &options.directory {
        None => {
            checks::fuse()?;
            checks::memory(largest_arc(campaign, options, studies), memory::total().unwrap_or(0))?;
        }
        Some(dir) => checks::space(dir, campaign.space(&options.scale))?,
    }
    for dir in [options.assets.tools(), options.assets.cache(&campaign.name)] {
        poolwright_host::private::make_dirs(&dir).map_err(Error::host("making", &dir))?;
    }
    let scratch_dir = ScratchDir::take(&options.scratch)?;
    if options.directory.is_none() {
        checks::space(scratch_dir.root(), campaign.space(&options.scale))?;
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
        target: match &options.directory {
            None => "pool".into(),
            Some(dir) => format!("directory {}", dir.display()),
        },
        started: now(),
        machine,
    }
}

/// Whether there is an earlier run that differs in nothing but the file's text.
fn changed(before: &[(i64, Run)], id: i64, run: &Run) -> bool {
    let alike = |r: &Run| {
        (&r.campaign, &r.scale, r.seed, &r.target, r.host())
            == (&run.campaign, &run.scale, run.seed, &run.target, run.host())
    };
    !before.iter().any(|(other, _)| *other == id) && before.iter().any(|(_, r)| alike(r))
}

/// A run under way.
struct Work<'a> {
    plan: Plan<'a>,
    options: &'a Options,
    scratch_dir: &'a ScratchDir,
    store: &'a mut dyn Store,
    run: i64,
    /// All that is known, of earlier times too.
    trials: Vec<Trial>,
    summary: Summary,
    /// How many trials there will be, as far as is known.
    expected: usize,
    /// The study that runs, and those after it.
    waiting: &'a [&'a Study],
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

    /// Without those that a stop rule adds.
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
            if block >= most || (block >= planned && enough(study, &self.trials)) {
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
        let number = self.summary.trials;
        watch(Event::Trial { key: &key, number, of: self.expected, left: self.left() });
        let position = self.trials.iter().map(|t| t.position + 1).max().unwrap_or(0);
        let scratch = self.scratch_dir.trial(position)?;
        let spec = self.plan.spec(study, &key.case, key.block, scratch);
        let started = now();
        let mut progress = |said: Progress| watch(Event::Progress(&said));
        let ran =
            child::run(&self.options.program, &spec, position, self.scratch_dir, interrupted, &mut progress);
        let ran = self.tidy(ran, position, watch)?;
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

    /// Takes away what the trial left, whatever became of it.
    fn tidy(
        &self,
        ran: Result<std::result::Result<Outcome, String>>,
        position: u32,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<std::result::Result<Outcome, String>> {
        if self.options.keep && ran.is_ok() {
            let kept = self.scratch_dir.keep(position)?;
            watch(Event::Note(format!("kept: {}", kept.display())));
        }
        let left = self.scratch_dir.clear()?;
        if left > 0 && matches!(ran, Ok(Ok(_))) {
            watch(Event::Note(format!("the trial left {left} processes behind, which were ended")));
        }
        ran
    }

    /// A campaign's misspelt measure cannot be told from a driver's figure before a trial ran.
    fn warn_of_measures(&self, study: &Study, trial: &Trial, watch: &mut dyn FnMut(Event<'_>)) {
        let first = !self.trials.iter().any(|t| t.key.study == study.name && t.outcome.is_ok());
        let Some(outcome) = trial.outcome.as_ref().ok().filter(|_| first) else { return };
        let named = study.measures.iter().chain(study.claims.iter().map(|c| &c.measure));
        for measure in named.chain(study.recommend.iter().map(|r| &r.by)) {
            if outcome.measure(measure).is_none() {
                let study = &study.name;
                watch(Event::Note(format!("study {study:?}: the first trial has no measure {measure:?}")));
            }
        }
    }

    /// From the mean of each study's trials so far, or of all.
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
        // The studies before this one are done, but for what failed.
        let seconds = self.waiting.iter().map(|s| missing(s) * of(s)).sum();
        Some(Duration::from_secs_f64(seconds))
    }
}

/// Whether every cell's interval of the leading measure is as narrow as the stop rule asks. A case that never
/// succeeded does not hold the others up.
fn enough(study: &Study, trials: &[Trial]) -> bool {
    let (Some(stop), Some(measure)) = (study.stop, study.measures.first()) else { return true };
    let cells = statistics::cells(study, trials, measure);
    cells.iter().filter(|c| !c.values.is_empty()).all(|cell| match cell.interval {
        Some((low, high)) => high - low <= 2.0 * stop.interval * cell.median.abs(),
        None => false,
    })
}
