//! The journal of a plan: the run in progress and its state. It survives a crash at any point.
//!
//! Each plan has a directory with the file `journal.jsonl` and the records of the copies ([`CopyRecords`](crate::rewrite::CopyRecords)).
//! Before each step whose completion the datasets do not show, an entry is appended to the file and flushed. The pool is synced before an
//! entry records a completed step, so the journal is never ahead of the pool.

mod entry;

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use poolwright_base::private::{self, OwnDir};
use poolwright_base::{cannot, quoted};
use poolwright_dbms::service::Downtime;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::error::refused;
use crate::work::{Direction, PlanWork};
use crate::{Error, Result};
use entry::{Entry, add, parse};

/// The file with the entries.
const FILE: &str = "journal.jsonl";
/// The file that records that the database was started after the process that had stopped it was killed.
const RESTARTED: &str = "restarted";

/// How far a run is. Each phase includes the earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JournalPhase {
    /// Properties may have been changed, and there may be copies of files.
    Copying,
    /// The database was stopped, and there may be snapshots.
    Stopped,
    /// Copies may have been renamed over files.
    Committing,
    /// All files are rewritten.
    Committed,
    /// Everything is done, and the database was started again.
    Done,
}

/// The state of a plan according to its journal.
#[derive(Clone, Debug)]
pub struct JournalState {
    /// The work that is done or undone.
    pub work: PlanWork,
    /// The last direction.
    pub direction: Direction,
    /// How far it is.
    pub phase: JournalPhase,
    /// The state of all files after the last commit.
    pub committed: Option<String>,
    /// Whether the database was stopped and not started again.
    pub is_stopped: bool,
    /// Whether the snapshots were destroyed on request.
    pub is_discarded: bool,
}

impl JournalState {
    /// Whether the plan is applied.
    pub fn is_applied(&self) -> bool {
        (self.direction, self.phase) == (Direction::Apply, JournalPhase::Done)
    }

    /// Whether the plan was undone, so that nothing is left of it.
    pub fn is_undone(&self) -> bool {
        (self.direction, self.phase) == (Direction::Undo, JournalPhase::Done)
    }
}

/// The journal of one plan, locked for this process.
#[derive(Debug)]
pub struct Journal {
    /// The directory of all journals, and that of this one.
    journals: PathBuf,
    dir: PathBuf,
    file: File,
    state: Option<JournalState>,
    lock: File,
}

impl Journal {
    /// Opens the journal of a plan in a directory of journals, and takes the lock of this directory.
    ///
    /// # Errors
    /// [`Error::Refused`] if another process has the lock; [`Error::Journal`] for a damaged journal; the host's errors.
    pub fn open(journals: &Path, plan: &str) -> Result<Journal> {
        let lock = lock(journals)?;
        let dir = journals.join(plan);
        let own = OwnDir::open(&dir).map_err(cannot("use", &dir))?;
        let file = own.file(FILE).map_err(cannot("open", &dir))?;
        let path = dir.join(FILE);
        let text = std::fs::read(&path).map_err(cannot("read", &path))?;
        let whole = whole_lines(&text);
        file.set_len(whole.len() as u64).map_err(cannot("truncate", &path))?;
        let state = parse(&path, whole)?;
        let mut journal = Journal { journals: journals.to_owned(), dir, file, state, lock };
        if Downtime::take_note(&journal.dir.join(RESTARTED)) && journal.state.is_some() {
            journal.enter_started()?;
        }
        Ok(journal)
    }

    /// The means to stop and start the plan's database.
    ///
    /// # Errors
    /// The host's errors.
    pub fn downtime(&self) -> Result<Downtime> {
        self.downtime_with_note(RESTARTED)
    }

    /// As [`Journal::downtime`], with a file of another name in the journal's directory, which records that the database was started after
    /// the process that had stopped it was killed.
    ///
    /// # Errors
    /// The host's errors.
    pub fn downtime_with_note(&self, note: &str) -> Result<Downtime> {
        let lock = self.lock.try_clone().map_err(cannot("use", &self.dir))?;
        Ok(Downtime::new(lock, self.dir.join(note)))
    }

