//! A pool that has lost a file: the process that owns it has the last descriptor of its data.

use std::time::Duration;

use poolwright_userpool::{FileFault, LocalPool};

/// What the owner has seen of its pool's files while a dataset was mounted.
#[derive(Debug, Default)]
pub struct Watch {
    reported: Vec<FileFault>,
    /// Signals that had come when the loss was reported: one that came later is from a user who can know of it.
    reported_at: Option<usize>,
}

impl Watch {
    /// Checks the files, and reports what is new. `signals` have come so far.
    pub fn look(&mut self, host: &LocalPool, signals: usize) {
        let faults = host.file_faults();
        for fault in faults.iter().filter(|fault| !self.reported.contains(fault)) {
            tell!("poolwright: {}", fault.report(host.pool().name()));
            if fault.lost {
                self.reported_at.get_or_insert(signals);
            }
        }
        self.reported = faults;
    }

    /// The file that was lost while a dataset was mounted. One that is removed after that was not wanted any more.
    fn lost(&self) -> Option<(&FileFault, usize)> {
        Some((self.reported.iter().find(|fault| fault.lost)?, self.reported_at?))
    }

    /// Keeps the process, and with it the data, after the last mount has ended, until a signal comes. Returns at once if
    /// no file is lost.
    pub fn hold(&self, host: &LocalPool, signals: impl Fn() -> usize) {
        let Some((fault, reported_at)) = self.lost() else { return };
        if signals() > reported_at {
            return;
        }
        tell!(
            "poolwright: {} is unmounted; this process keeps the data of {} until it is ended (`kill {}`, or Ctrl-C)",
            host.pool().name(),
            fault.path.display(),
            std::process::id()
        );
        while signals() <= reported_at {
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Whether the pool has lost a file.
    pub fn has_lost(&self) -> bool {
        self.lost().is_some()
    }

    /// Ends the process without an export, which would wait for data that cannot be read, or write where no name leads.
    pub fn abandon(&self, host: &LocalPool) -> ! {
        if let Some((fault, _)) = self.lost() {
            let (pool, path, what) = (host.pool().name(), fault.path.display(), fault.change.description());
            tell!("poolwright: {pool} was not exported: {path} {what}");
        }
        std::process::exit(1);
    }
}
