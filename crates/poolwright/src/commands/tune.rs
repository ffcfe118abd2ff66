//! `poolwright tune`: recommends settings for a database.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use poolwright_base::units::counted;
use poolwright_base::{Exit, quoted, regular};
use poolwright_openzfs::limits;
use poolwright_openzfs::property::Settings;
use poolwright_plan::{Measurements, Plan, Verdict};
use poolwright_record::{BlockDevice, Options, Recorder, Subject};
use poolwright_render::{plan_page, plan_text};
use poolwright_replay::codec_times;
use poolwright_trace::Reader;
use poolwright_tune::objective::GOALS;
use poolwright_tune::{Goal, Request, Requirement, database_dir, tune};

use super::options::{self, TrialOptions, Usage, parse_time};
use crate::interrupt;
use crate::output::{Force, Kind, Output};
use crate::progress_line::{bar, ticking};

/// Recommend settings for a database, with evidence
///
/// Records the database's I/O (or reads a trace), samples its files, replays the recording on the OpenZFS engine under
/// candidate settings, and recommends, for each kind of file, the settings that beat today's. Reads the database's files and changes
/// nothing. Exit code 4 means: keep today's settings.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The database's directory, or the device of a volume (zvol), such as /dev/zvol/POOL/VOLUME
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

    /// What to improve first
    #[arg(long, default_value = "balanced", value_parser = goals())]
    goal: Goal,

    /// A limit that the recommendation must meet, such as 'space<=-20%' or 'work_rate>=-5%' (repeatable). Figures: space, work_rate,
    /// write_bytes, read_bytes, read_p99, sync_p99, cpu
    #[arg(long, value_name = "FIGURE<=CHANGE%", value_parser = Requirement::parse)]
    require: Vec<Requirement>,

    /// A property's value today, if it cannot be read: -o recordsize=16K. Default: OpenZFS's defaults
    #[arg(short = 'o', value_name = "PROPERTY=VALUE")]
    options: Vec<String>,

    /// Time for estimates and trials on an idle machine. It is converted to a number of trials, so the plan does not depend on the load of
    /// this machine; a slow or busy machine takes longer
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = parse_time)]
    budget: Duration,

    /// Sector size of the trials' pools as a power of two. Default: chosen for the device
    #[arg(long, value_parser = clap::value_parser!(u32).range(9..=16))]
    ashift: Option<u32>,

    /// Also measure published tuning advice: four more trials for each rule that the search has not tried, in addition to
    /// --budget
    #[arg(long)]
    check_advice: bool,

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

    /// Print all tables: alternatives, contributions of the properties, published advice, memory, warnings
    #[arg(short, long, conflicts_with = "json")]
    verbose: bool,

    /// Print the plan as JSON on standard output
    #[arg(long)]
    json: bool,
}

/// Bytes of the database that the trials contain by default, for each second of the budget: filling the pools then takes about half
/// of the time.
const BYTES_PER_SECOND: u64 = 8 << 20;

/// Parses the name of a goal, for clap.
fn goals() -> impl TypedValueParser<Value = Goal> {
    PossibleValuesParser::new(GOALS.iter().map(|row| row.name))
        .map(|name| Goal::parse(&name).expect("clap accepts only names of the table"))
}

/// Runs the verb; returns the exit code.
///
/// # Errors
/// If an argument is invalid, or the recording, the trials or an output fail.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let stop = interrupt::watch()?;
    let dir = database_dir(&args.dir)?;
    let stated = stated(&args.options)?;
    // Opened first, so that an unwritable path is reported before the long run.
    let outputs = Outputs::open(&args)?;
    let wanted = (BYTES_PER_SECOND as f64 * args.budget.as_secs_f64()) as u64;
    let side_by_side = args.trial.side_by_side(wanted);
    let (scratch, max_bytes) = args.trial.scratch(wanted, side_by_side)?;
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
        costs: args.trial.costs(Reader::open(&trace)?.meta()),
        dir,
        keep_trace: args.trace.is_some() || args.keep_trace.is_some(),
        // The plan names its recording by an absolute path, because a later run may start elsewhere.
        trace: std::path::absolute(&trace).unwrap_or(trace),
        goal: args.goal,
        requirements: args.require.clone(),
        budget: args.budget,
        arc_bytes: args.trial.arc_bytes(),
        dirty_bytes: limits::default_dirty_bytes(),
        ashift: args.ashift,
        scratch: scratch.path().to_owned(),
        program: super::options::this_program(),
        stated,
        seed: args.trial.seed,
        max_bytes,
        side_by_side,
        check_advice: args.check_advice,
        stop,
    };
    let plan = match tuned(&request)? {
        Tuned::Done(plan) => plan,
        Tuned::Interrupted => return Ok(interrupted(&args, outputs)),
    };
    write_and_print(&args, outputs, &plan)?;
    Ok(if plan.verdict == Verdict::Keep { Exit::NothingToChange.code() } else { 0 })
}

