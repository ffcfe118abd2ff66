//! Changes of an imported pool's vdevs: add, attach, detach, remove, replace. `spares` contains the code for hot spares.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::c_text::c_paths;
use crate::changed::OpenFile;
use crate::error::{check, host};
use crate::leaf::{Leaf, spare_at};
use crate::new_files::NewFiles;
use crate::raw_groups::RawGroups;
use crate::vdev_spec::check_groups;
use crate::{Error, Layout, Pool, Result, Use, VdevError, VdevGroup, ffi};

/// After a resilver, the library detaches replaced vdevs in the background: within this time, unless it cannot.
const DETACHING: Duration = Duration::from_secs(30);
const CHECK_EVERY: Duration = Duration::from_millis(10);

/// `single files`, `mirrors of 2 files`, `raidz1 vdevs of 3 files`.
fn describe((layout, files): (Layout, u64), plural: bool) -> String {
    let s = if plural { "s" } else { "" };
    let a = if plural { "" } else { "a " };
    match layout {
        Layout::Stripe => format!("{a}single file{s}"),
        Layout::Mirror => format!("{a}mirror{s} of {files} files"),
        Layout::Raidz(parity) => format!("{a}raidz{parity} vdev{s} of {files} files"),
    }
}

/// Refuses new data vdevs with another layout than the present ones.
fn check_redundancy(leaves: &[Leaf], groups: &[VdevGroup]) -> std::result::Result<(), VdevError> {
    let present: Vec<_> =
        leaves.iter().filter(|leaf| leaf.is_used_for(ffi::PW_DATA)).map(Leaf::layout).collect();
    let data = groups.iter().filter(|g| g.usage == Use::Data);
    let of = |g: &VdevGroup| (g.layout, if g.layout == Layout::Stripe { 1 } else { g.files.len() as u64 });
    let mut new = data.map(of);
    match (present.first(), new.find(|new| !present.contains(new))) {
        (Some(present), Some(new)) => Err(VdevError::MismatchedRedundancy {
            present: describe(*present, true),
            new: describe(new, false),
        }),
        _ => Ok(()),
    }
}

impl Pool {
    pub(crate) fn leaves(&self) -> Result<Vec<Leaf>> {
        extern "C" fn each(leaf: *const ffi::pw_leaf, path: *const c_char, arg: *mut c_void) {
            // SAFETY: pw_pool_leaves() calls this with a leaf, a C string and the vector passed below.
            let (all, path, raw) = unsafe { (&mut *arg.cast::<Vec<Leaf>>(), CStr::from_ptr(path), *leaf) };
            all.push(Leaf { path: OsStr::from_bytes(path.to_bytes()).into(), raw });
        }
        let mut all: Vec<Leaf> = Vec::new();
        // SAFETY: the name of an imported pool; the vector outlives the call.
        let errno = unsafe {
            ffi::pw_pool_leaves(self.inner.name.as_ptr(), Some(each), (&raw mut all).cast::<c_void>())
        };
        check("reading the vdevs of", self.name(), errno)?;
        Ok(all)
    }

    pub(crate) fn refusal(&self, what: &'static str, why: VdevError) -> Error {
        Error::Vdev { what, pool: self.name().to_owned(), why }
    }

    fn check_writable(&self, what: &'static str) -> Result<()> {
        if self.is_readonly() { Err(self.refusal(what, VdevError::ReadOnly)) } else { Ok(()) }
    }

    /// The leaf that is this file, or has this GUID.
    fn leaf(&self, what: &'static str, device: &Path) -> Result<Leaf> {
        let place = std::path::absolute(device).map_err(|why| host("resolving", device, why))?;
        let guid = device.to_str().and_then(|text| text.parse::<u64>().ok());
        let leaves = self.leaves()?;
        let found = leaves.iter().find(|leaf| Some(leaf.raw.guid) == guid || leaf.is_at(&place));
        found.cloned().ok_or_else(|| {
            let known = leaves.into_iter().map(|leaf| leaf.path).collect();
            self.refusal(what, VdevError::NoSuchDevice { device: device.to_owned(), known })
        })
    }

