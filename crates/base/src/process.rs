//! Processes of the host, from `/proc/PID`.
//!
//! A process can end at any time, and those of other users are only partly visible. Every function therefore returns an
//! empty result instead of an error for a process that cannot be read.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::device::Device;

/// CPU time in clock ticks ([`clock_ticks_per_second`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// In user mode.
    pub user: u64,
    /// In kernel mode.
    pub system: u64,
}

impl CpuTicks {
    /// User and kernel mode together.
    pub fn total(self) -> u64 {
        self.user + self.system
    }
}

impl std::ops::AddAssign for CpuTicks {
    fn add_assign(&mut self, other: CpuTicks) {
        self.user += other.user;
        self.system += other.system;
    }
}

/// The number of clock ticks in a second (`USER_HZ`), 100 on every x86-64 kernel.
pub fn clock_ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}

/// The state of a process or thread (`proc_pid_stat(5)`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    /// Its ID.
    pub pid: i32,
    /// The name of its program, at most 15 bytes.
    pub name: String,
    /// `R` running, `S` sleeping, `Z` zombie, and others.
    pub state: char,
    /// The parent's process ID.
    pub parent: i32,
    /// The kernel's `PF_*` flags.
    pub flags: u32,
    /// CPU time of its threads, including those that have ended.
    pub own: CpuTicks,
    /// CPU time of the children for which it has waited, and of their children.
    pub waited: CpuTicks,
    /// Its start, in clock ticks since the boot. Together with the ID, it identifies the process until the next boot.
    pub start_ticks: u64,
}

/// Set when a thread begins to exit, before the tracepoint `sched_process_exit` (`include/linux/sched.h`).
const PF_EXITING: u32 = 0x4;
/// Set for threads of the kernel.
const PF_KTHREAD: u32 = 0x0020_0000;

impl ProcessStat {
    /// Reads `/proc/PID/stat`. Returns `None` if the process has ended.
    pub fn read(pid: i32) -> Option<ProcessStat> {
        ProcessStat::read_in(&directory(pid))
    }

    /// Reads the file `stat` of a directory of `/proc`: that of a process or a thread.
    pub fn read_in(dir: &Path) -> Option<ProcessStat> {
        ProcessStat::parse(&String::from_utf8_lossy(&std::fs::read(dir.join("stat")).ok()?))
    }

    /// Parses one line of `/proc/PID/stat`.
    pub fn parse(line: &str) -> Option<ProcessStat> {
        // The name may contain spaces and parentheses: the other fields follow the last parenthesis.
        let (head, tail) = line.rsplit_once(')')?;
        let (pid, name) = head.split_once('(')?;
        let fields: Vec<&str> = tail.split_whitespace().collect();
        let ticks = |at: usize| -> Option<CpuTicks> {
            Some(CpuTicks { user: fields.get(at)?.parse().ok()?, system: fields.get(at + 1)?.parse().ok()? })
        };
        Some(ProcessStat {
            pid: pid.trim().parse().ok()?,
            name: name.to_owned(),
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            flags: fields.get(6)?.parse().ok()?,
            own: ticks(11)?,
            waited: ticks(13)?,
            start_ticks: fields.get(19)?.parse().ok()?,
        })
    }

    /// Whether the process has ended. A zombie has ended, but its parent has not waited for it.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    /// Whether the thread still issues system calls. An exiting thread does not, although it can be in state `R` for a while.
    pub fn is_running(&self) -> bool {
        !self.has_ended() && self.flags & PF_EXITING == 0
    }

    /// Whether this is a thread of the kernel.
    pub fn is_kernel_thread(&self) -> bool {
        self.flags & PF_KTHREAD != 0
    }
}

/// Whether any thread of the process still issues system calls.
pub fn is_running(pid: i32) -> bool {
    let Ok(threads) = std::fs::read_dir(directory(pid).join("task")) else { return false };
    threads.flatten().filter_map(|thread| ProcessStat::read_in(&thread.path())).any(|stat| stat.is_running())
}

/// Whether the process was killed or is exiting, and has not ended: none of its threads will run its program again, but until the last
/// one has ended, its files stay open. A thread that waits for a device can take long.
pub fn is_ending(pid: i32) -> bool {
    let Ok(threads) = std::fs::read_dir(directory(pid).join("task")) else { return false };
    let ends = |dir: &Path| ProcessStat::read_in(dir).is_none_or(|stat| !stat.is_running()) || is_killed(dir);
    threads.flatten().all(|thread| ends(&thread.path()))
}

