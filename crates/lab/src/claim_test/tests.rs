use std::path::Path;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::campaign::{Campaign, Decide, Times};
use crate::statistics::tests::trial;

const CAMPAIGN: &str = r#"
        name = "x"
        title = "x"
        decide = { most = 12, equal = 0.05 }
        [datasets.d]
        [[study]]
        name = "s"
        title = "s"
        driver = "files"
        measures = ["wall_s"]
        [[study.factor]]
        name = "n"
        path = "workload.n"
        levels = [1, 2]
        [[study.phase]]
        name = "run"
        [[study.claim]]
        text = "t"
        measure = "wall_s"
        better = { n = 1 }
        than = { n = 2 }
    "#;

fn study() -> Study {
    Campaign::parse(Path::new("x.toml"), CAMPAIGN).unwrap().studies.remove(0)
}

/// The relative deviation that the figures of a block share.
const DRIFT: f64 = 0.1;

/// Trials of the two cases in 12 blocks, whose figures are normal around 100 and 100 × `ratio` with the relative deviations `noise`, and share
/// one with the deviation `drift`.
fn trials(rng: &mut ChaCha8Rng, ratio: f64, noise: [f64; 2], drift: f64) -> Vec<Trial> {
    let mut all = Vec::new();
    for block in 0..12 {
        let drift = drift * normal(rng);
        for (level, value, noise) in [("1", 100.0 * ratio, noise[0]), ("2", 100.0, noise[1])] {
            let value = value * (drift + noise * normal(rng)).exp();
            all.push(trial("s", &[("n", level)], block, value));
        }
    }
    all
}

/// A standard normal number, by the method of Box and Muller.
fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let (u, v): (f64, f64) = (1.0 - rng.random::<f64>(), rng.random());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// The share of runs with a verdict, if the figures of a block drift together.
fn share(study: &Study, ratio: f64, noise: [f64; 2], wanted: &[ClaimVerdict]) -> f64 {
    share_with_drift(study, ratio, noise, DRIFT, wanted)
}

fn share_with_drift(study: &Study, ratio: f64, noise: [f64; 2], drift: f64, wanted: &[ClaimVerdict]) -> f64 {
    const RUNS: usize = 2000;
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut found = 0;
    for _ in 0..RUNS {
        let trials = trials(&mut rng, ratio, noise, drift);
        found += usize::from(wanted.contains(&test_claim(study, &trials, &study.claims[0], 12).verdict));
    }
    found as f64 / RUNS as f64
}

#[test]
fn without_a_difference_at_most_five_in_a_hundred_runs_find_one() {
    use ClaimVerdict::{Agrees, DoesNotAgree};
    let study = study();
    for noise in [[0.05, 0.05], [0.02, 0.15], [0.3, 0.3]] {
        for drift in [0.0, 0.03, DRIFT] {
            let wrong = share_with_drift(&study, 1.0, noise, drift, &[Agrees, DoesNotAgree]);
            assert!(wrong <= 0.05, "{noise:?}, drift {drift}: {wrong}");
        }
    }
    let mut bound = study.clone();
    bound.claims[0].than.clear();
    bound.claims[0].least = Some(100.0);
    let wrong = share(&bound, 1.0, [0.05, 0.05], &[Agrees, DoesNotAgree]);
    assert!(wrong <= 0.05, "against a constant: {wrong}");
}

#[test]
fn a_difference_that_matters_is_seldom_equal() {
    let study = study();
    for noise in [[0.01, 0.01], [0.03, 0.03], [0.1, 0.1]] {
        let wrong = share(&study, 1.0501, noise, &[ClaimVerdict::Equal, ClaimVerdict::DoesNotAgree]);
        assert!(wrong <= 0.05, "{noise:?}: {wrong}");
    }
}

#[test]
fn precise_figures_are_decided() {
    use ClaimVerdict::{Agrees, DoesNotAgree, Equal};
    let study = study();
    assert!(share(&study, 1.1, [0.04, 0.04], &[Agrees]) > 0.9);
    assert!(
        share_with_drift(&study, 1.15, [0.08, 0.08], 0.0, &[Agrees]) > 0.85,
        "the samples are not paired"
    );
    assert!(share(&study, 1.0 / 1.1, [0.04, 0.04], &[DoesNotAgree]) > 0.9);
    assert!(share(&study, 1.0, [0.02, 0.02], &[Equal]) > 0.8);
    let mut range = study.clone();
    range.claims[0].times = Some(Times { least: 0.9, most: Some(1.1) });
    assert!(share(&range, 1.0, [0.04, 0.04], &[Agrees]) > 0.9);
    assert!(share(&range, 1.2, [0.04, 0.04], &[DoesNotAgree]) > 0.9);
}

#[test]
fn a_decision_stays_when_more_blocks_follow() {
    let study = study();
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    let mut decided = 0;
    for _ in 0..200 {
        let trials = trials(&mut rng, 1.08, [0.05, 0.05], DRIFT);
        let mut last = ClaimVerdict::TooFew;
        for blocks in FIRST_TEST..=12 {
            let verdict = test_claim(&study, &trials, &study.claims[0], blocks).verdict;
            assert!(!last.is_decided() || verdict == last, "{last:?}, then {verdict:?}");
            last = verdict;
        }
        decided += usize::from(last.is_decided());
    }
    assert!(decided > 50, "{decided}");
}