    /// Adds vdevs. Creates their files, each of which must be absent or empty, as [`Pool::create`] does. After an error, the
    /// pool is unchanged, and the new files are removed. Calls `before` with all files of the pool, including the new ones,
    /// before the pool uses the new ones.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::Locked`] or [`Error::Host`] for an unusable file; [`Error::Invalid`] for invalid groups;
    /// [`Error::Vdev`] if the pool is read-only, a file belongs to the pool, or the redundancy differs from that of the pool's
    /// data; [`Error::Engine`] if the library refuses; the error of `before`.
    pub fn add_vdevs<E: From<Error>>(
        &self,
        groups: &[VdevGroup],
        before: impl FnOnce(&[PathBuf]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        const WHAT: &str = "adding vdevs to";
        self.check_writable(WHAT)?;
        check_groups(groups)?;
        let leaves = self.leaves()?;
        for (path, _) in groups.iter().flat_map(|g| &g.files) {
            self.check_unused(WHAT, &leaves, path)?;
        }
        check_redundancy(&leaves, groups).map_err(|why| self.refusal(WHAT, why))?;
        let made = NewFiles::create(groups.iter().flat_map(|g| &g.files))?;
        let raw = RawGroups::new(groups, &made.paths())?;
        let is_auxiliary = groups.iter().flat_map(|g| g.files.iter().map(|_| g.usage.is_auxiliary()));
        self.use_files(made, is_auxiliary, before, || {
            // SAFETY: the name of an imported, writable pool, and groups that outlive the call, which copies them.
            let errno =
                unsafe { raw.with(|groups, n| ffi::pw_pool_add(self.inner.name.as_ptr(), groups, n)) };
            check(WHAT, self.name(), errno)
        })
    }

    fn check_unused(&self, what: &'static str, leaves: &[Leaf], path: &Path) -> Result<()> {
        let place = std::path::absolute(path).map_err(|why| host("resolving", path, why))?;
        match leaves.iter().any(|leaf| leaf.is_at(&place)) {
            true => Err(self.refusal(what, VdevError::InUse(path.to_owned()))),
            false => Ok(()),
        }
    }

    /// Calls `before`, then `change`, after which the pool uses the new files.
    fn use_files<E: From<Error>>(
        &self,
        made: NewFiles,
        is_auxiliary: impl Iterator<Item = bool>,
        before: impl FnOnce(&[PathBuf]) -> std::result::Result<(), E>,
        change: impl FnOnce() -> Result<()>,
    ) -> std::result::Result<(), E> {
        let mut files: Vec<(bool, PathBuf)> =
            self.inner.files().iter().map(|file| (file.is_auxiliary, file.path.clone())).collect();
        let is_auxiliary: Vec<bool> = is_auxiliary.collect();
        files.extend(is_auxiliary.iter().copied().zip(made.paths()));
        files.sort_by_key(|(is_auxiliary, _)| *is_auxiliary);
        let mut files: Vec<PathBuf> = files.into_iter().map(|(_, path)| path).collect();
        files.dedup();
        before(&files)?;
        change()?;
        let new = OpenFile::all(made.keep(), is_auxiliary)?;
        let mut files = self.inner.files();
        // A file that replaces a removed one has its path.
        files.retain(|old| !new.iter().any(|new| new.path == old.path));
        files.extend(new);
        files.sort_by_key(|file| file.is_auxiliary);
        Ok(())
    }

    /// Mirrors a vdev, or adds a file to its mirror, and starts a resilver. Creates the file, which must be absent or empty:
    /// with this size in bytes, or else with that of the present one. `device` is a file of the pool or a GUID. After an
    /// error, the pool is unchanged, and the new file is removed. Calls `before` as [`Pool::add_vdevs`] does.
    ///
    /// # Errors
    /// As [`Pool::add_vdevs`]; [`Error::Vdev`] if there is no such device, it cannot be mirrored, or the file is too small.
    pub fn attach<E: From<Error>>(
        &self,
        device: &Path,
        (file, bytes): (&Path, Option<u64>),
        before: impl FnOnce(&[PathBuf]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        const WHAT: &str = "attaching a file to";
        self.check_writable(WHAT)?;
        let leaf = self.leaf(WHAT, device)?;
        self.check_unused(WHAT, &self.leaves()?, file)?;
        if leaf.is_in(ffi::PW_RAIDZ) {
            let kind = "part of a raidz vdev";
            let why = VdevError::Unsuitable { device: leaf.path, kind, action: "mirrored" };
            return Err(self.refusal(WHAT, why).into());
        }
        self.mirror((WHAT, false), &leaf, (file, bytes), before)
    }

    /// Replaces a vdev by a file, and starts a resilver, after which the library detaches the old vdev. Without `file`, the new
    /// file has the path of the old one, which must have been removed. If `file` is an available spare of the pool, that is used,
    /// and both vdevs remain until one of them is detached. If a spare replaces the vdev, the library detaches the spare too,
    /// which is available again. Otherwise as [`Pool::attach`].
    ///
    /// # Errors
    /// As [`Pool::attach`].
    pub fn replace<E: From<Error>>(
        &self,
        device: &Path,
        (file, bytes): (Option<&Path>, Option<u64>),
        before: impl FnOnce(&[PathBuf]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        const WHAT: &str = "replacing a vdev of";
        self.check_writable(WHAT)?;
        let leaf = self.leaf(WHAT, device)?;
        if let Some(file) = file {
            let mut others = self.leaves()?;
            let place = std::path::absolute(file).map_err(|why| host("resolving", file, why))?;
            if let Some(spare) = spare_at(&others, &place) {
                return Ok(self.use_spare(WHAT, &leaf, (spare, bytes))?);
            }
            others.retain(|other| other.raw.guid != leaf.raw.guid);
            self.check_unused(WHAT, &others, file)?;
        }
        let file = file.unwrap_or(&leaf.path).to_owned();
        self.mirror((WHAT, true), &leaf, (&file, bytes), before)
    }

    /// Attaches a new file to a leaf, which it replaces at the end of the resilver if `replaces`.
    fn mirror<E: From<Error>>(
        &self,
        (what, replaces): (&'static str, bool),
        leaf: &Leaf,
        (file, bytes): (&Path, Option<u64>),
        before: impl FnOnce(&[PathBuf]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let device = leaf.path.clone();
        let least = leaf.raw.least;
        let too_small =
            |bytes| VdevError::TooSmall { file: file.to_owned(), bytes, device: device.clone(), least };
        let bytes = bytes.unwrap_or(leaf.raw.size);
        let action = if replaces { "replaced" } else { "mirrored" };
        let unsuitable = |kind| VdevError::Unsuitable { device: device.clone(), kind, action };
        let why = match leaf {
            leaf if leaf.is_used_for(ffi::PW_CACHE) => Some(unsuitable("a cache vdev")),
            leaf if leaf.is_available_spare() => Some(unsuitable("an available spare")),
            leaf if leaf.why_substituted().is_some() && !(replaces && leaf.is_spared()) => {
                leaf.why_substituted()
            }
            leaf if bytes < leaf.raw.least => Some(too_small(bytes)),
            _ => None,
        };
        if let Some(why) = why {
            return Err(self.refusal(what, why).into());
        }
        let made = NewFiles::create(&[(file.to_owned(), bytes)])?;
        let paths = c_paths(&made.paths())?;
        self.use_files(made, std::iter::once(false), before, || {
            let (name, guid) = (self.inner.name.as_ptr(), leaf.raw.guid);
            // SAFETY: the name of an imported, writable pool and the path, a C string, which the call copies.
            match unsafe { ffi::pw_pool_attach(name, guid, paths[0].as_ptr(), c_int::from(replaces)) } {
                libc::EOVERFLOW => Err(self.refusal(what, too_small(bytes))),
                libc::ENOTSUP => Err(self.refusal(what, unsuitable("a vdev"))),
                errno => check(what, self.name(), errno),
            }
        })
    }

    /// Removes a file from its mirror. The file stays, and its labels no longer name the pool. A spare in use becomes available
    /// again; if the vdev that it replaces is detached, it is an ordinary vdev from then on.
    ///
    /// # Errors
    /// [`Error::Vdev`] if the pool is read-only or has no such device, if the device is an available spare, a cache vdev or not in a
    /// mirror, or if no other vdev has all of its data; [`Error::Engine`] if the library refuses.
    pub fn detach(&self, device: &Path) -> Result<()> {
        const WHAT: &str = "detaching a vdev of";
        self.check_writable(WHAT)?;
        let leaf = self.leaf(WHAT, device)?;
        if leaf.is_auxiliary() {
            let kind = if leaf.is_available_spare() { "an available spare" } else { "a cache vdev" };
            return Err(self.refusal(WHAT, VdevError::NotDetachable { device: leaf.path, kind }));
        }
        if !leaf.is_in(ffi::PW_MIRROR) && leaf.raw.substitution == 0 {
            return Err(self.refusal(WHAT, VdevError::NotMirrored(leaf.path)));
        }
        // SAFETY: the name of an imported, writable pool.
        match unsafe { ffi::pw_pool_detach(self.inner.name.as_ptr(), leaf.raw.guid) } {
            libc::EBUSY => return Err(self.refusal(WHAT, VdevError::OnlyCopy(leaf.path))),
            libc::ENOTSUP => return Err(self.refusal(WHAT, VdevError::NotMirrored(leaf.path))),
            errno => check(WHAT, self.name(), errno)?,
        }
        self.forget_unused()?;
        Ok(())
    }

    /// Removes an available spare, a cache vdev, or a log with all files of its mirror. The files stay.
    ///
    /// # Errors
    /// [`Error::Vdev`] if the pool is read-only or has no such device, if the device holds data or is a spare in use, or if a log may have
    /// changes that were not replayed; [`Error::Engine`] if the library refuses.
    pub fn remove_vdev(&self, device: &Path) -> Result<()> {
        const WHAT: &str = "removing a vdev of";
        self.check_writable(WHAT)?;
        let leaf = self.leaf(WHAT, device)?;
        let is_log = leaf.is_used_for(ffi::PW_LOG);
        if !is_log && !leaf.is_auxiliary() {
            return Err(self.refusal(WHAT, VdevError::NotRemovable(leaf.path)));
        }
        let leaves = self.leaves()?;
        let _logs = self.inner.own_logs();
        // SAFETY: the name of an imported, writable pool. Of an auxiliary vdev, `top` is the vdev itself.
        let why = match unsafe { ffi::pw_pool_remove(self.inner.name.as_ptr(), leaf.raw.top) } {
            libc::EBUSY if is_log => VdevError::UnreplayedLog(leaf.path),
            libc::EACCES if is_log => VdevError::LockedLog(leaf.path),
            errno => {
                check(WHAT, self.name(), errno)?;
                self.erase_labels(leaves.iter().filter(|other| other.raw.top == leaf.raw.top));
                self.forget_unused()?;
                return Ok(());
            }
        };
        Err(self.refusal(WHAT, why))
    }

    /// Erases the labels of removed vdevs, because the library leaves those of auxiliary vdevs, and of a log with a faulted file: an
    /// import that searches a directory would take them for vdevs of the pool. Ignores errors: a file that cannot be written may be the
    /// reason for its removal.
    fn erase_labels<'a>(&self, removed: impl Iterator<Item = &'a Leaf>) {
        let files = self.inner.files();
        for leaf in removed {
            if let Some(file) = files.iter().find(|file| leaf.is_at(&file.path)) {
                let _ = file.erase_labels();
            }
        }
    }

    /// Waits until no resilver is running, and until the vdevs that it has replaced are detached. Returns whether a vdev is
    /// still being replaced, because the resilver has failed.
    ///
    /// # Errors
    /// [`Error::Engine`] if the library refuses.
    pub fn wait_resilvered(&self) -> Result<bool> {
        while self.step_resilver()? {}
        let began = Instant::now();
        while self.is_replacing()? && began.elapsed() < DETACHING {
            std::thread::sleep(CHECK_EVERY);
            // The library starts its work in the background after a transaction group.
            self.step_resilver()?;
        }
        self.forget_unused()?;
        self.is_replacing()
    }

    /// Syncs a transaction group. Returns whether a resilver is running.
    fn step_resilver(&self) -> Result<bool> {
        let mut running = 0;
        // SAFETY: the name of an imported pool, and a place for the answer.
        let errno = unsafe { ffi::pw_pool_resilver_step(self.inner.name.as_ptr(), &mut running) };
        check("resilvering the pool", self.name(), errno)?;
        Ok(running != 0)
    }

    /// Returns whether a vdev is being replaced.
    ///
    /// # Errors
    /// [`Error::Engine`] if the library refuses.
    pub fn is_replacing(&self) -> Result<bool> {
        Ok(self.leaves()?.iter().any(|leaf| leaf.raw.substitution == ffi::PW_REPLACING as c_int))
    }

    /// Returns whether a file is a vdev of the pool, also if it is missing.
    ///
    /// # Errors
    /// [`Error::Engine`] if the library refuses.
    pub fn uses_file(&self, path: &Path) -> Result<bool> {
        Ok(self.leaves()?.iter().any(|leaf| leaf.is_at(path)))
    }
}
