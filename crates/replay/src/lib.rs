//! Replays a trace on a target and measures it.
//!
//! A trial has these steps. A [`capture`] contains the data that the trace touches, read once from the real files. A
//! [`schedule`] arranges the trace's operations as lanes that keep the order within each thread and across syncs. The
//! trial fills a [`Target`] (the engine, a directory, or a pool of the kernel), warms it up, and runs the schedule on it. The result is a
//! [`result::Replay`]. A [`spec::Spec`] describes one trial completely, and [`child`] runs it in a child process, so
//! that a failed assertion in the engine ends only the trial.

pub mod application;
pub mod behaviour;
pub mod capture;
pub mod child;
mod clients;
mod clock;
pub mod codec_times;
mod contested;
mod cpus;
mod directory;
mod drive;
mod engine;
mod error;
mod host_files;
mod kernel_pool;
mod lock_range;
mod lock_table;
mod missing_files;
mod other_files;
mod pacer;
pub mod preparation;
pub mod result;
pub mod rounds;
pub mod schedule;
mod servers;
pub mod settings;
mod source_files;
pub mod spec;
mod syncs;
mod target;
mod thread_time;
pub mod trial;
mod work_count;

pub use capture::Capture;
pub use directory::Directory;
pub use drive::{Pace, drive};
pub use engine::{EngineOptions, EngineTarget};
pub use error::{Error, Result};
pub use kernel_pool::{KernelPoolOptions, KernelPoolTarget, PoolLoad, PoolWatch, TrialDatasets};
pub use missing_files::MissingFiles;
pub use other_files::OtherFiles;
pub use result::{Latency, Replay, StoppedTrial};
pub use schedule::Schedule;
pub use source_files::SourceFiles;
pub use spec::{ApplicationSpec, Spec, TargetSpec};
pub use target::{Counters, Target};
