//! Runs one of the user's commands by a shell, in its own process group and with a time limit.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use poolwright_base::directory::Directory;
use poolwright_base::{cannot, private};
use poolwright_lab::trial::driver::bound;
use poolwright_lab::trial::processes;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::{Error, Result};

/// The interval at which an interruption and the time limit are checked.
const POLL: Duration = Duration::from_millis(50);
/// The time from SIGTERM to SIGKILL for a command that exceeds its limit.
const GRACE: Duration = Duration::from_secs(5);
/// The number of bytes at the end of a command's output that are searched for `work N`.
const SEARCHED: u64 = 64 << 10;

/// Begins the line of the log that precedes a command's output; the command's name follows.
pub(crate) const COMMAND_HEADING: &str = "poolwright runs the command: ";

/// The environment of commands.
pub struct Shell<'a> {
    /// Environment variables.
    pub environment: Vec<(&'static str, String)>,
    /// The working directory.
    pub working_dir: &'a Path,
    /// The directory in which the commands' output is kept.
    pub dir: &'a Path,
    /// The time limit.
    pub limit: Duration,
    /// Whether the user has interrupted the run.
    pub interrupted: &'a dyn Fn() -> bool,
    /// Whether to reap adopted processes while a command runs. A stop command that waits for a server to disappear would
    /// otherwise wait for ever. Reaping takes some CPU time, so it is off while a load is measured.
    pub reaps: bool,
}

/// The result of a command.
#[derive(Debug)]
pub struct Ran {
    /// Wall time.
    pub took: Duration,
    /// The end of its standard output.
    pub output: String,
}

