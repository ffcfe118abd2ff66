//! The registry of each pool's files: one small JSON file per pool, in [`crate::user::state_dir`]`/pools`.
//!
//! The registry is only a shortcut to find files; the labels in the files are authoritative. An entry is created when a
//! pool is created or imported, and removed when the pool is exported.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use poolwright_base::private;
use serde::{Deserialize, Serialize};

use crate::user::dirs::private_dir;
use crate::user::error::io;
use crate::user::{Error, Result, Scrub, name, state_dir};

/// The registry entry of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Its name.
    pub pool: String,
    /// Its files, as absolute paths; files of available spares and cache vdevs last.
    pub files: Vec<PathBuf>,
    /// The last scrub that Poolwright ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_scrub: Option<Scrub>,
}

fn dir() -> PathBuf {
    state_dir().join("pools")
}

fn path(pool: &str) -> Result<PathBuf> {
    name::check_pool(pool)?;
    Ok(dir().join(format!("{pool}.json")))
}

/// The entry of this pool, if it exists.
///
/// # Errors
/// If the name is invalid, or the entry cannot be read or parsed.
pub fn find(pool: &str) -> Result<Option<Entry>> {
    let path = path(pool)?;
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(io("reading", &path)(why)),
    };
    let entry: Entry = serde_json::from_str(&text).map_err(|why| Error::Damaged {
        path: path.clone(),
        why: format!("invalid registry entry ({why})\nhint: remove it, and import the pool again"),
    })?;
    Ok(Some(entry))
}

/// All entries, sorted by name. An entry that cannot be read is an error in the list.
///
/// # Errors
/// If the directory cannot be listed.
pub fn all() -> Result<Vec<Result<Entry>>> {
    let listing = match fs::read_dir(dir()) {
        Ok(listing) => listing,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(why) => return Err(io("listing", &dir())(why)),
    };
    let mut names: Vec<String> = listing
        .flatten()
        .filter_map(|e| Some(e.file_name().to_str()?.strip_suffix(".json")?.to_owned()))
        .collect();
    names.sort();
    Ok(names.iter().filter_map(|name| find(name).transpose()).collect())
}

/// Writes an entry, replacing the pool's older one atomically.
///
/// # Errors
/// If the name is invalid, or the directory or file cannot be written.
pub fn save(entry: &Entry) -> Result<()> {
    let path = path(&entry.pool)?;
    private_dir(&state_dir())?;
    private_dir(&dir())?;
    let new = dir().join(format!(".{}.{}", entry.pool, std::process::id()));
    let text = serde_json::to_string_pretty(entry).map_err(|why| Error::Damaged {
        path: path.clone(),
        why: format!("cannot encode the entry as JSON: {why}"),
    })?;
    let written = private::create(&new)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.write_all(b"\n")?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&new, &path));
    written.map_err(|why| {
        let _ = fs::remove_file(&new);
        io("writing", &path)(why)
    })
}

/// Removes a pool's entry; the pool's files stay. Returns whether the entry existed.
///
/// # Errors
/// If the name is invalid, or the entry cannot be removed.
pub fn forget(pool: &str) -> Result<bool> {
    let path = path(pool)?;
    match fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(why) => Err(io("removing", &path)(why)),
    }
}
