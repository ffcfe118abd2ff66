//! The trials of a run: which have ended, which are missing, and which undecided claims add.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use poolwright_base::stats::mean;

use super::{Event, Options, Summary};
use crate::TrialKey;
use crate::campaign::{Campaign, Case, Claim, Study, is_of_the_lab};
use crate::claim_test::{ClaimVerdict, FIRST_TEST, blocks_to_decision, test_claim};
use crate::order;
use crate::outcome::PhaseOutcome;
use crate::store::Trial;

/// The trials of a run.
pub(super) struct RunTrials<'a> {
    pub(super) summary: Summary,
    options: &'a Options,
    studies: Vec<StudyTrials<'a>>,
    /// All known trials, including those of earlier runs.
    trials: Vec<Trial>,
    /// Those that have succeeded.
    done: BTreeSet<TrialKey>,
    /// Those that have failed in this run. They are not repeated.
    failed: BTreeSet<TrialKey>,
    /// Whether the run has warned of the hypervisor.
    has_warned_of_steal: bool,
}

/// Above this share of the processors' time, in per cent, that the hypervisor takes, the run warns. At 24 %, imports of equal files took 7 to 14 s.
const NOTABLE_STEAL: f64 = 5.0;

/// The trials of a study.
struct StudyTrials<'a> {
    study: &'a Study,
    /// The trials of each block that decide claims: in the first ones, those of the cases of claims, in later ones, those of the cases of
    /// undecided claims. Without a time limit, the first blocks are those of the study, with all cases.
    blocks: Vec<Block>,
    /// The number of the first blocks.
    first: usize,
    /// The trials of the study's own blocks: with a time limit, those that decide no claim run last.
    own: Vec<Block>,
}

