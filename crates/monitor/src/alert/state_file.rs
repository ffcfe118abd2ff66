//! The counters of earlier runs of `poolwright check`, in a file.

use std::io::Write as _;
use std::path::Path;

use poolwright_base::{Part, private};
use serde::{Deserialize, Serialize};

use crate::alert::history::{History, KeptSeries};
use crate::{Error, Result};

/// The contents of the file.
#[derive(Debug, Serialize, Deserialize)]
struct StateFile {
    version: u32,
    series: Vec<KeptSeries>,
}

/// The mode of the file: pools and datasets have names that concern no other user.
const MODE: u32 = 0o600;
/// The version of the format.
const VERSION: u32 = 2;

/// The outcome of [`restore`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Restored {
    /// The series are those of the file.
    Series,
    /// There is no file.
    Missing,
    /// The file is not used, and why: "is damaged (…)". It costs one comparison, and this run replaces it.
    Unusable(String),
}

/// Adds the series in the file to the history.
///
/// # Errors
/// [`Error::StateFile`] if the file exists and cannot be read.
pub fn restore(history: &mut History, path: &Path, now: f64) -> Result<Restored> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(Restored::Missing),
        Err(cause) => return Err(failed(path, cause)),
    };
    let unusable = match serde_json::from_slice(&text) {
        Ok(StateFile { version: VERSION, series }) => {
            history.restore(series, now);
            return Ok(Restored::Series);
        }
        Ok(StateFile { version, .. }) => format!("has version {version} instead of {VERSION}"),
        Err(_) if text.is_empty() => "is empty".to_owned(),
        Err(error) => format!("is not a state file, or is damaged ({error})"),
    };
    Ok(Restored::Unusable(unusable))
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
    use crate::alert::table;

    #[test]
    fn a_damaged_file_is_an_empty_one_and_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/state.json");
        let mut history = History::new(table::rules());
        assert_eq!(restore(&mut history, &path, 0.0).unwrap(), Restored::Missing);
        keep(&history, &path).unwrap();
        assert_eq!(restore(&mut history, &path, 0.0).unwrap(), Restored::Series);
        for (damaged, expected) in [
            ("", "is empty"),
            ("{", "is not a state file, or is damaged (EOF"),
            ("{\"version\":3,\"series\":[]}", "has version 3 instead of 2"),
            ("{\"version\":2,\"series\":[{}]}", "is not a state file, or is damaged (missing field"),
        ] {
            std::fs::write(&path, damaged).unwrap();
            match restore(&mut history, &path, 0.0).unwrap() {
                Restored::Unusable(why) => assert!(why.starts_with(expected), "{damaged}: {why}"),
                other => panic!("{damaged}: {other:?}"),
            }
        }
        assert!(matches!(restore(&mut history, dir.path(), 0.0), Err(Error::StateFile { .. })));
    }
}
