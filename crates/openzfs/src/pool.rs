//! Pools on files: create, import, export, and the lock against a second process.

use std::ffi::{CString, c_char};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use poolwright_base::quoted;

use crate::c_text::{c_paths, c_text};
use crate::changed::{ChangedFile, OpenFile};
use crate::error::{check, host};
use crate::event::{self, Event};
use crate::label::{self, Label};
use crate::new_files::{NewFiles, lock};
use crate::raw_groups::RawGroups;
use crate::vdev_spec::{check_groups, check_has_data};
use crate::{Engine, Error, IoStats, PoolStats, Result, Spec, VdevStats, ffi};

/// How a pool is imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Import {
    /// Write nothing, not even the pool's state. Intent logs are not replayed.
    pub readonly: bool,
    /// Import the pool even if its label shows that another host has it open.
    pub force: bool,
}

/// An imported pool. It is exported when the last handle to it, its datasets and its files is dropped.
#[derive(Clone, Debug)]
pub struct Pool {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) name: CString,
    engine: Engine,
    /// Open, and locked against a second process, while the pool uses them. Those of auxiliary vdevs are last.
    files: Mutex<Vec<OpenFile>>,
    /// Held shared to open, close or destroy a dataset, and exclusively to remove a log. That suspends the intent logs of all datasets,
    /// and the library ends the process if one of them is closed meanwhile.
    logs: RwLock<()>,
    pub(crate) readonly: bool,
    exported: bool,
}

impl Inner {
    pub(crate) fn files(&self) -> MutexGuard<'_, Vec<OpenFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn share_logs(&self) -> RwLockReadGuard<'_, ()> {
        self.logs.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn own_logs(&self) -> RwLockWriteGuard<'_, ()> {
        self.logs.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Exports the pool. A second call does nothing.
    fn export(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.exported, true) {
            return Ok(());
        }
        // SAFETY: every open dataset holds a reference to this value, so no dataset is open.
        let errno = unsafe { ffi::pw_pool_export(self.name.as_ptr()) };
        check("exporting the pool", self.name.to_string_lossy(), errno)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Err(why) = self.export() {
            event::report(&Event::ExportFailed(why));
        }
    }
}

impl Pool {
    /// Creates the files and the pool.
    ///
    /// # Errors
    /// [`Error::Exists`] if a file is not empty; [`Error::Locked`] if another process has it open; [`Error::Invalid`] if the
    /// specification is invalid; [`Error::Host`] or [`Error::Engine`] if the host or the library refuses.
    pub fn create(engine: Engine, spec: &Spec) -> Result<Pool> {
        if !(9..=16).contains(&spec.ashift) {
            return Err(Error::Invalid(format!("ashift={} is outside 9…16", spec.ashift)));
        }
        check_has_data(&spec.groups)?;
        check_groups(&spec.groups)?;
        let name = c_text(&spec.name)?;
        let made = NewFiles::create(spec.groups.iter().flat_map(|g| &g.files))?;
        let raw = RawGroups::new(&spec.groups, &made.paths())?;
        // SAFETY: the name and the groups outlive the call, which copies them.
        let errno =
            unsafe { raw.with(|groups, n| ffi::pw_pool_create(name.as_ptr(), groups, n, spec.ashift)) };
        check("creating the pool", &spec.name, errno)?;
        let is_auxiliary = spec.groups.iter().flat_map(|g| g.files.iter().map(|_| g.usage.is_auxiliary()));
        let mut files = OpenFile::all(made.keep(), is_auxiliary)?;
        files.sort_by_key(|file| file.is_auxiliary);
        Ok(Pool {
            inner: Arc::new(Inner {
                name,
                engine,
                files: files.into(),
                logs: RwLock::new(()),
                readonly: false,
                exported: false,
            }),
        })
    }

    /// Imports the pool in these files, which must be all of its files. Spares and cache vdevs that are not named are used if they
    /// are at their last places, and so are files whose detachment was interrupted. A replacement that is complete except for the
    /// detachment of the old file is finished. A read-only import does not change the files.
    ///
    /// # Errors
    /// As [`Pool::import_with`].
    pub fn import(engine: Engine, files: &[PathBuf], readonly: bool) -> Result<Pool> {
        Pool::import_with(engine, files, Import { readonly, force: false })
    }

