use std::fs;
use std::os::unix::fs::{FileExt as _, chown, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};

use super::*;
use crate::tree::Tree;

#[test]
fn holes_modes_and_links() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    let (from, to, log) = (base.join("db"), base.join("copy"), base.join("log"));
    for made in [&from.join("sub/deep"), &to.join("sub"), &log] {
        fs::create_dir_all(made).unwrap();
    }
    fs::write(log.join("wal.1"), "a log elsewhere").unwrap();
    fs::write(from.join("table"), "rows").unwrap();
    fs::set_permissions(from.join("table"), fs::Permissions::from_mode(0o640)).unwrap();
    let sparse = File::create(from.join("sub/sparse")).unwrap();
    sparse.write_all_at(b"end", (64 << 20) - 3).unwrap();
    symlink(&log, from.join("wal")).unwrap();
    symlink(from.join("table"), from.join("sub/deep/absolute")).unwrap();
    symlink("../../table", from.join("sub/deep/relative")).unwrap();
    symlink("/nowhere/at/all", from.join("dangling")).unwrap();
    drop(std::os::unix::net::UnixListener::bind(from.join("socket")).unwrap());

    let tree = Tree::scan(&from).unwrap();
    assert_eq!((tree.files, tree.bytes), (3, 4 + (64 << 20) + 15));
    assert_eq!(tree.roots, [from.clone(), log.clone()]);
    let mut done = 0;
    copy(&from, &to, &mut |bytes| {
        done = bytes;
        true
    })
    .unwrap();
    assert_eq!(fs::read(to.join("table")).unwrap(), b"rows");
    assert_eq!(fs::metadata(to.join("table")).unwrap().mode() & 0o777, 0o640);
    let copied = fs::metadata(to.join("sub/sparse")).unwrap();
    assert_eq!(copied.len(), 64 << 20);
    assert!(copied.blocks() * 512 < 8 << 20 && done < 8 << 20, "holes stay holes: {done}");
    assert_eq!(fs::read(to.join("wal/wal.1")).unwrap(), b"a log elsewhere");
    assert!(!fs::symlink_metadata(to.join("wal")).unwrap().is_symlink(), "writes would reach the original");
    for name in ["absolute", "relative"] {
        assert_eq!(fs::canonicalize(to.join("sub/deep").join(name)).unwrap(), to.join("table"));
    }
    assert_eq!(fs::read_link(to.join("dangling")).unwrap(), Path::new("/nowhere/at/all"));
    assert!(!to.join("socket").exists());
}

#[test]
fn a_copy_ends_when_it_is_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    let (from, to) = (base.join("db"), base.join("copy"));
    for made in [&from, &to] {
        fs::create_dir(made).unwrap();
    }
    fs::write(from.join("big"), vec![1; 4 << 20]).unwrap();
    let ended = copy(&from, &to, &mut |bytes| bytes < 2 << 20);
    assert!(matches!(ended, Err(Error::Interrupted)), "{ended:?}");
    assert!(fs::metadata(to.join("big")).unwrap().len() <= 2 << 20);
}

#[test]
fn a_loop_of_links_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().canonicalize().unwrap();
    fs::create_dir_all(base.join("db")).unwrap();
    fs::create_dir_all(base.join("other")).unwrap();
    symlink(base.join("other"), base.join("db/out")).unwrap();
    symlink(base.join("other"), base.join("other/again")).unwrap();
    let why = Tree::scan(&base.join("db")).unwrap_err().to_string();
    assert!(why.contains("loop of symbolic links"), "{why}");
}

/// A user who is not root.
const USER: u32 = 12345;
const SECRET: &str = "a secret of root";

/// A database of another user, and files of root to which that user has no access. `None` if this user is not root.
struct OthersDatabase {
    _dir: tempfile::TempDir,
    base: PathBuf,
}

impl OthersDatabase {
    fn new() -> Option<OthersDatabase> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("not tested: only root can give files to another user");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for made in ["db/sub/deep", "evil", "canary"] {
            fs::create_dir_all(base.join(made)).unwrap();
        }
        for file in ["db/file", "db/other", "db/sub/1", "db/sub/deep/2"] {
            fs::write(base.join(file), "rows ".repeat(30_000)).unwrap();
        }
        fs::write(base.join("canary/secret"), SECRET).unwrap();
        fs::set_permissions(base.join("canary"), fs::Permissions::from_mode(0o700)).unwrap();
        let database = OthersDatabase { _dir: dir, base };
        for given in
            ["db", "db/sub", "db/sub/deep", "db/file", "db/other", "db/sub/1", "db/sub/deep/2", "evil"]
        {
            chown(database.at(given), Some(USER), Some(USER)).unwrap();
        }
        Some(database)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    /// Copies the database to a new directory.
    fn copy(&self, to: &str) -> Result<()> {
        fs::create_dir(self.at(to)).unwrap();
        copy(&self.at("db"), &self.at(to), &mut |_| true)
    }

