//! One file per verb.

pub mod estimate;
pub mod options;
pub mod record;
pub mod replay;
pub mod trace;
pub mod trial;
pub mod tune;
