//! Files with one JSON value, which survive a crash at any point.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use poolwright_base::{cannot, private};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Error, Result};

/// Reads a file; `None` if it does not exist.
///
/// # Errors
/// [`Error::Damaged`] if it cannot be understood; the host's errors.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    match fs::read(path) {
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        bytes => {
            let bytes = bytes.map_err(cannot("read", path))?;
            serde_json::from_slice(&bytes).map(Some).map_err(damaged(path))
        }
    }
}

/// As [`read`], for a file whose field `version` is that of its format, at most `newest` in this release.
///
/// # Errors
/// As [`read`]; [`Error::Damaged`] if a newer release has written it.
pub fn read_versioned<T: DeserializeOwned>(path: &Path, newest: u32) -> Result<Option<T>> {
    let Some(value) = read::<Value>(path)? else { return Ok(None) };
    match value["version"].as_u64() {
        Some(version) if version > u64::from(newest) => {
            let why = format!("its format has version {version}, and this release reads {newest}");
            Err(Error::Damaged { path: path.to_owned(), why })
        }
        _ => serde_json::from_value(value).map(Some).map_err(damaged(path)),
    }
}

/// Writes a file, durably: after a crash, it has its old or its new content.
///
/// # Errors
/// The host's errors.
pub fn write(path: &Path, value: &impl Serialize) -> Result<()> {
    let next = path.with_extension("json.next");
    let mut text = serde_json::to_vec_pretty(value).map_err(damaged(path))?;
    text.push(b'\n');
    let mut file = private::create(&next).map_err(cannot("create", &next))?;
    file.write_all(&text).and_then(|()| file.sync_all()).map_err(cannot("write", &next))?;
    fs::rename(&next, path).map_err(cannot("replace", path))?;
    let dir = path.parent().unwrap_or(path);
    Ok(File::open(dir).and_then(|dir| dir.sync_all()).map_err(cannot("sync", dir))?)
}

fn damaged(path: &Path) -> impl FnOnce(serde_json::Error) -> Error {
    let path = path.to_owned();
    move |why| Error::Damaged { path, why: why.to_string() }
}
