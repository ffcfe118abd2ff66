//! The trials of a run: completed ones, missing ones, and those that a stop rule adds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Event, Options, Summary};
use crate::TrialKey;
use crate::campaign::{Campaign, Study};
use crate::order;
use crate::statistics;
use crate::store::Trial;

/// The trials of a run.
pub(super) struct RunTrials<'a> {
    pub(super) summary: Summary,
    options: &'a Options,
    /// In the order of the campaign.
    studies: Vec<&'a Study>,
    /// The number of blocks of each study.
    blocks: Vec<u32>,
    /// All known trials, including those of earlier runs.
    trials: Vec<Trial>,
    /// The trials of these studies and blocks.
    wanted: BTreeSet<TrialKey>,
    /// Those that have succeeded.
    done: BTreeSet<TrialKey>,
    /// Those that have failed in this run. They are not repeated.
    failed: BTreeSet<TrialKey>,
}

/// The trials of a block of a study that have not ended, in the order in which they run.
pub(super) type Block = Vec<TrialKey>;

impl<'a> RunTrials<'a> {
    /// The trials of the run with this number. `trials` are those in the results.
    pub(super) fn new(
        run: i64,
        campaign: &Campaign,
        studies: &[&'a Study],
        options: &'a Options,
        trials: Vec<Trial>,
    ) -> RunTrials<'a> {
        let mut studies = studies.to_vec();
        studies.sort_by_key(|study| campaign.studies.iter().position(|other| other.name == study.name));
        let mut all = RunTrials {
            summary: Summary { run, ..Summary::default() },
            options,
            blocks: studies.iter().map(|study| options.repeats.unwrap_or(study.repeats)).collect(),
            studies,
            done: trials.iter().filter(|t| t.outcome.is_ok()).map(|t| t.key.clone()).collect(),
            trials,
            wanted: BTreeSet::new(),
            failed: BTreeSet::new(),
        };
        for study in 0..all.studies.len() {
            for block in 0..all.blocks[study] {
                all.add(study, block);
            }
        }
        all.add_blocks();
        all
    }

    /// The event at the beginning.
    pub(super) fn announce(&self, changed: bool, watch: &mut dyn FnMut(Event<'_>)) {
        watch(Event::Begun { trials: self.wanted.len(), skipped: self.summary.skipped, changed });
    }

    fn keys(&self, study: usize, block: u32) -> impl Iterator<Item = TrialKey> + use<> {
        let study = self.studies[study];
        let name = study.name.clone();
        let cases = order::block(study, self.options.seed, block).into_iter();
        cases.map(move |case| TrialKey { study: name.clone(), case, block })
    }

    fn add(&mut self, study: usize, block: u32) {
        for key in self.keys(study, block) {
            let done = usize::from(self.done.contains(&key));
            self.summary.skipped += done;
            self.summary.trials += done;
            self.wanted.insert(key);
        }
    }

    /// Adds blocks to studies whose trials have all ended and whose stop rule requires more.
    fn add_blocks(&mut self) {
        for number in 0..self.studies.len() {
            let study = self.studies[number];
            let most = study.stop.filter(|_| self.options.repeats.is_none()).map_or(0, |stop| stop.most);
            let is_of_study = |key: &&TrialKey| key.study == study.name;
            while self.wanted.iter().filter(is_of_study).all(|key| self.has_ended(key))
                && self.blocks[number] < most
                && !is_precise_enough(study, &self.trials)
            {
                self.blocks[number] += 1;
                self.add(number, self.blocks[number] - 1);
            }
        }
    }

    fn has_ended(&self, key: &TrialKey) -> bool {
        self.failed.contains(key) || self.done.contains(key)
    }

    /// The blocks with trials that have not ended.
    pub(super) fn missing(&self) -> impl Iterator<Item = Block> {
        let blocks = (0..self.studies.len())
            .flat_map(|study| (0..self.blocks[study]).map(move |block| (study, block)));
        let missing = move |(study, block)| -> Block {
            self.keys(study, block).filter(|key| !self.has_ended(key)).collect()
        };
        blocks.map(missing).filter(|block| !block.is_empty())
    }

    /// A trial begins in this process.
    pub(super) fn begun(&self, key: &TrialKey, watch: &mut dyn FnMut(Event<'_>)) {
        let (number, of) = (self.summary.trials + 1, self.wanted.len());
        watch(Event::Trial { key, number, of, left: self.left() });
    }

    /// A trial has ended and is saved.
    pub(super) fn ended(&mut self, trial: Trial, watch: &mut dyn FnMut(Event<'_>)) {
        self.summary.trials += 1;
        match &trial.outcome {
            Ok(_) => {
                self.summary.done += 1;
                self.done.insert(trial.key.clone());
            }
            Err(why) => {
                self.summary.failed.push((trial.key.clone(), why.clone()));
                self.failed.insert(trial.key.clone());
            }
        }
        watch(Event::Ended(&trial));
        self.warn_of_measures(&trial, watch);
        self.trials.retain(|t| t.key != trial.key);
        self.trials.push(trial);
        self.add_blocks();
    }

    /// Warns of measures that the first trial of a study does not have, or has in another unit: only the driver determines what it
    /// reports.
    fn warn_of_measures(&self, trial: &Trial, watch: &mut dyn FnMut(Event<'_>)) {
        let Some(study) = self.studies.iter().find(|study| study.name == trial.key.study) else { return };
        let first = !self.trials.iter().any(|t| t.key.study == study.name && t.outcome.is_ok());
        let Some(outcome) = trial.outcome.as_ref().ok().filter(|_| first) else { return };
        let named = study.measures.iter().chain(study.claims.iter().map(|c| &c.measure));
        let criteria = study.recommend.iter().flat_map(|r| r.criteria.iter().map(|c| &c.measure));
        for measure in named.chain(criteria) {
            let (unit, study) = (study.info(measure).unit, &study.name);
            match outcome.measure(measure) {
                None => {
                    watch(Event::Note(format!("study {study:?}: the first trial has no measure {measure:?}")))
                }
                Some(found) if found.unit != unit => watch(Event::Note(format!(
                    "study {study:?}: {measure:?} is reported in {:?}, but the campaign declares {unit:?}",
                    found.unit
                ))),
                Some(_) => {}
            }
        }
    }

    /// Estimates the remaining time from the mean duration of each study's trials, or of all trials.
    fn left(&self) -> Option<Duration> {
        let mut by_study: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for trial in &self.trials {
            if let Ok(outcome) = &trial.outcome {
                by_study.entry(&trial.key.study).or_default().push(outcome.seconds);
            }
        }
        let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
        let all: Vec<f64> = by_study.values().flatten().copied().collect();
        if all.is_empty() {
            return None;
        }
        let of = |study: &str| by_study.get(study).map_or_else(|| mean(&all), |v| mean(v));
        let missing = self.wanted.iter().filter(|key| !self.has_ended(key));
        Some(Duration::from_secs_f64(missing.map(|key| of(&key.study)).sum()))
    }
}

/// Whether every cell's interval of the leading measure is as narrow as the stop rule requires. A case that never
/// succeeded does not count.
fn is_precise_enough(study: &Study, trials: &[Trial]) -> bool {
    let (Some(stop), Some(measure)) = (study.stop, study.measures.first()) else { return true };
    let cells = statistics::cells(study, trials, measure);
    cells.iter().filter(|c| !c.values.is_empty()).all(|cell| match cell.interval {
        Some((low, high)) => high - low <= 2.0 * stop.interval * cell.median.abs(),
        None => false,
    })
}
