//! Tests of the crate `userpool` through its public interface.

mod labels;
mod socket;
mod vdevs;
