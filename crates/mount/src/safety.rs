//! Directories that must not be mounted over.
//!
//! A mount hides everything below its directory from every program on the machine. These checks therefore refuse system
//! directories, directories that are not empty, mount points and the caller's working directory, unless the caller sets
//! `overlay`. They always refuse `/` and the kernel's own file systems.

use std::path::{Path, PathBuf};

use poolwright_base::device::Device;
use poolwright_base::mountinfo::{self, MountEntry};
use poolwright_base::process::{self, ProcessStat};

use crate::{Error, Result};

/// Directories that are refused always, with everything below them.
const NEVER: &[&str] = &["/proc", "/sys", "/dev"];
/// The exception below `/dev`: it holds ordinary files.
const SHARED_MEMORY: &str = "/dev/shm";
/// Directories of the Filesystem Hierarchy Standard 3.0 and of Debian, except `/mnt`, which is meant to be mounted on.
/// Includes the targets of symbolic links: where `/bin` is a link, both `/bin` and `/usr/bin` are listed.
const SYSTEM: &str = "/bin /boot /boot/efi /dev/shm /etc /etc/opt /home /lib /lib32 /lib64 /libx32 /media /opt /root \
                      /run /run/lock /run/user /sbin /srv /tmp /usr /usr/bin /usr/games /usr/include /usr/lib \
                      /usr/lib32 /usr/lib64 /usr/libexec /usr/libx32 /usr/local /usr/sbin /usr/share /usr/src /var \
                      /var/backups /var/cache /var/lib /var/local /var/lock /var/log /var/mail /var/opt /var/run \
                      /var/spool /var/tmp";

/// Checks that a dataset may be mounted on the directory, and returns its real path. With `overlay`, the directory may be
/// in use.
///
/// # Errors
/// [`Error::MountPoint`] and [`Error::DeadMount`]; for a directory that must not be hidden, [`Error::Vital`], [`Error::System`],
/// [`Error::NotEmpty`] or [`Error::Covered`].
pub fn check_mount_point(path: &Path, overlay: bool) -> Result<PathBuf> {
    let path = usable(path)?;
    refuse_system(&path, overlay)?;
    if overlay {
        return Ok(path);
    }
    let mounts = mountinfo::read().unwrap_or_default();
    if let Some(other) = mountinfo::on(&mounts, &path).map(MountEntry::describe) {
        return Err(Error::Covered { path, other });
    }
    let wrong = |why: std::io::Error| Error::MountPoint { path: path.clone(), why: why.to_string() };
    match std::fs::read_dir(&path).map_err(wrong)?.next() {
        None => Ok(path),
        Some(Err(why)) => Err(wrong(why)),
        Some(Ok(first)) => {
            let first = first.file_name().to_string_lossy().into_owned();
            Err(Error::NotEmpty { path, first })
        }
    }
}

/// Returns the directory's real path. Fails if `path` is not a directory, or is a dead mount.
///
/// Calls `statfs`, which always asks the server: the kernel answers `stat` of a dead mount's root from its cache until the
/// cached attributes expire.
fn usable(path: &Path) -> Result<PathBuf> {
    let wrong = |why: &str| Error::MountPoint { path: path.to_owned(), why: why.to_owned() };
    let found = std::fs::metadata(path).and_then(|meta| match rustix::fs::statfs(path) {
        Err(why) if is_dead(&why.into()) => Err(why.into()),
        _ => Ok(meta),
    });
    match found {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => return Err(wrong("it is not a directory\nhint: name an empty directory")),
        Err(why) if is_dead(&why) => {
            return Err(Error::DeadMount(path.to_owned()));
        }
        Err(why) if why.raw_os_error() == Some(libc::ENOENT) => {
            return Err(wrong("it does not exist\nhint: create it with mkdir"));
        }
        Err(why) => return Err(wrong(&why.to_string())),
    }
    path.canonicalize().map_err(|why| wrong(&why.to_string()))
}

/// Whether an error of accessing a directory shows a mount whose server has ended without unmounting. The kernel returns
/// `ECONNABORTED` (`/dev/fuse`) or `ECANCELED` (io_uring) while it is still closing the connection.
pub fn is_dead(why: &std::io::Error) -> bool {
    matches!(why.raw_os_error(), Some(libc::ENOTCONN | libc::ECONNABORTED | libc::ECANCELED))
}

/// Refuses the working directory of the process and of its ancestors: a shell there would stay in the hidden directory.
///
/// # Errors
/// [`Error::WorkingDirectory`].
pub fn refuse_working_directory(path: &Path, pid: i32) -> Result<()> {
    let mut next = Some(pid);
    while let Some(pid) = next.filter(|pid| *pid > 0) {
        if process::working_directory(pid).is_some_and(|cwd| cwd == path) {
            let path = path.to_owned();
            return Err(Error::WorkingDirectory { path, pid, name: process::name(pid) });
        }
        next = ProcessStat::read(pid).map(|stat| stat.parent);
    }
    Ok(())
}

/// Refuses system directories. `path` must be canonical.
fn refuse_system(path: &Path, overlay: bool) -> Result<()> {
    let shared = path.starts_with(SHARED_MEMORY);
    if path == Path::new("/") || NEVER.iter().any(|never| path.starts_with(never) && !shared) {
        return Err(Error::Vital(path.to_owned()));
    }
    if !overlay && SYSTEM.split(' ').any(|dir| path == Path::new(dir)) {
        return Err(Error::System(path.to_owned()));
    }
    Ok(())
}

