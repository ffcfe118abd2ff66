//! The trials of a confirmation, in blocks, and their outcome.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use poolwright_openzfs::Device;
use poolwright_trace::format_size;
use poolwright_tune::confirm::{Block, Chosen, Places, contenders, judge, places};
use poolwright_tune::objective::Metrics;
use poolwright_tune::plan::{
    self, Confirmation, ConfirmedDataset, ConfirmedSetting, Contender, EvidenceKind, Plan, WorkUnit,
};
use poolwright_tune::{machine, statistics};

use super::driver::check_unused;
use super::{COPY, DATASET, Event, LOAD, LOAD_S, Options, STATED, Task, Tree, WORK, room};
use crate::campaign::{Phase, PoolSpec};
use crate::run::checks;
use crate::run::child;
use crate::run::scratch_dir::ScratchDir;
use crate::{Error, Outcome, Result, TargetSpec, TrialKey, TrialSpec};

/// The scratch folder's name, before the user's number.
const FOLDER: &str = "poolwright-confirm";
/// A copy makes at least so much progress, in bytes a second; below that its trial fails.
const SLOWEST_COPY: u64 = 2 << 20;
/// What a copy usually makes, for the estimate of time.
const USUAL_COPY: u64 = 150 << 20;
/// Making, mounting, syncing and exporting a pool, for the estimate of time.
const POOL: Duration = Duration::from_secs(3);
/// A load shorter than this holds no two whole transaction groups.
const SHORT_LOAD_S: f64 = 15.0;
/// As much of a failed trial's log as is shown.
const LAST_LINES: usize = 12;
const LAST_BYTES: u64 = 8 << 10;

