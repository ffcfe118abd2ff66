//! Opens a dataset to mount it.

use std::time::{Duration, Instant};

use poolwright_openzfs::{Access, Dataset, Pool};
use poolwright_zfs::user::{Fault, FaultKind, Mounted, name};

use crate::server::{Frontend, Severity};

/// How long to wait for a request that has the dataset open.
const PATIENCE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(20);

/// Opens the dataset to mount. Reports the replay of its intent log, or the records that a read-only pool does not replay.
///
/// # Errors
/// `EPERM` if its files may have ACLs that the mount would not enforce; the engine's refusal.
pub fn open_dataset(pool: &Pool, wanted: &Mounted, frontend: &dyn Frontend) -> Result<Dataset, Fault> {
    let dataset = open_idle(pool, wanted)?;
    refuse_acls(&dataset, wanted)?;
    report_log(&dataset, frontend);
    Ok(dataset)
}

fn open_idle(pool: &Pool, wanted: &Mounted) -> Result<Dataset, Fault> {
    // A pool that can be written replays the log even for a read-only mount.
    let access = Access { readonly: pool.is_readonly(), ignore_acls: wanted.ignore_acls };
    let start = Instant::now();
    loop {
        match pool.open_dataset_with(name::inside(&wanted.dataset), access).map_err(Fault::from) {
            Err(why) if why.is_busy() && start.elapsed() < PATIENCE => std::thread::sleep(RETRY),
            opened => return opened,
        }
    }
}

/// Refuses a dataset whose files may have ACLs that restrict more than their modes.
fn refuse_acls(dataset: &Dataset, wanted: &Mounted) -> Result<(), Fault> {
    let kind = dataset.acl_type()?;
    if kind == "off" || wanted.ignore_acls {
        return Ok(());
    }
    let name = dataset.name();
    let message = format!(
        "mounting {name}: acltype={kind}, but this engine enforces only modes: programs could bypass ACLs"
    );
    Err(Fault::new(libc::EPERM, message).of_kind(FaultKind::UnenforcedAcls { dataset: name.to_owned() }))
}

fn report_log(dataset: &Dataset, frontend: &dyn Frontend) {
    let name = dataset.name();
    if dataset.replayed() > 0 {
        let message = format!(
            "{name}: replayed {} {} of an earlier crash",
            dataset.replayed(),
            if dataset.replayed() == 1 { "log record" } else { "log records" }
        );
        frontend.log(Severity::Warning, &message);
    }
    if dataset.log_pending() > 0 {
        let message = format!(
            "{name}: its intent log has {} records of changes before a crash; a read-only pool does not include them\n\
             hint: a writable mount replays them",
            dataset.log_pending()
        );
        frontend.log(Severity::Note, &message);
    }
}
