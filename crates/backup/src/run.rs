//! Making a backup.
//!
//! The dataset of the backups holds a copy of the database's directories. A run updates the copy, compares it, and only then takes a
//! snapshot. An interrupted run leaves a partial copy that the next run completes, and does not change earlier backups.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use poolwright_apply::rewrite::TreeContents;
use poolwright_base::{cannot, quoted, time};
use poolwright_dbms::database::{self, DatabaseKind, LocatedDatabase, joined};
use poolwright_dbms::directories::{DatabaseDir, DatabaseDirs, canonical};
use poolwright_dbms::quiesce::{QuiesceOptions, Quiesced};
use poolwright_plan::Settings;
use poolwright_zfs::datasets::{DatasetAdmin, of_mount, pool_of};
use poolwright_zfs::kernel::DatasetChange;
use schemars::JsonSchema;
use serde::Serialize;

use crate::chronology::{check_clock, next_sequence};
use crate::creation;
use crate::destination::{BackupDestination, BackupEntry, BackupList, free_name, random};
use crate::error::refused;
use crate::manifest::{
    self, BackupManifest, DatabaseRecord, DestinationIdentity, FILES, FORMAT, SourceRecord, VERSION,
};
use crate::observer::{BackupObserver, BackupStage};
use crate::transfer::{bring_up_to_date, complete};
use crate::{Error, Result};

/// Starts the name of each snapshot of the database, before the identity of the dataset of the backups and the backup's name.
const PREFIX: &str = "poolwright-backup-";
/// Starts the names of those that are kept.
const KEPT_PREFIX: &str = "poolwright-kept-";

/// The options of a backup.
#[derive(Clone, Debug)]
pub struct BackupOptions {
    /// The dataset of the backups.
    pub destination: String,
    /// The properties with which it is created if it does not exist.
    pub settings: Settings,
    /// Where it is mounted if it is created.
    pub mountpoint: Option<PathBuf>,
    /// The kind of the database; `None` to detect it.
    pub database: Option<DatabaseKind>,
    /// How it is quiesced.
    pub quiesce: QuiesceOptions,
    /// The limit of the copying, in bytes a second.
    pub rate: Option<u64>,
    /// Whether the snapshots of the database stay.
    pub keep_source: bool,
    /// Conditions that are accepted instead of refused.
    pub accepts: AcceptedOddities,
}

/// Refuses conditions that would result in an unusable backup, unless the user accepts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AcceptedOddities {
    /// An earlier backup lies in the future of the clock.
    pub future: bool,
    /// A directory is on another dataset than in the last backup, or no file is left.
    pub change: bool,
}

/// The plan of a run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BackupAssessment {
    /// The kind of the database.
    pub database: DatabaseKind,
    /// The directories of the database, with their datasets.
    pub sources: Vec<SourceRecord>,
    /// The dataset of the backups.
    pub destination: String,
    /// The properties with which the dataset of the backups is created; missing if it exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_with: Option<Settings>,
    /// The command that takes the snapshot.
    pub snapshot_command: String,
}

/// The JSON of a run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BackupReport {
    /// The action of the run.
    pub assessment: BackupAssessment,
    /// The backup; missing after a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<BackupManifest>,
}

/// A prepared run.
pub struct BackupRun {
    options: BackupOptions,
    database: LocatedDatabase,
    sources: DatabaseDirs,
    exists: bool,
}

