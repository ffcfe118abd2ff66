//! The I/O event, the Parquet trace, importers and statistics.
//!
//! A [`Trace`] is what a recorder or an importer writes and every later stage reads: a table of files and a
//! stream of [`Event`]s, one Parquet file on disk (`docs/trace-format.md`).

pub mod event;

pub use event::{Event, File, Flags, Meta, Op};
