//! The directories of a server, and the files in the datasets that are not the server's own.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};

use poolwright_apply::rewrite::{TreeCopier, copy_directory_attributes};
use poolwright_host::{private, quoted};

use crate::error::refused;
use crate::work::{DatasetMove, MigrationWork};
use crate::{Error, Result};

/// The entries of a data directory that a standby has itself. All others are copied from the primary after it was stopped: settings,
/// certificates, statistics (`pg_stat`).
const OF_THE_SERVER: [&str; 15] = [
    "PG_VERSION",
    "base",
    "global",
    "pg_commit_ts",
    "pg_dynshmem",
    "pg_logical",
    "pg_multixact",
    "pg_notify",
    "pg_serial",
    "pg_snapshots",
    "pg_subtrans",
    "pg_tblspc",
    "pg_twophase",
    "pg_wal",
    "pg_xact",
];
/// Makes a server a standby when it starts.
const STANDBY_SIGNAL: &str = "standby.signal";
/// The directory with the marks of segments that are to be archived (`.ready`), or were (`.done`).
const ARCHIVE_STATUS: &str = "archive_status";

/// The directories of a server: absolute, without symbolic links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerDirs {
    /// The data directory.
    pub root: PathBuf,
    /// That of the write-ahead log, if `pg_wal` is a link.
    pub log: Option<PathBuf>,
    /// Those of the tablespaces.
    pub tablespaces: Vec<PathBuf>,
}

impl ServerDirs {
    /// The directories of the server with this data directory.
    pub fn of(root: &Path) -> Result<ServerDirs> {
        let target = |link: &Path| link.canonicalize().map_err(Error::host("find", link));
        let log = root.join("pg_wal");
        let log = if log.is_symlink() { Some(target(&log)?) } else { None };
        let spaces = root.join("pg_tblspc");
        let mut tablespaces = Vec::new();
        for entry in fs::read_dir(&spaces).map_err(Error::host("list", &spaces))? {
            let path = entry.map_err(Error::host("list", &spaces))?.path();
            if !path.is_symlink() {
                return refused(format!("{} is a tablespace in the data directory itself", quoted(&path)));
            }
            tablespaces.push(target(&path)?);
        }
        tablespaces.sort();
        Ok(ServerDirs { root: root.to_owned(), log, tablespaces })
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.root].into_iter().chain(&self.log).chain(&self.tablespaces)
    }

    /// The directory of the log.
    fn log_dir(&self) -> PathBuf {
        self.log.clone().unwrap_or_else(|| self.root.join("pg_wal"))
    }

    /// What the standby has itself, in the places of the present datasets.
    fn own(&self) -> BTreeSet<PathBuf> {
        let own = OF_THE_SERVER.iter().map(|name| self.root.join(name));
        own.chain(self.log.clone()).chain(self.tablespaces.iter().cloned()).collect()
    }

    /// Creates empty directories for the standby in the new datasets, with the attributes of the present ones and of those above them.
    pub fn create(&self, work: &MigrationWork) -> Result<()> {
        for dir in self.all() {
            let of = holder(work, dir)?;
            let relative = dir.strip_prefix(&of.mountpoint).unwrap_or(Path::new(""));
            let (mut from, mut to) = (of.mountpoint.clone(), of.staging.clone());
            copy_directory_attributes(&from, &to)?;
            for name in relative {
                (from, to) = (from.join(name), to.join(name));
                match private::make_dir(&to) {
                    Err(cause) if cause.kind() == ErrorKind::AlreadyExists => {}
                    made => made.map_err(Error::host("create", &to))?,
                }
                copy_directory_attributes(&from, &to)?;
            }
        }
        Ok(())
    }

    /// Makes the server on the new datasets a standby when it starts.
    pub fn mark_standby(&self, work: &MigrationWork, owner: (u32, u32)) -> Result<()> {
        create_empty(&staged(work, &self.root)?.join(STANDBY_SIGNAL), owner)
    }

    /// Copies everything that the standby has not itself from the present datasets, and compares it. Removes what only the standby has: its
    /// mark, for example. Both servers are stopped.
    pub fn copy_others(&self, work: &MigrationWork, proceed: impl Fn() -> bool) -> Result<()> {
        let own = self.own();
        for of in &work.moves {
            let inside = |path: &&PathBuf| path.starts_with(&of.mountpoint);
            let except: BTreeSet<PathBuf> =
                own.iter().filter(inside).map(|path| staged(work, path)).collect::<Result<_>>()?;
            if except.contains(&of.staging) {
                copy_directory_attributes(&of.mountpoint, &of.staging)?;
                continue;
            }
            let copier = || {
                let proceed = |_| if proceed() { Ok(()) } else { Err(poolwright_apply::Error::Interrupted) };
                TreeCopier::new(proceed).except(except.iter().cloned())
            };
            copier().copy(&of.mountpoint, &of.staging)?;
            copier().compare(&of.mountpoint, &of.staging)?;
        }
        Ok(())
    }

    /// Segments of the log that the stopped primary has not archived yet are to be archived by the new server: a standby takes those that it
    /// receives for archived. Returns how many.
    pub fn keep_unarchived(&self, work: &MigrationWork, owner: (u32, u32)) -> Result<usize> {
        let log = self.log_dir();
        let new = staged(work, &log)?;
        let (marks, new_marks) = (log.join(ARCHIVE_STATUS), new.join(ARCHIVE_STATUS));
        let mut unarchived = 0;
        for entry in fs::read_dir(&marks).map_err(Error::host("list", &marks))? {
            let name = entry.map_err(Error::host("list", &marks))?.file_name();
            let mark = Path::new(&name);
            let (Some(segment), true) = (mark.file_stem(), mark.extension() == Some(OsStr::new("ready")))
            else {
                continue;
            };
            if !new.join(segment).exists() {
                copy_segment(&log.join(segment), &new.join(segment), owner)?;
            }
            let done = new_marks.join(segment).with_added_extension("done");
            match fs::remove_file(&done) {
                Err(cause) if cause.kind() == ErrorKind::NotFound => {}
                removed => removed.map_err(Error::host("remove", &done))?,
            }
            create_empty(&new_marks.join(&name), owner)?;
            unarchived += 1;
        }
        Ok(unarchived)
    }
}