impl BackupRun {
    /// Finds the database and its datasets, and checks the dataset of the backups. Changes nothing.
    ///
    /// # Errors
    /// A refusal; or if a directory or a pool cannot be read.
    pub fn prepare(paths: &[PathBuf], mut options: BackupOptions) -> Result<BackupRun> {
        if let Some(dir) = &mut options.mountpoint {
            *dir = std::path::absolute(&*dir).map_err(cannot("find", &*dir))?;
        }
        let paths: Vec<PathBuf> =
            paths.iter().map(|path| canonical(path)).collect::<poolwright_dbms::Result<_>>()?;
        let database = database::locate(&paths, options.database, options.quiesce.hook.is_some())?;
        let sources = DatabaseDirs::find(&paths, &database)?;
        sources.check_mounts()?;
        let exists = BackupDestination::exists(&options.destination)?;
        if exists {
            let destination = BackupDestination::open(&options.destination)?;
            destination.check(&sources, database.kind)?;
            check_earlier(&destination.list()?, &sources, options.accepts)?;
        } else {
            if let Some(dir) = options.mountpoint.as_ref().filter(|dir| sources.contain(dir)) {
                return refused(format!("{} is in the database's directory", quoted(dir)));
            }
            creation::check(&options.destination, options.mountpoint.as_deref())?;
        }
        Ok(BackupRun { options, database, sources, exists })
    }

    /// The planned action.
    pub fn assessment(&self) -> BackupAssessment {
        BackupAssessment {
            database: self.database.kind,
            sources: self.source_records(),
            destination: self.options.destination.clone(),
            created_with: (!self.exists).then(|| self.options.settings.clone()),
            snapshot_command: self.snapshot(&format!("{PREFIX}ID-NAME")).to_string(),
        }
    }

    /// Makes the backup.
    ///
    /// # Errors
    /// [`Error`]. The database is released and the earlier backups are unchanged then.
    pub fn execute(self, observer: &mut dyn BackupObserver) -> Result<BackupManifest> {
        let (destination, identity) = self.open_destination(observer)?;
        // Another run may have made one meanwhile.
        let earlier = destination.list()?;
        check_earlier(&earlier, &self.sources, self.options.accepts)?;
        let Some(source) = self.sources.all.first() else { return refused("no directory is named") };
        let Some(admin) = of_mount(&source.mount) else { return refused("the database is on no dataset") };
        self.remove_leftovers(&*admin, &identity)?;
        if pool_of(destination.dataset()) == pool_of(&source.dataset) {
            observer.note("the backups are in the pool of the database, and would be lost with it");
        }
        let name = new_name(&destination)?;
        let prefix = if self.options.keep_source { KEPT_PREFIX } else { PREFIX };
        let snapshot = format!("{prefix}{}-{name}", identity.id);
        let done = self.back_up(&destination, &earlier.backups, &name, &snapshot, observer);
        let outcome = "the database is not held, and the earlier backups are unchanged";
        if done.is_err() || !self.options.keep_source {
            let removed = self.destroy(&*admin, &snapshot);
            if let (Ok(_), Err(why)) = (&done, removed) {
                observer.note(&format!("the next backup removes the snapshot @{snapshot}: {why}"));
            }
        }
        done.map_err(|cause| if cause.is_refusal() { cause } else { cause.with_outcome(outcome) })
    }

    fn back_up(
        &self,
        destination: &BackupDestination,
        earlier: &[BackupEntry],
        name: &str,
        snapshot: &str,
        observer: &mut dyn BackupObserver,
    ) -> Result<BackupManifest> {
        let (created_unix_s, database) = self.take_snapshot(snapshot, observer)?;
        let last = earlier.last().map(|entry| &entry.manifest);
        let _open = self.sources.open_snapshots(snapshot)?;
        let has_lost_files = last.is_some_and(|last| last.files > 0) && !self.sources.have_files(snapshot)?;
        if has_lost_files && !self.options.accepts.change {
            return Err(Error::SourceChanged(no_files(&self.sources)));
        }
        let contents = self.copy(destination, snapshot, observer)?;
        if let Some(last) = last.filter(|last| contents.files < last.files / 2) {
            let (files, before) = (contents.files, last.files);
            observer.note(&format!("there are {files} files, and {before} in the last backup"));
        }
        let written_last = manifest::read_manifest(destination.mountpoint()).ok().flatten();
        let backup = BackupManifest {
            format: FORMAT.to_owned(),
            version: VERSION,
            creator: format!("poolwright {}", env!("CARGO_PKG_VERSION")),
            name: name.to_owned(),
            id: format!("{:016x}", random()),
            created: time::rfc3339(created_unix_s),
            created_unix_s,
            sequence: Some(next_sequence(earlier, written_last.as_ref())),
            database,
            sources: self.source_records(),
            files: contents.files,
            bytes: contents.bytes,
            skipped: contents.skipped,
        };
        complete(destination, &backup, observer)?;
        Ok(backup)
    }

