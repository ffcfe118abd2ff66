//! Where a run creates the datasets of its trials.

use std::path::{Path, PathBuf};

use poolwright_replay::KernelPoolOptions;

use crate::campaign::{PoolSpec, Study};
use crate::{Error, Result, TargetSpec};

/// The storage of the datasets in all trials of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum RunTarget {
    /// A pool of the engine in user space for each trial.
    Pool,
    /// Datasets of the kernel's OpenZFS, which each trial creates.
    Dataset {
        /// Where they are created, and their limits. The directory of the mounts and the quota are those of each trial.
        options: KernelPoolOptions,
        /// The bytes that the pool's devices may write during all trials together.
        max_bytes: u64,
        /// The bytes that a trial may use.
        available: u64,
    },
    /// Directories of the host's file system.
    Directory(PathBuf),
}

impl RunTarget {
    /// Returns the text that identifies the target in the results.
    pub fn text(&self) -> String {
        match self {
            RunTarget::Pool => "pool".to_owned(),
            RunTarget::Dataset { options, .. } => format!("dataset {}", options.parent),
            RunTarget::Directory(dir) => format!("directory {}", dir.display()),
        }
    }

    /// Returns the target of a trial: a separate pool, or at most `quota` bytes of the dataset, mounted in its scratch directory.
    pub fn spec(&self, pool: PoolSpec, scratch: &Path, quota: u64) -> TargetSpec {
        match self {
            RunTarget::Pool => TargetSpec::Pool(pool),
            RunTarget::Dataset { options, .. } => TargetSpec::Dataset(KernelPoolOptions {
                mount_dir: scratch.join("target"),
                quota,
                ..options.clone()
            }),
            RunTarget::Directory(dir) => TargetSpec::Directory(dir.clone()),
        }
    }

    /// Parses the text of a target, for a worker on a cluster.
    ///
    /// # Errors
    /// [`Error::Usage`] if a worker cannot use such a target.
    pub fn parse(text: &str) -> Result<RunTarget> {
        match text.split_once(' ') {
            None if text == "pool" => Ok(RunTarget::Pool),
            Some(("directory", path)) => Ok(RunTarget::Directory(path.into())),
            _ => Err(Error::Usage(format!("workers of a cluster cannot use the target {text:?}"))),
        }
    }

    /// Returns why a study cannot run on this target, after the study's name.
    pub(crate) fn unfit(&self, study: &Study) -> Option<&'static str> {
        match self {
            RunTarget::Pool => None,
            RunTarget::Dataset { .. } if study.varies_pool() => {
                Some("varies the pool itself, which trials on an existing pool cannot change")
            }
            RunTarget::Dataset { .. } if study.has_several_pools() => {
                Some("has datasets on several pools, which trials on one existing pool cannot have")
            }
            RunTarget::Dataset { .. } | RunTarget::Directory(_) if study.pool.snapshots != "none" => {
                Some("takes snapshots while the database runs, which requires a pool in user space")
            }
            RunTarget::Dataset { .. } if study.phases.iter().any(|phase| phase.cold) => Some(
                "has a phase that begins with empty caches, for which an existing pool cannot be exported",
            ),
            RunTarget::Dataset { .. } if study.phases.iter().any(|phase| phase.record) => {
                Some("records its reads and writes, which requires a pool in user space")
            }
            RunTarget::Dataset { .. } => None,
            RunTarget::Directory(_) => {
                study.needs_pool().then_some("varies properties, which a directory does not have")
            }
        }
    }
}

/// The bytes that the devices of a kernel's pool wrote during the trials.
#[derive(Clone, Copy, Debug, Default)]
pub struct PoolWrites {
    all: u64,
    /// In the trial with the most.
    most: u64,
}

impl PoolWrites {
    /// Refuses another trial if it would write more than the limit.
    ///
    /// # Errors
    /// [`poolwright_replay::Error::WroteEnough`].
    pub fn check(&self, target: &RunTarget) -> Result<()> {
        match target {
            RunTarget::Dataset { max_bytes: limit, .. } if self.all + self.most > *limit => {
                Err(poolwright_replay::Error::WroteEnough { next: self.most, limit: *limit }.into())
            }
            _ => Ok(()),
        }
    }

    /// Adds what the devices wrote during a trial.
    pub fn add(&mut self, bytes: u64) {
        self.all += bytes;
        self.most = self.most.max(bytes);
    }
}
