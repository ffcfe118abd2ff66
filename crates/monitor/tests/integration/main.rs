//! Tests of the crate `monitor` through its public interface.

mod dashboards;
mod docs;
mod kernel_pools;
mod panic;
mod parsed_exposition;
mod rules;
mod state_text;
