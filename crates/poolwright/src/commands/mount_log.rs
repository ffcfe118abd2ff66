//! The log of a mount with `--background`: one file for each pool, below the state directory.
//!
//! What the mount process prints goes through a pipe to a process of its own (`poolwright mount-log`, hidden), which puts
//! the time and the mount process's id before each line. So the last words of a process that is ended by an assertion of
//! the engine are logged too. A log that grows beyond [`LARGEST`] is kept as `POOL.log.1`, in place of an older one.
//!
//! `pool export` removes the logs of its pool if they hold only routine lines, which begin with `note: `. A log with other
//! lines is kept; that of a pool that is not known is removed by the next export when it is [`OLDEST`] old.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use poolwright_host::private;
use poolwright_tune::machine::rfc3339;
use poolwright_userpool::registry;

use crate::commands::pool_connection::parse_pool;

/// Bytes of a log before it is put aside.
const LARGEST: u64 = 1 << 20;
/// How long the log of a pool that is not known is kept.
const OLDEST: Duration = Duration::from_secs(30 * 24 * 3600);
/// The beginning of what a mount process says when all is well.
const ROUTINE: &str = "note: ";

/// Write standard input into a pool's log, with the time before each line
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The pool
    #[arg(value_parser = parse_pool)]
    pool: String,

    /// The process that prints the lines
    pid: u32,
}

/// Logs until the end of standard input; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    detach()?;
    let log = Log::of(&args.pool, args.pid);
    let mut input = BufReader::new(std::io::stdin());
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
        // A disk that is full must not end this: the mount process would wait for a reader.
        let _ = log.write(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(0)
}

/// Leaves the terminal's session and the directory it was started in.
pub fn detach() -> anyhow::Result<()> {
    rustix::process::setsid().context("leaving the terminal's session")?;
    std::env::set_current_dir("/").context("changing to /")
}

fn dir() -> PathBuf {
    poolwright_userpool::state_dir().join("log")
}

/// A pool's log. It is open only while a line is written, so that it is never in the way of an unmount, and can be removed
/// at any time.
pub struct Log {
    path: PathBuf,
    largest: u64,
    pid: u32,
}

impl Log {
    /// The log of this pool, for what this process prints.
    pub fn of(pool: &str, pid: u32) -> Log {
        Log { path: dir().join(format!("{pool}.log")), largest: LARGEST, pid }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the log, if there is none.
    pub fn create(&self) -> anyhow::Result<()> {
        self.open(true).map(drop)
    }

    /// Adds lines, as they were printed. Routine lines do not make a log: `pool export` may have removed it before the last
    /// of them was read.
    pub fn write(&self, text: &str) -> anyhow::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let stamp = |line: &str| format!("{} [{}] {}\n", rfc3339(now), self.pid, message(line));
        let lines: String = text.lines().map(stamp).collect();
        let create = !text.lines().all(|line| message(line).starts_with(ROUTINE));
        if !create && !self.path.exists() {
            return Ok(());
        }
        let written = self.open(create)?.write_all(lines.as_bytes());
        written.with_context(|| format!("writing the log {}", self.path.display()))
    }

    /// The file to append to; one that has grown too large is put aside first.
    fn open(&self, create: bool) -> anyhow::Result<File> {
        self.try_open(create).with_context(|| format!("opening the log {}", self.path.display()))
    }

    fn try_open(&self, create: bool) -> std::io::Result<File> {
        if let Some(dir) = self.path.parent() {
            private::OwnDir::open(dir)?;
        }
        let large = fs::metadata(&self.path).is_ok_and(|meta| meta.len() >= self.largest);
        if large {
            fs::rename(&self.path, older(&self.path))?;
        }
        OpenOptions::new().create(create || large).append(true).mode(private::FILE).open(&self.path)
    }
}

/// A line as it was printed, without the program's name.
fn message(line: &str) -> &str {
    line.strip_prefix("poolwright: ").unwrap_or(line)
}

