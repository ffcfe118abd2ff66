//! Mounts file systems for a test.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system, and how to mount it.
pub struct FileSystem {
    pub name: &'static str,
    how: How,
}

enum How {
    /// On a loop device, made by this program with these arguments.
    Loop(&'static str, &'static [&'static str]),
    Tmpfs,
    Overlay,
    /// `fuse-overlayfs` over a directory.
    Fuse,
    /// Mounted already, in the directory that this environment variable names.
    Given(&'static str),
}

pub const FILE_SYSTEMS: &[FileSystem] = &[
    FileSystem { name: "ext4", how: How::Loop("mkfs.ext4", &["-q", "-F"]) },
    FileSystem { name: "xfs", how: How::Loop("mkfs.xfs", &["-q", "-f"]) },
    FileSystem { name: "btrfs", how: How::Loop("mkfs.btrfs", &["-q", "-f"]) },
    FileSystem { name: "overlay", how: How::Overlay },
    FileSystem { name: "tmpfs", how: How::Tmpfs },
    FileSystem { name: "fuse", how: How::Fuse },
    // scripts/test-kernel.sh runs the test in a guest whose kernel has OpenZFS.
    FileSystem { name: "zfs", how: How::Given("POOLWRIGHT_ZFS_DIR") },
];

/// A mounted file system, unmounted when dropped if this test has mounted it.
pub struct Mounted {
    pub dir: PathBuf,
    is_own: bool,
}

impl Mounted {
    /// Mounts the file system below `scratch`, or returns why this machine cannot.
    pub fn new(system: &FileSystem, scratch: &Path) -> Result<Mounted, String> {
        if let How::Given(variable) = system.how {
            let dir = std::env::var_os(variable).ok_or_else(|| format!("{variable} is not set"))?;
            let dir = PathBuf::from(dir).canonicalize().map_err(|why| why.to_string())?;
            return Ok(Mounted { dir, is_own: false });
        }
        let base = scratch.join(system.name);
        let dir = base.join("mnt");
        std::fs::create_dir_all(&dir).map_err(|why| why.to_string())?;
        match system.how {
            How::Loop(program, args) => {
                let image = base.join("image");
                std::fs::File::create(&image)
                    .and_then(|file| file.set_len(1 << 30))
                    .map_err(|why| why.to_string())?;
                run(Command::new(program).args(args).arg(&image))?;
                run(Command::new("mount").args(["-o", "loop"]).args([&image, &dir]))?;
            }
            How::Tmpfs => run(Command::new("mount").args(["-t", "tmpfs", "tmpfs"]).arg(&dir))?,
            How::Given(_) => {}
            How::Overlay | How::Fuse => {
                for name in ["lower", "upper", "work"] {
                    std::fs::create_dir_all(base.join(name)).map_err(|why| why.to_string())?;
                }
                let place = |name: &str| base.join(name).display().to_string();
                let options = format!(
                    "lowerdir={},upperdir={},workdir={}",
                    place("lower"),
                    place("upper"),
                    place("work")
                );
                match system.how {
                    How::Overlay => {
                        run(Command::new("mount")
                            .args(["-t", "overlay", "overlay", "-o", &options])
                            .arg(&dir))?;
                    }
                    _ => run(Command::new("fuse-overlayfs").args(["-o", &options]).arg(&dir))?,
                }
            }
        }
        let dir = dir.canonicalize().map_err(|why| why.to_string())?;
        Ok(Mounted { dir, is_own: true })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if !self.is_own {
            return;
        }
        // Lazily: a program that failed may still be inside.
        let _ = run(Command::new("umount").arg("-l").arg(&self.dir));
    }
}

/// A block device: that of the environment variable `POOLWRIGHT_TEST_DEVICE`, or a loop device, which is detached when dropped.
pub struct BlockDevice {
    path: PathBuf,
    is_own: bool,
}

impl BlockDevice {
    pub fn new(image: &Path) -> Result<BlockDevice, String> {
        if let Some(given) = std::env::var_os("POOLWRIGHT_TEST_DEVICE") {
            return Ok(BlockDevice { path: given.into(), is_own: false });
        }
        std::fs::File::create(image).and_then(|file| file.set_len(1 << 20)).map_err(|why| why.to_string())?;
        let output = Command::new("losetup")
            .args(["-f", "--show"])
            .arg(image)
            .output()
            .map_err(|why| why.to_string())?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        Ok(BlockDevice { path: String::from_utf8_lossy(&output.stdout).trim().into(), is_own: true })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for BlockDevice {
    fn drop(&mut self) {
        if self.is_own {
            let _ = run(Command::new("losetup").arg("-d").arg(&self.path));
        }
    }
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|why| format!("{command:?}: {why}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
