//! The captures of pools, for all tests.

// No test program uses all of them.

use std::path::{Path, PathBuf};

/// The captures of a version, such as `openzfs-2.3.2`.
pub fn captures(version: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures").join(version);
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut captures: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    captures.sort();
    captures
}

/// The directory of one capture: `openzfs-2.3.2/degraded`.
pub fn capture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures").join(name)
}

/// The content of a file of a capture; empty if it does not exist.
pub fn text(capture: &Path, file: &str) -> String {
    std::fs::read_to_string(capture.join(file)).unwrap_or_default()
}
