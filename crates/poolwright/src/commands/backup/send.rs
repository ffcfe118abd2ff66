//! `poolwright backup send`: replicates backups and WAL archives to another pool or host.

use std::time::Duration;

use anyhow::anyhow;
use poolwright_backup::send::{SendOptions, SendRun, SendTarget};
use poolwright_render::backup_text;

use super::super::options::parse_size;
use super::super::pool_connection::{parse_dataset, print_json};
use super::run::parse_limit;
use super::{reported, summary};
use crate::failure::Usage;

/// Send backups or a WAL archive to another pool or host, through `zfs send` and `zfs receive`
///
/// Sends the backups that the target lacks, oldest first: a full stream, then incremental ones from the newest snapshot that both sides
/// have (the same GUID). For a WAL archive, takes a snapshot, and sends the changes since the last one. Records stay as they are: large,
/// compressed, and encrypted if the dataset is. The target is never rolled back, and not mounted. An interrupted transfer is continued by
/// the next run. Only for datasets of the kernel's OpenZFS.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Dataset of the backups, of an archive, or of a WAL archive
    #[arg(value_name = "DATASET", value_parser = parse_dataset)]
    dataset: String,

    /// Dataset that receives them, on this host or on another one. It is created; its parent must exist
    #[arg(long = "to", value_name = "[USER@HOST:]DATASET", value_parser = parse_target)]
    target: SendTarget,

    /// Program and arguments in place of `ssh -o BatchMode=yes -o ConnectTimeout=60 -o ServerAliveInterval=15 -o ServerAliveCountMax=4 --`,
    /// separated by spaces. Two more arguments follow: the host, and the command for the host's shell
    #[arg(long, value_name = "COMMAND")]
    ssh: Option<String>,

    /// Send at most this many bytes per second
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    rate: Option<u64>,

    /// Give up if no data is transferred for this time. The next run continues
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = parse_limit)]
    max_stall: Duration,

    /// Print what would be sent, with sizes and commands, and change nothing
    #[arg(long, short = 'n')]
    dry_run: bool,

    /// Print one JSON object: {dataset, target, raw, dry_run, streams, backups, wal}
    #[arg(long)]
    json: bool,
}

/// Runs the verb, and returns its exit code.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    if args.ssh.is_some() && args.target.host.is_none() {
        return Err(anyhow!("--ssh needs a host in --to: HOST:{}", args.target.dataset).context(Usage));
    }
    let words = |text: &String| text.split_whitespace().map(str::to_owned).collect();
    let options = SendOptions {
        target: args.target.clone(),
        shell: args.ssh.as_ref().map(words),
        rate: args.rate,
        stall: args.max_stall,
        lock_dir: (!args.dry_run).then(poolwright_zfs::user::runtime_dir),
    };
    let prepared = SendRun::prepare(&args.dataset, options)?;
    let report = match args.dry_run {
        true => prepared.report(),
        false => {
            let report = reported(args.json, |reporter| prepared.execute(reporter))?;
            summary::keep_sent(&report.dataset, &report.target);
            report
        }
    };
    match args.json {
        true => print_json(&report)?,
        false => print!("{}", backup_text::send(&report)),
    }
    Ok(0)
}

/// For clap: `[USER@HOST:]DATASET`.
fn parse_target(text: &str) -> Result<SendTarget, String> {
    let target = SendTarget::parse(text).map_err(|why| why.to_string())?;
    parse_dataset(&target.dataset)?;
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets() {
        assert_eq!(parse_target("root@b:vault/pg").unwrap().host.as_deref(), Some("root@b"));
        for wrong in ["", "b:", "b:vault/", "vault@s", "-o:vault/pg", "b:/vault"] {
            assert!(parse_target(wrong).is_err(), "{wrong}");
        }
    }
}
