//! Inputs: traces of several formats, read in chunks and in bounded memory.

mod follow;
mod lis;
mod live;
mod oracle;
mod source;
mod trace;

use std::path::{Path, PathBuf};

use poolwright_trace::import;
use poolwright_trace::layout::Role;
use poolwright_trace::{Encoding, Event, Flags};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Extent, Result};
use lis::Lis;
use oracle::Oracle;
use source::Source;

pub use follow::Follow;
pub use lis::BLOCK;
pub use live::{Feed, Gone, Live, live};
pub use trace::Trace;

/// Extents per chunk, approximately: 2 MiB.
pub const CHUNK: usize = 1 << 16;

/// The longest transfer in bytes: Linux moves at most 2 GiB in a call (`MAX_RW_COUNT`, `read(2)`).
pub const LONGEST: u64 = 1 << 31;

/// The meaning of an input's extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of files, for any recordsize; `recordsize` is the default.
    Bytes {
        /// Bytes.
        recordsize: u64,
    },
    /// Whole objects, each a record of its own size.
    Objects,
}

/// A source of extents in the order of the trace.
pub trait Input: Send {
    /// The name of the format.
    fn format(&self) -> &'static str;

    /// The meaning of the extents.
    fn unit(&self) -> Unit;

    /// Replaces the contents of `extents` by the next chunk, about [`CHUNK`] extents; none at the end of the trace.
    /// Skips and counts single invalid events.
    ///
    /// # Errors
    /// If the source cannot be read, or its rest is damaged.
    fn read(&mut self, extents: &mut Vec<Extent>) -> Result<()>;

    /// The events skipped so far.
    fn skipped(&self) -> Skipped;

    /// Nanoseconds from the first to the last event so far, or the length that the trace states; 0 without times.
    fn duration_ns(&self) -> u64;

    /// Whether times are precise enough to distinguish accesses a sixteenth of a second apart. OpenZFS's ARC treats
    /// closer accesses as one (`ARC_MINTIME`).
    fn has_fine_times(&self) -> bool {
        false
    }

    /// Share of the source that was read, 0 to 1; `None` if its end is unknown.
    fn progress(&self) -> Option<f64>;
}

/// The formats of trace files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A Poolwright trace.
    Trace,
    /// `.lis`, plain or compressed by zstd.
    Lis,
    /// oracleGeneral, plain or compressed by zstd.
    OracleGeneral,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 3] = [Format::Trace, Format::Lis, Format::OracleGeneral];

    /// The name of the format.
    pub fn name(self) -> &'static str {
        match self {
            Format::Trace => "trace",
            Format::Lis => "lis",
            Format::OracleGeneral => "oraclegeneral",
        }
    }

    /// The format with this name.
    pub fn from_name(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// The alignment in bytes of offsets and lengths that direct I/O of OpenZFS needs, a page of Linux on most machines.
const PAGE: u64 = 4096;

/// The property `direct`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direct {
    /// Page-aligned requests with `O_DIRECT` bypass the ARC.
    Standard,
    /// All page-aligned requests bypass the ARC.
    Always,
    /// No request bypasses the ARC, as before OpenZFS 2.3.
    #[default]
    Disabled,
}

impl Direct {
    /// Every value with its name.
    pub const ALL: [(Direct, &str); 3] =
        [(Direct::Standard, "standard"), (Direct::Always, "always"), (Direct::Disabled, "disabled")];

    /// The value with this name.
    pub fn from_name(name: &str) -> Option<Direct> {
        Direct::ALL.into_iter().find(|(_, its)| *its == name).map(|(value, _)| value)
    }

    /// Whether a read or write bypasses the ARC.
    pub fn bypasses(self, request: &Event) -> bool {
        let is_requested = match self {
            Direct::Standard => request.flags.contains(Flags::DIRECT),
            Direct::Always => true,
            Direct::Disabled => false,
        };
        is_requested && (request.offset | request.len).is_multiple_of(PAGE)
    }
}

