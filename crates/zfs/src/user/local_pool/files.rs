//! Detection of pool files that were removed, replaced, truncated or moved while the pool is open.

use std::sync::{MutexGuard, PoisonError};

use poolwright_base::process;
use poolwright_base::quoted;
use poolwright_openzfs::{ChangedFile, FileChange};

use super::{Answer, LocalPool};
use crate::user::{Fault, FaultKind, FileFault};

impl FileFault {
    fn new(found: &ChangedFile, lost: bool) -> FileFault {
        let content = process::descriptor_path(std::process::id(), found.descriptor);
        let moved_to =
            (found.change == FileChange::Moved).then(|| std::fs::read_link(&content).ok()).flatten();
        FileFault { path: found.path.clone(), change: found.change, lost, content, moved_to }
    }

    /// A sentence about the change of the file and its effect on the pool.
    fn message(&self, pool: &str) -> String {
        let path = quoted(&self.path);
        if let Some(to) = &self.moved_to {
            return format!("{path} was moved to {} while {pool} was open", quoted(to));
        }
        let happened = format!("{path} {} while {pool} was open", self.change.description());
        if !self.lost {
            return format!("{happened}: {pool} continues with its other copies of the data");
        }
        match self.change {
            FileChange::Truncated => format!("{happened}: all changes fail with EIO, and data is missing"),
            _ => {
                let pid = self.owner();
                format!("{happened}: all changes fail with EIO, and its data exists only in process {pid}")
            }
        }
    }

    /// The process that has the file open.
    pub fn owner(&self) -> String {
        self.content.iter().nth(2).unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The fault of a request to the pool.
    pub fn to_fault(&self, pool: &str) -> Fault {
        let kind = FaultKind::ChangedFile { pool: pool.to_owned(), file: self.clone() };
        Fault::new(libc::EIO, self.message(pool)).of_kind(kind)
    }
}

impl LocalPool {
    pub(super) fn faults(&self) -> MutexGuard<'_, Vec<FileFault>> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the changes of the pool's files since it was opened. Faults a changed file if the pool has another copy of its
    /// data; otherwise makes all mounts refuse changes.
    pub fn file_faults(&self) -> Vec<FileFault> {
        self.note_detached();
        let mut found = self.pool.changed_files();
        // A file that was detached just now does not matter.
        if !found.is_empty() && self.forget_detached() {
            found = self.pool.changed_files();
        }
        let mut known = self.faults();
        if found.is_empty() && known.is_empty() {
            return Vec::new();
        }
        // A moved file may have been moved back, or removed, since the last check. A file that is being replaced is noticed again, and
        // later detached.
        let files = self.pool.files();
        known.retain(|k| {
            let is_still_moved = || found.iter().any(|f| f.path == k.path && f.change == k.change);
            files.contains(&k.path) && (k.change != FileChange::Moved || is_still_moved())
        });
        let mut fresh = Vec::new();
        for file in found.iter().filter(|f| !known.iter().any(|k| k.path == f.path)) {
            let lost = file.change != FileChange::Moved && self.pool.fault_file(&file.path).unwrap_or(true);
            fresh.push(FileFault::new(file, lost));
        }
        if fresh.iter().any(|fault| fault.lost) {
            self.mounts.refuse_changes();
        }
        known.extend(fresh);
        known.clone()
    }

    /// The first lost file of whose data the pool has no other copy.
    pub fn lost_file(&self) -> Option<FileFault> {
        self.file_faults().into_iter().find(|fault| fault.lost)
    }

    /// Fails with `EIO` if the pool has lost a file that it needs, because a change would be lost too.
    pub(super) fn refuse_lost(&self) -> Answer<()> {
        match self.lost_file() {
            Some(file) => Err(file.to_fault(self.pool.name())),
            None => Ok(()),
        }
    }

    /// Fails with `EROFS` if the pool was imported read-only.
    pub(super) fn refuse_readonly(&self) -> Answer<()> {
        if !self.pool.is_readonly() {
            return Ok(());
        }
        let (pool, pid) = (self.pool.name(), std::process::id());
        let dirs: Vec<String> =
            self.mounts.list().iter().map(|(mounted, _)| quoted(&mounted.dir).to_string()).collect();
        Err(Fault::new(
            libc::EROFS,
            format!("process {pid} has {pool} open read-only\nhint: unmount {} first", dirs.join(" and ")),
        ))
    }

    /// Fails if the pool is read-only or has lost a file that it needs.
    pub(super) fn refuse_unwritable(&self) -> Answer<()> {
        self.refuse_readonly()?;
        self.refuse_lost()
    }

    /// Syncs the pool, so that its statistics are current. Does nothing if the pool has lost a file that it needs.
    pub(super) fn settle(&self) -> Answer<()> {
        if self.lost_file().is_none() {
            self.pool.sync()?;
        }
        Ok(())
    }
}
