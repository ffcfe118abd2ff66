//! A trial in a process of its own: an assertion in the engine, or a full disk, ends the trial and not the tool.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use poolwright_host::{Transient, room};

use crate::directory::Directory;
use crate::error::host;
use crate::result::Replay;
use crate::{Error, Result, Spec, TargetSpec};

/// How a trial learns who started it.
pub const PARENT: &str = "POOLWRIGHT_PARENT_PID";

/// How often a trial is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// Of so many looks one is at the room left, as long as there is much.
const SELDOM: u32 = 20;
/// A trial leaves so many bytes of its file system free, or a tenth where that is less.
const RESERVE: u64 = 1 << 30;

/// Runs `program trial SPEC` and reads its JSON. The child is killed when `interrupted` says so, when it has taken
/// `limit`, all of it counted, or when it has nearly used up its file system; and it dies with this process (it asks for that itself: see [`die_with_parent`]).
pub fn run(
    program: &Path,
    spec: &Spec,
    work: &Path,
    limit: Option<Duration>,
    interrupted: &dyn Fn() -> bool,
) -> Result<Replay> {
    let began = Instant::now();
    let mut guard = Guard::of(spec);
    let path = work.join("trial.json");
    spec.save(&path)?;
    let mut child = Command::new(program)
        .arg("trial")
        .arg(&path)
        .env(PARENT, std::process::id().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(host("starting", program))?;
    // For the end of this process by a second Ctrl-C: a killed trial cannot remove its directory.
    let _child = Transient::child(child.id());
    let _directory = match &spec.target {
        TargetSpec::Directory(parent) => Some(Directory::transient(parent)),
        TargetSpec::Engine(_) => None,
    };
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
        if let Some(status) = child.try_wait().map_err(host("waiting for", program))? {
            break status;
        }
        let late = limit.filter(|limit| began.elapsed() >= *limit).map(Error::TooLong);
        let stopped = interrupted().then_some(Error::Interrupted).or(late);
        if let Some(why) = stopped.or_else(|| guard.as_mut()?.overstepped()) {
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
    serde_json::from_slice(&out).map_err(|e| Error::Child(format!("its result does not parse: {e}")))
}

/// Keeps a trial from using up the file system that it writes to: others use it too, the database among them.
struct Guard<'a> {
    dir: &'a Path,
    /// Bytes that stay free.
    reserve: u64,
    /// How often it is not asked before the next look.
    pause: u32,
}

impl Guard<'_> {
    /// `None` where the host does not say how much room there is.
    fn of(spec: &Spec) -> Option<Guard<'_>> {
        let dir = match &spec.target {
            TargetSpec::Engine(options) => &options.scratch,
            TargetSpec::Directory(parent) => parent,
        };
        let reserve = RESERVE.min(room::available(dir).ok()? / 10);
        Some(Guard { dir, reserve, pause: 0 })
    }

    /// The error if too little is left. Looks seldom as long as there is much: the trial is measured meanwhile.
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

/// A process that was killed cannot remove its directory; a pool's file has no name by then.
fn remove_directory(spec: &Spec) {
    if let TargetSpec::Directory(parent) = &spec.target {
        Directory::remove_dead(parent);
    }
}

/// What a person should read of a dead child: its own last words without hints, or the assertion that ended it.
pub fn reason(status: &str, stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    if let Some(i) = lines.iter().position(|l| l.starts_with("ASSERT") || l.starts_with("VERIFY")) {
        let what: Vec<&str> = lines[i..].iter().take(2).copied().collect();
        return format!("the engine stopped on an assertion ({}); {status}", what.join(": "));
    }
    last_words(lines.iter().copied()).unwrap_or_else(|| status.to_owned())
}

/// The last line that a process said, without the program's name, empty lines and hints; `None` if it said nothing.
pub fn last_words<'a>(lines: impl DoubleEndedIterator<Item = &'a str>) -> Option<String> {
    let mut said = lines.rev().map(str::trim);
    let last = said.find(|line| !line.is_empty() && !line.starts_with("hint: "))?;
    Some(last.trim_start_matches("poolwright: ").to_owned())
}

/// Called first thing by a trial process: it is killed when its parent dies, so that nothing is left running.
pub fn die_with_parent() {
    heed_parent(nix::sys::signal::Signal::SIGKILL);
}

/// The same for a trial that has something to clear up first: SIGTERM.
pub fn end_with_parent() {
    heed_parent(nix::sys::signal::Signal::SIGTERM);
}

fn heed_parent(signal: nix::sys::signal::Signal) {
    let _ = nix::sys::prctl::set_pdeathsig(signal);
    // The parent may have died before the line above; by hand there is none to wait for.
    let expected = std::env::var(PARENT).ok().and_then(|pid| pid.parse::<i32>().ok());
    if expected.is_some_and(|pid| nix::unistd::getppid().as_raw() != pid) {
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
        let said = reason("signal: 6", text);
        assert!(
            said.contains("module/zfs/x.c:1") && said.contains("a == b") && said.contains("signal: 6"),
            "{said}"
        );
        assert_eq!(reason("exit status: 1", "poolwright: no room\n"), "no room");
        assert_eq!(reason("exit status: 1", "poolwright: no room\nhint: make some\n"), "no room");
        assert_eq!(reason("signal: 9", ""), "signal: 9");
    }
}
