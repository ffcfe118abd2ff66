//! `poolwright generate` (hidden): man pages, shell completions and the reference documentation, made from the same definitions as
//! `--help`.

use std::path::PathBuf;

use crate::manual::exit_code::EXIT_CODES;
use clap::{Command, ValueHint};

/// Write the man pages, the completions of the shells, the reference documentation and the JSON Schemas
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The directory that receives `man1/`, `bash/`, `zsh/`, `fish/`, `docs/` and `schema/`; it is created if it does not exist
    #[arg(value_hint = ValueHint::DirPath)]
    dir: PathBuf,
}

/// Writes the files; returns the exit code.
///
/// # Errors
/// If a directory or file cannot be written.
pub fn run(args: Args, command: &Command) -> anyhow::Result<u8> {
    crate::manual::write(&args.dir, command, &EXIT_CODES.map(|(code, _, meaning)| (code, meaning)))?;
    Ok(0)
}
