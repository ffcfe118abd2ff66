//! A directory that the nodes of a cluster share: the tasks of a run, the nodes that have claimed them, and the results.
//!
//! | file | contents |
//! | --- | --- |
//! | `run.json` | the run and its tasks; a task is the missing trials of a block, which are compared with each other |
//! | `queued/7` | task 7 is free |
//! | `claimed/7@node1` | node1 runs it, and updates the file's time while it does |
//! | `done/7` | it has ended |
//! | `results/7-2.json` | the result of the third trial of task 7 |
//! | `nodes/node1.json` | facts about a node |
//!
//! A node claims a task by renaming its file, which succeeds for only one node. A claim whose file is older than the lease is lost: another
//! node may rename it. A result is added by a hard link, which fails if a result exists, so each trial has one result, even if a node that
//! was cut off returns. Times are those of the file system, so the nodes' clocks do not matter.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, SystemTime};

use poolwright_base::{cannot, private, quoted};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::trials::Block;
use crate::store::{Run, Store, Trial};
use crate::{Error, Result};

const QUEUED: &str = "queued";
const CLAIMED: &str = "claimed";
const DONE: &str = "done";
const RESULTS: &str = "results";
const NODES: &str = "nodes";
const RUN: &str = "run.json";

/// How often a node that waits for a task checks it.
const POLL: Duration = Duration::from_secs(1);

/// The contents of `run.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SharedRun {
    /// The run. Its `host` is `shared DIR`.
    pub run: Run,
    /// Names of the studies that it includes; an empty list means all.
    pub only: Vec<String>,
    /// A claim that is not renewed for so long is lost, in seconds.
    pub lease_s: u64,
    /// The trials of each task, in the order in which they run.
    pub tasks: Vec<Block>,
}

/// Number of tasks by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounts {
    /// No node has claimed them.
    pub queued: usize,
    /// A node runs them.
    pub claimed: usize,
    /// They have ended.
    pub done: usize,
}

/// A directory that nodes share.
#[derive(Clone, Debug)]
pub struct SharedDir {
    path: PathBuf,
    /// Its run and tasks.
    pub shared: SharedRun,
}

impl SharedDir {
    /// Opens a directory; `None` if it has no run.
    ///
    /// # Errors
    /// The host's errors; [`Error::Usage`] if `run.json` is invalid.
    pub fn open(path: &Path) -> Result<Option<SharedDir>> {
        let file = path.join(RUN);
        let shared = read(&file)?;
        Ok(shared.map(|shared| SharedDir { path: path.to_owned(), shared }))
    }

    /// Writes a run and its tasks into a directory, replacing the tasks there.
    ///
    /// # Errors
    /// The host's errors.
    pub fn write(path: &Path, shared: SharedRun) -> Result<SharedDir> {
        for name in [QUEUED, CLAIMED, DONE, RESULTS, NODES] {
            let dir = path.join(name);
            private::make_dirs(&dir).map_err(cannot("create", &dir))?;
        }
        // No node finds a task before `run.json` is complete.
        for name in [QUEUED, CLAIMED, DONE, RESULTS] {
            for entry in names(&path.join(name))? {
                remove(&path.join(name).join(entry))?;
            }
        }
        let dir = SharedDir { path: path.to_owned(), shared };
        dir.put(&path.join(RUN), &dir.shared)?;
        for task in 0..dir.shared.tasks.len() {
            let file = dir.at(QUEUED, &task.to_string());
            private::create_new(&file).map_err(cannot("create", &file))?;
        }
        Ok(dir)
    }

    fn at(&self, kind: &str, name: &str) -> PathBuf {
        self.path.join(kind).join(name)
    }

    fn lease(&self) -> Duration {
        Duration::from_secs(self.shared.lease_s)
    }

    /// Writes a file under another name and renames it.
    fn put(&self, path: &Path, value: &impl Serialize) -> Result<()> {
        let part = write_part(path, value)?;
        Ok(std::fs::rename(&part, path).map_err(cannot("rename", &part))?)
    }

    /// Writes what is known of a node.
    ///
    /// # Errors
    /// The host's errors.
    pub fn put_node(&self, node: &str, machine: &BTreeMap<String, String>) -> Result<()> {
        self.put(&self.at(NODES, &format!("{node}.json")), machine)
    }

