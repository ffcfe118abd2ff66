//! The directories in which the files of a plan's database can be. A plan that names others could change the datasets of other programs.

use std::path::{Path, PathBuf};

use poolwright_base::mountinfo::{self, MountEntry};
use poolwright_base::quoted;
use poolwright_plan::places::is_beside;
use poolwright_trace::layout;

use crate::Result;
use crate::error::refused;

/// The directories of a database's files.
pub(super) struct DatabasePlaces {
    /// The plan's directory, and the one in or below it in which the database was found.
    roots: [PathBuf; 2],
    /// The mount points of the file systems that contain these.
    mounts: Vec<PathBuf>,
    /// The directories outside to which links of the database lead.
    linked: Vec<PathBuf>,
}

impl DatabasePlaces {
    /// Examines the database in the plan's directory.
    pub fn of(directory: &Path, mounts: &[MountEntry]) -> DatabasePlaces {
        let root = layout::locate(directory).map_or_else(|| directory.to_owned(), |found| found.root);
        let links = layout::linked_directories(&root);
        let roots = [directory.to_owned(), root];
        let containing = roots.iter().filter_map(|root| mountinfo::containing(mounts, root));
        DatabasePlaces {
            mounts: containing.map(|mount| mount.point.clone()).collect(),
            linked: links.iter().filter_map(|link| link.canonicalize().ok()).collect(),
            roots,
        }
    }

    /// Refuses to change a dataset unless it is mounted in the plan's directory or contains it, is mounted next to the database's
    /// directory, or is the target of a link of the database.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused).
    pub fn check_mount(&self, mount: &MountEntry) -> Result<()> {
        let point = &mount.point;
        let is_known = point.starts_with(&self.roots[0])
            || self.mounts.contains(point)
            || self.linked.contains(point)
            || self.roots.iter().any(|root| is_beside(point, root));
        match is_known {
            true => Ok(()),
            false => refused(format!(
                "the plan changes {} on {}, where the database in {} has no files\nhint: make a plan for this database on this host",
                mount.describe(),
                quoted(point),
                quoted(&self.roots[0])
            )),
        }
    }

    /// Refuses to replace a directory with a link if it is not directly in the database's directory.
    ///
    /// # Errors
    /// [`Error::Refused`](crate::Error::Refused).
    pub fn check_link(&self, link: &Path) -> Result<()> {
        match link.parent().is_some_and(|parent| self.roots.iter().any(|root| root == parent)) {
            true => Ok(()),
            false => refused(format!(
                "the plan makes a link of {}, which is not in the database's directory {}\nhint: make a plan for this database on this \
                 host",
                quoted(link),
                quoted(&self.roots[1])
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_places_of_the_database_are_known() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (root, log) = (top.join("above/pg"), top.join("log"));
        for dir in ["base/1", "global", "pg_wal/x"] {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        for file in ["PG_VERSION", "global/pg_control", "base/1/2"] {
            fs::write(root.join(file), b"x").unwrap();
        }
        fs::create_dir(&log).unwrap();
        fs::remove_dir_all(root.join("pg_wal")).unwrap();
        symlink(&log, root.join("pg_wal")).unwrap();
        let line = |at: &Path| format!("30 1 0:50 / {} rw - zfs tank/x rw\n", at.display());
        let mounts = mountinfo::parse(line(&top).as_bytes());
        let places = DatabasePlaces::of(&top.join("above"), &mounts);
        let is_known = |at: &Path| places.check_mount(&mountinfo::parse(line(at).as_bytes())[0]).is_ok();
        for known in [&top, &log, &top.join("above"), &root.join("base"), &top.join("above/pg-wal")] {
            assert!(is_known(known), "{}", known.display());
        }
        for other in [&top.join("other"), &top.join("log2"), &top.join("x/pg-wal"), Path::new("/")] {
            assert!(!is_known(other), "{}", other.display());
        }
        places.check_link(&root.join("pg_wal")).unwrap();
        places.check_link(&top.join("above/pg_wal")).unwrap();
        places.check_link(&root.join("base/1")).unwrap_err();
    }
}
