//! `poolwright pool create`.

use anyhow::Context as _;
use poolwright_base::units::counted;
use poolwright_openzfs::Spec;
use poolwright_openzfs::property::Settings;
use poolwright_zfs::user::json_output::CreatedPool;
use poolwright_zfs::user::{lifecycle, parse_settings};

use crate::commands::options::Usage;
use crate::commands::pool_connection::{on_wait, parse_pool, print_json, verb_engine};

/// Create a pool on files
///
/// VDEV… follows the grammar of zpool: FILE… [mirror|raidz|raidz1|raidz2|raidz3 FILE…] [log [mirror] FILE…] [cache FILE…]
/// [spare FILE…]. Missing files are created sparse, with the size after a colon (FILE:SIZE) or 200G. A file that is not empty is
/// refused. Spares are not activated automatically: `pool replace` with the spare as the new file activates it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the new pool
    #[arg(value_name = "POOL", value_parser = parse_pool)]
    pool: String,

    /// Files, and the keywords between them
    #[arg(value_name = "VDEV", required = true)]
    vdevs: Vec<String>,

    /// Property of the pool: ashift=9…16, the sector size as a power of two [default: ashift=12]
    #[arg(short = 'o', value_name = "PROP=VALUE")]
    pool_property: Vec<String>,

    /// Property of the root dataset: recordsize=16K, compression=lz4, …, which other datasets inherit; quota=SIZE
    #[arg(short = 'O', value_name = "PROP=VALUE")]
    property: Vec<String>,

    /// Print one JSON object: pool, guid, ashift, files
    #[arg(long)]
    json: bool,
}

/// Creates; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let groups = Spec::parse_vdevs(&args.vdevs).context(Usage)?;
    let spec = Spec { name: args.pool, ashift: ashift(&args.pool_property)?, groups };
    let settings = settings(&args.property)?;
    let found = lifecycle::create(&spec, &settings, &verb_engine(), on_wait)?;
    let (pool, files) = (&found.pool, &found.files);
    if args.json {
        let (pool, files, guid) = (pool.clone(), files.clone(), found.guid.to_string());
        print_json(&CreatedPool { pool, guid, ashift: spec.ashift, files })?;
    } else {
        println!("{pool} created on {}", counted(files.len() as u64, "file"));
    }
    Ok(0)
}

fn ashift(properties: &[String]) -> anyhow::Result<u32> {
    let mut ashift = 12;
    for option in properties {
        match option.split_once('=') {
            Some(("ashift", value)) => match value.parse() {
                Ok(bits) if (9..=16).contains(&bits) => ashift = bits,
                _ => Err(anyhow::anyhow!("-o {option}: ashift must be 9 to 16 (12: sectors of 4K)")).context(Usage)?,
            },
            _ => Err(anyhow::anyhow!(
                "-o {option}: ashift is the only pool property that can be set; -O sets properties of the root dataset"
            ))
            .context(Usage)?,
        }
    }
    Ok(ashift)
}

/// Parses the options that set properties of a dataset.
pub fn settings(assignments: &[String]) -> anyhow::Result<Settings> {
    parse_settings(assignments).context(Usage)
}
