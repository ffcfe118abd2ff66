//! `poolwright pool`: pools of the engine in user space, in `zpool`'s grammar.

mod create;
mod destroy;
mod import;
mod iostat;
mod scan;
mod status;

use std::time::{SystemTime, UNIX_EPOCH};

use clap::Subcommand;

pub use create::settings;
pub use status::listing;

/// Manage pools on files, which the engine opens in user space
///
/// There is no daemon. Verbs on a mounted pool are sent to its mount process; any other pool is opened for the verb and then
/// exported again. A pool that was created or imported here is found by its name until it is exported.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Create(create::Args),
    Destroy(destroy::Args),
    Import(import::Args),
    Export(import::ExportArgs),
    Status(status::Args),
    List(status::ListArgs),
    Iostat(iostat::Args),
    Scrub(scan::Args),
}

/// Runs; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    match args.verb {
        Verb::Create(args) => create::run(args),
        Verb::Destroy(args) => destroy::run(args),
        Verb::Import(args) => import::run(args),
        Verb::Export(args) => import::export(args),
        Verb::Status(args) => status::run(args),
        Verb::List(args) => status::list(args),
        Verb::Iostat(args) => iostat::run(args),
        Verb::Scrub(args) => scan::run(args),
    }
}

/// How long ago that was: `3 h ago`.
fn ago(unix_s: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    match now.saturating_sub(unix_s) {
        s @ 0..120 => format!("{s} s ago"),
        s @ 120..7200 => format!("{} min ago", s / 60),
        s @ 7200..172_800 => format!("{} h ago", s / 3600),
        s => format!("{} days ago", s / 86_400),
    }
}
