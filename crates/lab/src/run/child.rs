//! The process of a trial: started, listened to, and ended.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use poolwright_host::private;
use poolwright_replay::child::{PARENT, last_words};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde::Deserialize;

use super::scratch_dir::{MARK, ScratchDir};
use crate::{Error, Outcome, Result, TrialSpec};

/// How far a trial is, as its standard error says it in a line.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Progress {
    /// Which phase.
    pub phase: String,
    /// Work done …
    #[serde(default)]
    pub done: f64,
    /// … of so much; 0 if it is not known.
    #[serde(default)]
    pub of: f64,
    /// Of what.
    #[serde(default)]
    pub unit: String,
}

/// A trial asked to end has to stop a driver, which may take ten seconds, and to unmount.
const PATIENCE: Duration = Duration::from_secs(25);

/// Beyond the limits of its phases: for servers that are set up, pools that are made and taken down.
const SLACK: Duration = Duration::from_secs(900);

/// Lines of its standard error that a failure may quote.
const LAST_LINES: usize = 40;

/// Runs `program trial SPEC` in a process group of its own. `Ok(Err(why))` is a trial that failed.
pub fn run(
    program: &Path,
    spec: &TrialSpec,
    position: u32,
    scratch_dir: &ScratchDir,
    interrupted: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<std::result::Result<Outcome, String>> {
    let path = scratch_dir.beside(position, "json");
    let text = serde_json::to_vec_pretty(spec).map_err(|e| Error::Trial(e.to_string()))?;
    private::write(&path, &text).map_err(Error::host("writing", &path))?;
    let mut child = Command::new(program)
        .arg("trial")
        .arg(&path)
        .env(PARENT, std::process::id().to_string())
        .env(MARK, scratch_dir.root())
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(Error::host("starting", program))?;
    let (out, lines) = listen(&mut child, &scratch_dir.beside(position, "log"))?;
    let limit: Duration =
        spec.phases.iter().map(|p| Duration::from_nanos(p.limit_ns)).sum::<Duration>() + SLACK;
    let mut last = VecDeque::new();
    let mut hear = |line: String| match serde_json::from_str::<Progress>(&line) {
        Ok(said) => progress(said),
        Err(_) if line.trim().is_empty() => {}
        Err(_) => {
            last.push_back(line);
            last.drain(..last.len().saturating_sub(LAST_LINES));
        }
    };
    let began = Instant::now();
    let status = loop {
        // A line, or time to look whether it has ended.
        if let Ok(line) = lines.recv_timeout(Duration::from_millis(100)) {
            hear(line);
        }
        if let Some(status) = child.try_wait().map_err(Error::host("waiting for", program))? {
            break status;
        }
        if interrupted() {
            end(&mut child);
            return Err(Error::Interrupted);
        }
        if began.elapsed() > limit {
            end(&mut child);
            return Ok(Err(format!(
                "it took longer than {} s, all its phases' limits together",
                limit.as_secs()
            )));
        }
    };
    // What it left running may hold the pipe: its last lines are there, an end of file need not be.
    while let Ok(line) = lines.recv_timeout(Duration::from_millis(200)) {
        hear(line);
    }
    if !status.success() {
        return Ok(Err(reason(&status.to_string(), last.make_contiguous())));
    }
    let Ok(out) = out.recv_timeout(Duration::from_secs(10)) else {
        return Ok(Err("it ended, and something that it started still holds its output".into()));
    };
    Ok(serde_json::from_slice(&out).map_err(|e| format!("what it printed is no outcome: {e}")))
}

/// Its standard output, once that is closed, and its standard error by line, which is also kept in a file.
fn listen(child: &mut Child, log: &Path) -> Result<(Receiver<Vec<u8>>, Receiver<String>)> {
    let mut stdout = child.stdout.take().expect("piped");
    let stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut log = private::create(log).map_err(Error::host("making", log))?;
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

/// Asks it to end, and makes it after a while.
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

/// What a person should read of a dead trial: its own last words without hints.
fn reason(status: &str, lines: &[String]) -> String {
    last_words(lines.iter().map(String::as_str))
        .unwrap_or_else(|| format!("it ended without a message ({status})"))
}
