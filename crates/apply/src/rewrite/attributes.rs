//! The attributes of a file that a copy keeps: owner, mode, times, extended attributes and ACLs.
//!
//! POSIX ACLs are extended attributes (`system.posix_acl_access`). The time of creation and the change time cannot be set.

use std::collections::BTreeMap;
use std::fs::{File, FileTimes, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use poolwright_base::quoted;
use rustix::fs::{
    IFlags, XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, ioctl_getflags, lgetxattr,
    llistxattr, lremovexattr, lsetxattr,
};
use rustix::io::Errno;

use super::entry::EntryAt;
use crate::Result;
use crate::error::refused;

/// Whether a copy has the owner and the mode of its file yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownership {
    /// It has them.
    Given,
    /// It belongs to this user, who alone can access it, until it replaces its file: it does not count for the quotas of the owner.
    Deferred,
}

/// Extended attributes: name → value.
pub type ExtendedAttributes = BTreeMap<Vec<u8>, Vec<u8>>;

/// The largest value of an extended attribute on Linux, in bytes (`XATTR_SIZE_MAX`).
const MAX_VALUE: usize = 64 << 10;

/// Reads all extended attributes; none if the file system has none.
///
/// # Errors
/// The host's errors.
pub fn extended(file: &File) -> io::Result<ExtendedAttributes> {
    read(|names| flistxattr(file, names), |name, value| fgetxattr(file, name, value))
}

/// As [`extended`], of a symbolic link itself.
///
/// # Errors
/// The host's errors.
pub fn extended_of_link(link: EntryAt<'_>) -> io::Result<ExtendedAttributes> {
    let link = &path_of_link(link);
    read(|names| llistxattr(link, names), |name, value| lgetxattr(link, name, value))
}

/// A path for the calls that have no variant for open directories. They follow the descriptor, but not the link.
fn path_of_link(link: EntryAt<'_>) -> PathBuf {
    link.dir.descriptor_path().join(link.name)
}

fn read(
    list: impl Fn(&mut [u8]) -> rustix::io::Result<usize>,
    get: impl Fn(&[u8], &mut [u8]) -> rustix::io::Result<usize>,
) -> io::Result<ExtendedAttributes> {
    let mut names = vec![0; MAX_VALUE];
    let length = match list(names.as_mut_slice()) {
        Err(Errno::NOTSUP) => return Ok(ExtendedAttributes::new()),
        length => length?,
    };
    let mut attributes = ExtendedAttributes::new();
    let mut value = vec![0; MAX_VALUE];
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        match get(name, value.as_mut_slice()) {
            // Removed since it was listed.
            Err(Errno::NODATA) => {}
            length => {
                attributes.insert(name.to_vec(), value[..length?].to_vec());
            }
        }
    }
    Ok(attributes)
}

/// Gives the symbolic link `to` the extended attributes of the symbolic link `from`. Only some namespaces, such as `trusted`, allow them.
///
/// # Errors
/// The host's errors.
pub fn copy_extended_of_link(from: EntryAt<'_>, to: EntryAt<'_>) -> io::Result<()> {
    let (wanted, found) = (extended_of_link(from)?, extended_of_link(to)?);
    let to = &path_of_link(to);
    for name in found.keys().filter(|name| !wanted.contains_key(*name)) {
        lremovexattr(to, name.as_slice())?;
    }
    for (name, value) in wanted.iter().filter(|(name, value)| found.get(*name) != Some(value)) {
        lsetxattr(to, name.as_slice(), value, XattrFlags::empty())?;
    }
    Ok(())
}

/// Gives `to` the attributes of `from`, whose other attributes are `meta`. The times come last, because the others change them.
///
/// # Errors
/// The host's errors.
pub fn copy(from: &File, meta: &Metadata, to: &File, ownership: Ownership) -> io::Result<()> {
    let present = to.metadata()?;
    let is_given = ownership == Ownership::Given;
    if is_given && (present.uid(), present.gid()) != (meta.uid(), meta.gid()) {
        fchown(to, Some(meta.uid()), Some(meta.gid()))?;
    }
    let (wanted, found) = (extended(from)?, extended(to)?);
    for name in found.keys().filter(|name| !wanted.contains_key(*name)) {
        fremovexattr(to, name.as_slice())?;
    }
    for (name, value) in wanted.iter().filter(|(name, value)| found.get(*name) != Some(value)) {
        fsetxattr(to, name.as_slice(), value, XattrFlags::empty())?;
    }
    if is_given {
        // After the ACL, which sets the bits of the group.
        to.set_permissions(Permissions::from_mode(meta.mode() & 0o7777))?;
    }
    to.set_times(times(meta))
}

