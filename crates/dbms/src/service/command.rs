//! The commands that stop and start a database.

use std::fmt;
use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

use poolwright_base::{end_of, memory_file};
use poolwright_zfs::kernel::command::remote::command_line;

use crate::program::{ProgramOutput, run_until};
use crate::{Error, Result};

/// Bytes of a command's output that an error shows, or that are read.
const SHOWN: u64 = 500;

/// A command. Its text is one that a shell understands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceCommand {
    /// A line for the shell.
    Shell(String),
    /// A program and its arguments. No shell reads them.
    Program(Vec<String>),
}

impl fmt::Display for ServiceCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServiceCommand::Shell(line) => f.write_str(line),
            ServiceCommand::Program(words) => f.write_str(&command_line(words.iter().map(String::as_str))),
        }
    }
}

impl ServiceCommand {
    /// A command of `systemctl` for a unit.
    pub(super) fn systemctl(arguments: &[&str], unit: &str) -> ServiceCommand {
        let words = ["systemctl"].iter().chain(arguments);
        // The root directory's mount unit is `-.mount`.
        let end = unit.starts_with('-').then_some("--");
        ServiceCommand::Program(words.copied().chain(end).chain([unit]).map(str::to_owned).collect())
    }

    /// The program and its arguments.
    pub(super) fn words(&self) -> Vec<String> {
        match self {
            ServiceCommand::Shell(line) => ["/bin/sh", "-c", line].map(str::to_owned).to_vec(),
            ServiceCommand::Program(words) => words.clone(),
        }
    }

    /// Runs the command until it ends, and returns the end of its output. `started` receives the ID of its process, `wait` is called often.
    ///
    /// # Errors
    /// [`Error::Service`] if it cannot be started, fails, or does not end in time; then it is ended.
    pub(super) fn run(
        &self,
        limit: Duration,
        started: impl FnOnce(u32),
        mut wait: impl FnMut(),
    ) -> Result<String> {
        let failed = |why: String| Error::Service { command: self.to_string(), why };
        let words = self.words();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        let end = Instant::now() + limit;
        let is_late = || {
            let is_late = Instant::now() >= end;
            if !is_late {
                wait();
            }
            is_late
        };
        let host = |why: io::Error| failed(why.to_string());
        let output = memory_file().map_err(host)?;
        let status = run_until(command, ProgramOutput::Kept, &output, started, is_late).map_err(host)?;
        let Some(status) = status else {
            return Err(failed(format!("it did not end within {} s", limit.as_secs())));
        };
        let said = end_of(&output, SHOWN);
        if status.success() {
            return Ok(said);
        }
        let said = said.trim().replace('\n', "; ");
        let status = status
            .code()
            .map_or_else(|| "killed by a signal".to_owned(), |code| format!("exit status {code}"));
        Err(failed(if said.is_empty() { status } else { format!("{status}: {said}") }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str, limit: Duration) -> Result<String> {
        ServiceCommand::Shell(line.to_owned()).run(limit, |_| {}, || {})
    }

    #[test]
    fn commands_that_fail_show_their_output() {
        let limit = Duration::from_secs(60);
        assert_eq!(run("echo first", limit).unwrap(), "first\n");
        let error = run("echo first; echo last >&2; exit 3", limit).unwrap_err().to_string();
        assert_eq!(error, "echo first; echo last >&2; exit 3 failed: exit status 3: first; last");
        let late = run("sleep 60", Duration::from_millis(50)).unwrap_err().to_string();
        assert_eq!(late, "sleep 60 failed: it did not end within 0 s");
        // A process in the background must not delay the end.
        let start = Instant::now();
        run("sleep 60 &", limit).unwrap();
        assert!(start.elapsed() < Duration::from_secs(50));
    }

    #[test]
    fn names_of_units_are_no_text_for_a_shell() {
        let stop = ServiceCommand::systemctl(&["stop"], r"srv-my\x2ddb.service");
        assert_eq!(stop.words(), ["systemctl", "stop", r"srv-my\x2ddb.service"]);
        assert_eq!(stop.to_string(), r"systemctl stop 'srv-my\x2ddb.service'");
        let root = ServiceCommand::systemctl(&["mask", "--runtime"], "-.mount");
        assert_eq!(root.to_string(), "systemctl mask --runtime -- -.mount");
    }
}
