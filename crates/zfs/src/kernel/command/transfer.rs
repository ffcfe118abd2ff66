//! Moves a stream from `zfs send` to `zfs receive`.
//!
//! The stream goes through this process, which counts its bytes and limits their rate. If this process ends, however it ends, both
//! pipes close, and the receiving `zfs` keeps what has arrived.

use std::io::{ErrorKind, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::error::CommandError;
use super::process::{self, ProcessEnd, command, kill};
use super::runner::{Invocation, ZfsCommands, check, start_error};
use super::send::{ReceiveRequest, SendStream};

/// How often the progress is reported.
const POLL: Duration = Duration::from_millis(100);
/// How long the receiving `zfs` may take to keep what has arrived of a stream that was stopped.
const GRACE: Duration = Duration::from_secs(60);
/// How long a killed program may take to end. One that is stuck in the kernel is left.
const KILL_TIME: Duration = Duration::from_secs(10);
/// The largest number of bytes that are moved at once.
const PIECE: usize = 256 << 10;
/// Time for which an unused part of the rate is kept.
const BURST: Duration = Duration::from_millis(100);

/// A stream, both of its ends, and its rate.
#[derive(Debug)]
pub struct Transfer<'a> {
    /// Runs `zfs send`.
    pub sender: &'a ZfsCommands,
    /// The stream to send.
    pub stream: &'a SendStream,
    /// Runs `zfs receive`.
    pub receiver: &'a ZfsCommands,
    /// How it is received.
    pub request: &'a ReceiveRequest,
    /// The limit in bytes a second; `None` or 0 for none.
    pub rate: Option<u64>,
    /// How long no byte may be moved, and the receiver may take for its end. Then the transfer fails, and can be continued.
    pub stall: Duration,
}

impl Transfer<'_> {
    /// Moves the stream. `progress` gets the number of bytes that have been moved, several times a second, and returns whether to go on.
    /// Returns the number of bytes; `None` if `progress` stopped the transfer. Both programs have ended then, and the receiving one has
    /// kept what had arrived.
    ///
    /// # Errors
    /// If a program cannot be run or fails: the error of the end that failed first. If no byte was moved for too long.
    pub fn run(&self, progress: &mut dyn FnMut(u64) -> bool) -> Result<Option<u64>, CommandError> {
        let sending = self.sender.sending(self.stream)?;
        let receiving = self.receiver.receiving(self.request)?;
        let mut source = StreamProgram::start(sending, Stdio::null(), Stdio::piped())?;
        let mut target = StreamProgram::start(receiving, Stdio::piped(), Stdio::null())?;
        let (Some(from), Some(to)) = (source.child.stdout.take(), target.child.stdin.take()) else {
            return Err(source.failure("it has no pipe"));
        };
        let pump = Arc::new(Pump::default());
        let (sender, ends) = channel();
        let (shared, rate) = (Arc::clone(&pump), self.rate);
        thread::spawn(move || sender.send(shared.move_all(from, to, rate)));
        let mut watch = StallWatch::new(self.stall);
        let end = match wait_for_pump(&ends, &mut || watch.sees_progress(&pump) && progress(pump.bytes())) {
            Some(end) => end,
            None => stop(&pump, &ends, watch.grace(), [&source, &target]),
        };
        if end != PumpEnd::SourceEnded {
            source.kill();
        }
        let mut stops =
            || match end != PumpEnd::Stopped && watch.sees_progress(&pump) && progress(pump.bytes()) {
                true => None,
                false => Some(watch.grace()),
            };
        let sent = source.wait(&mut stops);
        let received = target.wait(&mut stops);
        if let Some(is_writing) = watch.stalled {
            let waiting = if is_writing { &target } else { &source };
            return Err(waiting.failure(&format!("no data was moved for {} s", self.stall.as_secs())));
        }
        match end {
            PumpEnd::Stopped => Ok(None),
            PumpEnd::Broken(cause) => Err(source.failure(&cause)),
            PumpEnd::TargetEnded => {
                target.check(received)?;
                Err(target.failure("it ended before the stream"))
            }
            PumpEnd::SourceEnded => {
                let done = source.check(sent).and_then(|()| target.check(received));
                // A program that was killed because the user interrupted the end has failed for this reason.
                if done.is_err() && !progress(pump.bytes()) {
                    return Ok(None);
                }
                done.map(|()| Some(pump.bytes()))
            }
        }
    }
}