    /// The number of tasks by state. A lost claim counts as queued.
    ///
    /// # Errors
    /// The host's errors.
    pub fn counts(&self) -> Result<TaskCounts> {
        let now = self.now("counts")?;
        let mut counts = TaskCounts {
            queued: names(&self.path.join(QUEUED))?.len(),
            done: names(&self.path.join(DONE))?.len(),
            claimed: 0,
        };
        for name in names(&self.path.join(CLAIMED))? {
            let is_lost = modified(&self.at(CLAIMED, &name))?.is_some_and(|time| self.is_lost(now, time));
            *(if is_lost { &mut counts.queued } else { &mut counts.claimed }) += 1;
        }
        Ok(counts)
    }

    /// Adds the results and the nodes to the store, and returns the trials in the order in which they began. The files stay until the next
    /// [`SharedDir::write`].
    ///
    /// # Errors
    /// The errors of the host and of the store.
    pub fn collect(&self, store: &mut Store, run: i64) -> Result<Vec<Trial>> {
        let mut trials: Vec<Trial> = Vec::new();
        for name in names(&self.path.join(RESULTS))? {
            trials.extend(read::<Trial>(&self.at(RESULTS, &name))?);
        }
        trials.sort_by(|a, b| (&a.started, &a.key).cmp(&(&b.started, &b.key)));
        for trial in &trials {
            store.save(run, trial)?;
        }
        for name in names(&self.path.join(NODES))? {
            if let Some(node) = name.strip_suffix(".json") {
                let machine = read(&self.at(NODES, &name))?.unwrap_or_default();
                store.save_node(run, node, &machine)?;
            }
        }
        Ok(trials)
    }

    /// Claims a task for a node. `None` if it has ended. While another node has claimed it, this one waits.
    ///
    /// # Errors
    /// [`Error::Usage`] if the directory has no task of this number; [`Error::Interrupted`]; the host's errors.
    pub fn claim(&self, task: usize, node: &str, interrupted: &dyn Fn() -> bool) -> Result<Option<Claim>> {
        if task >= self.shared.tasks.len() {
            return Err(Error::Usage(format!(
                "no such task: {task}; {} has {} tasks, numbered from 0",
                quoted(&self.path),
                self.shared.tasks.len()
            )));
        }
        let claimed = self.at(CLAIMED, &format!("{task}@{node}"));
        loop {
            if self.at(DONE, &task.to_string()).exists() {
                return Ok(None);
            }
            if interrupted() {
                return Err(Error::Interrupted);
            }
            if let Some(from) = self.available(task, node)?
                && renamed(&from, &claimed)?
                && touched(&claimed)?
            {
                let claim = Claim { dir: self.clone(), task, path: claimed };
                return Ok(Some(claim));
            }
            std::thread::sleep(POLL);
        }
    }

