//! Paths that the administrator specified, and that contain directories of other users.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path};

use rustix::process::geteuid;

use super::Directory;
use crate::private::Unsafe;

/// Symbolic links on a path (`path_resolution(7)`).
const MAX_LINKS: u32 = 40;

/// The action for missing directories in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    Refused,
    /// They are created with this mode.
    Created(u32),
}

impl Directory {
    /// Opens the directory at an absolute path that the administrator named. Other users may own directories on it, so a link on it is
    /// followed only if it belongs to root or this user and no other user can replace it; the last name must not be a link.
    ///
    /// # Errors
    /// The host's errors; [`Unsafe::Link`] for another link, and [`Unsafe::NotADirectory`] (see [`crate::private::refusal`]).
    pub fn open_named(path: &Path) -> io::Result<Directory> {
        walk(path, Missing::Refused)
    }

    /// As [`Directory::open_named`]; creates directories that are missing, with this mode.
    ///
    /// # Errors
    /// As [`Directory::open_named`].
    pub fn create_named(path: &Path, mode: u32) -> io::Result<Directory> {
        walk(path, Missing::Created(mode))
    }
}

fn walk(path: &Path, missing: Missing) -> io::Result<Directory> {
    if !path.is_absolute() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not an absolute path"));
    }
    // The directories from the root to the present one, for `..`.
    let mut open = vec![Directory::open(Path::new("/"))?];
    let mut rest = names(path);
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            open.truncate((open.len() - 1).max(1));
            continue;
        }
        let Some(dir) = open.last() else { break };
        let next = match (dir.inspect(&name)?, missing) {
            (None, Missing::Refused) => return Err(io::ErrorKind::NotFound.into()),
            (None, Missing::Created(mode)) => create(dir, &name, mode)?,
            (Some(meta), _) if meta.is_symlink() && !rest.is_empty() => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(rustix::io::Errno::LOOP.into());
                }
                check_link(&dir.metadata()?, &meta)?;
                let target = dir.read_link(&name)?;
                if target.is_absolute() {
                    open.truncate(1);
                }
                for name in names(&target).into_iter().rev() {
                    rest.push_front(name);
                }
                continue;
            }
            (Some(meta), _) if !meta.is_dir() => {
                return Err(io::Error::new(io::ErrorKind::NotADirectory, Unsafe::NotADirectory));
            }
            (Some(_), _) => dir.directory(&name)?,
        };
        open.push(next);
    }
    let found = open.pop().ok_or(io::ErrorKind::NotFound)?;
    Ok(Directory { path: path.to_owned(), ..found })
}

/// The names of a path, `..` among them.
fn names(path: &Path) -> VecDeque<OsString> {
    let name = |component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    path.components().filter_map(name).collect()
}

fn create(dir: &Directory, name: &OsString, mode: u32) -> io::Result<Directory> {
    match dir.create_directory(name) {
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => dir.directory(name),
        created => {
            let created = created?;
            created.set_mode(mode)?;
            Ok(created)
        }
    }
}

/// Refuses a link that a user can change who is neither root nor this one.
fn check_link(dir: &Metadata, link: &Metadata) -> io::Result<()> {
    let is_ours = |meta: &Metadata| meta.uid() == 0 || meta.uid() == geteuid().as_raw();
    let is_open_to_others = dir.mode() & 0o022 != 0 && dir.mode() & 0o1000 == 0;
    match (is_ours(dir), is_ours(link)) {
        (true, true) if !is_open_to_others => Ok(()),
        (true, _) => Err(io::Error::new(io::ErrorKind::PermissionDenied, Unsafe::Link(link.uid()))),
        (false, _) => Err(io::Error::new(io::ErrorKind::PermissionDenied, Unsafe::Link(dir.uid()))),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::private::refusal;

    #[test]
    fn directories_are_created_and_links_of_this_user_followed() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let at = |name: &str| top.join(name);
        let made = Directory::create_named(&at("a/b/c"), 0o750).unwrap();
        assert_eq!(made.path(), at("a/b/c"));
        assert_eq!(fs::metadata(at("a/b")).unwrap().mode() & 0o777, 0o750);
        symlink("a/../a", at("relative")).unwrap();
        symlink(at("a/b"), at("absolute")).unwrap();
        for path in ["relative/b/c", "absolute/c", "a/b/../b/c"] {
            let found = Directory::open_named(&at(path)).unwrap().metadata().unwrap();
            assert_eq!(found.ino(), made.metadata().unwrap().ino(), "{path}");
        }
        assert_eq!(Directory::open_named(&at("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        // The last name.
        let why = Directory::open_named(&at("absolute")).unwrap_err();
        assert_eq!(refusal(&why), Some(Unsafe::NotADirectory));
        symlink("loop/x", at("loop")).unwrap();
        Directory::open_named(&at("loop/x")).unwrap_err();
        Directory::open_named(Path::new("relative")).unwrap_err();
    }

    #[test]
    fn links_that_another_user_can_change_are_not_followed() {
        if !geteuid().is_root() {
            eprintln!("skipped: only root can give a directory away");
            return;
        }
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let at = |name: &str| dir.path().canonicalize().unwrap().join(name);
        for name in ["theirs", "open", "sticky"] {
            fs::create_dir(at(name)).unwrap();
            symlink(outside.path(), at(name).join("link")).unwrap();
        }
        let give = |name: &str| std::os::unix::fs::lchown(at(name), Some(12345), None).unwrap();
        let mode = |name: &str, mode| {
            fs::set_permissions(at(name), std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
        };
        give("theirs");
        mode("open", 0o777);
        mode("sticky", 0o1777);
        let refused = |name: &str| refusal(&Directory::create_named(&at(name), 0o755).unwrap_err());
        assert_eq!(refused("theirs/link/new"), Some(Unsafe::Link(12345)));
        assert_eq!(refused("open/link/new"), Some(Unsafe::Link(0)));
        assert!(fs::read_dir(outside.path()).unwrap().next().is_none());
        Directory::create_named(&at("sticky/link/new"), 0o755).unwrap();
        give("sticky/link");
        assert_eq!(refused("sticky/link/other"), Some(Unsafe::Link(12345)));
        // A directory of theirs is entered: what root creates in it is not elsewhere.
        Directory::create_named(&at("theirs/new"), 0o755).unwrap();
        assert!(at("theirs/new").is_dir());
    }
}
