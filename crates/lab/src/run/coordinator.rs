//! The trials of a run: which are in the queue, which have ended, which a stop rule adds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Event, Options, Summary};
use crate::campaign::{Campaign, Study};
use crate::order;
use crate::statistics;
use crate::store::{Store, Task, Trial};
use crate::{Result, TrialKey};

/// The most trials of a block, for ranks in the queue.
const BLOCK: i64 = 1 << 20;
/// The most blocks of a study, likewise.
const BLOCKS: i64 = 1 << 20;

/// A run in progress.
pub(super) struct Coordinator<'a> {
    pub(super) store: &'a mut dyn Store,
    pub(super) run: i64,
    pub(super) summary: Summary,
    options: &'a Options,
    studies: &'a [&'a Study],
    /// The place of each study in the campaign.
    places: Vec<i64>,
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

impl<'a> Coordinator<'a> {
    /// Puts the missing trials into the queue.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) fn begin(
        store: &'a mut dyn Store,
        run: i64,
        campaign: &Campaign,
        studies: &'a [&'a Study],
        options: &'a Options,
    ) -> Result<Coordinator<'a>> {
        let trials = store.trials(run)?;
        let place = |study: &&Study| campaign.studies.iter().position(|other| other.name == study.name);
        let places = studies.iter().map(|study| place(study).unwrap_or(0) as i64).collect();
        let mut coordinator = Coordinator {
            store,
            run,
            summary: Summary { run, ..Summary::default() },
            options,
            studies,
            places,
            blocks: studies.iter().map(|study| options.repeats.unwrap_or(study.repeats)).collect(),
            done: trials.iter().filter(|t| t.outcome.is_ok()).map(|t| t.key.clone()).collect(),
            trials,
            wanted: BTreeSet::new(),
            failed: BTreeSet::new(),
        };
        for study in 0..studies.len() {
            for block in 0..coordinator.blocks[study] {
                coordinator.enqueue(study, block)?;
            }
        }
        Ok(coordinator)
    }

    /// The event at the begin.
    pub(super) fn announce(&self, changed: bool, watch: &mut dyn FnMut(Event<'_>)) {
        watch(Event::Begun { trials: self.wanted.len(), skipped: self.summary.skipped, changed });
    }

    fn keys(&self, study: usize, block: u32) -> Vec<TrialKey> {
        let study = self.studies[study];
        let cases = order::block(study, self.options.seed, block).into_iter();
        cases.map(|case| TrialKey { study: study.name.clone(), case, block }).collect()
    }

    fn enqueue(&mut self, study: usize, block: u32) -> Result<()> {
        let keys = self.keys(study, block);
        self.wanted.extend(keys.iter().cloned());
        let (done, missing): (Vec<TrialKey>, Vec<TrialKey>) =
            keys.into_iter().partition(|key| self.is_done(key));
        self.summary.skipped += done.len();
        self.summary.trials += done.len();
        self.store.enqueue(self.run, self.rank(study, block), &missing)
    }

    fn rank(&self, study: usize, block: u32) -> i64 {
        (self.places[study] * BLOCKS + i64::from(block)) * BLOCK
    }

    fn is_done(&self, key: &TrialKey) -> bool {
        self.done.contains(key)
    }

    fn has_ended(&self, key: &TrialKey) -> bool {
        self.failed.contains(key) || self.is_done(key)
    }

    /// Whether all trials have ended. Adds a block to a study whose stop rule requires it.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) fn is_complete(&mut self) -> Result<bool> {
        for number in 0..self.studies.len() {
            let study = self.studies[number];
            let of_study = |key: &&TrialKey| key.study == study.name;
            let is_ended = self.wanted.iter().filter(of_study).all(|key| self.has_ended(key));
            let most = study.stop.filter(|_| self.options.repeats.is_none()).map_or(0, |stop| stop.most);
            let block = self.blocks[number];
            if is_ended && block < most && !is_precise_enough(study, &self.trials) {
                self.blocks[number] += 1;
                self.enqueue(number, block)?;
                return self.is_complete();
            }
        }
        Ok(self.missing() == 0)
    }

    /// Whether a trial is one of these studies and blocks.
    pub(super) fn wants(&self, key: &TrialKey) -> bool {
        self.wanted.contains(key)
    }

    /// The number of trials that have not ended.
    pub(super) fn missing(&self) -> usize {
        self.wanted.iter().filter(|key| !self.has_ended(key)).count()
    }

    /// The number of trials that have ended, and that of all.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.summary.trials, self.wanted.len())
    }

    /// A trial begins in this process.
    pub(super) fn begun(&self, key: &TrialKey, watch: &mut dyn FnMut(Event<'_>)) {
        let (ended, of) = self.counts();
        watch(Event::Trial { key, number: ended + 1, of, left: self.left(1) });
    }

    /// A trial has ended and is saved.
    pub(super) fn ended(&mut self, trial: Trial, watch: &mut dyn FnMut(Event<'_>)) {
        if !self.wanted.contains(&trial.key) {
            // Of another run of the same campaign, with more studies or blocks.
            return;
        }
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
    }

    /// Reads the queue and the trials that other processes have ended, and puts those into the queue that it has lost: another run of the same campaign
    /// may have emptied it.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) fn collect(&mut self, watch: &mut dyn FnMut(Event<'_>)) -> Result<Vec<Task>> {
        let tasks = self.store.queue(self.run)?;
        for task in tasks.iter().filter(|task| task.has_ended()) {
            if !self.wanted.contains(&task.key) || self.has_ended(&task.key) {
                continue;
            }
            if let Some(trial) = self.store.trial(self.run, &task.key)? {
                self.ended(trial, watch);
            }
        }
        let queued: BTreeSet<&TrialKey> = tasks.iter().map(|task| &task.key).collect();
        if self.wanted.iter().any(|key| !queued.contains(key) && !self.has_ended(key)) {
            for study in 0..self.studies.len() {
                for block in 0..self.blocks[study] {
                    let keys = self.keys(study, block).into_iter();
                    let lost: Vec<TrialKey> = keys.filter(|key| !self.has_ended(key)).collect();
                    self.store.enqueue(self.run, self.rank(study, block), &lost)?;
                }
            }
        }
        Ok(tasks)
    }

    /// Warns of measures that the first trial of a study does not have, or has in another unit: only the driver knows what it
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

    /// Estimates the remaining time from the mean duration of each study's trials, or of all trials, if so many run at once.
    pub(super) fn left(&self, workers: usize) -> Option<Duration> {
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
        let seconds: f64 = missing.map(|key| of(&key.study)).sum();
        Some(Duration::from_secs_f64(seconds / workers.max(1) as f64))
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
