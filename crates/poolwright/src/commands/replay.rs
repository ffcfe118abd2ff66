//! `poolwright replay`: one or several settings under a trace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use poolwright_replay::{Capture, EngineOptions, Error, Replay, Spec, TargetSpec, capture, child};
use poolwright_report::{Cell, Column, Table, Terminal, Unit};
use poolwright_trace::{Trace, format_ns, format_size};
use poolwright_tune::objective::metrics;
use poolwright_tune::statistics::{median, paired_change};

use super::options::{self, PerRole, TrialOptions};
use crate::interrupt;
use crate::scratch::Scratch;

/// Replays a trace on the engine, or in a directory, and measures
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

    /// Replay only this much of the recording, from its start: 13s
    #[arg(long, value_name = "TIME", value_parser = options::parse_time)]
    first: Option<Duration>,

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

/// Replays; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let stop = interrupt::watch()?;
    if args.paced.is_some_and(|speed| speed <= 0.0 || !speed.is_finite()) {
        bail!("--paced takes a speed above 0, such as 1 or 2.5");
    }
    let settings = options::combinations(&args.options)?;
    options::check_trace(&args.trace)?;
    let trace = Trace::load(&args.trace)?;
    let roles = roles_of(&trace);
    if let Some(unknown) = args.role.iter().find(|r| !roles.contains(r)) {
        bail!("{} has no file of the role {unknown:?}; it has {}", args.trace.display(), roles.join(", "));
    }
    let scratch = Scratch::create(args.trial.scratch.as_deref(), args.trial.sample_bytes * 4)?;
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
        warm_passes: args.warm,
        warm_share: 0.0,
        first_seconds: args.first.map(|first| first.as_secs_f64()),
        thin: 1.0,
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
            bar.set_message(spelled(&settings[i]));
            let interrupted = || stop.load(std::sync::atomic::Ordering::Relaxed);
            let spec = spec(&settings[i]);
            match child::run(&program, &spec, scratch.path(), args.trial_timeout, &interrupted) {
                Ok(replay) => runs[i].push(replay),
                Err(Error::TooLong(limit)) => stopped.push(Stopped {
                    settings: settings[i].clone(),
                    trial: round + 1,
                    limit_s: limit.as_secs_f64(),
                }),
                Err(Error::Interrupted) => return Ok(130),
                Err(error) => return Err(error.into()),
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let comparisons = compare(&settings, &runs);
    if args.json {
        print_json(&runs, &comparisons, &stopped)?;
    } else {
        print_table(&settings, &runs);
        print_comparisons(&settings, &comparisons);
        print_stopped(&stopped, args.repeat);
    }
    if runs.iter().all(Vec::is_empty) {
        bail!("no trial came to its end; give them more time (--trial-timeout) or less to do (--first 10s)");
    }
    Ok(0)
}

/// A setting that was given up: it is not tried again, and what it took is no result.
#[derive(Debug, serde::Serialize)]
struct Stopped {
    settings: PerRole,
    /// Which of its trials took too long, from 1.
    trial: u32,
    limit_s: f64,
}

