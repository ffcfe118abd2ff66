//! Datasets: creating, opening with replay of the intent log, properties, snapshots, statistics.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::Arc;

use crate::c_text::c_text;
use crate::error::check;
use crate::property::{self, Settings};
use crate::{DatasetStats, Error, Pool, Result, ZilStats, ffi, pool};

/// Room for the full name of a dataset and a NUL.
const NAME_BYTES: usize = ffi::PW_NAME_BYTES as usize;

/// How a dataset is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Open the dataset read-only. Its intent log is not replayed.
    pub readonly: bool,
    /// Ignore ACLs that no mode can express. Otherwise nodes with such an ACL cannot be opened.
    pub ignore_acls: bool,
}

/// An open dataset. It is closed when the last handle to it and its files is dropped.
#[derive(Clone, Debug)]
pub struct Dataset {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) raw: *mut ffi::pw_dataset,
    name: CString,
    pool: Arc<pool::Inner>,
}

impl Inner {
    pub(crate) fn new(raw: *mut ffi::pw_dataset, name: CString, pool: &Pool) -> Inner {
        Inner { raw, name, pool: pool.inner.clone() }
    }

    /// Returns the full name, including the pool's.
    pub(crate) fn name(&self) -> &str {
        self.name.to_str().expect("made from a str")
    }

    pub(crate) fn stats(&self) -> Result<DatasetStats> {
        let mut raw = ffi::pw_dataset_stats::default();
        // SAFETY: an open dataset and a writable struct.
        check("reading the space of", self.name(), unsafe { ffi::pw_dataset_stats(self.raw, &mut raw) })?;
        Ok(DatasetStats::from(raw))
    }

    pub(crate) fn zil_stats(&self) -> ZilStats {
        let mut raw = ffi::pw_zil_stats::default();
        // SAFETY: as above.
        unsafe { ffi::pw_dataset_zil_stats(self.raw, &mut raw) };
        ZilStats::from(raw)
    }
}

// SAFETY: the C side locks all shared data (node table, names, ranges), and the pointer never changes.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        let _logs = self.pool.share_logs();
        // SAFETY: opened and closed once. Every open file holds a reference to this value, so no file is open.
        unsafe { ffi::pw_dataset_close(self.raw) }
    }
}

/// Returns the full name of a dataset or, with `@`, a snapshot. `name` does not include the pool's name.
pub(crate) fn full(pool: &Pool, name: &str) -> Result<CString> {
    let between = if name.is_empty() || name.starts_with('@') { "" } else { "/" };
    c_text(&format!("{}{between}{name}", pool.name()))
}

pub(crate) fn set_raw(name: &CStr, property: &str, value: &str) -> Result<()> {
    let known = property::find_settable(property)?;
    let plain = property::plain_value(known, value)?;
    let (p, v) = (c_text(known.name)?, c_text(&plain)?);
    // SAFETY: three C strings, which the library copies.
    let errno = unsafe { ffi::pw_dataset_set(name.as_ptr(), p.as_ptr(), v.as_ptr()) };
    if errno == libc::EINVAL {
        return Err(Error::Invalid(format!(
            "{property}={value}: invalid value; {} accepts {}",
            known.name, known.values
        )));
    }
    if errno == libc::ENOSPC && property::is_limit(known) {
        let on = name.to_string_lossy().into_owned();
        return Err(Error::LimitBelowUse { limit: format!("{property}={value}"), on });
    }
    check("setting a property of", name.to_string_lossy(), errno)
}

impl Dataset {
    pub(crate) fn create(pool: &Pool, name: &str, settings: &Settings) -> Result<Dataset> {
        let c = full(pool, name)?;
        // SAFETY: a C string, the name of a dataset in an imported pool.
        check("creating the dataset", c.to_string_lossy(), unsafe { ffi::pw_dataset_create(c.as_ptr()) })?;
        for (property, value) in settings {
            set_raw(&c, property, value)?;
        }
        Dataset::open(pool, name, Access::default())
    }

    pub(crate) fn open(pool: &Pool, name: &str, access: Access) -> Result<Dataset> {
        let c = full(pool, name)?;
        let mut raw = std::ptr::null_mut();
        let mut trouble = ffi::pw_log_trouble::default();
        let mut how = 0;
        if access.readonly {
            how |= ffi::PW_OPEN_READONLY;
        }
        if access.ignore_acls {
            how |= ffi::PW_OPEN_IGNORE_ACLS;
        }
        let _logs = pool.inner.share_logs();
        // SAFETY: a C string, room for the pointer, which is only used after success, and a writable struct.
        let errno = unsafe { ffi::pw_dataset_open(c.as_ptr(), how as c_int, &mut raw, &mut trouble) };
        if errno != 0 && trouble.error != 0 {
            let dataset = c.to_string_lossy().into_owned();
            return Err(Error::Log { dataset, why: log_trouble(&trouble), errno: trouble.error });
        }
        check("opening the dataset", c.to_string_lossy(), errno)?;
        Ok(Dataset { inner: Arc::new(Inner::new(raw, c, pool)) })
    }

