//! `poolwright replay`: replays a trace under one or several settings.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use poolwright_base::{Exit, quoted};
use poolwright_openzfs::clock::VirtualClock;
use poolwright_openzfs::{Engine, limits};
use poolwright_render::replay_comparison::{self, ReplayOutput, compare};
use poolwright_render::replay_table::{self, TrialRow};
use poolwright_replay::preparation::{Prepared, prepare};
use poolwright_replay::rounds::{Rounds, SettingTrials, Trials};
use poolwright_replay::settings::{self, PerRole, RoleSettings};
use poolwright_replay::{ApplicationSpec, EngineOptions, Error, SourceFiles, Spec, TargetSpec, capture};
use poolwright_trace::layout::Role;
use poolwright_trace::{Meta, Trace, stats};

use super::options::{self, TrialOptions, Usage};
use super::pool_trials::PoolTrialOptions;
use crate::failure::hint;
use crate::progress_line::{bar, ticking};
use crate::{interrupt, stdout};

/// Replay a trace on the engine or in a directory, and measure the replay
///
/// Fills a pool with the current content of the files, replays the trace once to reach a steady state, and then measures a second
/// pass. If a property has several values (-o recordsize=8K,16K), each is tried; with --repeat, their trials are interleaved.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The trace
    trace: PathBuf,

    /// Directory that now contains the recorded files, if they are no longer at the paths in the trace or were replaced there
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Property of all datasets or of one role's dataset: -o recordsize=16K, -o wal:logbias=throughput. Each value of a
    /// comma-separated list is tried
    #[arg(short = 'o', value_name = "[ROLE:]PROPERTY=VALUE")]
    options: Vec<String>,

    /// Replay only files of this role (repeatable)
    #[arg(long, value_name = "ROLE")]
    role: Vec<Role>,

    /// Replay in a scratch directory below this one instead of on the engine, as a baseline on ext4, xfs or btrfs
    #[arg(long, value_name = "DIR", conflicts_with_all = ["options", "on"])]
    dir: Option<PathBuf>,

    /// Issue each operation at its recorded time, or SPEED times as fast (--paced=2). Latency is measured from that time
    #[arg(long, value_name = "SPEED", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    paced: Option<f64>,

    /// Replay the application: each thread computes, sleeps and waits for other threads between its operations as in the
    /// recording. The result is the work rate
    #[arg(long, conflicts_with_all = ["paced", "dir"])]
    application: bool,

    /// CPU time of each call in addition to the engine's, such as 20us for a FUSE mount
    #[arg(long, value_name = "TIME", value_parser = options::parse_time, requires = "application")]
    call_time: Option<Duration>,

    /// Number of threads that serve the calls on each role's files, such as 4 for a FUSE mount. By default, the thread that makes
    /// a call serves it, as in a kernel
    #[arg(long, value_name = "N", requires = "application", value_parser = clap::value_parser!(u32).range(1..=1024))]
    servers: Option<u32>,

    /// Begin at this time of the recording, such as 30s, with the files as they were then
    #[arg(long, value_name = "TIME", value_parser = options::parse_time)]
    from: Option<Duration>,

    /// Replay only this much of the recording, from its start or from --from, such as 13s
    #[arg(long, value_name = "TIME", value_parser = options::parse_time)]
    first: Option<Duration>,

    /// End the measurement of a trial after this time, such as 15s. The work rate is then that of the replayed part
    #[arg(long = "for", value_name = "TIME", value_parser = options::parse_time, requires = "application")]
    longest: Option<Duration>,

    /// Sector size of the pool as a power of two
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(9..=16))]
    ashift: u32,

    /// Module parameter of the engine, such as zfs_dirty_data_max=4G (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = Engine::parse_tunable, conflicts_with_all = ["dir", "on"])]
    tunable: Vec<(String, u64)>,

    /// Number of trials of each setting
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,

    /// Number of passes over the trace before the measured one, at the same pace
    #[arg(long, value_name = "N", default_value_t = 1)]
    warm: u32,

    /// Stop a trial that takes longer than this, including the time to fill and warm the pool. Its setting then has no result
    #[arg(long, value_name = "TIME", value_parser = options::parse_time)]
    trial_timeout: Option<Duration>,

    #[command(flatten)]
    trial: TrialOptions,

    /// Clock of the trials on the engine: virtual charges work and devices to simulated processors, as many as the recorded machine has, so
    /// other programs do not affect the result; real measures time on this machine
    #[arg(long, value_name = "CLOCK", value_enum, default_value_t = ClockKind::Virtual)]
    clock: ClockKind,

    #[command(flatten)]
    pool: PoolTrialOptions,

    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// The clock of trials on the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ClockKind {
    /// Simulated processors.
    Virtual,
    /// This machine.
    Real,
}

