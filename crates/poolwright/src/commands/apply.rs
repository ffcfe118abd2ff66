//! `poolwright apply`: brings a plan's settings onto the datasets and files of the database.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{anyhow, bail};
use poolwright_apply::journal::interrupted;
use poolwright_apply::run::{ApplyReport, Options, Outcome, Run, RunObserver, Stage};
use poolwright_apply::{Assessment, Assessor, Journal, Service, plan_id};
use poolwright_lab::run::Update;
use poolwright_manual::exit_code::NOTHING_BETTER;
use poolwright_render::assessment_text;
use poolwright_trace::format_size;
use poolwright_tune::plan::{Plan, Verdict};

use super::options::{parse_size, parse_time};
use super::pool_connection::print_json;
use crate::failure::{Refused, hint};
use crate::interrupt;
use crate::progress_line::ProgressLine;

/// Bring a plan's settings onto the datasets and files of the database
///
/// Sets the recommended properties, and rewrites the files that were written with other ones: each file is copied within its
/// dataset and compared, and the copy is renamed over it. Attributes, ACLs, holes and hard links are kept. A directory that the plan
/// puts into a dataset of its own (PostgreSQL's log) moves there and becomes a link. The database must be stopped meanwhile; name its
/// unit or the commands. A snapshot keeps the old state for `poolwright undo`.
///
/// A journal makes it safe to interrupt: after a crash, the same command continues, and `poolwright undo` goes back. Works on
/// datasets of the kernel's OpenZFS (as root) and on mounted pools of the user-space engine.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Plan of `poolwright tune`
    #[arg(value_name = "PLAN")]
    plan: PathBuf,

    /// Only show what would be done
    #[arg(long, short = 'n')]
    dry_run: bool,

    /// Apply the plan although its confirmation by the database contradicts it
    #[arg(long)]
    unconfirmed: bool,

    /// Move no directory into a dataset of its own
    #[arg(long)]
    no_move: bool,

    #[command(flatten)]
    how: ConversionArgs,

    /// Print one JSON object: {assessment, outcome}
    #[arg(long)]
    json: bool,
}

/// Options of `apply` and `undo`.
#[derive(Debug, clap::Args)]
pub struct ConversionArgs {
    /// Do not ask before anything is changed
    #[arg(long, short = 'y')]
    pub yes: bool,

    /// systemd unit of the database, which is stopped and started
    #[arg(long, value_name = "UNIT", conflicts_with_all = ["stop", "start"])]
    unit: Option<String>,

    /// Command that stops the database and returns when it has ended
    #[arg(long, value_name = "CMD", requires = "start")]
    stop: Option<String>,

    /// Command that starts the database and returns when it answers
    #[arg(long, value_name = "CMD", requires = "stop")]
    start: Option<String>,

    /// Copy files while the database runs; stop it only to copy what it has changed since
    #[arg(long)]
    online: bool,

    /// With --online: limit of the copying, in bytes a second
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "online")]
    rate: Option<u64>,

    /// With --online: do not stop the database if that is expected to take longer
    #[arg(long, value_name = "TIME", value_parser = parse_time, requires = "online")]
    max_downtime: Option<Duration>,
}

impl ConversionArgs {
    /// The options of a run.
    pub fn options(&self) -> Options {
        let service = match (&self.unit, &self.stop, &self.start) {
            (Some(unit), ..) => Service::Unit(unit.clone()),
            (None, Some(stop), Some(start)) => Service::Commands { stop: stop.clone(), start: start.clone() },
            _ => Service::None,
        };
        Options { service, online: self.online, rate: self.rate, max_downtime: self.max_downtime }
    }

    /// Asks the user on the terminal.
    ///
    /// # Errors
    /// [`Refused`] if the user does not agree, or cannot be asked.
    pub fn confirm(&self, question: &str) -> anyhow::Result<()> {
        if self.yes {
            return Ok(());
        }
        if !std::io::stdin().is_terminal() {
            return Err(anyhow!("not confirmed")
                .context(Refused)
                .context(hint("--yes confirms it without a question")));
        }
        eprint!("{question} [y/N] ");
        let mut answer = String::new();
        std::io::stdin().lock().read_line(&mut answer)?;
        match answer.trim().to_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(anyhow!("not confirmed").context(Refused)),
        }
    }
}

