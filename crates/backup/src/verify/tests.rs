use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use poolwright_dbms::owner::{self, UserAndGroup};

use super::*;
use crate::archive::tests::entry;
use crate::manifest::SourceRecord;
use crate::test_users::{
    Canary, LoggedPrograms, NOBODY, give, install_mariadb, is_root, passable_dir, postgresql_bindir,
    succeeds, while_another_user,
};

struct Silent;

impl BackupObserver for Silent {
    fn stage(&mut self, _stage: BackupStage) {}
    fn progress(&mut self, _done: u64, _total: u64) {}
    fn note(&mut self, _text: &str) {}
    fn is_interrupted(&self) -> bool {
        false
    }
}

/// A backup of the directory `/srv/named` of root, in which the database is in `db`.
struct Backup {
    dir: tempfile::TempDir,
    manifest: BackupManifest,
}

impl Backup {
    fn new(kind: DatabaseKind) -> Backup {
        let dir = passable_dir();
        fs::create_dir_all(dir.path().join("files/0/db")).unwrap();
        let source = SourceRecord {
            path: "/srv/named".into(),
            dataset: "tank/named".to_owned(),
            copy: "files/0".into(),
        };
        let mut manifest = entry(0, '?').manifest;
        manifest.database.kind = kind;
        manifest.sources = vec![source];
        Backup { dir, manifest }
    }

    fn db(&self) -> PathBuf {
        self.dir.path().join("files/0/db")
    }

    /// Restores and checks it. `meanwhile` gets the scratch directory and runs as the owner.
    fn verify(
        &self,
        options: &RestoreOptions,
        owner: UserAndGroup,
        meanwhile: impl Fn(&Path) + Sync,
    ) -> Vec<RestoreCheck> {
        let parent = passable_dir();
        let scratch = Scratch::create(parent.path(), SCRATCH_PREFIX).unwrap();
        let copied =
            RestoredTree::copy(self.dir.path(), &self.manifest, &scratch, None, &mut Silent).unwrap();
        let (tree, _) = copied;
        assert_eq!((tree.owner, &tree.root), (owner, &tree.paths[0].join("db")));
        check_reachable(&tree, parent.path()).unwrap();
        let path = scratch.path().to_owned();
        let checks = while_another_user(
            owner,
            || meanwhile(&path),
            || own_checks(&self.manifest, &tree, options, None, &mut Silent).unwrap().checks,
        );
        // What was created beside the tree is still root's.
        for entry in fs::read_dir(scratch.path()).unwrap() {
            assert!(
                ["restore", "socket", "tmp"].contains(&entry.as_ref().unwrap().file_name().to_str().unwrap())
                    || owner::of_file_itself(&entry.unwrap().path()).unwrap().is_none()
            );
        }
        checks
    }
}

/// Plants links to a file in the place of everything that is created for a server.
fn plant(scratch: &Path, target: &Path) {
    for dir in ["", "restore", "restore/restored", "socket", "tmp"] {
        for name in ["server.log", "socket", "tmp", "postgresql.conf", "pg_hba.conf", "pg_ident.conf"] {
            let _ = symlink(target, scratch.join(dir).join(name));
        }
    }
    let _ = fs::rename(scratch.join("restore"), scratch.join("away"));
    std::thread::sleep(std::time::Duration::from_millis(1));
}

fn assert_passed(checks: &[RestoreCheck], names: &[&str]) {
    for name in names {
        let found = checks.iter().find(|check| check.name.starts_with(name));
        assert!(found.is_some_and(|check| check.result == CheckVerdict::Passed), "{name}: {checks:?}");
    }
}

/// Logged programs of those in a directory, or where programs are.
fn logged(dir: Option<&Path>, names: &[&str]) -> LoggedPrograms {
    LoggedPrograms::new(|name| Programs::default().after(dir).find(name), names)
}

/// These programs before all others.
fn before_others(programs: &LoggedPrograms) -> Programs {
    Programs::default().after(Some(programs.dir()))
}

/// The options with a command that logs who runs it.
fn options(programs: &LoggedPrograms) -> RestoreOptions {
    let log = programs.dir().join("log");
    let check = Some(format!("echo check $(id -u) >>{}", log.display()));
    RestoreOptions { check, programs: before_others(programs), ..RestoreOptions::default() }
}