/// Whether `SIGKILL` is pending for a thread (`SigPnd` of `proc_pid_status(5)`, a mask whose lowest bit is signal 1).
fn is_killed(thread: &Path) -> bool {
    let status = std::fs::read(thread.join("status")).unwrap_or_default();
    let mut lines = status.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(b"SigPnd:"));
    let mask = lines.find_map(|mask| u64::from_str_radix(std::str::from_utf8(mask).ok()?.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (rustix::process::Signal::KILL.as_raw() - 1)) != 0)
}

/// The process of a thread, or the process itself (`Tgid` of `proc_pid_status(5)`). `None` if there is no such thread.
pub fn thread_group(tid: i32) -> Option<i32> {
    let status = std::fs::read(directory(tid).join("status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// Resident memory of this process in bytes (`VmRSS` of `proc_pid_status(5)`).
pub fn resident_bytes() -> Option<u64> {
    crate::memory::in_text(&std::fs::read_to_string("/proc/self/status").ok()?, "VmRSS")
}

/// The IDs of all visible processes.
///
/// # Errors
/// If `/proc` cannot be listed.
pub fn ids() -> std::io::Result<Vec<i32>> {
    let entries = std::fs::read_dir("/proc")?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// All visible processes; empty if `/proc` cannot be listed.
pub fn all() -> Vec<ProcessStat> {
    ids().unwrap_or_default().into_iter().filter_map(ProcessStat::read).collect()
}

/// The name of the process's program, at most 15 bytes; empty if it cannot be read.
pub fn name(pid: i32) -> String {
    let name = std::fs::read(directory(pid).join("comm")).unwrap_or_default();
    String::from_utf8_lossy(&name).trim_end().to_owned()
}

/// The command line, with spaces between the arguments; empty if it cannot be read.
pub fn command_line(pid: i32) -> String {
    let raw = std::fs::read(directory(pid).join("cmdline")).unwrap_or_default();
    let words: Vec<_> =
        raw.split(|byte| *byte == 0).filter(|word| !word.is_empty()).map(String::from_utf8_lossy).collect();
    words.join(" ")
}

/// The root directory, which differs from `/` in containers. Returns `None` if it cannot be read.
pub fn root_directory(pid: i32) -> Option<PathBuf> {
    std::fs::read_link(directory(pid).join("root")).ok()
}

/// The working directory. Returns `None` if it cannot be read.
pub fn working_directory(pid: i32) -> Option<PathBuf> {
    std::fs::read_link(directory(pid).join("cwd")).ok()
}

/// The variables of the environment in which the process was started, each as `NAME=VALUE`. A program can overwrite them.
pub fn environment(pid: i32) -> Vec<OsString> {
    let raw = std::fs::read(directory(pid).join("environ")).unwrap_or_default();
    raw.split(|byte| *byte == 0).map(|variable| OsString::from_vec(variable.to_vec())).collect()
}

/// A path that means the same file for this process as `path`, which must be absolute, means for process `pid`: the two may be
/// in different mount namespaces.
pub fn path_as_seen_by(pid: i32, path: &Path) -> PathBuf {
    directory(pid).join("root").join(path.strip_prefix("/").unwrap_or(path))
}

/// A path through which any process with the rights can read the file that `descriptor` refers to in process `pid`, even if it
/// was removed.
pub fn descriptor_path(pid: u32, descriptor: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/fd/{descriptor}"))
}

/// A path by which this process starts its own program, even if another file has replaced it since.
pub fn own_executable() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

/// A path by which other processes start this process's program while this process runs, even if another file has replaced it
/// since.
pub fn own_executable_for_others() -> PathBuf {
    PathBuf::from(format!("/proc/{}/exe", std::process::id()))
}

/// The paths in `/proc` of the process's open files. Each is a link to the file.
pub fn descriptors(pid: i32) -> impl Iterator<Item = PathBuf> {
    listed(directory(pid).join("fd"))
}

/// The files that the process has open.
pub fn open_files(pid: i32) -> impl Iterator<Item = PathBuf> {
    descriptors(pid).filter_map(|link| std::fs::read_link(link).ok())
}

/// The paths in `/proc` of the files that the process has mapped. Each is a link to the file. Visible to root only.
pub fn mapped_files(pid: i32) -> impl Iterator<Item = PathBuf> {
    listed(directory(pid).join("map_files"))
}

fn listed(dir: PathBuf) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// The path of the program that the process runs; `None` if it has ended, or is another user's. It does not exist if the file was
/// replaced since.
pub fn program(pid: i32) -> Option<PathBuf> {
    std::fs::read_link(directory(pid).join("exe")).ok()
}

/// The mount namespace of a process; `None` if it has ended or is another user's.
pub fn mount_namespace(pid: i32) -> Option<PathBuf> {
    std::fs::read_link(directory(pid).join("ns/mnt")).ok()
}

/// Whether the process has the mounts of this one. If that cannot be determined, it counts as such.
pub fn shares_mounts(pid: i32) -> bool {
    match (mount_namespace(pid), std::fs::read_link("/proc/self/ns/mnt")) {
        (Some(of), Ok(own)) => of == own,
        _ => true,
    }
}

/// The inode number of the initial PID namespace: `PROC_PID_INIT_INO` in `include/linux/proc_ns.h` of the kernel, which is
/// `PID_NS_INIT_INO` in `include/uapi/linux/nsfs.h` since Linux 6.18.
const INITIAL_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Whether this process is in the initial PID namespace, so that `/proc` shows all processes of the host. If that cannot be determined, it
/// counts as another one.
pub fn is_in_initial_pid_namespace() -> bool {
    std::fs::metadata("/proc/self/ns/pid").is_ok_and(|namespace| namespace.ino() == INITIAL_PID_NAMESPACE)
}

/// A file that a process has open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritableFile {
    /// The link to it in `/proc/PID/fd`.
    pub link: PathBuf,
    /// The mount through which it was opened ([`MountEntry::id`](crate::mountinfo::MountEntry::id)).
    pub mount: Option<u64>,
    /// Its path, as the process would see it; ` (deleted)` follows that of a removed file.
    pub path: PathBuf,
    /// Whether it was opened with `O_DIRECT`.
    pub is_direct: bool,
}

/// The files that the process has open for writing. Only texts of `/proc` are read: `stat(2)` on a link in `/proc/PID/fd` would query the
/// file system, and block forever on a network file system whose server is gone.
pub fn open_for_writing(pid: i32) -> impl Iterator<Item = WritableFile> {
    descriptors(pid).filter_map(move |link| {
        let info = directory(pid).join("fdinfo").join(link.file_name()?);
        let info = std::fs::read_to_string(info).ok()?;
        let flags = open_flags(&info).filter(|flags| flags & WRITING != 0)?;
        // Pipes, sockets and the like have names, not paths.
        let path = std::fs::read_link(&link).ok().filter(|path| path.is_absolute())?;
        let is_direct = flags & rustix::fs::OFlags::DIRECT.bits() != 0;
        Some(WritableFile { link, mount: number(&info, "mnt_id:"), path, is_direct })
    })
}

/// A number in a file of `/proc/PID/fdinfo`.
fn number(fdinfo: &str, name: &str) -> Option<u64> {
    fdinfo.lines().find_map(|line| line.strip_prefix(name))?.trim().parse().ok()
}

/// The bits of the access mode of `open(2)` that permit writing: `O_WRONLY` and `O_RDWR`.
const WRITING: u32 = 0o3;

/// The flags with which the file was opened; the text is octal.
fn open_flags(fdinfo: &str) -> Option<u32> {
    let flags = fdinfo.lines().find_map(|line| line.strip_prefix("flags:"))?;
    u32::from_str_radix(flags.trim(), 8).ok()
}

/// The files that the process has mapped such that writes to the memory change the file, with the device numbers of their file systems.
pub fn mapped_for_writing(pid: i32) -> impl Iterator<Item = (Device, PathBuf)> {
    let maps = std::fs::read(directory(pid).join("maps")).unwrap_or_default();
    let files: Vec<_> = maps.split(|byte| *byte == b'\n').filter_map(shared_writable).collect();
    files.into_iter()
}

/// The device number and the file of one line of `/proc/PID/maps` (`proc_pid_maps(5)`), if the mapping is shared and writable.
fn shared_writable(line: &[u8]) -> Option<(Device, PathBuf)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let mode = fields.nth(1)?;
    let device = std::str::from_utf8(fields.nth(1)?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let number = |digits| u32::from_str_radix(digits, 16).ok();
    let device = Device { major: number(major)?, minor: number(minor)? };
    let path = line.iter().position(|byte| *byte == b'/').map(|at| &line[at..])?;
    let is_shared_writable = mode.get(1) == Some(&b'w') && mode.last() == Some(&b's');
    is_shared_writable.then(|| (device, PathBuf::from(std::ffi::OsStr::from_bytes(path))))
}

/// The effective capabilities of this process, as a bit mask (`capabilities(7)`); 0 if the kernel does not report them.
///
/// # Errors
/// If `/proc/self/status` cannot be read.
pub fn effective_capabilities() -> std::io::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    Ok(line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0))
}

fn directory(pid: i32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

#[cfg(test)]
mod tests;
