//! Stopping and starting the database.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use poolwright_host::writers::{Writer, find_writer_of_mounts};
use poolwright_host::{end_of, memory_file};

use crate::error::refused;
use crate::{Error, Result};

/// How the database is stopped and started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// It is not; it must be stopped already.
    #[default]
    None,
    /// A unit of systemd.
    Unit(String),
    /// Commands of the shell.
    Commands {
        /// Stops the database and waits until it has ended.
        stop: String,
        /// Starts the database and waits until it answers.
        start: String,
    },
}

/// How long processes may have files open after the database was stopped.
const EXIT_TIME: Duration = Duration::from_secs(30);
/// How long a command may take.
const COMMAND_TIME: Duration = Duration::from_secs(1800);
/// How often processes and commands are checked.
const POLL: Duration = Duration::from_millis(100);
/// Bytes of a command's output that an error shows.
const SHOWN: u64 = 500;

impl Service {
    /// Whether a running database can be stopped.
    pub fn is_known(&self) -> bool {
        *self != Service::None
    }

    /// The command that stops the database.
    pub fn stop_command(&self) -> Option<String> {
        match self {
            Service::None => None,
            Service::Unit(unit) => Some(format!("systemctl stop {unit}")),
            Service::Commands { stop, .. } => Some(stop.clone()),
        }
    }

    /// The command that starts the database.
    pub fn start_command(&self) -> Option<String> {
        match self {
            Service::None => None,
            Service::Unit(unit) => Some(format!("systemctl start {unit}")),
            Service::Commands { start, .. } => Some(start.clone()),
        }
    }

    /// Whether the database runs: systemd says so, or a process has a file of these mount points open for writing.
    ///
    /// A unit that is being started, or that systemd is about to start again after a failure, counts as running.
    pub fn is_running(&self, roots: &[PathBuf]) -> bool {
        let is_active = || match self {
            Service::Unit(unit) => {
                let mut command = Command::new("systemctl");
                command.args(["is-active", unit]).stdin(Stdio::null()).stderr(Stdio::null());
                command.output().is_ok_and(|output| is_active_state(&output.stdout))
            }
            _ => false,
        };
        is_active() || find_writer_of_mounts(roots).is_some()
    }

