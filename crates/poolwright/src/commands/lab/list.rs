//! `poolwright lab list`.

use poolwright_lab::campaign::SMALL;
use poolwright_lab::json_output::CampaignEntry;
use poolwright_lab::{Campaign, order};
use poolwright_report::{Cell, Column, Table};

/// List the shipped campaigns
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print one JSON array on standard output
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<u8> {
    let files = super::assets()?.campaign_files();
    let campaigns = files.iter().map(|path| Ok(Campaign::load(path)?.0));
    let campaigns = campaigns.collect::<anyhow::Result<Vec<Campaign>>>()?;
    if args.json {
        let entry = |c: &Campaign| CampaignEntry {
            name: c.name.clone(),
            title: c.title.clone(),
            trials: trials(c),
            needs: c.needs.clone(),
        };
        println!("{}", serde_json::to_string(&campaigns.iter().map(entry).collect::<Vec<_>>())?);
        return Ok(0);
    }
    let columns =
        [Column::left("name"), Column::right("trials"), Column::left("title"), Column::left("needs")];
    let mut table = Table::new(columns);
    for c in &campaigns {
        let count = trials(c).to_string();
        table.row([&c.name, &count, &c.title, &c.needs.join(" ")].map(|text| Cell::text(text.clone())));
    }
    print!("{}", table.terminal(crate::stdout::terminal()));
    Ok(0)
}

/// At the small scale, without those that a stop rule adds.
fn trials(campaign: &Campaign) -> usize {
    let studies = campaign.studies.iter().filter(|s| s.is_of(SMALL));
    studies.map(|s| order::cases(s).len() * s.repeats as usize).sum()
}