/// The mount on top of the file system with this device number, on the same directory.
pub(crate) fn covering(device: u64, path: &Path) -> Option<String> {
    covering_in(&mountinfo::read().unwrap_or_default(), device, path)
}

/// Relies on the order of the table: mounts on one directory are listed bottom to top.
fn covering_in(mounts: &[MountEntry], device: u64, path: &Path) -> Option<String> {
    let own = mounts.iter().rposition(|mount| is_mount_of(mount, device, path))?;
    mountinfo::on(&mounts[own + 1..], path).map(MountEntry::describe)
}

/// Whether the file system with this device number is mounted on the directory. The number alone is not enough: the kernel
/// reuses it for the next mount as soon as it is free.
pub(crate) fn is_mounted(device: u64, path: &Path) -> bool {
    mountinfo::read().is_ok_and(|mounts| mounts.iter().any(|mount| is_mount_of(mount, device, path)))
}

fn is_mount_of(mount: &MountEntry, device: u64, path: &Path) -> bool {
    mount.device == Device::from_raw(device) && mount.point == path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &str, overlay: bool) -> bool {
        refuse_system(Path::new(path), overlay).is_err()
    }

    #[test]
    fn the_system_is_never_covered() {
        for path in ["/", "/proc", "/proc/self/fd", "/sys", "/sys/fs/cgroup", "/dev", "/dev/pts"] {
            assert!(refused(path, false) && refused(path, true), "{path}");
        }
    }

    #[test]
    fn system_directories_are_covered_only_if_asked_for() {
        let all = "/run /etc /usr /bin /sbin /lib /lib32 /lib64 /libx32 /usr/lib /usr/lib64 /usr/bin /usr/local /boot /var \
                   /var/lib /var/log /home /root /tmp /opt /srv /media /dev/shm";
        for path in all.split_whitespace() {
            assert!(refused(path, false), "{path}");
            assert!(!refused(path, true), "{path} with overlay");
        }
        let free = "/mnt /mnt/db /home/db /srv/db /var/lib/mysql /dev/shm/db /library /lib-x /tmp/x /opt/db /rootfs /procs";
        for path in free.split_whitespace() {
            assert!(!refused(path, false), "{path}");
        }
    }

    #[test]
    fn links_lead_to_what_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for (name, to) in
            [("root", "/"), ("proc", "/proc"), ("up", "/proc/../dev/"), ("self", "/proc/self/root")]
        {
            std::os::unix::fs::symlink(to, dir.path().join(name)).unwrap();
            let found = check_mount_point(&dir.path().join(name), true);
            assert!(matches!(found, Err(Error::Vital(_))), "{name}: {found:?}");
        }
    }

    #[test]
    fn what_holds_files_is_covered_only_if_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        assert_eq!(check_mount_point(dir.path(), false).unwrap(), real);
        std::fs::write(dir.path().join(".hidden"), "").unwrap();
        let refused = check_mount_point(dir.path(), false).unwrap_err();
        assert!(matches!(&refused, Error::NotEmpty { first, .. } if first == ".hidden"), "{refused}");
        assert_eq!(check_mount_point(dir.path(), true).unwrap(), real);
    }

    #[test]
    fn mount_points_are_found_by_their_real_names() {
        let info = "30 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                    40 30 0:50 / /a\\040b\\134c rw shared:1 - fuse.poolwright tank/db rw\n\
                    41 30 0:51 / /t rw - tmpfs tmpfs rw\n42 41 0:52 / /t rw - tmpfs none rw\n";
        let mounts = mountinfo::parse(info.as_bytes());
        let is_listed = |device, path: &str| mounts.iter().any(|m| is_mount_of(m, device, Path::new(path)));
        let device = rustix::fs::makedev(0, 50);
        assert!(is_listed(device, "/a b\\c"));
        assert!(!is_listed(device, "/t"), "the number of another mount");
        assert!(!is_listed(rustix::fs::makedev(0, 53), "/t"));
        let proc = std::os::unix::fs::MetadataExt::dev(&std::fs::metadata("/proc").unwrap());
        assert!(is_mounted(proc, Path::new("/proc")) && !is_mounted(proc, Path::new("/")));
    }

    #[test]
    fn a_working_directory_of_the_caller_or_above_it() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        // A shell in the directory, with a child that works elsewhere.
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "(cd / && exec sh -c 'echo $$; read end'); :"])
            .current_dir(&real)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = shell.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
        let child: i32 = line.trim().parse().unwrap();
        let refused = refuse_working_directory(&real, child).unwrap_err().to_string();
        assert!(refused.contains(&format!("process {} (sh)", shell.id())), "{refused}");
        refuse_working_directory(&real, std::process::id() as i32).unwrap();
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }

    #[test]
    fn what_is_mounted_on_top_is_found() {
        let below = "36 25 0:31 / /mnt/a rw - fuse.poolwright tank/a rw\n";
        let above = "37 36 0:32 / /mnt/a rw - tmpfs tmpfs rw\n";
        let beside = "38 25 0:33 / /mnt/b rw - tmpfs tmpfs rw\n";
        let device = rustix::fs::makedev(0, 31);
        let on =
            |mounts: &str| covering_in(&mountinfo::parse(mounts.as_bytes()), device, Path::new("/mnt/a"));
        assert_eq!(on(&format!("{below}{beside}")), None);
        assert_eq!(on(&format!("{below}{beside}{above}")).as_deref(), Some("tmpfs"));
        assert_eq!(on(&format!("{above}{below}")), None, "ours is on top");
        assert_eq!(on(above), None, "ours is gone");
    }
}