    /// Stops the database, and waits until no process has a file of these mount points open for writing.
    ///
    /// # Errors
    /// [`Error::Service`] if the command fails; [`Error::Interrupted`]; [`Error::Refused`] if a process keeps a file open.
    pub fn stop(&self, roots: &[PathBuf], is_interrupted: &dyn Fn() -> bool) -> Result<()> {
        if let Some(command) = self.stop_command() {
            shell(&command, is_interrupted)?;
        }
        let end = Instant::now() + EXIT_TIME;
        while let Some(writer) = find_writer_of_mounts(roots) {
            if is_interrupted() {
                return Err(Error::Interrupted);
            }
            if Instant::now() >= end || !self.is_known() {
                return refused(describe(&writer));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Starts the database.
    ///
    /// # Errors
    /// [`Error::Service`] if the command fails.
    pub fn start(&self) -> Result<()> {
        self.start_command().map_or(Ok(()), |command| shell(&command, &|| false))
    }
}

/// The message about a process that has a file open, and how to stop it.
pub fn describe(writer: &Writer) -> String {
    let Writer { pid, name, path } = writer;
    let unit = unit_of(*pid);
    let todo = match &unit {
        Some(unit) => format!("stop it, or let it be stopped and started: its unit is {unit}"),
        None => "stop it, or name the commands that stop and start it".to_owned(),
    };
    format!("{name} (process {pid}) has {} open for writing\nhint: {todo}", poolwright_host::quoted(path))
}

/// The systemd service that a process belongs to.
pub fn unit_of(pid: i32) -> Option<String> {
    let text = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("cgroup")).ok()?;
    unit_in(&text)
}

/// The service in a file `/proc/PID/cgroup` (`cgroups(7)`). Not the service that contains a whole session or container.
fn unit_in(text: &str) -> Option<String> {
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    let unit = path.rsplit('/').find(|part| part.ends_with(".service"))?;
    (!unit.starts_with("user@")).then(|| unit.to_owned())
}

/// Whether the state that `systemctl is-active` prints is that of a unit which runs or soon will.
fn is_active_state(printed: &[u8]) -> bool {
    matches!(printed.trim_ascii(), b"active" | b"activating" | b"reloading" | b"refreshing")
}

fn shell(command: &str, is_interrupted: &dyn Fn() -> bool) -> Result<()> {
    let failed = |why: String| Error::Service { command: command.to_owned(), why };
    let host = |why: std::io::Error| failed(why.to_string());
    // A started database inherits the output, so it must not be a pipe that this process waits for.
    let output = memory_file().map_err(host)?;
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).stdin(Stdio::null());
    shell.stdout(output.try_clone().map_err(host)?).stderr(output.try_clone().map_err(host)?);
    // Ctrl-C at the terminal must not reach a database that the command started.
    let mut child = shell.process_group(0).spawn().map_err(host)?;
    let end = Instant::now() + COMMAND_TIME;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(host)? {
            break status;
        }
        let is_late = Instant::now() >= end;
        if is_late || is_interrupted() {
            if let Some(group) = rustix::process::Pid::from_raw(child.id() as i32) {
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
            }
            child.wait().map_err(host)?;
            return Err(if is_late {
                failed("it did not end in time".to_owned())
            } else {
                Error::Interrupted
            });
        }
        std::thread::sleep(POLL);
    };
    if status.success() {
        return Ok(());
    }
    let said = end_of(&output, SHOWN);
    let said = said.trim().replace('\n', "; ");
    let status =
        status.code().map_or_else(|| "killed by a signal".to_owned(), |code| format!("exit status {code}"));
    Err(failed(if said.is_empty() { status } else { format!("{status}: {said}") }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_processes() {
        let unit = |text: &str| unit_in(text);
        assert_eq!(
            unit("0::/system.slice/system-postgresql.slice/postgresql@15-main.service\n").as_deref(),
            Some("postgresql@15-main.service")
        );
        assert_eq!(unit("0::/user.slice/user-0.slice/user@0.service/app.slice/run.scope\n"), None);
        assert_eq!(unit("0::/\n"), None);
        assert_eq!(unit(""), None);
    }

    #[test]
    fn states_of_units() {
        // An automatic restart after a failure is a part of `activating`.
        for printed in [&b"active\n"[..], b"activating\n", b"reloading\n"] {
            assert!(is_active_state(printed));
        }
        for printed in [&b"inactive\n"[..], b"failed\n", b"deactivating\n", b""] {
            assert!(!is_active_state(printed));
        }
    }

    #[test]
    fn commands_that_fail_show_their_output() {
        let service = |stop: &str| Service::Commands { stop: stop.to_owned(), start: "true".to_owned() };
        service("true").stop(&[], &|| false).unwrap();
        service("true").start().unwrap();
        let error =
            service("echo first; echo last >&2; exit 3").stop(&[], &|| false).unwrap_err().to_string();
        assert_eq!(error, "echo first; echo last >&2; exit 3 failed: exit status 3: first; last");
        // A process in the background must not delay the end.
        assert!(matches!(service("sleep 60").stop(&[], &|| true), Err(Error::Interrupted)));
        let start = Instant::now();
        service("sleep 60 &").stop(&[], &|| false).unwrap();
        assert!(start.elapsed() < Duration::from_secs(50));
    }

    #[test]
    fn a_process_that_writes_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let open = std::fs::File::create(root.join("table")).unwrap();
        let refused = Service::None.stop(std::slice::from_ref(&root), &|| false).unwrap_err();
        assert!(refused.is_refusal() && refused.to_string().contains("table open for writing"), "{refused}");
        drop(open);
    }
}
