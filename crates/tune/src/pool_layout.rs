//! The layout of a pool's data vdevs, which decides how much space a block takes.

use poolwright_estimate::Layout;
use poolwright_zfs::kernel::command::status::{KernelPool, VdevClass, VdevNode};

/// The layout of a top-level vdev. `None` if it is a dRAID, which the model of space does not know.
pub fn layout_of(vdev: &VdevNode) -> Option<Layout> {
    match vdev.kind.as_str() {
        "mirror" => Some(Layout::Mirror),
        "raidz" => {
            let parity = vdev.name.trim_start_matches("raidz").split('-').next()?.parse().unwrap_or(1);
            Some(Layout::Raidz { parity, disks: vdev.children.len().try_into().ok()? })
        }
        "draid" => None,
        _ => Some(Layout::Plain),
    }
}

/// The layout of a pool: that of its first data vdev. `None` if it is unknown.
pub(crate) fn layout_of_pool(pool: &KernelPool) -> Option<Layout> {
    layout_of(pool.vdevs_of(VdevClass::Data).next()?)
}
