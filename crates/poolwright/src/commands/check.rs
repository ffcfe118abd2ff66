//! `poolwright check`: alert rules as checks for Nagios.

use std::path::PathBuf;
use std::time::Duration;

use poolwright_monitor::alert::check::{self, Check, CheckResult};
use poolwright_monitor::alert::{Thresholds, rule_file};

use super::options::{SourceArgs, parse_time};
use super::pool_connection::print_json;

/// Check pools with the alert rules, as a Nagios plugin
///
/// Reads the sources of `serve` once, and prints the output of a Nagios plugin: one line with performance data, and one line for each
/// alert. Error counters are compared with those of earlier runs. The exit codes are those of the plugin guidelines: 0 OK, 1 WARNING, 2
/// CRITICAL (also wrong usage), 3 UNKNOWN.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Names of alert rules [default: all that do not need Prometheus]
    #[arg(value_name = "RULE")]
    rules: Vec<String>,

    /// List the alert rules
    #[arg(long, conflicts_with_all = ["prometheus", "json"])]
    list: bool,

    /// Print the rule file for Prometheus
    #[arg(long, conflicts_with_all = ["rules", "json"])]
    prometheus: bool,

    /// Change a threshold; may be repeated. docs/alerts.md lists them
    #[arg(long, value_name = "NAME=NUMBER")]
    threshold: Vec<String>,

    /// File with the counters of earlier runs [default: check.json in Poolwright's state directory]
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,

    /// How long to wait for the sources
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_time)]
    timeout: Duration,

    #[command(flatten)]
    sources: SourceArgs,

    /// Print one JSON object: {state, alerts, problems, rules, pools, figures}
    #[arg(long)]
    json: bool,
}

/// Checks and returns the exit code of the plugin guidelines.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    if args.list {
        print!("{}", check::list());
        return Ok(0);
    }
    if args.prometheus {
        print!("{}", rule_file::text(&Thresholds::changed(&args.threshold)?));
        return Ok(0);
    }
    let result = checked(args).unwrap_or_else(|error| check::failed(&error));
    match args.json {
        true => print_json(&result)?,
        false => print!("{}", result.to_nagios()),
    }
    Ok(result.exit_code())
}

fn checked(args: &Args) -> poolwright_monitor::Result<CheckResult> {
    let check = Check::new(&args.rules, Thresholds::changed(&args.threshold)?)?;
    let state = args.state.clone().unwrap_or_else(|| poolwright_zfs::user::state_dir().join("check.json"));
    check.run(&args.sources.poller(), args.timeout, &state)
}
