use super::*;
use crate::{Measure, Outcome, PhaseOutcome, TrialKey};

/// Nearly normal noise.
fn noise(rng: &mut ChaCha8Rng) -> f64 {
    (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0
}

fn share_of(times: usize, mut holds: impl FnMut(&mut ChaCha8Rng) -> bool) -> f64 {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    (0..times).filter(|_| holds(&mut rng)).count() as f64 / times as f64
}

#[test]
fn an_interval_holds_the_truth_in_nineteen_of_twenty() {
    for n in [3, 4, 5, 8, 12, 20, 30] {
        let covered = share_of(if n < 20 { 1000 } else { 400 }, |rng| {
            let values: Vec<f64> = (0..n).map(|_| 100.0 * (0.1 * noise(rng)).exp()).collect();
            let (low, high) = interval(&values, 1).unwrap();
            low <= 100.0 && 100.0 <= high
        });
        assert!(covered >= 0.93, "{n} values: {covered}");
    }
    assert_eq!(interval(&[1.0, 2.0], 1), None);
    assert_eq!(interval(&[0.0, 0.0, 0.0], 1), Some((0.0, 0.0)));
    let many: Vec<f64> = (0..40).map(f64::from).collect();
    assert_eq!(interval(&many, 7), interval(&many, 7));
}

#[test]
fn two_runs_agree_within_their_intervals() {
    for n in [3, 5] {
        let agree = share_of(1000, |rng| {
            let mut run = || {
                let values: Vec<f64> = (0..n).map(|_| 50.0 * (0.05 * noise(rng)).exp()).collect();
                interval(&values, 1).unwrap()
            };
            let (a, b) = (run(), run());
            a.0 <= b.1 && b.0 <= a.1
        });
        assert!(agree > 0.97, "{n} values: {agree}");
    }
}

#[test]
fn a_setting_that_does_nothing_is_no_difference() {
    for n in [3, 6, 12, 24] {
        let none = share_of(if n < 20 { 1000 } else { 400 }, |rng| {
            let pair = |rng: &mut ChaCha8Rng| {
                let drift = (0.3 * noise(rng)).exp();
                (drift * (0.05 * noise(rng)).exp(), drift * (0.05 * noise(rng)).exp())
            };
            let pairs: Vec<_> = (0..n).map(|_| pair(rng)).collect();
            Ratio::of(&pairs).unwrap().direction() == Direction::NoDifference
        });
        assert!(none >= 0.94, "{n} pairs: {none}");
    }
}

#[test]
fn few_pairs_say_so_and_zeros_are_equal() {
    let few = Ratio::of(&[(1.0, 2.0), (1.0, 2.0)]).unwrap();
    assert_eq!((few.direction(), few.ratio, few.pairs), (Direction::TooFew, 2.0, 2));
    assert_eq!(Ratio::of(&[(0.0, 0.0); 3]).unwrap().direction(), Direction::NoDifference);
    assert_eq!(Ratio::of(&[(0.0, 1.0), (f64::NAN, 1.0)]), None);
    assert_eq!(Ratio::of(&[(1.0, 2.0); 3]).unwrap().direction(), Direction::Higher);
    assert_eq!(variation(&[1.0, 1.0]), Some(0.0));
    assert_eq!(variation(&[1.0]), None);
}

fn trial(study: &str, levels: &[(&str, &str)], block: u32, value: f64) -> Trial {
    let measures = BTreeMap::from([("wall_s".to_owned(), Measure { value, unit: "s".into() })]);
    let phase = PhaseOutcome { name: "run".into(), measured: true, measures, ..Default::default() };
    Trial {
        key: TrialKey {
            study: study.into(),
            case: levels.iter().map(|(f, l)| (f.to_string(), l.to_string())).collect(),
            block,
        },
        position: 0,
        started: String::new(),
        outcome: Ok(Outcome { phases: vec![phase], ..Default::default() }),
    }
}

#[test]
fn cells_effects_and_claims_pair_within_blocks() {
    let text = r#"
        name = "x"
        title = "x"
        [datasets.d]
        [[study]]
        name = "s"
        title = "s"
        driver = "files"
        measures = ["wall_s"]
        [[study.factor]]
        name = "cache"
        path = "d.primarycache"
        levels = ["all", "none"]
        [[study.factor]]
        name = "n"
        path = "workload.n"
        levels = [1, 2]
        [[study.phase]]
        name = "run"
        [[study.claim]]
        text = "t"
        measure = "wall_s"
        better = { cache = "all" }
        than = { cache = "none" }
        lower = true
        [[study.claim]]
        text = "t"
        measure = "wall_s"
        better = { cache = "all", n = 1 }
        least = 5.0
        report = [9]
    "#;
    let campaign = crate::Campaign::parse(std::path::Path::new("x.toml"), text).unwrap();
    let study = &campaign.studies[0];
    let mut trials = vec![trial("another", &[("cache", "all"), ("n", "1")], 0, 1.0)];
    for block in 0..3 {
        let drift = f64::from(block + 1);
        for (cache, factor) in [("all", 1.0), ("none", 3.0)] {
            for (n, size) in [("1", 10.0), ("2", 20.0)] {
                trials.push(trial("s", &[("cache", cache), ("n", n)], block, drift * factor * size));
            }
        }
    }
    let mut failed = trials[1].clone();
    failed.key.block = 9;
    failed.outcome = Err("no room".into());
    trials.push(failed);
    let cells = cells(study, &trials, "wall_s");
    assert_eq!(cells.len(), 4);
    assert_eq!((cells[0].values.as_slice(), cells[0].median), (&[10.0, 20.0, 30.0][..], 20.0));
    assert!(cells[0].noisy && cells[0].interval.is_some() && cells[0].unit == "s");
    let effects = effects(study, &trials, "wall_s");
    let found: Vec<_> =
        effects.iter().map(|e| (e.factor.as_str(), e.to.as_str(), e.ratio.clone().unwrap())).collect();
    assert_eq!((found[0].0, found[0].1, found[0].2.pairs), ("cache", "none", 6));
    assert!((found[0].2.ratio - 3.0).abs() < 1e-9 && found[0].2.direction() == Direction::Higher);
    assert!((found[1].2.ratio - 2.0).abs() < 1e-9);
    let claimed = claim(study, &trials, &study.claims[0]).unwrap();
    assert!(claimed.direction() == Direction::Lower && (claimed.ratio - 1.0 / 3.0).abs() < 1e-9);
    let least = claim(study, &trials, &study.claims[1]).unwrap();
    assert!((least.ratio - 4.0).abs() < 1e-9 && least.pairs == 3, "20 s against 5");
    assert_eq!(study.claims[1].report, Some([9.0, 5.0]));
    assert!(super::cells(study, &trials, "run/nothing")[0].median.is_nan());
}