/// The files and operations of a trace that are used; all by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Select {
    /// Only files of these roles; empty for all.
    pub roles: Vec<Role>,
    /// Only these files, or files below these directories; empty for all.
    pub paths: Vec<PathBuf>,
    /// Reads that bypass the cache are left out, and counted as [`Skipped::direct`].
    pub direct: Direct,
}

impl Select {
    /// Whether all files are selected.
    pub fn is_all(&self) -> bool {
        self.roles.is_empty() && self.paths.is_empty()
    }

    /// Whether a file is selected.
    pub fn takes(&self, path: &Path, role: Role) -> bool {
        (self.roles.is_empty() || self.roles.contains(&role))
            && (self.paths.is_empty() || self.paths.iter().any(|start| path.starts_with(start)))
    }
}

/// Opens a trace. Without `format`, detects the format from the first bytes, or from the name if they fit no format: the first
/// requests may be invalid ones, which are skipped. Only a Poolwright trace has files to select.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) if the file cannot be opened or read;
/// [`Error::UnknownFormat`](crate::Error::UnknownFormat) if no format matches; [`Error::NoFiles`](crate::Error::NoFiles) if
/// files are selected in a format without files; otherwise as the `open` of the format.
pub fn open(path: &Path, format: Option<Format>, select: &Select) -> Result<Box<dyn Input>> {
    let mut source = Source::open(path)?;
    let head = source.head()?;
    if let Some(encoding) = Encoding::of(&head).filter(|_| !oracle::recognises(&head)) {
        return Err(poolwright_trace::Error::Encoded { path: path.to_owned(), encoding }.into());
    }
    let format = match format {
        Some(format) => format,
        None => recognise(path, &head)?,
    };
    if format != Format::Trace && !select.is_all() {
        return Err(crate::Error::NoFiles { path: path.to_owned(), format: format.name() });
    }
    Ok(match format {
        Format::Trace => Box::new(Trace::open(path, select)?),
        Format::Lis => Box::new(Lis::new(source)),
        Format::OracleGeneral => Box::new(Oracle::new(source)?),
    })
}

fn recognise(path: &Path, head: &[u8]) -> Result<Format> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    if head.is_empty() {
        return Err(crate::Error::Empty(path.to_owned()));
    }
    if head.starts_with(b"PAR1") {
        return Ok(Format::Trace);
    }
    if Lis::recognises(head) {
        return Ok(Format::Lis);
    }
    if oracle::recognises(head) && !oracle::is_text(head) {
        return Ok(Format::OracleGeneral);
    }
    if import::is_iolog(head) {
        return Err(crate::Error::NotImported { path: path.to_owned(), format: import::FORMAT });
    }
    if name.ends_with(".lis") || name.ends_with(".lis.zst") {
        return Ok(Format::Lis);
    }
    if name.contains("oraclegeneral") {
        return Ok(Format::OracleGeneral);
    }
    Err(crate::Error::UnknownFormat { path: path.to_owned() })
}

/// Events that are counted instead of used: invalid ones, and reads that bypass the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Skipped {
    /// Skipped: they read or write nothing.
    pub zero_length: u64,
    /// Skipped: they reach beyond 2^60, or beyond the 2^40 records that a file can have.
    pub too_far: u64,
    /// Skipped: longer than [`LONGEST`].
    pub too_long: u64,
    /// Skipped: reads that bypass the cache ([`Direct`]).
    #[serde(default)]
    pub direct: u64,
    /// Used in the order of the trace, with the time of the event before: their own time is earlier.
    pub unsorted: u64,
}

impl Skipped {
    /// Each count that is not zero, with a description.
    pub fn counts(&self) -> Vec<(u64, &'static str)> {
        let all = [
            (self.zero_length, "of zero length skipped"),
            (self.too_far, "past the largest offset (2^60, or 2^40 records) skipped"),
            (self.too_long, "longer than 2 GiB skipped"),
            (self.direct, "with direct I/O, which bypasses the cache, skipped"),
            (self.unsorted, "out of time order, used in the order of the trace"),
        ];
        all.into_iter().filter(|(count, _)| *count > 0).collect()
    }
}
