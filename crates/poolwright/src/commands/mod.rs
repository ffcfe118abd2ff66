//! One file per verb.

pub mod apply;
pub mod backup;
pub mod check;
pub mod confirm;
pub mod conversion;
pub mod dataset;
pub mod estimate;
pub mod generate;
pub mod lab;
pub mod monitor;
pub mod mount;
pub mod mount_log;
pub mod mrc;
pub mod new_pool;
pub mod options;
pub mod pool;
pub mod pool_connection;
pub mod pool_trials;
pub mod record;
pub mod replay;
pub mod serve;
pub mod trace;
pub mod trial;
pub mod tune;
pub mod undo;
pub mod verify;
