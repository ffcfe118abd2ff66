//! Datasets: create, open with log replay, properties, snapshots, figures.

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
    /// For reading only; its log is not replayed.
    pub readonly: bool,
    /// Serve nodes whose ACL says more than their mode as if they had none. Without this they cannot be opened.
    pub ignore_acls: bool,
}

/// An open dataset. Closed when its last handle and file are gone.
#[derive(Clone, Debug)]
pub struct Dataset {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) raw: *mut ffi::pw_dataset,
    name: CString,
    _pool: Arc<pool::Inner>,
}

// SAFETY: the C side locks whatever it shares (node table, names, ranges); the pointer itself never changes.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: opened once, closed once; every file holds this value, so none is open.
        unsafe { ffi::pw_dataset_close(self.raw) }
    }
}

/// The full name of a dataset or, with `@`, a snapshot; without the pool's name before it.
fn full(pool: &Pool, name: &str) -> Result<CString> {
    let between = if name.is_empty() || name.starts_with('@') { "" } else { "/" };
    c_text(&format!("{}{between}{name}", pool.name()))
}

fn set_raw(name: &CStr, property: &str, value: &str) -> Result<()> {
    let known = property::find_settable(property)?;
    let plain = property::plain_value(known, value)?;
    let (p, v) = (c_text(known.name)?, c_text(&plain)?);
    // SAFETY: three C strings; the library copies them.
    let errno = unsafe { ffi::pw_dataset_set(name.as_ptr(), p.as_ptr(), v.as_ptr()) };
    if errno == libc::EINVAL {
        return Err(Error::Invalid(format!(
            "{property}={value}: no such value; {} takes {}",
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
        // SAFETY: a C string of a dataset in an imported pool.
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
        // SAFETY: a C string, a place for the pointer that is only used on success, and a writable struct.
        let errno = unsafe { ffi::pw_dataset_open(c.as_ptr(), how as c_int, &mut raw, &mut trouble) };
        if errno != 0 && trouble.error != 0 {
            let dataset = c.to_string_lossy().into_owned();
            return Err(Error::Log { dataset, why: log_trouble(&trouble), errno: trouble.error });
        }
        check("opening the dataset", c.to_string_lossy(), errno)?;
        Ok(Dataset { inner: Arc::new(Inner { raw, name: c, _pool: pool.inner.clone() }) })
    }

    /// Its full name, the pool's included.
    pub fn name(&self) -> &str {
        self.inner.name.to_str().expect("made from a str")
    }

    /// Sets a property, at once: `set("recordsize", "16K")`.
    pub fn set(&self, property: &str, value: &str) -> Result<()> {
        set_raw(&self.inner.name, property, value)
    }

    /// A property's value; sizes in plain bytes.
    pub fn get(&self, property: &str) -> Result<String> {
        self.get_with_source(property).map(|(value, _)| value)
    }

    /// The same, and where it comes from in `zfs get`'s words: `default`, `local`, `inherited from DATASET`, `received`.
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

    /// The kind of ACLs that a kernel serves in it: `off`, `posix` or `nfsv4`. This engine serves modes only.
    pub fn acl_type(&self) -> Result<String> {
        self.get_raw(c"acltype").map(|(value, _)| value)
    }

    /// A property's value, and the dataset that has set it, as `pw_dataset_get` spells both.
    fn get_raw(&self, property: &CStr) -> Result<(String, String)> {
        let (mut value, mut source) = ([0u8; 1024], [0u8; NAME_BYTES]);
        // SAFETY: `value` is writable for its length, `source` for the name of a dataset.
        let errno = unsafe {
            let (name, room) = (self.inner.name.as_ptr(), value.len());
            let (value, source) = (value.as_mut_ptr().cast(), source.as_mut_ptr().cast());
            ffi::pw_dataset_get(name, property.as_ptr(), value, room, source)
        };
        check("reading a property of", self.name(), errno)?;
        let text = |bytes: &[u8]| {
            let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(&bytes[..end]).into_owned()
        };
        Ok((text(&value), text(&source)))
    }

    /// Removes a property's own value: it is then inherited from the dataset above, or has its default.
    pub fn inherit(&self, property: &str) -> Result<()> {
        let known = property::find_settable(property)?;
        let p = c_text(known.name)?;
        // SAFETY: two C strings.
        let errno = unsafe { ffi::pw_dataset_inherit(self.inner.name.as_ptr(), p.as_ptr()) };
        if errno == libc::EINVAL {
            return Err(Error::Invalid(format!(
                "{} cannot be inherited; set it to none to clear it",
                known.name
            )));
        }
        check("inheriting a property of", self.name(), errno)
    }

    /// Takes a snapshot.
    pub fn snapshot(&self, snapshot: &str) -> Result<()> {
        snapshot_all(&[c_text(&format!("{}@{snapshot}", self.name()))?])
    }

    /// Opens a snapshot of this dataset, read-only.
    pub fn open_snapshot(&self, pool: &Pool, snapshot: &str) -> Result<Dataset> {
        pool.open_snapshot(self.name_in(pool), snapshot)
    }

    /// Its name without the pool's; empty for the root dataset.
    pub fn name_in(&self, pool: &Pool) -> &str {
        self.name().strip_prefix(pool.name()).unwrap_or_default().trim_start_matches('/')
    }

    /// Closes it, if this is its last handle and none of its nodes and files is held. Else gives it back, still open.
    pub fn close(self) -> std::result::Result<(), Dataset> {
        Arc::try_unwrap(self.inner).map(drop).map_err(|inner| Dataset { inner })
    }

    /// Space and ratios; up to date after [`Pool::sync`].
    pub fn stats(&self) -> Result<DatasetStats> {
        let mut raw = ffi::pw_dataset_stats::default();
        // SAFETY: an open dataset and a writable struct.
        check("reading the space of", self.name(), unsafe {
            ffi::pw_dataset_stats(self.inner.raw, &mut raw)
        })?;
        Ok(DatasetStats::from(raw))
    }

    /// Intent log traffic since the dataset was opened.
    pub fn zil_stats(&self) -> ZilStats {
        let mut raw = ffi::pw_zil_stats::default();
        // SAFETY: as above.
        unsafe { ffi::pw_dataset_zil_stats(self.inner.raw, &mut raw) };
        ZilStats::from(raw)
    }

    /// Records in its log that were not replayed, because it is open read-only: acknowledged changes that it does not show.
    pub fn log_pending(&self) -> u64 {
        // SAFETY: an open dataset.
        unsafe { ffi::pw_dataset_log_pending(self.inner.raw) }
    }

    /// Log records played back when it was opened.
    pub fn replayed(&self) -> u64 {
        let mut n = 0;
        // SAFETY: as above.
        unsafe { ffi::pw_dataset_replayed(self.inner.raw, &mut n) };
        n
    }
}

/// Takes snapshots, by their full names, of datasets of one pool: of all of them at one instant, or of none.
fn snapshot_all(names: &[CString]) -> Result<()> {
    let raw: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    let mut failed = 0;
    // SAFETY: an array of C strings that lives over the call, and a writable number.
    let errno = unsafe { ffi::pw_dataset_snapshot(raw.as_ptr(), raw.len(), &mut failed) };
    let on = names.get(failed).map_or_else(Default::default, |name| name.to_string_lossy());
    check("taking the snapshot", on, errno)
}

/// What is wrong with a log, in a sentence's part.
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
        // SAFETY: called by pw_dataset_list below with the vector it was given and a C string.
        unsafe { (*arg.cast::<Vec<String>>()).push(CStr::from_ptr(name).to_string_lossy().into_owned()) }
    }
    let mut names: Vec<String> = Vec::new();
    // SAFETY: the callback gets the vector, which outlives the call.
    let errno = unsafe {
        ffi::pw_dataset_list(pool.inner.name.as_ptr(), Some(each), (&raw mut names).cast::<c_void>())
    };
    check("listing the datasets of", pool.name(), errno)?;
    names.sort();
    Ok(names)
}

impl Pool {
    /// Creates and opens a dataset; `name` without the pool's.
    pub fn create_dataset(&self, name: &str, settings: &Settings) -> Result<Dataset> {
        Dataset::create(self, name, settings)
    }

    /// Opens a dataset, replaying its log if it has one.
    pub fn open_dataset(&self, name: &str) -> Result<Dataset> {
        Dataset::open(self, name, Access::default())
    }

    /// The same with all options.
    ///
    /// # Errors
    /// [`Error::Log`]: its log cannot be replayed whole.
    pub fn open_dataset_with(&self, name: &str, access: Access) -> Result<Dataset> {
        Dataset::open(self, name, access)
    }

    /// Names of all datasets and snapshots, the root first.
    pub fn list(&self) -> Result<Vec<String>> {
        list(self)
    }

    /// Takes a snapshot of each of these datasets, named without the pool's name, at one instant: of all of them, or after
    /// an error of none.
    pub fn snapshot_all(&self, datasets: &[&str], snapshot: &str) -> Result<()> {
        let names: Result<Vec<CString>> =
            datasets.iter().map(|dataset| full(self, &format!("{dataset}@{snapshot}"))).collect();
        snapshot_all(&names?)
    }

    /// Opens a snapshot of a dataset, read-only; `dataset` without the pool's name.
    pub fn open_snapshot(&self, dataset: &str, snapshot: &str) -> Result<Dataset> {
        let readonly = Access { readonly: true, ignore_acls: true };
        Dataset::open(self, &format!("{dataset}@{snapshot}"), readonly)
    }

    /// Name of a dataset's latest snapshot, without the dataset's; `None` if it has none.
    pub fn latest_snapshot(&self, dataset: &str) -> Result<Option<String>> {
        let c = full(self, dataset)?;
        let mut out = [0u8; 1024];
        // SAFETY: a C string and room for a name.
        let errno = unsafe { ffi::pw_dataset_latest(c.as_ptr(), out.as_mut_ptr().cast(), out.len()) };
        if errno == libc::ENOENT {
            return Ok(None);
        }
        check("looking for snapshots of", c.to_string_lossy(), errno)?;
        let end = out.iter().position(|b| *b == 0).unwrap_or(out.len());
        let full = String::from_utf8_lossy(&out[..end]);
        Ok(full.split_once('@').map(|(_, snapshot)| snapshot.to_owned()))
    }

    /// Takes a dataset back to a snapshot of it, which must be its latest; what was written since is lost. `EBUSY` while
    /// the dataset is open.
    pub fn rollback(&self, dataset: &str, snapshot: &str) -> Result<()> {
        let (name, to) = (full(self, dataset)?, full(self, &format!("{dataset}@{snapshot}"))?);
        // SAFETY: two C strings; the library refuses a dataset that is open.
        let errno = unsafe { ffi::pw_dataset_rollback(name.as_ptr(), to.as_ptr()) };
        check("rolling back", to.to_string_lossy(), errno)
    }

    /// Destroys a dataset or, with `@`, a snapshot; `name` without the pool's.
    pub fn destroy(&self, name: &str) -> Result<()> {
        let c = full(self, name)?;
        // SAFETY: a C string; the library refuses what is open.
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
