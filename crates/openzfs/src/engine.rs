//! The engine: libzpool, started once for each process.

use std::ffi::CStr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::c_text::c_text;
use crate::clock::VirtualClock;
use crate::error::check;
use crate::{ArcSizes, ArcStats, Device, Result, VdevStats, event, ffi, property};

/// The engine's limits. Sizes are in bytes.
#[derive(Clone, Debug)]
pub struct Config {
    /// The size of the ARC: both its minimum and its maximum.
    pub arc_bytes: u64,
    /// `zfs_dirty_data_max`: writes wait while more than this is not yet on disk. Kernel default: a tenth of the memory, at
    /// most 4 GiB.
    pub dirty_bytes: u64,
    /// `zfs_txg_timeout` in seconds; kernel default 5.
    pub txg_timeout_s: u32,
    /// The number of concurrent requests of all vdevs together, if more than the library's 16. Fixed when the engine starts.
    /// Emulated devices need more, because each of their requests occupies a thread.
    pub vdev_threads: u32,
    /// Runs the engine on the virtual clock ([`crate::clock`]). Only the first start of a process chooses the clock.
    pub clock: Option<VirtualClock>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            arc_bytes: 512 << 20,
            dirty_bytes: 512 << 20,
            txg_timeout_s: 5,
            vdev_threads: 0,
            clock: None,
        }
    }
}

/// Proof that libzpool runs in this process.
#[derive(Clone, Copy, Debug)]
pub struct Engine {
    _private: (),
}

/// The path of the library's list of pools. No file can exist there, and pools are opened with `cachefile=none`.
const NO_CACHE_FILE: &CStr = c"/proc/self/poolwright-keeps-no-cachefile";

static RUNNING: Mutex<Option<Engine>> = Mutex::new(None);

impl Engine {
    /// Starts the engine, or applies the limits to the running one.
    ///
    /// # Errors
    /// [`crate::Error::Engine`]: `ENOMEM` if the library cannot allocate memory, `EINVAL` if the clock's costs name an unknown codec.
    pub fn start(config: &Config) -> Result<Engine> {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = *running {
            engine.set_arc(config.arc_bytes);
            engine.set_dirty(config.dirty_bytes);
            engine.set_txg_timeout(config.txg_timeout_s);
            return Ok(engine);
        }
        let clock = config.clock.as_ref();
        let c = ffi::pw_engine_config {
            cache_path: NO_CACHE_FILE.as_ptr(),
            arc_bytes: config.arc_bytes,
            dirty_bytes: config.dirty_bytes,
            txg_timeout_s: config.txg_timeout_s,
            vdev_threads: config.vdev_threads,
            processors: clock.map_or(0, |clock| clock.processors.max(1)),
            seed: clock.map_or(0, |clock| clock.seed),
            costs: clock.map_or_else(|| Ok(Default::default()), |clock| clock.costs.set())?,
        };
        // SAFETY: called once (RUNNING); the path is a static C string, and the struct outlives the call.
        let errno = unsafe {
            ffi::pw_fault_on_host_error(Some(event::host_refused));
            ffi::pw_engine_start(&c)
        };
        check("starting", "the engine", errno)?;
        let engine = Engine { _private: () };
        *running = Some(engine);
        Ok(engine)
    }

    /// Returns the engine if it was started in this process.
    pub fn running() -> Option<Engine> {
        *RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the ARC limit in bytes at once. The size of the ARC follows with the next I/O.
    pub fn set_arc(self, bytes: u64) {
        // SAFETY: a plain store and a library call that takes its own locks; the engine was started.
        unsafe { ffi::pw_engine_set_arc(bytes) }
    }

    /// Sets `zfs_dirty_data_max`, in bytes.
    pub fn set_dirty(self, bytes: u64) {
        // SAFETY: a plain store to a tunable that the library reads at each use.
        unsafe { ffi::pw_engine_set_dirty(bytes) }
    }

    /// Sets `zfs_txg_timeout`, in seconds.
    pub fn set_txg_timeout(self, seconds: u32) {
        // SAFETY: as above.
        unsafe { ffi::pw_engine_set_txg_timeout(seconds) }
    }

    /// Returns the names of the module parameters that [`Engine::set_tunable`] accepts.
    pub fn tunables() -> impl Iterator<Item = &'static str> {
        // SAFETY: null, or a static C string.
        let name = |at| unsafe {
            let name = ffi::pw_engine_tunable(at);
            (!name.is_null()).then(|| CStr::from_ptr(name))
        };
        (0..).map_while(name).filter_map(|name| name.to_str().ok())
    }

