//! `poolwright replay`: one or several settings under a trace.

mod stopped;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use indicatif::{ProgressBar, ProgressStyle};
use poolwright_render::replay_comparison::{self, ReplayOutput, compare};
use poolwright_render::replay_table::{self, TrialRow};
use poolwright_replay::{
    ApplicationSpec, Capture, EngineOptions, Error, Replay, Spec, TargetSpec, capture, child,
};
use poolwright_trace::{File, Op, Trace};

use self::stopped::Stopped;
use super::options::{self, PerRole, TrialOptions, Usage};
use crate::{interrupt, scratch, stdout};

/// Replay a trace on the engine, or in a directory, and measure
///
/// Fills a pool with the bytes that the files have now, runs the trace once to reach a steady state, then measures.
/// Several values for a property (-o recordsize=8K,16K) are tried in turn, interleaved over the repeats.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The trace
    trace: PathBuf,

    /// Directory with the files that were recorded, if they are not where the trace says
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Property of the datasets, or of one role's: -o recordsize=16K, -o wal:logbias=throughput; comma lists try each
    #[arg(short = 'o', value_name = "[ROLE:]PROPERTY=VALUE")]
    options: Vec<String>,

    /// Replay only files of this role (repeatable)
    #[arg(long, value_name = "ROLE")]
    role: Vec<String>,

    /// Replay in a scratch directory below this one instead of on the engine: a baseline on ext4, xfs, btrfs
    #[arg(long, value_name = "DIR", conflicts_with = "options")]
    dir: Option<PathBuf>,

    /// Keep to the recorded times, SPEED times as fast; latency counts from the intended start
    #[arg(long, value_name = "SPEED", num_args = 0..=1, default_missing_value = "1")]
    paced: Option<f64>,

    /// Replay the application: each thread computes and sleeps between its operations as it did in the recording, and waits
    /// for the threads that it waited for. The figure is the work rate
    #[arg(long, conflicts_with_all = ["paced", "dir"])]
    application: bool,

    /// CPU time that a call costs the application beside the engine's, such as 20us for a FUSE mount
    #[arg(long, value_name = "TIME", value_parser = options::parse_time, requires = "application")]
    call_time: Option<Duration>,

    /// Threads that serve the calls on each role's files, such as 4 for a FUSE mount. Left out, each call is served by the
    /// thread that makes it, as in a kernel
    #[arg(long, value_name = "N", requires = "application", value_parser = clap::value_parser!(u32).range(1..=1024))]
    servers: Option<u32>,

    /// Replay only this much of the recording, from its start: 13s
    #[arg(long, value_name = "TIME", value_parser = options::parse_time)]
    first: Option<Duration>,

    /// End a trial's measurement after this time, however much of the recording is replayed then: 15s. The work rate is that
    /// of the part done
    #[arg(long = "for", value_name = "TIME", value_parser = options::parse_time, requires = "application")]
    longest: Option<Duration>,

    /// Sector size of the pool as a power of two
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(9..=16))]
    ashift: u32,

    /// Trials per setting
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,

    /// Passes over the trace before the measured one
    #[arg(long, value_name = "N", default_value_t = 1)]
    warm: u32,

    /// Stop a trial that takes longer than this, filling the pool and warming included; its setting has no result then
    #[arg(long, value_name = "TIME", value_parser = options::parse_time)]
    trial_timeout: Option<Duration>,

    #[command(flatten)]
    trial: TrialOptions,

    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Of an application's replay, the share of the work that is done before the measurement begins.
const WARM_SHARE: f64 = 0.25;

impl Args {
    fn application(&self) -> Option<ApplicationSpec> {
        let call_ns = self.call_time.map_or(0, |time| time.as_nanos() as u64);
        let longest_s = self.longest.map(|time| time.as_secs_f64());
        self.application.then_some(ApplicationSpec { call_ns, longest_s, servers: self.servers })
    }
}

