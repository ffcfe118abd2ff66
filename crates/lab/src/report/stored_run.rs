//! A run from the results, with its report.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Report;
use crate::store::{Run, Store, Trial};
use crate::{Campaign, Error, Result};

/// A run, its trials and the report of them.
#[derive(Debug)]
pub struct StoredRun {
    /// The campaign, from the text that is stored with the run.
    pub campaign: Campaign,
    /// The run.
    pub run: Run,
    /// Its trials.
    pub trials: Vec<Trial>,
    /// Its report.
    pub report: Report,
}

impl StoredRun {
    /// Loads a run of the campaign `name` from the results in `location`: the run with the number `wanted`, or the latest one.
    ///
    /// # Errors
    /// If there are no such results, they have no such run, or they cannot be read.
    pub fn load(location: &Path, name: &str, wanted: Option<i64>) -> Result<StoredRun> {
        if !location.exists() {
            let location = location.display().to_string();
            return Err(Error::NoResults { location, campaign: name.to_owned() });
        }
        let mut store = Store::open(location)?;
        let mut runs = store.runs()?;
        runs.retain(|(_, run)| run.campaign == name);
        let known: Vec<i64> = runs.iter().map(|(id, _)| *id).collect();
        runs.retain(|(id, _)| wanted.is_none_or(|wanted| wanted == *id));
        let Some((id, mut run)) = runs.pop() else {
            let (location, campaign) = (location.display().to_string(), name.to_owned());
            return Err(Error::NoRun { location, campaign, wanted, known });
        };
        let campaign = Campaign::parse_stored(&PathBuf::from(format!("{name}.toml")), &run.text)
            .map_err(|why| Error::StoredCampaign { run: id, why: Box::new(why) })?;
        let trials = store.trials(id)?;
        for (node, machine) in store.nodes(id)? {
            run.machine.insert(format!("node {node}"), described(&machine));
        }
        let report = Report::new(&campaign, id, &run, &trials);
        Ok(StoredRun { campaign, run, trials, report })
    }
}

/// The distinguishing facts of a machine of a cluster, in one line.
fn described(machine: &BTreeMap<String, String>) -> String {
    let other = |name: &&String| !matches!(name.as_str(), "host" | "poolwright" | "scratch");
    machine
        .iter()
        .filter(|(name, _)| other(name))
        .map(|(name, value)| format!("{name} {value}"))
        .collect::<Vec<_>>()
        .join(", ")
}
