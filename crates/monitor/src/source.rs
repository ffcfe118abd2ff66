//! Sources: each reads one origin of figures.

pub mod user_pool;

use std::time::Duration;

use crate::{Readings, Result};

/// Identifies a source: the values of the labels of [`crate::family::SOURCE`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceName {
    /// What is read, such as `user-pool`.
    pub source: &'static str,
    /// The pool; empty for a source that concerns all pools.
    pub pool: String,
}

/// Reads one origin of figures. A source is cheap to make: it opens nothing before the first [`Source::read`].
pub trait Source: Send {
    /// The name, unique among all sources.
    fn name(&self) -> SourceName;

    /// The shortest time between two reads. More frequent scrapes receive the same readings again.
    fn interval(&self) -> Duration {
        Duration::ZERO
    }

    /// Reads the present values. The caller runs it in a thread of its own, so that it may block.
    ///
    /// # Errors
    /// If nothing could be read. The message becomes a line of the log.
    fn read(&mut self) -> Result<Readings>;
}

/// Lists the sources of one kind, which come and go with the pools.
pub trait Discovery: Send + Sync {
    /// The sources that exist now. Must not block: it reads directories, and runs no program.
    fn sources(&self) -> Vec<Box<dyn Source>>;
}
