//! Files at paths of a trace that are not the recorded ones.

use std::fmt;

use poolwright_base::units::counted;

/// Files that a trace reads, writes or maps, and at whose paths there are other files. `Display` returns a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherFiles {
    /// The first such path in the trace.
    pub first: String,
    /// The number of such files.
    pub count: usize,
    /// The number of files that the trace reads, writes or maps.
    pub of: usize,
}

impl fmt::Display for OtherFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OtherFiles { first, count, of } = self;
        let of = counted(*of as u64, "file");
        write!(
            f,
            "at the paths of {count} of the {of} that the trace reads or writes are other files (such as {first}: another \
             device or inode), because they were replaced, or because the recorded process had other mounts: their bytes are \
             made up"
        )
    }
}
