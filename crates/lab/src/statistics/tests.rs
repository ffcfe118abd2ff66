use poolwright_base::stats::Direction;

use super::*;
use crate::claim_test::test_claim;
use crate::{Measure, Outcome, PhaseOutcome, TrialKey};

/// A trial with one figure, the `wall_s` of its phase.
pub(crate) fn trial(study: &str, levels: &[(&str, &str)], block: u32, value: f64) -> Trial {
    let measures = BTreeMap::from([("wall_s".to_owned(), Measure { value, unit: "s".into() })]);
    let phase = PhaseOutcome { name: "run".into(), measured: true, measures, ..Default::default() };
    Trial {
        key: TrialKey {
            study: study.into(),
            case: levels.iter().map(|(f, l)| (f.to_string(), l.to_string())).collect(),
            block,
        },
        position: 0,
        node: String::new(),
        started: String::new(),
        outcome: Ok(Outcome { phases: vec![phase], ..Default::default() }),
    }
}

const CAMPAIGN: &str = r#"
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

#[test]
fn cells_effects_and_claims_pair_within_blocks() {
    let campaign = crate::Campaign::parse(std::path::Path::new("x.toml"), CAMPAIGN).unwrap();
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
    let ratio = |claim| test_claim(study, &trials, claim, u32::MAX).ratio.unwrap();
    let claimed = ratio(&study.claims[0]);
    assert!(claimed.direction() == Direction::Lower && (claimed.ratio - 1.0 / 3.0).abs() < 1e-9);
    let least = ratio(&study.claims[1]);
    assert!((least.ratio - 4.0).abs() < 1e-9 && least.pairs == 3, "20 s against 5");
    assert_eq!(study.claims[1].report, Some([9.0, 5.0]));
    assert!(super::cells(study, &trials, "run/nothing")[0].median.is_nan());
}

#[test]
fn trials_of_different_machines_are_not_compared() {
    let campaign = crate::Campaign::parse(std::path::Path::new("x.toml"), CAMPAIGN).unwrap();
    let study = &campaign.studies[0];
    let mut trials = Vec::new();
    for block in 0..4 {
        for (at, (cache, n)) in
            [("all", "1"), ("none", "1"), ("all", "2"), ("none", "2")].into_iter().enumerate()
        {
            let effect = if cache == "none" { 2.0 } else { 1.0 };
            // The second machine takes ten times as long, and goes on with the last two blocks after their first three trials.
            let (node, slow) = if block >= 2 && at == 3 { ("b", 10.0) } else { ("a", 1.0) };
            let trial = trial("s", &[("cache", cache), ("n", n)], block, effect * slow);
            trials.push(Trial { node: node.to_owned(), ..trial });
        }
    }
    let effects = effects(study, &trials, "wall_s");
    let cache = effects
        .iter()
        .find(|effect| effect.factor == "cache")
        .and_then(|effect| effect.ratio.as_ref())
        .unwrap();
    assert_eq!((cache.ratio, cache.pairs), (2.0, 6), "8 pairs, 2 of them on two machines");
    let n =
        effects.iter().find(|effect| effect.factor == "n").and_then(|effect| effect.ratio.as_ref()).unwrap();
    assert_eq!((n.ratio, n.pairs), (1.0, 6));
}
