//! The library as a whole: one per process.

use std::ffi::CStr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::c_text::c_text;
use crate::error::check;
use crate::{ArcSizes, ArcStats, Device, Result, VdevStats, event, ffi, library};

/// The engine's limits. Sizes are bytes.
#[derive(Clone, Debug)]
pub struct Config {
    /// The ARC's size, held as minimum and maximum alike.
    pub arc_bytes: u64,
    /// `zfs_dirty_data_max`: writes wait when this much is not yet on disk. Kernel default: a tenth of the memory,
    /// 4 GiB at most.
    pub dirty_bytes: u64,
    /// `zfs_txg_timeout` in seconds; kernel default 5.
    pub txg_timeout_s: u32,
    /// How many requests all vdevs together can have under way, if more than the library's 16; fixed when the engine
    /// starts. For devices that are played, which each take their time.
    pub vdev_threads: u32,
}

impl Default for Config {
    fn default() -> Self {
        Config { arc_bytes: 512 << 20, dirty_bytes: 512 << 20, txg_timeout_s: 5, vdev_threads: 0 }
    }
}

/// Proof that libzpool runs in this process.
#[derive(Clone, Copy, Debug)]
pub struct Engine {
    _private: (),
}

/// Where the library would keep its list of pools. No file can be there, and pools are opened with `cachefile=none`.
const NO_CACHE_FILE: &CStr = c"/proc/self/poolwright-keeps-no-cachefile";

static RUNNING: Mutex<Option<Engine>> = Mutex::new(None);

impl Engine {
    /// Starts the engine, or gives the running one with the new limits.
    ///
    /// # Errors
    /// [`Error::OtherLibrary`]: the libzpool that is loaded is not the one that the engine was compiled for.
    pub fn start(config: &Config) -> Result<Engine> {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = *running {
            engine.set_arc(config.arc_bytes);
            engine.set_dirty(config.dirty_bytes);
            engine.set_txg_timeout(config.txg_timeout_s);
            return Ok(engine);
        }
        library::check()?;
        let c = ffi::pw_engine_config {
            cache_path: NO_CACHE_FILE.as_ptr(),
            arc_bytes: config.arc_bytes,
            dirty_bytes: config.dirty_bytes,
            txg_timeout_s: config.txg_timeout_s,
            vdev_threads: config.vdev_threads,
        };
        // SAFETY: called once (RUNNING); the path is a static C string and the struct lives over the call.
        unsafe {
            ffi::pw_fault_on_host_error(Some(event::host_refused));
            ffi::pw_engine_start(&c);
        }
        let engine = Engine { _private: () };
        *running = Some(engine);
        Ok(engine)
    }

    /// The engine, if it has been started in this process.
    pub fn running() -> Option<Engine> {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ARC limit, at once; the ARC itself follows as I/O happens.
    pub fn set_arc(self, bytes: u64) {
        // SAFETY: a plain store and a library call that takes its own locks; the engine runs.
        unsafe { ffi::pw_engine_set_arc(bytes) }
    }

    /// `zfs_dirty_data_max`.
    pub fn set_dirty(self, bytes: u64) {
        // SAFETY: a plain store to a tunable that the library reads afresh each time.
        unsafe { ffi::pw_engine_set_dirty(bytes) }
    }

    /// `zfs_txg_timeout`.
    pub fn set_txg_timeout(self, seconds: u32) {
        // SAFETY: as above.
        unsafe { ffi::pw_engine_set_txg_timeout(seconds) }
    }

    /// The module parameters that [`Engine::set_tunable`] takes.
    pub fn tunables() -> impl Iterator<Item = &'static str> {
        // SAFETY: null, or a static C string.
        let name = |at| unsafe {
            let name = ffi::pw_engine_tunable(at);
            (!name.is_null()).then(|| CStr::from_ptr(name))
        };
        (0..).map_while(name).filter_map(|name| name.to_str().ok())
    }

    /// Sets a module parameter, of those that [`Engine::tunables`] names, from now on. For where a kernel reads it once,
    /// set it before the pool is opened.
    pub fn set_tunable(self, name: &str, value: u64) -> Result<()> {
        let c = c_text(name)?;
        // SAFETY: the name is a C string; unknown names are refused there.
        check("setting the tunable", name, unsafe { ffi::pw_engine_set_tunable(c.as_ptr(), value) })
    }

    /// The ARC's counters since the engine started.
    pub fn arc_stats(self) -> ArcStats {
        let mut raw = ffi::pw_arc_stats::default();
        // SAFETY: `raw` is a writable struct of the C side's layout.
        unsafe { ffi::pw_engine_arc_stats(&mut raw) };
        ArcStats::from(raw)
    }

    /// What the ARC's bytes are, and how it is balanced.
    pub fn arc_sizes(self) -> ArcSizes {
        let mut raw = ffi::pw_arc_sizes::default();
        // SAFETY: as above.
        unsafe { ffi::pw_engine_arc_sizes(&mut raw) };
        ArcSizes::from(raw)
    }

    /// What all vdevs moved since the engine started, counted at the seam.
    pub fn vdev_stats(self) -> VdevStats {
        let mut raw = ffi::pw_vdev_stats::default();
        // SAFETY: as above.
        unsafe { ffi::pw_seam_totals(&mut raw) };
        VdevStats::from(raw)
    }

    /// Makes every vdev file behave like a device of this kind from now on, each with its own.
    pub fn set_device(self, device: &Device) {
        // SAFETY: the struct is copied under the seam's lock; without a path nothing is allocated that could fail.
        let _ = unsafe { ffi::pw_seam_set_device(std::ptr::null(), &device.to_raw()) };
    }

    /// The same for one file, open or not, by its absolute path; until the next [`Engine::set_device`].
    pub fn set_device_of(self, file: &Path, device: &Device) -> Result<()> {
        let name = file.to_string_lossy();
        let c = c_text(&name)?;
        // SAFETY: path and struct are copied under the seam's lock.
        let errno = unsafe { ffi::pw_seam_set_device(c.as_ptr(), &device.to_raw()) };
        check("setting the device of", &name, errno)
    }

    /// The OpenZFS version of the library that is loaded.
    pub fn version() -> String {
        library::version()
    }
}
