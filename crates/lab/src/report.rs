//! What a run found: tables, claims, effects and advice, made from the campaign, the run and its trials alone, so that
//! an old run can be read again.
//!
//! [`Report`] holds every figure that is shown; the page, Markdown, JSON and the terminal only arrange them.

mod advice;
mod cells;
mod claims;
mod compare;
mod csv;
mod effects;
mod figure;
mod format;
mod markdown;
mod measures;
mod page;
mod tables;
mod text;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::campaign::{Campaign, Case, Study};
use crate::order::cases;
use crate::store::{Run, Trial};

pub use advice::{Advice, Choice};
pub use cells::Row;
pub use claims::{ClaimResult, ClaimVerdict};
pub use compare::{CellDiff, Comparison, compare};
pub use csv::csv;
pub use effects::Effect;
pub use figure::Figure;
pub use markdown::{comparison as comparison_markdown, markdown};
pub use page::html;
pub use text::{comparison, text};

/// All that a run says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Campaign.
    pub campaign: String,
    /// One line.
    pub title: String,
    /// What is asked.
    pub about: String,
    /// Where the original was published.
    pub source: String,
    /// Its number in the store.
    pub run: i64,
    /// Scale.
    pub scale: String,
    /// Of order and workloads.
    pub seed: u64,
    /// What the datasets were on.
    pub target: String,
    /// RFC 3339.
    pub started: String,
    /// What it ran on.
    pub machine: BTreeMap<String, String>,
    /// As the drivers and the engine said them.
    pub versions: BTreeMap<String, String>,
    /// Trials that the campaign asks for, without blocks that a stop rule may add.
    pub planned: usize,
    /// Trials that gave something.
    pub done: usize,
    /// Trials that did not, and why.
    pub failed: Vec<Failure>,
    /// The questions.
    pub studies: Vec<StudyReport>,
    /// The closing table.
    pub advice: Vec<Advice>,
}

/// A trial that gave nothing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failure {
    /// Study.
    pub study: String,
    /// Case.
    pub case: Case,
    /// As tables name it.
    pub label: String,
    /// From 0.
    pub block: u32,
    /// Why.
    pub why: String,
}

impl StudyReport {
    /// Whether no trial of it was run.
    pub fn is_empty(&self) -> bool {
        self.rows.iter().all(|r| r.trials + r.failed == 0)
    }
}

/// What came out of a study.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StudyReport {
    /// Name.
    pub name: String,
    /// One line.
    pub title: String,
    /// Factors, in order.
    pub factors: Vec<String>,
    /// Columns of the table, in order.
    pub measures: Vec<String>,
    /// The table.
    pub rows: Vec<Row>,
    /// What the original says.
    pub claims: Vec<ClaimResult>,
    /// What each level does against the first one.
    pub effects: Vec<Effect>,
}

impl Report {
    /// Works everything out.
    pub fn new(campaign: &Campaign, id: i64, run: &Run, trials: &[Trial]) -> Report {
        let in_scale = || campaign.studies.iter().filter(|s| s.is_of(&run.scale));
        let outcomes = || trials.iter().filter_map(|t| t.outcome.as_ref().ok());
        Report {
            campaign: campaign.name.clone(),
            title: campaign.title.clone(),
            about: campaign.about.clone(),
            source: campaign.source.clone(),
            run: id,
            scale: run.scale.clone(),
            seed: run.seed,
            target: run.target.clone(),
            started: run.started.clone(),
            machine: run.machine.clone(),
            versions: outcomes().flat_map(|o| o.versions.clone()).collect(),
            planned: in_scale().map(|s| cases(s).len() * s.repeats as usize).sum(),
            done: outcomes().count(),
            failed: failures(campaign, trials),
            studies: in_scale().map(|s| study(s, trials)).collect(),
            advice: in_scale().flat_map(|s| advice::advice(s, trials)).collect(),
        }
    }

    /// All claims of all studies.
    pub fn claims(&self) -> impl Iterator<Item = &ClaimResult> {
        self.studies.iter().flat_map(|s| &s.claims)
    }

    /// How many claims there are of each kind; kinds without any are left out.
    pub fn verdicts(&self) -> Vec<(ClaimVerdict, usize)> {
        let count = |v| self.claims().filter(|c| c.verdict == v).count();
        ClaimVerdict::ALL.into_iter().map(|v| (v, count(v))).filter(|(_, n)| *n > 0).collect()
    }
}

fn study(study: &Study, trials: &[Trial]) -> StudyReport {
    StudyReport {
        name: study.name.clone(),
        title: study.title.clone(),
        factors: study.factors.iter().map(|f| f.name.clone()).collect(),
        measures: study.measures.clone(),
        rows: cells::rows(study, trials),
        claims: claims::results(study, trials),
        effects: effects::effects(study, trials),
    }
}

fn failures(campaign: &Campaign, trials: &[Trial]) -> Vec<Failure> {
    let failed = trials.iter().filter_map(|t| Some((&t.key, t.outcome.as_ref().err()?)));
    let failure = |(key, why): (&crate::TrialKey, &String)| Failure {
        study: key.study.clone(),
        case: key.case.clone(),
        label: campaign
            .studies
            .iter()
            .find(|s| s.name == key.study)
            .map_or_else(|| format::levels(&key.case), |s| format::case(s, &key.case)),
        block: key.block,
        why: why.clone(),
    };
    failed.map(failure).collect()
}
