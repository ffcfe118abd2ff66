//! The directories of a server, and the files in the datasets that are not the server's own.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};

use poolwright_base::directory::{Access, Directory};
use poolwright_base::{cannot, quoted};
use poolwright_dbms::owner::UserAndGroup;
use poolwright_dbms::postgresql::data_dir::{
    BACKUP_LABEL, Existing, OPTIONS_FILE, PID_FILE, STANDBY_SIGNAL, create_empty,
};
use poolwright_dbms::postgresql::wal_file::WalFile;

use crate::error::refused;
use crate::migration::work::{DatasetMove, MigrationWork};
use crate::rewrite::{EntryAt, copy_directory_attributes, open_trusted};
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
/// Those that a server has while it runs, or a standby until it is made equal to its primary.
const WHILE_RUNNING: [&str; 13] = [
    STANDBY_SIGNAL,
    BACKUP_LABEL,
    "backup_label.old",
    "backup_manifest",
    "current_logfiles",
    "pg_internal.init",
    "pg_replslot",
    "pg_stat",
    "pg_stat_tmp",
    OPTIONS_FILE,
    PID_FILE,
    "tablespace_map",
    "tablespace_map.old",
];
/// The directory with the marks of segments that are to be archived (`.ready`), or were (`.done`).
const ARCHIVE_STATUS: &str = "archive_status";
/// The end of the name of a mark of a segment that is to be archived.
const READY: &str = ".ready";
/// The state of the server, in the directory `global`.
const CONTROL: &str = "pg_control";

/// The directories of a server: absolute, without symbolic links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerDirs {
    /// The data directory.
    pub root: PathBuf,
    /// The directory of the write-ahead log, if `pg_wal` is a link.
    pub log: Option<PathBuf>,
    /// The directories of the tablespaces.
    pub tablespaces: Vec<PathBuf>,
}

