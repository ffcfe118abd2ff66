//! Opening a dataset to mount it: what is waited for, what is refused, and what is said about its log.

use std::time::{Duration, Instant};

use poolwright_openzfs::{Access, Dataset, Pool};
use poolwright_userpool::{Fault, Mounted, name};

/// How long a dataset that a verb looks at is waited for.
const GLANCE: Duration = Duration::from_secs(10);

/// Opens the dataset that is to be mounted.
///
/// # Errors
/// `EPERM` if its files may have ACLs that the mount would not serve; the engine's refusal.
pub fn dataset(pool: &Pool, wanted: &Mounted) -> Result<Dataset, Fault> {
    let dataset = opened(pool, wanted)?;
    refuse_acls(&dataset, wanted)?;
    note_log(&dataset);
    Ok(dataset)
}

/// Opens a dataset; one that a verb is just looking at is waited for.
fn opened(pool: &Pool, wanted: &Mounted) -> Result<Dataset, Fault> {
    // In a pool that can be written a log is replayed, also for those who only read.
    let access = Access { readonly: pool.is_readonly(), ignore_acls: wanted.ignore_acls };
    let start = Instant::now();
    loop {
        match pool.open_dataset_with(name::inside(&wanted.dataset), access).map_err(Fault::from) {
            Err(why) if why.is_busy() && start.elapsed() < GLANCE => {
                std::thread::sleep(Duration::from_millis(20));
            }
            opened => return opened,
        }
    }
}

/// Refuses a dataset whose files may have ACLs that say more than their modes.
fn refuse_acls(dataset: &Dataset, wanted: &Mounted) -> Result<(), Fault> {
    let kind = dataset.acl_type()?;
    if kind == "off" || wanted.ignore_acls {
        return Ok(());
    }
    let name = dataset.name();
    Err(Fault::new(
        libc::EPERM,
        format!(
            "mounting {name}: acltype={kind}, and this engine serves modes only: a program could do what an ACL forbids\n\
             hint: -o ignore-acls mounts {name} read-only, with modes and without ACLs"
        ),
    ))
}

/// Says what was replayed of the log, or that a read-only pool does not show what is in it.
fn note_log(dataset: &Dataset) {
    if dataset.replayed() > 0 {
        tell!(
            "poolwright: {}: {} log records of an earlier crash were played back",
            dataset.name(),
            dataset.replayed()
        );
    }
    match dataset.log_pending() {
        0 => {}
        n => tell!(
            "poolwright: note: {}: its log holds {n} records of the last changes before a crash, which a read-only pool does \
             not show; a mount without readonly replays them",
            dataset.name()
        ),
    }
}
