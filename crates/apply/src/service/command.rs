//! The commands that stop and start a database.

use std::fmt;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use poolwright_host::{end_of, memory_file};
use poolwright_zfs::kernel::command::remote::command_line;

use crate::{Error, Result};

/// How often a command is checked.
const POLL: Duration = Duration::from_millis(100);
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

    /// Runs the command until it ends, and returns the end of its output. `started` is told the ID of its process, `wait` is called often.
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
        let host = |why: std::io::Error| failed(why.to_string());
        // A started database inherits the output, so it must not be a pipe that this process waits for.
        let output = memory_file().map_err(host)?;
        let words = self.words();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        command.stdout(output.try_clone().map_err(host)?).stderr(output.try_clone().map_err(host)?);
        // Ctrl-C at the terminal must not reach a database that the command started, nor end a command that stops one.
        let mut child = command.process_group(0).spawn().map_err(host)?;
        started(child.id());
        let end = Instant::now() + limit;
        let status = loop {
            if let Some(status) = child.try_wait().map_err(host)? {
                break status;
            }
            if Instant::now() >= end {
                if let Some(group) = rustix::process::Pid::from_raw(child.id() as i32) {
                    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
                }
                child.wait().map_err(host)?;
                return Err(failed(format!("it did not end within {} s", limit.as_secs())));
            }
            wait();
            std::thread::sleep(POLL);
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
