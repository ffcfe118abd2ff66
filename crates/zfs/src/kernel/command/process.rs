//! Runs a program with a deadline that holds even if the program is stuck in the kernel.
//!
//! A separate thread starts the program, reads its output and waits for it. The caller receives the output through a channel,
//! and stops receiving at the deadline. It then kills the process group; the thread lives until the program has ended.

use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// The limit for a program's messages, in bytes. The rest is read and dropped.
const MAX_MESSAGE: usize = 16 << 10;

/// The size of a piece of output, in bytes, and the number of pieces that wait for the caller.
const PIECE: usize = 64 << 10;
const PIECES: usize = 4;

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    /// Its path, or the name of one in PATH if it has the environment of this process.
    pub path: PathBuf,
    /// The arguments.
    pub arguments: Vec<String>,
    /// Whether it gets the environment of this process, as a remote shell needs, which finds its keys and its agent there.
    pub has_environment: bool,
}

/// The end of a program.
pub(super) struct ProcessEnd {
    /// The exit status.
    pub status: ExitStatus,
    /// The beginning of what the program wrote to its standard error.
    pub message: String,
}

/// Why a run has no end.
#[derive(Debug)]
pub(super) enum ProcessError<E> {
    /// The program cannot be started.
    Start(io::Error),
    /// The deadline is over.
    TimedOut,
    /// The consumer of the output stopped the run.
    Stopped(E),
}

/// The thread's reports.
enum Report {
    Output(Vec<u8>),
    End(io::Result<ProcessEnd>),
}

/// The state of one run, which the caller and the thread share. The thread reaps the program while it holds the lock, so that
/// the caller never kills a process that has taken over the number.
#[derive(Default)]
struct Run {
    /// The program, from its start until it is reaped.
    pid: Option<Pid>,
    /// Whether the caller has left.
    is_abandoned: bool,
    /// Whether the thread is done.
    has_ended: bool,
}

type SharedRun = Arc<Mutex<Run>>;

fn lock(run: &Mutex<Run>) -> MutexGuard<'_, Run> {
    run.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of runs that the caller has left and that have not ended.
#[derive(Clone, Debug, Default)]
pub(super) struct StuckCounter(Arc<AtomicUsize>);

