//! `poolwright lab report`.

use std::path::{Path, PathBuf};

use poolwright_lab::json_output::ComparedReport;
use poolwright_lab::report::{self, Comparison, StoredRun};
use poolwright_lab::{Error, campaign};

use crate::failure::hint;
use crate::output::{Force, Kind, Output};

/// Write the report of a run: an HTML page, and a summary on the terminal
///
/// The report needs only the results, which include a copy of the campaign's file.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of the campaign, or its file
    #[arg(value_name = "CAMPAIGN")]
    campaign: String,

    /// File of the results [default: lab-CAMPAIGN.db]
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,

    /// Number of the run [default: the latest]
    #[arg(long, value_name = "N")]
    run: Option<i64>,

    /// Compare with another run of the campaign, cell by cell: the run's number, or other results, whose latest run is used
    #[arg(long, value_name = "N|FILE")]
    against: Option<String>,

    /// Write the page to this file [default: lab-CAMPAIGN.html; no page with --markdown, --csv or --json]
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

/// Runs; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let name = campaign::name_of(Path::new(&args.campaign));
    let location = super::results(args.results.as_deref(), &name);
    let loaded = load(&location, &name, args.run)?;
    let other = args.against.as_ref().map(|other| match other.parse() {
        Ok(id) => load(&location, &name, Some(id)),
        Err(_) => load(Path::new(other), &name, None),
    });
    let against = other.transpose()?.map(|other| report::compare(&loaded.report, &other.report));
    let short = args.markdown || args.csv || args.json;
    let output = args.output.clone().or_else(|| (!short).then(|| PathBuf::from(format!("lab-{name}.html"))));
    let page = |path: &PathBuf| Output::open(path, Kind::Page, args.force);
    let opened = output.as_ref().map(page).transpose()?;
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

/// The output in the requested format.
fn printed(args: &Args, loaded: &StoredRun, against: Option<&Comparison>) -> anyhow::Result<String> {
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

/// Loads a run, and adds the option that names other results.
fn load(location: &Path, name: &str, wanted: Option<i64>) -> anyhow::Result<StoredRun> {
    StoredRun::load(location, name, wanted).map_err(|error| match error {
        Error::NoResults { .. } => {
            anyhow::Error::from(error).context(hint("use --results to name another results file"))
        }
        other => other.into(),
    })
}
