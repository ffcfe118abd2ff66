//! Snapshots of a mounted dataset. The mount opens them when a program accesses `.zfs/snapshot`.

use std::ffi::CString;
use std::time::{Duration, Instant};

use poolwright_openzfs::{Dataset, Errno, NodeResult};

use crate::{Mount, device};

/// How long to wait for the kernel to forget a snapshot's nodes, and for programs to close its files.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval at which the kernel is notified again to forget the snapshot, in case a program has accessed it since.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// The error that a program uses a snapshot through the mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotInUse {
    /// Number of its open files and directories. 0: a program has its working directory in it.
    pub open: usize,
}

impl Mount {
    /// Calls `look` with the mount's handle of a snapshot, because a snapshot cannot be opened twice at a time.
    ///
    /// # Errors
    /// `ENOENT` if there is no such snapshot; `EIO` if it cannot be opened.
    pub fn with_snapshot<T>(&self, name: &str, look: impl FnOnce(&Dataset) -> T) -> NodeResult<T> {
        match &*self.session.sharded_lock.read(0) {
            Some(fs) => fs.snapshots().with(name, look),
            None => Err(Errno(libc::EIO)),
        }
    }

    /// Makes the kernel drop a snapshot's nodes, closes the snapshot, and keeps it closed while `then` runs.
    ///
    /// # Errors
    /// If a program has an open file or its working directory in the snapshot; `then` has not run.
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
                // The kernel releases the snapshot's nodes with FORGET requests, which other threads serve.
                self.forget_directory_of(name);
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

    /// Tells the kernel to drop the snapshot's directory below `.zfs/snapshot`. Ignores errors: the kernel does not know it.
    fn forget_directory_of(&self, snapshot: &str) {
        let device = self.session.device.as_ref();
        let _ =
            CString::new(snapshot).map(|name| device::forget_entry(device, crate::fs::SNAPSHOTS_ID, &name));
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

    /// Bars the snapshot from being opened; true if it is closed. A file system lost in a rollback has none open.
    fn bar(&self, name: &str) -> bool {
        self.session.sharded_lock.read(0).as_ref().is_none_or(|fs| fs.snapshots().bar(name))
    }
}