/// Runs the database under each of the plan's settings, and judges the plan by it. Nothing is left running, mounted or in
/// scratch, whatever comes of it.
///
/// # Errors
/// If the plan has nothing to compare, the machine lacks memory, room or FUSE, the database is in use, or a trial of the
/// first block fails; [`Error::Interrupted`]. A failed trial of a later block is left out with a warning.
pub fn run(
    plan: &Plan,
    options: &Options,
    interrupted: &dyn Fn() -> bool,
    watch: &mut dyn FnMut(Event<'_>),
) -> Result<Confirmation> {
    let places = places(plan);
    let contenders = contenders(plan, &places).map_err(|why| Error::Usage(why.to_string()))?;
    let pool = pool(plan, options)?;
    checks::fuse()?;
    let tree = Tree::look(&options.dir)?;
    check_unused(&tree)?;
    let scratch_dir = ScratchDir::take_named(&options.scratch, FOLDER)?;
    checks::space(scratch_dir.root(), room(tree.bytes))?;
    let began = Instant::now();
    let mut work = Work {
        options,
        scratch_dir: &scratch_dir,
        places: &places,
        pool,
        bytes: tree.bytes,
        loads: Vec::new(),
    };
    let (blocks, failures) = work.blocks(&contenders, interrupted, watch)?;
    let judgement = judge(plan, &contenders, &blocks);
    let mut warnings = places.warnings.clone();
    warnings.extend(work.warnings(&failures));
    Ok(Confirmation {
        created: machine::now(),
        commands: options.commands.clone(),
        settle_s: options.settle.as_secs_f64(),
        work: if work.loads.iter().any(|(stated, _)| *stated) { WorkUnit::Stated } else { WorkUnit::Run },
        settings: judgement
            .settings
            .into_iter()
            .zip(&contenders)
            .map(|(setting, chosen)| with_datasets(plan, &places, setting, chosen))
            .collect(),
        failed_trials: failures.len() as u32,
        seconds: began.elapsed().as_secs_f64(),
        verdict: judgement.verdict,
        error_points: judgement.error_points,
        missed: judgement.missed,
        why: judgement.why,
        warnings,
    })
}

fn with_datasets(
    plan: &Plan,
    places: &Places,
    setting: ConfirmedSetting,
    chosen: &Chosen,
) -> ConfirmedSetting {
    let one = |dataset: &poolwright_tune::confirm::Dataset| ConfirmedDataset {
        place: match dataset.place.as_os_str().is_empty() {
            true => ".".to_owned(),
            false => dataset.place.display().to_string(),
        },
        roles: dataset.roles.iter().map(|role| plan.roles[*role].role.clone()).collect(),
        settings: chosen.datasets[&dataset.name].clone(),
    };
    ConfirmedSetting { datasets: places.datasets.iter().map(one).collect(), ..setting }
}

/// The pool of the plan's trials.
fn pool(plan: &Plan, options: &Options) -> Result<PoolSpec> {
    let arc = plan.machine.arc_bytes.unwrap_or(512 << 20);
    let memory = machine::memory_bytes("MemTotal");
    if memory != 0 && arc > memory {
        return Err(Error::Missing(format!(
            "the plan's trials had an ARC of {}, and this machine has only {} of memory\n\
             hint: make a plan for this machine with --arc",
            format_size(arc),
            format_size(memory)
        )));
    }
    let trials = plan.roles.iter().flat_map(|role| &role.evidence).filter(|e| e.kind == EvidenceKind::Trial);
    let ashift = trials.filter_map(|e| e.ashift).next().unwrap_or(plan.pool.ashift);
    Ok(PoolSpec {
        ashift: ashift.into(),
        arc: arc.to_string(),
        device: device(&plan.machine.device),
        caching: options.caching.clone(),
        tunables: BTreeMap::from([("zfs_dirty_data_max".to_owned(), options.dirty_bytes.to_string())]),
        ..PoolSpec::default()
    })
}

/// A plan's device as `mount --device` takes it: by the profile's name if this release has it with the plan's figures, else
/// by the figures.
fn device(device: &plan::Device) -> String {
    let ns = |value: Option<u64>| value.unwrap_or(0);
    let named = Device::parse(&device.profile).ok().filter(|named| {
        named.name == "none"
            || named.read_latency_ns == ns(device.read_latency_ns)
                && named.write_latency_ns == ns(device.write_latency_ns)
                && named.flush_latency_ns == ns(device.flush_latency_ns)
                && named.read_bytes_s == ns(device.read_bytes_s)
                && named.write_bytes_s == ns(device.write_bytes_s)
    });
    if named.is_some() {
        return device.profile.clone();
    }
    format!(
        "read={}ns,write={}ns,flush={}ns,seek={}ns,read_bw={},write_bw={},iops={},depth={}",
        ns(device.read_latency_ns),
        ns(device.write_latency_ns),
        ns(device.flush_latency_ns),
        ns(device.seek_ns),
        ns(device.read_bytes_s),
        ns(device.write_bytes_s),
        ns(device.iops),
        device.queue_depth.unwrap_or(32),
    )
}

/// The order of a block: each setting comes first, second and so on equally often.
fn order(contenders: &[Chosen], block: u32) -> Vec<&Chosen> {
    let mut order: Vec<&Chosen> = contenders.iter().collect();
    let n = order.len() as u32;
    order.rotate_left((block % n) as usize);
    if block / n % 2 == 1 {
        order.reverse();
    }
    order
}

/// What went wrong in a trial.
struct Failure {
    setting: Contender,
    block: u32,
    why: String,
}

struct Work<'a> {
    options: &'a Options,
    scratch_dir: &'a ScratchDir,
    places: &'a Places,
    pool: PoolSpec,
    bytes: u64,
    /// Of each trial, whether its load stated its work, and the load's wall time in seconds.
    loads: Vec<(bool, f64)>,
}

