//! The work that the application has done, as a command counts it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use poolwright_base::memory_file;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::{Error, Result};

/// Time limit of the command.
const LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);

/// A file that is written anew may be empty for a moment, and a server may have no connection left: the command has this many attempts.
const ATTEMPTS: usize = 3;
const PAUSE: Duration = Duration::from_millis(100);

/// Runs the command in a shell, and returns the number that it prints.
///
/// # Errors
/// [`Error::Work`] if the command fails, takes longer than 10 s, or prints no number, three times in a row.
pub fn count(command: &str) -> Result<f64> {
    for _ in 1..ATTEMPTS {
        if let Ok(number) = attempt(command) {
            return Ok(number);
        }
        std::thread::sleep(PAUSE);
    }
    attempt(command)
}

fn attempt(command: &str) -> Result<f64> {
    let failed = |why: String| Error::Work { command: command.to_owned(), why };
    let host = |why: io::Error| failed(format!("cannot be run: {why}"));
    // Files, because a process that the command leaves behind would keep a pipe open.
    let (output, errors) = (memory_file().map_err(host)?, memory_file().map_err(host)?);
    let mut shell = Command::new("/bin/sh");
    // A command that prints without end must not use up the memory. The unit is 512 bytes.
    shell.arg("-c").arg(format!("ulimit -f 128\n{command}")).stdin(Stdio::null());
    shell.stdout(output.try_clone().map_err(host)?).stderr(errors.try_clone().map_err(host)?);
    let mut child = shell.process_group(0).spawn().map_err(host)?;
    let success = wait(&mut child).map_err(failed)?;
    let (output, errors) = (start_of(&output), start_of(&errors));
    if !success {
        return Err(failed(match errors.trim() {
            "" => "failed and printed nothing".to_owned(),
            errors => format!("failed: {errors}"),
        }));
    }
    match output.trim().parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err(failed(format!("must print one number, but printed {:?}", output.trim()))),
    }
}

/// Whether the command succeeded.
fn wait(child: &mut Child) -> std::result::Result<bool, String> {
    let end = Instant::now() + LIMIT;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status.success()),
            Ok(None) if Instant::now() < end => std::thread::sleep(POLL),
            other => {
                if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
                    let _ = kill_process_group(group, Signal::KILL);
                }
                let _ = child.wait();
                return Err(match other {
                    Err(why) => why.to_string(),
                    Ok(_) => format!("did not end within {} s", LIMIT.as_secs()),
                });
            }
        }
    }
}

/// The first page of a file.
fn start_of(file: &File) -> String {
    let mut bytes = vec![0; 4096];
    let length = file.read_at(&mut bytes, 0).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_the_count() {
        assert!((count("echo ' 12.5'").unwrap() - 12.5).abs() < 1e-12);
    }

    #[test]
    fn a_count_that_fails_once_is_taken_again() {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().join("mark").display().to_string();
        assert!((count(&format!("test -e {mark} && echo 7; touch {mark}")).unwrap() - 7.0).abs() < 1e-12);
    }

    #[test]
    fn other_outputs_and_failures_are_named() {
        for (command, part) in [
            ("echo many", "must print one number, but printed \"many\""),
            ("true", "must print one number"),
            ("echo -3", "must print one number"),
            ("echo nan", "must print one number"),
            ("echo no connection >&2; exit 2", "failed: no connection"),
            ("exit 2", "failed and printed nothing"),
            ("cat /dev/zero", "failed"),
        ] {
            let error = count(command).unwrap_err().to_string();
            assert!(error.contains(part), "{command}: {error}");
        }
    }
}