    /// The plan's state; `None` if it was never applied.
    pub fn state(&self) -> Option<&JournalState> {
        self.state.as_ref()
    }

    /// Another plan that is being applied or undone to one of the datasets, and was interrupted.
    ///
    /// # Errors
    /// As [`all`].
    pub fn unfinished_other(&self, work: &PlanWork) -> Result<Option<JournalState>> {
        let has_common = |of: &JournalState| {
            of.work.datasets.iter().any(|a| work.datasets.iter().any(|b| a.dataset == b.dataset))
        };
        let others = all(&self.journals)?.into_iter().filter(|of| of.work.plan != work.plan);
        Ok(others.filter(|of| of.phase != JournalPhase::Done).find(has_common))
    }

    /// Begins to apply a plan.
    ///
    /// # Errors
    /// The host's errors.
    pub fn begin(&mut self, work: PlanWork) -> Result<()> {
        for direction in [Direction::Apply, Direction::Undo] {
            for at in 0..work.datasets.len() {
                // Inode numbers of an earlier run may belong to other files now.
                let _ = std::fs::remove_file(self.records(direction, at));
                let _ = std::fs::remove_file(self.directories(direction, at));
            }
        }
        self.append(&Entry::begin(work))
    }

    /// Begins a phase.
    ///
    /// # Errors
    /// The host's errors.
    pub fn enter(&mut self, direction: Direction, phase: JournalPhase) -> Result<()> {
        self.append(&Entry::phase(direction, phase))
    }

    /// Begins the phase [`JournalPhase::Stopped`]. `stopped`: the database was running, and is to be started again.
    ///
    /// # Errors
    /// The host's errors.
    pub fn enter_stopped(&mut self, direction: Direction, stopped_now: bool) -> Result<()> {
        let mut entry = Entry::phase(direction, JournalPhase::Stopped);
        if let Entry::Phase { stopped, .. } = &mut entry {
            *stopped = stopped_now;
        }
        self.append(&entry)
    }

    /// Notes that the database that was stopped was started again, in the present phase.
    ///
    /// # Errors
    /// The host's errors.
    pub fn enter_started(&mut self) -> Result<()> {
        let Some(state) = &self.state else { return Ok(()) };
        let mut entry = Entry::phase(state.direction, state.phase);
        if let Entry::Phase { started, .. } = &mut entry {
            *started = true;
        }
        self.append(&entry)
    }

    /// Begins the phase [`JournalPhase::Committed`]. `files`: the state of all files, if the snapshots have the same content.
    ///
    /// # Errors
    /// The host's errors.
    pub fn enter_committed(&mut self, direction: Direction, files: Option<String>) -> Result<()> {
        let mut entry = Entry::phase(direction, JournalPhase::Committed);
        if let Entry::Phase { state, .. } = &mut entry {
            *state = files;
        }
        self.append(&entry)
    }

    /// Notes that the snapshots were destroyed on request.
    ///
    /// # Errors
    /// The host's errors.
    pub fn discard(&mut self) -> Result<()> {
        self.append(&Entry::Discarded { at: poolwright_base::time::now() })
    }

    /// The file with the records of the copies in one of the datasets.
    pub fn records(&self, direction: Direction, dataset: usize) -> PathBuf {
        self.dir.join(format!("{}-{dataset}.jsonl", direction.name()))
    }

    /// The file with the times of a dataset's mount point before the hidden directory for directories that move was created.
    pub fn moving_times(&self, dataset: usize) -> PathBuf {
        self.dir.join(format!("moving-{dataset}.times"))
    }

    /// The file with the times of the directories of one of the datasets.
    pub fn directories(&self, direction: Direction, dataset: usize) -> PathBuf {
        self.dir.join(format!("{}-{dataset}.directories", direction.name()))
    }

    fn append(&mut self, entry: &Entry) -> Result<()> {
        let path = self.dir.join(FILE);
        let mut line = serde_json::to_vec(entry)
            .map_err(|why| Error::Journal { path: path.clone(), why: why.to_string() })?;
        line.push(b'\n');
        let length = self.file.metadata().map_err(cannot("inspect", &path))?.len();
        if let Err(cause) = self.file.write_all_at(&line, length).and_then(|()| self.file.sync_all()) {
            // A part of a line would make the next one unreadable.
            let _ = self.file.set_len(length);
            return Err(cannot("write", &path)(cause).into());
        }
        // The name of a new file must be on the device too.
        let synced = File::open(&self.dir).and_then(|dir| dir.sync_all());
        synced.map_err(cannot("write", &self.dir))?;
        add(&mut self.state, entry.clone());
        Ok(())
    }
}

