//! Confirmation of a plan by the database itself: copies of the database run the user's load on pools, or in datasets of a kernel's pool,
//! with today's settings, the recommended settings and the runner-up, in interleaved blocks.
//!
//! A confirmation consists of trials of the lab ([`poolwright_lab::trial`]). The driver of these trials is Poolwright itself
//! ([`driver`]): it copies the database into the trial's datasets and runs the user's commands. The lab measures, limits and
//! cleans up these trials like all others.
//!
//! [`contenders`] selects the settings of a plan and [`dataset_layout`] the datasets that get them; [`run`] runs the trials;
//! [`judge`] compares the outcome with the plan.

mod command;
mod contenders;
mod copy;
mod dataset_layout;
pub mod driver;
mod error;
mod judge;
mod outcome;
mod pool;
mod progress_text;
mod run;
#[cfg(test)]
mod tests;
mod tree;

use std::path::PathBuf;
use std::time::Duration;

use poolwright_lab::RunTarget;
use poolwright_lab::run::Progress;
use poolwright_plan::{ConfirmationCommands, Contender};
use serde::{Deserialize, Serialize};

pub use contenders::{Chosen, contenders};
pub use dataset_layout::{Dataset, DatasetLayout, dataset_layout};
pub use error::{Error, Result};
pub use judge::{Block, Judgement, is_improvement, judge};
pub use pool::memory_bytes;
pub use progress_text::ConfirmationProgress;
pub use run::run;

/// Input of one confirmation.
#[derive(Clone, Debug)]
pub struct Options {
    /// The database's directory, which is only read. Absolute, without symbolic links.
    pub dir: PathBuf,
    /// The commands that run on each copy.
    pub commands: ConfirmationCommands,
    /// The working directory of the commands.
    pub working_dir: PathBuf,
    /// The number of trials of each setting; at least 2.
    pub blocks: u32,
    /// The pause between the start command and the load.
    pub settle: Duration,
    /// The time limit of each command.
    pub limit: Duration,
    /// Where the trials have their datasets: on pools of the engine, or on a pool of the kernel.
    pub target: RunTarget,
    /// What the kernel may cache of the mounted files: `through`, `pages` or `writeback`.
    pub caching: String,
    /// `zfs_dirty_data_max` of the trials' pools, in bytes.
    pub dirty_bytes: u64,
    /// A path of the program whose verb `trial` runs a trial; any process can start it.
    pub program: PathBuf,
    /// The arguments that make the program a driver, before `run`.
    pub driver: Vec<String>,
    /// The directory below which the scratch directory is made.
    pub scratch: PathBuf,
}

/// Progress of a confirmation.
#[derive(Debug)]
pub enum Event<'a> {
    /// The first trial is about to start.
    Begun {
        /// The number of trials.
        trials: u32,
        /// The bytes that each trial copies.
        bytes: u64,
        /// The estimated duration of all trials, without the commands.
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
        /// The number of trials.
        of: u32,
        /// The estimated duration of this trial and all later ones; `None` before the first trial has ended.
        left: Option<Duration>,
    },
    /// The trial reported its progress.
    Progress(&'a Progress),
    /// The trial has ended.
    Ended {
        /// Wall time of the load in seconds.
        load_s: f64,
        /// Units of work per second.
        work_rate: f64,
    },
    /// The trial failed. The confirmation continues without it.
    Failed {
        /// The cause.
        why: &'a str,
    },
}

/// The parameters of the driver: what it needs to know besides the datasets.
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

/// The name of the dataset that is mounted as the database's directory.
const DATASET: &str = "db";
/// The phase that copies the database.
const COPY: &str = "copy";
/// The phase that runs the commands, and is measured.
const LOAD: &str = "load";
/// The driver's figure for the wall time of the load, in seconds.
const LOAD_S: &str = "load_s";
/// The driver's figure for the units of work.
const WORK: &str = "work";
/// The driver's figure for whether the load command printed its units of work: 1 or 0.
const STATED: &str = "work_stated";
