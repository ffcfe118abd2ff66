//! Finding a program, and running it to its end as the owner of the files that it works on ([`owner`](crate::owner)).

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use poolwright_base::memory_file;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::client::read_end;
use crate::owner::UserAndGroup;
use crate::{Error, Result};

/// The directories in which programs are looked for, and the `PATH` of those that root starts. Root's own `PATH` can have directories of
/// other users.
const DIRECTORIES: [&str; 7] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/libexec"];
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
    command: Command,
    output: ProgramOutput,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<ProgramEnd> {
    let program = command.get_program().to_string_lossy().into_owned();
    let run = || {
        let messages = memory_file()?;
        let status = run_until(command, output, &messages, |_| {}, is_interrupted)?;
        Ok(status.map(|status| ProgramEnd { status, said: read_end(&messages) }))
    };
    let end = run().map_err(|why: io::Error| Error::Program { program, why: why.to_string() })?;
    end.ok_or(Error::Interrupted)
}

/// Runs a program in a separate process group, so that Ctrl-C at the terminal reaches neither it nor what it has started. `started` is told
/// the ID of its process. As soon as `is_over`, which is called often, the group is ended; the status is `None` then.
///
/// The output goes to a file: a pipe would stay open as long as a server that the program has started.
///
/// # Errors
/// The host's errors.
pub(crate) fn run_until(
    mut command: Command,
    output: ProgramOutput,
    messages: &File,
    started: impl FnOnce(u32),
    mut is_over: impl FnMut() -> bool,
) -> io::Result<Option<ExitStatus>> {
    let stdout = if output == ProgramOutput::Kept { messages.try_clone()?.into() } else { Stdio::null() };
    command.stdin(Stdio::null()).stdout(stdout).stderr(messages.try_clone()?);
    let mut child = command.process_group(0).spawn()?;
    started(child.id());
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if is_over() {
            let _ = kill_process_group(Pid::from_child(&child), Signal::TERM);
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(POLL);
    }
}

/// Runs a command of the shell as a user, with these variables.
///
/// # Errors
/// As [`run_program`].
pub fn run_shell(
    command: &str,
    owner: UserAndGroup,
    variables: &[(&str, &Path)],
    is_interrupted: &dyn Fn() -> bool,
) -> Result<ProgramEnd> {
    let mut shell = command_as(owner, Path::new("/bin/sh"));
    shell.arg("-c").arg(command).envs(variables.iter().copied());
    run_program(shell, ProgramOutput::Kept, is_interrupted)
}

/// A command that runs a program as a user, if this process is root: without further groups, and with an environment that has nothing of
/// root's. Other users run it as themselves.
pub fn command_as(owner: UserAndGroup, program: &Path) -> Command {
    let mut command = Command::new(program);
    if rustix::process::geteuid().is_root() {
        command.env_clear().env("PATH", DIRECTORIES.join(":")).env("HOME", "/").env("LC_ALL", "C");
        if owner.0 != 0 {
            // Also drops the supplementary groups.
            command.uid(owner.0).gid(owner.1).current_dir("/");
        }
    }
    command
}

/// Where programs are looked for: in directories that only root can change; for users other than root, also in those of `PATH`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Programs {
    /// Directories that the administrator has named, which come before.
    named: Vec<PathBuf>,
}

impl Programs {
    /// The same after a directory that the administrator has named, if there is one.
    #[must_use]
    pub fn after(self, dir: Option<&Path>) -> Programs {
        Programs { named: dir.map(Path::to_owned).into_iter().chain(self.named).collect() }
    }

    /// Finds a program.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        let named = self.named.iter().map(|dir| dir.join(name)).find(|path| path.is_file());
        named.or_else(|| {
            let is_root = rustix::process::geteuid().is_root();
            let search = std::env::var_os("PATH").filter(|_| !is_root).unwrap_or_default();
            let dirs = DIRECTORIES.iter().map(PathBuf::from).chain(std::env::split_paths(&search));
            dirs.map(|dir| dir.join(name))
                .find(|path| if is_root { is_of_root(path) } else { path.is_file() })
        })
    }

    /// Finds the first of these programs that is installed: one of them replaces the others in newer releases.
    pub fn find_one_of(&self, names: &[&str]) -> Option<PathBuf> {
        names.iter().find_map(|name| self.find(name))
    }
}

/// Whether only root can change a program.
fn is_of_root(program: &Path) -> bool {
    program.metadata().is_ok_and(|meta| meta.is_file() && meta.uid() == 0 && meta.mode() & 0o022 == 0)
}

/// Whether only root and this user can change what is in a directory: what the user could run anyway.
pub fn is_trusted_by(owner: UserAndGroup, dir: &Path) -> bool {
    let is_safe = |dir: &Path| {
        let is_theirs = |uid| uid == 0 || uid == owner.0;
        dir.symlink_metadata().is_ok_and(|meta| is_theirs(meta.uid()) && meta.mode() & 0o022 == 0)
    };
    dir.is_absolute() && dir.ancestors().all(is_safe)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use super::*;

    #[test]
    fn programs_come_from_directories_of_root() {
        let programs = Programs::default();
        assert!(programs.find("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(programs.find("no-such-program"), None);
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("sh");
        fs::write(&program, "").unwrap();
        assert_eq!(
            programs.after(Some(dir.path())).find_one_of(&["no-such-program", "sh"]).as_ref(),
            Some(&program),
            "the administrator names it"
        );
        if !rustix::process::geteuid().is_root() {
            return;
        }
        assert!(is_of_root(&program));
        fs::set_permissions(&program, Permissions::from_mode(0o775)).unwrap();
        assert!(!is_of_root(&program));
        chown(&program, Some(7), None).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        assert!(!is_of_root(&program) && !is_of_root(dir.path()));
        assert!(is_trusted_by((7, 7), Path::new("/usr/bin")) && !is_trusted_by((7, 7), Path::new("usr")));
        // In a directory into which everybody writes.
        assert!(!is_trusted_by((7, 7), dir.path()));
    }

    #[test]
    fn programs_get_nothing_of_root() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root runs programs as other users");
            return;
        }
        let script = "echo $(id -u) $(id -g) $(id -G) $(pwd) $(env | cut -d= -f1 | sort)";
        let said = |owner| {
            let variable = [("POOLWRIGHT_RESTORED", Path::new("/x"))];
            run_shell(script, owner, &variable, &|| false).unwrap().said
        };
        let names = "HOME LC_ALL PATH POOLWRIGHT_RESTORED PWD";
        assert_eq!(said((65534, 65533)), format!("65534 65533 65533 / {names}"));
        assert!(said((0, 0)).starts_with("0 0 ") && said((0, 0)).ends_with(names));
    }
}
