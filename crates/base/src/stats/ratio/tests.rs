use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::stats::sample::normal;

fn change(pairs: &[(f64, f64)], pooled: Option<Deviation>) -> Option<RelativeChange> {
    PairedRatio::of_means(pairs, pooled)?.change()
}

#[test]
fn a_setting_that_does_nothing_is_no_difference() {
    for n in [3, 6, 12, 24] {
        let times = if n < 20 { 1000 } else { 400 };
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        let mut pair = || {
            let drift = (0.3 * normal(&mut rng)).exp();
            (drift * (0.05 * normal(&mut rng)).exp(), drift * (0.05 * normal(&mut rng)).exp())
        };
        let none = (0..times).filter(|_| {
            let pairs: Vec<_> = (0..n).map(|_| pair()).collect();
            PairedRatio::of_medians(&pairs).unwrap().direction() == Direction::NoDifference
        });
        let none = none.count() as f64 / f64::from(times);
        assert!(none >= 0.94, "{n} pairs: {none}");
    }
}

#[test]
fn few_pairs_say_so_and_zeros_are_equal() {
    let few = PairedRatio::of_medians(&[(1.0, 2.0), (1.0, 2.0)]).unwrap();
    assert_eq!((few.direction(), few.ratio, few.pairs), (Direction::TooFew, 2.0, 2));
    assert_eq!(few.change(), None);
    assert_eq!(PairedRatio::of_medians(&[(0.0, 0.0); 3]).unwrap().direction(), Direction::NoDifference);
    assert_eq!(PairedRatio::of_medians(&[(0.0, 1.0), (f64::NAN, 1.0)]), None);
    let double = PairedRatio::of_medians(&[(1.0, 2.0); 3]).unwrap();
    assert_eq!(double.direction(), Direction::Higher);
    assert_eq!((double.inverse().direction(), double.inverse().ratio), (Direction::Lower, 0.5));
}

#[test]
fn many_pairs_have_the_interval_of_as_many() {
    // 41 pairs that differ by e^±0.1: by Student's t with 40 degrees, 2.021, not by the normal 1.960.
    let pairs: Vec<(f64, f64)> =
        (0..41).map(|i| (1.0, if i % 2 == 0 { 0.1f64 } else { -0.1 }.exp())).collect();
    let c = change(&pairs, None).unwrap();
    let half = ((1.0 + c.ci95.1).ln() - (1.0 + c.ci95.0).ln()) / 2.0;
    let mean = 0.1 / 41.0;
    let deviation = ((41.0 * 0.01 - 41.0 * mean * mean) / 40.0f64).sqrt();
    assert!((half / (deviation / 41f64.sqrt()) - 2.021).abs() < 1e-3, "{half}");
}

#[test]
fn equal_pairs_have_no_change_and_a_known_one_is_found() {
    let c = change(&[(2.0, 2.0); 5], None).unwrap();
    assert_eq!((c.change, c.ci95), (0.0, (0.0, 0.0)));
    assert!(!c.is_significant());
    let c = change(&[(2.0, 1.0), (4.0, 2.0), (8.0, 4.04)], None).unwrap();
    assert!((c.change + 0.5).abs() < 0.01 && c.is_significant());
    assert!(change(&[(1.0, 2.0)], None).is_none());
    assert!(change(&[(0.0, 2.0), (1.0, f64::NAN)], None).is_none());
}

#[test]
fn two_pairs_among_other_trials_cover_as_well_and_are_narrower() {
    let mut rng = ChaCha8Rng::seed_from_u64(12);
    let (mut covered, mut pooled, mut alone) = (0, 0.0, 0.0);
    for _ in 0..2000 {
        let mut figure = |level: f64| level * (0.02 * normal(&mut rng)).exp();
        let pairs = [(figure(1.0), figure(0.8)), (figure(1.0), figure(0.8))];
        // Each setting was also tried once in the search.
        let groups = [
            vec![figure(1.0), pairs[0].0, pairs[1].0],
            vec![figure(0.8), pairs[0].1, pairs[1].1],
            vec![figure(0.7)],
        ];
        let c = change(&pairs, Deviation::within(groups.into_iter())).unwrap();
        covered += usize::from(c.ci95.0 <= -0.2 && -0.2 <= c.ci95.1);
        pooled += c.ci95.1 - c.ci95.0;
        let c = change(&pairs, None).unwrap();
        alone += c.ci95.1 - c.ci95.0;
    }
    assert!((1870..=1930).contains(&covered), "{covered} of 2000 intervals contain the truth");
    assert!(pooled < 0.5 * alone, "{pooled} against {alone}");
}

#[test]
fn the_interval_covers_in_nineteen_of_twenty() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let mut noise = || normal(&mut rng);
    let covered = (0..2000)
        .filter(|_| {
            let pairs: Vec<(f64, f64)> = (0..5)
                .map(|_| {
                    let drift = (0.3 * noise()).exp();
                    (drift * (0.05 * noise()).exp(), drift * 0.8 * (0.05 * noise()).exp())
                })
                .collect();
            let c = change(&pairs, None).unwrap();
            c.ci95.0 <= -0.2 && -0.2 <= c.ci95.1
        })
        .count();
    assert!((1870..=1930).contains(&covered), "{covered} of 2000 intervals contain the truth");
}

#[test]
fn the_narrower_interval_is_the_one_of_pairs_that_drift_or_of_samples_that_do_not() {
    let half = |pairs: &[(f64, f64)], alpha| {
        let (low, high) = PairedRatio::of_means_at(pairs, alpha).unwrap().interval.unwrap();
        (high / low).ln() / 2.0
    };
    let of = |logs: [(f64, f64); 3]| logs.map(|(a, b): (f64, f64)| (a.exp(), b.exp()));
    // Deviations of 0.1 in both samples: 4 degrees of freedom instead of 2.
    let apart = of([(0.0, 0.1), (0.1, 0.0), (-0.1, -0.1)]);
    let standard_error = (2.0 * 0.01f64 / 3.0).sqrt();
    assert!((half(&apart, 0.02) / (two_sided_t(0.01, 4.0) * standard_error) - 1.0).abs() < 1e-9);
    // Equal ratios, but for 0.01, of figures that drift by 1.
    let together = of([(0.0, 0.0), (1.0, 1.01), (-1.0, -1.01)]);
    assert!((half(&together, 0.02) / (two_sided_t(0.01, 2.0) * 0.01 / 3f64.sqrt()) - 1.0).abs() < 1e-6);
    let constant = of([(0.0, 0.1), (0.0, 0.0), (0.0, -0.1)]);
    assert!((half(&constant, 0.02) / (two_sided_t(0.01, 2.0) * 0.1 / 3f64.sqrt()) - 1.0).abs() < 1e-6);
    assert_eq!(PairedRatio::of_means_at(&[(1.0, 2.0)], 0.05).unwrap().interval, None);
    // Two pairs that vary by a factor of 2 have the assumed deviation, those that are equal their own.
    let known = two_sided_t(0.01, f64::INFINITY) * LARGEST_DEVIATION;
    assert!((half(&[(1.0, 10.0), (2.0, 10.0)], 0.02) / known - 1.0).abs() < 1e-9);
    assert_eq!(half(&[(1.0, 2.0), (1.0, 2.0)], 0.02), 0.0);
}
