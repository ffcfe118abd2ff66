//! The I/O event, the Parquet trace, importers and statistics.
//!
//! A trace is what a recorder or an importer writes and every later stage reads: a table of files and a
//! stream of [`Event`]s, one Parquet file on disk (`docs/trace-format.md`). [`Writer`] writes one, [`Reader`]
//! streams one, [`Trace`] holds one in memory.

mod checksum;
pub mod error;
pub mod event;
pub mod export;
pub mod import;
pub mod layout;
mod memory;
mod reader;
mod schema;
pub mod stats;
pub mod units;
mod writer;

pub use error::{Error, Result};
pub use event::{Event, File, Flags, Meta, Op};
pub use memory::Trace;
pub use reader::{Events, Reader};
pub use schema::FORMAT_VERSION;
pub use units::{format_count, format_ns, format_size, parse_size};
pub use writer::{Summary, Writer};
