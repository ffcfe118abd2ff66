//! Tests of the crate `mrc` through its public interface.

mod common;
mod fuzz;
mod inputs;
mod known;
mod models;
mod openzfs;
mod sample;
mod sweep;
