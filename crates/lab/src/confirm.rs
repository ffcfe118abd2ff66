//! Confirmation of a plan by the database itself: copies of it run the user's load on pools with today's settings, the
//! recommended ones and the runner-up, in interleaved blocks.
//!
//! A trial is one of the lab's ([`crate::trial`]) whose driver is this program ([`driver`]): it copies the database into
//! the trial's datasets and runs the user's commands. So what is measured, and what is cleared up whatever happens, are the
//! lab's own.

mod command;
mod copy;
pub mod driver;
mod run;
mod tree;
mod writers;

use std::path::PathBuf;
use std::time::Duration;

use poolwright_tune::plan::{ConfirmationCommands, Contender};
use serde::{Deserialize, Serialize};

pub use run::run;
pub use tree::Tree;

use crate::run::Progress;

/// What is run, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The database's directory, which is only read. Absolute, without symbolic links.
    pub dir: PathBuf,
    /// What runs on each copy.
    pub commands: ConfirmationCommands,
    /// Where the commands run.
    pub working_dir: PathBuf,
    /// How often each setting is run; 2 at least.
    pub blocks: u32,
    /// From the end of the start command to the load.
    pub settle: Duration,
    /// The longest that a command may take.
    pub limit: Duration,
    /// What the kernel may keep of the mounted files: `through`, `pages`, `writeback`.
    pub caching: String,
    /// `zfs_dirty_data_max` of the trials' pools in bytes.
    pub dirty_bytes: u64,
    /// The program whose verb `trial` runs a trial, by a name that any process can start.
    pub program: PathBuf,
    /// Its words that make it a driver, before `run`.
    pub driver: Vec<String>,
    /// Where the scratch folder is made.
    pub scratch: PathBuf,
}

/// A step of the run, for the caller to show.
#[derive(Debug)]
pub enum Event<'a> {
    /// Before the first trial.
    Begun {
        /// How many trials there will be.
        trials: u32,
        /// Bytes that each copies.
        bytes: u64,
        /// How long all of it takes without the commands, about.
        overhead: Duration,
    },
    /// A trial starts.
    Trial {
        /// Its setting.
        setting: Contender,
        /// Its block, from 0.
        block: u32,
        /// Its number, from 1.
        number: u32,
        /// Of so many.
        of: u32,
        /// How long the rest will take, itself included; not known before the first has ended.
        left: Option<Duration>,
    },
    /// It goes on.
    Progress(&'a Progress),
    /// It ended with these figures.
    Ended {
        /// Wall time of the load in seconds.
        load_s: f64,
        /// Units of work per second.
        work_rate: f64,
    },
    /// It gave no result, and the others go on.
    Failed {
        /// Why.
        why: &'a str,
    },
}

/// Bytes of scratch that a trial needs for a database of `bytes`: a copy without compression, as much again for what is
/// written, and the pool's own.
pub fn room(bytes: u64) -> u64 {
    bytes.saturating_mul(2).saturating_add(512 << 20)
}

/// What the driver of a trial is told beside the datasets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Task {
    dir: PathBuf,
    commands: ConfirmationCommands,
    working_dir: PathBuf,
    settle_s: f64,
    limit_s: f64,
    setting: String,
    block: u32,
}

/// The dataset of the database's directory.
const DATASET: &str = "db";
/// The phases of a trial.
const COPY: &str = "copy";
const LOAD: &str = "load";
/// Figures of the driver: wall time of the load in seconds, units of work, and whether the load stated them.
const LOAD_S: &str = "load_s";
const WORK: &str = "work";
const STATED: &str = "work_stated";
