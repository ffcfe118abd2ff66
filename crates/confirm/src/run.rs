//! Runs the trials of a confirmation in blocks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use poolwright_base::time::now;
use poolwright_lab::campaign::{Phase, PoolSpec};
use poolwright_lab::run::checks;
use poolwright_lab::run::child;
use poolwright_lab::run::scratch_dir::ScratchDir;
use poolwright_lab::{PoolWrites, RunTarget, TrialKey, TrialSpec};
use poolwright_plan::{
    BesidePlan as _, Confirmation, ConfirmedDataset, ConfirmedSetting, Contender, MetricName, Plan, WorkUnit,
};
use poolwright_tune::objective::Metrics;

use crate::driver::check_unused;
use crate::outcome::{failure, figure, last_lines, metrics};
use crate::pool::{pool, scratch_bytes};
use crate::tree::Tree;
use crate::{
    Block, COPY, Chosen, DATASET, Dataset, DatasetLayout, Error, Event, LOAD, LOAD_S, Options, Result,
    STATED, Task, contenders, dataset_layout, judge,
};

/// The name of the scratch directory, before the user's number.
const SCRATCH: &str = "poolwright-confirm";
/// The slowest accepted copy in bytes per second; the trial of a slower one fails.
const SLOWEST_COPY: u64 = 2 << 20;
/// The usual speed of a copy in bytes per second, for the estimate of the duration.
const USUAL_COPY: u64 = 150 << 20;
/// The usual time to create, mount, sync and export a pool, for the estimate of the duration.
const POOL: Duration = Duration::from_secs(3);
/// A shorter load may not contain two whole transaction groups.
const SHORT_LOAD_S: f64 = 15.0;

/// What trials on a mounted pool cannot show.
const MOUNT_LIMITS: &str = "the trials ran on a mounted pool of the user-space engine, where each call costs more than in a kernel, and O_DIRECT goes through the ARC: \
     it hides much of what a setting brings in a kernel; a confirmation on a pool of the kernel measures that";

/// Runs the database under each of the plan's settings, and compares the outcome with the plan. In any case, ends all
/// processes, removes all mounts and clears the scratch directory before it returns.
///
/// # Errors
/// If the plan has nothing to compare, the machine lacks memory, scratch space or FUSE, the database is in use, or a trial of
/// the first block fails; [`Error::Interrupted`]. A failed trial of a later block is left out with a warning.
pub fn run(
    plan: &Plan,
    options: &Options,
    interrupted: &dyn Fn() -> bool,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Confirmation> {
    let layout = dataset_layout(plan);
    let contenders = contenders(plan, &layout)?;
    let pool = pool(plan, options)?;
    let tree = Tree::scan(&options.dir)?;
    check_unused(&tree)?;
    let scratch_dir = ScratchDir::take_named(&options.scratch, SCRATCH)?;
    match &options.target {
        RunTarget::Dataset { options, available, .. } => {
            let needed = scratch_bytes(tree.bytes);
            if needed > *available {
                let dataset = options.parent.clone();
                return Err(Error::DatasetSpace { dataset, needed, available: *available });
            }
        }
        RunTarget::Pool | RunTarget::Directory(_) => {
            checks::fuse()?;
            checks::space(scratch_dir.root(), scratch_bytes(tree.bytes))?;
        }
    }
    let began = Instant::now();
    let mut trials = Trials {
        options,
        scratch_dir: &scratch_dir,
        layout: &layout,
        pool,
        bytes: tree.bytes,
        loads: Vec::new(),
        written: PoolWrites::default(),
    };
    let (blocks, failures) = trials.run(&contenders, interrupted, watch)?;
    let judgement = judge(plan, &contenders, &blocks);
    let mut warnings = layout.warnings.clone();
    warnings.extend(trials.warnings(&failures));
    if options.target == RunTarget::Pool {
        warnings.push(MOUNT_LIMITS.to_owned());
    }
    let settings = judgement.settings.into_iter().zip(&contenders);
    let (format, version, plan_id) = Confirmation::head(plan);
    Ok(Confirmation {
        format,
        version,
        plan: plan_id,
        created: now(),
        commands: options.commands.clone(),
        settle_s: options.settle.as_secs_f64(),
        work: if trials.loads.iter().any(|load| load.is_stated) { WorkUnit::Stated } else { WorkUnit::Run },
        settings: settings.map(|(setting, chosen)| with_datasets(plan, &layout, setting, chosen)).collect(),
        failed_trials: failures.len() as u32,
        seconds: began.elapsed().as_secs_f64(),
        verdict: judgement.verdict,
        error_points: judgement.error_points,
        missed: judgement.missed,
        why: judgement.why,
        warnings,
    })
}

/// Adds the datasets and their settings to the result of one setting.
fn with_datasets(
    plan: &Plan,
    layout: &DatasetLayout,
    setting: ConfirmedSetting,
    chosen: &Chosen,
) -> ConfirmedSetting {
    let confirmed = |dataset: &Dataset| ConfirmedDataset {
        location: match dataset.path.as_os_str().is_empty() {
            true => ".".to_owned(),
            false => dataset.path.display().to_string(),
        },
        roles: dataset.roles.iter().map(|role| plan.roles[*role].role).collect(),
        settings: chosen.datasets[&dataset.name].clone(),
    };
    ConfirmedSetting { datasets: layout.datasets.iter().map(confirmed).collect(), ..setting }
}

/// The order of the settings in a block. Over the blocks, each setting runs first, second and so on equally often.
fn order(contenders: &[Chosen], block: u32) -> Vec<&Chosen> {
    let mut order: Vec<&Chosen> = contenders.iter().collect();
    let n = order.len() as u32;
    order.rotate_left((block % n) as usize);
    if block / n % 2 == 1 {
        order.reverse();
    }
    order
}

/// A failed trial.
struct Failure {
    setting: Contender,
    block: u32,
    why: String,
}

/// The load of one trial.
struct Load {
    /// Whether the command printed its units of work.
    is_stated: bool,
    /// Wall time in seconds.
    seconds: f64,
}

/// Runs one trial after the other.
struct Trials<'a> {
    options: &'a Options,
    scratch_dir: &'a ScratchDir,
    layout: &'a DatasetLayout,
    pool: PoolSpec,
    /// The size of the database.
    bytes: u64,
    /// The loads of the trials that have succeeded.
    loads: Vec<Load>,
    /// What the devices of the kernel's pool have written.
    written: PoolWrites,
}

