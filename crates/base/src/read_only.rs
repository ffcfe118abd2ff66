//! Makes file systems temporarily read-only.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::{FsPickFlags, fsconfig_reconfigure, fsconfig_set_flag, fspick};

use crate::Guardian;
use crate::mountinfo::{self, MountEntry};

/// What the guardian runs with pairs of options and mount points. `--options-source=disable`: not the options in `/etc/fstab`.
const RESTORE: &str = r#"while [ $# -gt 1 ]; do
    mount -i --options-source=disable -o "remount,rw,$1" "$2" || mount -o remount,rw "$2"; shift 2
done"#;

/// Mounted file systems that are read-only: not only these mounts, but every mount of them in every namespace. They can be written again when
/// this is dropped, or this process has ended.
#[derive(Debug)]
pub struct ReadOnly {
    mounts: Vec<MountEntry>,
    guardian: Option<Guardian>,
}

impl ReadOnly {
    /// Makes the file systems on these mount points read-only. The kernel refuses that while any file is open for writing, by whom and
    /// through which mount ever (`sb_prepare_remount_readonly` in `fs/namespace.c`), and writes what programs have written.
    ///
    /// # Errors
    /// `ResourceBusy` if a file is open for writing, or a removed file is open; `PermissionDenied` for users other than root; `NotFound` if
    /// one is not a mount point; `ReadOnlyFilesystem` if one is read-only already. All are as before then.
    pub fn of(points: &[PathBuf]) -> io::Result<ReadOnly> {
        let table = mountinfo::table()?;
        let find =
            |point: &PathBuf| mountinfo::on(&table, point).cloned().ok_or(io::ErrorKind::NotFound.into());
        let mounts = points.iter().map(find).collect::<io::Result<Vec<MountEntry>>>()?;
        if mounts.iter().any(|mount| mount.is_read_only()) {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        let words =
            mounts.iter().flat_map(|mount| [OsString::from(&mount.options), mount.point.clone().into()]);
        let guardian = Some(Guardian::start(RESTORE, words)?);
        let mut all = ReadOnly { mounts: Vec::new(), guardian };
        for mount in mounts {
            // A destructor makes the first ones writable again if a later one is refused.
            remount(&mount.point, "ro")?;
            all.mounts.push(mount);
        }
        Ok(all)
    }

    /// Makes them writable again.
    ///
    /// # Errors
    /// The kernel's.
    pub fn end(mut self) -> io::Result<()> {
        self.restore()
    }

    fn restore(&mut self) -> io::Result<()> {
        let table = mountinfo::table()?;
        let mut restored = Ok(());
        for mount in self.mounts.drain(..) {
            // It may have been unmounted since.
            if mountinfo::on(&table, &mount.point).is_some_and(|now| now.device == mount.device) {
                restored = restored.and(remount(&mount.point, "rw"));
            }
        }
        if restored.is_ok()
            && let Some(guardian) = self.guardian.take()
        {
            guardian.dismiss();
        }
        restored
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        // If it fails, the guardian tries.
        let _ = self.restore();
    }
}

/// Changes only the file system: the options of the mount stay.
fn remount(point: &Path, access: &str) -> io::Result<()> {
    let context =
        fspick(rustix::fs::CWD, point, FsPickFlags::FSPICK_CLOEXEC | FsPickFlags::FSPICK_NO_AUTOMOUNT)?;
    fsconfig_set_flag(&context, access)?;
    Ok(fsconfig_reconfigure(&context)?)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;
    use crate::unmount_command;

    /// A file system in memory.
    struct Tmpfs {
        point: PathBuf,
        _dir: tempfile::TempDir,
    }

    impl Tmpfs {
        fn new() -> Option<Tmpfs> {
            let dir = tempfile::tempdir().unwrap();
            let point = dir.path().canonicalize().unwrap();
            let mut mount = std::process::Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", "nosuid,nodev", "tmpfs"]).arg(&point);
            mount.stderr(std::process::Stdio::null());
            mount.status().is_ok_and(|status| status.success()).then_some(Tmpfs { point, _dir: dir })
        }
    }

    impl Drop for Tmpfs {
        fn drop(&mut self) {
            let _ = unmount_command(&self.point, false).status();
        }
    }

    #[test]
    fn nothing_can_be_written_meanwhile_and_a_writer_is_an_error() {
        let Some(tmpfs) = Tmpfs::new() else {
            eprintln!("skipped: only root can mount");
            return;
        };
        let (points, file) = ([tmpfs.point.clone()], tmpfs.point.join("table"));
        let options = || mountinfo::on(&mountinfo::read().unwrap(), &tmpfs.point).unwrap().options.clone();
        fs::write(&file, "row").unwrap();
        let before = options();
        let writer = File::options().append(true).open(&file).unwrap();
        assert_eq!(ReadOnly::of(&points).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        drop(writer);
        let held = ReadOnly::of(&points).unwrap();
        let refused = File::options().append(true).open(&file).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::ReadOnlyFilesystem);
        assert_eq!(ReadOnly::of(&points).unwrap_err().kind(), io::ErrorKind::ReadOnlyFilesystem);
        held.end().unwrap();
        fs::write(&file, "rows").unwrap();
        assert_eq!(options(), before);
        // As after a kill.
        let mut held = ReadOnly::of(&points).unwrap();
        held.mounts.clear();
        assert!(held.guardian.take().unwrap().finish().unwrap().success());
        fs::write(&file, "rows").unwrap();
        assert_eq!(options(), before);
        assert_eq!(ReadOnly::of(&["/gone".into()]).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
