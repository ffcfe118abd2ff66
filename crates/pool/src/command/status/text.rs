//! The text output of `zpool status` (before 2.3).

use super::KernelPool;
use crate::command::MalformedOutput;

/// Parses the output of `zpool status -ps`, printed with `LC_ALL=C` and `TZ=UTC`.
///
/// # Errors
/// If the text is not such output.
pub fn parse_status_text(text: &str) -> Result<Vec<KernelPool>, MalformedOutput> {
    todo!("{text}")
}

/// Sets the GUIDs of vdevs from a second output, in which `zpool status -g` printed GUIDs as names. A pool whose vdevs
/// changed between the two stays without GUIDs.
pub fn assign_guids(pools: &mut [KernelPool], with_guids: &[KernelPool]) {
    let _ = (pools, with_guids);
    todo!()
}
