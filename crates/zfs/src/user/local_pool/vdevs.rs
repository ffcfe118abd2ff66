//! Changes of the pool's vdevs. The registry's entry follows, so that a later command finds all files.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use poolwright_openzfs::{ScanKind, VdevGroup};

use super::{Answer, LocalPool};
use crate::user::{Error, Fault, NewVdevFile, VdevChange, registry};

impl LocalPool {
    pub(super) fn add(&self, groups: &[VdevGroup]) -> Answer<VdevChange> {
        self.change(|| self.pool.add_vdevs(groups, |files| self.register(files)))?;
        self.changed(false)
    }

    pub(super) fn attach(&self, device: &Path, new: &NewVdevFile, wait: bool) -> Answer<VdevChange> {
        let file = (new.file.as_path(), new.bytes);
        self.change(|| self.pool.attach(device, file, |files| self.register(files)))?;
        self.resilvered(wait)
    }

    pub(super) fn detach(&self, device: &Path) -> Answer<VdevChange> {
        self.change(|| Ok(self.pool.detach(device)?))?;
        self.changed(false)
    }

    pub(super) fn remove(&self, device: &Path) -> Answer<VdevChange> {
        self.change(|| Ok(self.pool.remove_vdev(device)?))?;
        self.changed(false)
    }

    pub(super) fn replace(&self, device: &Path, new: Option<&NewVdevFile>, wait: bool) -> Answer<VdevChange> {
        let file = (new.map(|new| new.file.as_path()), new.and_then(|new| new.bytes));
        self.change(|| self.pool.replace(device, file, |files| self.register(files)))?;
        self.resilvered(wait)
    }

    /// Makes a change, and updates the registry even if the change fails.
    fn change(&self, make: impl FnOnce() -> Answer<()>) -> Answer<()> {
        self.refuse_unwritable()?;
        let _vdevs = self.vdevs.lock().unwrap_or_else(PoisonError::into_inner);
        let made = make();
        let registered = self.register(&self.pool.files());
        // The change may have made a file superfluous that another program had changed.
        self.faults().clear();
        self.replacing.store(true, Ordering::Release);
        made.and(registered)
    }

    /// The answer after a change that has started a resilver, at its end if the caller waits for that.
    fn resilvered(&self, wait: bool) -> Answer<VdevChange> {
        // A command that exports the pool after the request must wait.
        if wait || !self.mounts.owns() {
            let replacing = self.pool.wait_resilvered()?;
            let _vdevs = self.vdevs.lock().unwrap_or_else(PoisonError::into_inner);
            self.register(&self.pool.files())?;
            if replacing {
                let why = "the resilver has not copied all data; both vdevs remain";
                let todo = format!("`poolwright pool status {}` shows the errors", self.pool.name());
                let message = format!("replacing a vdev of {}: {why}\nhint: {todo}", self.pool.name());
                return Err(Fault::new(libc::EIO, message));
            }
        }
        self.changed(true)
    }

    fn changed(&self, resilvers: bool) -> Answer<VdevChange> {
        let scan = if resilvers { self.pool.scan()? } else { None };
        Ok(VdevChange {
            files: self.pool.files(),
            resilver: scan.filter(|scan| scan.kind == ScanKind::Resilver),
            replacing: self.pool.is_replacing()?,
            spares_in_use: self.pool.spares_in_use()?,
        })
    }

    /// Forgets the files of vdevs that the engine has detached at the end of their replacement. An error is left to the next
    /// request that uses the pool.
    pub(super) fn note_detached(&self) {
        if !self.replacing.load(Ordering::Acquire) || self.pool.is_readonly() {
            return;
        }
        if let Ok(false) = self.pool.is_replacing() {
            self.replacing.store(false, Ordering::Release);
        }
        self.forget_detached();
    }

    /// Closes files that the pool does not use any more, and brings the registry up to date. Returns whether its files have changed.
    pub(super) fn forget_detached(&self) -> bool {
        let has_forgotten = self.pool.forget_unused().unwrap_or(false);
        // A change in progress brings the registry up to date at its end.
        if has_forgotten && let Ok(_vdevs) = self.vdevs.try_lock() {
            // With an entry that is out of date, the next command finds the pool nevertheless (`find::pool_files`).
            let _ = self.register(&self.pool.files());
        }
        has_forgotten
    }

    /// Adds files that the engine has found at the import to the registry's entry. An error is left to the next change: the
    /// engine finds these files again.
    pub(super) fn register_found(&self) {
        let files = self.pool.files();
        let Ok(Some(entry)) = registry::find(self.pool.name()) else { return };
        if files.len() > entry.files.len() && entry.files.iter().all(|file| files.contains(file)) {
            let _ = self.register(&files);
        }
    }

    /// Writes the pool's files to its entry in the registry, if that is an entry of this pool. Files of the entry that are
    /// missing and belong to the pool stay in it.
    fn register(&self, files: &[PathBuf]) -> Answer<()> {
        let fault = |why: Error| Fault::new(libc::EIO, why.to_string());
        let Some(mut entry) = registry::find(self.pool.name()).map_err(fault)? else { return Ok(()) };
        if !entry.files.iter().any(|file| files.contains(file)) {
            return Ok(());
        }
        let mut all = files.to_vec();
        for file in &entry.files {
            if !all.contains(file) && self.pool.uses_file(file)? {
                all.push(file.clone());
            }
        }
        if entry.files == all {
            return Ok(());
        }
        entry.files = all;
        registry::save(&entry).map_err(fault)
    }
}
