//! Mounting and unmounting a directory.
//!
//! With privilege, calls `mount(2)` and `umount2(2)`; otherwise runs `fusermount3`, the set-user-id helper that every
//! distribution ships for this purpose.

use std::ffi::CString;
use std::io::{IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use poolwright_base::process;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

use crate::options::Options;
use crate::safety::{self, check_mount_point};
use crate::{Error, Result, device};

const HELPER: &str = "fusermount3";
/// The subtype, which `/proc/mounts` shows after `fuse.`.
const SUBTYPE: &str = "poolwright";

/// How often unmounting a busy mount is retried. Programs that are about to exit get 2 s.
const TRIES: u32 = 20;
const RETRY: Duration = Duration::from_millis(100);

/// How the file system was mounted, and is therefore unmounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Kernel,
    Helper,
}

/// A directory on which this process has mounted a file system.
#[derive(Clone, Debug)]
pub(crate) struct MountPoint {
    path: PathBuf,
    by: By,
    /// The device number of its files; 0 until the mount has answered its first request.
    device: u64,
}

impl MountPoint {
    /// Mounts `source` (`POOL/DATASET`) on a directory; `root_mode` is the mode of the dataset's root directory.
    pub(crate) fn mount(
        path: &Path,
        source: &str,
        root_mode: u32,
        options: &Options,
    ) -> Result<(MountPoint, OwnedFd)> {
        let path = check_mount_point(path, options.overlay)?;
        let refused =
            |why: String| Error::Refused { source_name: source.to_owned(), path: path.clone(), why };
        if rustix::process::geteuid().is_root() {
            match directly(&path, source, root_mode, options) {
                Ok(device) => return Ok((MountPoint { path, by: By::Kernel, device: 0 }, device)),
                // Root in a container may lack the permission to mount that the helper has.
                Err(Direct::Refused(Errno::PERM)) if helper_exists() => {}
                Err(Direct::Refused(why)) => return Err(refused(explain(why))),
                Err(Direct::Device(why)) => return Err(why),
            }
        }
        let device = by_helper(&path, source, options).map_err(refused)?;
        Ok((MountPoint { path, by: By::Helper, device: 0 }, device))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Unmounts, retrying for 2 s while programs that are about to exit still use the mount.
    pub(crate) fn unmount(&self) -> Result<()> {
        for _ in 0..TRIES {
            match self.once(UnmountFlags::empty()) {
                Err(Error::Busy(_)) => std::thread::sleep(RETRY),
                done => return done,
            }
        }
        self.once(UnmountFlags::empty())
    }

    /// Checks that [`MountPoint::unmount`] would succeed, without changing anything. `inside` lists mounts below this one that
    /// are unmounted first. Fails with [`Error::Busy`] if programs use the mount.
    pub(crate) fn check_idle(&self, inside: &[&Path]) -> Result<()> {
        for _ in 0..TRIES {
            if !self.is_busy(inside) {
                return Ok(());
            }
            std::thread::sleep(RETRY);
        }
        if self.is_busy(inside) { Err(Error::Busy(self.path.clone())) } else { Ok(()) }
    }

    fn is_busy(&self, inside: &[&Path]) -> bool {
        if self.by == By::Helper || !inside.is_empty() {
            return is_used(&self.path, inside);
        }
        // `MNT_EXPIRE` (umount(2)) fails with EBUSY for a busy mount. It marks an idle one and fails with EAGAIN, and
        // unmounts one that is already marked. Any access removes the mark.
        let touch = || drop(std::fs::metadata(&self.path));
        touch();
        let asked = rustix::mount::unmount(&self.path, UnmountFlags::EXPIRE | UnmountFlags::NOFOLLOW);
        touch();
        asked == Err(Errno::BUSY)
    }

    /// Waits until the mount answers a `statfs`, and stores the device number of its files.
    pub(crate) fn answer(&mut self) -> Result<()> {
        check_answer(&self.path)?;
        let meta = std::fs::metadata(&self.path);
        let meta = meta.map_err(|why| Error::Device { doing: "stat of the new mount", why })?;
        self.device = std::os::unix::fs::MetadataExt::dev(&meta);
        Ok(())
    }

    /// Whether the mount is still visible to this process.
    pub(crate) fn is_mounted(&self) -> bool {
        safety::is_mounted(self.device, &self.path)
    }

    /// Fails if another file system is mounted on top, because unmounting by path would unmount that one.
    fn refuse_covered(&self) -> Result<()> {
        match safety::covering(self.device, &self.path) {
            Some(source) if self.device != 0 => Err(Error::Unmount {
                path: self.path.clone(),
                why: format!("{source} is mounted on top of it\nhint: unmount that first"),
            }),
            _ => Ok(()),
        }
    }

    /// Unmounts lazily: the mount disappears at once, and ends when the last program stops using it.
    pub(crate) fn detach(&self) -> Result<()> {
        self.once(UnmountFlags::DETACH)
    }

    fn once(&self, flags: UnmountFlags) -> Result<()> {
        self.refuse_covered()?;
        let path = self.path.clone();
        if self.by == By::Helper {
            return self.once_by_helper(flags.contains(UnmountFlags::DETACH));
        }
        match rustix::mount::unmount(&self.path, flags | UnmountFlags::NOFOLLOW) {
            Ok(()) => Ok(()),
            // Our mount is gone, or a mount on a parent directory hides it.
            Err(Errno::INVAL | Errno::NOENT) if self.device == 0 || !self.is_mounted() => Ok(()),
            Err(Errno::BUSY) => Err(Error::Busy(path)),
            Err(why) => Err(Error::Unmount { path, why: why.to_string() }),
        }
    }

    fn once_by_helper(&self, lazily: bool) -> Result<()> {
        let path = self.path.clone();
        let mut command = Command::new(HELPER);
        command.arg("-u").args(lazily.then_some("-z")).arg("--").arg(&self.path);
        let out =
            command.output().map_err(|why| Error::Unmount { path: path.clone(), why: why.to_string() })?;
        let words = String::from_utf8_lossy(&out.stderr).trim().to_owned();
        match out.status.success() {
            true => Ok(()),
            false if words.contains("busy") => Err(Error::Busy(path)),
            false if words.contains("not found in") => Ok(()),
            false => Err(Error::Unmount { path, why: words }),
        }
    }
}

/// Waits until the FUSE mount on this directory answers a `statfs`. Also succeeds for another user's mount that does not
/// admit this user (`EACCES`).
///
/// # Errors
/// [`Error::Device`] if no FUSE file system is mounted there, or its server has ended.
pub fn check_answer(path: &Path) -> Result<()> {
    const FUSE_SUPER_MAGIC: u32 = 0x6573_5546;
    let unanswered = |why| Err(Error::Device { doing: "statfs of the mount", why });
    match rustix::fs::statfs(path) {
        Ok(found) if found.f_type as u32 == FUSE_SUPER_MAGIC => Ok(()),
        Ok(_) => unanswered(std::io::Error::other("no FUSE file system is mounted there")),
        Err(Errno::ACCESS) => Ok(()),
        Err(why) => unanswered(why.into()),
    }
}

/// Whether a process that this one may inspect has a file open, or its working directory, below `dir` but not below
/// `inside`.
fn is_used(dir: &Path, inside: &[&Path]) -> bool {
    let below = |at: PathBuf| at.starts_with(dir) && !inside.iter().any(|other| at.starts_with(other));
    process::ids().unwrap_or_default().into_iter().any(|pid| {
        process::working_directory(pid).is_some_and(below)
            || process::root_directory(pid).is_some_and(below)
            || process::open_files(pid).any(below)
    })
}

enum Direct {
    Refused(Errno),
    Device(Error),
}

fn directly(
    path: &Path,
    source: &str,
    root_mode: u32,
    options: &Options,
) -> std::result::Result<OwnedFd, Direct> {
    let device = device::open().map_err(Direct::Device)?;
    let mut flags = MountFlags::NOATIME;
    if !options.suid_dev {
        flags |= MountFlags::NOSUID | MountFlags::NODEV;
    }
    if options.readonly {
        flags |= MountFlags::RDONLY;
    }
    let data = format!(
        "fd={},rootmode={root_mode:o},user_id={},group_id={},default_permissions,allow_other",
        device.as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw()
    );
    let data = CString::new(data).map_err(|_| Direct::Refused(Errno::INVAL))?;
    rustix::mount::mount(source, path, format!("fuse.{SUBTYPE}"), flags, data.as_c_str())
        .map_err(Direct::Refused)?;
    Ok(device)
}

fn explain(why: Errno) -> String {
    let more = match why {
        Errno::PERM => "; mounting needs CAP_SYS_ADMIN, or fusermount3 (package fuse3)",
        Errno::NODEV => "; the kernel's fuse module is not loaded (`modprobe fuse`)",
        _ => "",
    };
    format!("{why}{more}")
}

fn helper_exists() -> bool {
    Command::new(HELPER)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

/// Has the helper mount; it sends the device's descriptor back through its standard input, a socket.
fn by_helper(path: &Path, source: &str, options: &Options) -> std::result::Result<OwnedFd, String> {
    let (ours, theirs) = UnixStream::pair().map_err(|why| format!("creating a socket pair: {why}"))?;
    // An unescaped comma would end the value.
    let name = source.replace('\\', "\\\\").replace(',', "\\,");
    let mut words =
        vec![format!("fsname={name}"), format!("subtype={SUBTYPE}"), "default_permissions".into()];
    words.push(if options.readonly { "ro" } else { "rw" }.into());
    words.push("noatime".into());
    if options.allow_other {
        words.push("allow_other".into());
    }
    let mut child = Command::new(HELPER)
        .args(["-o", &words.join(","), "--"])
        .arg(path)
        .env("_FUSE_COMMFD", "0")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|why| {
            format!("starting {HELPER}: {why}\nhint: install the package fuse3, or mount as root")
        })?;
    let device = receive(&ours);
    let mut stderr = String::new();
    if let Some(mut pipe) = child.stderr.take() {
        let _ = pipe.read_to_string(&mut stderr);
    }
    let status = child.wait().map_err(|why| format!("waiting for {HELPER}: {why}"))?;
    match device {
        Some(device) if status.success() => Ok(device),
        _ => Err(format!("{HELPER} failed: {}", stderr.trim())),
    }
}

fn receive(from: &UnixStream) -> Option<OwnedFd> {
    let mut byte = [0u8; 1];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut byte)];
    rustix::net::recvmsg(from, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
    control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    })
}
