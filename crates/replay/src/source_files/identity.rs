//! Decides whether a file of the host is the recorded one, by the device and inode in the trace.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use poolwright_base::device::Device;
use poolwright_base::mountinfo::{self, MountEntry};
use poolwright_base::{process, regular};
use poolwright_trace::{File, Trace};

/// The mounts of this process, and of the recorded processes that have other ones.
#[derive(Debug)]
pub(super) struct Identification {
    mounts: Vec<MountEntry>,
    others: Vec<(i32, Vec<MountEntry>)>,
}

impl Identification {
    pub(super) fn of(trace: &Trace) -> Identification {
        let mut pids: BTreeSet<u32> = trace.events.iter().map(|event| event.pid).collect();
        pids.extend(trace.meta.subject.strip_prefix("pid:").and_then(|pid| pid.parse::<u32>().ok()));
        let pids = pids.into_iter().filter_map(|pid| i32::try_from(pid).ok()).filter(|pid| *pid > 0);
        let others = pids.filter(|pid| !process::shares_mounts(*pid));
        let others = others.filter_map(|pid| Some((pid, mountinfo::of_process(pid).ok()?)));
        Identification { others: others.collect(), mounts: mountinfo::read().unwrap_or_default() }
    }

    /// Whether `opened`, which this process finds at `path`, is the file of the trace. A file of which the trace has no device
    /// and inode is what lies at its path.
    pub(super) fn is(&self, file: &File, opened: &fs::File, path: &Path) -> bool {
        Device::parse(&file.device).is_none_or(|device| {
            let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
            is_same(file, device, opened, &self.mounts, &path)
        })
    }

    /// Finds the file through the processes with other mounts. The path in the trace is that in the process, or that within the
    /// file system if this process does not see the file system (`docs/trace-format.md`).
    pub(super) fn find(&self, file: &File) -> Option<fs::File> {
        let device = Device::parse(&file.device)?;
        let recorded = file.host_path();
        for (pid, mounts) in &self.others {
            let inside = |mount: &MountEntry| {
                let rest = recorded.strip_prefix(&mount.root).ok()?;
                (mount.device == device).then(|| mount.point.join(rest))
            };
            let candidates: Vec<PathBuf> =
                std::iter::once(recorded.clone()).chain(mounts.iter().filter_map(inside)).collect();
            for path in candidates {
                let opened = regular::open(&process::path_as_seen_by(*pid, &path)).ok();
                let same = opened.filter(|opened| is_same(file, device, opened, mounts, &path));
                if same.is_some() {
                    return same;
                }
            }
        }
        None
    }
}

/// Compares inode and device. The recorder has the device of the file system; `stat` returns another one for the subvolumes of some
/// file systems (btrfs).
fn is_same(file: &File, device: Device, opened: &fs::File, mounts: &[MountEntry], path: &Path) -> bool {
    let Ok(meta) = opened.metadata() else { return false };
    let of_mount = || mountinfo::containing(mounts, path).map(|mount| mount.device);
    if meta.file_type().is_block_device() {
        return Device::from_raw(meta.rdev()) == device;
    }
    meta.ino() == file.ino && (Device::from_raw(meta.dev()) == device || of_mount() == Some(device))
}
