//! The symbolic links behind which a database keeps files.

use std::path::{Path, PathBuf};

/// As [`linked_directories`], of the database that is in or below a directory.
pub fn linked_directories_below(dir: &Path) -> Vec<PathBuf> {
    super::locate(dir).map(|found| linked_directories(&found.root)).unwrap_or_default()
}

/// The links of PostgreSQL's data directory to its log and its tablespaces, and of an OrientDB's directory to its indexes. Each leads to
/// a directory outside of `root`. A link that is broken or leads to something else is left out.
pub fn linked_directories(root: &Path) -> Vec<PathBuf> {
    let mut links: Vec<PathBuf> = ["pg_wal", "pg_xlog", "luceneIndexes"].map(|name| root.join(name)).into();
    let tablespaces = std::fs::read_dir(root.join("pg_tblspc")).into_iter().flatten().flatten();
    links.extend(tablespaces.map(|entry| entry.path()));
    let real_root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    links.retain(|path| {
        let is_link = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.is_symlink());
        is_link && path.canonicalize().is_ok_and(|real| real.is_dir() && !real.starts_with(&real_root))
    });
    links.sort();
    links
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_links_to_directories_outside_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (root, wal, space) = (dir.path().join("pg"), dir.path().join("wal"), dir.path().join("space"));
        for dir in [&root.join("pg_tblspc"), &root.join("base"), &wal, &space] {
            fs::create_dir_all(dir).unwrap();
        }
        assert!(linked_directories(&root).is_empty());
        symlink(&wal, root.join("pg_wal")).unwrap();
        symlink(&space, root.join("pg_tblspc/16384")).unwrap();
        symlink(root.join("base"), root.join("pg_tblspc/1")).unwrap();
        symlink("/nonexistent", root.join("pg_tblspc/2")).unwrap();
        symlink("/", root.join("other")).unwrap();
        assert_eq!(linked_directories(&root), [root.join("pg_tblspc/16384"), root.join("pg_wal")]);
    }
}
