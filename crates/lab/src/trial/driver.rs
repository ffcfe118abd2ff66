//! A driver's process: starts it, reads its messages, and ends it with all processes that it started.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use poolwright_base::{cannot, quoted};
use rustix::process::{Pid, Signal};

use super::log_tail::LogTail;
use crate::{Error, Result};

/// Time from SIGTERM to SIGKILL, as documented for drivers.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Length of a driver's longest line in bytes.
const LONGEST: u64 = 1 << 20;
/// Number of lines in the queue; if it is full, the driver waits.
const WAITING: usize = 1 << 12;

/// The process of a driver that runs one phase.
#[derive(Debug)]
pub struct Driver {
    child: Child,
    lines: Receiver<(Instant, String)>,
    tail: LogTail,
    /// The exit status, once the driver has ended.
    ended: Option<ExitStatus>,
}

/// The result of waiting for a line.
#[derive(Debug)]
pub enum Received {
    /// A line, and the time at which it arrived.
    Line(Instant, String),
    /// No line arrived within the time.
    Nothing,
    /// The driver has closed its output.
    End,
}

/// Returns a command that gets SIGTERM when the thread that starts it ends, in its own process group (so that
/// Ctrl-C reaches only the trial, which ends its processes in order).
pub fn bound(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--"]).arg(program).process_group(0);
    command
}

impl Driver {
    /// Starts the driver for one phase, as `PROGRAM WORDS… run`; its standard error goes to `log`.
    ///
    /// # Errors
    /// Fails if the driver does not exist or cannot be started.
    pub fn start(
        program: &Path,
        words: &[String],
        input: &serde_json::Value,
        dir: &Path,
        log: &Path,
    ) -> Result<Driver> {
        if !program.is_file() {
            return Err(Error::Trial(format!("no such driver: {}", quoted(&program))));
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
            .map_err(cannot("start", program))?;
        // A driver that ends without reading its input is reported by its exit status.
        if let Some(mut stdin) = child.stdin.take() {
            let _ = stdin.write_all(format!("{input}\n").as_bytes());
        }
        let (to, lines) = sync_channel(WAITING);
        let out = child.stdout.take().expect("piped");
        std::thread::spawn(move || listen(out, &to));
        Ok(Driver { child, lines, tail, ended: None })
    }

    /// Waits up to `longest` for the driver's next line.
    pub fn recv(&self, longest: Duration) -> Received {
        match self.lines.recv_timeout(longest) {
            Ok((at, line)) => Received::Line(at, line),
            Err(RecvTimeoutError::Timeout) => Received::Nothing,
            Err(RecvTimeoutError::Disconnected) => Received::End,
        }
    }

    /// Returns the driver's exit status if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().ok().flatten();
        }
        self.ended
    }

    /// Ends the driver and its group: with SIGTERM, and then with SIGKILL.
    pub fn end(&mut self) {
        let Some(group) = Pid::from_raw(self.child.id() as i32) else { return };
        for (signal, patience) in [(Signal::TERM, PATIENCE), (Signal::KILL, Duration::from_secs(5))] {
            if self.ended().is_some() {
                return;
            }
            let _ = rustix::process::kill_process_group(group, signal);
            let start = Instant::now();
            while self.ended().is_none() && start.elapsed() < patience {
                // The driver may still print, and must not wait for a reader.
                while let Received::Line(..) = self.recv(Duration::from_millis(10)) {}
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }

    /// Returns the last output on standard error.
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
