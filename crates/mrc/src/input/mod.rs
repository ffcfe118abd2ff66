//! Where extents come from: traces of several formats, read in chunks and in bounded memory.

mod follow;
mod lis;
mod live;
mod oracle;
mod source;
mod synthetic;
mod trace;

use std::path::{Path, PathBuf};

use poolwright_trace::layout::Role;
use serde::{Deserialize, Serialize};

use crate::{Extent, Result};
use source::{Source, malformed};

pub use follow::Follow;
pub use lis::{BLOCK, Lis};
pub use live::{Feed, Gone, Live, live};
pub use oracle::Oracle;
pub use synthetic::{Pattern, Spec, Synthetic};
pub use trace::Trace;

/// Pieces that an input hands over at once, give or take what one event becomes: 2 MiB.
pub const CHUNK: usize = 1 << 16;

/// The longest transfer that is one: Linux moves at most 2 GiB in a call (`MAX_RW_COUNT`, `read(2)`).
pub const LONGEST: u64 = 1 << 31;

/// What the extents of an input are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes of files: any recordsize can be looked at; this one where none is asked for.
    Bytes {
        /// Bytes.
        recordsize: u64,
    },
    /// Whole objects, each a record of its own size.
    Objects,
}

/// A source of extents, in the order of the trace.
pub trait Input: Send {
    /// The format's name, as `--format` takes it.
    fn format(&self) -> &'static str;

    /// What the extents are.
    fn unit(&self) -> Unit;

    /// Replaces what is in `extents` by the next chunk, about [`CHUNK`] of them; empty at the end of the trace.
    /// Fails where the rest of the source means nothing; events that are only odd are left out and counted.
    fn read(&mut self, extents: &mut Vec<Extent>) -> Result<()>;

    /// What was left out so far.
    fn skipped(&self) -> Skipped;

    /// Nanoseconds from the first to the last event that was read, or as the trace says; 0 where there is no time.
    fn duration_ns(&self) -> u64;

    /// Whether times are fine enough to tell whether two accesses were a sixteenth of a second apart, after which OpenZFS's
    /// ARC takes the second for one (`ARC_MINTIME`).
    fn has_fine_times(&self) -> bool {
        false
    }

    /// Share of the source that was read, 0 to 1; `None` where its end is not known.
    fn progress(&self) -> Option<f64>;
}

/// The formats that files can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A Poolwright trace.
    Trace,
    /// `.lis`, plain or packed by zstd.
    Lis,
    /// oracleGeneral, plain or packed by zstd.
    OracleGeneral,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 3] = [Format::Trace, Format::Lis, Format::OracleGeneral];

    /// The name, as `--format` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Format::Trace => "trace",
            Format::Lis => "lis",
            Format::OracleGeneral => "oraclegeneral",
        }
    }

    /// The format of that name.
    pub fn from_name(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// Which files of a trace count; all of them by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Select {
    /// Files of one of these roles; of any, if there is none.
    pub roles: Vec<Role>,
    /// Files of these paths, or below them; of any, if there is none.
    pub paths: Vec<PathBuf>,
}

impl Select {
    /// Whether every file counts.
    pub fn is_all(&self) -> bool {
        self.roles.is_empty() && self.paths.is_empty()
    }

    /// Whether a file counts.
    pub fn takes(&self, path: &Path, role: Role) -> bool {
        (self.roles.is_empty() || self.roles.contains(&role))
            && (self.paths.is_empty() || self.paths.iter().any(|start| path.starts_with(start)))
    }
}

/// Opens a trace of any format: the one named, or else the one that its first bytes tell, or its name where they do not.
/// Only a Poolwright trace has files to select.
pub fn open(path: &Path, format: Option<Format>, select: &Select) -> Result<Box<dyn Input>> {
    if let Some(text) = path.to_str().filter(|text| text.starts_with(synthetic::PREFIX)) {
        return Ok(Box::new(Synthetic::open(text)?));
    }
    let mut source = Source::open(path)?;
    let format = match format {
        Some(format) => format,
        None => recognise(path, source.head()?)?,
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
        return Err(malformed(path, "the first bytes", "the file is empty"));
    }
    if head.starts_with(b"PAR1") {
        return Ok(Format::Trace);
    }
    if Lis::recognises(head) || name.ends_with(".lis") || name.ends_with(".lis.zst") {
        return Ok(Format::Lis);
    }
    if name.contains("oraclegeneral") || oracle::recognises(head) {
        return Ok(Format::OracleGeneral);
    }
    Err(crate::Error::UnknownFormat { path: path.to_owned() })
}

/// Single events that cannot be right, counted instead of believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Left out: they read or write nothing.
    pub zero_length: u64,
    /// Left out: they reach past 2^60, or past the 2^40 records that a file can have.
    pub too_far: u64,
    /// Left out: longer than [`LONGEST`].
    pub too_long: u64,
    /// Kept where they stand, at the time of the one before: their own time lies before it.
    pub unsorted: u64,
}

impl Skipped {
    /// Each count that is not zero, and what happened to those events.
    pub fn counts(&self) -> Vec<(u64, &'static str)> {
        let all = [
            (self.zero_length, "of zero length skipped"),
            (self.too_far, "past the largest offset (2^60, or 2^40 records) skipped"),
            (self.too_long, "longer than 2 GiB skipped"),
            (self.unsorted, "out of time order, used in the order of the trace"),
        ];
        all.into_iter().filter(|(count, _)| *count > 0).collect()
    }
}

impl std::ops::AddAssign for Skipped {
    fn add_assign(&mut self, more: Skipped) {
        self.zero_length += more.zero_length;
        self.too_far += more.too_far;
        self.too_long += more.too_long;
        self.unsorted += more.unsorted;
    }
}