fn print_stopped(stopped: &[Stopped], repeat: u32) {
    for s in stopped {
        let trial = if repeat == 1 { String::new() } else { format!(" in trial {} of {repeat}", s.trial) };
        println!("Stopped after {} s{trial}, which is no result: {}.", s.limit_s, spelled(&s.settings));
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
    let base = trace.meta.subject.strip_prefix("dir:").map(PathBuf::from);
    let taken = Capture::take(&trace, &options, |path| locate(path, args.data.as_deref(), base.as_deref()))?;
    if taken.real_bytes == 0 {
        eprintln!(
            "poolwright: none of the trace's files is there, so all bytes are made up; name their directory with --data"
        );
    }
    capture::check_room(scratch, taken.image_bytes() * 3 + (128 << 20))?;
    taken.save(&scratch.join("capture"))?;
    trace.save(scratch.join("trace.parquet"))?;
    Ok(())
}

/// The real file behind a path of the trace: below `data` at the same place as below the recorded directory, or with
/// the same path, or with the same name.
fn locate(path: &str, data: Option<&Path>, base: Option<&Path>) -> PathBuf {
    let path = Path::new(path);
    let Some(data) = data else { return path.to_owned() };
    let relative = base.and_then(|b| path.strip_prefix(b).ok()).map(|rest| data.join(rest));
    let whole = data.join(path.strip_prefix("/").unwrap_or(path));
    let by_name = path.file_name().map(|name| data.join(name));
    let candidates = [relative, Some(whole), by_name];
    candidates.iter().flatten().find(|p| p.exists()).cloned().unwrap_or_else(|| path.to_owned())
}

fn bar(trials: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{bar:30} trial {pos}/{len} {elapsed} {msg}").expect("a fixed template");
    let bar = ProgressBar::new(trials).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn spelled(per_role: &PerRole) -> String {
    let one = |(role, settings): (&String, &BTreeMap<String, String>)| {
        let prefix = if role == "*" { String::new() } else { format!("{role}:") };
        settings.iter().map(|(k, v)| format!("{prefix}{k}={v}")).collect::<Vec<_>>().join(" ")
    };
    let text: Vec<String> = per_role.iter().map(one).collect();
    if text.is_empty() { "OpenZFS defaults".into() } else { text.join(" ") }
}

/// A setting against the first one, from trials paired by round.
#[derive(Debug, serde::Serialize)]
struct Comparison {
    settings: PerRole,
    /// Metric → relative change with its 95 % interval.
    changes: BTreeMap<String, Change>,
}

#[derive(Debug, serde::Serialize)]
struct Change {
    change: f64,
    ci95: (f64, f64),
    pairs: usize,
}

/// What is compared, with the words for it.
const COMPARED: &[(&str, &str)] = &[
    ("ops_s", "operations/s"),
    ("mean_latency_ns", "mean latency"),
    ("write_amplification", "write amplification"),
    ("allocated_bytes", "space"),
    ("cpu_ns_per_op", "CPU per operation"),
];

/// Every setting against the first, where there are repeats enough for an interval.
fn compare(settings: &[PerRole], runs: &[Vec<Replay>]) -> Vec<Comparison> {
    let first: Vec<_> = runs[0].iter().map(metrics).collect();
    let against = |i: usize| {
        let other: Vec<_> = runs[i].iter().map(metrics).collect();
        let change = |metric: &str| {
            let pairs: Vec<(f64, f64)> = first
                .iter()
                .zip(&other)
                .filter_map(|(a, b)| Some((*a.get(metric)?, *b.get(metric)?)))
                .collect();
            let c = paired_change(&pairs)?;
            Some((metric.to_owned(), Change { change: c.change, ci95: c.ci95, pairs: pairs.len() }))
        };
        let changes = COMPARED.iter().filter_map(|(metric, _)| change(metric)).collect();
        Comparison { settings: settings[i].clone(), changes }
    };
    (1..settings.len()).map(against).filter(|c| !c.changes.is_empty()).collect()
}

fn print_comparisons(settings: &[PerRole], comparisons: &[Comparison]) {
    if comparisons.is_empty() {
        return;
    }
    println!(
        "\nAgainst {} (95 % intervals from pairs; one that holds 0 is no difference):",
        spelled(&settings[0])
    );
    let columns = std::iter::once(Column::left("settings"))
        .chain(COMPARED.iter().map(|(_, words)| Column::left(words)));
    let mut table = Table::new(columns);
    for c in comparisons {
        let cell = |(metric, _): &(&str, &str)| match c.changes.get(*metric) {
            Some(x) => Cell::text(format!(
                "{:+.1} % ({:+.1} to {:+.1})",
                x.change * 100.0,
                x.ci95.0 * 100.0,
                x.ci95.1 * 100.0
            )),
            None => Cell::missing(),
        };
        table.row(std::iter::once(Cell::text(spelled(&c.settings))).chain(COMPARED.iter().map(cell)));
    }
    print!("{}", table.terminal(Terminal::stdout()));
}

/// One trial as the documented object; several as `{"runs":[…],"comparisons":[…],"stopped":[…]}`.
fn print_json(runs: &[Vec<Replay>], comparisons: &[Comparison], stopped: &[Stopped]) -> anyhow::Result<()> {
    let all: Vec<&Replay> = runs.iter().flatten().collect();
    let mut out = std::io::stdout().lock();
    if let ([one], []) = (all.as_slice(), stopped) {
        serde_json::to_writer(&mut out, one)?;
    } else {
        let several = serde_json::json!({ "runs": all, "comparisons": comparisons, "stopped": stopped });
        serde_json::to_writer(&mut out, &several)?;
    }
    println!();
    Ok(())
}

fn print_table(settings: &[PerRole], runs: &[Vec<Replay>]) {
    let mut table = Table::new([
        Column::left("settings"),
        Column::right("ops/s"),
        Column::right("read p50"),
        Column::right("p99"),
        Column::right("write p50"),
        Column::right("sync p50"),
        Column::right("p99"),
        Column::right("write amp."),
        Column::right("ARC hits"),
        Column::right("space"),
        Column::right("ratio"),
        Column::right("CPU"),
    ]);
    for (per_role, trials) in settings.iter().zip(runs) {
        let of = |f: &dyn Fn(&Replay) -> Option<f64>, unit: Unit| {
            let values: Vec<f64> = trials.iter().filter_map(f).collect();
            if values.is_empty() { Cell::missing() } else { Cell::num(median(&values), unit) }
        };
        let latency = |kinds: &'static [&'static str], p99: bool| {
            of(
                &move |r: &Replay| {
                    let l = kinds.iter().find_map(|k| r.latency_ns.get(*k))?;
                    Some(if p99 { l.p99 } else { l.p50 } as f64)
                },
                Unit::Nanoseconds,
            )
        };
        table.row([
            Cell::text(spelled(per_role)),
            of(&|r| Some(r.ops_per_second), Unit::Count),
            latency(&["read"], false),
            latency(&["read"], true),
            latency(&["write"], false),
            latency(&["fdatasync", "fsync"], false),
            latency(&["fdatasync", "fsync"], true),
            of(&|r| r.write_amplification, Unit::None),
            of(
                &|r| Some(r.arc.hits as f64 / (r.arc.hits + r.arc.iohits + r.arc.misses).max(1) as f64),
                Unit::Fraction,
            ),
            of(&|r| Some(r.allocated_bytes as f64), Unit::Bytes),
            of(&|r| Some(r.logical_bytes as f64 / r.allocated_bytes.max(1) as f64), Unit::Ratio),
            of(&|r| Some(r.cpu_seconds), Unit::Seconds),
        ]);
    }
    print!("{}", table.terminal(Terminal::stdout()));
    let Some(one) = runs.iter().flatten().next() else { return };
    let trials = runs.iter().map(Vec::len).max().unwrap_or(0);
    println!(
        "\n{} on {}; medians of {} trial{} per setting; filled with {}, {:.1} % of the written bytes are the files' own.",
        poolwright_trace::format_count(one.ops) + " operations",
        one.target,
        trials,
        if trials == 1 { "" } else { "s" },
        format_size(one.filled_bytes),
        one.written_real * 100.0
    );
    if one.max_lag_ns > 0 {
        println!("Largest delay behind the recorded time: {}.", format_ns(one.max_lag_ns));
    }
    if !one.skipped.is_empty() {
        let list: Vec<String> = one.skipped.iter().map(|(op, n)| format!("{n} {op}")).collect();
        println!("Not replayed: {}.", list.join(", "));
    }
}