    /// Quiesces the database, takes the snapshot and releases it. Returns the time of the snapshot.
    fn take_snapshot(
        &self,
        snapshot: &str,
        observer: &mut dyn BackupObserver,
    ) -> Result<(u64, DatabaseRecord)> {
        let options = &self.options.quiesce;
        observer.stage(BackupStage::Quiesce);
        let quiesced =
            Quiesced::begin(&self.database, &self.sources, options, &|| observer.is_interrupted())?;
        let means = quiesced.means();
        observer.stage(BackupStage::Snapshot);
        let created = time::unix_seconds() as u64;
        let pending = self.start_snapshot(snapshot);
        let taken = match pending.recv_timeout(options.limit) {
            Ok(taken) => Some(taken),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(refused("the snapshot was not taken")),
        };
        observer.stage(BackupStage::Release);
        let released = quiesced.release(options.limit);
        if taken.is_none() {
            // The database is released first. Then wait, so that the caller can remove the snapshot if it comes nevertheless.
            let _ = pending.recv();
            let limit = options.limit.as_secs_f64();
            released?;
            let why = format!("the snapshot was not taken within {limit:.0} s");
            return Err(poolwright_dbms::Error::Quiesce { what: "keep on holding", why }.into());
        }
        taken.transpose()?;
        let (facts, quiesced_s) = released?;
        let record = DatabaseRecord {
            kind: self.database.kind,
            version: facts.version,
            consistency: means,
            quiesced_s,
            facts: facts.facts,
            backup_label: facts.backup_label,
        };
        Ok((created, record))
    }

    /// Takes the snapshot in another thread: a pool that is stuck must not keep the database quiesced.
    fn start_snapshot(&self, snapshot: &str) -> Receiver<Result<()>> {
        let change = self.snapshot(snapshot);
        let mount = self.sources.all.first().map(|source| source.mount.clone());
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let admin = mount.as_ref().and_then(of_mount);
            let taken = match admin {
                Some(admin) => admin.change(&change).map_err(Error::from),
                None => refused("the database is on no dataset"),
            };
            let _ = sender.send(taken);
        });
        receiver
    }

    fn snapshot(&self, snapshot: &str) -> DatasetChange {
        let names = self.sources.datasets().into_iter();
        DatasetChange::SnapshotAll { names: names.map(|dataset| format!("{dataset}@{snapshot}")).collect() }
    }

    fn copy(
        &self,
        destination: &BackupDestination,
        snapshot: &str,
        observer: &mut dyn BackupObserver,
    ) -> Result<TreeContents> {
        let pairs: Vec<(PathBuf, PathBuf)> = self
            .sources
            .all
            .iter()
            .zip(self.source_records())
            .map(|(source, record)| {
                (source.in_snapshot(snapshot), destination.mountpoint().join(record.copy))
            })
            .collect();
        let total = self.sources.all.iter().map(allocated_bytes).sum();
        bring_up_to_date(destination, &pairs, self.options.rate, total, observer)
    }

    fn source_records(&self) -> Vec<SourceRecord> {
        records(&self.sources)
    }

    fn open_destination(
        &self,
        observer: &mut dyn BackupObserver,
    ) -> Result<(BackupDestination, DestinationIdentity)> {
        let name = &self.options.destination;
        if !self.exists {
            creation::create(name, &self.options.settings, self.options.mountpoint.as_deref(), observer)?;
        }
        let mut destination = BackupDestination::open(name)?;
        destination.lock()?;
        if let Some(problem) = destination.admin().pool_problem(name)? {
            return refused(problem);
        }
        let identity = match destination.check(&self.sources, self.database.kind)? {
            Some(identity) => identity,
            None => destination.claim(&self.sources, self.database.kind)?,
        };
        Ok((destination, identity))
    }

    /// Removes the snapshots of the database that an earlier run left when it was killed.
    fn remove_leftovers(&self, admin: &dyn DatasetAdmin, identity: &DestinationIdentity) -> Result<()> {
        let prefix = format!("{PREFIX}{}-", identity.id);
        for dataset in self.sources.datasets() {
            for snapshot in admin.snapshots(&dataset)? {
                if snapshot.name.split_once('@').is_some_and(|(_, name)| name.starts_with(&prefix)) {
                    admin.change(&DatasetChange::DestroySnapshot { name: snapshot.name })?;
                }
            }
        }
        Ok(())
    }

    /// Destroys the snapshots of this name that exist.
    fn destroy(&self, admin: &dyn DatasetAdmin, snapshot: &str) -> Result<()> {
        let mut done = Ok(());
        for dataset in self.sources.datasets() {
            let name = format!("{dataset}@{snapshot}");
            let exists = admin.snapshots(&dataset).map(|all| all.iter().any(|of| of.name == name));
            let destroyed = match exists {
                Ok(true) => admin.change(&DatasetChange::DestroySnapshot { name }).map_err(Error::from),
                exists => exists.map(|_| ()).map_err(Error::from),
            };
            done = done.and(destroyed);
        }
        done
    }
}