impl Work<'_> {
    fn blocks(
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
                let mean = took.iter().sum::<f64>() / took.len() as f64;
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

    /// One trial; the inner error is its own failure, with the last lines of its log.
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
        let scratch = self.scratch_dir.trial(number)?;
        let spec = self.spec(chosen, block, scratch.clone())?;
        let mut progress = |said: child::Progress| watch(Event::Progress(&said));
        let ran =
            child::run(&self.options.program, &spec, number, self.scratch_dir, interrupted, &mut progress);
        let log = last_lines(&scratch);
        self.scratch_dir.clear()?;
        let outcome = match ran? {
            Ok(outcome) => outcome,
            Err(why) => return Ok(Err(failure(&why, &log))),
        };
        let metrics = metrics(&outcome)?;
        let load_s = figure(&outcome, LOAD_S)?;
        self.loads.push((figure(&outcome, STATED)? > 0.0, load_s));
        let work_rate = metrics.get("work_rate").copied().unwrap_or(f64::NAN);
        watch(Event::Ended { load_s, work_rate });
        Ok(Ok(metrics))
    }

    fn spec(&self, chosen: &Chosen, block: u32, scratch: PathBuf) -> Result<TrialSpec> {
        let options = self.options;
        let task = Task {
            dir: options.dir.clone(),
            commands: options.commands.clone(),
            working_dir: options.working_dir.clone(),
            settle_s: options.settle.as_secs_f64(),
            limit_s: options.limit.as_secs_f64(),
            setting: chosen.name.name().to_owned(),
            block,
        };
        let parameters = match serde_json::to_value(&task) {
            Ok(serde_json::Value::Object(parameters)) => parameters,
            other => {
                return Err(Error::Trial(format!("the trial's parameters cannot be written: {other:?}")));
            }
        };
        let phase = |name: &str, measure, limit: Duration| Phase {
            name: name.to_owned(),
            measure,
            cold: false,
            record: false,
            limit_ns: limit.as_nanos() as u64,
            at: Vec::new(),
        };
        let copying = Duration::from_secs(600 + self.bytes / SLOWEST_COPY);
        // The commands' own limits come first.
        let commands = options.limit * 3 + options.settle + Duration::from_secs(120);
        let place =
            |d: &poolwright_tune::confirm::Dataset| (d.name.clone(), Path::new(DATASET).join(&d.place));
        Ok(TrialSpec {
            kind: TrialSpec::KIND.to_owned(),
            key: TrialKey { study: FOLDER.to_owned(), case: BTreeMap::new(), block },
            driver: options.program.clone(),
            driver_words: options.driver.clone(),
            parameters,
            target: TargetSpec::Pool(self.pool.clone()),
            datasets: chosen.datasets.clone(),
            places: self.places.datasets.iter().map(place).collect(),
            phases: vec![phase(COPY, false, copying), phase(LOAD, true, commands)],
            cache: scratch.join("cache"),
            tools: scratch.clone(),
            scratch,
            seed: 0,
        })
    }

    /// Rates of different units cannot be compared.
    fn check_units(&self) -> Result<()> {
        let stated = self.loads.iter().filter(|(stated, _)| *stated).count();
        if stated > 0 && stated < self.loads.len() {
            return Err(Error::Trial(
                "the load command printed `work N` in some trials and not in others, so their rates cannot be compared".into(),
            ));
        }
        Ok(())
    }

    fn warnings(&self, failures: &[Failure]) -> Vec<String> {
        let mut all: Vec<String> = failures
            .iter()
            .map(|f| {
                let why = f.why.lines().next().unwrap_or_default();
                format!("block {}, {}: the trial gave no result: {why}", f.block + 1, f.setting.name())
            })
            .collect();
        let loads: Vec<f64> = self.loads.iter().map(|(_, seconds)| *seconds).collect();
        let median = statistics::median(&loads);
        if median < SHORT_LOAD_S {
            all.push(format!(
                "the load takes {median:.1} s: what is written then depends on which transaction groups, of five seconds each, \
                 fall into it; a load of {SHORT_LOAD_S:.0} s or more tells more"
            ));
        }
        all
    }
}