/// Replays; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let stop = interrupt::watch()?;
    if args.paced.is_some_and(|speed| speed <= 0.0 || !speed.is_finite()) {
        return Err(anyhow!("--paced takes a speed above 0, such as 1 or 2.5")).context(options::Usage);
    }
    let settings = options::combinations(&args.options)?;
    options::check_trace(&args.trace)?;
    let trace = Trace::load(&args.trace)?;
    let roles = roles_of(&trace);
    check_roles(&args, &settings, &roles).context(Usage)?;
    if let Some(data) = &args.data {
        check_data(data, &args, &trace).context(Usage)?;
    }
    let scratch = scratch::create(args.trial.scratch.as_deref(), args.trial.sample_bytes.saturating_mul(4))?;
    prepare(&args, &trace, scratch.path(), largest_record(&settings))?;
    let device = args.trial.device()?;
    let target = match &args.dir {
        Some(dir) => TargetSpec::Directory(dir.clone()),
        None => TargetSpec::Engine(EngineOptions {
            scratch: scratch.path().to_owned(),
            ashift: args.ashift,
            arc_bytes: args.trial.arc_bytes(),
            dirty_bytes: options::dirty_bytes(),
            device,
            txg_timeout_s: 5,
        }),
    };
    let spec = |per_role: &PerRole| Spec {
        trace: scratch.path().join("trace.parquet"),
        capture: scratch.path().join("capture"),
        target: target.clone(),
        settings: options::for_roles(per_role, &roles),
        roles: args.role.clone(),
        pace: args.paced,
        application: args.application(),
        warm_passes: args.warm,
        warm_share: if args.application { WARM_SHARE } else { 0.0 },
        first_seconds: args.first.map(|first| first.as_secs_f64()),
        fill_only: false,
    };
    let program = super::options::this_program();
    let bar = bar(settings.len() as u64 * u64::from(args.repeat));
    let mut runs: Vec<Vec<Replay>> = vec![Vec::new(); settings.len()];
    let mut stopped: Vec<Stopped> = Vec::new();
    for round in 0..args.repeat {
        let mut order: Vec<usize> = (0..settings.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for i in order {
            if stopped.iter().any(|s| s.settings == settings[i]) {
                bar.inc(1);
                continue;
            }
            bar.set_message(label(&args, &settings[i]));
            let interrupted = || stop.load(std::sync::atomic::Ordering::Relaxed);
            let spec = spec(&settings[i]);
            match child::run(&program, &spec, scratch.path(), args.trial_timeout, &interrupted) {
                Ok(replay) => runs[i].push(replay),
                Err(why @ (Error::TooLong(_) | Error::UsedUp { .. })) => {
                    stopped.push(Stopped { settings: settings[i].clone(), trial: round + 1, why });
                }
                Err(Error::Interrupted) => return Ok(130),
                Err(error) => return Err(error.into()),
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let comparisons = compare(&settings, &runs);
    if args.json {
        let stopped = stopped.iter().map(Stopped::to_entry).collect();
        println!("{}", serde_json::to_string(&ReplayOutput::new(runs.clone(), comparisons, stopped))?);
    } else {
        let rows = settings.iter().zip(&runs);
        let rows: Vec<TrialRow<'_>> =
            rows.map(|(settings, trials)| TrialRow { label: label(&args, settings), trials }).collect();
        print!("{}", replay_table::text(&rows, stdout::terminal()));
        print!("{}", replay_comparison::text(&settings[0], &comparisons, stdout::terminal()));
        for one in &stopped {
            println!("{}", one.sentence(args.repeat, &label(&args, &one.settings)));
        }
    }
    if runs.iter().all(Vec::is_empty) {
        if let Some(full) = stopped.into_iter().map(|s| s.why).find(|why| matches!(why, Error::UsedUp { .. }))
        {
            return Err(full.into());
        }
        bail!("no trial came to its end; give them more time (--trial-timeout) or less to do (--first 10s)");
    }
    Ok(0)
}

/// The name of a row: the settings, or the directory and its file system, which has no settings.
fn label(args: &Args, per_role: &PerRole) -> String {
    match &args.dir {
        None => replay_table::settings(per_role),
        Some(dir) => format!("{} in {}", poolwright_host::mountinfo::file_system(dir), dir.display()),
    }
}

fn roles_of(trace: &Trace) -> Vec<String> {
    let mut roles: Vec<String> = trace.files.iter().map(|f| role(&f.role)).collect();
    roles.sort();
    roles.dedup();
    roles
}

fn role(name: &str) -> String {
    if name.is_empty() { "other".into() } else { name.into() }
}

fn largest_record(settings: &[PerRole]) -> u64 {
    let values = settings.iter().flat_map(|s| s.values()).filter_map(|s| s.get("recordsize"));
    values.filter_map(|v| options::parse_size(v).ok()).max().unwrap_or(0).max(1 << 20)
}

/// The capture and a copy of the trace with a role for every file.
fn prepare(args: &Args, trace: &Trace, scratch: &Path, region: u64) -> anyhow::Result<()> {
    let mut trace = trace.clone();
    for file in &mut trace.files {
        file.role = role(&file.role);
    }
    let options = capture::Options {
        region,
        max_bytes: args.trial.sample_bytes,
        seed: args.trial.seed,
        roles: args.role.clone(),
    };
    let base = base(&trace);
    let taken = Capture::take(&trace, &options, |path| locate(path, args.data.as_deref(), base.as_deref()))?;
    if taken.real_bytes == 0 {
        eprintln!(
            "poolwright: none of the trace's files is there, so all bytes are made up; name their directory with --data"
        );
    }
    capture::check_room(scratch, taken.room(128 << 20))?;
    taken.save(&scratch.join("capture"))?;
    trace.save(scratch.join("trace.parquet"))?;
    Ok(())
}

/// Every role that is named has to be one that is replayed: what is set for another one has no effect.
fn check_roles(args: &Args, settings: &[PerRole], roles: &[String]) -> anyhow::Result<()> {
    let there = roles.join(", ");
    if let Some(unknown) = args.role.iter().find(|r| !roles.contains(r)) {
        bail!("{} has no file of the role {unknown:?}; it has {there}", args.trace.display());
    }
    let named = settings.iter().flat_map(|s| s.keys()).filter(|role| *role != "*");
    for role in named {
        if !roles.contains(role) {
            bail!(
                "-o {role}:… sets nothing: {} has no file of that role; it has {there}",
                args.trace.display()
            );
        }
        if !args.role.is_empty() && !args.role.contains(role) {
            bail!("-o {role}:… sets nothing: --role replays only {}", args.role.join(", "));
        }
    }
    Ok(())
}

/// Refuses a directory that holds none of the files to replay, and says how many are missing in it.
fn check_data(data: &Path, args: &Args, trace: &Trace) -> anyhow::Result<()> {
    if !data.is_dir() {
        bail!("--data {}: there is no such directory", data.display());
    }
    let base = base(trace);
    let mut touched = vec![false; trace.files.len()];
    for event in trace.events.iter().filter(|e| matches!(e.op, Op::Read | Op::Write | Op::Map)) {
        touched[event.file as usize] = true;
    }
    let wanted = |r: &str| args.role.is_empty() || args.role.contains(&role(r));
    let files: Vec<&File> =
        trace.files.iter().zip(&touched).filter(|(f, t)| **t && wanted(&f.role)).map(|(f, _)| f).collect();
    let missing: Vec<&&File> =
        files.iter().filter(|f| !locate(&f.path, Some(data), base.as_deref()).is_file()).collect();
    let Some(first) = missing.first() else { return Ok(()) };
    if missing.len() == files.len() {
        let lies = match files.len() {
            1 => format!("the only file that the trace reads or writes, {}, is not there", first.path),
            n => format!(
                "none of the {n} files that the trace reads or writes is there (the first is {})",
                first.path
            ),
        };
        bail!(
            "--data {}: {lies}\nhint: name the directory that holds them, or leave --data out if they are where the \
             trace says",
            data.display()
        );
    }
    eprintln!(
        "poolwright: warning: {} of the {} files that the trace reads or writes are not in {} (such as {}): their bytes \
         are made up",
        missing.len(),
        files.len(),
        data.display(),
        first.path
    );
    Ok(())
}

/// The directory that was recorded, where the trace says.
fn base(trace: &Trace) -> Option<PathBuf> {
    trace.meta.subject.strip_prefix("dir:").map(PathBuf::from)
}

/// The real file behind a path of the trace: below `data` at the same place as below the recorded directory, or with
/// the same path, or with the same name. Where `data` is named, no other place is looked at.
fn locate(path: &str, data: Option<&Path>, base: Option<&Path>) -> PathBuf {
    let path = Path::new(path);
    let Some(data) = data else { return path.to_owned() };
    let relative = base.and_then(|b| path.strip_prefix(b).ok()).map(|rest| data.join(rest));
    let whole = data.join(path.strip_prefix("/").unwrap_or(path));
    let by_name = path.file_name().map(|name| data.join(name));
    let candidates = [relative, Some(whole.clone()), by_name];
    candidates.into_iter().flatten().find(|p| p.exists()).unwrap_or(whole)
}

fn bar(trials: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{bar:30} trial {pos}/{len} {elapsed} {msg}").expect("a fixed template");
    let bar = ProgressBar::new(trials).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
