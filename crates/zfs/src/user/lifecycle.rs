//! Creating, importing, scrubbing, exporting and destroying a pool by name, together with its entry in the registry.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Config, Engine, Pool, ScanState, Spec};

use crate::user::connection::{OnWait, ask_owner, engine_error};
use crate::user::error::list;
use crate::user::find;
use crate::user::label::{FoundPool, Label, State};
use crate::user::registry::{self, Entry};
use crate::user::vdevs::new_file;
use crate::user::{
    ConnectOptions, DatasetInfo, ENDING, Error, LockOwner, PoolConnection, PoolInfo, Request, Result, Scrub,
    ScrubHow,
};

/// Interval at which an owner that has unmounted everything is checked.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// Creates a pool, sets the properties of its root dataset, exports the pool and registers it. Existing files must be empty;
/// they are all checked before the first one is created or written.
///
/// # Errors
/// [`Error::InUse`] and [`Error::NameTaken`] if another pool has the name; [`Error::NotAFile`], [`Error::NoDirectory`],
/// [`Error::NamedTwice`] and [`Error::Engine`] for an unusable file; otherwise the engine's error.
pub fn create(spec: &Spec, settings: &Settings, engine: &Config, on_wait: OnWait) -> Result<FoundPool> {
    refuse_taken_name(&spec.name, on_wait)?;
    let files = check_new_files(spec)?;
    let pool = Engine::start(engine)
        .and_then(|engine| Pool::create(engine, spec))
        .map_err(|why| engine_error(&spec.name, why))?;
    let root = pool.open_dataset("")?;
    settings.iter().try_for_each(|(property, value)| root.set(property, value))?;
    drop(root);
    pool.export()?;
    let mut found = find::check_files(&spec.name, &files)?;
    registry::save(&Entry { pool: spec.name.clone(), files: files.clone(), last_scrub: None })?;
    found.files = files;
    Ok(found)
}

/// Fails if another pool has this name: the registry would lose that pool.
fn refuse_taken_name(pool: &str, on_wait: OnWait) -> Result<()> {
    ask_owner::<()>(pool, on_wait, |owner| match owner.ask::<serde_json::Value>(&Request::Status) {
        Err(why) if why.is_ending() => Err(why),
        _ => {
            let todo = "\nhint: give the new pool another name".into();
            Err(Error::InUse { pool: pool.into(), pid: owner.pid(), what: owner.command(), todo })
        }
    })?;
    match registry::find(pool)? {
        None => Ok(()),
        Some(Entry { files, .. }) => Err(Error::NameTaken { pool: pool.to_owned(), files }),
    }
}

/// The files as absolute paths, those of spares and cache vdevs last.
fn check_new_files(spec: &Spec) -> Result<Vec<PathBuf>> {
    let mut files: Vec<(bool, PathBuf)> = Vec::new();
    for group in &spec.groups {
        for (path, _) in &group.files {
            let path = new_file(path)?;
            if std::fs::metadata(&path).is_ok_and(|meta| meta.len() > 0) {
                return Err(poolwright_openzfs::Error::Exists(path).into());
            }
            if files.iter().any(|(_, other)| *other == path) {
                return Err(Error::NamedTwice(path));
            }
            files.push((group.usage.is_auxiliary(), path));
        }
    }
    files.sort_by_key(|(is_auxiliary, _)| *is_auxiliary);
    Ok(files.into_iter().map(|(_, path)| path).collect())
}

/// An imported pool.
#[derive(Clone, Debug)]
pub struct ImportedPool {
    /// The files that it uses. If its last process was killed while it detached a file, these are not always those found.
    pub files: Vec<PathBuf>,
    /// Its datasets and snapshots.
    pub datasets: Vec<DatasetInfo>,
}

/// Opens a pool once, which completes what a killed process left in its intent logs or did not finish, and registers its files.
/// `options.files` are ignored: the files are those of `found`.
///
/// # Errors
/// [`Error::Destroyed`] unless `destroyed`; [`Error::Find`] if a part of it is missing; [`Error::OtherRegistered`] if the
/// registry has another pool of this name; otherwise as [`PoolConnection::once`].
pub fn import(found: &FoundPool, destroyed: bool, options: ConnectOptions) -> Result<ImportedPool> {
    if found.state == State::Destroyed && !destroyed {
        let (pool, file) = (found.pool.clone(), found.files[0].clone());
        return Err(Error::Destroyed { pool, file });
    }
    if found.missing_tops > 0 {
        return Err(Error::Find(format!(
            "{} is incomplete: these files lack {} of its top-level vdevs\nhint: name all of its files",
            found.pool, found.missing_tops
        )));
    }
    refuse_other_registered(found)?;
    let options = ConnectOptions { files: found.files.clone(), ..options };
    let mut connection = PoolConnection::open(&found.pool, options)?;
    let datasets = connection.ask(&Request::List);
    let info = connection.ask::<PoolInfo>(&Request::Status);
    connection.finish()?;
    let imported = ImportedPool { files: info?.files, datasets: datasets? };
    let last_scrub = registry::find(&found.pool)?.and_then(|entry| entry.last_scrub);
    registry::save(&Entry { pool: found.pool.clone(), files: imported.files.clone(), last_scrub })?;
    Ok(imported)
}

