//! The analysis of a trace: from a request to curves, their interpretation and a division of memory.
//!
//! An [`MrcRequest`] specifies what to model. With an input, it becomes a [`ModelConfig`], which creates the models. [`analyze`] reads
//! a trace file and returns an [`MrcResult`]; [`MrcResult::explain`] interprets it. A caller with another kind of input (a
//! recording under way) creates the configuration with [`MrcRequest::config`] and passes the input to the sweep itself.

mod config;
mod division;
mod error;
mod model_name;
mod ratios;
mod request;
mod result;
mod run;
mod sizes;

pub use config::ModelConfig;
pub use division::{Divided, divide};
pub use error::{Error, Result};
pub use model_name::ModelName;
pub use ratios::{RatioSource, Ratios};
pub use request::MrcRequest;
pub use result::{Ended, Explanation, MrcResult, Remark};
pub use run::{AnalysisPhase, TraceFile, analyze};
pub use sizes::{CacheSizes, MIN_ARC};