    /// Parses `NAME=VALUE` for [`Engine::set_tunable`]; the value may be a size such as `1G`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if there is no such parameter, or the value is not a number.
    pub fn parse_tunable(text: &str) -> Result<(String, u64)> {
        match text.split_once('=') {
            Some((name, value)) if Engine::tunables().any(|known| known == name) => {
                Ok((name.to_owned(), property::parse_size(value)?))
            }
            _ => {
                let known: Vec<&str> = Engine::tunables().collect();
                let why = format!("expected NAME=VALUE; the names are {}", known.join(", "));
                Err(crate::Error::Invalid(why))
            }
        }
    }

    /// Sets one of the module parameters of [`Engine::tunables`]. A parameter that the library reads only when it opens a pool
    /// must be set before that.
    ///
    /// # Errors
    /// [`crate::Error::Engine`] with `ENOENT` if the parameter cannot be set.
    pub fn set_tunable(self, name: &str, value: u64) -> Result<()> {
        let c = c_text(name)?;
        // SAFETY: the name is a C string, and the callee refuses unknown names.
        check("setting the tunable", name, unsafe { ffi::pw_engine_set_tunable(c.as_ptr(), value) })
    }

    /// Returns the ARC's counters since the engine started.
    pub fn arc_stats(self) -> ArcStats {
        let mut raw = ffi::pw_arc_stats::default();
        // SAFETY: `raw` is a writable struct of the C side's layout.
        unsafe { ffi::pw_engine_arc_stats(&mut raw) };
        ArcStats::from(raw)
    }

    /// Returns the ARC's bytes by state and type, and its balance.
    pub fn arc_sizes(self) -> ArcSizes {
        let mut raw = ffi::pw_arc_sizes::default();
        // SAFETY: as above.
        unsafe { ffi::pw_engine_arc_sizes(&mut raw) };
        ArcSizes::from(raw)
    }

    /// Returns the bytes of the structures that count towards the ARC's size: a block's header, a handle on a block, and a dbuf.
    pub fn arc_structures(self) -> [u32; 3] {
        let [mut header, mut buffer, mut dbuf] = [0; 3];
        // SAFETY: the callee writes three numbers.
        unsafe { ffi::pw_engine_arc_structures(&mut header, &mut buffer, &mut dbuf) };
        [header, buffer, dbuf]
    }

    /// Returns the I/O of all vdevs since the engine started.
    pub fn vdev_stats(self) -> VdevStats {
        let mut raw = ffi::pw_vdev_stats::default();
        // SAFETY: as above.
        unsafe { ffi::pw_seam_totals(&mut raw) };
        VdevStats::from(raw)
    }

    /// Emulates this device for every vdev file from now on. Each file has its own.
    pub fn set_device(self, device: &Device) {
        // SAFETY: the callee copies the struct under its lock; without a path it allocates nothing, so it cannot fail.
        let _ = unsafe { ffi::pw_seam_set_device(std::ptr::null(), &device.to_raw()) };
    }

    /// Emulates this device for one file, open or not, by its absolute path, until the next [`Engine::set_device`].
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if the path contains a NUL byte; [`crate::Error::Engine`] if there is no memory.
    pub fn set_device_of(self, file: &Path, device: &Device) -> Result<()> {
        let name = file.to_string_lossy();
        let c = c_text(&name)?;
        // SAFETY: the callee copies path and struct under its lock.
        let errno = unsafe { ffi::pw_seam_set_device(c.as_ptr(), &device.to_raw()) };
        check("setting the device of", &name, errno)
    }

    /// Sends a request (`read`, `write` or `flush`) to the device of all files, without a pool, for a test. `flush` ignores
    /// offset and length.
    #[cfg(feature = "fault-injection")]
    pub fn exercise_device(self, op: &str, offset: u64, bytes: u64) {
        // SAFETY: takes only numbers; the callee locks.
        unsafe { ffi::pw_seam_exercise(number(op), offset, bytes) }
    }

    /// Returns when the device of all files would complete a request that arrives at `began_ns`, by the caller's clock, without
    /// waiting.
    pub fn device_completion(self, op: &str, offset: u64, bytes: u64, began_ns: u64) -> u64 {
        // SAFETY: as above.
        unsafe { ffi::pw_seam_plan(number(op), offset, bytes, began_ns) }
    }

    /// Returns the release of OpenZFS that the engine is built from.
    pub fn version() -> String {
        env!("POOLWRIGHT_OPENZFS_RELEASE").to_owned()
    }
}

/// Returns the number of an operation on the C side.
fn number(op: &str) -> std::ffi::c_int {
    match op {
        "read" => 0,
        "write" => 1,
        _ => 2,
    }
}
