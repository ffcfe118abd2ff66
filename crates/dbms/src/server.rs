//! A database server as a child process.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use poolwright_base::directory::Directory;
use poolwright_base::{cannot, private};
use rustix::process::{Pid, Signal, kill_process};

use crate::owner::UserAndGroup;
use crate::program::{Programs, command_as};
use crate::{Error, Result};

/// The name of the log of a private server, in its scratch directory.
pub const LOG: &str = "server.log";

/// How often the server is polled.
const POLL: Duration = Duration::from_millis(100);
/// How long a server may take until it has recovered and answers.
const START_TIME: Duration = Duration::from_secs(3600);
/// How long a server may take to stop.
const STOP_TIME: Duration = Duration::from_secs(600);
/// Lines of the log that a failure shows.
const SHOWN: usize = 6;
/// Bytes at the beginning of the log, and at its end, in which these lines are looked for.
const LOG_PART: u64 = 1 << 20;

/// A running server. It is killed if this process ends.
#[derive(Debug)]
pub struct ChildServer {
    child: Child,
    program: String,
    log: File,
    /// How long it may take until it has recovered and answers.
    pub start_time: Duration,
}

impl ChildServer {
    /// Starts a server by a command that ends with it ([`tied_command`]), with its output in a log, which is open for reading and writing.
    ///
    /// # Errors
    /// [`Error::Program`] if it cannot be started.
    pub fn start(mut command: Command, log: File) -> Result<ChildServer> {
        let program = command.get_program().to_string_lossy().into_owned();
        let failed = |why: std::io::Error| Error::Program { program: program.clone(), why: why.to_string() };
        let (output, messages) = (log.try_clone().map_err(failed)?, log.try_clone().map_err(failed)?);
        command.process_group(0).stdin(Stdio::null()).stdout(output).stderr(messages);
        let child = command.spawn().map_err(failed)?;
        Ok(ChildServer { child, program, log, start_time: START_TIME })
    }