impl Trials<'_> {
    /// Runs all blocks. Fails if a trial of the first block fails, because its cause probably affects all trials.
    fn run(
        &mut self,
        contenders: &[Chosen],
        interrupted: &dyn Fn() -> bool,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<(Vec<Block>, Vec<Failure>)> {
        let of = self.options.blocks * contenders.len() as u32;
        let copying = Duration::from_secs_f64(self.bytes as f64 / USUAL_COPY as f64);
        let overhead = (copying + POOL + self.options.settle) * of;
        watch(Event::Begun { trials: of, bytes: self.bytes, overhead });
        let (mut blocks, mut failures) = (Vec::new(), Vec::new());
        let mut took: Vec<f64> = Vec::new();
        let mut number = 0;
        for block in 0..self.options.blocks {
            let mut measured = Block::new();
            for chosen in order(contenders, block) {
                number += 1;
                let mean = poolwright_base::stats::mean(&took);
                let left =
                    (!took.is_empty()).then(|| Duration::from_secs_f64(mean * f64::from(of - number + 1)));
                watch(Event::Trial { setting: chosen.name, block, number, of, left });
                let began = Instant::now();
                match self.trial(chosen, block, number, interrupted, watch)? {
                    Ok(metrics) => {
                        took.push(began.elapsed().as_secs_f64());
                        measured.insert(chosen.name, metrics);
                    }
                    Err(why) if block == 0 => return Err(Error::Trial(why)),
                    Err(why) => {
                        watch(Event::Failed { why: &why });
                        failures.push(Failure { setting: chosen.name, block, why });
                    }
                }
            }
            blocks.push(measured);
        }
        self.check_units()?;
        Ok((blocks, failures))
    }

    /// Runs one trial. The inner error is the trial's own failure, with the last lines of the command's output.
    fn trial(
        &mut self,
        chosen: &Chosen,
        block: u32,
        number: u32,
        interrupted: &dyn Fn() -> bool,
        watch: &mut dyn FnMut(Event<'_>),
    ) -> Result<std::result::Result<Metrics, String>> {
        if interrupted() {
            return Err(Error::Interrupted);
        }
        self.written.check(&self.options.target)?;
        let scratch = self.scratch_dir.trial(number)?;
        let spec = self.spec(chosen, block, scratch.clone())?;
        let mut progress = |progress: child::Progress| watch(Event::Progress(&progress));
        let ran =
            child::run(&self.options.program, &spec, number, self.scratch_dir, interrupted, &mut progress);
        let log = last_lines(&scratch);
        self.scratch_dir.clear()?;
        let ran = ran?;
        self.written.add(ran.pool.map_or(0, |pool| pool.device_written_bytes));
        let outcome = match ran.outcome {
            Ok(outcome) => outcome,
            Err(why) => return Ok(Err(failure(&why, &log))),
        };
        let metrics = metrics(&outcome)?;
        let load_s = figure(&outcome, LOAD_S)?;
        self.loads.push(Load { is_stated: figure(&outcome, STATED)? > 0.0, seconds: load_s });
        let work_rate = metrics.get(&MetricName::WorkRate).copied().unwrap_or(f64::NAN);
        watch(Event::Ended { load_s, work_rate });
        Ok(Ok(metrics))
    }

    /// The specification of a trial: one phase that copies the database, and one that runs the commands.
    fn spec(&self, chosen: &Chosen, block: u32, scratch: PathBuf) -> Result<TrialSpec> {
        let options = self.options;
        let copy_limit = Duration::from_secs(600 + self.bytes / SLOWEST_COPY);
        // Longer than the commands' own limits, so that those report which command was too slow.
        let load_limit = options.limit * 3 + options.settle + Duration::from_secs(120);
        let location = |d: &Dataset| (d.name.clone(), Path::new(DATASET).join(&d.path));
        Ok(TrialSpec {
            kind: TrialSpec::KIND.to_owned(),
            key: TrialKey { study: SCRATCH.to_owned(), case: BTreeMap::new(), block },
            driver: options.program.clone(),
            driver_words: options.driver.clone(),
            parameters: self.parameters(chosen, block)?,
            target: options.target.spec(self.pool.clone(), &scratch, scratch_bytes(self.bytes)),
            pools: BTreeMap::new(),
            pool_of: BTreeMap::new(),
            datasets: chosen.datasets.clone(),
            places: self.layout.datasets.iter().map(location).collect(),
            phases: vec![phase(COPY, false, copy_limit), phase(LOAD, true, load_limit)],
            cache: scratch.join("cache"),
            tools: scratch.clone(),
            scratch,
            seed: 0,
        })
    }

    /// The driver's parameters, as a trial's specification contains them.
    fn parameters(&self, chosen: &Chosen, block: u32) -> Result<serde_json::Map<String, serde_json::Value>> {
        let task = Task {
            dir: self.options.dir.clone(),
            commands: self.options.commands.clone(),
            working_dir: self.options.working_dir.clone(),
            settle_s: self.options.settle.as_secs_f64(),
            limit_s: self.options.limit.as_secs_f64(),
            setting: chosen.name.name().to_owned(),
            block,
        };
        match serde_json::to_value(&task) {
            Ok(serde_json::Value::Object(parameters)) => Ok(parameters),
            other => Err(Error::Trial(format!("cannot write the trial's parameters: {other:?}"))),
        }
    }

    /// Fails if only some loads printed their units of work: rates in different units cannot be compared.
    fn check_units(&self) -> Result<()> {
        let stated = self.loads.iter().filter(|load| load.is_stated).count();
        if stated > 0 && stated < self.loads.len() {
            return Err(Error::Trial(
                "the load command printed `work N` in some trials and not in others, so their rates cannot be compared"
                    .into(),
            ));
        }
        Ok(())
    }

    fn warnings(&self, failures: &[Failure]) -> Vec<String> {
        let failed = |failure: &Failure| {
            let why = failure.why.lines().next().unwrap_or_default();
            format!("block {}, {}: the trial failed: {why}", failure.block + 1, failure.setting.name())
        };
        let mut all: Vec<String> = failures.iter().map(failed).collect();
        let loads: Vec<f64> = self.loads.iter().map(|load| load.seconds).collect();
        let median = poolwright_base::stats::median(&loads);
        if median < SHORT_LOAD_S {
            all.push(format!(
                "the load takes {median:.1} s, so the bytes written depend on how many transaction groups, of five seconds \
                 each, it includes; a load of at least {SHORT_LOAD_S:.0} s gives more reliable figures"
            ));
        }
        all
    }
}

/// A phase of a trial with this time limit; `measure` says whether the lab reports its figures.
fn phase(name: &str, measure: bool, limit: Duration) -> Phase {
    Phase {
        name: name.to_owned(),
        title: None,
        measure,
        cold: false,
        record: false,
        limit_ns: limit.as_nanos() as u64,
        at: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_take_turns_at_every_position() {
        let chosen = |name| Chosen { name, datasets: BTreeMap::new(), predicted: BTreeMap::new() };
        let all = [Contender::Today, Contender::Recommended, Contender::RunnerUp].map(chosen);
        for position in 0..3 {
            let mut there: Vec<Contender> = (0..3).map(|b| order(&all, b)[position].name).collect();
            there.sort();
            assert_eq!(there, all.iter().map(|c| c.name).collect::<Vec<_>>());
        }
        assert_ne!(order(&all, 0), order(&all, 3), "pairs change sides too");
    }
}
