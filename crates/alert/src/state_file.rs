//! The counters of earlier runs of `poolwright check`, in a file.

use std::io::Write as _;
use std::path::Path;

use poolwright_host::{Part, private};
use serde::{Deserialize, Serialize};

use crate::history::{History, KeptSeries};
use crate::{Error, Result};

/// The contents of the file.
#[derive(Debug, Serialize, Deserialize)]
struct StateFile {
    version: u32,
    series: Vec<KeptSeries>,
}

/// The mode of the file: pools and datasets have names that concern no other user.
const MODE: u32 = 0o600;
/// The version of the format. A file of another version is ignored.
const VERSION: u32 = 2;

/// Adds the series in the file to the history; returns whether there were any. A missing or damaged file is an empty one: it
/// costs one comparison, and the next run replaces it.
///
/// # Errors
/// [`Error::StateFile`] if the file exists and cannot be read.
pub fn restore(history: &mut History, path: &Path, now: f64) -> Result<bool> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(cause) => return Err(failed(path, cause)),
    };
    let Ok(StateFile { version: VERSION, series }) = serde_json::from_slice(&text) else { return Ok(false) };
    history.restore(series, now);
    Ok(true)
}

/// Replaces the file at once.
///
/// # Errors
/// [`Error::StateFile`].
pub fn keep(history: &History, path: &Path) -> Result<()> {
    let state = StateFile { version: VERSION, series: history.to_kept() };
    let text = serde_json::to_vec(&state).map_err(|cause| failed(path, cause))?;
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        private::make_dirs(dir).map_err(|cause| failed(path, cause))?;
    }
    let replaced = Part::create(path, MODE).and_then(|(part, mut file)| {
        file.write_all(&text)?;
        part.rename(path)
    });
    replaced.map_err(|cause| failed(path, cause))
}

fn failed(path: &Path, cause: impl ToString) -> Error {
    Error::StateFile { path: path.to_owned(), cause: cause.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table;

    #[test]
    fn a_missing_or_damaged_file_is_an_empty_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/state.json");
        let mut history = History::new(table::rules());
        assert!(!restore(&mut history, &path, 0.0).unwrap());
        keep(&history, &path).unwrap();
        assert!(restore(&mut history, &path, 0.0).unwrap());
        for damaged in ["", "{", "{\"version\":3,\"series\":[]}", "{\"version\":2,\"series\":[{}]}"] {
            std::fs::write(&path, damaged).unwrap();
            assert!(!restore(&mut history, &path, 0.0).unwrap(), "{damaged}");
        }
        assert!(matches!(restore(&mut history, dir.path(), 0.0), Err(Error::StateFile { .. })));
    }
}
