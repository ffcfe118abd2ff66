//! `poolwright drive run`: the driver of a confirmation's trials. The trial starts it; users do not.

use std::io::{Read as _, Write as _};

use poolwright_base::Exit;
use poolwright_confirm::{Error, driver};

use crate::{failure, interrupt};

/// The name of the verb.
pub const VERB: &str = "drive";

/// Run one phase of a confirmation's trial, by the lab's protocol of drivers
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The argument that every driver gets
    #[arg(value_parser = ["run"])]
    word: String,
}

/// Runs the verb, and returns its exit code.
pub fn run(_: Args) -> anyhow::Result<u8> {
    interrupt::watch_patiently()?;
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input)?;
    let mut say = |line: &serde_json::Value| {
        // If the trial has closed the pipe, it is ending and will end this process too.
        let _ = writeln!(std::io::stdout(), "{line}");
    };
    match driver::run(&input, &interrupt::requested, &mut say) {
        Ok(()) => Ok(0),
        Err(Error::Interrupted) => Ok(Exit::Interrupted.code()),
        Err(error) => {
            // The trial quotes the last line, so no hint may follow the message.
            let message = failure::message(&error.into());
            tell!("{}", message.lines().next().unwrap_or_default());
            Ok(1)
        }
    }
}