impl ServerDirs {
    /// The directories of the server with this data directory.
    pub fn of(root: &Path) -> Result<ServerDirs> {
        let target = |link: &Path| link.canonicalize().map_err(cannot("find", link));
        let log = root.join("pg_wal");
        let log = if log.is_symlink() { Some(target(&log)?) } else { None };
        let spaces = root.join("pg_tblspc");
        let mut tablespaces = Vec::new();
        for entry in fs::read_dir(&spaces).map_err(cannot("list", &spaces))? {
            let path = entry.map_err(cannot("list", &spaces))?.path();
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

    /// The files that the standby has received itself, on the new datasets; everything else is copied. `space_name` is the name of the
    /// server's directories in those of tablespaces, in which other servers can have some too.
    pub fn own(&self, work: &MigrationWork, space_name: &str) -> Result<BTreeSet<PathBuf>> {
        let own = OF_THE_SERVER.iter().map(|name| self.root.join(name));
        let spaces = self.tablespaces.iter().map(|dir| dir.join(space_name));
        own.chain(self.log.clone()).chain(spaces).map(|path| staged(work, &path)).collect()
    }

    /// The same while the standby runs: also the files that it has only then.
    pub fn own_while_running(&self, work: &MigrationWork, space_name: &str) -> Result<BTreeSet<PathBuf>> {
        let mut own = self.own(work, space_name)?;
        for name in WHILE_RUNNING {
            own.insert(staged(work, &self.root.join(name))?);
        }
        Ok(own)
    }

    /// Creates empty directories for the standby in the new datasets, with the attributes of the present ones and of those above them.
    pub fn create(&self, work: &MigrationWork) -> Result<()> {
        for dir in self.all() {
            let of = holder(work, dir)?;
            let relative = dir.strip_prefix(&of.mountpoint).unwrap_or(Path::new(""));
            let (mut from, mut to) = (open_trusted(&of.mountpoint)?, open_trusted(&of.staging)?);
            copy_directory_attributes(&from, &to)?;
            for name in relative {
                // What the database's user has put in its place is refused, not removed.
                to = match to.create_directory(name) {
                    Err(cause) if cause.kind() == ErrorKind::AlreadyExists => to.directory(name),
                    made => made,
                }
                .map_err(cannot("create", to.path().join(name)))?;
                from = EntryAt::new(&from, name).directory()?;
                copy_directory_attributes(&from, &to)?;
            }
        }
        Ok(())
    }

    /// Makes the server on the new datasets a standby when it starts.
    pub fn mark_standby(&self, work: &MigrationWork, owner: UserAndGroup) -> Result<()> {
        Ok(create_empty(&new(work, &self.root)?, STANDBY_SIGNAL, owner, Existing::Kept)?)
    }

    /// Segments of the log that the stopped primary has not archived yet are to be archived by the new server: a standby takes those that it
    /// receives for archived. Returns how many. The database's user controls the directories, so no link in them is followed.
    pub fn keep_unarchived(
        &self,
        work: &MigrationWork,
        owner: UserAndGroup,
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<usize> {
        let path = self.log_dir();
        let (log, new) = (present(work, &path)?, new(work, &path)?);
        let marks = EntryAt::new(&log, ARCHIVE_STATUS).directory()?;
        let new_marks = EntryAt::new(&new, ARCHIVE_STATUS).directory()?;
        let mut unarchived = 0;
        for segment in ready(&marks)? {
            if is_interrupted() {
                return Err(Error::Interrupted);
            }
            if EntryAt::new(&new, &segment).inspect()?.is_none() {
                // A crash can leave a mark whose segment was removed.
                let Some(source) = file(EntryAt::new(&log, &segment))? else { continue };
                copy_in(&new, &segment, source, owner)?;
            }
            let done = format!("{segment}.done");
            new_marks.remove_file(&done).map_err(cannot("remove", new_marks.path().join(&done)))?;
            create_empty(&new_marks, &format!("{segment}{READY}"), owner, Existing::Kept)?;
            unarchived += 1;
        }
        Ok(unarchived)
    }

    /// Bytes of the segments that are to be archived, and that the standby has not.
    pub fn unarchived_bytes(&self, work: &MigrationWork) -> Result<u64> {
        let path = self.log_dir();
        let (log, new) = (present(work, &path)?, new(work, &path)?);
        let mut bytes = 0;
        for segment in ready(&EntryAt::new(&log, ARCHIVE_STATUS).directory()?)? {
            if EntryAt::new(&new, &segment).inspect()?.is_some() {
                continue;
            }
            if let Some(file) = file(EntryAt::new(&log, &segment))? {
                bytes += file.metadata().map_err(cannot("inspect", &path))?.len();
            }
        }
        Ok(bytes)
    }

    /// Gives the new directory the primary's file `global/pg_control`, so that the server starts on it as after its own shutdown. Both servers
    /// are stopped, and have the same last checkpoint.
    pub fn adopt_control(&self, work: &MigrationWork) -> Result<()> {
        let path = self.root.join("global");
        let (present, new) = (present(work, &path)?, new(work, &path)?);
        match file(EntryAt::new(&present, CONTROL))? {
            Some(source) => overwrite(&new, CONTROL, source),
            None => refused(format!("{} has no {CONTROL}", quoted(&path))),
        }
    }
}

/// The directory that has this path at present.
fn present(work: &MigrationWork, path: &Path) -> Result<Directory> {
    Ok(Directory::open_below(&holder(work, path)?.mountpoint, path).map_err(cannot("open", path))?)
}

/// The one on the new dataset.
fn new(work: &MigrationWork, path: &Path) -> Result<Directory> {
    let staged = staged(work, path)?;
    Ok(Directory::open_below(&holder(work, path)?.staging, &staged).map_err(cannot("open", &staged))?)
}

/// Opens a regular file for reading; `None` if it does not exist.
fn file(entry: EntryAt<'_>) -> Result<Option<File>> {
    match entry.inspect()? {
        None => Ok(None),
        Some(meta) if meta.is_file() => Ok(Some(entry.open()?)),
        Some(_) => refused(format!("{} is not a regular file", quoted(&entry.path()))),
    }
}

/// The segments that are marked as to be archived.
fn ready(marks: &Directory) -> Result<Vec<String>> {
    let names = marks.names().map_err(cannot("list", marks.path()))?;
    let segments = names.iter().filter_map(|name| name.to_str()?.strip_suffix(READY));
    Ok(segments.filter(|segment| WalFile::parse(segment).is_some()).map(str::to_owned).collect())
}

/// Copies an open file to a new name, with its mode.
fn copy_in(dir: &Directory, name: &str, mut source: File, owner: UserAndGroup) -> Result<()> {
    let mut copy = || -> io::Result<()> {
        let mut target = dir.create_file(name, source.metadata()?.mode() & 0o777)?;
        io::copy(&mut source, &mut target)?;
        fchown(&target, Some(owner.0), Some(owner.1))
    };
    Ok(copy().map_err(cannot("write", dir.path().join(name)))?)
}

/// Gives a regular file the content of another one, durably.
fn overwrite(dir: &Directory, name: &str, mut source: File) -> Result<()> {
    let mut write = || -> io::Result<()> {
        let mut target = dir.file(name, Access::ReadWrite)?;
        let mut content = Vec::new();
        source.read_to_end(&mut content)?;
        target.write_all(&content)?;
        target.set_len(content.len() as u64)?;
        target.sync_all()
    };
    Ok(write().map_err(cannot("write", dir.path().join(name)))?)
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A data directory `15/main` in a dataset, whose log and tablespace are on another one, next to files of the user.
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
            let moves =
                [("log", root.join("log"), root.join("new/1")), ("pg", root.join("pg"), root.join("new/0"))];
            let work = MigrationWork::example(root.join("pg"), &moves);
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
    fn links_in_the_new_datasets_are_not_followed() {
        use std::os::unix::fs::PermissionsExt as _;

        let places = Places::new();
        let outside = tempfile::tempdir().unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        mode(outside.path(), 0o700);
        mode(&places.at("pg/15"), 0o751);
        // The database's user can change the new dataset as soon as it has the attributes of the present one.
        symlink(outside.path(), places.at("new/0/15")).unwrap();
        places.dirs.create(&places.work).unwrap_err();
        assert_eq!(fs::metadata(outside.path()).unwrap().mode() & 0o777, 0o700);
        assert!(fs::read_dir(outside.path()).unwrap().next().is_none());
        fs::create_dir(places.at("new/1/wal")).unwrap();
        symlink(outside.path(), places.at("new/1/wal/archive_status")).unwrap();
        places.dirs.keep_unarchived(&places.work, (7, 7), &|| false).unwrap_err();
        assert!(fs::read_dir(outside.path()).unwrap().next().is_none());
    }

    #[test]
    fn everything_else_is_copied() {
        let places = Places::new();
        let own = places.dirs.own(&places.work, "PG_15_202209061").unwrap();
        for name in ["new/0/15/main/base", "new/0/15/main/pg_wal", "new/1/wal", "new/1/space/PG_15_202209061"]
        {
            assert!(own.contains(&places.at(name)), "{name}");
        }
        for name in ["new/0/15/main", "new/0/15/main/postgresql.conf", "new/0/15/main/pg_stat", "new/1/space"]
        {
            assert!(!own.contains(&places.at(name)), "{name}");
        }
        let running = places.dirs.own_while_running(&places.work, "PG_15_202209061").unwrap();
        assert!(running.is_superset(&own) && running.contains(&places.at("new/0/15/main/postmaster.pid")));
    }

    #[test]
    fn the_new_server_has_the_state_of_the_old_one() {
        let places = Places::new();
        fs::create_dir(places.at("pg/15/main/global")).unwrap();
        fs::write(places.at("pg/15/main/global/pg_control"), "shut down").unwrap();
        fs::create_dir_all(places.at("new/0/15/main/global")).unwrap();
        fs::write(places.at("new/0/15/main/global/pg_control"), "in recovery").unwrap();
        places.dirs.adopt_control(&places.work).unwrap();
        assert_eq!(fs::read(places.at("new/0/15/main/global/pg_control")).unwrap(), b"shut down");
        fs::remove_file(places.at("pg/15/main/global/pg_control")).unwrap();
        symlink("/etc/passwd", places.at("pg/15/main/global/pg_control")).unwrap();
        assert!(places.dirs.adopt_control(&places.work).is_err());
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
        // A mark without its segment, a link, and a name that is no segment's.
        let (gone, link) = ("000000010000000000000003", "000000010000000000000004");
        symlink("/etc/passwd", places.at("log/wal").join(link)).unwrap();
        fs::write(places.at("log/wal/x"), "").unwrap();
        for name in [gone, "x"] {
            fs::write(places.at("log/wal/archive_status").join(format!("{name}.ready")), "").unwrap();
        }
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        assert_eq!(places.dirs.keep_unarchived(&places.work, owner, &|| false).unwrap(), 2);
        assert!(!places.at("new/1/wal/x").exists());
        fs::write(places.at("log/wal/archive_status").join(format!("{link}.ready")), "").unwrap();
        assert!(places.dirs.keep_unarchived(&places.work, owner, &|| false).is_err());
        assert!(!places.at("new/1/wal").join(link).exists());
        for segment in [a, b] {
            assert_eq!(fs::read_to_string(places.at("new/1/wal").join(segment)).unwrap(), segment);
            let mark = |kind: &str| places.at("new/1/wal/archive_status").join(format!("{segment}.{kind}"));
            assert!(mark("ready").exists() && !mark("done").exists());
        }
    }
}
