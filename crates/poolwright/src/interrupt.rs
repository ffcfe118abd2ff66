//! Ctrl-C and SIGTERM as a flag that long work looks at.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Starts watching, once; the flag is set by the first signal. A second one ends the process at once, and removes
/// what must not outlive it, as the destructors would have done.
pub fn watch() -> anyhow::Result<Arc<AtomicBool>> {
    if let Some(flag) = FLAG.get() {
        return Ok(Arc::clone(flag));
    }
    let flag = Arc::clone(FLAG.get_or_init(Arc::default));
    let signalled = Arc::clone(&flag);
    ctrlc::set_handler(move || {
        if signalled.swap(true, Ordering::Relaxed) {
            poolwright_host::transient::remove_all();
            std::process::exit(130);
        }
    })?;
    Ok(flag)
}

/// The same for work that clears up by itself, and in bounded time: more signals change nothing. Who ends a group of
/// processes often tells each of them twice.
pub fn watch_patiently() -> anyhow::Result<()> {
    let flag = Arc::clone(FLAG.get_or_init(Arc::default));
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))?;
    Ok(())
}

/// Whether a signal came.
pub fn requested() -> bool {
    FLAG.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}
