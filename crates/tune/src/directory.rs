//! The subject of a tuning run: the database's directory, or a volume.

use std::path::{Path, PathBuf};

use poolwright_base::{quoted, regular};

use crate::{Error, Result};

/// The real path of a database's directory, which must not be empty; or the path of a block device, as it is named.
///
/// # Errors
/// [`Error::Nothing`] if it cannot be opened, is a file, or is empty.
pub fn database_dir(dir: &Path) -> Result<PathBuf> {
    let shown = |dir: &Path| quoted(&dir).to_string();
    let cannot = |what: &str, dir: &Path, why: std::io::Error| {
        Error::Nothing(format!("cannot {what} {}: {why}", shown(dir)))
    };
    if regular::is_block_device(dir) {
        regular::open_or_block_device(dir).map_err(|why| cannot("open", dir, why))?;
        return std::path::absolute(dir).map_err(|why| cannot("open", dir, why));
    }
    let found = dir.canonicalize().map_err(|why| cannot("open the database's directory", dir, why))?;
    if !found.is_dir() {
        return Err(Error::Nothing(format!("{} is a file\nhint: name the database's directory", shown(dir))));
    }
    let mut entries = std::fs::read_dir(&found).map_err(|why| cannot("list", &found, why))?;
    if entries.next().is_none() {
        return Err(Error::Nothing(format!("{} is empty: there is no database in it", shown(&found))));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_directory_with_files_is_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let refusal = |path: &Path| database_dir(path).unwrap_err().to_string();
        assert!(refusal(dir.path()).contains("is empty"));
        let file = dir.path().join("file");
        assert!(refusal(&file).starts_with("cannot open the database's directory"));
        std::fs::write(&file, "x").unwrap();
        assert!(refusal(&file).contains("is a file\nhint: "));
        assert!(database_dir(dir.path()).unwrap().is_absolute());
    }
}