    /// Returns the full name, including the pool's.
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// Sets a property: `set("recordsize", "16K")`. Takes effect at once.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the property or the value is unknown; [`Error::LimitBelowUse`] if a quota is below the used space;
    /// [`Error::Engine`] if the library refuses.
    pub fn set(&self, property: &str, value: &str) -> Result<()> {
        set_raw(&self.inner.name, property, value)
    }

    /// Returns a property's value, sizes in bytes.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the property is unknown; [`Error::Engine`] if the library refuses.
    pub fn get(&self, property: &str) -> Result<String> {
        self.get_with_source(property).map(|(value, _)| value)
    }

    /// Returns a property's value, and its source as `zfs get` names it: `default`, `local`, `inherited from DATASET` or
    /// `received`.
    ///
    /// # Errors
    /// As [`Dataset::get`].
    pub fn get_with_source(&self, property: &str) -> Result<(String, String)> {
        let (value, source) = self.get_raw(&c_text(property::find_settable(property)?.name)?)?;
        let source = match source {
            from if from.is_empty() => "default".to_owned(),
            from if from == self.name() => "local".to_owned(),
            from if from == "$recvd" => "received".to_owned(),
            from => format!("inherited from {from}"),
        };
        Ok((value, source))
    }

    /// Returns the type of ACLs that a kernel supports in this dataset: `off`, `posix` or `nfsv4`. This engine supports modes
    /// only.
    ///
    /// # Errors
    /// [`Error::Engine`] if the library refuses.
    pub fn acl_type(&self) -> Result<String> {
        self.get_raw(c"acltype").map(|(value, _)| value)
    }

    /// Returns a property's value and the dataset that sets it, as `pw_dataset_get()` does.
    fn get_raw(&self, property: &CStr) -> Result<(String, String)> {
        let (mut value, mut source) = ([0u8; 1024], [0u8; NAME_BYTES]);
        // SAFETY: `value` is writable for its length, and `source` has room for the name of a dataset.
        let errno = unsafe {
            let (name, room) = (self.inner.name.as_ptr(), value.len());
            let (value, source) = (value.as_mut_ptr().cast(), source.as_mut_ptr().cast());
            ffi::pw_dataset_get(name, property.as_ptr(), value, room, source)
        };
        check("reading a property of", self.name(), errno)?;
        Ok((text_of(&value), text_of(&source)))
    }

    /// Clears a property, which is then inherited from the parent, or has its default.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the property is unknown or cannot be inherited; [`Error::Engine`] if the library refuses.
    pub fn inherit(&self, property: &str) -> Result<()> {
        let known = property::find_settable(property)?;
        let p = c_text(known.name)?;
        // SAFETY: two C strings.
        let errno = unsafe { ffi::pw_dataset_inherit(self.inner.name.as_ptr(), p.as_ptr()) };
        if errno == libc::EINVAL {
            return Err(Error::Invalid(format!(
                "{} cannot be inherited: it belongs to one dataset",
                known.name
            )));
        }
        check("inheriting a property of", self.name(), errno)
    }

    /// Takes a snapshot.
    ///
    /// # Errors
    /// [`Error::Engine`] if the library refuses.
    pub fn snapshot(&self, snapshot: &str) -> Result<()> {
        snapshot_all(&[c_text(&format!("{}@{snapshot}", self.name()))?])
    }

    /// Opens a snapshot of this dataset, read-only.
    ///
    /// # Errors
    /// [`Error::Engine`] if the library refuses.
    pub fn open_snapshot(&self, pool: &Pool, snapshot: &str) -> Result<Dataset> {
        pool.open_snapshot(self.name_in(pool), snapshot)
    }

    /// Returns the name without the pool's; empty for the root dataset.
    pub fn name_in(&self, pool: &Pool) -> &str {
        self.name().strip_prefix(pool.name()).unwrap_or_default().trim_start_matches('/')
    }

    /// Closes the dataset.
    ///
    /// # Errors
    /// Returns the dataset, still open, if another handle to it, its nodes or its files exists.
    pub fn close(self) -> std::result::Result<(), Dataset> {
        Arc::try_unwrap(self.inner).map(drop).map_err(|inner| Dataset { inner })
    }

    /// Returns space and compression ratios, which are current after [`Pool::sync`].
    ///
    /// # Errors
    /// [`Error::Engine`] if the library refuses.
    pub fn stats(&self) -> Result<DatasetStats> {
        self.inner.stats()
    }

