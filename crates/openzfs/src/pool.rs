//! Pools on files: create, import, export, and the lock against a second process.

use std::ffi::{CString, c_char, c_int};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use poolwright_host::quoted;

use crate::c_text::{c_paths, c_text};
use crate::changed::{ChangedFile, OpenFile};
use crate::error::{check, host};
use crate::event::{self, Event};
use crate::label::{self, Label};
use crate::{Engine, Error, PoolStats, Result, VdevStats, ffi};

/// The size in bytes of a vdev file that is created without one. The file is sparse. A small vdev forces a transaction group
/// every few seconds of writing, which changes measurements.
pub const DEFAULT_VDEV_BYTES: u64 = 200 << 30;

/// How the files of a group form vdevs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Each file is a top-level vdev.
    Stripe,
    /// All files contain the same data.
    Mirror,
    /// raidz with this number of parity files, 1 to 3.
    Raidz(u8),
}

/// The purpose of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Data and, without a separate log, the intent log.
    Data,
    /// A separate intent log.
    Log,
    /// L2ARC.
    Cache,
}

/// Files that form one vdev or, striped, several. Missing files are created sparse.
#[derive(Clone, Debug)]
pub struct VdevGroup {
    /// How the files form vdevs.
    pub layout: Layout,
    /// Their purpose.
    pub usage: Use,
    /// The path and size in bytes of each file.
    pub files: Vec<(PathBuf, u64)>,
}

/// The specification of a new pool.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The pool's name.
    pub name: String,
    /// Sector size as a power of two, 9 to 16.
    pub ashift: u32,
    /// The vdevs.
    pub groups: Vec<VdevGroup>,
}

impl Spec {
    /// Specifies a pool on one sparse file of [`DEFAULT_VDEV_BYTES`].
    pub fn single(name: &str, file: impl Into<PathBuf>, ashift: u32) -> Spec {
        let files = vec![(file.into(), DEFAULT_VDEV_BYTES)];
        Spec {
            name: name.into(),
            ashift,
            groups: vec![VdevGroup { layout: Layout::Stripe, usage: Use::Data, files }],
        }
    }

    /// Parses the vdev grammar of `zpool create`: `FILE… [mirror|raidz[1-3] FILE…] [log [mirror] FILE…] [cache FILE…]`, each
    /// file with an optional `:SIZE`.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a size is invalid or too small, if a group has too few files, or if there is no data vdev.
    pub fn parse_vdevs(words: &[String]) -> Result<Vec<VdevGroup>> {
        let mut groups: Vec<VdevGroup> = Vec::new();
        let mut usage = Use::Data;
        let mut fresh = true;
        for word in words {
            let layout = match word.as_str() {
                "mirror" => Some(Layout::Mirror),
                "raidz" | "raidz1" => Some(Layout::Raidz(1)),
                "raidz2" => Some(Layout::Raidz(2)),
                "raidz3" => Some(Layout::Raidz(3)),
                "log" | "cache" => {
                    usage = if word == "log" { Use::Log } else { Use::Cache };
                    fresh = true;
                    continue;
                }
                _ => None,
            };
            if let Some(layout) = layout {
                groups.push(VdevGroup { layout, usage, files: Vec::new() });
                fresh = false;
                continue;
            }
            if fresh {
                groups.push(VdevGroup { layout: Layout::Stripe, usage, files: Vec::new() });
                fresh = false;
            }
            let group = groups.last_mut().expect("a group was just pushed");
            group.files.push(parse_file(word)?);
        }
        check_groups(&groups)?;
        Ok(groups)
    }
}

fn parse_file(word: &str) -> Result<(PathBuf, u64)> {
    match word.rsplit_once(':') {
        Some((path, size)) if !size.contains('/') => Ok((path.into(), crate::property::parse_size(size)?)),
        _ => Ok((word.into(), DEFAULT_VDEV_BYTES)),
    }
}