/// The end of the moving; `None` if `goes_on` does not want it any more.
fn wait_for_pump(ends: &Receiver<PumpEnd>, goes_on: &mut dyn FnMut() -> bool) -> Option<PumpEnd> {
    loop {
        match ends.recv_timeout(POLL) {
            Ok(end) => return Some(end),
            Err(RecvTimeoutError::Timeout) if goes_on() => {}
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => {
                return Some(PumpEnd::Broken("the thread that moves the stream ended".to_owned()));
            }
        }
    }
}

/// Stops the moving: the sender is killed, so that the receiver finds the end of the stream, and keeps what has arrived.
fn stop(
    pump: &Pump,
    ends: &Receiver<PumpEnd>,
    grace: Duration,
    [source, target]: [&StreamProgram; 2],
) -> PumpEnd {
    pump.is_stopped.store(true, Ordering::Relaxed);
    source.kill();
    if ends.recv_timeout(grace).is_err() {
        // The receiver takes no more data.
        target.kill();
    }
    PumpEnd::Stopped
}

/// Notices that no byte has been moved for too long.
struct StallWatch {
    limit: Duration,
    bytes: u64,
    since: Instant,
    /// Whether the receiver took no data, rather than that the sender gave none, when the limit was reached.
    stalled: Option<bool>,
}

impl StallWatch {
    fn new(limit: Duration) -> StallWatch {
        StallWatch { limit, bytes: 0, since: Instant::now(), stalled: None }
    }

    fn sees_progress(&mut self, pump: &Pump) -> bool {
        let bytes = pump.bytes();
        if bytes != self.bytes {
            (self.bytes, self.since) = (bytes, Instant::now());
        }
        if self.stalled.is_none() && self.since.elapsed() >= self.limit {
            self.stalled = Some(pump.is_writing.load(Ordering::Relaxed));
        }
        self.stalled.is_none()
    }

    /// How long the receiver may take to keep what has arrived.
    fn grace(&self) -> Duration {
        if self.stalled == Some(true) { Duration::ZERO } else { GRACE }
    }
}

/// Why the moving ended.
#[derive(Debug, PartialEq, Eq)]
enum PumpEnd {
    /// The sender has closed the stream.
    SourceEnded,
    /// The receiver takes no more.
    TargetEnded,
    /// It was stopped.
    Stopped,
    /// The stream cannot be read.
    Broken(String),
}

/// The state of the moving, which the thread and the caller share.
#[derive(Debug, Default)]
struct Pump {
    bytes: AtomicU64,
    is_stopped: AtomicBool,
    /// Whether it waits for the receiver: to take data, or to end.
    is_writing: AtomicBool,
}

impl Pump {
    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Moves the stream to its end, and closes both pipes.
    fn move_all(&self, mut from: ChildStdout, mut to: ChildStdin, rate: Option<u64>) -> PumpEnd {
        let mut pace = Pace::new(rate);
        let mut piece = vec![0; pace.piece()];
        while !self.is_stopped() {
            let length = match from.read(&mut piece) {
                Ok(0) => {
                    self.is_writing.store(true, Ordering::Relaxed);
                    return PumpEnd::SourceEnded;
                }
                Ok(length) => length,
                Err(cause) if cause.kind() == ErrorKind::Interrupted => continue,
                Err(cause) => return PumpEnd::Broken(cause.to_string()),
            };
            pace.wait(length as u64, &self.is_stopped);
            if self.is_stopped() {
                break;
            }
            self.is_writing.store(true, Ordering::Relaxed);
            if to.write_all(&piece[..length]).is_err() {
                return PumpEnd::TargetEnded;
            }
            self.is_writing.store(false, Ordering::Relaxed);
            self.bytes.fetch_add(length as u64, Ordering::Relaxed);
        }
        PumpEnd::Stopped
    }
}

