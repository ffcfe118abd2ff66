//! The log of a pool server in the background: one file for each pool, below the state directory.
//!
//! The server's messages go through a pipe to another process, which adds the time and the server's process ID to each line.
//! So the last messages are logged even if an assertion of the engine ends the server. A log that grows beyond [`LARGEST`]
//! is renamed to `POOL.log.1`, which replaces an older one.
//!
//! After an export, [`remove_routine_logs`] removes the logs of the pool if they have only routine lines, which begin with
//! `note: `. It keeps a log with other lines, and removes the log of an unregistered pool once it is [`OLDEST`] old.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use poolwright_base::time::rfc3339;
use poolwright_base::{cannot, private};
use poolwright_zfs::user::{registry, state_dir};

use crate::server::error::host;
use crate::server::{Error, Result};

/// Bytes of a log before it is renamed.
const LARGEST: u64 = 1 << 20;
/// How long the log of an unknown pool is kept.
const OLDEST: Duration = Duration::from_secs(30 * 24 * 3600);
/// The beginning of routine messages.
const ROUTINE: &str = "note: ";

/// Makes this process independent of its terminal: leaves the terminal's session and the working directory.
///
/// # Errors
/// If a system call fails.
pub fn detach() -> Result<()> {
    rustix::process::setsid().map_err(host("leave the terminal's session"))?;
    std::env::set_current_dir("/").map_err(host("change to the directory /"))
}

fn dir() -> PathBuf {
    state_dir().join("log")
}

/// A pool's log. The file is open only while a line is written: so it does not keep a file system busy, and can be removed at
/// any time.
#[derive(Clone, Debug)]
pub struct LogFile {
    path: PathBuf,
    largest: u64,
    pid: u32,
}

impl LogFile {
    /// The log of this pool, for messages of the process `pid`.
    pub fn of(pool: &str, pid: u32) -> LogFile {
        LogFile { path: dir().join(format!("{pool}.log")), largest: LARGEST, pid }
    }

    /// Creates the log if it does not exist.
    ///
    /// # Errors
    /// If the file or its directory cannot be created.
    pub fn create(&self) -> Result<()> {
        self.open(true).map(drop).map_err(|why| self.error(why))
    }

    /// Adds printed lines. Routine lines do not create the log: [`remove_routine_logs`] may have removed it before the last of
    /// them was read.
    ///
    /// # Errors
    /// If the log cannot be opened or written.
    pub fn write(&self, text: &str) -> Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let stamp = |line: &str| format!("{} [{}] {}\n", rfc3339(now), self.pid, message(line));
        let lines: String = text.lines().map(stamp).collect();
        let create = !text.lines().all(|line| message(line).starts_with(ROUTINE));
        if !create && !self.path.exists() {
            return Ok(());
        }
        let written = self.open(create).and_then(|mut file| file.write_all(lines.as_bytes()));
        written.map_err(|why| self.error(why))
    }

    /// Adds each line of `input` until its end.
    pub fn write_lines(&self, mut input: impl BufRead) {
        let mut line = Vec::new();
        while input.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
            // Continues on an error such as a full disk: the server would wait for a reader of its pipe.
            let _ = self.write(&String::from_utf8_lossy(&line));
            line.clear();
        }
    }

    fn error(&self, why: std::io::Error) -> Error {
        cannot("write the log", &self.path)(why).into()
    }

    /// Opens the file to append to. Renames a file that has grown too large first.
    fn open(&self, create: bool) -> std::io::Result<File> {
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

/// A printed line without the program's name.
fn message(line: &str) -> &str {
    line.strip_prefix("poolwright: ").unwrap_or(line)
}

/// The name that a large log gets.
fn older(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

/// Removes the logs of an exported pool if they have only routine lines, and old logs of unknown pools. Returns the path of a
/// log that is kept.
pub fn remove_routine_logs(pool: &str) -> Option<PathBuf> {
    sweep(&dir(), SystemTime::now(), |pool| registry::find(pool).is_ok_and(|entry| entry.is_none()));
    remove_routine_at(&LogFile::of(pool, 0).path)
}

fn remove_routine_at(path: &Path) -> Option<PathBuf> {
    let both = [path.to_owned(), older(path)];
    if let Some(kept) = both.iter().find(|path| !is_routine(path)) {
        return Some(kept.clone());
    }
    both.iter().for_each(|path| drop(fs::remove_file(path)));
    None
}

/// Whether all lines are routine. True if the file does not exist.
fn is_routine(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return !path.exists() };
    let routine = |line: std::io::Result<Vec<u8>>| {
        line.is_ok_and(|line| {
            let text = String::from_utf8_lossy(&line);
            // time, process, message
            text.splitn(3, ' ').nth(2).is_some_and(|message| message.starts_with(ROUTINE))
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

    fn log(dir: &Path, largest: u64) -> LogFile {
        LogFile { path: dir.join("log/tank.log"), largest, pid: 7 }
    }

    #[test]
    fn every_line_has_its_time_and_process() {
        let dir = tempfile::tempdir().unwrap();
        let log = log(dir.path(), 1 << 20);
        log.create().unwrap();
        log.write("poolwright: note: tank mounted on /m\n").unwrap();
        log.write("ASSERT at x.c:1\nhint: y").unwrap();
        let text = fs::read_to_string(&log.path).unwrap();
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
        let sizes: Vec<u64> =
            [log.path.clone(), older(&log.path)].iter().map(|p| fs::metadata(p).unwrap().len()).collect();
        assert!(sizes.iter().all(|size| (1..1100).contains(size)), "{sizes:?}");
        assert_eq!(fs::read_dir(dir.path().join("log")).unwrap().count(), 2);
        assert!(fs::read_to_string(&log.path).unwrap().contains("line 099"));
    }

    #[test]
    fn only_routine_logs_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let log = log(dir.path(), 1 << 20);
        assert_eq!(remove_routine_at(&log.path), None, "no log exists");
        log.create().unwrap();
        log.write("poolwright: note: tank mounted on /m\npoolwright: note: tank exported").unwrap();
        fs::copy(&log.path, older(&log.path)).unwrap();
        assert_eq!(remove_routine_at(&log.path), None);
        assert!(!log.path.exists() && !older(&log.path).exists());
        log.write("poolwright: note: tank exported").unwrap();
        assert!(!log.path.exists(), "a late routine line does not create it again");
        log.write("ASSERT at x.c:1\nhint: y").unwrap();
        fs::write(older(&log.path), "2026-01-01T00:00:00Z [7] note: tank mounted on /m\n").unwrap();
        fs::write(&log.path, "2026-01-01T00:00:00Z [7] ASSERT at x.c:1\n").unwrap();
        assert_eq!(remove_routine_at(&log.path).as_ref(), Some(&log.path));
        assert!(log.path.exists() && older(&log.path).exists());
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