    /// That root's files are as they were, and not in a copy.
    fn is_safe(&self, to: &str) {
        let meta = |name: &str| fs::symlink_metadata(self.at(name)).unwrap();
        assert_eq!((meta("canary").uid(), meta("canary").mode() & 0o7777), (0, 0o700));
        assert_eq!((meta("canary/secret").uid(), meta("canary/secret").nlink()), (0, 1));
        assert_eq!(fs::read_to_string(self.at("canary/secret")).unwrap(), SECRET);
        assert_eq!(fs::read_dir(self.at("canary")).unwrap().count(), 1);
        let mut rest = vec![self.at(to)];
        while let Some(path) = rest.pop() {
            let meta = fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                rest.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else if meta.is_file() {
                assert!(!fs::read_to_string(&path).unwrap().contains(SECRET), "{}", path.display());
            }
        }
    }
}

#[test]
fn links_to_files_of_other_users_are_not_followed() {
    let Some(database) = OthersDatabase::new() else { return };
    fs::write(database.at("key"), SECRET).unwrap();
    fs::set_permissions(database.at("key"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink(database.at("key"), database.at("db/sub/key")).unwrap();
    database.copy("copy").unwrap();
    database.is_safe("copy");
    assert_eq!(fs::read_link(database.at("copy/sub/key")).unwrap(), database.at("key"));
    for (name, uid) in [("copy", USER), ("copy/sub/deep/2", USER)] {
        assert_eq!(fs::metadata(database.at(name)).unwrap().uid(), uid, "{name}");
    }

    symlink(database.at("canary"), database.at("db/space")).unwrap();
    let refused = database.copy("copy2").unwrap_err();
    assert!(matches!(&refused, Error::OtherOwner { owner: 0, .. }), "{refused}");
    assert!(matches!(Tree::scan(&database.at("db")), Err(Error::OtherOwner { .. })));
    database.is_safe("copy2");
    fs::remove_file(database.at("db/space")).unwrap();

    // A program that uses the copy could write to it.
    fs::set_permissions(database.at("key"), fs::Permissions::from_mode(0o660)).unwrap();
    let refused = database.copy("copy3").unwrap_err();
    assert!(matches!(&refused, Error::OtherOwner { owner: 0, .. }), "{refused}");
}

/// Ends the other thread, also if an assertion fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The database's user exchanges files and directories with links to root's files, and with a pipe, in the original and in the copy.
#[test]
fn a_user_who_swaps_links_meanwhile_gets_nothing() {
    let Some(database) = OthersDatabase::new() else { return };
    for (name, target) in
        [("dir", "canary"), ("deep", "canary"), ("copied", "canary"), ("file", "canary/secret")]
    {
        symlink(database.at(target), database.at(&format!("evil/{name}"))).unwrap();
    }
    let mode = Mode::from_raw_mode(0o600);
    mknodat(CWD, database.at("evil/pipe"), FileType::Fifo, mode, 0).unwrap();
    let stop = AtomicBool::new(false);
    let (mut copied, mut failed) = (0, 0);
    std::thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        scope.spawn(|| {
            let exchanged = [
                ("db/sub", "evil/dir"),
                ("db/file", "evil/file"),
                ("db/sub/deep", "evil/deep"),
                ("db/other", "evil/pipe"),
                ("copy/sub", "evil/copied"),
            ];
            // A simple generator, so that the order differs from that of the copy.
            let mut state = 1_u64;
            while !stop.load(Ordering::Relaxed) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let (a, b) = exchanged[(state >> 33) as usize % exchanged.len()];
                let _ = renameat_with(CWD, database.at(a), CWD, database.at(b), RenameFlags::EXCHANGE);
            }
        });
        for _ in 0..300 {
            match database.copy("copy") {
                Ok(()) => copied += 1,
                Err(_) => failed += 1,
            }
            let done = database.at("done");
            fs::rename(database.at("copy"), &done).unwrap();
            database.is_safe("done");
            // An exchange that resolved its path before the rename may put another directory there once more.
            fs::remove_dir_all(&done).or_else(|_| fs::remove_dir_all(&done)).unwrap();
        }
    });
    eprintln!("{copied} copies, {failed} refused");
}
