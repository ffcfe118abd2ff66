//! `poolwright tune`: from a live database to settings worth changing.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use indicatif::{ProgressBar, ProgressStyle};
use poolwright_openzfs::property::Settings;
use poolwright_record::{Options, Recorder, Subject};
use poolwright_trace::{counted, format_size};
use poolwright_tune::objective::GOALS;
use poolwright_tune::plan::{Plan, Verdict};
use poolwright_tune::{Goal, Request, Requirement, tune};

use super::options::{self, TrialOptions, Usage, parse_time};
use crate::output::{Force, Kind, Output};
use crate::stdout::Stdout;
use crate::{interrupt, plan_page, plan_text, scratch};

/// Recommend settings for a database, with evidence: the main job
///
/// Records the database's I/O (or takes a trace), samples its files, replays the recording on the OpenZFS engine under
/// candidate settings, and says per role what beats today's. Nothing of the database is changed; its files are only
/// read. Exit code 4 means: keep what you have.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The database's directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Use this trace instead of recording
    #[arg(long, value_name = "TRACE")]
    trace: Option<PathBuf>,

    /// How long to record
    #[arg(long = "for", value_name = "TIME", default_value = "60s", value_parser = parse_time, conflicts_with = "trace")]
    duration: Duration,

    /// Keep the recording in this file
    #[arg(long, value_name = "FILE", conflicts_with = "trace")]
    keep_trace: Option<PathBuf>,

    /// What counts most
    #[arg(long, default_value = "balanced", value_parser = goals())]
    goal: Goal,

    /// What has to hold whatever the goal: --require 'space<=-20%', --require 'work_rate>=-5%' (repeatable). Figures: space,
    /// work_rate, write_bytes, read_bytes, read_p99, sync_p99, cpu
    #[arg(long, value_name = "FIGURE<=CHANGE%", value_parser = Requirement::parse)]
    require: Vec<Requirement>,

    /// Property of today, where `zfs get` cannot say it: -o recordsize=16K. Otherwise OpenZFS's defaults
    #[arg(short = 'o', value_name = "PROPERTY=VALUE")]
    options: Vec<String>,

    /// Time for estimates and trials, the recording left out
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = parse_time)]
    budget: Duration,

    /// Sector size of the trials' pools as a power of two; chosen for the device if left out
    #[arg(long, value_parser = clap::value_parser!(u32).range(9..=16))]
    ashift: Option<u32>,

    /// Write the plan here
    #[arg(long, value_name = "FILE", default_value = "plan.json")]
    plan: PathBuf,

    /// Write the report here, one self-contained HTML file
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    report: PathBuf,

    #[command(flatten)]
    force: Force,

    #[command(flatten)]
    trial: TrialOptions,

    /// Print the plan as JSON on standard output
    #[arg(long)]
    json: bool,
}

/// For clap: the goals by name.
fn goals() -> impl TypedValueParser<Value = Goal> {
    PossibleValuesParser::new(GOALS.iter().map(|row| row.1))
        .map(|name| Goal::parse(&name).expect("only names of the table are possible"))
}

/// Tunes; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let stop = interrupt::watch()?;
    let dir = checked_dir(&args.dir)?;
    let stated = stated(&args.options)?;
    // Opened before the long run: a place that cannot be written shows now.
    let outputs = Outputs::open(&args)?;
    let scratch = scratch::create(args.trial.scratch.as_deref(), args.trial.sample_bytes.saturating_mul(4))?;
    let trace = match &args.trace {
        Some(trace) => {
            options::check_trace(trace)?;
            trace.clone()
        }
        None => {
            let into = args.keep_trace.clone().unwrap_or_else(|| scratch.path().join("recording.parquet"));
            record(&dir, args.duration, &into, &stop)?;
            into
        }
    };
    if stop.load(Ordering::Relaxed) {
        return Ok(interrupted(&args, outputs));
    }
    let request = Request {
        device: args.trial.device()?,
        dir,
        keep_trace: args.trace.is_some() || args.keep_trace.is_some(),
        trace,
        goal: args.goal,
        requirements: args.require.clone(),
        budget: args.budget,
        arc_bytes: args.trial.arc_bytes(),
        dirty_bytes: options::dirty_bytes(),
        ashift: args.ashift,
        scratch: scratch.path().to_owned(),
        program: super::options::this_program(),
        stated,
        seed: args.trial.seed,
        max_bytes: args.trial.sample_bytes,
        stop: Arc::clone(&stop),
    };
    let bar = bar();
    let began = Instant::now();
    let log = !std::io::stderr().is_terminal();
    let plan = tune(&request, &mut |p| {
        bar.set_position((p.share * 100.0) as u64);
        bar.set_message(p.doing.clone());
        if log {
            eprintln!("{:5.0} s  {}", began.elapsed().as_secs_f64(), p.doing);
        }
    });
    bar.finish_and_clear();
    let plan = match plan {
        Ok(plan) => plan,
        Err(error) if error.is_interruption() => return Ok(interrupted(&args, outputs)),
        Err(error) => {
            let usage = matches!(error, poolwright_tune::Error::OtherFiles(_));
            let error = anyhow::Error::from(error);
            return Err(if usage { error.context(Usage) } else { error });
        }
    };
    outputs.write(&plan)?;
    if args.json {
        println!("{}", serde_json::to_string(&plan)?);
    } else {
        plan_text::print(&plan, &mut Stdout, crate::stdout::terminal())?;
        println!("\nWritten: {} and {}.", args.plan.display(), args.report.display());
        println!("To try it with the database itself: poolwright confirm {} --load CMD", args.plan.display());
    }
    Ok(if plan.verdict == Verdict::Keep { 4 } else { 0 })
}