/// The work of a plan whose last run was interrupted; `None` if it was not. Takes no lock.
///
/// # Errors
/// [`Error::Journal`] for a damaged journal; the host's errors.
pub fn interrupted(journals: &Path, plan: &str) -> Result<Option<PlanWork>> {
    let state = read(&journals.join(plan))?;
    Ok(state.filter(|state| state.phase != JournalPhase::Done).map(|state| state.work))
}

/// The states of all plans in a directory of journals.
///
/// # Errors
/// [`Error::Journal`] for a damaged journal; the host's errors.
pub fn all(journals: &Path) -> Result<Vec<JournalState>> {
    let mut states = Vec::new();
    for entry in std::fs::read_dir(journals).map_err(cannot("list", journals))? {
        states.extend(read(&entry.map_err(cannot("list", journals))?.path())?);
    }
    Ok(states)
}

/// The state of the plan whose journal is in a directory; `None` if it has none.
fn read(dir: &Path) -> Result<Option<JournalState>> {
    let path = dir.join(FILE);
    match std::fs::read(&path) {
        // The lock is a file.
        Err(cause) if matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        text => {
            let text = text.map_err(cannot("read", &path))?;
            parse(&path, whole_lines(&text))
        }
    }
}

/// The text without the last line, if a crash has cut it off. Nothing was done after it.
fn whole_lines(text: &[u8]) -> &[u8] {
    &text[..text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)]
}

/// How long the lock of a process that has ended may last. A program that it had just started holds the lock, too, until it runs.
const RELEASE_TIME: Duration = Duration::from_secs(5);

/// The ID of the process that has taken the lock last; empty if there is none.
fn holder_of(lock: &Path) -> String {
    std::fs::read_to_string(lock).unwrap_or_default().trim().to_owned()
}

