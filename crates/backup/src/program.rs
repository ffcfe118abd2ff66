//! Finding a program, and running it to its end as the owner of the files that it works on ([`owner`](crate::owner)).

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use poolwright_host::memory_file;
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

/// Runs a command of the shell as a user, with these variables.
pub(crate) fn run_shell(
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

/// Finds a program in this directory, which the administrator has named, or else in directories that only root can change; users other than
/// root also have those of `PATH`.
pub fn find_program(dir: Option<&Path>, name: &str) -> Option<PathBuf> {
    #[cfg(test)]
    if let Some(path) = redirection::program(name) {
        return Some(path);
    }
    let named = dir.map(|dir| dir.join(name)).filter(|path| path.is_file());
    named.or_else(|| {
        let is_root = rustix::process::geteuid().is_root();
        let search = std::env::var_os("PATH").filter(|_| !is_root).unwrap_or_default();
        let dirs = DIRECTORIES.iter().map(PathBuf::from).chain(std::env::split_paths(&search));
        dirs.map(|dir| dir.join(name)).find(|path| if is_root { is_of_root(path) } else { path.is_file() })
    })
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

/// Lets a test of this thread put programs of its own in the place of others.
#[cfg(test)]
pub(crate) mod redirection {
    use std::cell::RefCell;
    use std::path::{Path, PathBuf};

    thread_local!(static DIRECTORY: RefCell<Option<PathBuf>> = const { RefCell::new(None) });

    /// The programs in a directory come first until this is dropped.
    pub struct Redirection;

    impl Redirection {
        pub fn to(dir: &Path) -> Redirection {
            DIRECTORY.with_borrow_mut(|of| *of = Some(dir.to_owned()));
            Redirection
        }
    }

    impl Drop for Redirection {
        fn drop(&mut self) {
            DIRECTORY.with_borrow_mut(|of| *of = None);
        }
    }

    pub fn program(name: &str) -> Option<PathBuf> {
        DIRECTORY.with_borrow(|of| Some(of.as_ref()?.join(name)).filter(|path| path.is_file()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use super::*;

    #[test]
    fn programs_come_from_directories_of_root() {
        assert!(find_program(None, "sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(find_program(None, "no-such-program"), None);
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("sh");
        fs::write(&program, "").unwrap();
        assert_eq!(
            find_program(Some(dir.path()), "sh").as_ref(),
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