/// A limit for bytes a second, whose waits can be stopped.
struct Pace {
    bytes_s: Option<u64>,
    /// When the bytes so far would have been moved at the rate.
    due: Instant,
}

impl Pace {
    fn new(rate: Option<u64>) -> Pace {
        Pace { bytes_s: rate.filter(|rate| *rate > 0), due: Instant::now() }
    }

    /// The bytes that are moved at once: those of a twentieth of a second.
    fn piece(&self) -> usize {
        self.bytes_s.map_or(PIECE, |rate| usize::try_from(rate / 20).unwrap_or(PIECE).clamp(512, PIECE))
    }

    /// Waits until this number of bytes may be moved.
    fn wait(&mut self, bytes: u64, is_stopped: &AtomicBool) {
        let Some(rate) = self.bytes_s else { return };
        let now = Instant::now();
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        self.due = self.due.max(earliest) + Duration::from_secs_f64(bytes as f64 / rate as f64);
        while !is_stopped.load(Ordering::Relaxed) {
            match self.due.saturating_duration_since(Instant::now()) {
                Duration::ZERO => return,
                left => thread::sleep(left.min(POLL)),
            }
        }
    }
}

/// One of the two programs. Dropping it kills it.
struct StreamProgram {
    child: Child,
    invocation: Invocation,
    messages: Receiver<String>,
    has_ended: bool,
}

impl StreamProgram {
    fn start(invocation: Invocation, stdin: Stdio, stdout: Stdio) -> Result<StreamProgram, CommandError> {
        let spawned = command(&invocation.program).stdin(stdin).stdout(stdout).spawn();
        let mut child = spawned.map_err(|cause| start_error(&invocation, cause))?;
        let (sender, messages) = channel();
        if let Some(stderr) = child.stderr.take() {
            thread::spawn(move || sender.send(process::read_message(stderr)));
        }
        Ok(StreamProgram { child, invocation, messages, has_ended: false })
    }

    /// Kills the program and those that it has started.
    fn kill(&self) {
        if let Some(group) = Pid::from_raw(self.child.id() as i32).filter(|_| !self.has_ended) {
            kill(group);
        }
    }

    /// Waits for the end. As soon as `stops` has a time, the program has only this time, and is killed then. `None` if it does not
    /// even end then.
    fn wait(&mut self, stops: &mut dyn FnMut() -> Option<Duration>) -> Option<ProcessEnd> {
        let mut limit: Option<Instant> = None;
        let mut is_killed = false;
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                self.has_ended = true;
                let message = self.messages.recv_timeout(KILL_TIME).unwrap_or_default();
                return Some(ProcessEnd { status, message });
            }
            match limit {
                None => limit = stops().map(|grace| Instant::now() + grace),
                Some(end) if Instant::now() >= end && is_killed => return None,
                Some(end) if Instant::now() >= end => {
                    self.kill();
                    is_killed = true;
                    limit = Some(Instant::now() + KILL_TIME);
                }
                _ => {}
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Turns an unsuccessful end into an error.
    fn check(&self, end: Option<ProcessEnd>) -> Result<(), CommandError> {
        match end {
            Some(end) => check(&self.invocation, &end),
            None => Err(self.failure("it does not end")),
        }
    }

    fn failure(&self, message: &str) -> CommandError {
        let command = self.invocation.text.clone();
        CommandError::Failed { command, code: None, message: message.to_owned() }
    }
}

impl Drop for StreamProgram {
    fn drop(&mut self) {
        self.kill();
        let end = Instant::now() + KILL_TIME;
        while !self.has_ended && Instant::now() < end {
            self.has_ended = !matches!(self.child.try_wait(), Ok(None));
            thread::sleep(Duration::from_millis(5));
        }
    }
}
