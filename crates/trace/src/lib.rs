//! The I/O event, the Parquet trace, importers and statistics.
//!
//! A recorder or an importer writes a trace, and every later stage reads it: a table of files and a stream of
//! [`Event`]s in one Parquet file (`docs/trace-format.md`). [`Writer`] writes a trace, [`Reader`] streams one, and
//! [`Trace`] keeps one in memory.
//!
//! ```
//! use poolwright_trace::{Event, File, Flags, Meta, Op, Reader, Writer};
//!
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("t.parquet");
//! let mut writer = Writer::create(&path, Meta { subject: "dir:/db".into(), ..Meta::default() })?;
//! let file = writer.file(File { path: "/db/t.ibd".into(), role: Some(poolwright_trace::layout::Role::Data), ..File::default() });
//! let (offset, len, flags) = (0, 16384, Flags::DIRECT);
//! let (pid, tid, gap) = (1, 1, None);
//! writer.push(Event { t_ns: 10, dur_ns: 90_000, op: Op::Read, file, offset, len, pid, tid, flags, gap })?;
//! writer.tick()?; // about once a second: a checkpoint, if one is due
//! assert_eq!(writer.finish()?.events, 1);
//!
//! let reader = Reader::open(&path)?;
//! for event in reader.events() {
//!     let event = event?;
//!     println!("{} {} {}", reader.files()[event.file as usize].path, event.op.name(), event.len);
//! }
//! # Ok::<(), poolwright_trace::Error>(())
//! ```

mod checksum;
pub mod distinct;
mod encoding;
pub mod error;
pub mod event;
pub mod export;
pub mod import;
pub mod layout;
mod memory;
mod pages;
pub mod path_text;
pub mod processor;
mod pseudonym;
mod reader;
mod row_group;
mod schema;
pub mod stats;
mod torn_end;
mod writer;

pub use encoding::Encoding;
pub use error::{Error, Result};
pub use event::{CpuSecond, Event, File, Flags, Gap, Meta, Op, UnseenOperation};
pub use memory::Trace;
pub use processor::{CodecTime, KernelTimes, Processor};
pub use pseudonym::Pseudonyms;
pub use reader::{Events, Reader, is_decoding};
pub use schema::FORMAT_VERSION;
pub use torn_end::TornEnd;
pub use writer::{Summary, Writer};
