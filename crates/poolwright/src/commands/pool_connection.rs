//! The options and parsers with which verbs name a pool, a dataset or a snapshot.

use std::path::PathBuf;

use poolwright_openzfs::{Config, limits};
pub use poolwright_zfs::user::PoolConnection;
use poolwright_zfs::user::{ConnectOptions, KnownPools, OwnerWait, Result, name};

/// ARC of a verb that opens the pool only for itself, in bytes.
const VERB_ARC: u64 = 128 << 20;

/// The options of every verb that finds a pool by its name.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct PoolFiles {
    /// A file of the pool; repeat for each file. Required for a pool that was neither created nor imported on this host
    #[arg(long = "pool-file", value_name = "FILE")]
    pub pool_file: Vec<PathBuf>,

    /// Open the pool even if its label says that another host has it open
    #[arg(long = "force", id = "force_import")]
    pub force: bool,
}

impl From<&PoolFiles> for ConnectOptions {
    fn from(files: &PoolFiles) -> ConnectOptions {
        let engine = engine(VERB_ARC);
        ConnectOptions { files: files.pool_file.clone(), force: files.force, engine, on_wait }
    }
}

/// The engine's limits with this ARC, in bytes.
pub fn engine(arc_bytes: u64) -> Config {
    Config { arc_bytes, dirty_bytes: limits::default_dirty_bytes(), ..Config::default() }
}

/// The engine's limits for a verb that opens the pool only for itself.
pub fn verb_engine() -> Config {
    engine(VERB_ARC)
}

/// Reports a wait for the owner of a pool.
pub fn on_wait(OwnerWait { pool, pid }: OwnerWait<'_>) {
    tell!(
        "poolwright: note: waiting for process {pid}, which writes the last changes of {pool} and exports it"
    );
}

/// For clap: a pool's name.
pub fn parse_pool(text: &str) -> std::result::Result<String, String> {
    name::check_pool(text).map(|()| text.to_owned()).map_err(|fault| fault.message)
}

/// For clap: `POOL[/DATASET]`.
pub fn parse_dataset(text: &str) -> std::result::Result<String, String> {
    name::check_dataset(text).map(|()| text.to_owned()).map_err(|fault| fault.message)
}

/// For clap: `POOL[/DATASET]@SNAPSHOT`.
pub fn parse_snapshot(text: &str) -> std::result::Result<String, String> {
    name::check_snapshot(text).map(|_| text.to_owned()).map_err(|fault| fault.message)
}

/// For clap: a dataset or a snapshot.
pub fn parse_either(text: &str) -> std::result::Result<String, String> {
    if text.contains('@') { parse_snapshot(text) } else { parse_dataset(text) }
}

/// The names of all known pools. Reports registry entries that cannot be read.
pub fn known() -> Result<Vec<String>> {
    let known = KnownPools::find()?;
    for why in &known.unreadable {
        eprintln!("poolwright: warning: {why}");
    }
    Ok(known.names)
}

/// Prints one JSON object on standard output.
pub fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string(value)?);
    Ok(())
}
