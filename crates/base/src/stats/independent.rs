//! The ratio of two figures from independent samples, such as the blocks of two recordings.

use crate::stats::{RelativeChange, median};

/// The share of the distribution on each side of a 95 % interval.
const TAIL: f64 = 0.025;

/// The change from `first` to `second`, with its 95 % interval: the median of the differences of the logarithms of all pairs, and the
/// exact interval of the Mann-Whitney test (J. L. Hodges and E. L. Lehmann, "Estimates of location based on rank tests", 1963). It
/// assumes no distribution, and one outlying value moves neither end far. The values of a sample must be independent; the interval of
/// values that drift is too narrow.
///
/// Returns `None` for values that are not positive and finite, and for too few values: 95 % need four on each side.
pub fn change_of_samples(first: &[f64], second: &[f64]) -> Option<RelativeChange> {
    let is_usable = |value: &f64| value.is_finite() && *value > 0.0;
    if !first.iter().chain(second).all(is_usable) {
        return None;
    }
    let mut differences: Vec<f64> =
        first.iter().flat_map(|a| second.iter().map(move |b| (b / a).ln())).collect();
    differences.sort_by(f64::total_cmp);
    let outside = outside(first.len(), second.len()).filter(|outside| *outside > 0)?;
    let change = |log: f64| log.exp_m1();
    let (low, high) = (differences[outside - 1], differences[differences.len() - outside]);
    Some(RelativeChange { change: change(median(&differences)), ci95: (change(low), change(high)) })
}

/// The number of differences that lie on each side of the interval, its end included: the greatest `k` with P(U < k) <= 2.5 %, where U
/// is the statistic of Mann and Whitney for samples of one distribution. `None` for an empty sample.
fn outside(n: usize, m: usize) -> Option<usize> {
    if n == 0 || m == 0 {
        return None;
    }
    // ways[j][u]: the number of ways to choose j of the ranks so far, with U = u.
    let mut ways = vec![vec![0.0; n * m + 1]; n + 1];
    ways[0][0] = 1.0;
    for rank in 0..n + m {
        for chosen in (1..=n.min(rank + 1)).rev() {
            // A chosen rank is greater than `rank - (chosen - 1)` ranks of the other sample.
            let Some(above) = (rank + 1).checked_sub(chosen) else { continue };
            for u in above..=n * m {
                let before = ways[chosen - 1][u - above];
                ways[chosen][u] += before;
            }
        }
    }
    let all: f64 = ways[n].iter().sum();
    let mut sum = 0.0;
    ways[n].iter().position(|count| {
        sum += count / all;
        sum > TAIL
    })
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::stats::sample::normal;

    #[test]
    fn the_critical_values_are_those_of_the_tables() {
        // Critical values of the Mann-Whitney test, 5 %, two-sided: 0 (4, 4), 2 (5, 5), 8 (7, 7), 23 (10, 10), 14 (8, 9)... plus one.
        for (n, m, critical) in
            [(4, 4, 0), (5, 5, 2), (7, 7, 8), (10, 10, 23), (8, 8, 13), (3, 5, 0), (5, 10, 8)]
        {
            assert_eq!(outside(n, m), Some(critical + 1), "{n} {m}");
        }
        assert_eq!((outside(3, 3), outside(0, 3)), (Some(0), None));
    }

    #[test]
    fn the_interval_holds_the_true_change_in_nineteen_of_twenty() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        for (n, m, spread) in [(4, 4, 0.1), (10, 10, 0.1), (10, 5, 0.1)] {
            let held = (0..1000).filter(|_| {
                let mut draw = |count: usize, middle: f64, spread: f64| -> Vec<f64> {
                    (0..count).map(|_| middle * (spread * normal(&mut rng)).exp()).collect()
                };
                // The true change is +20 %.
                let (low, high) =
                    change_of_samples(&draw(n, 100.0, 0.1), &draw(m, 120.0, spread)).unwrap().ci95;
                low <= 0.2 && 0.2 <= high
            });
            let held = held.count();
            assert!((930..=990).contains(&held), "{held} of 1000 for {n} and {m} values");
        }
    }

    #[test]
    fn one_outlier_does_not_hide_a_change() {
        let first: Vec<f64> = (0..10).map(|n| 100.0 + f64::from(n)).collect();
        let mut second: Vec<f64> = first.iter().map(|value| value * 0.5).collect();
        second[3] = 5_000.0;
        let found = change_of_samples(&first, &second).unwrap();
        assert!(found.ci95.1 < -0.4 && (found.change + 0.5).abs() < 0.03, "{found:?}");
    }

    #[test]
    fn few_or_unusable_values_have_no_change() {
        let usable = [1.0, 2.0, 3.0, 4.0];
        assert!(change_of_samples(&usable, &usable).is_some());
        assert_eq!(change_of_samples(&usable[..3], &usable[..3]), None);
        assert_eq!(change_of_samples(&usable, &[]), None);
        assert_eq!(change_of_samples(&usable, &[1.0, 0.0, 2.0, 3.0]), None);
        assert_eq!(change_of_samples(&usable, &[1.0, f64::NAN, 2.0, 3.0]), None);
    }
}
