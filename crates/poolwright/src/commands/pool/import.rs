//! `poolwright pool import` and `pool export`.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use poolwright_base::quoted;
use poolwright_base::units::counted;
use poolwright_mount::server::remove_routine_logs;
use poolwright_render::pool_import;
use poolwright_zfs::user::LockOwner;
use poolwright_zfs::user::find::{self, Selection};
use poolwright_zfs::user::json_output::{ClosedPool, ImportResult};
use poolwright_zfs::user::label;
use poolwright_zfs::user::lifecycle::{self, ExportedPool, ImportedPool};

use crate::commands::pool_connection::{PoolFiles, parse_pool, print_json};
use crate::failure::{Usage, hint};

/// Register a pool by its files, or list the pools in a directory
///
/// With a directory only, lists the pools whose files are in it. With a file or a pool's name, opens that pool once (which replays the
/// intent logs that a killed process left), lists its datasets, and registers its files under its name.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "poolwright pool import [OPTIONS] FILE\n       poolwright pool import [OPTIONS] POOL FILE…\n       \
                      poolwright pool import [OPTIONS] [POOL] -d DIR\n       poolwright pool import [OPTIONS] [POOL] DIR"
)]
pub struct Args {
    /// The pool; or one of its files (the others are searched for in the same directory); or a directory, whose pools are listed
    #[arg(value_name = "POOL")]
    first: Option<String>,

    /// All files of the pool, or their directory
    #[arg(value_name = "FILE", conflicts_with = "dir")]
    files: Vec<PathBuf>,

    /// Search this directory for the pool's files
    #[arg(short, long, value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Also import a destroyed pool, and thereby recover it
    #[arg(short = 'D')]
    destroyed: bool,

    /// Import the pool even if its label says that another host has it open
    #[arg(short, long)]
    force: bool,

    /// Print one JSON object: {"pools":[…]} for a list, otherwise pool, files, datasets
    #[arg(long)]
    json: bool,
}

/// Imports; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let selection = Selection::new(args.first.as_deref(), &args.files, args.dir.as_deref());
    let selection = selection
        .context(hint("to import a pool by its name, list its files too (pool import POOL FILE…) or give their directory (-d DIR)"))
        .context(Usage)?;
    let found = match selection {
        Selection::Directory(dir) => return list(&dir, args.json),
        Selection::InDirectory(pool, dir) => find::pool_in(&dir, &pool)?,
        Selection::Named(pool, files) => find::check_files(&pool, &find::order_files(&files)?)?,
        Selection::Files(files) => find::pool_of(&files)?,
    };
    let options = PoolFiles { pool_file: Vec::new(), force: args.force };
    let ImportedPool { files, datasets } = lifecycle::import(&found, args.destroyed, (&options).into())?;
    let pool = found.pool;
    if args.json {
        print_json(&ImportResult::Imported { pool, files, datasets })?;
        return Ok(0);
    }
    println!("{pool} imported from {}:", counted(files.len() as u64, "file"));
    for dataset in &datasets {
        let trouble = dataset.trouble.as_ref().map_or_else(String::new, |why| format!("  ({why})"));
        println!("  {}{trouble}", dataset.name);
    }
    Ok(0)
}

fn list(dir: &Path, json: bool) -> anyhow::Result<u8> {
    let found = label::scan(dir)?;
    if json {
        print_json(&ImportResult::Listed { pools: found })?;
        return Ok(0);
    }
    if found.is_empty() {
        println!("{} contains no pool", quoted(&dir));
    }
    for pool in &found {
        let user = pool.files.iter().find_map(|file| LockOwner::of(file));
        print!("{}", pool_import::text(pool, user.as_ref()));
    }
    Ok(0)
}

/// Close a pool properly and remove it from the registry; its files stay
///
/// A mounted pool is unmounted first, unless programs use it.
#[derive(Debug, clap::Args)]
pub struct ExportArgs {
    /// The pool
    #[arg(value_name = "POOL", value_parser = parse_pool)]
    pool: String,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object: pool, files
    #[arg(long)]
    json: bool,
}

/// Exports; the value is the exit code.
pub fn export(args: ExportArgs) -> anyhow::Result<u8> {
    let pool = args.pool.as_str();
    let ExportedPool { files, is_gone } = lifecycle::export(pool, &args.files)?;
    if is_gone {
        eprintln!(
            "poolwright: warning: none of the files of {pool} exists any more; the pool was removed from the registry"
        );
    }
    note_kept_log(pool);
    if args.json {
        print_json(&ClosedPool { pool: pool.to_owned(), files })?;
    } else {
        println!("{pool} exported");
    }
    Ok(0)
}

/// Removes the log of an exported pool, or reports that it is kept.
pub(super) fn note_kept_log(pool: &str) {
    if let Some(log) = remove_routine_logs(pool) {
        tell!(
            "poolwright: note: the log of {pool} is kept, because it contains more than routine lines: {}",
            log.display()
        );
    }
}