/// The default limit of the data with which a trial fills a pool of the kernel, in bytes.
const MAX_ON_POOL: u64 = 1 << 30;
/// In a replay of the application: the share of the work that is done before the measurement begins.
const WARM_SHARE: f64 = 0.25;

impl Args {
    fn application(&self) -> Option<ApplicationSpec> {
        let call_ns = self.call_time.map_or(0, |time| time.as_nanos() as u64);
        let longest_s = self.longest.map(|time| time.as_secs_f64());
        self.application.then_some(ApplicationSpec { call_ns, longest_s, servers: self.servers })
    }

    fn spec(&self, shared: &Prepared, target: &TargetSpec, settings: RoleSettings) -> Spec {
        Spec {
            trace: shared.trace.clone(),
            capture: shared.capture.clone(),
            target: target.clone(),
            settings,
            roles: self.role.clone(),
            pace: self.paced,
            application: self.application(),
            warm_passes: self.warm,
            warm_share: if self.application { WARM_SHARE } else { 0.0 },
            from_seconds: self.from.map(|from| from.as_secs_f64()),
            first_seconds: self.first.map(|first| first.as_secs_f64()),
            fill_only: false,
        }
    }

    /// The number of trials that run at the same time.
    fn side_by_side(&self, touched: u64) -> usize {
        if self.is_virtual() { self.trial.side_by_side(touched) } else { 1 }
    }

    /// Whether the trials run on the virtual clock, which the engine has.
    fn is_virtual(&self) -> bool {
        self.clock == ClockKind::Virtual && self.dir.is_none() && self.pool.on.is_none()
    }

    fn target(&self, scratch: &Path, sample_bytes: u64, trace: &Meta) -> anyhow::Result<TargetSpec> {
        if let Some(pool) = self.pool.pool(scratch, sample_bytes)? {
            return Ok(TargetSpec::KernelPool(pool));
        }
        let device = self.trial.device()?;
        Ok(match &self.dir {
            Some(dir) => TargetSpec::Directory(dir.clone()),
            None => TargetSpec::Engine(EngineOptions {
                scratch: scratch.to_owned(),
                ashift: self.ashift,
                arc_bytes: self.trial.arc_bytes(),
                dirty_bytes: limits::default_dirty_bytes(),
                device,
                txg_timeout_s: 5,
                tunables: self.tunable.iter().cloned().collect(),
                clock: self
                    .is_virtual()
                    .then(|| VirtualClock::of(trace.cores, self.trial.seed, self.trial.costs(trace))),
            }),
        })
    }

    /// The name of a row: the settings, or the directory and its file system, which has no settings.
    fn label(&self, per_role: &PerRole) -> String {
        match &self.dir {
            None => replay_table::settings(per_role),
            Some(dir) => format!("{} in {}", poolwright_base::mountinfo::file_system(dir), dir.display()),
        }
    }
}

/// Runs the verb; returns the exit code.
///
/// # Errors
/// If an argument is invalid, the trace cannot be read, or a trial fails.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let stop = interrupt::watch()?;
    if args.paced.is_some_and(|speed| speed <= 0.0 || !speed.is_finite()) {
        return Err(anyhow!("--paced takes a speed above 0, such as 1 or 2.5")).context(Usage);
    }
    let combinations = options::combinations(&args.options)?;
    options::check_trace(&args.trace)?;
    let trace = stats::load_with_roles(&args.trace)?;
    let roles = settings::roles_of(&trace);
    settings::check_roles(&args.trace, &roles, &args.role, &combinations).map_err(wrong_role)?;
    let files = SourceFiles::new(&trace, args.data.as_deref());
    match &args.data {
        Some(data) => check_data(data, &files, &trace, &args.role)?,
        None => warn_of_others(&files, &trace, &args.role),
    }
    let mut options = capture::Options {
        region: settings::largest_record(&combinations),
        max_bytes: u64::MAX,
        side_by_side: 1,
        seed: args.trial.seed,
        roles: args.role.clone(),
    };
    let touched = capture::touched_bytes(&trace, &options);
    options.side_by_side = args.side_by_side(touched);
    let wanted = if args.pool.on.is_some() { touched.min(MAX_ON_POOL) } else { touched };
    let (scratch, sample_bytes) = args.trial.scratch(wanted, options.side_by_side)?;
    options.max_bytes = sample_bytes;
    // Before the capture, so that a wrong dataset is reported at once.
    let target = args.target(scratch.path(), sample_bytes, &trace.meta)?;
    let shared = prepare(&trace, &files, &options, scratch.path())?;
    if shared.real_bytes == 0 {
        eprintln!(
            "poolwright: warning: no captured data comes from the database's files: all of it is synthetic\n\
             hint: if the files are elsewhere, name their directory with --data; otherwise raise --sample-bytes"
        );
    }
    let trials_of = |one: &PerRole| {
        let spec = args.spec(&shared, &target, settings::for_roles(one, &roles));
        SettingTrials { settings: one.clone(), spec }
    };
    let all: Vec<SettingTrials> = combinations.iter().map(trials_of).collect();
    match measure(&args, &all, options.side_by_side, scratch.path(), &|| stop.load(Ordering::Relaxed)) {
        Err(Error::Interrupted) => Ok(Exit::Interrupted.code()),
        trials => report(&args, &combinations, trials?),
    }
}