/// Where a log is put aside.
fn older(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

/// Removes the logs of a pool that was exported if they hold only routine lines, and old ones of pools that are not known.
/// The log, if it is kept.
pub fn remove_routine(pool: &str) -> Option<PathBuf> {
    sweep(&dir(), SystemTime::now(), |pool| registry::find(pool).is_ok_and(|entry| entry.is_none()));
    remove_routine_at(&Log::of(pool, 0).path)
}

fn remove_routine_at(path: &Path) -> Option<PathBuf> {
    let both = [path.to_owned(), older(path)];
    if let Some(kept) = both.iter().find(|path| !is_routine(path)) {
        return Some(kept.clone());
    }
    both.iter().for_each(|path| drop(fs::remove_file(path)));
    None
}

/// Whether all lines are routine; also where there is no such file.
fn is_routine(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return !path.exists() };
    let routine = |line: std::io::Result<Vec<u8>>| {
        line.is_ok_and(|line| {
            let text = String::from_utf8_lossy(&line);
            // time, process, words
            text.splitn(3, ' ').nth(2).is_some_and(|words| words.starts_with(ROUTINE))
        })
    };
    BufReader::new(file).split(b'\n').all(routine)
}

fn sweep(dir: &Path, now: SystemTime, is_unknown: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(pool) = name.strip_suffix(".log").or_else(|| name.strip_suffix(".log.1")) else { continue };
        let modified = entry.metadata().and_then(|meta| meta.modified());
        let old = modified.is_ok_and(|at| now.duration_since(at).is_ok_and(|age| age > OLDEST));
        if old && is_unknown(pool) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(dir: &Path, largest: u64) -> Log {
        Log { path: dir.join("log/tank.log"), largest, pid: 7 }
    }

    #[test]
    fn every_line_has_its_time_and_process() {
        let dir = tempfile::tempdir().unwrap();
        let log = log(dir.path(), 1 << 20);
        log.create().unwrap();
        log.write("poolwright: note: tank mounted on /m\n").unwrap();
        log.write("ASSERT at x.c:1\nhint: y").unwrap();
        let text = fs::read_to_string(log.path()).unwrap();
        let lines: Vec<(&str, &str)> = text.lines().map(|line| line.split_once(" [7] ").unwrap()).collect();
        let words: Vec<&str> = lines.iter().map(|(_, words)| *words).collect();
        assert_eq!(words, ["note: tank mounted on /m", "ASSERT at x.c:1", "hint: y"]);
        for (time, _) in lines {
            assert!(time.len() == 20 && time.starts_with("20") && time.ends_with('Z'), "{time}");
        }
    }

    #[test]
    fn a_large_log_is_put_aside_once() {
        let dir = tempfile::tempdir().unwrap();
        let log = log(dir.path(), 1000);
        for n in 0..100 {
            log.write(&format!("line {n:03}, and words to fill it")).unwrap();
        }
        let sizes: Vec<u64> = [log.path().to_owned(), older(log.path())]
            .iter()
            .map(|p| fs::metadata(p).unwrap().len())
            .collect();
        assert!(sizes.iter().all(|size| (1..1100).contains(size)), "{sizes:?}");
        assert_eq!(fs::read_dir(dir.path().join("log")).unwrap().count(), 2);
        assert!(fs::read_to_string(log.path()).unwrap().contains("line 099"));
    }

    #[test]
    fn only_routine_logs_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let log = log(dir.path(), 1 << 20);
        assert_eq!(remove_routine_at(log.path()), None, "there is none");
        log.create().unwrap();
        log.write("poolwright: note: tank mounted on /m\npoolwright: note: tank exported").unwrap();
        fs::copy(log.path(), older(log.path())).unwrap();
        assert_eq!(remove_routine_at(log.path()), None);
        assert!(!log.path().exists() && !older(log.path()).exists());
        log.write("poolwright: note: tank exported").unwrap();
        assert!(!log.path().exists(), "a routine line that comes late does not make it again");
        log.write("ASSERT at x.c:1\nhint: y").unwrap();
        fs::write(older(log.path()), "2026-01-01T00:00:00Z [7] note: tank mounted on /m\n").unwrap();
        fs::write(log.path(), "2026-01-01T00:00:00Z [7] ASSERT at x.c:1\n").unwrap();
        assert_eq!(remove_routine_at(log.path()).as_deref(), Some(log.path()));
        assert!(log.path().exists() && older(log.path()).exists());
    }

    #[test]
    fn old_logs_of_unknown_pools_go() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["known.log", "gone.log", "gone.log.1", "other.txt"] {
            fs::write(dir.path().join(name), "x\n").unwrap();
        }
        let left = || {
            let mut names: Vec<_> = fs::read_dir(dir.path())
                .unwrap()
                .map(|e| e.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        let unknown = |pool: &str| pool != "known";
        sweep(dir.path(), SystemTime::now() + OLDEST / 2, unknown);
        assert_eq!(left().len(), 4);
        sweep(dir.path(), SystemTime::now() + OLDEST * 2, unknown);
        assert_eq!(left(), ["known.log", "other.txt"]);
    }
}
