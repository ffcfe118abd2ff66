//! Unmounts the datasets of a trial.

use std::path::Path;
use std::time::{Duration, Instant};

use poolwright_base::{cannot, quoted, unmount_command};

use crate::{Error, Result};

/// Interval between two attempts.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Unmounts; retries while a program is still ending.
///
/// # Errors
/// [`Error::Trial`] if the directory stays in use for five seconds, or is not a mount point; [`Error::Host`] if the unmount program
/// cannot be started.
pub fn unmount(dir: &Path) -> Result<()> {
    let start = Instant::now();
    loop {
        match run_unmount(dir, false) {
            Err(Error::Trial(why)) if why.contains("busy") && start.elapsed() < Duration::from_secs(5) => {
                std::thread::sleep(LOOK_AGAIN);
            }
            done => return done,
        }
    }
}

/// Detaches a mount from the directory tree, even if it is in use.
///
/// # Errors
/// As [`unmount`], except that a mount in use is not an error.
pub fn unmount_lazily(dir: &Path) -> Result<()> {
    run_unmount(dir, true)
}

fn run_unmount(dir: &Path, lazily: bool) -> Result<()> {
    let out = unmount_command(dir, lazily).output().map_err(cannot("unmount", dir))?;
    if out.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&out.stderr).trim().to_owned();
    Err(Error::Trial(format!("cannot unmount {}: {words}", quoted(&dir))))
}
