//! Tests of the crate `trace` through its public interface.

mod common;
mod hostile;
mod import_export;
mod killed;
mod layouts;
mod readers;
mod round_trip;
mod stats;
