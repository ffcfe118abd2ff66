//! The result of a change of a pool's vdevs.

use poolwright_base::quoted;
use poolwright_base::units::counted;
use poolwright_openzfs::ScanState;
use poolwright_zfs::user::{VdevChange, scan_text};

use crate::pool_scan;

/// Renders the pool's number of files, the state of a resilver that the change has started, and the spares in use.
pub fn text(pool: &str, change: &VdevChange) -> String {
    let mut text = files_and_resilver(pool, change);
    for spare in &change.spares_in_use {
        let ends = "`pool detach` of the vdev that it replaces makes it permanent, of the spare ends its use";
        text.push_str(&format!("\nspare in use: {}; {ends}", quoted(spare)));
    }
    text
}

fn files_and_resilver(pool: &str, change: &VdevChange) -> String {
    let files = format!("{pool} now has {}", counted(change.files.len() as u64, "file"));
    match &change.resilver {
        None => files,
        Some(scan) if scan.state == ScanState::Scanning => {
            format!("{files}; resilver started; `poolwright pool status {pool}` shows the progress")
        }
        scan => format!("{files}; {}", scan_text::status_line(scan.as_ref(), pool_scan::size)),
    }
}