fn records(sources: &DatabaseDirs) -> Vec<SourceRecord> {
    let record = |(index, source): (usize, &DatabaseDir)| SourceRecord {
        path: source.path.clone(),
        dataset: source.dataset.clone(),
        copy: PathBuf::from(FILES).join(index.to_string()),
    };
    sources.all.iter().enumerate().map(record).collect()
}

/// Refuses backups that lie in the future, and a directory that is on another dataset than in the last backup: that dataset may not be
/// mounted, and the directory would be the empty one below its mount.
fn check_earlier(earlier: &BackupList, sources: &DatabaseDirs, accepts: AcceptedOddities) -> Result<()> {
    if !accepts.future {
        check_clock(earlier)?;
    }
    let Some(last) = earlier.backups.last().filter(|_| !accepts.change) else { return Ok(()) };
    let now = records(sources);
    let moved = |of: &&SourceRecord| now.iter().any(|is| is.path == of.path && is.dataset != of.dataset);
    let Some(of) = last.manifest.sources.iter().find(moved) else { return Ok(()) };
    let is_on = now.iter().find(|is| is.path == of.path).map_or("", |is| is.dataset.as_str());
    Err(Error::SourceChanged(format!(
        "{} was on {} when the last backup was made, and is on {is_on} now\nhint: mount {}",
        quoted(&of.path),
        of.dataset,
        of.dataset
    )))
}

fn no_files(sources: &DatabaseDirs) -> String {
    format!(
        "there is no file in {}, and the last backup has some\nhint: mount the database's datasets",
        joined(&sources.paths())
    )
}

/// A name from the time, which no snapshot has.
fn new_name(destination: &BackupDestination) -> Result<String> {
    let taken = destination.admin().snapshots(destination.dataset())?;
    Ok(free_name("", |name| {
        let full = format!("{}@{name}", destination.dataset());
        taken.iter().all(|snapshot| snapshot.name != full)
    }))
}

/// The length of what a source holds, for the progress: that of its dataset.
fn allocated_bytes(source: &DatabaseDir) -> u64 {
    let tree = of_mount(&source.mount).and_then(|admin| admin.tree(&source.dataset).ok());
    tree.and_then(|tree| Some(tree.first()?.logical_referenced)).unwrap_or(0)
}