    /// Imports a pool with all options.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::ImportedByKernel`] or [`Error::NotExported`] if another program has the pool open, or may
    /// have; [`Error::Invalid`] if the files contain no pool; [`Error::Engine`] if the library refuses.
    pub fn import_with(engine: Engine, files: &[PathBuf], how: Import) -> Result<Pool> {
        let readonly = how.readonly;
        let first = files.first().ok_or_else(|| Error::Invalid("name the pool's files".into()))?;
        let name = Pool::name_in(first)?;
        let (mut locks, mut paths) = (Vec::new(), Vec::new());
        for path in files {
            let file = fs::OpenOptions::new().read(true).write(!readonly).open(path);
            locks.push(lock(file.map_err(|why| host("opening", path, why))?, path)?);
            paths.push(std::path::absolute(path).map_err(|why| host("resolving", path, why))?);
        }
        // While the locks are held, no other process of this engine changes the labels.
        label::refuse_open_elsewhere(&paths, how.force)?;
        let files = OpenFile::all((paths.clone(), locks), std::iter::repeat(false))?;
        let c_name = c_text(&name)?;
        let c_paths = c_paths(&paths)?;
        let raw: Vec<*const c_char> = c_paths.iter().map(|p| p.as_ptr()).collect();
        // SAFETY: the name and the array of C strings outlive the call, which keeps none of them.
        let errno =
            unsafe { ffi::pw_pool_import(c_name.as_ptr(), raw.as_ptr(), raw.len(), i32::from(readonly)) };
        check("importing the pool", &name, errno)?;
        let logs = RwLock::new(());
        let inner = Inner { name: c_name, engine, files: files.into(), logs, readonly, exported: false };
        let pool = Pool { inner: Arc::new(inner) };
        pool.lock_found_files()?;
        pool.sort_files()?;
        Ok(pool)
    }

    /// Locks the files that the caller of the import did not name, and that the library found at the paths that the pool records:
    /// the files of spares and cache vdevs, and that of a vdev whose detachment was interrupted, whose label is invalid.
    fn lock_found_files(&self) -> Result<()> {
        let leaves = self.leaves()?;
        let mut files = self.inner.files();
        for leaf in leaves.iter().filter(|leaf| leaf.raw.readable != 0) {
            if files.iter().any(|file| leaf.is_at(&file.path)) {
                continue;
            }
            let path = leaf.path.clone();
            let file = fs::OpenOptions::new().read(true).write(!self.is_readonly()).open(&path);
            let file = lock(file.map_err(|why| host("opening", &path, why))?, &path)?;
            files.extend(OpenFile::all((vec![path], vec![file]), [leaf.is_auxiliary()])?);
        }
        Ok(())
    }

    /// Returns the name of the pool in `file`, from its label.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the file contains no pool, or is a spare or cache vdev, whose label names no pool.
    pub fn name_in(file: &Path) -> Result<String> {
        match Label::read(file)?.pool {
            name if name.is_empty() => Err(Error::Invalid(format!(
                "{} is a spare or a cache vdev: its label names no pool",
                quoted(&file)
            ))),
            name => Ok(name),
        }
    }

    /// Returns the pool's name.
    pub fn name(&self) -> &str {
        self.inner.name.to_str().expect("pool names are UTF-8: they were made from a str")
    }

    /// Whether the pool was imported read-only, so that its files do not change.
    pub fn is_readonly(&self) -> bool {
        self.inner.readonly
    }

    /// Returns the pool's files as absolute paths, those of cache vdevs and available spares last.
    pub fn files(&self) -> Vec<PathBuf> {
        self.inner.files().iter().map(|file| file.path.clone()).collect()
    }

    /// Returns the engine.
    pub fn engine(&self) -> Engine {
        self.inner.engine
    }

    /// Exports the pool.
    ///
    /// # Errors
    /// [`Error::Busy`] if a dataset or file of the pool is open; [`Error::Engine`] if the library refuses.
    pub fn export(self) -> Result<()> {
        let name = self.name().to_owned();
        Arc::try_unwrap(self.inner).map_err(|_| Error::Busy(name))?.export()
    }

