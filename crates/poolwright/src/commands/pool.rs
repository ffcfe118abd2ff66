//! `poolwright pool`: pools of the engine in user space, in `zpool`'s grammar.

mod create;
mod destroy;
mod import;
mod iostat;
mod scan;
mod status;
mod vdevs;

use clap::Subcommand;

pub use create::settings;

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
    Add(vdevs::AddArgs),
    Attach(vdevs::AttachArgs),
    Detach(vdevs::DetachArgs),
    Remove(vdevs::RemoveArgs),
    Replace(vdevs::ReplaceArgs),
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
        Verb::Add(args) => vdevs::add(args),
        Verb::Attach(args) => vdevs::attach(args),
        Verb::Detach(args) => vdevs::detach(args),
        Verb::Remove(args) => vdevs::remove(args),
        Verb::Replace(args) => vdevs::replace(args),
        Verb::Destroy(args) => destroy::run(args),
        Verb::Import(args) => import::run(args),
        Verb::Export(args) => import::export(args),
        Verb::Status(args) => status::run(args),
        Verb::List(args) => status::list(args),
        Verb::Iostat(args) => iostat::run(args),
        Verb::Scrub(args) => scan::run(args),
    }
}
