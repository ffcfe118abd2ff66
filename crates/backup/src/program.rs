//! Running a program to its end.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use poolwright_host::memory_file;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::client::read_end;
use crate::{Error, Result};

/// How often the end of a program and an interruption are looked for.
const POLL: Duration = Duration::from_millis(50);

/// How a program ended.
#[derive(Debug)]
pub struct ProgramEnd {
    /// Its exit status, or the signal that ended it.
    pub status: ExitStatus,
    /// The end of its output and its messages.
    pub said: String,
}

/// Whether a program's standard output is thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramOutput {
    /// It is kept with the messages.
    Kept,
    /// It is thrown away.
    Discarded,
}

/// Runs a program. It is ended if the user interrupts the run.
///
/// # Errors
/// [`Error::Program`] if it cannot be started; [`Error::Interrupted`].
pub fn run_program(
    mut command: Command,
    output: ProgramOutput,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<ProgramEnd> {
    let program = command.get_program().to_string_lossy().into_owned();
    let host = |why: std::io::Error| Error::Program { program: program.clone(), why: why.to_string() };
    let messages = memory_file().map_err(host)?;
    let clone = || messages.try_clone().map(Stdio::from).map_err(host);
    let stdout = if output == ProgramOutput::Kept { clone()? } else { Stdio::null() };
    let mut child = command
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(clone()?)
        .process_group(0)
        .spawn()
        .map_err(host)?;
    loop {
        if let Some(status) = child.try_wait().map_err(host)? {
            return Ok(ProgramEnd { status, said: read_end(&messages) });
        }
        if is_interrupted() {
            if let Some(group) = Pid::from_raw(child.id() as i32) {
                let _ = kill_process_group(group, Signal::TERM);
            }
            child.wait().map_err(host)?;
            return Err(Error::Interrupted);
        }
        std::thread::sleep(POLL);
    }
}

/// Runs a command of the shell with these variables.
pub(crate) fn run_shell(
    command: &str,
    variables: &[(&str, &Path)],
    is_interrupted: &dyn Fn() -> bool,
) -> Result<ProgramEnd> {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).envs(variables.iter().copied());
    run_program(shell, ProgramOutput::Kept, is_interrupted)
}

/// Finds a program in this directory, or else in those of `PATH`.
pub fn find_program(dir: Option<&Path>, name: &str) -> Option<PathBuf> {
    let search = std::env::var_os("PATH").unwrap_or_default();
    let more = [Path::new("/usr/sbin"), Path::new("/usr/local/sbin")].map(Path::to_owned);
    let dirs = dir.map(Path::to_owned).into_iter().chain(std::env::split_paths(&search)).chain(more);
    dirs.map(|dir| dir.join(OsStr::new(name))).find(|path| path.is_file())
}
