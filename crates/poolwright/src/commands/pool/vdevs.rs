//! `poolwright pool add`, `pool attach`, `pool detach`, `pool remove` and `pool replace`.

use std::path::PathBuf;

use anyhow::Context as _;
use poolwright_openzfs::Spec;
use poolwright_render::vdev_change;
use poolwright_zfs::user::json_output::ChangedPool;
use poolwright_zfs::user::{NewVdevFile, VdevChange, vdevs};

use crate::commands::options::Usage;
use crate::commands::pool_connection::{PoolFiles, parse_pool, print_json};

/// Add vdevs to a pool: data, logs, caches, spares
///
/// VDEV… follows the grammar of `pool create`, and missing files are created in the same way. New data vdevs must have the same layout as
/// the present ones, and cannot be removed again. Spares are not activated automatically: `pool replace` with the spare as the new file
/// activates it.
#[derive(Debug, clap::Args)]
pub struct AddArgs {
    /// The pool
    #[arg(value_name = "POOL", value_parser = parse_pool)]
    pool: String,

    /// Files, and the keywords between them
    #[arg(value_name = "VDEV", required = true)]
    vdevs: Vec<String>,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object: pool, files, resilver, replacing, spares_in_use
    #[arg(long)]
    json: bool,
}

/// Adds; the value is the exit code.
pub fn add(args: AddArgs) -> anyhow::Result<u8> {
    let groups = Spec::parse_added(&args.vdevs).context(Usage)?;
    let change = vdevs::add(&args.pool, groups, &args.files)?;
    print(args.pool, change, args.json)
}

/// Attach a new file to a file of a pool, as its mirror
///
/// Makes a mirror of a single file, or adds a file to a mirror or a log. The pool then copies the data to it (resilver): on a
/// mounted pool in the background. A pool that is not mounted is opened until the end of the resilver.
#[derive(Debug, clap::Args)]
pub struct AttachArgs {
    /// The pool
    #[arg(value_name = "POOL", value_parser = parse_pool)]
    pool: String,

    /// A file of the pool, or its GUID
    #[arg(value_name = "DEVICE")]
    device: PathBuf,

    /// The new file, which must be missing or empty: FILE:SIZE, or FILE for the size of DEVICE
    #[arg(value_name = "NEW")]
    new: String,

    /// Wait until the resilver is complete
    #[arg(short = 'w')]
    wait: bool,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object: pool, files, resilver, replacing, spares_in_use
    #[arg(long)]
    json: bool,
}

/// Attaches; the value is the exit code.
pub fn attach(args: AttachArgs) -> anyhow::Result<u8> {
    let new = new_file(&args.new)?;
    let change = vdevs::attach(&args.pool, &args.device, new, args.wait, &args.files)?;
    print(args.pool, change, args.json)
}

/// The arguments of a verb that needs only a pool and one of its files.
#[derive(Debug, clap::Args)]
struct DeviceArgs {
    /// The pool
    #[arg(value_name = "POOL", value_parser = parse_pool)]
    pool: String,

    /// A file of the pool, or its GUID
    #[arg(value_name = "DEVICE")]
    device: PathBuf,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object: pool, files, resilver, replacing, spares_in_use
    #[arg(long)]
    json: bool,
}

/// Remove a file from its mirror, or end the use of a spare; the file stays
///
/// Refused (exit code 3) if no other file has a complete copy of its data. A detached spare is available again. If the file that a spare
/// replaces is detached, the spare becomes an ordinary file of the pool.
#[derive(Debug, clap::Args)]
pub struct DetachArgs {
    #[command(flatten)]
    device: DeviceArgs,
}

/// Detaches; the value is the exit code.
pub fn detach(args: DetachArgs) -> anyhow::Result<u8> {
    let DeviceArgs { pool, device, files, json } = args.device;
    let change = vdevs::detach(&pool, &device, &files)?;
    print(pool, change, json)
}

/// Remove a spare, a cache or a log from a pool; its files stay
///
/// Removes a log with all files of its mirror, after its contents are on the other vdevs of the pool. Refuses (exit code 3) a log with
/// changes from before a crash that were not replayed yet. Files with data, and spares in use, cannot be removed. If a file is missing and
/// the pool is not mounted, name its other files with --pool-file.
#[derive(Debug, clap::Args)]
pub struct RemoveArgs {
    #[command(flatten)]
    device: DeviceArgs,
}

/// Removes; the value is the exit code.
pub fn remove(args: RemoveArgs) -> anyhow::Result<u8> {
    let DeviceArgs { pool, device, files, json } = args.device;
    let change = vdevs::remove(&pool, &device, &files)?;
    print(pool, change, json)
}

/// Replace a file of a pool with a new one, or with a spare
///
/// The pool copies the data to the new file (resilver) from the old one, or from the other files of its mirror or raidz, and
/// then detaches the old file: on a mounted pool in the background. A pool that is not mounted is opened until then. If NEW is
/// an available spare of the pool, both files remain until one of them is detached, or until OLD is replaced with a new file; then the
/// spare is available again.
#[derive(Debug, clap::Args)]
pub struct ReplaceArgs {
    /// The pool
    #[arg(value_name = "POOL", value_parser = parse_pool)]
    pool: String,

    /// A file of the pool, or its GUID; it may be missing
    #[arg(value_name = "OLD")]
    old: PathBuf,

    /// The new file, which must be missing or empty: FILE:SIZE, or FILE for the size of OLD; or a spare of the pool. Default: OLD itself,
    /// if it is missing
    #[arg(value_name = "NEW")]
    new: Option<String>,

    /// Wait until the resilver is complete
    #[arg(short = 'w')]
    wait: bool,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object: pool, files, resilver, replacing, spares_in_use
    #[arg(long)]
    json: bool,
}

/// Replaces; the value is the exit code.
pub fn replace(args: ReplaceArgs) -> anyhow::Result<u8> {
    let new = args.new.as_deref().map(new_file).transpose()?;
    let change = vdevs::replace(&args.pool, &args.old, new, args.wait, &args.files)?;
    print(args.pool, change, args.json)
}

fn new_file(word: &str) -> anyhow::Result<NewVdevFile> {
    let (file, bytes) = Spec::parse_file(word).context(Usage)?;
    Ok(NewVdevFile { file, bytes })
}

fn print(pool: String, change: VdevChange, json: bool) -> anyhow::Result<u8> {
    if json {
        print_json(&ChangedPool { pool, change })?;
    } else {
        println!("{}", vdev_change::text(&pool, &change));
    }
    Ok(0)
}