    /// Returns the traffic of the intent log since the dataset was opened.
    pub fn zil_stats(&self) -> ZilStats {
        self.inner.zil_stats()
    }

    /// Returns the number of log records that were not replayed, because the dataset is open read-only. It does not show these
    /// acknowledged changes.
    pub fn log_pending(&self) -> u64 {
        // SAFETY: an open dataset.
        unsafe { ffi::pw_dataset_log_pending(self.inner.raw) }
    }

    /// Returns the number of log records that were replayed when the dataset was opened.
    pub fn replayed(&self) -> u64 {
        let mut n = 0;
        // SAFETY: as above.
        unsafe { ffi::pw_dataset_replayed(self.inner.raw, &mut n) };
        n
    }
}

/// Takes snapshots of datasets of one pool, by their full names: all at one instant, or none.
fn snapshot_all(names: &[CString]) -> Result<()> {
    let raw: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    let mut failed = 0;
    // SAFETY: an array of C strings that outlives the call, and a writable number.
    let errno = unsafe { ffi::pw_dataset_snapshot(raw.as_ptr(), raw.len(), &mut failed) };
    let on = names.get(failed).map_or_else(Default::default, |name| name.to_string_lossy());
    check("taking the snapshot", on, errno)
}

/// Returns the text before the first NUL.
fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Describes why a log cannot be replayed.
fn log_trouble(trouble: &ffi::pw_log_trouble) -> String {
    // SAFETY: null, or a static C string of the C side.
    let what = unsafe { (!trouble.what.is_null()).then(|| CStr::from_ptr(trouble.what)) };
    let what = what.map_or_else(String::new, |what| what.to_string_lossy().into_owned());
    let mut text = format!("{what}: {}", crate::error::explain(trouble.error));
    let mut details = Vec::new();
    if trouble.seq != 0 {
        details.push(format!("record {}, type {}, object {}", trouble.seq, trouble.type_, trouble.object));
    }
    if trouble.size != 0 {
        let (vdev, offset, size) = (trouble.vdev, trouble.offset, trouble.size);
        details.push(format!("block of {size} bytes at offset {offset:#x} of top-level vdev {vdev}"));
    }
    if !details.is_empty() {
        text.push_str(&format!(" ({})", details.join("; ")));
    }
    text
}

fn list(pool: &Pool) -> Result<Vec<String>> {
    extern "C" fn each(name: *const c_char, arg: *mut c_void) {
        // SAFETY: pw_dataset_list() calls this with a C string and the vector passed below.
        unsafe { (*arg.cast::<Vec<String>>()).push(CStr::from_ptr(name).to_string_lossy().into_owned()) }
    }
    let mut names: Vec<String> = Vec::new();
    // SAFETY: the vector outlives the call.
    let errno = unsafe {
        ffi::pw_dataset_list(pool.inner.name.as_ptr(), Some(each), (&raw mut names).cast::<c_void>())
    };
    check("listing the datasets of", pool.name(), errno)?;
    names.sort();
    Ok(names)
}

impl Pool {
    /// Creates and opens a dataset. `name` does not include the pool's name.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a setting is invalid; [`Error::Engine`] if the library refuses.
    pub fn create_dataset(&self, name: &str, settings: &Settings) -> Result<Dataset> {
        Dataset::create(self, name, settings)
    }

    /// Opens a dataset, and replays its intent log.
    ///
    /// # Errors
    /// As [`Pool::open_dataset_with`].
    pub fn open_dataset(&self, name: &str) -> Result<Dataset> {
        Dataset::open(self, name, Access::default())
    }

    /// Opens a dataset with all options.
    ///
    /// # Errors
    /// [`Error::Log`] if its log cannot be replayed completely; [`Error::Engine`] if the library refuses.
    pub fn open_dataset_with(&self, name: &str, access: Access) -> Result<Dataset> {
        Dataset::open(self, name, access)
    }

    /// Returns the names of all datasets and snapshots, the root first.
    ///
    /// # Errors
    /// [`Error::Engine`] if the library refuses.
    pub fn list(&self) -> Result<Vec<String>> {
        list(self)
    }

    /// Takes a snapshot of each of these datasets, named without the pool's name, at one instant. After an error, no snapshot
    /// was taken.
    ///
    /// # Errors
    /// [`Error::Engine`] if the library refuses.
    pub fn snapshot_all(&self, datasets: &[&str], snapshot: &str) -> Result<()> {
        let names: Result<Vec<CString>> =
            datasets.iter().map(|dataset| full(self, &format!("{dataset}@{snapshot}"))).collect();
        snapshot_all(&names?)
    }

    /// Opens a snapshot of a dataset, read-only. `dataset` does not include the pool's name.
    ///
    /// # Errors
    /// [`Error::Engine`] if the library refuses.
    pub fn open_snapshot(&self, dataset: &str, snapshot: &str) -> Result<Dataset> {
        let readonly = Access { readonly: true, ignore_acls: true };
        Dataset::open(self, &format!("{dataset}@{snapshot}"), readonly)
    }

