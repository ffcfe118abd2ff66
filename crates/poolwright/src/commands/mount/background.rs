//! `--background`: the same program again, with no terminal.
//!
//! Until it is mounted, this process passes on what the other one says, so a mount that fails says so here and makes no
//! log. Then a process that writes the log (`log.rs`) takes over the reading end of that pipe.

use std::io::{Read, Write as _};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use anyhow::Context as _;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::commands::mount_log::Log;
use crate::commands::options::this_program;
use crate::interrupt;

/// Starts the mount process, waits until `dir` is mounted, and passes on what it said; the value is the exit code.
pub fn start(pool: &str, dir: &Path) -> anyhow::Result<u8> {
    let interrupted = interrupt::watch()?;
    let mut child = Command::new(this_program())
        .args(std::env::args_os().skip(1).filter(|arg| arg != "--background"))
        .arg("--detached")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting the process that mounts")?;
    let mut err = child.stderr.take().context("the pipe of its standard error")?;
    let Said { answer, remarks } =
        listen(&mut child, &mut err, &interrupted).context("waiting for the mount")?;
    if answer.is_empty() {
        let status = child.wait().context("waiting for the mount")?;
        return Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
    }
    start_log(pool, child.id(), err, &remarks);
    super::check_visible(dir, child.id() as i32)?;
    print!("{answer}");
    Ok(0)
}

struct Said {
    /// What it printed when it was mounted; empty if it ended before that.
    answer: String,
    /// What it printed on standard error, which was passed on.
    remarks: String,
}

/// Passes on standard error until there is an answer, or the end of both pipes. Ctrl-C ends the mount process too.
fn listen(
    child: &mut Child,
    err: &mut ChildStderr,
    interrupted: &std::sync::atomic::AtomicBool,
) -> anyhow::Result<Said> {
    const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    let mut out = child.stdout.take().context("the pipe of its standard output")?;
    let (mut answer, mut remarks) = (Vec::new(), Vec::new());
    let (mut out_open, mut err_open, mut told) = (true, true, false);
    let mut passed_on = 0;
    while (out_open || err_open) && (told || !answer.ends_with(b"\n")) {
        if interrupted.load(std::sync::atomic::Ordering::Relaxed) && !told {
            told = true;
            if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
                rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
            }
        }
        let mut fds: Vec<PollFd<'_>> = Vec::new();
        if out_open {
            fds.push(PollFd::new(&out, PollFlags::IN));
        }
        if err_open {
            fds.push(PollFd::new(&*err, PollFlags::IN));
        }
        match poll(&mut fds, Some(&LOOK)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(why) => return Err(why.into()),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let from_out = out_open && ready.first() == Some(&true);
        let from_err = err_open && ready.last() == Some(&true);
        drop(fds);
        if from_err {
            err_open = take(err, &mut remarks)?;
            passed_on += pass_on(&remarks[passed_on..], !err_open);
        }
        if from_out {
            out_open = take(&mut out, &mut answer)?;
        }
    }
    // What was to be ended has no answer, even if it was mounted for a moment.
    let answer = if told { Vec::new() } else { answer };
    Ok(Said {
        answer: String::from_utf8_lossy(&answer).into_owned(),
        remarks: String::from_utf8_lossy(&remarks).into_owned(),
    })
}

/// Prints whole lines on standard error, and at the end the rest; how many bytes were dealt with. The line that says what
/// is mounted is for the log: the answer says the same.
fn pass_on(text: &[u8], end: bool) -> usize {
    let len =
        if end { text.len() } else { text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1) };
    for line in text[..len].split_inclusive(|byte| *byte == b'\n') {
        let text_of_line = String::from_utf8_lossy(line);
        if !(text_of_line.starts_with("poolwright: note: ") && text_of_line.contains(" mounted on ")) {
            let _ = std::io::stderr().write_all(line);
        }
    }
    len
}

/// Reads what there is; false at the end.
fn take(from: &mut impl Read, into: &mut Vec<u8>) -> std::io::Result<bool> {
    let mut bytes = [0; 4096];
    let len = from.read(&mut bytes)?;
    into.extend_from_slice(&bytes[..len]);
    Ok(len > 0)
}

/// Logs what was said so far, and starts the process that logs the rest. The mount is there without it.
fn start_log(pool: &str, pid: u32, rest: ChildStderr, remarks: &str) {
    let log = Log::of(pool, pid);
    let created = log.create();
    let started = Command::new(this_program())
        .arg("mount-log")
        .args([pool, &pid.to_string()])
        .stdin(Stdio::from(rest))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let written = if remarks.is_empty() { Ok(()) } else { log.write(remarks) };
    if let Some(why) =
        started.context("starting the process that logs").err().or(created.err()).or(written.err())
    {
        tell!("poolwright: warning: {} is not written: {why:#}", log.path().display());
    }
}
