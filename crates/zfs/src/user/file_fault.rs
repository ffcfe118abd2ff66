//! A changed file of an open pool.

use std::path::PathBuf;

use poolwright_openzfs::FileChange;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A file of an open pool that has changed since the pool was opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileFault {
    /// Its path when the pool was opened.
    pub path: PathBuf,
    /// The change.
    pub change: FileChange,
    /// Whether the pool has no other copy of its data. The pool then refuses all changes.
    pub lost: bool,
    /// `/proc/PID/fd/N`, through which its content can be read while the owner lives.
    pub content: PathBuf,
    /// Its new path, if it was moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<PathBuf>,
}
