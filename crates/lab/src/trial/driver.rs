//! A driver's process: started, listened to, and ended with all that it started.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::log_tail::LogTail;
use crate::{Error, Result};

/// From SIGTERM to SIGKILL, as drivers are promised.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// The longest line of a driver.
const LONGEST: u64 = 1 << 20;
/// Lines that may wait to be looked at; then the driver waits.
const WAITING: usize = 1 << 12;

/// A driver that runs one phase.
#[derive(Debug)]
pub struct Driver {
    child: Child,
    lines: Receiver<(Instant, String)>,
    tail: LogTail,
    /// The status, once it has ended.
    ended: Option<ExitStatus>,
}

/// What came of waiting for a line.
#[derive(Debug)]
pub enum Received {
    /// A line, and when it came.
    Line(Instant, String),
    /// Nothing in this time.
    Nothing,
    /// There will be no more.
    End,
}

/// This command, which gets SIGTERM when the thread that starts it ends, in a process group of its own (so that Ctrl-C
/// reaches only the trial, which ends things in order).
pub fn bound(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--"]).arg(program).process_group(0);
    command
}

impl Driver {
    /// Starts it on one phase, as `PROGRAM WORDS… run`; what it says on stderr goes to `log`.
    pub fn start(
        program: &Path,
        words: &[String],
        input: &serde_json::Value,
        dir: &Path,
        log: &Path,
    ) -> Result<Driver> {
        if !program.is_file() {
            return Err(Error::Trial(format!("there is no driver {}", program.display())));
        }
        let tail = LogTail::in_file(log)?;
        let mut child = bound(program)
            .args(words)
            .arg("run")
            .current_dir(dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(tail.stdio()?)
            .spawn()
            .map_err(Error::host("starting", program))?;
        // One that ends without reading it is reported by how it ended.
        if let Some(mut stdin) = child.stdin.take() {
            let _ = stdin.write_all(format!("{input}\n").as_bytes());
        }
        let (to, lines) = sync_channel(WAITING);
        let out = child.stdout.take().expect("piped");
        std::thread::spawn(move || listen(out, &to));
        Ok(Driver { child, lines, tail, ended: None })
    }

    /// Waits for its next line.
    pub fn recv(&self, longest: Duration) -> Received {
        match self.lines.recv_timeout(longest) {
            Ok((at, line)) => Received::Line(at, line),
            Err(RecvTimeoutError::Timeout) => Received::Nothing,
            Err(RecvTimeoutError::Disconnected) => Received::End,
        }
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Ends it and its group: SIGTERM, and SIGKILL for whoever does not follow.
    pub fn end(&mut self) {
        let Some(group) = Pid::from_raw(self.child.id() as i32) else { return };
        for (signal, patience) in [(Signal::TERM, PATIENCE), (Signal::KILL, Duration::from_secs(5))] {
            if self.ended().is_some() {
                return;
            }
            let _ = rustix::process::kill_process_group(group, signal);
            let start = Instant::now();
            while self.ended().is_none() && start.elapsed() < patience {
                // it may still be talking, and must not wait for a reader
                while let Received::Line(..) = self.recv(Duration::from_millis(10)) {}
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }

    /// What it said last on stderr.
    pub fn last_output(&self) -> String {
        self.tail.text()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.end();
    }
}

fn listen(out: ChildStdout, to: &SyncSender<(Instant, String)>) {
    let mut out = BufReader::new(out);
    loop {
        let mut line = Vec::new();
        match out.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        if to.send((Instant::now(), text)).is_err() {
            return;
        }
    }
}