/// Runs the trials, with a progress bar.
fn measure(
    args: &Args,
    all: &[SettingTrials],
    side_by_side: usize,
    work: &Path,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<Trials, Error> {
    let trials = all.len() as u64 * u64::from(args.repeat);
    let bar = ticking(bar(Some(trials), "{bar:30} trial {pos}/{len} {elapsed} {msg}"));
    let program = options::this_program();
    let max_bytes = args.pool.on.as_ref().map(|_| args.pool.max_bytes);
    let rounds = Rounds {
        program: &program,
        work,
        repeat: args.repeat,
        side_by_side,
        limit: args.trial_timeout,
        max_bytes,
    };
    let mut begin = |number: usize| bar.set_message(args.label(&all[number].settings));
    let trials = rounds.run(all, interrupted, &mut begin, &mut || bar.inc(1))?;
    bar.finish_and_clear();
    Ok(trials)
}

/// Prints the trials; returns the exit code.
fn report(args: &Args, settings: &[PerRole], trials: Trials) -> anyhow::Result<u8> {
    let comparisons = compare(settings, &trials.runs);
    if let Some(why) = &trials.ended {
        eprintln!("poolwright: warning: {why}\nhint: raise --max-bytes");
    }
    if args.json {
        println!("{}", serde_json::to_string(&ReplayOutput::new(&trials, comparisons))?);
    } else {
        let row = |(settings, trials)| TrialRow { label: args.label(settings), trials };
        let rows: Vec<TrialRow<'_>> =
            settings.iter().zip(trials.runs.iter().map(Vec::as_slice)).map(row).collect();
        print!("{}", replay_table::text(&rows, stdout::terminal()));
        print!("{}", replay_comparison::text(&settings[0], &comparisons, stdout::terminal()));
        for one in &trials.stopped {
            print!("{}", replay_table::stopped(one, args.repeat, &args.label(&one.settings)));
        }
    }
    if !trials.is_empty() {
        return Ok(0);
    }
    match trials.into_used_up() {
        Some(full) => Err(full.into()),
        None => bail!("no trial ended\nhint: raise --trial-timeout, or replay less with --first 10s"),
    }
}

/// Adds the option that named the role.
fn wrong_role(error: Error) -> anyhow::Error {
    let error = match error {
        Error::UnusedSetting { .. } => anyhow!("-o {error}"),
        Error::UnselectedSetting { role, selected } => {
            anyhow!("-o {role}:… sets nothing: --role replays only {}", Role::list(&selected))
        }
        other => other.into(),
    };
    error.context(Usage)
}

/// Warns if there are other files than the recorded ones at the paths in the trace.
fn warn_of_others(files: &SourceFiles, trace: &Trace, roles: &[Role]) {
    if let Some(others) = files.others(trace, roles) {
        eprintln!(
            "poolwright: warning: {others}\n\
             hint: if the files there have the same content (restored or rewritten since), name their directory with --data"
        );
    }
}

/// Refuses a directory that holds none of the files to replay, and warns if some are missing.
fn check_data(data: &Path, files: &SourceFiles, trace: &Trace, roles: &[Role]) -> anyhow::Result<()> {
    let named = || format!("--data {}", quoted(&data));
    match files.missing(trace, roles) {
        Ok(None) => {}
        Ok(Some(missing)) => eprintln!("poolwright: warning: {missing}"),
        Err(why @ Error::NoSourceFiles(_)) => {
            let todo =
                "name the directory that contains them, or omit --data if they are at the paths in the trace";
            return Err(anyhow::Error::from(why).context(named()).context(hint(todo)).context(Usage));
        }
        Err(why) => return Err(why).with_context(named).context(Usage),
    }
    Ok(())
}
