//! The list of the shipped campaigns.

use poolwright_report::{Table, Terminal};

use crate::campaign::SMALL;
use crate::json_output::CampaignEntry;
use crate::{Assets, Campaign, Result, order};

/// The shipped campaigns.
#[derive(Clone, Debug)]
pub struct CampaignList(Vec<Campaign>);

impl CampaignList {
    /// Reads the shipped campaigns.
    ///
    /// # Errors
    /// If one of them is invalid or cannot be read.
    pub fn read(assets: &Assets) -> Result<CampaignList> {
        let files = assets.campaign_files();
        let campaigns = files.iter().map(|path| Ok(Campaign::load(path)?.0));
        Ok(CampaignList(campaigns.collect::<Result<_>>()?))
    }

    /// A table with a row for each campaign.
    pub fn text(&self, terminal: Terminal) -> String {
        Table::of(&self.0)
            .left("name", |c| c.name.as_str())
            .right("trials", |c| trials(c).to_string())
            .left("title", |c| c.title.as_str())
            .left("needs", |c| c.needs.join(" "))
            .table()
            .terminal(terminal)
    }

    /// An entry for each campaign.
    pub fn entries(&self) -> Vec<CampaignEntry> {
        let entry = |c: &Campaign| CampaignEntry {
            name: c.name.clone(),
            title: c.title.clone(),
            trials: trials(c),
            needs: c.needs.clone(),
        };
        self.0.iter().map(entry).collect()
    }
}

/// The number of trials at the small scale, without those that a stop rule adds.
fn trials(campaign: &Campaign) -> usize {
    let studies = campaign.studies.iter().filter(|s| s.is_of(SMALL) && !s.on_request);
    studies.map(|s| order::cases(s).len() * s.repeats as usize).sum()
}