    /// Destroys the pool: marks it in its labels, so that only a search for destroyed pools finds it. The files remain.
    ///
    /// # Errors
    /// [`Error::Busy`] if a dataset or file of the pool is open; [`Error::Engine`] if the library refuses.
    pub fn destroy_pool(self) -> Result<()> {
        let name = self.name().to_owned();
        let mut inner = Arc::try_unwrap(self.inner).map_err(|_| Error::Busy(name.clone()))?;
        // SAFETY: every open dataset holds a reference to the value that was just taken, so no dataset is open.
        let errno = unsafe { ffi::pw_pool_destroy(inner.name.as_ptr()) };
        inner.exported = errno == 0;
        check("destroying the pool", name, errno)
    }

    /// Waits until all writes so far are on disk in a transaction group.
    ///
    /// # Errors
    /// [`Error::Engine`] if the library refuses.
    pub fn sync(&self) -> Result<()> {
        if self.is_readonly() {
            return Ok(());
        }
        // SAFETY: a NUL-terminated name of an imported pool, as in the calls below.
        check("syncing the pool", self.name(), unsafe { ffi::pw_pool_sync(self.inner.name.as_ptr()) })
    }

    /// Closes the open transaction group and starts to sync it, without waiting.
    ///
    /// # Errors
    /// [`Error::Engine`] if the library refuses.
    pub fn start_txg(&self) -> Result<()> {
        if self.is_readonly() {
            return Ok(());
        }
        // SAFETY: see `sync`.
        check("starting a txg of", self.name(), unsafe { ffi::pw_pool_kick(self.inner.name.as_ptr()) })
    }

    /// Returns the pool's space and errors.
    ///
    /// # Errors
    /// [`Error::Engine`] if the library refuses.
    pub fn stats(&self) -> Result<PoolStats> {
        let mut raw = ffi::pw_pool_stats::default();
        // SAFETY: see `sync`; `raw` has the C side's layout.
        check("reading the state of", self.name(), unsafe {
            ffi::pw_pool_stats(self.inner.name.as_ptr(), &mut raw)
        })?;
        Ok(PoolStats::from(raw))
    }

    /// Returns the requests that went through the ARC, and past it, since the pool was imported.
    ///
    /// # Errors
    /// [`Error::Engine`] if the library refuses.
    pub fn io_stats(&self) -> Result<IoStats> {
        let mut raw = ffi::pw_io_stats::default();
        // SAFETY: see `sync`; `raw` has the C side's layout.
        check("reading the counters of", self.name(), unsafe {
            ffi::pw_pool_io_stats(self.inner.name.as_ptr(), &mut raw)
        })?;
        Ok(IoStats::from(raw))
    }

    /// Returns the I/O of each vdev file since it was opened.
    pub fn vdev_stats(&self) -> Vec<(PathBuf, VdevStats)> {
        let one = |path: &PathBuf| {
            let c = c_paths(std::slice::from_ref(path)).ok()?;
            let mut raw = ffi::pw_vdev_stats::default();
            // SAFETY: a C string and a writable struct.
            let errno = unsafe { ffi::pw_seam_file(c[0].as_ptr(), &mut raw) };
            (errno == 0).then(|| (path.clone(), VdevStats::from(raw)))
        };
        self.files().iter().filter_map(one).collect()
    }

    /// Returns the pool files that another program changed. Takes two system calls for each file.
    pub fn changed_files(&self) -> Vec<ChangedFile> {
        self.inner.files().iter().filter_map(OpenFile::changed).collect()
    }

    /// Faults the vdev of a file, if the pool has its data elsewhere. Returns whether the pool needs the file, in which case
    /// nothing was done.
    ///
    /// # Errors
    /// [`Error::Engine`] if the pool does not use the file.
    pub fn fault_file(&self, path: &Path) -> Result<bool> {
        let c = c_paths(&[path.to_owned()])?;
        let mut needed = 0;
        // SAFETY: the name of an imported pool, a C string and a place for the answer.
        let errno = unsafe { ffi::pw_pool_fault(self.inner.name.as_ptr(), c[0].as_ptr(), &mut needed) };
        check("faulting the vdev", quoted(&path), errno)?;
        Ok(needed != 0)
    }
}