/// Takes the lock, unless a running process has it.
fn is_locked_in_time(lock: &File, path: &Path) -> bool {
    let end = Instant::now() + RELEASE_TIME;
    while flock(lock.as_fd(), FlockOperation::NonBlockingLockExclusive).is_err() {
        let holder = holder_of(path).parse().ok();
        if holder.is_none_or(poolwright_base::process::is_running) || Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// Takes the lock of all journals.
fn lock(journals: &Path) -> Result<File> {
    private::make_dirs(journals).map_err(cannot("create", journals))?;
    let own = OwnDir::open(journals).map_err(cannot("use", journals))?;
    let path = journals.join("lock");
    let lock = own.file("lock").map_err(cannot("open", &path))?;
    if !is_locked_in_time(&lock, &path) {
        let holder = holder_of(&path);
        let process = if holder.is_empty() { String::new() } else { format!(" (process {holder})") };
        return refused(format!(
            "another plan is being applied or undone{process}; it has locked {}\nhint: wait until it ends",
            quoted(&path)
        ));
    }
    let written =
        lock.set_len(0).and_then(|()| (&lock).write_all(format!("{}\n", std::process::id()).as_bytes()));
    written.map_err(cannot("write", &path))?;
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::DatasetWork;

    fn work() -> PlanWork {
        let datasets = vec![DatasetWork {
            dataset: "tank/db".to_owned(),
            mountpoint: "/db".into(),
            changes: Vec::new(),
            relocations: Vec::new(),
            has_exact_block_sizes: true,
        }];
        PlanWork { plan: "0123".to_owned(), path: "/plan".into(), directory: "/db".into(), datasets }
    }

    #[test]
    fn the_lock_of_a_process_that_has_ended_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        drop(lock(dir.path()).unwrap());
        // A program that the process had started has the file open for another moment.
        let path = dir.path().join("lock");
        std::fs::write(&path, "999999999\n").unwrap();
        let other = File::open(&path).unwrap();
        flock(other.as_fd(), FlockOperation::NonBlockingLockExclusive).unwrap();
        let waiting = std::thread::spawn({
            let dir = dir.path().to_owned();
            move || lock(&dir).map(drop)
        });
        std::thread::sleep(Duration::from_millis(100));
        drop(other);
        waiting.join().unwrap().unwrap();
        // A running process keeps it.
        let _own = lock(dir.path()).unwrap();
        assert!(lock(dir.path()).unwrap_err().is_refusal());
    }

    #[test]
    fn entries_survive_and_a_cut_off_one_is_ignored() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(dir.path(), "0123").unwrap();
        assert!(journal.state().is_none());
        journal.begin(work()).unwrap();
        std::fs::write(journal.records(Direction::Apply, 0), "old").unwrap();
        journal.enter_stopped(Direction::Apply, true).unwrap();
        journal.enter_committed(Direction::Apply, Some("files".to_owned())).unwrap();
        assert!(journal.state().unwrap().is_stopped);
        journal.enter_started().unwrap();
        let state = journal.state().unwrap();
        assert_eq!((state.is_stopped, state.phase), (false, JournalPhase::Committed));
        journal.enter_stopped(Direction::Apply, true).unwrap();
        drop(journal);

        // As a guardian leaves it.
        std::fs::write(dir.path().join("0123").join(RESTARTED), "").unwrap();
        drop(Journal::open(dir.path(), "0123").unwrap());
        let mut journal = Journal::open(dir.path(), "0123").unwrap();
        assert!(!journal.state().unwrap().is_stopped && !dir.path().join("0123").join(RESTARTED).exists());
        journal.enter(Direction::Apply, JournalPhase::Done).unwrap();
        drop(journal);

        let path = dir.path().join("0123").join(FILE);
        let mut text = std::fs::read(&path).unwrap();
        text.extend_from_slice(b"{\"entry\":\"disc");
        std::fs::write(&path, &text).unwrap();
        let mut journal = Journal::open(dir.path(), "0123").unwrap();
        let state = journal.state().unwrap();
        assert!(state.is_applied() && !state.is_undone() && !state.is_discarded && !state.is_stopped);
        assert_eq!((state.committed.as_deref(), &state.work), (Some("files"), &work()));
        journal.discard().unwrap();
        let states = all(dir.path()).unwrap();
        assert!(states.len() == 1 && states[0].is_discarded);
        journal.begin(work()).unwrap();
        assert!(!journal.records(Direction::Apply, 0).exists(), "records of an earlier run are removed");
        assert_eq!(journal.state().unwrap().phase, JournalPhase::Copying);
        assert!(journal.state().unwrap().committed.is_none());
    }

    #[test]
    fn one_process_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path(), "0123").unwrap();
        let refused = Journal::open(dir.path(), "4567").unwrap_err();
        assert!(refused.is_refusal());
        assert!(refused.to_string().contains(&format!("process {}", std::process::id())), "{refused}");
        drop(journal);
        Journal::open(dir.path(), "4567").unwrap();
    }

    #[test]
    fn damaged_and_newer_journals() {
        let dir = tempfile::tempdir().unwrap();
        drop(Journal::open(dir.path(), "0123").unwrap());
        let path = dir.path().join("0123").join(FILE);
        for (text, expected) in [("nonsense\n", "is damaged"), ("{\"entry\":\"other\"}\n", "is damaged")] {
            std::fs::write(&path, text).unwrap();
            let error = Journal::open(dir.path(), "0123").unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            // Also for a run of another plan: this one may have been interrupted on the same dataset.
            let other = Journal::open(dir.path(), "4567").unwrap();
            assert!(matches!(other.unfinished_other(&work()), Err(Error::Journal { .. })));
            assert!(matches!(interrupted(dir.path(), "0123"), Err(Error::Journal { .. })));
        }
        let newer = Entry::Begin {
            version: entry::VERSION + 1,
            creator: "next".to_owned(),
            at: String::new(),
            work: work(),
        };
        std::fs::write(&path, serde_json::to_string(&newer).unwrap() + "\n").unwrap();
        assert!(
            Journal::open(dir.path(), "0123").unwrap_err().to_string().contains("newer than this release")
        );
    }
}
