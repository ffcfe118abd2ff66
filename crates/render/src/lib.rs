//! Results as terminal text and as HTML pages.
//!
//! Each module renders one kind of result: a plan ([`plan_text`], [`plan_page`]), miss-ratio curves ([`mrc_text`], [`mrc_page`]),
//! known problems ([`inspection_text`]), replayed trials ([`replay_table`], [`replay_comparison`]), a space estimate ([`estimate_text`]), pools and datasets
//! ([`pool_status`], [`pool_import`], [`pool_iostat`], [`pool_scan`], [`dataset_list`], [`property_list`]). The functions return strings; they
//! never print, and they read neither files nor the environment.

pub mod assessment_text;
pub mod backup_text;
pub mod dataset_list;
pub mod estimate_text;
pub mod inspection_text;
pub mod listing;
pub mod migration_text;
pub mod mrc_page;
pub mod mrc_text;
pub mod plan_page;
pub mod plan_text;
pub mod pool_import;
pub mod pool_iostat;
pub mod pool_scan;
pub mod pool_status;
pub mod property_list;
pub mod replay_comparison;
pub mod replay_table;
pub mod vdev_change;