/// Applies and returns the exit code.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let plan = Plan::read(&args.plan).map_err(poolwright_apply::Error::from)?;
    if plan.verdict == Verdict::Keep {
        eprintln!("poolwright: the plan recommends no change: {}", plan.why);
        return Ok(NOTHING_BETTER);
    }
    if plan.contradiction().is_some() && !args.unconfirmed {
        let why = "the database itself did not confirm the plan";
        return Err(anyhow!(why).context(Refused).context(hint("--unconfirmed applies it nevertheless")));
    }
    let id = plan_id(&plan);
    let assessor = Assessor::new(&plan, interrupted(&journals(), &id))?;
    let assessor = if args.no_move { assessor.without_moves() } else { assessor };
    let assessment = assessor.assess(&id, &args.plan)?;
    if !args.json {
        print!("{}", assessment_text::assessment(&assessment));
    }
    if args.dry_run {
        if args.json {
            print_json(&ApplyReport { assessment, outcome: None })?;
        }
        return Ok(0);
    }
    let outcome = apply(args, &id, &assessment)?;
    match args.json {
        true => print_json(&ApplyReport { assessment, outcome: Some(outcome) })?,
        false => print!("{}", assessment_text::outcome(&outcome, &args.plan.display().to_string())),
    }
    Ok(0)
}

fn apply(args: &Args, id: &str, assessment: &Assessment) -> anyhow::Result<Outcome> {
    let options = args.how.options();
    let journal = Journal::open(&journals(), id)?;
    let is_begun = journal.state().is_some_and(|state| !state.is_undone() && !state.is_applied());
    if !assessment.is_empty() || is_begun {
        if let Some(running) = &assessment.running
            && assessment.datasets.iter().any(|of| of.rewritten_files > 0 || !of.relocations.is_empty())
            && !options.service.is_known()
        {
            let unit =
                running.unit.as_ref().map_or_else(String::new, |unit| format!(" (its unit is {unit})"));
            let todo = format!("name its unit with --unit{unit}, or the commands with --stop and --start");
            bail!(
                anyhow!("{} (process {}) is running", running.name, running.pid)
                    .context(Refused)
                    .context(hint(todo))
            );
        }
        assessment.check_space()?;
        args.how.confirm("Apply?")?;
    }
    interrupt::watch_patiently()?;
    let mut reporter = Reporter::new(args.json);
    let outcome = Run::new(journal, options, &mut reporter).apply(assessment.work.clone());
    reporter.end();
    Ok(outcome?)
}

/// The directory of the journals.
pub fn journals() -> PathBuf {
    poolwright_userpool::state_dir().join("apply")
}

/// Shows the progress of a run on standard error.
pub struct Reporter {
    line: ProgressLine,
    is_quiet: bool,
}

impl Reporter {
    /// `is_quiet`: only remarks.
    pub fn new(is_quiet: bool) -> Reporter {
        Reporter { line: ProgressLine::new(""), is_quiet }
    }

    /// Removes the changing line.
    pub fn end(&self) {
        self.line.end();
    }
}

impl RunObserver for Reporter {
    fn stage(&mut self, stage: Stage) {
        if self.line.is_live() || !self.is_quiet {
            self.line.show(vec![Update::Status(stage.title().to_owned())]);
        }
    }

    fn command(&mut self, command: &str) {
        if !self.is_quiet {
            self.line.show(vec![Update::Line(format!("+ {command}"))]);
        }
    }

    fn progress(&mut self, done: u64, total: u64) {
        if self.line.is_live() {
            let (done, total) = (format_size(done / 2), format_size(total / 2));
            let text = format!("copying and comparing files: {done} of {total}");
            self.line.show(vec![Update::Detail(text)]);
        }
    }

    fn note(&mut self, text: &str) {
        self.line.show(vec![Update::Line(format!("poolwright: note: {text}"))]);
    }

    fn is_interrupted(&self) -> bool {
        interrupt::requested()
    }
}
