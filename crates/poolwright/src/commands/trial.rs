//! `poolwright trial SPEC`: one trial in this process, its result as one JSON object. Started by the other verbs.

use std::path::PathBuf;

use poolwright_replay::{Spec, child, trial};

use crate::interrupt;

/// Runs one trial in this process and prints its result as JSON
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Specification of the trial
    #[arg(value_name = "SPEC.json")]
    spec: PathBuf,
}

/// Runs it; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    child::die_with_parent();
    interrupt::watch()?;
    let spec = Spec::load(&args.spec)?;
    let replay = trial::run(&spec, &interrupt::requested)?;
    serde_json::to_writer(std::io::stdout().lock(), &replay)?;
    println!();
    Ok(0)
}
