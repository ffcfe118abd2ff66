//! Runs a trial in a child process, so that a failed assertion in the engine or a full disk ends only the trial.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use poolwright_base::{Transient, memory, room};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

use crate::cpus::allowed_cpus;
use crate::directory::Directory;
use crate::error::host;
use crate::kernel_pool::{KernelPoolOptions, PoolWatch};
use crate::result::Replay;
use crate::{Error, Result, Spec, TargetSpec};

/// The environment variable that passes the parent's process id to a trial.
pub const PARENT: &str = "POOLWRIGHT_PARENT_PID";

/// The interval between checks of a running trial.
const LOOK: Duration = Duration::from_millis(5);
/// While much space is free, only one check in this many queries the free space.
const SELDOM: u32 = 20;
/// The free space in bytes that a trial leaves on its file system; a tenth of the free space if that is less.
const RESERVE: u64 = 1 << 30;

/// The largest number of trials that run at the same time.
const MAX_SIDE_BY_SIDE: usize = 8;
/// Memory that a trial on the engine needs in addition to its ARC, in bytes: dirty data, compressed records (512M), the trace and the
/// program.
const OVERHEAD: u64 = 3 << 29;

/// Returns how many trials on the virtual clock, with `pool_bytes` of data and an ARC of at most `arc_bytes`, may run at the same
/// time: one for each CPU, as far as the memory allows. On this machine's clock, trials would slow each other down.
pub fn side_by_side(arc_bytes: u64, pool_bytes: u64) -> usize {
    let one = arc_bytes.min(pool_bytes).saturating_add(OVERHEAD);
    let in_memory = memory::available().map_or(u64::MAX, |bytes| bytes / one);
    allowed_cpus().len().min(in_memory as usize).clamp(1, MAX_SIDE_BY_SIDE)
}

/// Runs trials at the same time, and returns their results in order. See [`run`].
pub fn run_side_by_side(
    program: &Path,
    specs: &[Spec],
    work: &Path,
    limit: Option<Duration>,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Vec<Result<Replay>> {
    let one = |(number, spec): (usize, &Spec)| {
        let file = work.join(format!("trial-{number}.json"));
        run(program, spec, &file, limit, interrupted)
    };
    if let [spec] = specs {
        return vec![one((0, spec))];
    }
    std::thread::scope(|scope| {
        let start = |trial| scope.spawn(move || one(trial));
        let started: Vec<_> = specs.iter().enumerate().map(start).collect();
        started.into_iter().map(|trial| trial.join().expect("a trial's thread does not panic")).collect()
    })
}

/// Writes the specification to `file`, runs `program trial FILE`, and parses its JSON result. The child is killed when `interrupted`
/// returns true, when its total time reaches `limit`, when it has nearly filled its file system, or when it slows other users of a pool of the
/// kernel. It is also killed if this process ends (see [`die_with_parent`]).
///
/// # Errors
///
/// Returns an error if the trial cannot be started, is killed, fails, or prints an invalid result.
fn run(
    program: &Path,
    spec: &Spec,
    file: &Path,
    limit: Option<Duration>,
    interrupted: &(dyn Fn() -> bool + Sync),
) -> Result<Replay> {
    let began = Instant::now();
    let guard = Guard::of(spec);
    spec.save(file)?;
    let mut child = Command::new(program)
        .arg("trial")
        .arg(file)
        .env(PARENT, std::process::id().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(host("start", program))?;
    // A second Ctrl-C ends this process without destructors. It must then kill the trial, which cannot remove its
    // directory.
    let _child = Transient::child(child.id());
    let _directory = match &spec.target {
        TargetSpec::Directory(parent) => Some(Directory::transient(parent)),
        TargetSpec::Engine(_) | TargetSpec::KernelPool(_) => None,
    };
    let mut watch = match &spec.target {
        TargetSpec::KernelPool(options) => Some(watch(options, &mut child)?),
        TargetSpec::Engine(_) | TargetSpec::Directory(_) => None,
    };
    let stop = Stop { began, limit, interrupted, guard, watch: watch.as_mut() };
    let result = supervise(&mut child, spec, stop);
    // The trial has ended; now its datasets can be destroyed.
    match watch.map(PoolWatch::finish) {
        None => result,
        Some(Ok(load)) => result.map(|replay| Replay { pool_load: Some(load), ..replay }),
        Some(Err(left)) => result.and(Err(left)),
    }
}

/// Starts to watch a trial in datasets of a pool of the kernel. If that fails, ends the trial before its datasets are destroyed.
fn watch<'a>(options: &'a KernelPoolOptions, child: &mut Child) -> Result<PoolWatch<'a>> {
    let started = PoolWatch::start(options, child.id()).map(|mut watch| (watch.begin(), watch));
    let (why, _watch) = match started {
        Ok((Ok(()), watch)) => return Ok(watch),
        Ok((Err(why), watch)) => (why, Some(watch)),
        Err(why) => (why, None),
    };
    let _ = child.kill();
    let _ = child.wait();
    Err(why)
}

/// Reasons to stop a trial.
struct Stop<'a, 'b> {
    began: Instant,
    limit: Option<Duration>,
    interrupted: &'a dyn Fn() -> bool,
    guard: Option<Guard<'a>>,
    watch: Option<&'a mut PoolWatch<'b>>,
}

