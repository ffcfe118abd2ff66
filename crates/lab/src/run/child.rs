//! Runs a trial in a child process.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use poolwright_base::memory_limit::MemoryGroup;
use poolwright_base::{cannot, private};
use poolwright_openzfs::property::parse_size;
use poolwright_replay::PoolWatch;
use poolwright_replay::child::{PARENT, last_words};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde::Deserialize;

use super::scratch_dir::{MARK, ScratchDir};
use crate::{Error, LabPoolLoad, Outcome, Result, TargetSpec, TrialSpec};

/// Progress of a trial, parsed from a line of its standard error.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Progress {
    /// Name of the phase.
    pub phase: String,
    /// Work done, in `unit` …
    #[serde(default)]
    pub done: f64,
    /// … of this total; 0 if it is unknown.
    #[serde(default)]
    pub of: f64,
    /// Unit of the work.
    #[serde(default)]
    pub unit: String,
}

/// Time that a trial gets to end after SIGTERM: it stops its driver, which may take ten seconds, and unmounts.
const PATIENCE: Duration = Duration::from_secs(25);

/// Time in addition to the limits of the phases, to set up servers and to create and destroy pools.
const SLACK: Duration = Duration::from_secs(900);

/// Number of last lines of standard error that the message of a failure may quote.
const LAST_LINES: usize = 40;

/// A trial that has ended.
#[derive(Debug)]
pub struct EndedTrial {
    /// Its outcome, or why it failed.
    pub outcome: std::result::Result<Outcome, String>,
    /// The load of the kernel's pool, also of a trial that failed; `None` on other targets.
    pub pool: Option<LabPoolLoad>,
    /// The number of processes that it left running and that were ended.
    pub killed: usize,
}

