//! Tests of the crate `pool` through its public interface.

mod captures;
mod commands;
mod common;
mod old_versions;
mod robust;
mod status;
mod transfer;
