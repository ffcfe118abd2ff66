//! Starts a pool server without a terminal.
//!
//! Until the dataset is mounted, the calling process forwards the server's standard error, so a failed mount is reported to the caller and
//! leaves no log. Then another process, which writes the log, takes over the reading end of that pipe.

use std::io::Read;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};

use crate::server::error::host;
use crate::server::{Error, LogFile, Result, add};

/// Interval at which an interruption is noticed.
const CHECK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// The result of starting a pool server.
#[derive(Debug)]
pub enum Started {
    /// The dataset is mounted.
    Mounted {
        /// The line that the server printed on standard output.
        answer: String,
        /// The server's process ID.
        pid: u32,
        /// The reason why the log is not written.
        log_error: Option<Error>,
    },
    /// The server has ended. It has reported its error on standard error.
    Ended(ExitStatus),
}

/// Runs `server`, which mounts a dataset of `pool` on `dir` and then prints one line. Forwards its standard error, in whole
/// lines. When the dataset is mounted, runs `logger(PID)`, which writes its standard input into the log. If `interrupted`
/// becomes true before that, ends the server.
///
/// # Errors
/// If the server cannot be started or watched, or this process cannot use the mount.
pub fn start(
    pool: &str,
    dir: &Path,
    server: &mut Command,
    logger: impl FnOnce(u32) -> Command,
    interrupted: &AtomicBool,
    forward: &mut dyn FnMut(&[u8]),
) -> Result<Started> {
    server.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = server.spawn().map_err(host("start the process that mounts"))?;
    let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) else {
        unreachable!("both are pipes");
    };
    let mut pipes = Pipes { out, err, answer: Vec::new(), messages: Vec::new() };
    pipes.read(&child, interrupted, forward).map_err(host("wait for the mount"))?;
    let pid = child.id();
    if pipes.answer.is_empty() {
        return Ok(Started::Ended(child.wait().map_err(host("wait for the process that mounts"))?));
    }
    let log = LogFile::of(pool, pid);
    let logged = start_log(&log, logger(pid), pipes.err, &String::from_utf8_lossy(&pipes.messages));
    add::check_visible(dir, pid)?;
    let answer = String::from_utf8_lossy(&pipes.answer).into_owned();
    Ok(Started::Mounted { answer, pid, log_error: logged.err() })
}

/// The server's output until the dataset is mounted.
struct Pipes {
    out: ChildStdout,
    err: ChildStderr,
    /// Its output when the dataset was mounted; empty if it exited before that or was interrupted.
    answer: Vec<u8>,
    /// Its standard error.
    messages: Vec<u8>,
}

impl Pipes {
    /// Forwards standard error until there is an answer, or both pipes end.
    fn read(
        &mut self,
        child: &Child,
        interrupted: &AtomicBool,
        forward: &mut dyn FnMut(&[u8]),
    ) -> std::io::Result<()> {
        let (mut out_open, mut err_open, mut is_ended) = (true, true, false);
        let mut forwarded = 0;
        while (out_open || err_open) && (is_ended || !self.answer.ends_with(b"\n")) {
            if interrupted.load(Ordering::Relaxed) && !is_ended {
                is_ended = true;
                if let Some(pid) = Pid::from_raw(child.id() as i32) {
                    kill_process(pid, Signal::TERM)?;
                }
            }
            let (out_ready, err_ready) = self.poll(out_open, err_open)?;
            if err_ready {
                err_open = read_some(&mut self.err, &mut self.messages)?;
                forwarded += forward_lines(&self.messages[forwarded..], !err_open, forward);
            }
            if out_ready {
                out_open = read_some(&mut self.out, &mut self.answer)?;
            }
        }
        if is_ended {
            // The dataset may have been mounted for a moment.
            self.answer.clear();
        }
        Ok(())
    }

    /// Waits until an open pipe can be read, at most for [`CHECK_EVERY`].
    fn poll(&self, out_open: bool, err_open: bool) -> std::io::Result<(bool, bool)> {
        let mut fds: Vec<PollFd<'_>> = Vec::new();
        if out_open {
            fds.push(PollFd::new(&self.out, PollFlags::IN));
        }
        if err_open {
            fds.push(PollFd::new(&self.err, PollFlags::IN));
        }
        match poll(&mut fds, Some(&CHECK_EVERY)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(why) => return Err(why.into()),
        }
        let ready = |fd: Option<&PollFd<'_>>| fd.is_some_and(|fd| !fd.revents().is_empty());
        Ok((out_open && ready(fds.first()), err_open && ready(fds.last())))
    }
}

/// Forwards whole lines, and at the end of the pipe the rest. Returns the number of bytes handled. Omits the note about the
/// mount, which is for the log: the server's answer has the same content.
fn forward_lines(text: &[u8], is_end: bool, forward: &mut dyn FnMut(&[u8])) -> usize {
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let len = if is_end { text.len() } else { whole };
    for line in text[..len].split_inclusive(|byte| *byte == b'\n') {
        let words = String::from_utf8_lossy(line);
        if !(words.starts_with("poolwright: note: ") && words.contains(" mounted on ")) {
            forward(line);
        }
    }
    len
}

/// Reads what is available; false at the end.
fn read_some(from: &mut impl Read, into: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut bytes = [0; 4096];
    let len = from.read(&mut bytes)?;
    into.extend_from_slice(&bytes[..len]);
    Ok(len > 0)
}

/// Logs the messages so far, and starts the process that logs the rest. The mount works without it.
fn start_log(log: &LogFile, mut logger: Command, rest: ChildStderr, messages: &str) -> Result<()> {
    let created = log.create();
    let started = logger
        .stdin(Stdio::from(rest))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(host("start the process that writes the log"));
    let written = if messages.is_empty() { Ok(()) } else { log.write(messages) };
    started.map(drop).and(created).and(written)
}
