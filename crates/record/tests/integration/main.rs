//! Tests of the crate `record` through its public interface.

mod buffer;
mod common;
mod completeness;
mod fio;
mod gaps;
mod links;
mod processes;
mod syscalls;
mod watch;
