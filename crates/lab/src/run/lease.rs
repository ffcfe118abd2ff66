//! Renews the lease of a claim while its trial runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};

use crate::store::{self, Claim, Claimant, Store};

/// Renews a lease, in a thread with its own connection to the store, until it is dropped.
///
/// While the store cannot be reached, the trial goes on. If another worker claims it meanwhile, the result is not saved.
#[derive(Debug)]
pub(super) struct LeaseKeeper {
    is_lost: Arc<AtomicBool>,
    /// Its end stops the thread.
    _stop: Sender<()>,
}

impl LeaseKeeper {
    /// Renews a claim in the results in `location`.
    pub(super) fn start(location: &str, run: i64, claimant: &Claimant, claim: &Claim) -> LeaseKeeper {
        let is_lost = Arc::new(AtomicBool::new(false));
        let (stop, stopped) = channel::<()>();
        let (location, claimant, claim) = (location.to_owned(), claimant.clone(), claim.clone());
        let lost = Arc::clone(&is_lost);
        std::thread::spawn(move || {
            let mut store: Option<Box<dyn Store>> = None;
            while stopped.recv_timeout(claimant.lease / 4) == Err(RecvTimeoutError::Timeout) {
                if store.is_none() {
                    store = store::open(&location).ok();
                }
                match store.as_mut().map(|store| store.renew(run, &claimant, &claim)) {
                    Some(Ok(true)) => {}
                    Some(Ok(false)) => return lost.store(true, Ordering::Release),
                    Some(Err(_)) | None => store = None,
                }
            }
        });
        LeaseKeeper { is_lost, _stop: stop }
    }

    /// Whether another worker has claimed the trial.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }
}
