//! Creating a WAL archive.

use std::fs;
use std::path::{Path, PathBuf};

use poolwright_apply::json_file;
use poolwright_base::directory::Directory;
use poolwright_base::{cannot, private, quoted};
use poolwright_dbms::database::{self, DatabaseKind};
use poolwright_dbms::owner::{self, UserAndGroup};
use poolwright_dbms::postgresql::headers::{ControlFile, SegmentHeader};
use poolwright_plan::Settings;
use poolwright_zfs::kernel::command::remote::command_line;
use schemars::JsonSchema;
use serde::Serialize;

use super::{IDENTITY, VERSION, WalArchive, WalIdentity};
use crate::error::refused;
use crate::manifest::{self, DestinationIdentity, StorageTier};
use crate::observer::BackupObserver;
use crate::{BackupDestination, Result, creation};

/// The directory of the log in a data directory.
const LOG: &str = "pg_wal";

/// The options of creating a WAL archive.
#[derive(Clone, Debug, Default)]
pub struct WalArchiveOptions {
    /// The dataset of the archive. It is created if it does not exist.
    pub dataset: String,
    /// Properties of the new dataset, instead of the defaults.
    pub settings: Settings,
    /// Where it is mounted if it is created.
    pub mountpoint: Option<PathBuf>,
    /// The program that the server runs.
    pub program: PathBuf,
}

/// A WAL archive, and how the server uses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WalArchiveReport {
    /// The dataset of the backups.
    pub dataset: String,
    /// The dataset of the WAL archive.
    pub wal_archive: String,
    /// Its directory.
    pub directory: PathBuf,
    /// Whether the dataset was created.
    pub created: bool,
    /// The user who owns the database and the archive.
    pub owner: u32,
    /// PostgreSQL's setting `archive_command`.
    pub archive_command: String,
    /// PostgreSQL's setting `restore_command`, for a recovery.
    pub restore_command: String,
}

/// Creates the WAL archive of a dataset of backups, and records it there. If the backups have this archive already, only its owner and its
/// description are set again.
///
/// # Errors
/// A refusal if the backups are not of a PostgreSQL of version 12 or newer, have another WAL archive, or the dataset cannot be used; or if
/// the pool or the host fails.
pub fn create(
    dataset: &str,
    options: &WalArchiveOptions,
    observer: &mut dyn BackupObserver,
) -> Result<WalArchiveReport> {
    let mut backups = BackupDestination::open(dataset)?;
    backups.lock()?;
    let Some(mut identity) = backups.identity()? else {
        return refused(format!("{dataset} is not a dataset of backups\nhint: make a backup first"));
    };
    check_backups(&backups, &identity, &options.dataset)?;
    let data_dir = database::locate(&identity.paths, Some(DatabaseKind::Postgresql), false)?.root;
    let wal_identity = describe(&data_dir, &identity, dataset)?;
    check_other(&identity, &options.dataset, &wal_identity)?;
    let owner = owner::of_directory(&data_dir)?;
    let created = !BackupDestination::exists(&options.dataset)?;
    if created {
        let mountpoint = options.mountpoint.as_ref().map(std::path::absolute).transpose();
        let mountpoint = mountpoint.map_err(cannot("find", &data_dir))?;
        check_place(mountpoint.as_deref(), &backups, &identity)?;
        creation::check(&options.dataset, mountpoint.as_deref())?;
        // A segment is written once, whole, as the files of a backup are.
        let mut settings = creation::settings(None)?;
        settings.extend(options.settings.clone());
        creation::create(&options.dataset, &settings, mountpoint.as_deref(), observer)?;
    }
    let wal = BackupDestination::open(&options.dataset)?;
    let dir = wal.mountpoint();
    if dir.join(IDENTITY).exists() {
        let present = WalArchive::open(dir)?;
        // The dataset of the backups may have another name since.
        if (WalIdentity { dataset: dataset.to_owned(), ..present.identity }) != wal_identity {
            return refused(format!(
                "{} is the WAL archive of another database, or of other backups",
                options.dataset
            ));
        }
    } else {
        check_place(Some(dir), &backups, &identity)?;
        wal.check_use()?;
    }
    // Also if it exists: a run may have been interrupted here.
    claim(dir, &wal_identity, owner)?;
    if identity.wal_archive.as_ref() != Some(&options.dataset) {
        identity.wal_archive = Some(options.dataset.clone());
        json_file::write(&backups.mountpoint().join(manifest::IDENTITY), &identity)?;
    }
    Ok(WalArchiveReport {
        dataset: dataset.to_owned(),
        wal_archive: options.dataset.clone(),
        directory: dir.to_owned(),
        created,
        owner: owner.0,
        archive_command: archive_command(&options.program, dir),
        restore_command: restore_command(dir),
    })
}

fn check_backups(backups: &BackupDestination, identity: &DestinationIdentity, wal: &str) -> Result<()> {
    let dataset = backups.dataset();
    if identity.tier() == StorageTier::Archive {
        return refused(format!("{dataset} is an archive\nhint: name the dataset in which backups are made"));
    }
    if identity.database != DatabaseKind::Postgresql {
        return refused(format!("{dataset} has backups of {}, not of PostgreSQL", identity.database.name()));
    }
    if wal == dataset || wal.starts_with(&format!("{dataset}/")) {
        return refused(format!("{wal} is in the dataset of the backups"));
    }
    Ok(())
}