/// Where a path is while its new dataset is mounted in the staging directory.
fn staged(work: &MigrationWork, path: &Path) -> Result<PathBuf> {
    let of = holder(work, path)?;
    let relative = path.strip_prefix(&of.mountpoint).unwrap_or(Path::new(""));
    Ok(if relative.as_os_str().is_empty() { of.staging.clone() } else { of.staging.join(relative) })
}

/// The dataset that has a path.
fn holder<'w>(work: &'w MigrationWork, path: &Path) -> Result<&'w DatasetMove> {
    let holds = |of: &&DatasetMove| path.starts_with(&of.mountpoint);
    match work.moves.iter().filter(holds).max_by_key(|of| of.mountpoint.components().count()) {
        Some(of) => Ok(of),
        None => refused(format!("{} is not on a dataset that moves", quoted(&path))),
    }
}

fn create_empty(path: &Path, (user, group): (u32, u32)) -> Result<()> {
    let file = match private::create_new(path) {
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => return Ok(()),
        made => made.map_err(Error::host("create", path))?,
    };
    fchown(&file, Some(user), Some(group)).map_err(Error::host("set the owner of", path))
}

/// Copies a file of the log to a name that does not exist.
fn copy_segment(from: &Path, to: &Path, (user, group): (u32, u32)) -> Result<()> {
    let mut source = fs::File::open(from).map_err(Error::host("open", from))?;
    let mut target = private::create_new(to).map_err(Error::host("create", to))?;
    std::io::copy(&mut source, &mut target).map_err(Error::host("copy", from))?;
    let mode = source.metadata().map_err(Error::host("inspect", from))?.mode() & 0o777;
    fchown(&target, Some(user), Some(group)).map_err(Error::host("set the owner of", to))?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
    target.set_permissions(mode).map_err(Error::host("set the mode of", to))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::work::PoolEngine;

    /// A data directory `15/main` in a dataset, whose log and tablespace are on another one, beside files of the user.
    struct Places {
        dir: tempfile::TempDir,
        work: MigrationWork,
        dirs: ServerDirs,
    }

    impl Places {
        fn new() -> Places {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().canonicalize().unwrap();
            for name in [
                "pg/15/main/base/1",
                "pg/15/main/pg_tblspc",
                "log/wal/archive_status",
                "log/space",
                "new/0",
                "new/1",
            ] {
                fs::create_dir_all(root.join(name)).unwrap();
            }
            symlink(root.join("log/wal"), root.join("pg/15/main/pg_wal")).unwrap();
            symlink(root.join("log/space"), root.join("pg/15/main/pg_tblspc/16384")).unwrap();
            let of = |name: &str, at: usize| DatasetMove {
                source: format!("tank/{name}"),
                source_guid: None,
                target: format!("fast/{name}"),
                mountpoint: root.join(name),
                staging: root.join("new").join(at.to_string()),
                settings: Default::default(),
                mounting: Default::default(),
            };
            let work = MigrationWork {
                plan: "0123".to_owned(),
                path: "/plan".into(),
                directory: root.join("pg"),
                parent: "fast".to_owned(),
                engine: PoolEngine::User,
                staging: root.join("new"),
                moves: vec![of("log", 1), of("pg", 0)],
            };
            let dirs = ServerDirs::of(&root.join("pg/15/main")).unwrap();
            Places { dir, work, dirs }
        }

        fn at(&self, name: &str) -> PathBuf {
            self.dir.path().canonicalize().unwrap().join(name)
        }
    }

    #[test]
    fn directories_are_found_and_created() {
        let places = Places::new();
        assert_eq!(places.dirs.log, Some(places.at("log/wal")));
        assert_eq!(places.dirs.tablespaces, [places.at("log/space")]);
        places.dirs.create(&places.work).unwrap();
        for name in ["new/0/15/main", "new/1/wal", "new/1/space"] {
            assert!(places.at(name).is_dir(), "{name}");
        }
        assert!(!places.at("new/0/15/main/base").exists());
    }

    #[test]
    fn what_is_not_the_servers_is_copied() {
        let places = Places::new();
        places.dirs.create(&places.work).unwrap();
        fs::write(places.at("pg/15/main/postgresql.auto.conf"), "work_mem = '1MB'\n").unwrap();
        fs::write(places.at("pg/15/main/base/1/1259"), "old").unwrap();
        fs::write(places.at("pg/notes"), "of the user").unwrap();
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        places.dirs.mark_standby(&places.work, owner).unwrap();
        fs::create_dir_all(places.at("new/0/15/main/base/1")).unwrap();
        fs::write(places.at("new/0/15/main/base/1/1259"), "replicated").unwrap();
        fs::write(places.at("new/0/15/main/backup_label.old"), "").unwrap();
        assert!(places.at("new/0/15/main/standby.signal").exists());
        places.dirs.copy_others(&places.work, || true).unwrap();
        let text = |name: &str| fs::read_to_string(places.at(name)).ok();
        assert_eq!(text("new/0/15/main/postgresql.auto.conf").as_deref(), Some("work_mem = '1MB'\n"));
        assert_eq!(text("new/0/15/main/base/1/1259").as_deref(), Some("replicated"));
        assert_eq!(text("new/0/notes").as_deref(), Some("of the user"));
        for gone in ["standby.signal", "backup_label.old"] {
            assert!(!places.at("new/0/15/main").join(gone).exists(), "{gone}");
        }
    }

    #[test]
    fn what_was_not_archived_will_be() {
        let places = Places::new();
        places.dirs.create(&places.work).unwrap();
        fs::create_dir(places.at("new/1/wal/archive_status")).unwrap();
        let (a, b) = ("000000010000000000000001", "000000010000000000000002");
        for segment in [a, b] {
            fs::write(places.at("log/wal").join(segment), segment).unwrap();
            fs::write(places.at("log/wal/archive_status").join(format!("{segment}.ready")), "").unwrap();
        }
        fs::write(places.at("new/1/wal").join(b), b).unwrap();
        fs::write(places.at("new/1/wal/archive_status").join(format!("{b}.done")), "").unwrap();
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        assert_eq!(places.dirs.keep_unarchived(&places.work, owner).unwrap(), 2);
        for segment in [a, b] {
            assert_eq!(fs::read_to_string(places.at("new/1/wal").join(segment)).unwrap(), segment);
            let mark = |kind: &str| places.at("new/1/wal/archive_status").join(format!("{segment}.{kind}"));
            assert!(mark("ready").exists() && !mark("done").exists());
        }
    }
}