/// Fails if the registry has a pool of this name in other files, and one of these still holds a pool of this name: another one, a copy, or the
/// rest of this one. If the pool's files were moved, there may be anything where they were.
fn refuse_other_registered(found: &FoundPool) -> Result<()> {
    let Some(entry) = registry::find(&found.pool)? else { return Ok(()) };
    if entry.files.iter().any(|file| found.files.contains(file)) {
        return Ok(());
    }
    let places: Vec<_> = found.files.iter().filter_map(|file| file_id(file)).collect();
    let mut unnamed = Vec::new();
    for file in &entry.files {
        if find::is_missing(file) || file_id(file).is_some_and(|id| places.contains(&id)) {
            continue;
        }
        match Label::read(file) {
            Ok(Some(label))
                if label.pool_guid == found.guid && !found.guids.values().any(|of| *of == label.guid) =>
            {
                unnamed.push(file.clone());
            }
            Ok(label) if label.as_ref().is_none_or(|label| label.pool.as_ref() != Some(&found.pool)) => {}
            _ => return Err(Error::OtherRegistered { pool: found.pool.clone(), files: entry.files }),
        }
    }
    if unnamed.is_empty() {
        return Ok(());
    }
    Err(Error::Find(format!(
        "{} is incomplete: {} of it is not named\nhint: name all of its files",
        found.pool,
        list(&unnamed)
    )))
}

/// The identity of a file, independent of its path.
fn file_id(file: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(file).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// Starts, stops or waits for a scrub, and registers the result of a finished one.
///
/// # Errors
/// As [`PoolConnection::once`]; if the registry cannot be written.
pub fn scrub(pool: &str, how: ScrubHow, options: impl Into<ConnectOptions>) -> Result<Scrub> {
    let scrub: Scrub = PoolConnection::once(pool, options, &Request::Scrub { how })?;
    if scrub.state == ScanState::Finished
        && let Some(mut entry) = registry::find(pool)?
    {
        entry.last_scrub = Some(scrub.clone());
        registry::save(&entry)?;
    }
    Ok(scrub)
}

/// An exported pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedPool {
    /// Its files.
    pub files: Vec<PathBuf>,
    /// Whether none of its files exists any more, so that only its registry entry was removed.
    pub is_gone: bool,
}

/// Has the owner unmount everything and export the pool, or opens and exports it in this process. Then removes its registry
/// entry.
///
/// # Errors
/// `EBUSY` if programs use a mount; [`Error::InUse`] if the owner takes too long; as [`PoolConnection::once`].
pub fn export(pool: &str, options: impl Into<ConnectOptions>) -> Result<ExportedPool> {
    let options = options.into();
    let (files, is_closed) = match release(pool, options.on_wait)? {
        Some(files) => {
            let is_closed = find::check_files(pool, &files).is_ok_and(|found| found.state == State::Exported);
            (files, is_closed)
        }
        None => (find::pool_files(pool, &options.files)?, false),
    };
    let is_gone = files.iter().all(|file| find::is_missing(file));
    if !is_gone && !is_closed {
        let options = ConnectOptions { files: files.clone(), ..options };
        PoolConnection::once::<()>(pool, options, &Request::Sync)?;
    }
    registry::forget(pool)?;
    Ok(ExportedPool { files, is_gone })
}

/// Marks a pool as destroyed and removes its registry entry. Returns its files, which stay. With `unmount`, an owner first
/// unmounts everything.
///
/// # Errors
/// [`Error::Mounted`] if another process has the pool open; otherwise as [`export`].
pub fn destroy(pool: &str, unmount: bool, options: impl Into<ConnectOptions>) -> Result<Vec<PathBuf>> {
    let options = options.into();
    if unmount {
        release(pool, options.on_wait)?;
    } else if let Some(info) = ask_owner(pool, options.on_wait, |owner| owner.ask(&Request::Status))? {
        return Err(mounted(pool, info));
    }
    let local = match PoolConnection::open(pool, options)? {
        PoolConnection::Here(local) => local,
        // Another process has mounted the pool meanwhile.
        PoolConnection::Owner { mut client, .. } => {
            return Err(mounted(pool, client.ask(&Request::Status)?));
        }
    };
    let files = local.files();
    local.into_pool().destroy_pool()?;
    registry::forget(pool)?;
    Ok(files)
}

fn mounted(pool: &str, info: PoolInfo) -> Error {
    let mountpoints = info.mounts.into_iter().map(|mounted| mounted.dir).collect();
    Error::Mounted { pool: pool.to_owned(), pid: info.pid, mountpoints }
}

/// Has the pool's owner unmount everything, and waits until it has closed the pool's files, which this returns. Returns
/// `None` if the pool has no owner.
fn release(pool: &str, on_wait: OnWait) -> Result<Option<Vec<PathBuf>>> {
    let released = ask_owner(pool, on_wait, |owner| {
        let info: PoolInfo = owner.ask(&Request::Status)?;
        owner.ask::<()>(&Request::Release)?;
        Ok((info.files, owner.pid()))
    })?;
    let Some((files, pid)) = released else { return Ok(None) };
    wait_closed(pool, pid, &files, on_wait)?;
    Ok(Some(files))
}

/// Waits until the owner, which has unmounted everything, has closed the pool's files.
fn wait_closed(pool: &str, pid: i32, files: &[PathBuf], on_wait: OnWait) -> Result<()> {
    let start = Instant::now();
    let answers =
        || ask_owner(pool, on_wait, |owner| owner.ask::<PoolInfo>(&Request::Status).map(|_| owner.pid()));
    while answers()? == Some(pid) && start.elapsed() < ENDING {
        std::thread::sleep(CHECK_EVERY);
    }
    let owner = || files.iter().find_map(|file| LockOwner::of(file)).filter(|owner| owner.pid == pid);
    while let Some(owner) = owner() {
        if start.elapsed() > ENDING {
            return Err(Error::InUse {
                pool: pool.to_owned(),
                pid: owner.pid,
                what: owner.command,
                todo: ", which has unmounted everything and is still flushing\nhint: export again when it has exited"
                    .into(),
            });
        }
        std::thread::sleep(CHECK_EVERY);
    }
    Ok(())
}
