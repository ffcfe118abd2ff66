//! For tests of this crate and of `backup`: actions of other users during a call, and checks of the user as which programs run.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Gid, Uid};
use tempfile::TempDir;

/// A user and a group.
type UserAndGroup = (u32, u32);

/// The user and the group `nobody`.
pub const NOBODY: UserAndGroup = (65_534, 65_534);

/// Whether this process runs as root, which tests of other users require.
pub fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: only root can act as other users");
    }
    is_root
}

/// A directory that other users can pass through.
pub fn passable_dir() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o711)).unwrap();
    dir
}

/// Gives a tree to a user.
pub fn give(path: &Path, owner: UserAndGroup) {
    lchown(path, Some(owner.0), Some(owner.1)).unwrap();
    if path.symlink_metadata().unwrap().is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| give(&entry.unwrap().path(), owner));
    }
}

/// Runs a command that must succeed.
pub fn succeeds(command: &mut Command) {
    let done = command.output().unwrap();
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Makes a data directory of MariaDB, which belongs to `nobody`.
pub fn install_mariadb(data_dir: &Path) {
    let mut install = Command::new("mariadb-install-db");
    install.args(["--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal", "--force"]);
    install.arg(format!("--datadir={}", data_dir.display())).arg("--user=nobody");
    succeeds(install.stdin(Stdio::null()));
}

/// The directory of the programs of an installed PostgreSQL.
pub fn postgresql_bindir() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    versions.map(|entry| entry.path().join("bin")).find(|dir| dir.join("initdb").is_file())
}

/// A directory of root with a file that no other user may change.
pub struct Canary {
    dir: TempDir,
    before: (u64, i64, i64),
}

impl Canary {
    pub fn new() -> Canary {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "precious").unwrap();
        let before = Canary::state(dir.path());
        Canary { dir, before }
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn file(&self) -> PathBuf {
        self.dir.path().join("file")
    }

    fn state(dir: &Path) -> (u64, i64, i64) {
        let (dir, file) =
            (fs::symlink_metadata(dir).unwrap(), fs::symlink_metadata(dir.join("file")).unwrap());
        // The change times tell of everything, also of what was undone.
        (file.ino(), dir.ctime() << 30 | dir.ctime_nsec(), file.ctime() << 30 | file.ctime_nsec())
    }

    /// Fails if something was changed, or only touched.
    pub fn check(&self) {
        assert_eq!(fs::read_to_string(self.file()).unwrap(), "precious");
        assert_eq!(Canary::state(self.dir()), self.before);
    }
}

/// Does something again and again as another user, in a thread, while `work` runs.
pub fn while_another_user<T>(user: UserAndGroup, act: impl Fn() + Sync, work: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    /// Also ends the thread if the work panics.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    std::thread::scope(|scope| {
        let over = Over(&is_over);
        scope.spawn(|| {
            // Of this thread only.
            rustix::thread::set_thread_groups(&[]).unwrap();
            rustix::thread::set_thread_gid(Gid::from_raw(user.1)).unwrap();
            rustix::thread::set_thread_uid(Uid::from_raw(user.0)).unwrap();
            while !is_over.load(Ordering::Relaxed) {
                act();
            }
        });
        let done = work();
        drop(over);
        done
    })
}

/// Programs that log who runs them, and then become the real ones.
pub struct LoggedPrograms {
    dir: TempDir,
}

impl LoggedPrograms {
    /// A separate directory of programs: one for each of these names that is installed, and `setpriv`.
    pub fn new(find: impl Fn(&str) -> Option<PathBuf>, names: &[&str]) -> LoggedPrograms {
        let dir = passable_dir();
        let log = dir.path().join("log");
        fs::write(&log, "").unwrap();
        fs::set_permissions(&log, Permissions::from_mode(0o666)).unwrap();
        for name in names.iter().chain(&["setpriv"]) {
            let Some(program) = find(name) else { continue };
            let script = format!(
                "#!/bin/sh\necho \"{name} $(id -u)\" >>{}\nexec {} \"$@\"\n",
                log.display(),
                program.display()
            );
            fs::write(dir.path().join(name), script).unwrap();
            fs::set_permissions(dir.path().join(name), Permissions::from_mode(0o755)).unwrap();
        }
        LoggedPrograms { dir }
    }

    /// Whether one of these is not installed.
    pub fn lacks(&self, names: &[&str]) -> bool {
        names.iter().any(|name| !self.dir.path().join(name).exists())
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Fails unless all of these have run, and only as this user.
    pub fn check(&self, user: UserAndGroup, names: &[&str]) {
        let log = fs::read_to_string(self.dir.path().join("log")).unwrap();
        let others: Vec<&str> = log.lines().filter(|line| !line.ends_with(&format!(" {}", user.0))).collect();
        assert!(others.is_empty(), "{others:?}");
        for name in names {
            assert!(
                log.lines().any(|line| line.starts_with(&format!("{name} "))),
                "{name} has not run: {log}"
            );
        }
    }
}