fn check_groups(groups: &[VdevGroup]) -> Result<()> {
    if !groups.iter().any(|g| g.usage == Use::Data && !g.files.is_empty()) {
        return Err(Error::Invalid("a pool needs at least one file for data".into()));
    }
    for g in groups {
        let (name, least) = match g.layout {
            Layout::Stripe => ("a vdev".to_owned(), 1),
            Layout::Mirror => ("a mirror".to_owned(), 2),
            Layout::Raidz(parity) => (format!("raidz{parity}"), usize::from(parity) + 1),
        };
        if g.files.len() < least {
            return Err(Error::Invalid(format!(
                "{name} needs at least {least} files; {} given",
                g.files.len()
            )));
        }
        if g.usage == Use::Cache && g.layout != Layout::Stripe {
            return Err(Error::Invalid("cache vdevs cannot be mirrored".into()));
        }
        if let Some((path, bytes)) = g.files.iter().find(|(_, bytes)| *bytes < 64 << 20) {
            return Err(Error::Invalid(format!(
                "{}: {:.1} MiB is too small: a vdev needs at least 64M",
                quoted(&path),
                *bytes as f64 / (1 << 20) as f64
            )));
        }
    }
    Ok(())
}

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
    /// Open, and locked against a second process, while the pool is imported.
    pub(crate) files: Vec<OpenFile>,
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) readonly: bool,
    exported: bool,
}