    /// Waits until the server answers. The inner error is the reason why it does not.
    ///
    /// # Errors
    /// [`Error::Interrupted`]; the host's errors.
    pub fn wait_until(
        &mut self,
        mut answers: impl FnMut() -> bool,
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<std::result::Result<(), String>> {
        let end = Instant::now() + self.start_time;
        loop {
            if answers() {
                return Ok(Ok(()));
            }
            if let Some(status) = self.has_ended()? {
                return Ok(Err(format!("the server ended with {status}: {}", self.last_words())));
            }
            if is_interrupted() {
                return Err(Error::Interrupted);
            }
            if Instant::now() >= end {
                return Ok(Err(format!(
                    "no answer within {} s: {}",
                    self.start_time.as_secs(),
                    self.last_words()
                )));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Stops the server by a signal. The inner error is the reason why it did not shut down cleanly.
    ///
    /// # Errors
    /// The host's errors.
    pub fn stop(mut self, signal: Signal) -> Result<std::result::Result<(), String>> {
        let status = self.end(signal)?;
        Ok(match status {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("the server ended with {status}: {}", self.last_words())),
            None => Err(format!("the server did not stop within {} s", STOP_TIME.as_secs())),
        })
    }

    fn end(&mut self, signal: Signal) -> Result<Option<ExitStatus>> {
        if let Some(status) = self.has_ended()? {
            return Ok(Some(status));
        }
        let _ = kill_process(Pid::from_child(&self.child), signal);
        let end = Instant::now() + STOP_TIME;
        while Instant::now() < end {
            if let Some(status) = self.has_ended()? {
                return Ok(Some(status));
            }
            std::thread::sleep(POLL);
        }
        Ok(None)
    }

    fn has_ended(&mut self) -> Result<Option<ExitStatus>> {
        let program = &self.program;
        let failed = |why: std::io::Error| Error::Program { program: program.clone(), why: why.to_string() };
        self.child.try_wait().map_err(failed)
    }

    /// Whether it runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The first error in the log, and its last lines.
    pub fn last_words(&self) -> String {
        let length = self.log.metadata().map_or(0, |meta| meta.len());
        let rest = LOG_PART.max(length.saturating_sub(LOG_PART));
        let text = [self.log_between(0, length.min(LOG_PART)), self.log_between(rest, length)].concat();
        last_words(&String::from_utf8_lossy(&text))
    }

    /// A part of the log. The server writes at the position that it shares with this descriptor, so the position is not changed.
    fn log_between(&self, from: u64, to: u64) -> Vec<u8> {
        let mut text = vec![0; to.saturating_sub(from) as usize];
        match self.log.read_exact_at(&mut text, from) {
            Ok(()) => text,
            Err(_) => Vec::new(),
        }
    }
}

/// Creates the log of a private server in its scratch directory.
///
/// # Errors
/// The host's errors.
pub fn create_log(scratch: &Directory) -> Result<File> {
    let created = scratch.create_file(LOG, private::FILE);
    Ok(created.map_err(cannot("create", scratch.path().join(LOG)))?)
}

/// The first error in a log that is not an answer to a client (`the database system is starting up`), and its last lines.
fn last_words(log: &str) -> String {
    let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    let end = lines.len().saturating_sub(SHOWN);
    let is_error = |line: &&&str| {
        ["FATAL:", "PANIC:", "[ERROR]"].iter().any(|mark| line.contains(mark))
            && !line.contains("the database system is")
    };
    let first = lines[..end].iter().find(is_error);
    first.into_iter().chain(&lines[end..]).copied().collect::<Vec<_>>().join("; ")
}

/// The arguments of `setpriv` before the program that is to end with its parent.
pub const TIED: [&str; 3] = ["--pdeathsig", "KILL", "--"];

/// A command that runs a program as a user. The kernel kills it if this process ends.
///
/// # Errors
/// As [`tie_to_parent`].
pub fn tied_command(programs: &Programs, owner: UserAndGroup, program: &Path) -> Result<Command> {
    let mut command = command_as(owner, &tie_to_parent(programs, owner)?);
    command.args(TIED).arg(program);
    Ok(command)
}

/// The `setpriv` that makes the kernel send `SIGKILL` to its program if this process ends.
///
/// # Errors
/// [`Error::Program`] if it is not installed. That of BusyBox has no such option, and its message must not be taken for one of the server.
pub fn tie_to_parent(programs: &Programs, owner: UserAndGroup) -> Result<PathBuf> {
    let found = programs.find("setpriv").filter(|setpriv| ties_to_parent(owner, setpriv));
    found.ok_or_else(|| Error::Program {
        program: "setpriv".to_owned(),
        why: "setpriv of util-linux, with the option --pdeathsig, is not installed".to_owned(),
    })
}

/// Whether this `setpriv`, run by a user, can make the kernel send a signal to its program when the parent ends.
fn ties_to_parent(owner: UserAndGroup, setpriv: &Path) -> bool {
    let mut command = command_as(owner, setpriv);
    command.args(TIED).args(["/bin/sh", "-c", ":"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

impl Drop for ChildServer {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_first_error_of_a_server_is_shown() {
        let end: Vec<String> = (1..=SHOWN).map(|n| format!("LOG:  line {n}")).collect();
        let end = end.join("\n");
        let log =
            format!("LOG:  begin\nFATAL:  the database system is starting up\nFATAL:  no space\n\n{end}\n");
        assert_eq!(last_words(&log), format!("FATAL:  no space; {}", end.replace('\n', "; ")));
        assert_eq!(last_words("LOG:  begin\nFATAL:  no space\n"), "LOG:  begin; FATAL:  no space");
        assert_eq!(last_words(""), "");
    }

    #[test]
    fn a_setpriv_without_the_option_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let busybox = dir.path().join("setpriv");
        std::fs::write(&busybox, "#!/bin/sh\necho \"setpriv: unrecognized option '$1'\" >&2\nexit 1\n")
            .unwrap();
        std::fs::set_permissions(&busybox, std::fs::Permissions::from_mode(0o755)).unwrap();
        let user = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        assert!(!ties_to_parent(user, &busybox));
        assert_eq!(Programs::default().find("setpriv").map(|found| ties_to_parent(user, &found)), Some(true));
    }
}