impl Stop<'_, '_> {
    /// The reason to stop the trial now.
    fn reason(&mut self) -> Option<Error> {
        if (self.interrupted)() {
            return Some(Error::Interrupted);
        }
        if let Some(limit) = self.limit.filter(|limit| self.began.elapsed() >= *limit) {
            return Some(Error::TooLong(limit));
        }
        let full = self.guard.as_mut().and_then(Guard::overstepped);
        full.or_else(|| self.watch.as_mut().and_then(|watch| watch.overstepped()))
    }
}

/// Waits for the trial or stops it, and reads its result.
fn supervise(child: &mut Child, spec: &Spec, mut stop: Stop<'_, '_>) -> Result<Replay> {
    let read = |mut from: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = from.read_to_end(&mut text);
            text
        })
    };
    let out = read(Box::new(child.stdout.take().expect("piped")));
    let err = read(Box::new(child.stderr.take().expect("piped")));
    let status = loop {
        if let Some(status) = child.try_wait().map_err(host("wait for", "the trial"))? {
            break status;
        }
        if let Some(why) = stop.reason() {
            let _ = child.kill();
            let _ = child.wait();
            remove_directory(spec);
            return Err(why);
        }
        std::thread::sleep(LOOK);
    };
    let (out, err) = (out.join().unwrap_or_default(), err.join().unwrap_or_default());
    if !status.success() {
        remove_directory(spec);
        return Err(Error::Child(reason(&status.to_string(), &String::from_utf8_lossy(&err))));
    }
    serde_json::from_slice(&out).map_err(|e| Error::Child(format!("invalid result: {e}")))
}

/// Keeps a trial from filling its file system, which others (the database among them) also use.
struct Guard<'a> {
    dir: &'a Path,
    /// The number of bytes that stay free.
    reserve: u64,
    /// The number of checks to skip before the next query.
    pause: u32,
}

impl Guard<'_> {
    /// Returns `None` if the host does not report the free space.
    fn of(spec: &Spec) -> Option<Guard<'_>> {
        let dir = match &spec.target {
            TargetSpec::Engine(options) => &options.scratch,
            TargetSpec::Directory(parent) => parent,
            // Its quota limits it.
            TargetSpec::KernelPool(_) => return None,
        };
        let reserve = RESERVE.min(room::available(dir).ok()? / 10);
        Some(Guard { dir, reserve, pause: 0 })
    }

    /// Returns an error if too little space is left. While much space is free, it queries rarely, because the trial is
    /// being measured.
    fn overstepped(&mut self) -> Option<Error> {
        self.pause = self.pause.saturating_sub(1);
        if self.pause > 0 {
            return None;
        }
        let free = room::available(self.dir).ok()?;
        self.pause = if free > 4 * self.reserve { SELDOM } else { 1 };
        (free < self.reserve).then(|| Error::UsedUp { path: self.dir.to_owned(), free })
    }
}

/// Removes the directory of a killed process. A pool's file is already unlinked by then.
fn remove_directory(spec: &Spec) {
    if let TargetSpec::Directory(parent) = &spec.target {
        Directory::remove_dead(parent);
    }
}

/// Returns the reason of a child's failure: the failed assertion, or the last line of its output without hints.
pub fn reason(status: &str, stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    if let Some(i) = lines.iter().position(|l| l.starts_with("ASSERT") || l.starts_with("VERIFY")) {
        let what: Vec<&str> = lines[i..].iter().take(2).copied().collect();
        return format!("the engine stopped on an assertion ({}); {status}", what.join(": "));
    }
    last_words(lines.iter().copied()).unwrap_or_else(|| status.to_owned())
}

/// Returns the last line of a process's output, without the program's name, empty lines and hints. Returns `None` if
/// there is none.
pub fn last_words<'a>(lines: impl DoubleEndedIterator<Item = &'a str>) -> Option<String> {
    let mut trimmed = lines.rev().map(str::trim);
    let last = trimmed.find(|line| !line.is_empty() && !line.starts_with("hint: "))?;
    Some(last.trim_start_matches("poolwright: ").to_owned())
}

/// Asks the kernel to kill this process when its parent dies. A trial process calls this first.
pub fn die_with_parent() {
    heed_parent(Signal::KILL);
}

/// Asks the kernel to send SIGTERM when the parent dies, for a trial that must clean up.
pub fn end_with_parent() {
    heed_parent(Signal::TERM);
}

fn heed_parent(signal: Signal) {
    let _ = set_parent_process_death_signal(Some(signal));
    // The parent may have died before the call above. A trial started by hand has no such parent.
    let expected = std::env::var(PARENT).ok().and_then(|pid| pid.parse::<i32>().ok());
    if expected.is_some_and(|pid| Pid::as_raw(getppid()) != pid) {
        std::process::exit(1);
    }
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn assertions_and_last_words() {
        let text =
            "noise\nASSERT at module/zfs/x.c:1:f()\na == b (1 == 2)\n  PID: 1\nCall trace:\n/lib/x(+0x1)";
        let message = reason("signal: 6", text);
        assert!(
            message.contains("module/zfs/x.c:1")
                && message.contains("a == b")
                && message.contains("signal: 6"),
            "{message}"
        );
        assert_eq!(reason("exit status: 1", "poolwright: no room\n"), "no room");
        assert_eq!(reason("exit status: 1", "poolwright: no room\nhint: make some\n"), "no room");
        assert_eq!(reason("signal: 9", ""), "signal: 9");
    }
}
