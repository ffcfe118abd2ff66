//! `poolwright lab list`.

use poolwright_lab::CampaignList;

/// List the shipped campaigns
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print one JSON array on standard output
    #[arg(long)]
    json: bool,
}

/// Lists the campaigns; returns the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let campaigns = CampaignList::read(&super::assets()?)?;
    if args.json {
        println!("{}", serde_json::to_string(&campaigns.entries())?);
    } else {
        print!("{}", campaigns.text(crate::stdout::terminal()));
    }
    Ok(0)
}
