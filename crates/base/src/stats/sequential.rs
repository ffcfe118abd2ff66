//! The levels of tests that are repeated while a sample grows.

use std::f64::consts::{E, SQRT_2, TAU};

use statrs::function::erf::erfc;

/// The distance between two points at which a density is computed, in standard deviations of an observation, and the largest number of points on
/// each side of 0. Their distance for a thousand observations, 0.6, is still small enough for a normal density.
const STEP: f64 = 0.2;
const POINTS: usize = 150;
/// The upper end of the search for a bound, in standard deviations.
const FARTHEST: f64 = 10.0;
/// The number of halvings that determine a bound.
const HALVINGS: u32 = 60;

/// Returns the two-sided levels of the tests after `first` to `most` observations, so that all of them together reject a true hypothesis with
/// the probability `alpha`, if the observations are normal and their variance is known.
///
/// After n observations, `alpha`·ln(1 + (e − 1)·n/`most`) is spent: the function α₂ of K. K. G. Lan and D. L. DeMets (*Biometrika* 70, 1983), which
/// approximates S. J. Pocock's constant bounds. The bounds are computed for normal observations by recursive integration (P. Armitage,
/// C. K. McPherson, B. C. Rowe, *Journal of the Royal Statistical Society A* 132, 1969). With Student's t, the same levels are an approximation:
/// tests from three observations on reject in 6 % instead of 5 %.
///
/// # Panics
/// If `first` is 0, or if `alpha` is not between 0 and 1.
pub fn interim_levels(alpha: f64, first: u32, most: u32) -> Vec<f64> {
    assert!(first > 0 && 0.0 < alpha && alpha < 1.0, "invalid tests: {alpha} from {first} on");
    let spent = |n: u32| alpha * ((E - 1.0) * f64::from(n) / f64::from(most)).ln_1p();
    let (mut levels, mut before) = (Vec::new(), 0.0);
    let mut undecided: Option<Density> = None;
    for n in first..=most {
        let deviation = f64::from(n).sqrt();
        let spends = spent(n) - before;
        before = spent(n);
        let bound = halved(FARTHEST * deviation, |bound| {
            let beyond = undecided.as_ref().map(|density| density.beyond(bound));
            beyond.unwrap_or_else(|| 2.0 * tail(bound / deviation)) > spends
        });
        levels.push(2.0 * tail(bound / deviation));
        undecided = Some(match &undecided {
            None => Density::within(bound, |sum| normal(sum / deviation) / deviation),
            Some(density) => Density::within(bound, |sum| density.after_one_more(sum)),
        });
    }
    levels
}

/// The density of the sum of the observations in the runs that are still undecided.
struct Density {
    /// Sums, and the probability that each stands for.
    points: Vec<(f64, f64)>,
}

impl Density {
    /// The `density` between -`bound` and `bound`, for Simpson's rule.
    fn within(bound: f64, density: impl Fn(f64) -> f64) -> Density {
        let halves = ((bound / STEP).ceil() as usize).clamp(1, POINTS);
        let width = bound / halves as f64;
        let point = |i: usize| {
            let weight = match i {
                _ if i == 0 || i == 2 * halves => 1.0,
                _ if i % 2 == 1 => 4.0,
                _ => 2.0,
            };
            let sum = width * i as f64 - bound;
            (sum, density(sum) * weight * width / 3.0)
        };
        Density { points: (0..=2 * halves).map(point).collect() }
    }

    /// The probability that the sum is beyond the bound after one more observation.
    fn beyond(&self, bound: f64) -> f64 {
        self.points.iter().map(|(sum, p)| p * (tail(bound - sum) + tail(bound + sum))).sum()
    }

    /// The density of the sum after one more observation.
    fn after_one_more(&self, sum: f64) -> f64 {
        self.points.iter().map(|(before, p)| p * normal(sum - before)).sum()
    }
}

/// Returns the point between 0 and `most` up to which `is_below` is true.
fn halved(most: f64, is_below: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, most);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if is_below(middle) { low = middle } else { high = middle }
    }
    high
}

/// The probability that a standard normal value is above `x`.
fn tail(x: f64) -> f64 {
    0.5 * erfc(x / SQRT_2)
}

/// The standard normal density.
fn normal(x: f64) -> f64 {
    (-0.5 * x * x).exp() / TAU.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_are_those_of_the_tables() {
        // Five equal steps, two-sided 5 %, Pocock type: the program of D. M. Reboussin et al. (*Controlled Clinical Trials* 21, 2000).
        let bounds = [2.4380, 2.4268, 2.4101, 2.3966, 2.3859];
        for (level, bound) in interim_levels(0.05, 1, 5).into_iter().zip(bounds) {
            assert!((level - 2.0 * tail(bound)).abs() < 1e-5, "{level} {bound}");
        }
        assert!((interim_levels(0.05, 4, 4)[0] - 0.05).abs() < 1e-9, "a single test has all of it");
    }

    #[test]
    fn many_tests_have_levels_too() {
        let levels = interim_levels(0.05, 3, 100);
        assert_eq!(levels.len(), 98);
        assert!(levels.iter().all(|level| (1e-4..0.05).contains(level)), "{levels:?}");
    }
}
