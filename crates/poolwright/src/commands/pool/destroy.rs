//! `poolwright pool destroy`.

use std::path::PathBuf;

use poolwright_userpool::{PoolInfo, Request, registry};

use super::import::{note_kept_log, release};
use crate::commands::pool_connection::{
    self, PoolConnection, PoolFiles, Refused, explained, parse_pool, print_json,
};

/// Destroy a pool; `pool import -D` can bring it back for as long as its files are there
///
/// The files stay, marked as those of a destroyed pool: remove them to free their space. A pool that is mounted is refused
/// (exit code 3); -f unmounts it first, which is refused while programs use it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The pool, by its exact name
    #[arg(value_name = "POOL", value_parser = parse_pool)]
    pool: String,

    /// Unmount it first
    #[arg(short = 'f')]
    force: bool,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object: pool, files
    #[arg(long)]
    json: bool,
}

/// Destroys; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let pool = args.pool.as_str();
    if args.force {
        release(pool)?;
    } else if let Some(info) = pool_connection::ask_owner(pool, |owner| owner.ask(&Request::Status))? {
        return Err(mounted(pool, &info));
    }
    let files = match PoolConnection::open(pool, &args.files)? {
        PoolConnection::Here(host) => destroy(*host)?,
        // Mounted again meanwhile.
        PoolConnection::Owner { mut client, .. } => {
            let info = client.ask(&Request::Status).map_err(explained)?;
            return Err(mounted(pool, &info));
        }
    };
    registry::forget(pool)?;
    note_kept_log(pool);
    if args.json {
        print_json(&serde_json::json!({"pool": pool, "files": files}))?;
    } else {
        let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        println!("{pool} destroyed; its files stay: {}", names.join(", "));
    }
    Ok(0)
}

fn destroy(host: poolwright_userpool::LocalPool) -> anyhow::Result<Vec<PathBuf>> {
    let files = host.files().to_vec();
    host.into_pool().destroy_pool()?;
    Ok(files)
}

/// The refusal to destroy what another process has open.
fn mounted(pool: &str, info: &PoolInfo) -> anyhow::Error {
    let dirs: Vec<String> = info.mounts.iter().map(|m| m.dir.display().to_string()).collect();
    let how = if dirs.is_empty() { "open".to_owned() } else { format!("mounted on {}", dirs.join(", ")) };
    anyhow::anyhow!(
        "destroying {pool}: it is {how} in process {}\nhint: `poolwright pool destroy -f {pool}` unmounts it first",
        info.pid
    )
    .context(Refused)
}
