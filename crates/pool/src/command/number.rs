//! Numbers in the output of `zpool` and `zfs`.
