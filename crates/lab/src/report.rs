//! The report of a run: tables, claims, effects and recommendations, computed from the campaign, the run and its
//! trials alone, so that an old run can be reported again.
//!
//! [`Report`] contains every figure that is shown; the page, Markdown, JSON and the terminal only format it.

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
mod stored_run;
mod tables;
mod text;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::LabPoolLoad;
use crate::campaign::{Campaign, Case, MeasureInfo, Study, StudyTable};
use crate::order::cases;
use crate::store::{Run, Trial};

pub use advice::{Advice, Alternative, Choice, Imprecise, Weighed};
pub use cells::Row;
pub use claims::ClaimResult;

pub use crate::claim_test::ClaimVerdict;
pub use compare::{CellDiff, Comparison, compare};
pub use csv::csv;
pub use effects::Effect;
pub use figure::Figure;
pub use markdown::{comparison as comparison_markdown, markdown};
pub use page::html;
pub use stored_run::StoredRun;
pub use text::{comparison, text};

/// The complete report of a run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// Name of the campaign.
    pub campaign: String,
    /// Title, one line.
    pub title: String,
    /// The question of the campaign.
    pub about: String,
    /// Where and when the original was published.
    pub source: String,
    /// Number of the run in the store.
    pub run: i64,
    /// Scale of the run.
    pub scale: String,
    /// Seed of the order and of the workloads.
    pub seed: u64,
    /// The storage of the datasets: `pool`, `dataset NAME` or `directory PATH`.
    pub target: String,
    /// The load of the kernel's pool during the trials; missing on other targets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<LabPoolLoad>,
    /// Start of the run, RFC 3339 in UTC.
    pub started: String,
    /// The machine on which the run took place.
    pub machine: BTreeMap<String, String>,
    /// Versions as reported by the drivers and the engine.
    pub versions: BTreeMap<String, String>,
    /// Number of trials that the campaign plans, without blocks that undecided claims may add.
    pub planned: usize,
    /// Number of trials with an outcome.
    pub done: usize,
    /// Trials that failed.
    pub failed: Vec<Failure>,
    /// The studies, in the campaign's order.
    pub studies: Vec<StudyReport>,
    /// The answers to the campaign's questions: what the original's author would choose today, and why.
    pub advice: Vec<Advice>,
}

/// A failed trial.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Failure {
    /// Name of the study.
    pub study: String,
    /// The case.
    pub case: Case,
    /// The case's name in tables.
    pub label: String,
    /// Block number, from 0.
    pub block: u32,
    /// The reason of the failure.
    pub why: String,
}

impl StudyReport {
    /// Whether no trial of the campaign was run.
    pub fn is_empty(&self) -> bool {
        self.rows.iter().all(|r| r.trials + r.failed == 0)
    }
}

/// The results of a study.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StudyReport {
    /// Name of the study.
    pub name: String,
    /// Title, one line.
    pub title: String,
    /// Names of the factors, in order.
    pub factors: Vec<String>,
    /// Columns of the tables, in order.
    pub measures: Vec<String>,
    /// Title, unit and direction of each column.
    pub columns: Vec<MeasureInfo>,
    /// The questions by which the columns are divided into tables.
    pub tables: Vec<TablePart>,
    /// Words for the measures of the claims that are not among the columns.
    pub others: Vec<MeasureInfo>,
    /// Rows of the tables.
    pub rows: Vec<Row>,
    /// The original's statements, tested.
    pub claims: Vec<ClaimResult>,
    /// Effect of each level relative to the first one of its factor.
    pub effects: Vec<Effect>,
}

/// A table of a study: some of its columns.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TablePart {
    /// The question; empty if the study has one table only.
    pub question: String,
    /// Names of its measures, in order.
    pub measures: Vec<String>,
}

impl StudyReport {
    /// Returns the title of a measure; without one, its name.
    pub fn measure_title<'a>(&'a self, measure: &'a str) -> &'a str {
        let mut all = self.columns.iter().chain(&self.others);
        all.find(|info| info.name == measure).map_or(measure, |info| info.title.as_str())
    }
}

impl Report {
    /// Computes the report.
    pub fn new(campaign: &Campaign, id: i64, run: &Run, trials: &[Trial]) -> Report {
        let has_trials = |study: &Study| trials.iter().any(|trial| trial.key.study == study.name);
        let is_shown = |study: &&Study| study.is_of(&run.scale) && (!study.on_request || has_trials(study));
        let in_scale = || campaign.studies.iter().filter(is_shown);
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
            pool: LabPoolLoad::sum(outcomes().filter_map(|of| of.pool)),
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

    /// Whether a node of a trial is the machine of the run itself, and not one of a cluster.
    pub(crate) fn runs_on(&self, node: &str) -> bool {
        node.is_empty() || self.machine.get("host").is_some_and(|host| host == node)
    }

    /// Returns the claims of all studies.
    pub fn claims(&self) -> impl Iterator<Item = &ClaimResult> {
        self.studies.iter().flat_map(|s| &s.claims)
    }

    /// Returns the number of figures whose trials vary by more than 10 %, and of all figures.
    pub(crate) fn noisy(&self) -> (u64, u64) {
        let rows = self.studies.iter().flat_map(|study| &study.rows);
        let figures = rows.flat_map(|row| row.figures.iter().flatten());
        figures.fold((0, 0), |(noisy, all), figure| (noisy + u64::from(figure.noisy), all + 1))
    }

    /// Returns the number of claims for each verdict that occurs.
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
        columns: study.measures.iter().map(|m| study.info(m)).collect(),
        tables: study.tables.iter().map(part).collect(),
        others: study.infos.iter().filter(|info| !study.measures.contains(&info.name)).cloned().collect(),
        rows: cells::rows(study, trials),
        claims: claims::results(study, trials),
        effects: effects::effects(study, trials),
    }
}

fn part(table: &StudyTable) -> TablePart {
    TablePart { question: table.question.clone(), measures: table.measures.clone() }
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