/// The access and the modification time of a file.
pub fn times(meta: &Metadata) -> FileTimes {
    file_times((meta.atime(), meta.atime_nsec()), (meta.mtime(), meta.mtime_nsec()))
}

/// An access and a modification time, each in seconds since 1970 and nanoseconds.
pub fn file_times(accessed: (i64, i64), modified: (i64, i64)) -> FileTimes {
    FileTimes::new().set_accessed(time(accessed.0, accessed.1)).set_modified(time(modified.0, modified.1))
}

/// A time from seconds since 1970, which can be negative, and nanoseconds.
pub fn time(seconds: i64, nanoseconds: i64) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let epoch = SystemTime::UNIX_EPOCH;
    let base = if seconds < 0 { epoch - whole } else { epoch + whole };
    base + Duration::from_nanos(nanoseconds.unsigned_abs())
}

/// The first attribute in which two files differ, for messages.
///
/// # Errors
/// The host's errors.
pub fn difference(a: &File, b: &File, ownership: Ownership) -> io::Result<Option<&'static str>> {
    let (x, y) = (a.metadata()?, b.metadata()?);
    let is_given = ownership == Ownership::Given;
    let checks = [
        ("length", x.len() != y.len()),
        ("owner", is_given && (x.uid(), x.gid()) != (y.uid(), y.gid())),
        ("mode", is_given && x.mode() != y.mode()),
        ("modification time", (x.mtime(), x.mtime_nsec()) != (y.mtime(), y.mtime_nsec())),
    ];
    if let Some((what, _)) = checks.into_iter().find(|(_, differs)| *differs) {
        return Ok(Some(what));
    }
    Ok((extended(a)? != extended(b)?).then_some("extended attributes"))
}

/// Refuses a file that cannot be replaced by a copy, or a directory whose files cannot: an immutable or append-only one (`chattr(1)`).
///
/// # Errors
/// [`Error::Refused`].
pub fn check_flags(file: &File, path: &Path) -> Result<()> {
    // A file system without these flags fails with ENOTTY.
    let flags = ioctl_getflags(file).unwrap_or(IFlags::empty());
    let obstacles = [(IFlags::IMMUTABLE, "immutable"), (IFlags::APPEND, "append-only")];
    match obstacles.into_iter().find(|(flag, _)| flags.contains(*flag)) {
        Some((_, name)) => refused(format!("{} is {name} (chattr)", quoted(path))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_copied_and_differences_named() {
        let dir = tempfile::tempdir().unwrap();
        let open = |name: &str| {
            File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(dir.path().join(name))
                .unwrap()
        };
        let (a, b) = (open("a"), open("b"));
        let has_attributes = fsetxattr(&a, "user.one", b"value", XattrFlags::empty()).is_ok();
        if has_attributes {
            fsetxattr(&b, "user.other", b"gone", XattrFlags::empty()).unwrap();
        }
        a.set_permissions(Permissions::from_mode(0o2751)).unwrap();
        let old = time(-1, 5);
        a.set_times(FileTimes::new().set_modified(old).set_accessed(time(86_400, 123_456_789))).unwrap();
        assert_eq!(difference(&a, &b, Ownership::Given).unwrap(), Some("mode"));
        copy(&a, &a.metadata().unwrap(), &b, Ownership::Given).unwrap();
        assert_eq!(difference(&a, &b, Ownership::Given).unwrap(), None);
        assert_eq!(extended(&b).unwrap(), extended(&a).unwrap());
        let copied = b.metadata().unwrap();
        assert_eq!(copied.atime_nsec(), 123_456_789);
        b.set_times(FileTimes::new().set_modified(time(7, 7))).unwrap();
        assert_eq!(difference(&a, &b, Ownership::Given).unwrap(), Some("modification time"));
        check_flags(&a, dir.path()).unwrap();
    }
}
