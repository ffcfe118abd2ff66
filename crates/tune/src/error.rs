//! What can keep a plan from being made.

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Tuning that failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A capture or trial.
    #[error(transparent)]
    Replay(#[from] poolwright_replay::Error),
    /// The trace.
    #[error(transparent)]
    Trace(#[from] poolwright_trace::Error),
    /// The space estimate.
    #[error(transparent)]
    Estimate(#[from] poolwright_estimate::Error),
    /// A property or value.
    #[error(transparent)]
    Engine(#[from] poolwright_openzfs::Error),
    /// The model of the cache.
    #[error(transparent)]
    Cache(#[from] poolwright_mrc::Error),
    /// There is nothing to tune.
    #[error("{0}")]
    Nothing(String),
    /// The recording is of other files than those of the directory.
    #[error("{0}")]
    OtherFiles(String),
    /// The run that made a plan cannot be repeated.
    #[error("{0}")]
    NotRepeatable(String),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Whether the user asked for it.
    pub fn is_interruption(&self) -> bool {
        matches!(self, Error::Interrupted | Error::Replay(poolwright_replay::Error::Interrupted))
    }
}