    /// Returns the name of a dataset's latest snapshot without the dataset's, or `None` if it has no snapshot.
    ///
    /// # Errors
    /// [`Error::Engine`] if the library refuses.
    pub fn latest_snapshot(&self, dataset: &str) -> Result<Option<String>> {
        let c = full(self, dataset)?;
        let mut out = [0u8; 1024];
        // SAFETY: a C string and room for a name.
        let errno = unsafe { ffi::pw_dataset_latest(c.as_ptr(), out.as_mut_ptr().cast(), out.len()) };
        if errno == libc::ENOENT {
            return Ok(None);
        }
        check("finding the snapshots of", c.to_string_lossy(), errno)?;
        Ok(text_of(&out).split_once('@').map(|(_, snapshot)| snapshot.to_owned()))
    }

    /// Rolls a dataset back to its latest snapshot. All later changes are lost.
    ///
    /// # Errors
    /// [`Error::Engine`]: `EEXIST` if there is a later snapshot, `EBUSY` if the dataset is open.
    pub fn rollback(&self, dataset: &str, snapshot: &str) -> Result<()> {
        let (name, to) = (full(self, dataset)?, full(self, &format!("{dataset}@{snapshot}"))?);
        // SAFETY: two C strings; the library refuses an open dataset.
        let errno = unsafe { ffi::pw_dataset_rollback(name.as_ptr(), to.as_ptr()) };
        check("rolling back", to.to_string_lossy(), errno)
    }

    /// Creates a dataset with the content of a snapshot, whose blocks it shares. Neither name includes the pool's.
    ///
    /// # Errors
    /// [`Error::Engine`]: `ENOENT` if the snapshot or the parent does not exist, `EEXIST` if the dataset exists.
    pub fn clone_snapshot(&self, snapshot: &str, name: &str) -> Result<()> {
        let (origin, c) = (full(self, snapshot)?, full(self, name)?);
        // SAFETY: two C strings.
        let errno = unsafe { ffi::pw_dataset_clone(c.as_ptr(), origin.as_ptr()) };
        check("cloning", format_args!("{} to {}", origin.to_string_lossy(), c.to_string_lossy()), errno)
    }

    /// Returns the full name of the snapshot that a dataset is a clone of, or `None` if it is not a clone.
    ///
    /// # Errors
    /// [`Error::Engine`] if the library refuses.
    pub fn origin(&self, dataset: &str) -> Result<Option<String>> {
        let c = full(self, dataset)?;
        let mut out = [0u8; NAME_BYTES];
        // SAFETY: a C string and room for a name.
        let errno = unsafe { ffi::pw_dataset_origin(c.as_ptr(), out.as_mut_ptr().cast(), out.len()) };
        if errno == libc::ENOENT {
            return Ok(None);
        }
        check("reading the origin of", c.to_string_lossy(), errno)?;
        Ok(Some(text_of(&out)))
    }

    /// Makes a clone the owner of its origin and of the snapshots before it; the dataset that had them becomes a clone of
    /// it. `name` does not include the pool's name.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the dataset is not a clone, or if both have a snapshot of the same name; [`Error::Engine`] if the
    /// library refuses.
    pub fn promote(&self, name: &str) -> Result<()> {
        let c = full(self, name)?;
        let mut conflict = [0u8; NAME_BYTES];
        // SAFETY: a C string and room for the name of a snapshot.
        let errno = unsafe { ffi::pw_dataset_promote(c.as_ptr(), conflict.as_mut_ptr().cast()) };
        let dataset = c.to_string_lossy();
        match (errno, text_of(&conflict)) {
            (libc::EINVAL, _) => Err(Error::Invalid(format!("promoting {dataset}: it is not a clone"))),
            (libc::EEXIST, snapshot) if !snapshot.is_empty() => {
                let why =
                    format!("promoting {dataset}: its origin's dataset has a snapshot @{snapshot}, too");
                Err(Error::Invalid(why))
            }
            _ => check("promoting", dataset, errno),
        }
    }

    /// Destroys a dataset or, with `@`, a snapshot. `name` does not include the pool's name.
    ///
    /// # Errors
    /// [`Error::Engine`] if the library refuses.
    pub fn destroy(&self, name: &str) -> Result<()> {
        let c = full(self, name)?;
        let _logs = self.inner.share_logs();
        // SAFETY: a C string; the library refuses an open dataset.
        let errno = unsafe {
            if name.contains('@') {
                ffi::pw_snapshot_destroy(c.as_ptr())
            } else {
                ffi::pw_dataset_destroy(c.as_ptr())
            }
        };
        check("destroying", c.to_string_lossy(), errno)
    }
}
