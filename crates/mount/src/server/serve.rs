//! Mounts a dataset, and owns its pool until the last mount has ended.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use poolwright_openzfs::{Import, Pool};
use poolwright_zfs::user::{
    ConnectOptions, LocalPool, Mounted, Mounts, Opened, Server, connection, find, name,
};

use crate::server::file_watch::FileWatch;
use crate::server::mount_table::MountTable;
use crate::server::{Devices, Error, Frontend, Result, Severity, add};

/// Interval at which the owner checks its mounts, the pool's files and signals.
const CHECK_EVERY: Duration = Duration::from_millis(200);
/// Interval at which mounts in use are tried again while the process ends, and reported.
const RETRY: Duration = Duration::from_millis(300);
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// The dataset to mount, and how to open the pool if it has no owner.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The mount. Its mount point is checked: see [`crate::server::check_mount_point`].
    pub wanted: Mounted,
    /// The pool's files and the engine's limits: see [`ServeOptions::find_files`].
    pub pool: ConnectOptions,
    /// Module parameters of the engine to set, with their values.
    pub tunables: Vec<(String, u64)>,
    /// The devices to emulate under the pool's files.
    pub devices: Devices,
    /// Whether to report every mount, every unmount and the export, for a log.
    pub logs_mounts: bool,
}

impl ServeOptions {
    fn pool_name(&self) -> &str {
        name::pool_of(&self.wanted.dataset)
    }

    /// Replaces the pool's files by their absolute paths, or if there are none by those of the registry.
    ///
    /// # Errors
    /// As [`find::pool_files`].
    pub fn find_files(&mut self) -> Result<()> {
        self.pool.files = find::pool_files(self.pool_name(), &self.pool.files)?;
        Ok(())
    }

    /// Has the pool's owner mount the dataset. Returns whether the pool has an owner.
    ///
    /// # Errors
    /// [`Error::Adding`] if the owner has not mounted the dataset; [`Error::Unusable`] if this process cannot use the mount.
    pub fn add_to_owner(&self, frontend: &dyn Frontend) -> Result<bool> {
        let added = add::to_owner(&self.wanted, self.devices.is_emulated(), self.pool.on_wait)?;
        let Some((mounted, pid)) = added else { return Ok(false) };
        frontend.mounted(&mounted, pid, false);
        Ok(true)
    }
}

/// Mounts a dataset. If another process owns the pool, adds the mount to that process and returns. Otherwise opens the pool,
/// serves it until the last mount has ended, and exports it.
///
/// The caller must have called [`ServeOptions::find_files`]. The first signal unmounts everything; mounts that are in use are synced at
/// once and unmounted when they become idle.
///
/// # Errors
/// If the pool cannot be opened, the dataset cannot be mounted, or the pool cannot be exported. If the pool has lost a file, it
/// stays open, and the process should exit.
pub fn mount(options: &ServeOptions, frontend: &Arc<dyn Frontend>) -> Result<()> {
    let files = &options.pool.files;
    options.devices.start(files)?;
    let how = Import { readonly: options.wanted.readonly, force: options.pool.force };
    loop {
        match connection::open(options.pool_name(), files, &options.pool.engine, how)? {
            Opened::Here(pool) => return own(pool, options, frontend),
            // Another process opened the pool meanwhile.
            Opened::Owned(_) if options.add_to_owner(&**frontend)? => return Ok(()),
            Opened::Owned(_) => {}
        }
    }
}

/// Owns the pool until its last mount has ended.
fn own(pool: Pool, options: &ServeOptions, frontend: &Arc<dyn Frontend>) -> Result<()> {
    for (name, value) in &options.tunables {
        pool.engine().set_tunable(name, *value)?;
    }
    let table = Arc::new(MountTable::new(Arc::clone(frontend)));
    let mounts = Arc::clone(&table) as Arc<dyn Mounts>;
    let pool = Arc::new(LocalPool::new(pool, SystemTime::now(), mounts));
    let server = Server::reserve(options.pool_name());
    let served = match &server {
        Ok(server) => serve(server, &pool, &table, options, &**frontend),
        Err(_) => Ok(FileWatch::default()),
    };
    // Until the socket is removed, each request gets the answer that the pool is being closed.
    if let Ok(server) = &server {
        server.end();
    }
    if let Some(error) = served.as_ref().ok().and_then(|watch| watch.error(&pool)) {
        drop(server);
        // Dropping the pool would export it.
        std::mem::forget(pool);
        return Err(error);
    }
    let name = options.pool_name();
    let pending = || Error::Unusable(format!("cannot export {name}: a request is still being answered"));
    let pool = Arc::into_inner(pool).ok_or_else(pending)?;
    let exported = pool.into_pool().export();
    if options.logs_mounts && exported.is_ok() {
        frontend.log(Severity::Note, &format!("{name} exported"));
    }
    drop(server?);
    served?;
    Ok(exported?)
}

/// Mounts the first dataset, and serves until the last mount has ended.
fn serve(
    server: &Server,
    pool: &Arc<LocalPool>,
    table: &MountTable,
    options: &ServeOptions,
    frontend: &dyn Frontend,
) -> Result<FileWatch> {
    let mounted = pool.mount(&options.wanted).map_err(poolwright_zfs::user::Error::from)?;
    // Not earlier: if the first mount fails, the process ends, and further mounts could not be added to it.
    server.serve(Arc::clone(pool));
    frontend.mounted(&mounted, std::process::id(), true);
    if options.logs_mounts {
        table.start_logging();
    }
    let mut handled = 0;
    let mut watch = FileWatch::default();
    while table.wait(CHECK_EVERY) {
        if table.serves() {
            watch.check(pool, frontend);
        }
        let signals = frontend.signals();
        if signals > handled {
            handled = signals;
            frontend.log(Severity::Note, "unmounting, and flushing");
            unmount_all(table, pool, frontend)?;
        }
    }
    watch.keep_data(pool, frontend);
    Ok(watch)
}

/// Unmounts everything. Syncs mounts that are in use at once, and unmounts them when they become idle.
fn unmount_all(table: &MountTable, pool: &LocalPool, frontend: &dyn Frontend) -> Result<()> {
    let mut reported: Option<Instant> = None;
    loop {
        match table.unmount_idle() {
            Ok(()) => return Ok(()),
            Err(fault) if fault.is_busy() => {
                if reported.is_none() {
                    pool.pool().sync()?;
                }
                if reported.is_none_or(|when| when.elapsed() > REPORT_EVERY) {
                    reported = Some(Instant::now());
                    frontend.log(Severity::Warning, &format!("waiting for a mount: {}", fault.message));
                }
                if !table.wait(RETRY) {
                    return Ok(());
                }
            }
            Err(fault) => return Err(poolwright_zfs::user::Error::from(fault).into()),
        }
    }
}
