//! Checks that root can safely use the directory that `TMPDIR` names.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::geteuid;

use crate::quoted;

/// Refuses the temporary directory of this process if the process runs as root and another user could rename or replace files in it,
/// because that user owns the directory or one above it, or can write to it and it is not sticky. `sudo -E` and `su` keep the variable of
/// the user who calls them. A directory that the administrator names on the command line is not checked.
///
/// # Errors
/// `PermissionDenied`, with a hint; the host's errors.
pub fn check(parent: &Path) -> io::Result<()> {
    if !geteuid().is_root() || parent != std::env::temp_dir() {
        return Ok(());
    }
    match unsafe_directory(parent)? {
        None => Ok(()),
        Some(why) => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "{why}\nhint: set TMPDIR to a directory in which only root, or each user only his own files, can rename"
            ),
        )),
    }
}

/// Why another user than root could rename what is in a directory; `None` if none can.
fn unsafe_directory(dir: &Path) -> io::Result<Option<String>> {
    for dir in dir.canonicalize()?.ancestors() {
        let meta = dir.metadata()?;
        if meta.uid() != 0 {
            return Ok(Some(format!(
                "{} belongs to user {}, who can rename what is in it",
                quoted(&dir),
                meta.uid()
            )));
        }
        if meta.mode() & 0o022 != 0 && meta.mode() & 0o1000 == 0 {
            return Ok(Some(format!("other users can rename what is in {}", quoted(&dir))));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use super::*;

    #[test]
    fn directories_in_which_others_can_rename_are_unsafe() {
        if !geteuid().is_root() {
            eprintln!("skipped: only root can give a directory away");
            return;
        }
        // Each test directory has the parents that it is to have in /tmp, which is sticky.
        let dir = tempfile::tempdir_in("/tmp").unwrap();
        let (above, below) = (dir.path().join("above"), dir.path().join("above/below"));
        fs::create_dir_all(&below).unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let why = || unsafe_directory(&below).unwrap();
        assert_eq!(why(), None);
        mode(&below, 0o1777);
        assert_eq!(why(), None, "sticky");
        for path in [&below, &above] {
            mode(path, 0o775);
            assert!(why().unwrap().contains("other users can rename"), "{}", path.display());
            mode(path, 0o755);
            chown(path, Some(12345), None).unwrap();
            assert!(why().unwrap().contains("belongs to user 12345"), "{}", path.display());
            chown(path, Some(0), None).unwrap();
        }
        std::os::unix::fs::symlink(&below, dir.path().join("link")).unwrap();
        chown(&above, Some(12345), None).unwrap();
        assert!(unsafe_directory(&dir.path().join("link")).unwrap().is_some(), "where a link leads");
    }
}
