//! Files of a trace that do not exist.

use std::fmt;
use std::path::PathBuf;

use poolwright_base::quoted;

/// Files that a trace reads, writes or maps, and that do not exist. `Display` returns a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingFiles {
    /// Where the files were looked for.
    pub dir: PathBuf,
    /// The path of the first missing file in the trace.
    pub first: String,
    /// The number of missing files.
    pub count: usize,
    /// The number of files that the trace reads, writes or maps.
    pub of: usize,
}

impl fmt::Display for MissingFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MissingFiles { dir, first, count, of } = self;
        match (*count, *of) {
            (1, 1) => write!(f, "the only file that the trace reads or writes, {first}, is not there"),
            (n, of) if n == of => {
                write!(
                    f,
                    "none of the {n} files that the trace reads or writes is there (the first is {first})"
                )
            }
            _ => write!(
                f,
                "{count} of the {of} files that the trace reads or writes are not in {} (such as {first}): their bytes are \
                 made up",
                quoted(&dir)
            ),
        }
    }
}
