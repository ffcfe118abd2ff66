//! Tests of the crate `zfs` through its public interface.

mod captures;
mod commands;
mod common;
mod labels;
mod old_versions;
mod robust;
mod socket;
mod status;
mod transfer;
mod vdevs;
