//! The result of a change of a pool's vdevs.

use poolwright_openzfs::ScanState;
use poolwright_trace::counted;
use poolwright_userpool::{VdevChange, scan_text};

use crate::pool_scan;

/// Renders the pool's number of files and, if the change has started a resilver, its state.
pub fn text(pool: &str, change: &VdevChange) -> String {
    let files = format!("{pool} now has {}", counted(change.files.len() as u64, "file"));
    match &change.resilver {
        None => files,
        Some(scan) if scan.state == ScanState::Scanning => {
            format!("{files}; resilver started; `poolwright pool status {pool}` shows the progress")
        }
        scan => format!("{files}; {}", scan_text::status_line(scan.as_ref(), pool_scan::size)),
    }
}