impl Shell<'_> {
    /// Runs `sh -c TEXT`. Standard error is this process's own. Standard output is kept, and copied to standard error when the
    /// command ends. `name` is for messages.
    ///
    /// # Errors
    /// If the command fails or exceeds the time limit; [`Error::Interrupted`].
    pub fn run(&self, name: &str, text: &str) -> Result<Ran> {
        let path = self.dir.join(format!("{name}.out"));
        let output = new_file(self.dir, &format!("{name}.out")).map_err(cannot("create", &path))?;
        let kept = output.try_clone().map_err(cannot("open", &path))?;
        let log = std::io::stderr().as_fd().try_clone_to_owned().map_err(cannot("open", &path))?;
        log_output(&format!("{COMMAND_HEADING}{name}\n"));
        let sh = Path::new("/bin/sh");
        let began = Instant::now();
        let mut child = bound(sh)
            .args(["-c", text])
            .envs(self.environment.iter().map(|(name, value)| (*name, value.as_str())))
            .current_dir(self.working_dir)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(Stdio::from(log))
            .spawn()
            .map_err(cannot("start", sh))?;
        let group = Pid::from_child(&child);
        let (to, ended) = channel();
        std::thread::spawn(move || {
            let status = child.wait();
            let _ = to.send((status, Instant::now()));
        });
        let status = loop {
            match ended.recv_timeout(POLL) {
                Ok((status, at)) => break status.map(|status| (status, at - began)),
                Err(RecvTimeoutError::Disconnected) => {
                    break Err(std::io::Error::other("the waiting thread panicked"));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.reaps {
                processes::left(&[group.as_raw_nonzero().get()]);
            }
            let late = began.elapsed() > self.limit;
            if late || (self.interrupted)() {
                end(group, &|| ended.recv_timeout(POLL).is_ok());
                log_output(&tail(&kept));
                return Err(if late { self.too_long(name) } else { Error::Interrupted });
            }
        };
        let (status, took) = status.map_err(cannot("wait for", sh))?;
        let output = tail(&kept);
        log_output(&output);
        if status.success() { Ok(Ran { took, output }) } else { Err(failed(name, status)) }
    }

    fn too_long(&self, name: &str) -> Error {
        let seconds = self.limit.as_secs_f64();
        Error::Trial(format!("the {name} command was still running after {seconds} s, its time limit"))
    }
}

/// Creates a file in a directory, in place of one with the name.
fn new_file(dir: &Path, name: &str) -> std::io::Result<File> {
    let dir = Directory::open(dir)?;
    dir.remove_file(name)?;
    dir.create_file(name, private::FILE)
}

fn failed(name: &str, status: ExitStatus) -> Error {
    Error::Trial(format!("the {name} command failed ({status})"))
}

/// Writes to standard error, which is the trial's log.
fn log_output(output: &str) {
    let _ = std::io::stderr().write_all(output.as_bytes());
}

/// The last [`SEARCHED`] bytes of a file; empty if it cannot be read.
fn tail(file: &File) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let length = file.metadata()?.len();
        let mut text = vec![0; length.min(SEARCHED) as usize];
        // Not by its position, at which programs that still run would go on writing.
        file.read_exact_at(&mut text, length.saturating_sub(SEARCHED))?;
        Ok(text)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// Ends a process group with SIGTERM, and after [`GRACE`] with SIGKILL.
fn end(group: Pid, has_ended: &dyn Fn() -> bool) {
    let _ = kill_process_group(group, Signal::TERM);
    let began = Instant::now();
    while began.elapsed() < GRACE {
        if has_ended() {
            break;
        }
    }
    let _ = kill_process_group(group, Signal::KILL);
}

/// The units of work that a load command printed: N of the last line `work N` of its output. Returns `None` if there is no such
/// line, or N is not a positive number.
pub fn stated_work(output: &str) -> Option<f64> {
    let stated = |line: &str| line.trim().strip_prefix("work ")?.trim().parse::<f64>().ok();
    output.lines().rev().find_map(stated).filter(|n| n.is_finite() && *n > 0.0)
}

/// Creates the directory for the commands' own files, such as sockets and logs.
///
/// # Errors
/// If it cannot be created.
pub fn make_dir(path: &Path) -> Result<()> {
    Ok(private::make_dirs(path).map_err(cannot("create", path))?)
}

#[cfg(test)]
mod tests {
    use poolwright_base::process::ProcessStat;

    use super::*;

    fn shell<'a>(dir: &'a Path, limit: Duration, interrupted: &'a dyn Fn() -> bool) -> Shell<'a> {
        Shell {
            environment: vec![("POOLWRIGHT_BLOCK", "2".into())],
            working_dir: dir,
            dir,
            limit,
            interrupted,
            reaps: false, // other tests have children in this process
        }
    }

    #[test]
    fn the_last_statement_of_work_counts() {
        assert_eq!(stated_work("hello\nwork 5\nwork 12.5\nbye\n"), Some(12.5));
        assert_eq!(stated_work("  work 1e3  "), Some(1000.0));
        for none in ["", "work", "work x", "works 3", "work 0", "work -1", "work inf", "my work 3"] {
            assert_eq!(stated_work(none), None, "{none:?}");
        }
        assert_eq!(stated_work("work 3\nwork done\n"), Some(3.0), "other lines are ignored");
    }

    #[test]
    fn a_command_has_its_environment_and_its_output_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let never = || false;
        let shell = shell(dir.path(), Duration::from_secs(60), &never);
        let ran = shell.run("load", "echo work $POOLWRIGHT_BLOCK; sleep 0.1").unwrap();
        assert_eq!(stated_work(&ran.output), Some(2.0));
        assert!(ran.took >= Duration::from_millis(100), "{:?}", ran.took);
        let why = shell.run("start", "exit 3").unwrap_err().to_string();
        assert_eq!(why, "the start command failed (exit status: 3)");
    }

    #[test]
    fn a_command_over_its_limit_is_ended_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let never = || false;
        let shell = shell(dir.path(), Duration::from_millis(300), &never);
        let why = shell.run("load", "sleep 600 & echo $! > child; wait").unwrap_err().to_string();
        assert!(why.contains("still running after 0.3 s"), "{why}");
        let child = std::fs::read_to_string(dir.path().join("child")).unwrap();
        let child: i32 = child.trim().parse().unwrap();
        let gone = || ProcessStat::read(child).is_none_or(|stat| stat.has_ended());
        let began = Instant::now();
        while !gone() {
            assert!(began.elapsed() < Duration::from_secs(60), "the child is still running");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn an_interrupted_command_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        let ran = shell(dir.path(), Duration::from_secs(600), &|| true).run("load", "sleep 600");
        assert!(matches!(ran, Err(Error::Interrupted)), "{ran:?}");
    }
}