/// The values that the user says are today's: one each, for all roles.
fn stated(options: &[String]) -> anyhow::Result<Settings> {
    let mut all = options::combinations(options)?;
    let one = all.pop().unwrap_or_default();
    if !all.is_empty() || one.keys().any(|role| role != "*") {
        return Err(anyhow::anyhow!("-o says what is set today: one value for each property, for all roles")
            .context(Usage));
    }
    Ok(one.into_values().next().unwrap_or_default())
}

fn checked_dir(dir: &Path) -> anyhow::Result<PathBuf> {
    let found = dir
        .canonicalize()
        .with_context(|| format!("looking at the database's directory {}", dir.display()))?;
    if !found.is_dir() {
        bail!("{} is a file; name the directory that the database lives in", dir.display());
    }
    let mut entries = std::fs::read_dir(&found).with_context(|| format!("listing {}", found.display()))?;
    if entries.next().is_none() {
        bail!("{} is empty: there is no database to look at", found.display());
    }
    Ok(found)
}

fn record(dir: &Path, duration: Duration, into: &Path, stop: &Arc<AtomicBool>) -> anyhow::Result<()> {
    let recorder = Recorder::start(Subject::Dir(dir.to_owned()), &Options::new(into))?;
    let style = ProgressStyle::with_template("{bar:30} recording {msg}").expect("a fixed template");
    let bar = ProgressBar::new(duration.as_millis() as u64).with_style(style);
    let began = Instant::now();
    let until = || began.elapsed() >= duration || stop.load(Ordering::Relaxed);
    let summary = recorder.run(until, |progress| {
        bar.set_position(progress.elapsed.as_millis() as u64);
        bar.set_message(format!(
            "{:.0} s, {}",
            progress.elapsed.as_secs_f64(),
            counted(progress.events, "event")
        ));
    })?;
    bar.finish_and_clear();
    if summary.trace.events == 0 && !stop.load(Ordering::Relaxed) {
        bail!(
            "nothing was recorded: no process read, wrote or opened a file of {}\n\
             hint: put load on the database while it is recorded, or record for longer (--for 5m)",
            dir.display()
        );
    }
    eprintln!(
        "Recorded {} on {} in {:.0} s (probe set {}, {} lost, trace of {}).",
        counted(summary.trace.events, "event"),
        counted(summary.trace.files as u64, "file"),
        summary.trace.duration_ns as f64 / 1e9,
        summary.meta.probe_set,
        summary.meta.lost_events,
        format_size(summary.trace.bytes)
    );
    Ok(())
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {elapsed} {wide_msg}").expect("a fixed template");
    let bar = ProgressBar::new(100).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// The plan and its page.
struct Outputs {
    plan: Output,
    report: Output,
}

impl Outputs {
    fn open(args: &Args) -> anyhow::Result<Outputs> {
        let (plan, report) = (args.plan.as_path(), args.report.as_path());
        let (plan, report) = Output::open_both((plan, Kind::Plan), (report, Kind::Page), args.force)?;
        Ok(Outputs { plan, report })
    }

    fn write(self, plan: &Plan) -> anyhow::Result<()> {
        self.plan.write(&(serde_json::to_string_pretty(plan)? + "\n"))?;
        self.report.write(&plan_page::html(plan))
    }
}

/// Says what is kept; what was there before stays.
fn interrupted(args: &Args, outputs: Outputs) -> u8 {
    drop(outputs);
    eprintln!("{}", kept(args));
    130
}

fn kept(args: &Args) -> String {
    let plan = format!(
        "poolwright: interrupted: no plan was made, {} and {} are as they were before",
        args.plan.display(),
        args.report.display()
    );
    let recording = match (&args.trace, &args.keep_trace) {
        (Some(_), _) => return plan,
        (None, Some(kept)) if kept.exists() => {
            format!("the recording is kept in {0}; go on with --trace {0}", kept.display())
        }
        (None, _) => "the recording is not kept; --keep-trace FILE keeps the next one".to_owned(),
    };
    format!("{plan}\nhint: {recording}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn said(line: &[&str]) -> String {
        kept(&Line::parse_from([&["tune", "/db"], line].concat()).args)
    }

    #[test]
    fn an_interrupted_run_says_what_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let kept = dir.path().join("kept.parquet");
        let name = kept.to_str().unwrap();
        assert!(said(&[]).contains("plan.json and report.html are as they were"), "{}", said(&[]));
        assert!(said(&[]).contains("the recording is not kept"), "{}", said(&[]));
        assert!(said(&["--keep-trace", name]).contains("the recording is not kept"));
        std::fs::write(&kept, "x").unwrap();
        assert!(said(&["--keep-trace", name]).ends_with(&format!("go on with --trace {name}")));
        assert!(!said(&["--trace", name]).contains("hint"));
    }
}
