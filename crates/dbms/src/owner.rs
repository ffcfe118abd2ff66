//! The user as which programs work on the files of a database.
//!
//! The contents of files can control the program that opens them: SQLite removes the file that a journal names. Therefore, programs that
//! open a database's files run as the owner of the directory, and as root only if the files belong to root.

use std::fs::{Metadata, symlink_metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use poolwright_base::directory::Directory;
use poolwright_base::{cannot, quoted};

use crate::Result;
use crate::error::refused;

/// A user and a group.
pub type UserAndGroup = (u32, u32);

/// Root, who runs programs on root's own files only.
const ROOT: u32 = 0;

/// The owner of a directory of a database. If that is root, then the nearest owner of a directory above it who is not.
///
/// # Errors
/// A refusal if all directories are root's and other users can write into one; the host's errors.
pub fn of_directory(dir: &Path) -> Result<UserAndGroup> {
    let mut owners = Vec::new();
    for dir in dir.ancestors().filter(|dir| !dir.as_os_str().is_empty()) {
        let meta = symlink_metadata(dir).map_err(cannot("inspect", dir))?;
        if meta.uid() != ROOT {
            return Ok(user_and_group(&meta));
        }
        owners.push((dir, meta));
    }
    // Another user runs programs as himself.
    let checked = if rustix::process::geteuid().is_root() { owners.len() } else { 0 };
    for (at, (dir, meta)) in owners.iter().take(checked).enumerate() {
        // In a directory with the sticky bit, no other user can replace root's entries, but every user can add files.
        let is_protected = meta.mode() & 0o022 == 0 || (at > 0 && meta.mode() & 0o1000 != 0);
        if !is_protected {
            return refused(format!(
                "{} belongs to root, and other users can write into it: the database's programs would run as root on their files\n\
                 hint: give it to the database's user, or remove the permission",
                quoted(dir)
            ));
        }
    }
    Ok((ROOT, ROOT))
}

/// The owner of the directory that has a file, in which the file's journals are. If that is root, then the owner of the file, and so on as
/// for a [directory](of_directory).
///
/// # Errors
/// As [`of_directory`].
pub fn of_file(file: &Path) -> Result<UserAndGroup> {
    match of_file_itself(file)? {
        Some(owner) => Ok(owner),
        None => of_directory(file.parent().unwrap_or(file)),
    }
}

/// The owner of the directory that has a file, or else of the file; `None` if both are root's.
///
/// # Errors
/// The host's errors.
pub fn of_file_itself(file: &Path) -> Result<Option<UserAndGroup>> {
    for path in [file.parent().unwrap_or(file), file] {
        let meta = symlink_metadata(path).map_err(cannot("inspect", path))?;
        if meta.uid() != ROOT {
            return Ok(Some(user_and_group(&meta)));
        }
    }
    Ok(None)
}

/// The owner of a restored directory; if that is root, the first one who is not, of all that was restored in `top`.
///
/// # Errors
/// The host's errors.
pub fn of_restored(dir: &Directory, top: &Directory) -> std::io::Result<UserAndGroup> {
    let meta = dir.metadata()?;
    if meta.uid() != ROOT {
        return Ok(user_and_group(&meta));
    }
    Ok(first_other(top)?.unwrap_or((ROOT, ROOT)))
}

fn first_other(dir: &Directory) -> std::io::Result<Option<UserAndGroup>> {
    for name in dir.names()? {
        let Some(meta) = dir.inspect(&name)? else { continue };
        let found = match meta.uid() {
            ROOT if meta.is_dir() => first_other(&dir.directory(&name)?)?,
            ROOT => None,
            _ => Some(user_and_group(&meta)),
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// The name of a user in `/etc/passwd`.
pub(crate) fn name_of(uid: u32) -> Option<String> {
    name_in(&std::fs::read_to_string("/etc/passwd").ok()?, uid)
}

fn name_in(table: &str, uid: u32) -> Option<String> {
    let lines = table.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let mut found = lines.filter(|fields| fields.get(2).and_then(|of| of.parse().ok()) == Some(uid));
    found.next().map(|fields| fields[0].to_owned())
}

fn user_and_group(meta: &Metadata) -> UserAndGroup {
    (meta.uid(), meta.gid())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, chown};

    use super::*;

    #[test]
    fn the_owner_is_that_of_the_directory_unless_it_is_root() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can give files away");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("named/db")).unwrap();
        fs::write(at("named/db/file"), "").unwrap();
        let (of, file) =
            (|| of_directory(&at("named/db")).unwrap(), || of_file(&at("named/db/file")).unwrap());
        assert_eq!((of(), file()), ((0, 0), (0, 0)));
        chown(at("named/db/file"), Some(7), Some(8)).unwrap();
        let restored = Directory::open(&at("named")).unwrap();
        assert_eq!((of(), file(), of_restored(&restored, &restored).unwrap()), ((0, 0), (7, 8), (7, 8)));
        chown(at("named"), Some(5), Some(6)).unwrap();
        assert_eq!((of(), file()), ((5, 6), (7, 8)));
        chown(at("named/db"), Some(3), Some(4)).unwrap();
        assert_eq!((of(), file(), of_restored(&restored, &restored).unwrap()), ((3, 4), (3, 4), (5, 6)));
    }

    #[test]
    fn directories_of_root_into_which_others_write_are_refused() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root has such directories");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let sub = dir.path().join("sub");
        fs::create_dir(&sub).unwrap();
        let mode = |dir: &Path, mode| fs::set_permissions(dir, Permissions::from_mode(mode)).unwrap();
        mode(dir.path(), 0o1777);
        of_directory(&sub).unwrap();
        for (path, bits) in [(sub.as_path(), 0o1777), (&sub, 0o775), (dir.path(), 0o777)] {
            mode(dir.path(), 0o755);
            mode(&sub, 0o755);
            mode(path, bits);
            let why = of_directory(&sub).unwrap_err();
            assert!(why.is_refusal() && why.to_string().contains("hint: "), "{why}");
        }
    }

    #[test]
    fn names_of_users() {
        let table =
            "root:x:0:0:root:/root:/bin/bash\nmysql:x:106:112:MySQL Server,,,:/nonexistent:/bin/false\nbad\n";
        assert_eq!(name_in(table, 106).as_deref(), Some("mysql"));
        assert_eq!(name_in(table, 7), None);
    }
}
