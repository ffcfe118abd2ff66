//! A pool that is mounted in the background for the duration of a test.

use std::io::Write as _;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::TestDir;

/// Time limit of waits, long enough for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// A pool that a background process has mounted on `m`.
pub struct Mounted {
    pub test_dir: TestDir,
    pub pid: u64,
}

impl Deref for Mounted {
    type Target = TestDir;

    fn deref(&self) -> &TestDir {
        &self.test_dir
    }
}

impl Mounted {
    /// Creates a pool on these vdevs and mounts it.
    pub fn on(vdevs: &str) -> Mounted {
        let test_dir = TestDir::new();
        test_dir.run(&format!("pool create tank {vdevs}"));
        std::fs::create_dir(test_dir.at("m")).unwrap();
        let mut mounted = Mounted { test_dir, pid: 0 };
        mounted.mount();
        mounted
    }

    pub fn mount(&mut self) {
        self.pid = self.json("mount tank m --background --arc 64M")["pid"].as_u64().unwrap();
    }

    pub fn status(&self) -> (i32, Value) {
        let done = self.command("pool status tank --json").output().unwrap();
        let status: Value = serde_json::from_slice(&done.stdout).unwrap();
        (done.status.code().unwrap(), status["pools"][0].clone())
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.at("state/log/tank.log")).unwrap_or_default()
    }

    pub fn kill(&self) {
        Command::new("kill").arg(self.pid.to_string()).status().unwrap();
    }

    pub fn is_alive(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    }

    pub fn umount(&self) {
        until("it can be unmounted", || umount(&self.at("m")));
    }
}

impl Drop for Mounted {
    /// Removes what a test that fails leaves: the process, and the mounts of all datasets.
    fn drop(&mut self) {
        if self.is_alive() {
            umount(&self.at("m"));
            let _ = Command::new("kill").args(["-KILL", &self.pid.to_string()]).status();
        }
        let here = self.dir.path().canonicalize().unwrap_or_default();
        let mounts = poolwright_base::mountinfo::read().unwrap_or_default();
        mounts.iter().rev().filter(|mount| mount.point.starts_with(&here)).for_each(|mount| {
            umount(&mount.point);
        });
    }
}

pub fn is_mounted(dir: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(1) == dir.to_str())
}

pub fn umount(dir: &Path) -> bool {
    let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    let mut command = if root { Command::new("umount") } else { Command::new("fusermount3") };
    command.args(if root { &[][..] } else { &["-u"] }).arg(dir).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Unmounts. Retries, because a child process of another test inherits all descriptors until it calls `exec`.
pub fn umount_soon(dir: &Path) -> bool {
    let start = Instant::now();
    while !umount(dir) {
        if start.elapsed() > Duration::from_secs(30) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    true
}

pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Writes a file and syncs it.
pub fn write(path: PathBuf, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}
