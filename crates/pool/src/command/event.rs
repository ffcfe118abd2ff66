//! Events of the kernel module: `zpool events`.

use super::error::MalformedOutput;

/// One event of the module's log, which holds the last `zfs_zevent_len_max` events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolEvent {
    /// The class: `ereport.fs.zfs.checksum`, `sysevent.fs.zfs.scrub_finish`, …
    pub class: String,
    /// The number of the event since the module was loaded.
    pub eid: u64,
    /// When it happened, in nanoseconds since 1970.
    pub time_ns: u64,
    /// The pool's name. `None` if the event concerns no pool.
    pub pool: Option<String>,
    /// The pool's GUID.
    pub pool_guid: Option<u64>,
    /// The vdev's GUID. `None` if the event concerns the whole pool.
    pub vdev_guid: Option<u64>,
    /// The path of the vdev's device or file.
    pub vdev_path: Option<String>,
}

/// Parses the output of `zpool events -Hv`, oldest event first.
///
/// # Errors
/// If an event has no class or time.
pub fn parse_events(text: &str) -> Result<Vec<PoolEvent>, MalformedOutput> {
    todo!("{text}")
}
