//! Ctrl-C and SIGTERM as a flag that long work polls.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Installs the handler once; the first signal sets the flag. A second signal removes temporary files and directories, as their
/// destructors would, and ends the process.
///
/// # Errors
/// If the handler cannot be installed.
pub fn watch() -> anyhow::Result<Arc<AtomicBool>> {
    if let Some(flag) = FLAG.get() {
        return Ok(Arc::clone(flag));
    }
    let flag = Arc::clone(FLAG.get_or_init(Arc::default));
    let signalled = Arc::clone(&flag);
    ctrlc::set_handler(move || {
        if signalled.swap(true, Ordering::Relaxed) {
            poolwright_base::transient::remove_all();
            std::process::exit(130);
        }
    })?;
    Ok(flag)
}

/// Installs a handler that ignores further signals, for work that cleans up in bounded time. A program that ends a process group
/// often signals each process twice.
///
/// # Errors
/// If the handler cannot be installed.
pub fn watch_patiently() -> anyhow::Result<()> {
    let flag = Arc::clone(FLAG.get_or_init(Arc::default));
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))?;
    Ok(())
}

/// Whether a signal has arrived.
pub fn requested() -> bool {
    FLAG.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}