/// A figure of the measured phase.
fn figure(outcome: &Outcome, name: &str) -> Result<f64> {
    let found = outcome.measure(&format!("{LOAD}/{name}")).map(|m| m.value);
    found.ok_or_else(|| Error::Trial(format!("the trial gave no {name}")))
}

/// A trial's metrics, by unit of work.
fn metrics(outcome: &Outcome) -> Result<Metrics> {
    let (seconds, work) = (figure(outcome, LOAD_S)?, figure(outcome, WORK)?);
    let mut metrics = Metrics::new();
    let mut put = |name: &str, value: f64| {
        if value.is_finite() && value > 0.0 {
            metrics.insert(name.to_owned(), value);
        }
    };
    put("work_rate", work / seconds);
    put("allocated_bytes", figure(outcome, "allocated")?);
    put("vdev_write_bytes", figure(outcome, "vdev_write_bytes")? / work);
    put("vdev_read_bytes", figure(outcome, "vdev_read_bytes")? / work);
    let cpu =
        ["user_s", "system_s", "engine_s"].iter().map(|name| figure(outcome, name)).sum::<Result<f64>>()?;
    put("cpu_ns_per_op", cpu * 1e9 / work);
    Ok(metrics)
}

fn failure(why: &str, log: &str) -> String {
    // The driver's own words are the log's last line, and `why` already.
    let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    let said = lines.iter().rposition(|line| line.starts_with("poolwright: ")).unwrap_or(lines.len());
    let said = &lines[said.saturating_sub(LAST_LINES)..said];
    let why = why.rsplit_once("): ").map_or(why, |(_, last)| last).trim_start_matches("poolwright: ");
    if said.is_empty() {
        return why.to_owned();
    }
    format!("{why}\nthe last lines of its log:\n  {}", said.join("\n  "))
}

/// The end of what the phase that ran last printed.
fn last_lines(scratch: &Path) -> String {
    let read = |phase: &str| -> Option<String> {
        let text = std::fs::read(scratch.join("log").join(format!("{phase}.log"))).ok()?;
        let from = text.len().saturating_sub(LAST_BYTES as usize);
        Some(String::from_utf8_lossy(&text[from..]).into_owned())
    };
    read(LOAD).or_else(|| read(COPY)).unwrap_or_default()
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

    #[test]
    fn a_plans_device_is_the_trials_device() {
        let plan = |text: &str| {
            let d = Device::parse(text).unwrap();
            let some = |v: u64| (v > 0).then_some(v);
            plan::Device {
                profile: d.name.clone(),
                read_latency_ns: some(d.read_latency_ns),
                write_latency_ns: some(d.write_latency_ns),
                flush_latency_ns: some(d.flush_latency_ns),
                read_bytes_s: some(d.read_bytes_s),
                write_bytes_s: some(d.write_bytes_s),
                seek_ns: some(d.seek_ns),
                iops: some(d.iops),
                queue_depth: Some(d.queue_depth),
            }
        };
        for text in
            ["none", "nvme", "hdd", "4xsata-ssd", "read=80us,flush=1ms,seek=2ms,write_bw=1M,iops=900,depth=4"]
        {
            let again = Device::parse(&device(&plan(text))).unwrap();
            assert_eq!(again, Device::parse(text).unwrap(), "{text}");
        }
        // A profile whose figures have changed since the plan was made.
        let old = plan::Device { read_latency_ns: Some(1), ..plan("nvme") };
        assert_eq!(Device::parse(&device(&old)).unwrap().read_latency_ns, 1);
    }

    #[test]
    fn a_failure_shows_the_log_without_saying_things_twice() {
        let why = "phase load: /proc/1/exe failed (exit status: 1): poolwright: the start command failed (exit status: 3)";
        let log = "starting\n\nno such table\npoolwright: the start command failed (exit status: 3)\n";
        let text = failure(why, log);
        assert_eq!(
            text,
            "the start command failed (exit status: 3)\nthe last lines of its log:\n  starting\n  no such table"
        );
    }
}
