//! Reads the state of pools, and exports it as metrics.
//!
//! Data flow: each [`Source`] reads one origin (the sockets of user-space pools, kstats, `zpool`, a plan) and returns
//! [`Readings`]. The [`Poller`] runs each source in a separate thread, so that a source that hangs does not delay the others, and its last
//! readings stay available with their age. [`exposition`] formats readings for Prometheus, [`server`] serves them.
//!
//! ```text
//! Source… ─thread each─▶ Poller ─▶ Readings ─▶ exposition (Prometheus, OpenMetrics) ─▶ server
//! ```
//!
//! [`family`] is the one table of metrics. The documentation, the exposition and the alert rules are made from it. [`alert`] evaluates the
//! alert rules on readings, and [`terminal`] shows readings.

pub mod alert;
pub mod error;
pub mod exposition;
pub mod family;
pub mod poller;
pub mod reading;
pub mod reference;
pub mod server;
pub mod source;
pub mod terminal;

pub use error::{Error, Result};
pub use family::{FAMILIES, FamilyType, MetricFamily, RESOURCES, ResourceType, Unit};
pub use poller::{Poller, SourceReadings};
pub use reading::{Readings, Resource};
pub use source::Source;