/// How a run ended.
enum Tuned {
    Done(Box<Plan>),
    Interrupted,
}

/// Tunes, with a progress bar on a terminal and progress lines elsewhere.
fn tuned(request: &Request) -> anyhow::Result<Tuned> {
    let bar = ticking(bar(Some(100), "{bar:30} {elapsed} {wide_msg}"));
    let began = Instant::now();
    let log = !std::io::stderr().is_terminal();
    let plan = tune(request, &mut |p| {
        bar.set_position((p.share * 100.0) as u64);
        bar.set_message(p.doing.clone());
        if log {
            eprintln!("{:5.0} s  {}", began.elapsed().as_secs_f64(), p.doing);
        }
    });
    bar.finish_and_clear();
    match plan {
        Ok(plan) => Ok(Tuned::Done(Box::new(plan))),
        Err(error) if error.is_interruption() => Ok(Tuned::Interrupted),
        Err(error) => Err(error.into()),
    }
}

fn write_and_print(args: &Args, outputs: Outputs, plan: &Plan) -> anyhow::Result<()> {
    outputs.write(plan)?;
    if args.json {
        println!("{}", serde_json::to_string(plan)?);
    } else {
        let terminal = crate::stdout::terminal();
        match args.verbose {
            true => print!("{}", plan_text::text(plan, terminal)),
            false => print!("{}", plan_text::summary(plan, terminal)),
        }
        let (path, report) = (args.plan.display(), args.report.display());
        let confirm = format!(
            " Test it on the database: poolwright confirm {path} --load CMD (and --start CMD --stop CMD for a server)"
        );
        // A volume's database runs in another machine, or on a file system that no trial of the lab makes.
        println!("Evidence: {report}.{}", if plan.is_of_volume() { "" } else { &confirm });
    }
    Ok(())
}

/// The values of today that the user states: one for each property, for all roles.
fn stated(options: &[String]) -> anyhow::Result<Settings> {
    let mut all = options::combinations(options)?;
    let one = all.pop().unwrap_or_default();
    if !all.is_empty() || one.keys().any(|role| role != "*") {
        return Err(anyhow::anyhow!("-o takes one value for each property, without a role: today's setting")
            .context(Usage));
    }
    Ok(one.into_values().next().unwrap_or_default())
}

fn record(dir: &Path, duration: Duration, into: &Path, stop: &Arc<AtomicBool>) -> anyhow::Result<()> {
    let options = Options { codec_times: Some(codec_times::measure), ..Options::new(into) };
    let subject = match regular::is_block_device(dir) {
        true => Subject::Device(BlockDevice::find(dir)?),
        false => Subject::Dir(dir.to_owned()),
    };
    let recorder = Recorder::start(subject, &options)?;
    let bar = ticking(bar(Some(duration.as_millis() as u64), "{bar:30} recording {msg}"));
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
            "nothing was recorded: nothing used {}\n\
             hint: run the load while Poolwright records, or record for longer (--for 5m)",
            quoted(&dir)
        );
    }
    eprintln!("{}", summary.sentence());
    Ok(())
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
        self.report.write(&plan_page::html(plan, &Measurements::default()))?;
        Ok(())
    }
}

/// Reports an interruption, and keeps the previous plan and page.
fn interrupted(args: &Args, outputs: Outputs) -> u8 {
    drop(outputs);
    eprintln!("{}", kept(args));
    130
}

fn kept(args: &Args) -> String {
    let plan = format!(
        "poolwright: interrupted: no plan was written; {} and {} are unchanged",
        args.plan.display(),
        args.report.display()
    );
    let recording = match (&args.trace, &args.keep_trace) {
        (Some(_), _) => return plan,
        (None, Some(kept)) if kept.exists() => {
            format!("the recording is kept; continue with --trace {0}", quoted(&kept))
        }
        (None, _) => "the recording was not kept; use --keep-trace FILE to keep the next one".to_owned(),
    };
    format!("{plan}\nhint: {recording}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(Debug, clap::Parser)]
    struct TestCli {
        #[command(flatten)]
        args: Args,
    }

    fn message(line: &[&str]) -> String {
        kept(&TestCli::parse_from([&["tune", "/db"], line].concat()).args)
    }

    #[test]
    fn an_interrupted_run_says_what_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let kept = dir.path().join("kept.parquet");
        let name = kept.to_str().unwrap();
        assert!(message(&[]).contains("plan.json and report.html are unchanged"), "{}", message(&[]));
        assert!(message(&[]).contains("the recording was not kept"), "{}", message(&[]));
        assert!(message(&["--keep-trace", name]).contains("the recording was not kept"));
        std::fs::write(&kept, "x").unwrap();
        assert!(message(&["--keep-trace", name]).ends_with(&format!("continue with --trace {name}")));
        assert!(!message(&["--trace", name]).contains("hint"));
    }
}
