//! `poolwright lab report`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use poolwright_lab::json_output::ComparedReport;
use poolwright_lab::report::{self, Comparison, Report};
use poolwright_lab::store::{Run, Store, Trial};
use poolwright_lab::{Campaign, store};

use crate::output::{Force, Kind, Output};

/// Make the report of a run: a page for a browser, and what it says in short on the terminal
///
/// From the results alone: the campaign's file is in them as it was.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the campaign, or its file
    #[arg(value_name = "CAMPAIGN")]
    campaign: String,

    /// Where its results are: a file, or postgres://USER@HOST/DATABASE. Left out: lab-CAMPAIGN.db here
    #[arg(long, value_name = "FILE|URL")]
    results: Option<String>,

    /// The run, by its number. Left out: the latest
    #[arg(long, value_name = "N")]
    run: Option<i64>,

    /// Compare with another run of the campaign, cell by cell: its number, or other results (their latest run)
    #[arg(long, value_name = "N|FILE|URL")]
    against: Option<String>,

    /// The page. Left out: lab-CAMPAIGN.html here, or none with --markdown, --csv or --json
    #[arg(short, long, value_name = "FILE.html")]
    output: Option<PathBuf>,

    #[command(flatten)]
    force: Force,

    /// Print Markdown on standard output
    #[arg(long, group = "format")]
    markdown: bool,

    /// Print every figure of every trial on standard output: study, case, block, phase, measure, value, unit
    #[arg(long, group = "format")]
    csv: bool,

    /// Print one JSON object on standard output
    #[arg(long, group = "format")]
    json: bool,
}

/// Results and a run in them.
struct StoredRun {
    store: Box<dyn Store>,
    id: i64,
    run: Run,
    campaign: Campaign,
}

/// A run with all that is known of it.
struct Loaded {
    campaign: Campaign,
    run: Run,
    trials: Vec<Trial>,
    report: Report,
}

/// Runs; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let name = super::stem(Path::new(&args.campaign));
    let place = super::results(args.results.clone(), &name);
    let found = find(&place, &name, args.run)?;
    let other = args.against.as_ref().map(|other| match other.parse() {
        Ok(id) => find(&place, &name, Some(id)),
        Err(_) => find(other, &name, None),
    });
    let other = other.transpose()?;
    let short = args.markdown || args.csv || args.json;
    let output = args.output.clone().or_else(|| (!short).then(|| PathBuf::from(format!("lab-{name}.html"))));
    let page = |path: &PathBuf| Output::open(path, Kind::Page, args.force);
    let opened = output.as_ref().map(page).transpose()?;
    let loaded = load(found)?;
    let other = other.map(load).transpose()?;
    let against = other.map(|other| report::compare(&loaded.report, &other.report));
    if let Some(file) = opened {
        let page = report::html(
            &loaded.report,
            &loaded.campaign,
            &loaded.run.text,
            &loaded.trials,
            against.as_ref(),
        );
        file.write(&page)?;
    }
    if short {
        print!("{}", printed(&args, &loaded, against.as_ref())?);
        return Ok(0);
    }
    print!("{}", report::text(&loaded.report, crate::stdout::terminal()));
    if let Some(against) = &against {
        print!("\n{}", report::comparison(against, crate::stdout::terminal()));
    }
    if let Some(path) = output {
        println!("\nThe page: {}", path.display());
    }
    Ok(0)
}

/// What is asked for instead of the text.
fn printed(args: &Args, loaded: &Loaded, against: Option<&Comparison>) -> anyhow::Result<String> {
    if args.csv {
        return Ok(report::csv(&loaded.campaign, &loaded.trials));
    }
    if args.markdown {
        let compared = against.map(report::comparison_markdown).unwrap_or_default();
        return Ok(report::markdown(&loaded.report) + &compared);
    }
    let output = ComparedReport { report: loaded.report.clone(), against: against.cloned() };
    Ok(serde_json::to_string(&output)? + "\n")
}

fn find(place: &str, name: &str, wanted: Option<i64>) -> anyhow::Result<StoredRun> {
    if !place.contains("://") && !Path::new(place).exists() {
        bail!("there are no results {place}; `poolwright lab run {name}` makes them, --results names others");
    }
    let mut store = store::open(place)?;
    let mut runs = store.runs()?;
    runs.retain(|(_, run)| run.campaign == name);
    let known: Vec<String> = runs.iter().map(|(id, _)| id.to_string()).collect();
    runs.retain(|(id, _)| wanted.is_none_or(|wanted| wanted == *id));
    let place = store::shown(place);
    match (runs.pop(), wanted) {
        (Some((id, run)), _) => {
            let campaign = Campaign::parse(&PathBuf::from(format!("{name}.toml")), &run.text)
                .with_context(|| format!("the campaign's file as run {id} kept it"))?;
            Ok(StoredRun { store, id, run, campaign })
        }
        (None, Some(id)) if !known.is_empty() => {
            bail!("{place} has no run {id} of {name}; it has {}", known.join(", "))
        }
        (None, _) => bail!("{place} has no run of {name}; `poolwright lab run {name}` makes one"),
    }
}

fn load(mut found: StoredRun) -> anyhow::Result<Loaded> {
    let trials = found.store.trials(found.id)?;
    let report = Report::new(&found.campaign, found.id, &found.run, &trials);
    Ok(Loaded { campaign: found.campaign, run: found.run, trials, report })
}
