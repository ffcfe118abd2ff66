//! `poolwright pool`: pools of the engine in user space, in `zpool`'s grammar.

pub mod reach;

mod create;
mod import;
mod iostat;
mod status;

use std::time::{SystemTime, UNIX_EPOCH};

use clap::Subcommand;
use poolwright_control::{Request, Scrub, registry};
use poolwright_trace::format_size;

pub use create::settings;
pub use status::listing;

use reach::{PoolFiles, Reach, parse_pool, print_json};

/// Pools on files, opened by the engine in user space
///
/// There is no daemon: a pool that is mounted is asked through its mount process, any other is opened for the verb and
/// exported again. A pool that was created or imported here is found by its name, until it is exported.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Create(create::Args),
    Import(import::Args),
    Export(import::ExportArgs),
    Status(status::Args),
    List(status::ListArgs),
    Iostat(iostat::Args),
    Scrub(ScrubArgs),
}

/// Runs; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    match args.verb {
        Verb::Create(args) => create::run(args),
        Verb::Import(args) => import::run(args),
        Verb::Export(args) => import::export(args),
        Verb::Status(args) => status::run(args),
        Verb::List(args) => status::list(args),
        Verb::Iostat(args) => iostat::run(args),
        Verb::Scrub(args) => scrub(args),
    }
}

/// Read and check every block of a pool, repairing what can be repaired; waits for the end
///
/// Exit code 1 if it met errors.
#[derive(Debug, clap::Args)]
struct ScrubArgs {
    /// The pool
    #[arg(value_name = "POOL", value_parser = parse_pool)]
    pool: String,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object: the pool, when it began, seconds, bytes allocated, errors met by kind
    #[arg(long)]
    json: bool,
}

fn scrub(args: ScrubArgs) -> anyhow::Result<u8> {
    let scrub: Scrub = Reach::once(&args.pool, &args.files, &Request::Scrub)?;
    if let Some(mut entry) = registry::find(&args.pool)? {
        entry.last_scrub = Some(scrub.clone());
        registry::save(&entry)?;
    }
    if args.json {
        let mut value = serde_json::to_value(&scrub)?;
        value["pool"] = args.pool.into();
        print_json(&value)?;
    } else {
        println!("{}: {}", args.pool, scrub_text(&scrub));
    }
    Ok(u8::from(scrub.errors() > 0))
}

/// A scrub in words.
fn scrub_text(scrub: &Scrub) -> String {
    let found = match scrub.errors() {
        0 => "no errors".to_owned(),
        _ => format!(
            "{} read, {} write and {} checksum errors",
            scrub.read_errors, scrub.write_errors, scrub.checksum_errors
        ),
    };
    format!("{} checked in {:.1} s, {found}", format_size(scrub.allocated), scrub.seconds)
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
