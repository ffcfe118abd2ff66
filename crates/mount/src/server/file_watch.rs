//! Watches the files of a mounted pool. If one is lost, this process has the only descriptor of its data.

use std::time::Duration;

use poolwright_base::{ReportedError as _, quoted};
use poolwright_zfs::user::{FileFault, LocalPool};

use crate::server::{Error, Frontend, Severity};

const CHECK_EVERY: Duration = Duration::from_millis(100);

/// The changes of the pool's files that were detected while a dataset was mounted.
#[derive(Debug, Default)]
pub struct FileWatch {
    reported: Vec<FileFault>,
    /// Number of signals when a loss was reported. A later signal comes from a user who can have read that report.
    signals_at_loss: Option<usize>,
}

impl FileWatch {
    /// Checks the files, and reports new changes.
    pub fn check(&mut self, pool: &LocalPool, frontend: &dyn Frontend) {
        let signals = frontend.signals();
        let faults = pool.file_faults();
        for fault in faults.iter().filter(|fault| !self.reported.contains(fault)) {
            let message = fault.to_fault(pool.pool().name()).text();
            frontend.log(Severity::Warning, &message);
            if fault.lost {
                self.signals_at_loss.get_or_insert(signals);
            }
        }
        self.reported = faults;
    }

    /// The file that was lost while a dataset was mounted, and the number of signals at that time. A file that is removed
    /// after the last unmount was removed on purpose.
    fn lost(&self) -> Option<(&FileFault, usize)> {
        Some((self.reported.iter().find(|fault| fault.lost)?, self.signals_at_loss?))
    }

    /// Keeps the process, and thereby the data of a lost file, until a signal arrives. Returns at once if no file is lost.
    pub fn keep_data(&self, pool: &LocalPool, frontend: &dyn Frontend) {
        let Some((fault, signals_at_loss)) = self.lost() else { return };
        if frontend.signals() > signals_at_loss {
            return;
        }
        let message = format!(
            "{} is unmounted; this process keeps the data of {} until you end it (`kill {}`, or Ctrl-C)",
            pool.pool().name(),
            quoted(&fault.path),
            std::process::id()
        );
        frontend.log(Severity::Warning, &message);
        while frontend.signals() <= signals_at_loss {
            std::thread::sleep(CHECK_EVERY);
        }
    }

    /// The error of a pool that has lost a file that it needs. It is not exported, because the export would wait for data that cannot be
    /// read, or write to a file that no path leads to.
    pub fn error(&self, pool: &LocalPool) -> Option<Error> {
        let (fault, _) = self.lost()?;
        let (name, file) = (pool.pool().name(), quoted(&fault.path));
        Some(Error::Unusable(format!("{name} was not exported: {file} {}", fault.change.description())))
    }
}
