//! The health of a pool: scrubs, and the state and errors of its vdevs.

use std::ffi::{CStr, c_char, c_void};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::check;
use crate::{Pool, Result, ffi};

/// The kind of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScanKind {
    /// Reads and verifies all blocks.
    Scrub,
    /// Brings a vdev that was missing up to date.
    Resilver,
}

/// The state of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScanState {
    /// In progress, or interrupted until the pool is open again.
    Scanning,
    /// Complete.
    Finished,
    /// Ended before it was complete.
    Canceled,
}

/// The pool's last scrub or resilver, as the pool records it. Sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Scan {
    /// The kind.
    pub kind: ScanKind,
    /// The state.
    pub state: ScanState,
    /// The start, in seconds since 1970.
    pub start_unix_s: u64,
    /// The end, in seconds since 1970; 0 while the scan is in progress.
    pub end_unix_s: u64,
    /// Bytes to examine.
    pub to_examine: u64,
    /// Bytes that need no reading.
    pub skipped: u64,
    /// Bytes examined so far.
    pub examined: u64,
    /// Bytes read so far.
    pub issued: u64,
    /// Bytes repaired from another copy.
    pub repaired: u64,
    /// Number of blocks that cannot be repaired.
    pub errors: u64,
    /// Whether the scan is paused.
    pub paused: bool,
}

/// A vdev of an open pool. Errors are counted since the pool was opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VdevHealth {
    /// The GUID in its label, as text, because not every JSON reader represents numbers of this size.
    pub guid: String,
    /// `ONLINE`, `DEGRADED`, `FAULTED`, `OFFLINE`, `REMOVED` or `UNAVAIL`, as in `zpool status`; of a spare `AVAIL`, `INUSE`,
    /// `FAULTED` or `UNAVAIL`.
    pub state: String,
    /// Whether this is an entry of the pool's list of hot spares. A spare in use is also a leaf of the tree, with the same GUID.
    #[serde(default)]
    pub spare: bool,
    /// Bytes allocated, for the root, top-level vdevs and cache vdevs; otherwise 0.
    #[serde(default)]
    pub allocated: u64,
    /// Capacity in bytes, for the same vdevs; otherwise 0.
    #[serde(default)]
    pub size: u64,
    /// Number of reads that failed.
    pub read_errors: u64,
    /// Number of writes that failed.
    pub write_errors: u64,
    /// Number of blocks with a wrong checksum.
    pub checksum_errors: u64,
}

impl Pool {
    /// Scrubs the pool, or waits for the scrub that is running.
    ///
    /// # Errors
    /// [`crate::Error::Engine`] if the library refuses.
    pub fn scrub(&self) -> Result<()> {
        // SAFETY: a NUL-terminated name of an imported pool, as in the calls below.
        check("scrubbing the pool", self.name(), unsafe { ffi::pw_pool_scrub(self.inner.name.as_ptr(), 1) })
    }

    /// Starts a scrub.
    ///
    /// # Errors
    /// [`crate::Error::Engine`] with `EBUSY` if a scrub is running.
    pub fn start_scrub(&self) -> Result<()> {
        // SAFETY: see `scrub`.
        let errno = unsafe { ffi::pw_pool_scrub(self.inner.name.as_ptr(), 0) };
        check("starting a scrub of", self.name(), errno)
    }

    /// Stops the scrub that is running.
    ///
    /// # Errors
    /// [`crate::Error::Engine`] with `ENOENT` if no scrub is running.
    pub fn stop_scrub(&self) -> Result<()> {
        // SAFETY: see `scrub`.
        let errno = unsafe { ffi::pw_pool_scrub_stop(self.inner.name.as_ptr()) };
        check("stopping the scrub of", self.name(), errno)
    }

    fn raw_scan(&self) -> Result<ffi::pw_scan> {
        let mut raw = ffi::pw_scan::default();
        // SAFETY: see `scrub`; `raw` has the C side's layout.
        let errno = unsafe { ffi::pw_pool_scan(self.inner.name.as_ptr(), &mut raw) };
        check("reading the state of", self.name(), errno)?;
        Ok(raw)
    }

    /// Returns the last scrub or resilver, or `None` if there was none.
    ///
    /// # Errors
    /// [`crate::Error::Engine`] if the library refuses.
    pub fn scan(&self) -> Result<Option<Scan>> {
        let raw = self.raw_scan()?;
        let kind = match raw.function as u32 {
            ffi::PW_SCAN_SCRUB => ScanKind::Scrub,
            ffi::PW_SCAN_RESILVER => ScanKind::Resilver,
            _ => return Ok(None),
        };
        let state = match raw.state as u32 {
            ffi::PW_SCAN_FINISHED => ScanState::Finished,
            ffi::PW_SCAN_CANCELED => ScanState::Canceled,
            _ => ScanState::Scanning,
        };
        Ok(Some(Scan {
            kind,
            state,
            start_unix_s: raw.start,
            end_unix_s: if state == ScanState::Scanning { 0 } else { raw.end },
            to_examine: raw.to_examine,
            skipped: raw.skipped,
            examined: raw.examined,
            issued: raw.issued,
            repaired: raw.repaired,
            errors: raw.errors,
            paused: raw.paused != 0,
        }))
    }

    /// Returns the number of blocks in the pool's error log, which no program can read.
    ///
    /// # Errors
    /// [`crate::Error::Engine`] if the library refuses.
    pub fn data_errors(&self) -> Result<u64> {
        Ok(self.raw_scan()?.data_errors)
    }

    /// Returns all vdevs: the root first, each before its children, then the cache vdevs, then the hot spares.
    ///
    /// # Errors
    /// [`crate::Error::Engine`] if the library refuses.
    pub fn vdevs(&self) -> Result<Vec<VdevHealth>> {
        extern "C" fn each(vdev: *const ffi::pw_vdev_health, state: *const c_char, arg: *mut c_void) {
            // SAFETY: pw_pool_vdevs() calls this with a vdev, a C string and the vector passed below.
            let (all, state, vdev) =
                unsafe { (&mut *arg.cast::<Vec<VdevHealth>>(), CStr::from_ptr(state), *vdev) };
            all.push(VdevHealth {
                guid: vdev.guid.to_string(),
                state: state.to_string_lossy().into_owned(),
                spare: vdev.spare != 0,
                allocated: vdev.allocated,
                size: vdev.size,
                read_errors: vdev.read_errors,
                write_errors: vdev.write_errors,
                checksum_errors: vdev.checksum_errors,
            });
        }
        let mut all: Vec<VdevHealth> = Vec::new();
        // SAFETY: the vector outlives the call.
        let errno = unsafe {
            ffi::pw_pool_vdevs(self.inner.name.as_ptr(), Some(each), (&raw mut all).cast::<c_void>())
        };
        check("reading the vdevs of", self.name(), errno)?;
        Ok(all)
    }
}
