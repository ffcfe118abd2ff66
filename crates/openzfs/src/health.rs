//! How a pool is: scrubs, the state and errors of its vdevs.

use std::ffi::{CStr, c_char, c_void};

use serde::{Deserialize, Serialize};

use crate::error::check;
use crate::{Pool, Result, ffi};

/// What a scan does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScanKind {
    /// Reads and checks everything.
    Scrub,
    /// Brings a vdev that was away up to date.
    Resilver,
}

/// How far a scan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScanState {
    /// Under way, or waiting for the pool to be open again.
    Scanning,
    /// Done.
    Finished,
    /// Ended before it was done.
    Canceled,
}

/// The pool's last scrub or resilver, as the pool itself remembers it. Sizes are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scan {
    /// What.
    pub kind: ScanKind,
    /// How far.
    pub state: ScanState,
    /// Begin, in seconds since 1970.
    pub start_unix_s: u64,
    /// End, in seconds since 1970; 0 while it goes on.
    pub end_unix_s: u64,
    /// What there is to read.
    pub to_examine: u64,
    /// What was found to need no reading.
    pub skipped: u64,
    /// What was found to read so far.
    pub examined: u64,
    /// What was read so far.
    pub issued: u64,
    /// What was wrong and was put right from elsewhere.
    pub repaired: u64,
    /// Blocks that are lost.
    pub errors: u64,
    /// Whether it was asked to pause.
    pub paused: bool,
}

/// A vdev of an open pool. Errors are counted since it was opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VdevHealth {
    /// Its number as text, as its label has it: not every JSON reader keeps numbers of that size.
    pub guid: String,
    /// `ONLINE`, `DEGRADED`, `FAULTED`, `OFFLINE`, `REMOVED` or `UNAVAIL`, as `zpool status` has it.
    pub state: String,
    /// Bytes allocated, of the root, a top-level vdev or a cache vdev; 0 of all others.
    #[serde(default)]
    pub allocated: u64,
    /// Bytes it has room for, of the same.
    #[serde(default)]
    pub size: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes that failed.
    pub write_errors: u64,
    /// Blocks with a wrong checksum.
    pub checksum_errors: u64,
}

impl Pool {
    /// Reads every block and checks it, to the end; one that is running already is waited for.
    pub fn scrub(&self) -> Result<()> {
        // SAFETY: a NUL-terminated name of an imported pool, as in the calls below.
        check("scrubbing the pool", self.name(), unsafe { ffi::pw_pool_scrub(self.inner.name.as_ptr(), 1) })
    }

    /// Starts a scrub. `EBUSY` if one is running.
    pub fn start_scrub(&self) -> Result<()> {
        // SAFETY: see `scrub`.
        let errno = unsafe { ffi::pw_pool_scrub(self.inner.name.as_ptr(), 0) };
        check("starting a scrub of", self.name(), errno)
    }

    /// Ends the scrub that is running. `ENOENT` if there is none.
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

    /// The last scrub or resilver; `None` if there never was one.
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

    /// Blocks in the pool's error log: what could not be read whole by anybody.
    pub fn data_errors(&self) -> Result<u64> {
        Ok(self.raw_scan()?.data_errors)
    }

    /// All vdevs, the root first and each before what it is made of, then those of the cache.
    pub fn vdevs(&self) -> Result<Vec<VdevHealth>> {
        extern "C" fn each(vdev: *const ffi::pw_vdev_health, state: *const c_char, arg: *mut c_void) {
            // SAFETY: called by pw_pool_vdevs below with a vdev, a C string and the vector it was given.
            let (all, state, vdev) =
                unsafe { (&mut *arg.cast::<Vec<VdevHealth>>(), CStr::from_ptr(state), *vdev) };
            all.push(VdevHealth {
                guid: vdev.guid.to_string(),
                state: state.to_string_lossy().into_owned(),
                allocated: vdev.allocated,
                size: vdev.size,
                read_errors: vdev.read_errors,
                write_errors: vdev.write_errors,
                checksum_errors: vdev.checksum_errors,
            });
        }
        let mut all: Vec<VdevHealth> = Vec::new();
        // SAFETY: the callback gets the vector, which outlives the call.
        let errno = unsafe {
            ffi::pw_pool_vdevs(self.inner.name.as_ptr(), Some(each), (&raw mut all).cast::<c_void>())
        };
        check("reading the vdevs of", self.name(), errno)?;
        Ok(all)
    }
}
