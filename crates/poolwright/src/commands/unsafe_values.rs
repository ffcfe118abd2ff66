//! The option that allows a plan to set values which can lose data.

use clap::builder::PossibleValuesParser;
use poolwright_plan::{RISKY_PROPERTIES, RiskyValues};

/// An option of the commands that set what a plan recommends.
#[derive(Debug, clap::Args)]
pub struct UnsafeValueArgs {
    /// Let the plan set a value of this property that can lose data, such as sync=disabled. May be repeated. Without this option, such a
    /// plan is refused, even if it gives a reason
    #[arg(long = "allow-unsafe", value_name = "PROPERTY", value_parser = PossibleValuesParser::new(RISKY_PROPERTIES))]
    properties: Vec<String>,
}

impl UnsafeValueArgs {
    /// The values that a plan may have.
    pub fn allowed(&self) -> RiskyValues<'_> {
        RiskyValues::Set(&self.properties)
    }
}
