//! The options that `lab run` and `lab share` have in common.

use std::path::{Path, PathBuf};

use poolwright_lab::campaign::SMALL;
use poolwright_lab::run::Options;
use poolwright_lab::{Assets, RunTarget};

use crate::commands::options::this_program;

/// Which trials of a campaign a run has
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// A shipped campaign by its name (see `lab list`), or a file that ends with .toml
    #[arg(value_name = "CAMPAIGN")]
    pub campaign: String,

    /// A scale of the campaign, which determines the sizes and the number of its trials
    #[arg(long, value_name = "SCALE", default_value = SMALL)]
    scale: String,

    /// Seed of the order of the trials and of the workloads' data
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..1 << 53))]
    seed: u64,

    /// Number of trials of each case [default: that of its study, and more for claims that these leave undecided]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeats: Option<u32>,

    /// Only these studies
    #[arg(long, value_name = "STUDY,…", value_delimiter = ',')]
    only: Vec<String>,

    /// File of the results [default: lab-CAMPAIGN.db]
    #[arg(long, value_name = "FILE")]
    pub results: Option<PathBuf>,
}

impl RunArgs {
    /// The options of a run on this target.
    pub fn options(&self, assets: Assets, target: RunTarget, scratch: &Path, keep: bool) -> Options {
        Options {
            assets,
            program: this_program(),
            scale: self.scale.clone(),
            seed: self.seed,
            repeats: self.repeats,
            limit: None,
            only: self.only.clone(),
            target,
            scratch: scratch.to_owned(),
            keep,
        }
    }
}

/// Parses `pool` or `directory:PATH`.
pub fn parse_target(text: &str) -> Result<RunTarget, String> {
    match text.split_once(':') {
        None if text == "pool" => Ok(RunTarget::Pool),
        Some(("directory", path)) => {
            let found = Path::new(path).canonicalize().map_err(|why| format!("{path}: {why}"))?;
            if found.is_dir() {
                Ok(RunTarget::Directory(found))
            } else {
                Err(format!("{path} is not a directory"))
            }
        }
        _ => Err("write pool or directory:PATH".into()),
    }
}
