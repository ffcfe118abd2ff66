//! Snapshots of a mounted dataset, which the mount opens when a program looks into `.zfs/snapshot`.

use std::ffi::CString;
use std::time::{Duration, Instant};

use poolwright_openzfs::{Dataset, Errno, NodeResult};

use crate::{Mount, device};

/// How long the kernel may take to give back what it knows of a snapshot, and programs to close what they have read.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the kernel is told again to forget the snapshot, should a program have looked into it meanwhile.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// A program uses a snapshot through the mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotInUse {
    /// Files and directories of it that are open. 0: a program has its working directory in it.
    pub open: usize,
}

impl Mount {
    /// Looks at a snapshot through the handle that the mount has of it: a snapshot is opened once at a time.
    ///
    /// # Errors
    /// `ENOENT` if there is no such snapshot; `EIO` if it cannot be opened.
    pub fn with_snapshot<T>(&self, name: &str, look: impl FnOnce(&Dataset) -> T) -> NodeResult<T> {
        match &*self.session.sharded_lock.read(0) {
            Some(fs) => fs.snapshots().with(name, look),
            None => Err(Errno(libc::EIO)),
        }
    }

    /// Has the kernel forget a snapshot, closes it, and keeps it closed while `then` runs.
    ///
    /// # Errors
    /// If a program has a file or its working directory in the snapshot. `then` did not run.
    pub fn without_snapshot<T>(
        &self,
        name: &str,
        then: impl FnOnce() -> T,
    ) -> std::result::Result<T, SnapshotInUse> {
        let start = Instant::now();
        let mut told: Option<Instant> = None;
        while !self.bar(name) {
            if start.elapsed() > PATIENCE {
                let open =
                    self.session.sharded_lock.read(0).as_ref().map_or(0, |fs| fs.open_in_snapshot(name));
                return Err(SnapshotInUse { open });
            }
            if told.is_none_or(|when| when.elapsed() > TELL_EVERY) {
                told = Some(Instant::now());
                // The kernel gives back what it knew of the snapshot with requests that other threads serve.
                let _ = CString::new(name).map(|name| self.invalidate_snapshot(&name));
                if start.elapsed() > TELL_EVERY {
                    self.forget_names_in(name);
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let done = then();
        if let Some(fs) = &*self.session.sharded_lock.read(0) {
            fs.snapshots().lift_bar(name);
        }
        Ok(done)
    }

    fn forget_names_in(&self, snapshot: &str) {
        let names = self
            .session
            .sharded_lock
            .read(0)
            .as_ref()
            .map_or_else(Vec::new, |fs| fs.names_in_snapshot(snapshot));
        for (dir, name) in names {
            let _ = device::forget_entry(self.session.device.as_ref(), dir, &name);
        }
    }

    /// A mount that is lost has no snapshot open.
    fn bar(&self, name: &str) -> bool {
        self.session.sharded_lock.read(0).as_ref().is_none_or(|fs| fs.snapshots().bar(name))
    }
}