impl StuckCounter {
    /// The number.
    pub(super) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs a program and passes its output to `consume` piece by piece. If `consume` fails, the program is killed.
pub(super) fn run<E>(
    program: &Program,
    deadline: Duration,
    stuck: &StuckCounter,
    mut consume: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<ProcessEnd, ProcessError<E>> {
    let end = Instant::now() + deadline;
    let run = SharedRun::default();
    let (reports, receiver) = sync_channel(PIECES);
    let mut command = command(program);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let supervised = (Arc::clone(&run), stuck.clone());
    let thread = thread::Builder::new().name("zfs command".to_owned());
    thread
        .spawn(move || supervise(command, &supervised.0, &supervised.1, &reports))
        .map_err(ProcessError::Start)?;
    let outcome = receive(&receiver, end, &mut consume);
    if matches!(outcome, Err(ProcessError::TimedOut | ProcessError::Stopped(_))) {
        abandon(&run, stuck);
    }
    outcome
}

/// The command of a program, in a process group of its own; its messages go into a pipe.
pub(super) fn command(program: &Program) -> Command {
    let mut command = Command::new(&program.path);
    if program.has_environment {
        command.env("LC_ALL", "C");
    } else {
        // Only these variables: others change the output (`ZPOOL_VDEV_NAME_GUID`, `ZFS_COLOR`). UTC, because text output has local times.
        let environment = [("LC_ALL", "C"), ("TZ", "UTC"), ("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")];
        command.env_clear().envs(environment);
    }
    command.args(&program.arguments).stderr(Stdio::piped()).process_group(0);
    command
}

fn receive<E>(
    receiver: &Receiver<Report>,
    end: Instant,
    consume: &mut impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<ProcessEnd, ProcessError<E>> {
    loop {
        match receiver.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(Report::Output(piece)) => consume(&piece).map_err(ProcessError::Stopped)?,
            Ok(Report::End(result)) => return result.map_err(ProcessError::Start),
            Err(RecvTimeoutError::Timeout) => return Err(ProcessError::TimedOut),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(ProcessError::Start(io::Error::other("the thread that waits for it ended")));
            }
        }
    }
}

/// Kills the process group, and leaves the rest to the thread.
fn abandon(run: &Mutex<Run>, stuck: &StuckCounter) {
    let mut run = lock(run);
    run.is_abandoned = true;
    if !run.has_ended {
        stuck.0.fetch_add(1, Ordering::Relaxed);
    }
    if let Some(pid) = run.pid {
        kill(pid);
    }
}

pub(super) fn kill(group: Pid) {
    // An error means that the whole group has ended.
    let _ = kill_process_group(group, Signal::KILL);
}

/// The thread's work: starts the program, passes its output on, and reaps it.
fn supervise(mut command: Command, run: &Mutex<Run>, stuck: &StuckCounter, reports: &SyncSender<Report>) {
    // Starting can take long too: the program's file may be in a pool that is suspended.
    let result = command.spawn().and_then(|child| {
        register(&child, run);
        follow(child, run, reports)
    });
    let mut run = lock(run);
    run.has_ended = true;
    if run.is_abandoned {
        stuck.0.fetch_sub(1, Ordering::Relaxed);
    }
    drop(run);
    // The caller may have left.
    let _ = reports.send(Report::End(result));
}

fn register(child: &Child, run: &Mutex<Run>) {
    let mut run = lock(run);
    run.pid = Pid::from_raw(child.id() as i32);
    if let Some(pid) = run.pid.filter(|_| run.is_abandoned) {
        kill(pid);
    }
}

/// Reads the program's output until its end or until the caller has left, then waits for the program.
fn follow(mut child: Child, run: &Mutex<Run>, reports: &SyncSender<Report>) -> io::Result<ProcessEnd> {
    let message = child.stderr.take().map(|stderr| thread::spawn(move || read_message(stderr)));
    if let Some(mut stdout) = child.stdout.take() {
        let mut piece = vec![0; PIECE];
        loop {
            match stdout.read(&mut piece) {
                Ok(0) => break,
                Ok(length) if reports.send(Report::Output(piece[..length].to_vec())).is_err() => break,
                Ok(_) => {}
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => {
                    lock(run).pid.into_iter().for_each(kill);
                    reap(child, run)?;
                    return Err(cause);
                }
            }
        }
    }
    let status = reap(child, run)?;
    let message = message.and_then(|thread| thread.join().ok()).unwrap_or_default();
    Ok(ProcessEnd { status, message })
}

/// Waits for the program without the lock, then reaps it with the lock.
fn reap(mut child: Child, run: &Mutex<Run>) -> io::Result<ExitStatus> {
    if let Some(pid) = Pid::from_raw(child.id() as i32) {
        // An error comes again from `wait`.
        let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    }
    let mut run = lock(run);
    run.pid = None;
    child.wait()
}

/// Reads standard error to its end, and keeps the beginning.
pub(super) fn read_message(mut stderr: impl Read) -> String {
    let mut message = Vec::new();
    let _ = stderr.by_ref().take(MAX_MESSAGE as u64).read_to_end(&mut message);
    let _ = io::copy(&mut stderr, &mut io::sink());
    String::from_utf8_lossy(&message).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(path: &str, arguments: &[&str]) -> Program {
        let arguments = arguments.iter().map(|text| (*text).to_owned()).collect();
        Program { path: path.into(), arguments, has_environment: false }
    }

    fn shell(
        script: &str,
        deadline: Duration,
        stuck: &StuckCounter,
    ) -> (Result<ProcessEnd, ProcessError<()>>, Vec<u8>) {
        let mut output = Vec::new();
        let consume = |piece: &[u8]| {
            output.extend_from_slice(piece);
            Ok(())
        };
        let result = run(&program("/bin/sh", &["-c", script]), deadline, stuck, consume);
        (result, output)
    }

    fn wait_until_none(stuck: &StuckCounter) {
        let end = Instant::now() + Duration::from_secs(60);
        while stuck.get() > 0 {
            assert!(Instant::now() < end, "the killed program was not reaped");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn output_message_status_and_environment() {
        let stuck = StuckCounter::default();
        let script = "echo out $LC_ALL $TZ $HOME; echo ' problem ' >&2; exit 3";
        let (result, output) = shell(script, Duration::from_secs(60), &stuck);
        let end = result.unwrap();
        assert_eq!((end.status.code(), end.message.as_str()), (Some(3), "problem"));
        assert_eq!(String::from_utf8(output).unwrap(), "out C UTC\n");
        assert_eq!(stuck.get(), 0);
    }

    #[test]
    fn the_whole_group_is_killed_at_the_deadline() {
        let stuck = StuckCounter::default();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pid");
        // The background process inherits standard output, which therefore stays open.
        let script = format!("sleep 600 & echo $! >{}; wait", file.display());
        let (result, _) = shell(&script, Duration::from_millis(500), &stuck);
        assert!(matches!(result, Err(ProcessError::TimedOut)));
        wait_until_none(&stuck);
        let pid = std::fs::read_to_string(file).unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        let stat = format!("/proc/{}/stat", pid.trim());
        // An orphan can stay as a zombie until init reaps it.
        while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(Instant::now() < end, "the background process lives");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn a_consumer_can_stop_an_endless_program() {
        let stuck = StuckCounter::default();
        let mut bytes = 0;
        let consume = |piece: &[u8]| {
            bytes += piece.len();
            if bytes > 1 << 20 { Err("enough") } else { Ok(()) }
        };
        let yes = program("/bin/sh", &["-c", "yes"]);
        let result = run(&yes, Duration::from_secs(60), &stuck, consume);
        assert!(matches!(result, Err(ProcessError::Stopped("enough"))));
        wait_until_none(&stuck);
    }

    #[test]
    fn a_program_that_cannot_be_started() {
        let missing = program("/missing", &[]);
        let result = run::<()>(&missing, Duration::from_secs(60), &StuckCounter::default(), |_| Ok(()));
        assert!(matches!(result, Err(ProcessError::Start(cause)) if cause.kind() == io::ErrorKind::NotFound));
    }
}
