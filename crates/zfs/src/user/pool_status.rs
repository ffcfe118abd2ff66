//! The state of a pool, from the process that has it open and from the labels of its files.

use std::path::PathBuf;

use poolwright_base::ReportedError as _;
use schemars::JsonSchema;
use serde::Serialize;

use crate::user::label::{self, FoundPool, Label};
use crate::user::{
    ConnectOptions, FileFault, PoolConnection, PoolInfo, Request, Result, Scrub, find, registry,
};

/// The state of a pool, from the process that has it open and from its labels.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PoolStatus {
    /// The pool's name.
    pub pool: String,
    /// `ONLINE`, `DEGRADED`, `SUSPENDED` or `UNAVAIL`.
    pub state: String,
    /// The reason for any other state than `ONLINE`, one line each; lines with `hint: ` are advice to the user.
    pub trouble: Option<String>,
    /// The answer of the process that has the pool open; `None` if the pool cannot be opened.
    pub info: Option<PoolInfo>,
    /// The vdevs, from the labels of the files; `None` if no label can be read.
    pub layout: Option<FoundPool>,
    /// The last complete scrub by Poolwright.
    pub last_scrub: Option<Scrub>,
}

impl PoolStatus {
    /// Asks the pool's owner, or opens the pool, and reads the labels of its files. A pool that cannot be opened has a status too.
    ///
    /// # Errors
    /// If the registry cannot be read, or the pool's files are unknown.
    pub fn of(pool: &str, options: impl Into<ConnectOptions>) -> Result<PoolStatus> {
        let options = options.into();
        let named_files = options.files.clone();
        let asked: Result<PoolInfo> = PoolConnection::once(pool, options, &Request::Status);
        let entry = registry::find(pool)?;
        let paths = match &asked {
            Ok(info) => info.files.clone(),
            Err(_) => find::pool_files(pool, &named_files)?,
        };
        let (info, trouble) = match asked {
            Ok(info) => {
                let faults = info.file_faults.iter();
                let reports: Vec<String> = faults.map(|fault| fault.to_fault(pool).text()).collect();
                (Some(info), (!reports.is_empty()).then(|| reports.join("\n")))
            }
            Err(why) => (None, Some(why.text())),
        };
        let faults = info.as_ref().map_or(&[][..], |info| &info.file_faults);
        let layout = layout(pool, &paths, faults);
        Ok(PoolStatus {
            pool: pool.to_owned(),
            state: info.as_ref().map_or("UNAVAIL", PoolInfo::state).to_owned(),
            trouble,
            info,
            layout,
            last_scrub: entry.and_then(|entry| entry.last_scrub),
        })
    }

    /// Whether the pool is online and complete, without errors.
    pub fn is_good(&self) -> bool {
        let errors = |info: &PoolInfo| {
            info.stats.read_errors + info.stats.write_errors + info.stats.checksum_errors + info.data_errors
        };
        self.state == "ONLINE"
            && self.trouble.is_none()
            && self.info.as_ref().is_some_and(|info| errors(info) == 0)
            && self.layout.as_ref().is_some_and(|found| found.missing.is_empty())
    }
}

impl PoolInfo {
    /// `ONLINE`, `DEGRADED`, `SUSPENDED` or `UNAVAIL`, and for the last two why the pool cannot be written: I/O waits because a
    /// vdev failed, or a file without another copy was lost.
    pub fn state(&self) -> &str {
        match self {
            info if info.file_faults.iter().any(|fault| fault.lost) => "UNAVAIL",
            info if info.stats.state != 0 => "SUSPENDED",
            info => info.vdevs.first().map_or("ONLINE", |root| &root.state),
        }
    }
}

/// The pool's vdevs from the labels of its files. The label of a removed file is read through the pool's owner.
pub fn layout(pool: &str, paths: &[PathBuf], faults: &[FileFault]) -> Option<FoundPool> {
    let read = |path: &PathBuf| {
        let fault = faults.iter().find(|fault| fault.path == *path);
        let label = Label::read(fault.map_or(path, |fault| &fault.content)).ok()??;
        Some((path.clone(), label))
    };
    let labels: Vec<_> = paths.iter().filter_map(read).collect();
    label::group(&labels).into_iter().find(|found| found.pool == pool)
}
