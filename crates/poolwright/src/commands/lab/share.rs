//! `poolwright lab share`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use poolwright_base::quoted;
use poolwright_base::units::counted;
use poolwright_lab::json_output::SharedSummary;
use poolwright_lab::run::{self, Shared, TaskCounts, trial_name};
use poolwright_lab::{RunTarget, Store};

use super::options::{RunArgs, parse_target};
use crate::commands::options::parse_time;

/// Prepare a run on a cluster, and collect its results
///
/// Adds the results in DIR to the results file, and writes a task for each block of trials that is still missing. A job of the cluster's
/// scheduler runs `lab task NUMBER --shared DIR` for each task; docs/cluster.md has a job for Slurm and one for Kubernetes. After the job,
/// run the same command again: it collects the results, and reports missing trials. While nodes run tasks, it only collects.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    run: RunArgs,

    /// A directory that all nodes share, at the same path. It is created if missing
    #[arg(value_name = "DIR")]
    shared: PathBuf,

    /// Storage of the datasets: pool (the engine in user space) or directory:PATH (the node's file system, unchanged)
    #[arg(long, value_name = "TARGET", default_value = "pool", value_parser = parse_target)]
    target: RunTarget,

    /// A node that has not updated its claim for this long is lost, and another node may run its task
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_lease)]
    lease: Duration,

    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
}

fn parse_lease(text: &str) -> Result<Duration, String> {
    let lease = parse_time(text).map_err(|why| why.to_string())?;
    match lease.as_secs() {
        10..=86_400 => Ok(Duration::from_secs(lease.as_secs())),
        _ => Err("permitted: 10s to 24h".to_owned()),
    }
}

/// Runs the verb, and returns its exit code: 1 if a collected trial failed.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let assets = super::assets()?;
    let (campaign, text) = super::campaign(&assets, &args.run.campaign)?;
    let location = super::results(args.run.results.as_deref(), &campaign.name);
    let options = args.run.options(assets, args.target.clone(), &std::env::temp_dir(), false);
    run::chosen(&campaign, &options)?;
    let mut store = Store::open(&location)?;
    let location = location.display().to_string();
    let shared = run::share(&campaign, &text, &options, args.lease, &args.shared, &mut store)?;
    let code = u8::from(!shared.failed.is_empty());
    if args.json {
        println!("{}", serde_json::to_string(&SharedSummary::new(&campaign.name, &location, &shared))?);
    } else {
        print!("{}", summary(&shared, &campaign.name, &args.shared, &location));
    }
    Ok(code)
}

/// The state, and what to do next. `dir` is the shared directory, and `location` names the results.
fn summary(shared: &Shared, campaign: &str, dir: &Path, location: &str) -> String {
    let mut out = format!(
        "{campaign}: {} collected; {} done, {} missing; run {} in {location}\n",
        counted(shared.collected as u64, "result"),
        counted(shared.succeeded as u64, "trial"),
        shared.missing,
        shared.run
    );
    for (key, why) in &shared.failed {
        out += &format!("  failed: {}: {why}\n", trial_name(key));
    }
    for (node, why) in &shared.problems {
        out += &format!("  node {node}: {why}\n");
    }
    let TaskCounts { queued, claimed, done } = shared.tasks;
    out += &match (queued, claimed) {
        (0, 0) => format!("The report: poolwright lab report {campaign} --results {location}\n"),
        (_, 0) => format!(
            "{}: for each NUMBER from 0 to {}, run on a node: poolwright lab task NUMBER --shared {}\n",
            counted(queued as u64, "task"),
            queued - 1,
            quoted(&dir)
        ),
        _ => format!(
            "{}: {done} done, {claimed} running, {queued} waiting\n",
            counted((queued + claimed + done) as u64, "task")
        ),
    };
    out
}
