//! Determines the facts. Everything is read; nothing is changed, and no kernel module is loaded.

mod databases;
mod datasets;
mod files;
mod host;
mod mounts;
mod pools;
mod sample;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use poolwright_zfs::kernel::command::dataset::DatasetSpace;
use poolwright_zfs::kernel::{CommandOptions, Kstats, ZfsCommands};

use crate::facts::MachineFacts;
use crate::{Error, Result};
use mounts::StorageTable;

/// The time limit of each command of `zfs` and `zpool`, and of each question to a database.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// What is inspected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The databases in a directory.
    Directory(PathBuf),
    /// The databases on a pool or dataset and below, and its volumes.
    Dataset(String),
}

/// The input of an inspection.
#[derive(Clone, Debug)]
pub struct Request {
    /// What is inspected; everything on this machine if empty.
    pub subjects: Vec<Subject>,
    /// How `zfs` and `zpool` are run.
    pub commands: CommandOptions,
    /// The counters of the kernel module.
    pub kstats: Kstats,
    /// The directory of the kernel module (`/sys/module/zfs`), with its version and its parameters.
    pub module: PathBuf,
    /// Whether data is read, to find out how well it compresses.
    pub samples_data: bool,
    /// Set when the user interrupts the inspection.
    pub cancel: Arc<AtomicBool>,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            subjects: Vec::new(),
            commands: CommandOptions { deadline: ANSWER_TIME, ..CommandOptions::default() },
            kstats: Kstats::default(),
            module: PathBuf::from("/sys/module/zfs"),
            samples_data: true,
            cancel: Arc::default(),
        }
    }
}

impl Request {
    fn check_cancelled(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::Interrupted) } else { Ok(()) }
    }

    fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    fn names(&self, pool: &str) -> bool {
        let is_named = |subject: &Subject| match subject {
            Subject::Directory(_) => false,
            Subject::Dataset(name) => poolwright_zfs::datasets::pool_of(name) == pool,
        };
        self.subjects.is_empty() || self.subjects.iter().any(is_named)
    }
}

/// Determines the facts.
///
/// # Errors
/// If a named directory or dataset does not exist, the table of mounts cannot be read, or the user interrupts the inspection. Other failures
/// are noted in [`MachineFacts::unknown`].
pub fn facts(request: &Request) -> Result<MachineFacts> {
    let mut facts = MachineFacts::default();
    let commands = ZfsCommands::new(request.commands.clone());
    facts.host = host::read(request, &mut facts.unknown);
    let has_kernel = facts.host.module.is_some();
    let listed = if has_kernel { datasets::spaces(&commands, &mut facts.unknown) } else { Some(Vec::new()) };
    let is_listed = listed.is_some();
    let spaces = listed.unwrap_or_default();
    let suspended =
        if has_kernel { pools::suspended(&request.kstats, &mut facts.unknown) } else { Vec::new() };
    let mounts = StorageTable::read(&spaces, &suspended)?;
    check_names(request, is_listed.then_some(&spaces), &mounts)?;
    facts.databases = databases::find(request, &mounts, &mut facts.unknown)?;
    request.check_cancelled()?;
    facts.datasets = datasets::read(request, &commands, &spaces, &facts.databases, &mut facts.unknown)?;
    request.check_cancelled()?;
    if has_kernel {
        let is_used = |pool: &str| {
            let uses = |of: &crate::facts::DatasetFacts| {
                of.is_of_kernel && poolwright_zfs::datasets::pool_of(&of.name) == pool
            };
            request.names(pool) || facts.datasets.iter().any(uses)
        };
        facts.pools = pools::read(&commands, is_used, &mut facts.unknown);
    }
    sample::add(request, &mut facts)?;
    Ok(facts)
}

/// Refuses names that are no datasets; `spaces` is `None` if the kernel's could not be listed.
fn check_names(request: &Request, spaces: Option<&Vec<DatasetSpace>>, mounts: &StorageTable) -> Result<()> {
    let is_dataset =
        |name: &str| spaces.is_none_or(|spaces| spaces.iter().any(|of| of.name == name)) || mounts.has(name);
    for subject in &request.subjects {
        match subject {
            Subject::Directory(path) if !path.is_dir() => return Err(Error::NotADirectory(path.clone())),
            Subject::Dataset(name) if !is_dataset(name) => return Err(Error::NotFound(name.clone())),
            _ => {}
        }
    }
    Ok(())
}

/// Returns the value, or notes why it is unknown.
fn known<T>(
    result: std::result::Result<T, impl std::fmt::Display>,
    subject: &str,
    unknown: &mut Vec<String>,
) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(why) => {
            unknown.push(format!("{subject}: {why}"));
            None
        }
    }
}
