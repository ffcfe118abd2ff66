//! Drives a trace against a target and measures.
//!
//! The way of a trial: a [`capture`] holds the bytes that the trace touches, taken once from the real files; a
//! [`schedule`] turns the trace into lanes that keep per-thread order and sync barriers; a [`Target`] (the engine, or
//! a directory) is filled, brought to a steady state and driven; the [`result::Replay`] says what it cost. A
//! [`spec::Spec`] describes one trial completely, and [`child`] runs it in a process of its own, so that an assertion in
//! the engine ends the trial and not the tool.

pub mod application;
pub mod behaviour;
pub mod capture;
pub mod child;
mod clock;
mod contested;
mod directory;
mod drive;
mod engine;
mod error;
mod lock_range;
mod lock_table;
mod pacer;
pub mod result;
pub mod schedule;
mod servers;
pub mod spec;
mod target;
pub mod trial;

pub use capture::Capture;
pub use directory::Directory;
pub use drive::{Pace, drive};
pub use engine::{EngineOptions, EngineTarget};
pub use error::{Error, Result};
pub use result::Replay;
pub use schedule::Schedule;
pub use spec::{ApplicationSpec, Spec, TargetSpec};
pub use target::{Counters, Target};