/// Trials of a block of a study, in the order in which they run.
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
        let of_study = |study: &'a Study| {
            let repeats = options.repeats.unwrap_or(study.repeats);
            let own: Vec<Block> =
                (0..repeats).map(|block| keys(study, options.seed, block, |_| true)).collect();
            if options.limit.is_none() {
                return StudyTrials { study, blocks: own.clone(), first: own.len(), own };
            }
            let continues = options.repeats.is_none() && study.claims.iter().all(|c| c.decide.is_some());
            let first = if continues { repeats.min(FIRST_TEST) } else { repeats };
            let is_claimed = |case: &Case| study.claims.iter().any(|claim| claim.is_of(case));
            let blocks = (0..first).map(|block| keys(study, options.seed, block, is_claimed)).collect();
            StudyTrials { study, blocks, first: first as usize, own }
        };
        let mut all = RunTrials {
            summary: Summary { run, ..Summary::default() },
            options,
            studies: studies.into_iter().map(of_study).collect(),
            done: trials.iter().filter(|t| t.outcome.is_ok()).map(|t| t.key.clone()).collect(),
            trials,
            failed: BTreeSet::new(),
            has_warned_of_steal: false,
        };
        all.add_blocks();
        all.summary.skipped = all.wanted().into_iter().filter(|key| all.done.contains(key)).count();
        all.summary.trials = all.summary.skipped;
        all
    }

    /// The event at the beginning.
    pub(super) fn announce(&self, changed: bool, watch: &mut dyn FnMut(Event<'_>)) {
        watch(Event::Begun { trials: self.wanted().len(), skipped: self.summary.skipped, changed });
    }

    /// All trials of the blocks.
    fn wanted(&self) -> BTreeSet<&TrialKey> {
        self.studies.iter().flat_map(|of| of.blocks.iter().chain(&of.own)).flatten().collect()
    }

    /// Adds a block to each study with undecided claims whose trials have all ended, as soon as those of the studies' first blocks have. It has the
    /// cases of these claims. Only earlier blocks determine them, so that a continued run has the same.
    fn add_blocks(&mut self) {
        let (done, failed) = (&self.done, &self.failed);
        let has_ended = |block: &Block| block.iter().all(|key| done.contains(key) || failed.contains(key));
        if self.options.repeats.is_some()
            || !self.studies.iter().all(|of| of.blocks[..of.first].iter().all(has_ended))
        {
            return;
        }
        for StudyTrials { study, blocks, .. } in &mut self.studies {
            while blocks.last().is_none_or(has_ended) {
                let open = continued(study, &self.trials, blocks.len() as u32);
                if open.is_empty() {
                    break;
                }
                let is_open = |case: &Case| open.iter().any(|claim| claim.is_of(case));
                blocks.push(keys(study, self.options.seed, blocks.len() as u32, is_open));
            }
        }
    }

    fn has_ended(&self, key: &TrialKey) -> bool {
        self.failed.contains(key) || self.done.contains(key)
    }

    /// The trials that have not ended, by block: those of the studies' first blocks, those that undecided claims add, the others. Within each, a
    /// block that has begun comes first, then the blocks that are expected to decide most claims in a second.
    pub(super) fn missing(&self) -> Vec<Block> {
        let mut blocks: Vec<((usize, bool), f64, Block)> = Vec::new();
        for of in &self.studies {
            let deciding: BTreeSet<&TrialKey> = of.blocks.iter().flatten().collect();
            for (number, block) in of.blocks.iter().chain(&of.own).enumerate() {
                let rank = usize::from(number >= of.first) + usize::from(number >= of.blocks.len());
                let of_rank: Vec<&TrialKey> =
                    block.iter().filter(|key| rank < 2 || !deciding.contains(*key)).collect();
                let left: Block =
                    of_rank.iter().copied().filter(|key| !self.has_ended(key)).cloned().collect();
                if left.is_empty() {
                    continue;
                }
                let decides = match rank {
                    0 => undecided(of.study, &self.trials, number as u32).count() as f64,
                    1 => decided_by_a_block(of.study, &self.trials, number as u32),
                    _ => 0.0,
                };
                let value = decides / self.seconds(&left).unwrap_or(1.0);
                blocks.push(((rank, left.len() == of_rank.len()), value, left));
            }
        }
        blocks.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
        blocks.into_iter().map(|(.., left)| left).collect()
    }

    /// A trial begins in this process.
    pub(super) fn begun(&self, key: &TrialKey, watch: &mut dyn FnMut(Event<'_>)) {
        let (number, of) = (self.summary.trials + 1, self.wanted().len());
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
        self.warn_of_steal(&trial, watch);
        self.trials.retain(|t| t.key != trial.key);
        self.trials.push(trial);
        self.add_blocks();
    }

    /// Warns of measures of the driver that the first trial of a study does not have, and of measures in another unit: only the driver determines
    /// what it reports. Which measures of the lab exist depends on the case, for example those of snapshots.
    fn warn_of_measures(&self, trial: &Trial, watch: &mut dyn FnMut(Event<'_>)) {
        let Some(study) = self.studies.iter().map(|of| of.study).find(|s| s.name == trial.key.study) else {
            return;
        };
        let first = !self.trials.iter().any(|t| t.key.study == study.name && t.outcome.is_ok());
        let Some(outcome) = trial.outcome.as_ref().ok().filter(|_| first) else { return };
        let named = study.measures.iter().chain(study.claims.iter().map(|c| &c.measure));
        let criteria = study.recommend.iter().flat_map(|r| r.criteria.iter().map(|c| &c.measure));
        for measure in named.chain(criteria) {
            let (unit, study) = (study.info(measure).unit, &study.name);
            match outcome.measure(measure) {
                None if is_of_the_lab(measure) => {}
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

    /// Warns once of a hypervisor that takes the processors' time during a measured phase.
    fn warn_of_steal(&mut self, trial: &Trial, watch: &mut dyn FnMut(Event<'_>)) {
        let steal_of = |phase: &PhaseOutcome| phase.measures.get("host_steal").map_or(0.0, |m| m.value);
        let phases = trial.outcome.iter().flat_map(|outcome| &outcome.phases).filter(|phase| phase.measured);
        let steal = phases.map(steal_of).fold(0.0, f64::max);
        if steal > NOTABLE_STEAL && !self.has_warned_of_steal {
            self.has_warned_of_steal = true;
            watch(Event::Note(format!(
                "the hypervisor takes {steal:.0} % of the processors' time, so times vary between trials and fewer claims are decided"
            )));
        }
    }

    /// Estimates the remaining time.
    fn left(&self) -> Option<Duration> {
        let missing: Block = self.wanted().into_iter().filter(|key| !self.has_ended(key)).cloned().collect();
        self.seconds(&missing).map(Duration::from_secs_f64)
    }

    /// Estimates the duration of trials in seconds, each from the mean of its case's trials, of its study's, or of all.
    fn seconds(&self, block: &Block) -> Option<f64> {
        let mut by_case: BTreeMap<(&str, &Case), Vec<f64>> = BTreeMap::new();
        let mut by_study: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for Trial { key, outcome, .. } in &self.trials {
            if let Ok(outcome) = outcome {
                by_case.entry((&key.study, &key.case)).or_default().push(outcome.seconds);
                by_study.entry(&key.study).or_default().push(outcome.seconds);
            }
        }
        let all: Vec<f64> = by_study.values().flatten().copied().collect();
        if all.is_empty() {
            return None;
        }
        let of = |key: &TrialKey| {
            let known = by_case.get(&(&*key.study, &key.case)).or_else(|| by_study.get(&*key.study));
            mean(known.unwrap_or(&all))
        };
        Some(block.iter().map(of).sum())
    }
}

/// The trials of a block, for the cases that are `chosen`.
fn keys(study: &Study, seed: u64, block: u32, chosen: impl Fn(&Case) -> bool) -> Block {
    let cases = order::block(study, seed, block).into_iter().filter(chosen);
    cases.map(|case| TrialKey { study: study.name.clone(), case, block }).collect()
}

/// The claims that get a block in addition to the first `blocks` ones: the undecided ones, and from the study's `repeats` on, of these only those that
/// more blocks are expected to decide, if there are any. A claim whose cases have no figures is not among them.
fn continued<'a>(study: &'a Study, trials: &[Trial], blocks: u32) -> Vec<&'a Claim> {
    let gets_more = |claim: &Claim| claim.decide.is_some_and(|decide| blocks < decide.most);
    let open: Vec<&Claim> = undecided(study, trials, blocks)
        .filter(|(claim, verdict)| *verdict != ClaimVerdict::NotMeasured && gets_more(claim))
        .map(|(claim, _)| claim)
        .collect();
    let is_decided_later = |claim: &&Claim| blocks_to_decision(study, trials, claim, blocks).is_some();
    let promising: Vec<&Claim> = open.iter().copied().filter(is_decided_later).collect();
    if blocks < study.repeats || promising.is_empty() { open } else { promising }
}

/// The number of claims that a block after the first `blocks` ones is expected to decide: a claim that needs n blocks counts as 1/n.
fn decided_by_a_block(study: &Study, trials: &[Trial], blocks: u32) -> f64 {
    undecided(study, trials, blocks)
        .filter_map(|(claim, _)| blocks_to_decision(study, trials, claim, blocks))
        .map(|needed| 1.0 / f64::from(needed))
        .sum()
}

/// The claims that the first `blocks` blocks do not decide.
fn undecided<'a>(
    study: &'a Study,
    trials: &[Trial],
    blocks: u32,
) -> impl Iterator<Item = (&'a Claim, ClaimVerdict)> {
    let verdicts =
        study.claims.iter().map(move |claim| (claim, test_claim(study, trials, claim, blocks).verdict));
    verdicts.filter(|(_, verdict)| !verdict.is_decided())
}

#[cfg(test)]
mod tests;
