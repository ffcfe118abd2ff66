//! The mounts that this process sees, from `/proc/self/mountinfo` (`proc_pid_mountinfo(5)`).
//!
//! The table is parsed as bytes, because paths need not be UTF-8. A line that cannot be parsed is skipped, so that one
//! unusual mount does not hide the others.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use crate::device::Device;
use crate::{PathError, cannot};

/// The file that the kernel fills with the table.
const PATH: &str = "/proc/self/mountinfo";

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// The mount's number, which `mnt_id` in `/proc/PID/fdinfo` names. Unique in all mount namespaces.
    pub id: u64,
    /// The device number of the file system's files.
    pub device: Device,
    /// The directory within the file system that is mounted.
    pub root: PathBuf,
    /// The directory on which it is mounted.
    pub point: PathBuf,
    /// The options of the mount itself, not of its file system: `rw,nosuid,relatime`.
    pub options: String,
    /// The type of the file system, with its subtype: `ext4`, `fuse.poolwright`.
    pub file_system: String,
    /// The mounted object: a device, a dataset, or a word such as `none`.
    pub source: OsString,
    /// Whether the mount or its file system is read-only.
    is_read_only: bool,
}

impl MountEntry {
    /// Whether nothing can be written through it: the mount or its file system is read-only.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Source and type for messages: `/dev/vda (ext4)`, or the type alone if the source says nothing more.
    pub fn describe(&self) -> String {
        let source = self.source.to_string_lossy();
        if source == "none" || source == self.file_system.as_str() {
            return self.file_system.clone();
        }
        format!("{source} ({})", self.file_system)
    }
}

/// Reads all mounts. Of several mounts on one directory, the topmost comes last.
///
/// # Errors
/// If the table cannot be read.
pub fn read() -> Result<Vec<MountEntry>, PathError> {
    table().map_err(cannot("read", PATH))
}

/// As [`read`], for functions that return errors of the host as they are.
pub(crate) fn table() -> io::Result<Vec<MountEntry>> {
    Ok(parse(&std::fs::read(PATH)?))
}

/// Reads all mounts that process `pid` sees.
///
/// # Errors
/// If the process has ended, or is another user's.
pub fn of_process(pid: i32) -> io::Result<Vec<MountEntry>> {
    Ok(parse(&std::fs::read(format!("/proc/{pid}/mountinfo"))?))
}

/// Parses the content of `/proc/PID/mountinfo`.
pub fn parse(table: &[u8]) -> Vec<MountEntry> {
    table.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let mut fixed = fields.by_ref().skip(1);
    let device = Device::parse(std::str::from_utf8(fixed.next()?).ok()?)?;
    let (root, point) = (path(fixed.next()?), path(fixed.next()?));
    let options = String::from_utf8_lossy(fixed.next()?).into_owned();
    // After these options follow optional fields, which end with a hyphen.
    let mut rest = fields.skip_while(|field| *field != b"-").skip(1);
    let file_system = String::from_utf8_lossy(&unescape(rest.next()?)).into_owned();
    let source = OsString::from_vec(unescape(rest.next()?));
    let has_ro = |options: &[u8]| options.split(|byte| *byte == b',').any(|option| option == b"ro");
    let is_read_only = has_ro(options.as_bytes()) || rest.next().is_some_and(has_ro);
    Some(MountEntry { id, device, root, point, options, file_system, source, is_read_only })
}

fn path(field: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(unescape(field)))
}

/// Decodes three-digit octal escapes, which other tables of the kernel have too. The kernel escapes spaces (`\040`), tabs (`\011`),
/// newlines (`\012`), backslashes (`\134`) and number signs (`\043`). A backslash that does not begin an escape stays.
pub(crate) fn unescape(field: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..3).filter(|_| *first == b'\\');
        let code = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        decoded.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    decoded
}

/// The mounts strictly below `dir`, in the order of the table.
pub fn below<'a>(mounts: &'a [MountEntry], dir: &'a Path) -> impl Iterator<Item = &'a MountEntry> {
    mounts.iter().filter(move |mount| mount.point != dir && mount.point.starts_with(dir))
}

/// The topmost mount on a directory. Returns `None` if `dir` is not a mount point.
pub fn on<'a>(mounts: &'a [MountEntry], dir: &Path) -> Option<&'a MountEntry> {
    mounts.iter().rev().find(|mount| mount.point.as_os_str().as_bytes() == dir.as_os_str().as_bytes())
}

/// The mount through which `path` is reached: the topmost on the deepest directory that contains `path`. `path` must be
/// absolute and without symbolic links.
pub fn containing<'a>(mounts: &'a [MountEntry], path: &Path) -> Option<&'a MountEntry> {
    let contains = mounts.iter().filter(|mount| path.starts_with(&mount.point));
    contains.max_by_key(|mount| mount.point.as_os_str().len())
}

