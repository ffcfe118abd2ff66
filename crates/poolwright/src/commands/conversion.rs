//! Options, journals and progress of `apply` and `undo`.

use std::io::{BufRead as _, IsTerminal as _};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use poolwright_apply::assessment::RunningDatabase;
use poolwright_apply::{RunObserver, Stage, run::Options};
use poolwright_base::units::format_size;
use poolwright_dbms::service::{Service, ServiceObserver};
use poolwright_lab::run::Update;

use super::options::{parse_size, parse_time};
use crate::failure::{Refused, hint};
use crate::interrupt;
use crate::progress_line::ProgressLine;

/// The group of the options that copy while the database runs; one excludes the others.
pub const RUNNING: &str = "running";

/// Options of `apply` and `undo`.
#[derive(Debug, clap::Args)]
pub struct ConversionArgs {
    /// Do not ask for confirmation
    #[arg(long, short = 'y')]
    pub yes: bool,

    /// systemd unit of the database, to stop and start it
    #[arg(long, value_name = "UNIT", conflicts_with_all = ["stop", "start"])]
    unit: Option<String>,

    /// Command that stops the database and returns when it has stopped
    #[arg(long, value_name = "CMD", requires = "start")]
    stop: Option<String>,

    /// Command that starts the database and returns when it accepts connections
    #[arg(long, value_name = "CMD", requires = "stop")]
    start: Option<String>,

    /// Copy files while the database runs; stop it only to copy later changes
    #[arg(long, group = RUNNING)]
    online: bool,

    /// Copy at most this many bytes per second while the database runs
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = RUNNING)]
    rate: Option<u64>,

    /// Do not stop the database if the downtime is expected to exceed this
    #[arg(long, value_name = "TIME", value_parser = parse_time, requires = RUNNING)]
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

    /// Refuses a running database that the options do not stop.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn check_stoppable(&self, running: Option<&RunningDatabase>) -> anyhow::Result<()> {
        let Some(running) = running.filter(|_| !self.options().service.is_known()) else { return Ok(()) };
        let unit = running.unit.as_ref().map_or_else(String::new, |unit| format!(" (its unit is {unit})"));
        let todo = format!("name its unit with --unit{unit}, or the commands with --stop and --start");
        let why = anyhow!("{} (process {}) is running", running.name, running.pid);
        Err(why.context(Refused).context(hint(todo)))
    }

    /// Asks the user on the terminal.
    ///
    /// # Errors
    /// [`Refused`] if the user does not agree, or cannot be queried.
    pub fn confirm(&self, question: &str) -> anyhow::Result<()> {
        if self.yes {
            return Ok(());
        }
        if !std::io::stdin().is_terminal() {
            return Err(anyhow!("not confirmed")
                .context(Refused)
                .context(hint("use --yes to skip the question")));
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

/// The directory of the journals.
pub fn journals() -> PathBuf {
    poolwright_zfs::user::state_dir().join("apply")
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

    fn progress(&mut self, done: u64, total: u64) {
        if self.line.is_live() {
            let (done, total) = (format_size(done / 2), format_size(total / 2));
            let text = format!("copying and comparing files: {done} of {total}");
            self.line.show(vec![Update::Detail(text)]);
        }
    }
}

impl ServiceObserver for Reporter {
    fn command(&mut self, command: &str) {
        if !self.is_quiet {
            self.line.show(vec![Update::Line(format!("+ {command}"))]);
        }
    }

    fn note(&mut self, text: &str) {
        self.line.show(vec![Update::Line(format!("poolwright: note: {text}"))]);
    }

    fn is_interrupted(&self) -> bool {
        interrupt::requested()
    }
}