/// Trials whose figures deviate equally from their mean in each pair of blocks, so that their ratio and deviation stay.
fn steady_trials(ratio: f64, noise: f64) -> Vec<Trial> {
    let of_block = |block: u32| {
        let sign = if block.is_multiple_of(2) { 1.0 } else { -1.0 };
        [("1", 100.0 * ratio * (1.0 + sign * noise)), ("2", 100.0)]
            .map(|(level, value)| trial("s", &[("n", level)], block, value))
    };
    (0..12).flat_map(of_block).collect()
}

#[test]
fn the_expected_number_of_blocks_is_that_until_the_decision() {
    let study = study();
    let claim = &study.claims[0];
    for (ratio, noise) in [(1.1, 0.05), (1.2, 0.08), (0.9, 0.05), (1.0, 0.03), (1.5, 0.2)] {
        let trials = steady_trials(ratio, noise);
        let is_decided = |blocks: &u32| test_claim(&study, &trials, claim, *blocks).verdict.is_decided();
        let decided = (2..=12).find(is_decided).unwrap_or_else(|| panic!("{ratio} {noise}"));
        for blocks in (2..decided).step_by(2) {
            let expected = blocks + blocks_to_decision(&study, &trials, claim, blocks).unwrap();
            assert!(expected.abs_diff(decided) <= 3, "{ratio} {noise}: {expected} after {blocks}, {decided}");
        }
    }
    let hopeless = steady_trials(1.02, 0.3);
    assert_eq!(blocks_to_decision(&study, &hopeless, claim, 4), None);
}

#[test]
fn every_block_from_the_first_analysis_on_has_one() {
    for (first, most) in [(3, 12), (1, 4), (5, 5), (2, 100)] {
        let all: Vec<InterimAnalysis> = interim_analyses(first, most, u32::MAX).collect();
        assert_eq!(all.iter().map(|at| at.blocks).collect::<Vec<_>>(), (first..=most).collect::<Vec<_>>());
        assert!(all.iter().all(|at| 0.0 < at.alpha && at.alpha <= ALPHA));
    }
    // An unfinished run has one analysis.
    let few: Vec<InterimAnalysis> = interim_analyses(3, 12, 2).collect();
    assert_eq!((few.len(), few[0].blocks), (1, 2));
    assert_eq!(few[0].alpha, interim_analyses(3, 12, 3).next().unwrap().alpha);
}

#[test]
fn a_bound_within_the_interval_is_too_close_to_tell() {
    let mut study = study();
    let claim = &mut study.claims[0];
    (claim.least, claim.decide) = (Some(100.0), None);
    claim.than.clear();
    let pairs = |value: f64| [0.99, 1.0, 1.01].map(|drift| (100.0, value * drift)).to_vec();
    let verdict = |claim: &Claim, value| of_pairs(claim, pairs(value), None).verdict;
    assert_eq!(verdict(claim, 120.0), ClaimVerdict::Agrees);
    assert_eq!(verdict(claim, 80.0), ClaimVerdict::DoesNotAgree);
    assert_eq!(verdict(claim, 100.5), ClaimVerdict::Unclear);
    claim.decide = Some(Decide { most: 12, equal: Some(0.5) });
    assert_eq!(of_pairs(claim, pairs(100.5), Some(0.05)).verdict, ClaimVerdict::Unclear);
}

#[test]
fn about_is_within_a_tenth_or_the_stated_range() {
    let about = |range: &str| {
        let text = CAMPAIGN.replace("than = { n = 2 }", &format!("about = 100\nreport = [100]\n{range}"));
        Campaign::parse(Path::new("x.toml"), &text).map(|mut campaign| campaign.studies.remove(0))
    };
    let pairs = |value: f64| [0.99, 1.0, 1.01].map(|drift| (100.0, value * drift)).to_vec();
    let verdict = |range, value| of_pairs(&about(range).unwrap().claims[0], pairs(value), Some(0.05)).verdict;
    assert_eq!(verdict("", 102.0), ClaimVerdict::Agrees);
    assert_eq!(verdict("", 120.0), ClaimVerdict::DoesNotAgree);
    assert_eq!(verdict("", 85.0), ClaimVerdict::DoesNotAgree);
    assert_eq!(verdict("", 110.5), ClaimVerdict::Unclear);
    assert_eq!(verdict("times = [1, 1.5]", 120.0), ClaimVerdict::Agrees);
    for (wrong, message) in [
        ("least = 4", "with least has neither about nor times"),
        ("than = { n = 2 }", "one of than, least and about"),
        ("limit = 4", "require than"),
        ("times = 2", "times with two numbers"),
    ] {
        assert!(about(wrong).unwrap_err().to_string().contains(message), "{wrong}");
    }
}
