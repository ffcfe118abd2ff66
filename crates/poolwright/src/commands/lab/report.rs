//! `poolwright lab report`.

use std::path::PathBuf;

use anyhow::bail;
use poolwright_lab::store::{Run, Trial};
use poolwright_lab::{Campaign, store};

/// Makes the report of a run
///
/// From the results alone: the campaign's file is in them as it was.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the campaign
    #[arg(value_name = "CAMPAIGN")]
    campaign: String,

    /// Where its results are: a file, or postgres://USER@HOST/DATABASE. Left out: lab-CAMPAIGN.db here
    #[arg(long, value_name = "FILE|URL")]
    results: Option<String>,

    /// The run, by its number. Left out: the latest
    #[arg(long, value_name = "N")]
    run: Option<i64>,

    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// A run with all that is known of it.
struct Loaded {
    id: i64,
    campaign: Campaign,
    run: Run,
    trials: Vec<Trial>,
}

/// Runs; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let loaded = load(&args)?;
    let trials = &loaded.trials;
    let failed = trials.iter().filter(|t| t.outcome.is_err()).count();
    if args.json {
        let object = serde_json::json!({ "run": loaded.id, "of": loaded.run, "trials": trials });
        println!("{}", serde_json::to_string(&object)?);
    } else {
        println!("{}: run {}, {} trials, {failed} failed", loaded.campaign.title, loaded.id, trials.len());
    }
    Ok(0)
}

fn load(args: &Args) -> anyhow::Result<Loaded> {
    let place = super::results(args.results.clone(), &args.campaign);
    if !place.contains("://") && !PathBuf::from(&place).exists() {
        bail!(
            "there are no results {place}; `poolwright lab run {}` makes them, --results names others",
            args.campaign
        );
    }
    let mut store = store::open(&place)?;
    let mut runs = store.runs()?;
    runs.retain(|(id, run)| run.campaign == args.campaign && args.run.is_none_or(|wanted| wanted == *id));
    let Some((id, run)) = runs.pop() else {
        let place = store::shown(&place);
        bail!("{place} has no such run of {}", args.campaign);
    };
    let campaign = Campaign::parse(&PathBuf::from(format!("{}.toml", run.campaign)), &run.text)?;
    Ok(Loaded { id, campaign, trials: store.trials(id)?, run })
}
