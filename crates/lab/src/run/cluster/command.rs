//! The command of a worker, and the commands of schedulers.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::super::{Cluster, Options};
use crate::{Error, Result};

/// Time limit for a scheduler's program.
const LIMIT: Duration = Duration::from_secs(60);

/// The command line of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WorkerCommand {
    /// The program's path on the nodes.
    pub(super) program: String,
    /// Location of the results.
    pub(super) results: String,
    /// Its other arguments.
    options: Vec<String>,
}

impl WorkerCommand {
    pub(super) fn new(cluster: &Cluster, options: &Options) -> WorkerCommand {
        let mut more = vec!["--lease".to_owned(), format!("{}s", options.lease.as_secs())];
        if let Some(scratch) = &cluster.scratch {
            more.extend(["--scratch".to_owned(), scratch.display().to_string()]);
        }
        for study in &options.only {
            more.extend(["--study".to_owned(), study.clone()]);
        }
        if options.keep {
            more.push("--keep".to_owned());
        }
        WorkerCommand {
            program: cluster.program.display().to_string(),
            results: cluster.results.clone(),
            options: more,
        }
    }

    /// The arguments of the program for a run.
    pub(super) fn arguments(&self, run: i64) -> Vec<String> {
        let first = ["lab".to_owned(), "work".to_owned(), run.to_string(), "--results".to_owned()];
        [&first[..], std::slice::from_ref(&self.results), &self.options].concat()
    }
}

/// Quotes a word for the shell.
pub(super) fn shell_word(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Runs a scheduler's program with this input, and returns its output.
pub(super) fn call(program: &str, arguments: &[&str], input: Option<&str>) -> Result<String> {
    call_within(LIMIT, program, arguments, input)
}

fn call_within(limit: Duration, program: &str, arguments: &[&str], input: Option<&str>) -> Result<String> {
    let failed = |why: String| Error::Scheduler { program: program.to_owned(), why };
    let mut command = Command::new(program);
    command.args(arguments.iter().map(OsStr::new)).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    // Ctrl-C at the terminal must not reach it: the answer would be lost.
    command.process_group(0);
    let mut child = command.spawn().map_err(|why| match why.kind() {
        std::io::ErrorKind::NotFound => failed("the program is not in the PATH".to_owned()),
        _ => failed(why.to_string()),
    })?;
    if let (Some(text), Some(mut pipe)) = (input, child.stdin.take()) {
        // A program that does not read its input has an error message.
        let _ = pipe.write_all(text.as_bytes());
    }
    let pid = Pid::from_child(&child);
    let (ended, output) = channel();
    std::thread::spawn(move || ended.send(child.wait_with_output()));
    let output = output.recv_timeout(limit).map_err(|_| {
        let _ = kill_process_group(pid, Signal::KILL);
        failed(format!("no answer within {} s", limit.as_secs()))
    })?;
    let output = output.map_err(Error::host("waiting for", Path::new(program)))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Err(failed(if said.is_empty() { output.status.to_string() } else { said.join("; ") }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_fail_or_are_missing_are_named() {
        assert_eq!(call("cat", &[], Some("x")).unwrap(), "x");
        let why = call("sh", &["-c", "echo no >&2; exit 3"], None).unwrap_err().to_string();
        assert_eq!(why, "sh: no");
        let why = call_within(Duration::from_millis(50), "sleep", &["600"], None).unwrap_err().to_string();
        assert_eq!(why, "sleep: no answer within 0 s");
        let why = call("no-such-program", &[], None).unwrap_err().to_string();
        assert_eq!(why, "no-such-program: the program is not in the PATH");
    }

    #[test]
    fn words_of_the_shell() {
        let word = "it's a \"$HOME\" `x`";
        let printed = call("sh", &["-c", &format!("printf %s {}", shell_word(word))], None).unwrap();
        assert_eq!(printed, word);
    }
}
