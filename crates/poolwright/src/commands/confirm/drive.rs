//! `poolwright drive run`: the driver of a confirmation's trials. Started by the trial, never by a user.

use std::io::{Read as _, Write as _};

use poolwright_lab::confirm::driver;

use crate::{failure, interrupt};

/// The verb.
pub const VERB: &str = "drive";

/// Run one phase of a confirmation's trial, as the lab's protocol of drivers has it
#[derive(Debug, clap::Args)]
pub struct Args {
    /// As every driver is called
    #[arg(value_parser = ["run"])]
    word: String,
}

/// Drives; the value is the exit code.
pub fn run(_: Args) -> anyhow::Result<u8> {
    interrupt::watch_patiently()?;
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input)?;
    let mut say = |line: &serde_json::Value| {
        // The trial has closed the pipe: it is ending, and ends this process too.
        let _ = writeln!(std::io::stdout(), "{line}");
    };
    match driver::run(&input, &interrupt::requested, &mut say) {
        Ok(()) => Ok(0),
        Err(poolwright_lab::Error::Interrupted) => Ok(130),
        Err(error) => {
            // The trial quotes the last line: no hints behind it.
            let message = failure::message(&error.into());
            tell!("{}", message.lines().next().unwrap_or_default());
            Ok(1)
        }
    }
}