/// Stands for the type of a file system that cannot be determined.
pub const UNKNOWN_FILE_SYSTEM: &str = "a file system of unknown type";

/// The type of the file system that contains a directory, such as `ext4` or `zfs`; [`UNKNOWN_FILE_SYSTEM`] if the directory
/// does not exist or the table cannot be read.
pub fn file_system(dir: &Path) -> String {
    let find = || {
        let dir = dir.canonicalize().ok()?;
        Some(containing(&read().ok()?, &dir)?.file_system.clone())
    };
    find().unwrap_or_else(|| UNKNOWN_FILE_SYSTEM.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPTURED: &[u8] = include_bytes!("../fixtures/mountinfo");

    #[test]
    fn a_captured_table() {
        let mounts = parse(CAPTURED);
        assert_eq!(mounts.len(), 5);
        let source = |major, minor| {
            let device = Device { major, minor };
            mounts.iter().find(|mount| mount.device == device).map(|mount| mount.source.to_str().unwrap())
        };
        assert_eq!(source(254, 0), Some("/dev/vda"));
        assert_eq!(source(0, 45), Some("/dev/vdb"));
        assert_eq!(source(0, 40), Some("lab/db"));
        assert_eq!(source(8, 1), None);
        assert_eq!(mounts[2].root, Path::new("/@home"));
        assert!(mounts.iter().all(|mount| mount.id > 0 && mount.options.starts_with("rw")));
        let below: Vec<&Path> = below(&mounts, Path::new("/scratch")).map(|m| m.point.as_path()).collect();
        assert_eq!(below, [Path::new("/scratch/with blank")]);
        assert_eq!(super::below(&mounts, Path::new("/scr")).count(), 0);
        assert_eq!(super::below(&mounts, Path::new("/dev/shm")).count(), 0, "not the directory itself");
    }

    #[test]
    fn escapes_are_decoded() {
        assert_eq!(unescape(br"/a\040b\134c\011\012\043"), b"/a b\\c\t\n#");
        assert_eq!(unescape(br"/plain\"), br"/plain\");
        assert_eq!(unescape(br"\04"), br"\04");
        assert_eq!(unescape(br"\999"), br"\999");
    }

    #[test]
    fn paths_need_not_be_utf_8() {
        let line = b"30 1 8:1 / /srv/\xff rw - ext4 /dev/sda1 rw";
        assert_eq!(parse(line)[0].point.as_os_str().as_bytes(), b"/srv/\xff");
        assert_eq!(parse(b"30 1 8:1 / /srv rw\nx\n\n"), []);
    }

    #[test]
    fn the_deepest_and_topmost_mount_contains_a_path() {
        let mounts = parse(
            b"1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
              2 1 0:30 / /srv rw,relatime shared:5 - zfs tank/srv rw\n\
              3 2 0:31 / /srv/my\\040db rw - zfs tank/my\\040db rw\n\
              4 1 0:32 / /srvx rw - tmpfs tmpfs rw\n\
              5 1 0:33 / /srvx rw - xfs /dev/sdb rw\n",
        );
        let at = |dir: &str| containing(&mounts, Path::new(dir)).unwrap().describe();
        assert_eq!(at("/srv/pg"), "tank/srv (zfs)");
        assert_eq!(at("/srv/my db/x"), "tank/my db (zfs)");
        assert_eq!(at("/srvz"), "/dev/sda1 (ext4)");
        assert_eq!(at("/srvx"), "/dev/sdb (xfs)");
    }

    #[test]
    fn mount_points_are_found_by_their_exact_names() {
        let mounts = parse(
            b"30 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
              40 30 0:50 / /a\\040b\\134c rw shared:1 - fuse.poolwright tank/db rw\n\
              41 30 0:51 / /t rw - tmpfs tmpfs rw\n42 41 0:52 / /t rw - tmpfs none rw\n",
        );
        let on = |dir: &str| super::on(&mounts, Path::new(dir)).map(MountEntry::describe);
        assert_eq!(on("/a b\\c").unwrap(), "tank/db (fuse.poolwright)");
        assert_eq!(on("/t").unwrap(), "tmpfs");
        assert_eq!(super::on(&mounts, Path::new("/t")).unwrap().device.minor, 52);
        assert_eq!(on("/a"), None);
    }

    #[test]
    fn this_process_has_mounts() {
        let mounts = read().unwrap();
        assert!(below(&mounts, Path::new("/")).any(|mount| mount.point == Path::new("/proc")));
        assert_eq!(file_system(Path::new("/proc")), "proc");
        assert_eq!(file_system(Path::new("/missing/directory")), UNKNOWN_FILE_SYSTEM);
    }
}