/// Refuses a second WAL archive, unless the first one was destroyed, or is of a database that was replaced (`initdb`, `pg_upgrade`).
fn check_other(identity: &DestinationIdentity, wal: &str, wanted: &WalIdentity) -> Result<()> {
    let Some(other) = identity.wal_archive.as_ref().filter(|other| *other != wal) else { return Ok(()) };
    if !BackupDestination::exists(other)? {
        return Ok(());
    }
    match WalArchive::of_backups(identity)? {
        Some(present) if present.identity.system_identifier == wanted.system_identifier => {
            refused(format!("the WAL archive of {} is {other}", wanted.dataset))
        }
        _ => Ok(()),
    }
}

/// Refuses a directory that a backup would contain, or that is in the mount of the backups.
fn check_place(
    dir: Option<&Path>,
    backups: &BackupDestination,
    identity: &DestinationIdentity,
) -> Result<()> {
    let Some(dir) = dir else { return Ok(()) };
    if let Some(path) = identity.paths.iter().find(|path| dir.starts_with(path) || path.starts_with(dir)) {
        return refused(format!(
            "{} is in the database's directory {}, or has it",
            quoted(dir),
            quoted(path)
        ));
    }
    backups.check_outside(dir)
}

/// The purpose of the archive of a running or stopped database.
fn describe(data_dir: &Path, identity: &DestinationIdentity, dataset: &str) -> Result<WalIdentity> {
    let Some(control) = ControlFile::read(data_dir)? else {
        return refused("a recovery to a point in time needs PostgreSQL 12 or newer");
    };
    let log = data_dir.join(LOG);
    let entries = fs::read_dir(&log).map_err(cannot("list", &log))?;
    let mut headers = entries.flatten().filter_map(|entry| SegmentHeader::read(&entry.path()).ok()?);
    let Some(header) = headers.find(|header| header.system_identifier == control.system_identifier) else {
        return refused(format!("{} has no segment of this database's log", quoted(&log)));
    };
    Ok(WalIdentity {
        version: VERSION,
        system_identifier: control.system_identifier.to_string(),
        segment_size: header.segment_size,
        backups: identity.id.clone(),
        dataset: dataset.to_owned(),
    })
}

/// Gives the directory to the owner of the database, and marks it as a WAL archive.
fn claim(path: &Path, identity: &WalIdentity, owner: UserAndGroup) -> Result<()> {
    let dir = Directory::open_named(path).map_err(cannot("open", path))?;
    // First for this user only, so that no other one can replace the file before it has its owner.
    let user = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    dir.give_to(user).map_err(cannot("set the owner of", path))?;
    dir.set_mode(private::DIR).map_err(cannot("set the mode of", path))?;
    json_file::write(&dir.descriptor_path().join(IDENTITY), identity)?;
    dir.set_owner(IDENTITY, owner).map_err(cannot("set the owner of", path.join(IDENTITY)))?;
    Ok(dir.give_to(owner).map_err(cannot("set the owner of", path))?)
}

/// The setting of the server, which replaces `%p` by the path of a segment and `%%` by `%`.
fn archive_command(program: &Path, dir: &Path) -> String {
    let words = [program.to_string_lossy(), "backup".into(), "wal-push".into(), dir.to_string_lossy()];
    format!("{} \"%p\"", command_line(words.iter().map(AsRef::as_ref)).replace('%', "%%"))
}

/// The setting of a server that recovers from the archive in a directory.
pub(crate) fn restore_command(dir: &Path) -> String {
    let dir = in_setting(dir);
    format!("{}; cp {dir}/%f \"%p\"", unless_missing(&dir))
}

/// The setting of a server that begins a new timeline without replaying the log of the archive: it gets only the descriptions of timelines,
/// so that it takes a new number.
pub(crate) fn history_command(dir: &Path) -> String {
    let dir = in_setting(dir);
    format!("{}; case %f in *.history) cp {dir}/%f \"%p\";; *) exit 1;; esac", unless_missing(&dir))
}

/// A path for the shell that the server starts, and which replaces `%%` by `%`.
fn in_setting(dir: &Path) -> String {
    command_line([dir.to_string_lossy().as_ref()]).replace('%', "%%")
}

/// Ends the recovery if the archive is not mounted. Otherwise the server would take it for the end of the log. A status above 125 means that.
fn unless_missing(dir: &str) -> String {
    format!("test -f {dir}/{IDENTITY} || exit 255")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_of_the_server() {
        let dir = Path::new("/srv/it's 100%");
        assert_eq!(
            archive_command(Path::new("/usr/bin/poolwright"), dir),
            r#"/usr/bin/poolwright backup wal-push '/srv/it'\''s 100%%' "%p""#
        );
        let quoted = r"'/srv/it'\''s 100%%'";
        assert_eq!(
            restore_command(dir),
            format!("test -f {quoted}/poolwright-wal.json || exit 255; cp {quoted}/%f \"%p\"")
        );
        assert!(restore_command(Path::new("/tank/wal")).ends_with(r#"; cp /tank/wal/%f "%p""#));
    }
}