impl Inner {
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
        check_groups(&spec.groups)?;
        let name = c_text(&spec.name)?;
        let mut made = NewFiles::default();
        for (path, bytes) in spec.groups.iter().flat_map(|g| &g.files) {
            let path = std::path::absolute(path).map_err(|why| host("resolving", path, why))?;
            made.add(path, *bytes)?;
        }
        create_raw(&name, spec, &made.paths())?;
        let (paths, locks) = made.keep();
        let files = OpenFile::all(&paths, locks)?;
        Ok(Pool { inner: Arc::new(Inner { name, engine, files, paths, readonly: false, exported: false }) })
    }

    /// Imports the pool in these files, which must be all of its files. A read-only import does not change the files.
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
        let files = OpenFile::all(&paths, locks)?;
        let c_name = c_text(&name)?;
        let c_paths = c_paths(&paths)?;
        let raw: Vec<*const c_char> = c_paths.iter().map(|p| p.as_ptr()).collect();
        // SAFETY: the name and the array of C strings outlive the call, which keeps none of them.
        let errno =
            unsafe { ffi::pw_pool_import(c_name.as_ptr(), raw.as_ptr(), raw.len(), i32::from(readonly)) };
        check("importing the pool", &name, errno)?;
        Ok(Pool { inner: Arc::new(Inner { name: c_name, engine, files, paths, readonly, exported: false }) })
    }

    /// Returns the name of the pool in `file`, from its label.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the file contains no pool, or is a cache vdev, whose label names no pool.
    pub fn name_in(file: &Path) -> Result<String> {
        match Label::read(file)?.pool {
            name if name.is_empty() => {
                Err(Error::Invalid(format!("{} is a cache vdev: its label names no pool", quoted(&file))))
            }
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
    pub fn kick(&self) -> Result<()> {
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

    /// Returns the I/O of each vdev file since it was opened.
    pub fn vdev_stats(&self) -> Vec<(PathBuf, VdevStats)> {
        let one = |path: &PathBuf| {
            let c = c_paths(std::slice::from_ref(path)).ok()?;
            let mut raw = ffi::pw_vdev_stats::default();
            // SAFETY: a C string and a writable struct.
            let errno = unsafe { ffi::pw_seam_file(c[0].as_ptr(), &mut raw) };
            (errno == 0).then(|| (path.clone(), VdevStats::from(raw)))
        };
        self.inner.paths.iter().filter_map(one).collect()
    }

    /// Returns the pool files that another program changed. Takes two system calls for each file.
    pub fn changed_files(&self) -> Vec<ChangedFile> {
        self.inner.paths.iter().zip(&self.inner.files).filter_map(|(path, open)| open.changed(path)).collect()
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

fn create_raw(name: &CString, spec: &Spec, paths: &[PathBuf]) -> Result<()> {
    let c_paths = c_paths(paths)?;
    let raw: Vec<*const c_char> = c_paths.iter().map(|p| p.as_ptr()).collect();
    let mut at = 0;
    let groups: Vec<ffi::pw_vdev_group> = spec
        .groups
        .iter()
        .map(|g| {
            let (layout, parity) = match g.layout {
                Layout::Stripe => (ffi::PW_STRIPE, 0),
                Layout::Mirror => (ffi::PW_MIRROR, 0),
                Layout::Raidz(parity) => (ffi::PW_RAIDZ, parity),
            };
            let usage = match g.usage {
                Use::Data => ffi::PW_DATA,
                Use::Log => ffi::PW_LOG,
                Use::Cache => ffi::PW_CACHE,
            };
            let start = at;
            at += g.files.len();
            ffi::pw_vdev_group {
                layout: layout as c_int,
                parity: c_int::from(parity),
                use_: usage as c_int,
                npaths: g.files.len(),
                paths: raw[start..].as_ptr(),
            }
        })
        .collect();
    // SAFETY: the groups, their pointers and the strings outlive the call, which copies them.
    let errno = unsafe { ffi::pw_pool_create(name.as_ptr(), groups.as_ptr(), groups.len(), spec.ashift) };
    check("creating the pool", &spec.name, errno)
}

/// The files of a pool that is being created. Unless they are kept, dropping this value removes those that it created and
/// truncates those that existed.
#[derive(Default)]
struct NewFiles(Vec<NewFile>);

struct NewFile {
    path: PathBuf,
    file: fs::File,
    existed: bool,
}

impl NewFiles {
    fn add(&mut self, path: PathBuf, bytes: u64) -> Result<()> {
        // Private from the start: the file contains the data of all files in the pool, regardless of their permissions.
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).mode(poolwright_host::private::FILE);
        let mut open = |new: bool| options.create_new(new).open(&path);
        let (file, existed) = match open(true) {
            Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists => (open(false), true),
            made => (made, false),
        };
        let file = file.map_err(|why| host("creating", &path, why))?;
        let meta = file.metadata().map_err(|why| host("inspecting", &path, why))?;
        if !meta.is_file() || meta.len() != 0 {
            return Err(Error::Exists(path));
        }
        let file = lock(file, &path)?;
        let sized = file.set_len(bytes).map_err(|why| host("resizing", &path, why));
        self.0.push(NewFile { path, file, existed });
        sized
    }

    fn paths(&self) -> Vec<PathBuf> {
        self.0.iter().map(|new| new.path.clone()).collect()
    }

    fn keep(mut self) -> (Vec<PathBuf>, Vec<fs::File>) {
        std::mem::take(&mut self.0).into_iter().map(|new| (new.path, new.file)).unzip()
    }
}

impl Drop for NewFiles {
    fn drop(&mut self) {
        for new in &self.0 {
            let _ = if new.existed { new.file.set_len(0) } else { fs::remove_file(&new.path) };
        }
    }
}

fn lock(file: fs::File, path: &Path) -> Result<fs::File> {
    // SAFETY: a valid descriptor; flock changes nothing in memory.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        let why = std::io::Error::last_os_error();
        if why.raw_os_error() == Some(libc::EWOULDBLOCK) {
            return Err(Error::Locked(path.to_owned()));
        }
        return Err(host("locking", path, why));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn zpool_grammar() {
        let g = Spec::parse_vdevs(&words("a b:10G mirror c d raidz2 e f g log h cache i")).unwrap();
        assert_eq!(g.len(), 5);
        assert_eq!(g[0].files[1], ("b".into(), 10 << 30));
        assert_eq!((g[1].layout, g[1].files.len()), (Layout::Mirror, 2));
        assert_eq!((g[2].layout, g[2].files.len()), (Layout::Raidz(2), 3));
        assert_eq!((g[3].usage, g[4].usage), (Use::Log, Use::Cache));
        for bad in ["", "log a", "mirror a", "raidz3 a b c", "a:1K", "a cache mirror b c"] {
            assert!(Spec::parse_vdevs(&words(bad)).is_err(), "{bad}");
        }
    }
}
