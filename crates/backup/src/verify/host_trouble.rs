//! Checks that failed because of the host: they do not show that the backup is damaged.

use std::path::Path;

use poolwright_base::{end_of, regular, room};

use crate::manifest::{CheckVerdict, RestoreCheck};

/// The check that the restored files are those of the backup. It fails whatever the database reports afterwards.
pub(super) const FILES_CHECK: &str = "files";
/// With less space than this in the scratch directory, a program may have failed for lack of it, in bytes.
const MIN_ROOM: u64 = 16 << 20;
/// The part of the server's log that is looked at, in bytes.
const LOG_END: u64 = 1 << 20;
/// Messages, in lower case, that programs print if the host lacks a resource.
const WORDS: [&str; 18] = [
    "no space left on device",
    "disk quota exceeded",
    "database or disk is full",
    "disk is full",
    "errno: 28 ",
    "os error number 28",
    "out of memory",
    "cannot allocate memory",
    "could not map anonymous shared memory",
    "could not create shared memory segment",
    "could not fork",
    "resource temporarily unavailable",
    "too many open files",
    "error while loading shared libraries",
    "terminated by signal 9",
    "signal: 9 ",
    "signal: 15 ",
    "no answer within",
];
/// The exit status of a shell that does not find a program, or cannot run it.
const NOT_FOUND: [&str; 2] = ["exit status: 127", "exit status: 126"];

/// The state of the host before the checks.
pub(super) struct HostState {
    killed: Option<u64>,
}

impl HostState {
    /// The present state.
    pub(super) fn read() -> HostState {
        HostState { killed: killed_for_memory() }
    }

    /// The reason why failed checks are no evidence against the backup; `None` if they are, or none failed. `scratch` has the restored
    /// database, and `log` is that of its server.
    pub(super) fn cause(&self, checks: &[RestoreCheck], scratch: &Path, log: &Path) -> Option<String> {
        let failed: Vec<&RestoreCheck> =
            checks.iter().filter(|check| check.result == CheckVerdict::Failed).collect();
        if failed.is_empty() || failed.iter().any(|check| check.name == FILES_CHECK) {
            return None;
        }
        for check in &failed {
            let said = check.detail.as_deref().unwrap_or_default();
            if words_of_host(said) || NOT_FOUND.iter().any(|status| said.starts_with(status)) {
                return Some(format!("{}: {said}", check.name));
            }
        }
        // The log belongs to the owner of the database.
        let log = regular::open(log).map(|log| end_of(&log, LOG_END)).unwrap_or_default();
        if let Some(line) = log.lines().find(|line| words_of_host(line)) {
            return Some(format!("the server's log: {}", line.trim()));
        }
        if killed_for_memory() > self.killed {
            return Some("the kernel killed a process because memory was short".to_owned());
        }
        let free = room::available(scratch).ok().filter(|free| *free < MIN_ROOM);
        free.map(|_| "the file system of the scratch directory is full".to_owned())
    }
}

fn words_of_host(said: &str) -> bool {
    let said = said.to_lowercase();
    WORDS.iter().any(|words| said.contains(words))
}

/// How many processes the kernel has killed since its start because memory was short, in all control groups.
fn killed_for_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/vmstat").ok()?;
    text.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::{failed, passed};
    use super::*;

    #[test]
    fn only_what_the_host_caused_is_excused() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("server.log");
        let state = HostState { killed: killed_for_memory().map(|count| count + 1_000_000) };
        let cause = |checks: &[RestoreCheck]| state.cause(checks, dir.path(), &log);
        assert_eq!(cause(&[passed("start and recovery")]), None);
        let damaged = "exit status: 1: pg_dump: error: invalid page in block 40 of relation base/5/16384";
        let damaged = failed("pg_dumpall", damaged);
        assert_eq!(cause(std::slice::from_ref(&damaged)), None);
        for said in [
            "the server ended with exit status: 1: PANIC:  could not write to file \"pg_wal/x\": No space left on device",
            "the server ended with signal: 9 (SIGKILL): LOG:  starting",
            "exit status: 127: sh: 1: pg_check: not found",
            "exit status: 1: pg_dump: error: out of memory",
        ] {
            let why = cause(&[passed("files"), failed("start and recovery", said)]).unwrap();
            assert!(why.starts_with("start and recovery: ") && why.contains(said), "{why}");
        }
        let lost = failed(FILES_CHECK, "1 files with 1 bytes instead of 2 with 2: No space left on device");
        assert_eq!(cause(&[lost, failed("start", "out of memory")]), None, "the files are not those");
        std::fs::write(
            &log,
            "LOG:  begin\nLOG:  server process (PID 7) was terminated by signal 9: Killed\n",
        )
        .unwrap();
        assert!(cause(std::slice::from_ref(&damaged)).unwrap().contains("PID 7"));
        std::fs::write(&log, "").unwrap();
        let before = HostState { killed: killed_for_memory().and_then(|count| count.checked_sub(1)) };
        if before.killed.is_some() {
            assert!(before.cause(&[damaged], dir.path(), &log).unwrap().contains("memory"));
        }
    }
}