/// Runs `program trial SPEC` in its own process group.
///
/// # Errors
/// Fails if the trial cannot be started, if the user interrupts the run, or if the trial slows down other users of a pool of the kernel
/// or its datasets cannot be destroyed.
pub fn run(
    program: &Path,
    spec: &TrialSpec,
    position: u32,
    scratch_dir: &ScratchDir,
    interrupted: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<EndedTrial> {
    let path = scratch_dir.beside(position, "json");
    let text = serde_json::to_vec_pretty(spec).map_err(|e| Error::Trial(e.to_string()))?;
    private::write(&path, &text).map_err(cannot("write", &path))?;
    let group = memory_group(spec, scratch_dir)?;
    let mut child = start(program, &path, scratch_dir)?;
    if let Some(group) = &group {
        // A trial has not started a process yet. If it has ended, it says why.
        let _ = group.add(child.id());
    }
    let mut watch = match &spec.target {
        TargetSpec::Dataset(options) => Some(PoolWatch::start(options, child.id())).transpose(),
        TargetSpec::Pool(_) | TargetSpec::Directory(_) => Ok(None),
    };
    let log = scratch_dir.beside(position, "log");
    let ran = match &mut watch {
        Ok(watch) => supervise(&mut child, spec, &log, watch.as_mut(), interrupted, progress),
        // Its error is returned below, after the trial has ended.
        Err(_) => Err(Error::Interrupted),
    };
    if ran.is_err() {
        end(&mut child);
    }
    // What the trial left running uses its datasets, which can be destroyed only afterwards.
    let is_in_use = group.is_some() || matches!(spec.target, TargetSpec::Dataset(_));
    let killed = if is_in_use { scratch_dir.end_processes() } else { 0 };
    let over_limit = group.and_then(end_group);
    let pool = match watch?.map(finish) {
        Some(Err(why)) => return ran.and(Err(why)),
        pool => pool.transpose()?,
    };
    let outcome = match over_limit {
        Some(why) => ran.and(Ok(Err(why)))?,
        None => ran?.map(|outcome| Outcome { pool, ..outcome }),
    };
    Ok(EndedTrial { outcome, pool, killed })
}

/// Creates the control group of a trial whose memory is limited. A killed run leaves an empty one, which the next run replaces.
fn memory_group(spec: &TrialSpec, scratch_dir: &ScratchDir) -> Result<Option<MemoryGroup>> {
    let TargetSpec::Pool(pool) = &spec.target else { return Ok(None) };
    let Ok(limit) = parse_size(&pool.memory) else { return Ok(None) };
    let name = scratch_dir.root().to_string_lossy().replace('/', "-");
    let group = MemoryGroup::create(&format!("poolwright{name}"), limit);
    group.map(Some).map_err(|why| {
        Error::Missing(format!(
            "cannot limit the memory of a trial to {}: {why}\nhint: run as root",
            pool.memory
        ))
    })
}

/// Removes the control group of a trial that has ended. Returns why the trial failed if it needed more memory than its limit.
fn end_group(group: MemoryGroup) -> Option<String> {
    let killed = group.killed();
    // A group that is left is replaced by the next trial.
    let _ = group.remove();
    (killed > 0).then(|| {
        format!("the trial reached its memory limit, and the kernel killed a process ({killed} in total)")
    })
}

/// Destroys the datasets of a trial that has ended, and returns the load of its pool.
fn finish(watch: PoolWatch<'_>) -> Result<LabPoolLoad> {
    let written = watch.device_written_bytes();
    let load = watch.finish()?;
    Ok(LabPoolLoad { device_written_bytes: written?, load })
}

/// Waits until the trial ends, or a reason to stop it.
fn supervise(
    child: &mut Child,
    spec: &TrialSpec,
    log: &Path,
    mut watch: Option<&mut PoolWatch<'_>>,
    interrupted: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<std::result::Result<Outcome, String>> {
    let (out, lines) = listen(child, log)?;
    if let Some(watch) = &mut watch {
        watch.begin()?;
    }
    let limit: Duration =
        spec.phases.iter().map(|p| Duration::from_nanos(p.limit_ns)).sum::<Duration>() + SLACK;
    let mut last = VecDeque::new();
    let mut handle_line = |line: String| match serde_json::from_str::<Progress>(&line) {
        Ok(update) => progress(update),
        Err(_) if line.trim().is_empty() => {}
        Err(_) => {
            last.push_back(line);
            last.drain(..last.len().saturating_sub(LAST_LINES));
        }
    };
    let began = Instant::now();
    let status = loop {
        // Wait for a line, or until it is time to check whether the trial has ended.
        if let Ok(line) = lines.recv_timeout(Duration::from_millis(100)) {
            handle_line(line);
        }
        if let Some(status) = child.try_wait().map_err(cannot("wait for", Path::new("trial")))? {
            break status;
        }
        if interrupted() {
            return Err(Error::Interrupted);
        }
        if let Some(why) = watch.as_mut().and_then(|watch| watch.overstepped()) {
            return Err(why.into());
        }
        if began.elapsed() > limit {
            end(child);
            return Ok(Err(format!(
                "the trial exceeded {} s, the sum of its phases' limits and a reserve",
                limit.as_secs()
            )));
        }
    };
    // A process that the trial left running may keep the pipe open, so there may be no end of file after the
    // last line.
    while let Ok(line) = lines.recv_timeout(Duration::from_millis(200)) {
        handle_line(line);
    }
    if !status.success() {
        return Ok(Err(reason(&status.to_string(), last.make_contiguous())));
    }
    let Ok(out) = out.recv_timeout(Duration::from_secs(10)) else {
        return Ok(
            Err("the trial has ended, but a process that it started still has its output open".into()),
        );
    };
    Ok(serde_json::from_slice(&out).map_err(|e| format!("invalid outcome of the trial: {e}")))
}

fn start(program: &Path, spec: &Path, scratch_dir: &ScratchDir) -> Result<Child> {
    let child = Command::new(program)
        .arg("trial")
        .arg(spec)
        .env(PARENT, std::process::id().to_string())
        .env(MARK, scratch_dir.root())
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(cannot("start", program))?;
    Ok(child)
}

/// Returns the trial's standard output once it is closed, and its standard error line by line, which is also
/// written to a log file.
fn listen(child: &mut Child, log: &Path) -> Result<(Receiver<Vec<u8>>, Receiver<String>)> {
    let mut stdout = child.stdout.take().expect("piped");
    let stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut log = private::create(log).map_err(cannot("create", log))?;
    let (whole, out) = channel();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stdout.read_to_end(&mut text);
        let _ = whole.send(text);
    });
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in stderr.split(b'\n').map_while(std::io::Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            let _ = writeln!(log, "{line}");
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    Ok((out, lines))
}

/// Ends the trial with SIGTERM, and after a while its process group with SIGKILL.
fn end(child: &mut Child) {
    let Some(pid) = Pid::from_raw(child.id() as i32) else { return };
    let _ = kill_process(pid, Signal::TERM);
    let asked = Instant::now();
    while asked.elapsed() < PATIENCE {
        if child.try_wait().is_ok_and(|status| status.is_some()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = kill_process_group(pid, Signal::KILL);
    let _ = child.wait();
}

/// Returns the cause of a failed trial: its last error message without hints.
fn reason(status: &str, lines: &[String]) -> String {
    last_words(lines.iter().map(String::as_str))
        .unwrap_or_else(|| format!("the trial ended without a message ({status})"))
}