    /// The file of a task that this node may claim.
    fn available(&self, task: usize, node: &str) -> Result<Option<PathBuf>> {
        let queued = self.at(QUEUED, &task.to_string());
        if queued.exists() {
            return Ok(Some(queued));
        }
        let now = self.now(node)?;
        let prefix = format!("{task}@");
        for name in names(&self.path.join(CLAIMED))? {
            let Some(owner) = name.strip_prefix(&prefix) else { continue };
            let path = self.at(CLAIMED, &name);
            // The scratch directory is locked, so an earlier process on this node has ended.
            if owner == node || modified(&path)?.is_some_and(|time| self.is_lost(now, time)) {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    fn is_lost(&self, now: SystemTime, time: SystemTime) -> bool {
        now.duration_since(time).unwrap_or_default() > self.lease()
    }

    /// The present time of the file system.
    fn now(&self, node: &str) -> Result<SystemTime> {
        let path = self.at(NODES, &format!("{node}.clock"));
        let file = private::create(&path).map_err(cannot("create", &path))?;
        drop(file);
        touched(&path)?;
        modified(&path)?.ok_or_else(|| Error::Usage(format!("{} has disappeared", quoted(&path))))
    }
}

/// A claimed task.
#[derive(Debug)]
pub struct Claim {
    dir: SharedDir,
    task: usize,
    path: PathBuf,
}

impl Claim {
    /// Whether the trial of this number has a result.
    pub fn has_result(&self, trial: usize) -> bool {
        self.result(trial).exists()
    }

    fn result(&self, trial: usize) -> PathBuf {
        self.dir.at(RESULTS, &format!("{}-{trial}.json", self.task))
    }

    /// Adds the result of a trial. Returns whether it is the first one.
    ///
    /// # Errors
    /// The host's errors.
    pub fn add_result(&self, trial: usize, result: &Trial) -> Result<bool> {
        let path = self.result(trial);
        let part = write_part(&path, result)?;
        let linked = match std::fs::hard_link(&part, &path) {
            Ok(()) => Ok(true),
            Err(why) if why.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(why) => Err(cannot("create", &path)(why).into()),
        };
        remove(&part)?;
        linked
    }

    /// Renews the claim until the returned value is dropped.
    pub fn keep(&self) -> ClaimKeeper {
        let is_lost = Arc::new(AtomicBool::new(false));
        let (stop, stopped) = channel::<()>();
        let (path, interval, lost) = (self.path.clone(), self.dir.lease() / 4, Arc::clone(&is_lost));
        std::thread::spawn(move || {
            while stopped.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                // While the file system does not answer, the trial goes on: only the first result counts.
                if matches!(touched(&path), Ok(false)) {
                    return lost.store(true, Ordering::Release);
                }
            }
        });
        ClaimKeeper { is_lost, _stop: stop }
    }

    /// Ends the task.
    ///
    /// # Errors
    /// The host's errors.
    pub fn end(self) -> Result<()> {
        renamed(&self.path, &self.dir.at(DONE, &self.task.to_string())).map(drop)
    }

    /// Gives the task back.
    pub fn release(self) {
        let _ = renamed(&self.path, &self.dir.at(QUEUED, &self.task.to_string()));
    }
}

/// Renews a claim in a thread.
#[derive(Debug)]
pub struct ClaimKeeper {
    is_lost: Arc<AtomicBool>,
    /// Its end stops the thread.
    _stop: Sender<()>,
}

impl ClaimKeeper {
    /// Whether another node has claimed the task.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }
}

/// The names in a directory; empty if there is none.
fn names(dir: &Path) -> Result<Vec<String>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(why) => return Err(cannot("read", dir)(why).into()),
    };
    // A file that is being written is hidden.
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.ok()?.file_name().into_string().ok();
    let mut names: Vec<String> = entries.filter_map(name).filter(|name| !name.starts_with('.')).collect();
    names.sort();
    Ok(names)
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(cannot("read", path)(why).into()),
    };
    let parsed = serde_json::from_slice(&text);
    parsed.map(Some).map_err(|why| Error::Usage(format!("{} is invalid: {why}", quoted(&path))))
}

/// Writes a file beside `path`, and syncs it.
fn write_part(path: &Path, value: &impl Serialize) -> Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let part = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let text = serde_json::to_vec(value).map_err(|why| Error::Usage(why.to_string()))?;
    let write = || {
        private::write(&part, &text)?;
        File::open(&part)?.sync_all()
    };
    write().map_err(cannot("write", &part))?;
    Ok(part)
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(why) if why.kind() != ErrorKind::NotFound => Err(cannot("remove", path)(why).into()),
        _ => Ok(()),
    }
}

/// Renames a file. Returns whether it was there.
fn renamed(from: &Path, to: &Path) -> Result<bool> {
    match std::fs::rename(from, to) {
        Ok(()) => Ok(true),
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(false),
        Err(why) => Err(cannot("rename", from)(why).into()),
    }
}

/// Sets a file's time to the file system's present one. Returns whether it was there.
fn touched(path: &Path) -> Result<bool> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    match utimensat(CWD, path, &times, AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::NOENT) => Ok(false),
        Err(why) => Err(cannot("change the time of", path)(why).into()),
    }
}

fn modified(path: &Path) -> Result<Option<SystemTime>> {
    match std::fs::metadata(path).and_then(|meta| meta.modified()) {
        Ok(time) => Ok(Some(time)),
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(None),
        Err(why) => Err(cannot("read", path)(why).into()),
    }
}