#[test]
fn programs_of_sqlite_and_lmdb_run_as_the_owner_of_the_directory() {
    if !is_root() || logged(None, &["sqlite3", "mdb_dump"]).lacks(&["sqlite3", "mdb_dump"]) {
        eprintln!("skipped: needs root, sqlite3 and lmdb-utils");
        return;
    }
    let canary = Canary::new();
    let sqlite = Backup::new(DatabaseKind::Sqlite);
    succeeds(Command::new("sqlite3").arg(sqlite.db().join("a.db")).arg("CREATE TABLE t (x);"));
    let lmdb = Backup::new(DatabaseKind::Openldap);
    let dump = lmdb.dir.path().join("dump");
    fs::write(&dump, "VERSION=3\nformat=print\ntype=btree\nmapsize=1048576\nHEADER=END\n k\n v\nDATA=END\n")
        .unwrap();
    succeeds(Command::new("mdb_load").arg("-f").arg(&dump).arg(lmdb.db()));
    for (backup, name, check) in [(&sqlite, "sqlite3", "PRAGMA"), (&lmdb, "mdb_dump", "mdb_dump")] {
        give(&backup.db(), NOBODY);
        let programs = logged(None, &[name]);
        let plant = |scratch: &Path| plant(scratch, &canary.file());
        let checks = backup.verify(&options(&programs), NOBODY, plant);
        assert_passed(&checks, &[check, "echo"]);
        programs.check(NOBODY, &[name, "check"]);
    }
    canary.check();
}

#[test]
fn mariadb_runs_as_the_owner_of_its_directory() {
    let names = ["mariadbd", "mariadb-check", "mariadb-install-db"];
    if !is_root() || logged(None, &names).lacks(&names) {
        eprintln!("skipped: needs root and MariaDB");
        return;
    }
    let backup = Backup::new(DatabaseKind::Mariadb);
    give(&backup.db(), NOBODY);
    install_mariadb(&backup.db());
    let canary = Canary::new();
    let programs = logged(None, &["mariadbd", "mariadb-check"]);
    let checks = backup.verify(&options(&programs), NOBODY, |scratch| plant(scratch, &canary.file()));
    assert_passed(&checks, &[START_OF_SERVER, "CHECK TABLE", "echo", "shutdown"]);
    programs.check(NOBODY, &["setpriv", "mariadbd", "mariadb-check", "check"]);
    canary.check();
}

const START_OF_SERVER: &str = "start and recovery";

#[test]
fn postgresql_runs_as_the_owner_of_its_directory() {
    let Some(bindir) = postgresql_bindir().filter(|_| is_root()) else {
        eprintln!("skipped: needs root and PostgreSQL");
        return;
    };
    let backup = Backup::new(DatabaseKind::Postgresql);
    give(&backup.db(), NOBODY);
    let mut initdb = command_as(NOBODY, &bindir.join("initdb"));
    initdb.arg("-D").arg(backup.db()).args(["-U", "postgres", "-A", "trust", "-k", "--no-locale"]);
    succeeds(initdb.env("TZ", "GMT").stdin(Stdio::null()));
    let canary = Canary::new();
    let names = ["postgres", "psql", "pg_amcheck", "pg_dumpall", "pg_checksums"];
    // The owner of the database can leave links in it.
    for name in ["postmaster.pid", "standby.signal"] {
        symlink(canary.file(), backup.db().join(name)).unwrap();
    }
    let programs = logged(Some(&bindir), &names);
    let options = RestoreOptions { bindir: Some(programs.dir().to_owned()), ..options(&programs) };
    let checks = backup.verify(&options, NOBODY, |scratch| plant(scratch, &canary.file()));
    assert_passed(&checks, &[START_OF_SERVER, "pg_dumpall", "echo", "shutdown", "pg_checksums"]);
    programs.check(NOBODY, &["setpriv", "postgres", "psql", "pg_dumpall", "pg_checksums", "check"]);
    canary.check();
}

#[test]
fn files_of_root_are_checked_by_root() {
    if !is_root() || Programs::default().find("sqlite3").is_none() {
        return;
    }
    let backup = Backup::new(DatabaseKind::Sqlite);
    succeeds(Command::new("sqlite3").arg(backup.db().join("a.db")).arg("CREATE TABLE t (x);"));
    let programs = logged(None, &["sqlite3"]);
    let options = RestoreOptions { programs: before_others(&programs), ..RestoreOptions::default() };
    let checks = backup.verify(&options, (0, 0), |_| std::thread::sleep(std::time::Duration::from_millis(1)));
    assert_passed(&checks, &["PRAGMA"]);
    programs.check((0, 0), &["sqlite3"]);
}

#[test]
fn a_backup_whose_directories_are_links_is_not_restored_elsewhere() {
    let mut backup = Backup::new(DatabaseKind::None);
    let elsewhere = Canary::new();
    symlink(elsewhere.dir(), backup.dir.path().join("files/0/log")).unwrap();
    fs::create_dir(backup.dir.path().join("files/1")).unwrap();
    fs::write(backup.dir.path().join("files/1/new"), "").unwrap();
    let nested = SourceRecord {
        path: "/srv/named/log/1".into(),
        dataset: "tank/log".to_owned(),
        copy: "files/1".into(),
    };
    backup.manifest.sources.push(nested);
    let parent = tempfile::tempdir().unwrap();
    let scratch = Scratch::create(parent.path(), SCRATCH_PREFIX).unwrap();
    RestoredTree::copy(backup.dir.path(), &backup.manifest, &scratch, None, &mut Silent).unwrap_err();
    elsewhere.check();
}
