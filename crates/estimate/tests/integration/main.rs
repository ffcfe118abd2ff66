//! Tests of the crate `estimate` through its public interface.

mod common;
mod databases;
mod exact;
mod holes;
