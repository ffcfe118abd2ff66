//! `poolwright mount-log` (hidden): writes the messages of a mount process into the pool's log.

use poolwright_mount::server::{LogFile, detach};

use crate::commands::pool_connection::parse_pool;

/// Write standard input into a pool's log, with the time before each line
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The pool
    #[arg(value_parser = parse_pool)]
    pool: String,

    /// The process that prints the lines
    pid: u32,
}

/// Logs until the end of standard input; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    detach()?;
    LogFile::of(&args.pool, args.pid).write_lines(std::io::stdin().lock());
    Ok(0)
}
