//! Means of stratified draws, improved by regression on covariates of many more draws, and their 95 % intervals.
//!
//! One draw is made in each of many small strata of equal weight, listed in their order. The variance within a stratum cannot be estimated
//! from one draw, so neighbours are combined: the squared difference of two neighbours estimates the sum of their variances, with a bias
//! upwards (collapsed strata; Cochran, *Sampling Techniques*, 3rd ed., 5A.12). [`neighbours`] returns the pairs.
//!
//! A variable `y` is known at few draws, a covariate `x` at those and at many more. The estimate is the regression
//! estimator, ȳ + β(x̄_many − x̄_few); its variance is that of the residuals over the few plus β² times that of x over
//! the many (Cochran, 7.5 and 12.6). The degrees of freedom follow Satterthwaite over the pairs, so that a variance which stems from a few
//! pairs has few degrees of freedom.
//!
//! A sample has no information about data that it did not draw. As in an interval for a proportion with no successes, one hypothetical draw
//! of the most extreme kind is added on either side. This keeps the interval valid where a fraction of a per cent of the data is of another
//! kind, and its effect vanishes as the sample grows.

use poolwright_base::stats::t975;

/// An estimate of a mean with what its interval needs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Estimated {
    pub mean: f64,
    pub variance: f64,
    pub df: f64,
    /// How far an imagined extreme draw would move the mean down and up.
    pub unseen: (f64, f64),
}

impl Estimated {
    /// The 95 % interval.
    pub(crate) fn interval(&self) -> (f64, f64) {
        let t = t975(self.df);
        let side = |unseen: f64| unseen + t * (self.variance + unseen * unseen).sqrt();
        (self.mean - side(self.unseen.0), self.mean + side(self.unseen.1))
    }
}

/// A covariate at the draws of `y`, and its better-known mean.
#[derive(Clone, Debug)]
pub(crate) struct Covariate {
    /// As `y`.
    pub at: Vec<f64>,
    /// Mean over many more draws.
    pub mean: f64,
    /// Its value where `y` is 0 for certain and where `y` is `y_max` for certain.
    pub anchors: (f64, f64),
}

/// How the many draws went: covariances of the better means, and their degrees of freedom.
#[derive(Clone, Debug)]
pub(crate) struct Many {
    /// `p × p`, of the covariates' means.
    pub covariance: Vec<Vec<f64>>,
    pub df: f64,
    /// Draws behind the better means.
    pub draws: f64,
}

/// Two draws whose difference, times the factor, squared, stands for the variance of some strata.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Pair(usize, usize, f64);

/// Pairs up draws of the same pass, and of the same file as far as possible: two files differ by what they are, and
/// that is no part of the variance of strata which lie within them. It is part of that of the stratum in which one file
/// ends and the next begins: with a share p of the first, p(1 − p) ≤ ¼ of the squared difference, so half of the
/// difference is counted in at each such place. `of` gives each draw's pass and file.
pub(crate) fn neighbours(of: &[(u32, u32)]) -> Vec<Pair> {
    let mut out = Vec::with_capacity(of.len() / 2 + 1);
    let mut alone: Option<usize> = None;
    let mut from = 0;
    for run in of.chunk_by(|a, b| a == b) {
        let last = from + run.len() - 1;
        if from > 0 && of[from - 1].0 == of[from].0 {
            out.push(Pair(from - 1, from, 0.5));
        }
        if run.len() == 1 {
            alone = match alone.take() {
                Some(before) => {
                    out.push(Pair(before, from, 1.0));
                    None
                }
                None => Some(from),
            };
        } else {
            // of an odd number the last three make two differences, which stand for three strata
            let odd = run.len() % 2;
            let whole = (run.len() - 3 * odd) / 2;
            out.extend((0..whole).map(|i| Pair(from + 2 * i, from + 2 * i + 1, 1.0)));
            if odd == 1 {
                let share = 0.75f64.sqrt();
                out.extend([Pair(last - 2, last - 1, share), Pair(last - 1, last, share)]);
            }
        }
        from = last + 1;
    }
    if let Some(alone) = alone {
        let other = if alone > 0 { alone - 1 } else { (alone + 1).min(of.len() - 1) };
        out.push(Pair(alone, other, 0.5f64.sqrt()));
    }
    out
}

/// The mean, and the differences of neighbours.
pub(crate) fn split(draws: &[f64], pairs: &[Pair]) -> (f64, Vec<f64>) {
    let mean = draws.iter().sum::<f64>() / draws.len() as f64;
    (mean, pairs.iter().map(|Pair(a, b, share)| (draws[*a] - draws[*b]) * share).collect())
}

/// Variance of the mean of `draws` from such differences, and its degrees of freedom.
fn variance_of_mean(differences: &[f64], draws: f64) -> (f64, f64) {
    let (mut sum, mut fourth) = (0.0, 0.0);
    for d in differences {
        sum += d * d;
        fourth += d.powi(4);
    }
    // E d⁴ = 3σ⁴ of a normal difference with one degree
    let df = if fourth > 0.0 { 3.0 * sum * sum / fourth } else { differences.len() as f64 };
    (sum / draws / draws, df.min(differences.len() as f64))
}

/// Covariances of the means of several variables, from their differences at the same `draws`.
pub(crate) fn many(differences: &[Vec<f64>], draws: f64) -> Many {
    let row = |a: &Vec<f64>| differences.iter().map(|b| dot(a, b) / draws / draws).collect();
    let df = differences.iter().map(|d| variance_of_mean(d, draws).1).fold(f64::INFINITY, f64::min);
    Many { covariance: differences.iter().map(row).collect(), df, draws }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// The regression estimate of the mean of `y`, which lies between 0 and `y_max`. Needs a pair of draws at least.
pub(crate) fn regress(y: &[f64], pairs: &[Pair], y_max: f64, x: &[Covariate], many: &Many) -> Estimated {
    let (y_mean, y_diff) = split(y, pairs);
    let parts: Vec<(f64, Vec<f64>)> = x.iter().map(|c| split(&c.at, pairs)).collect();
    let beta = slopes((y_mean, &y_diff), y_max, x, &parts);
    let mut mean = y_mean;
    let mut residuals = y_diff;
    for ((b, covariate), (few_mean, diff)) in beta.iter().zip(x).zip(&parts) {
        mean += b * (covariate.mean - few_mean);
        residuals.iter_mut().zip(diff).for_each(|(r, d)| *r -= b * d);
    }
    let (mut v_few, df_few) = variance_of_mean(&residuals, y.len() as f64);
    // the few may have missed what the covariate does not tell: the oddest pair counts twice
    v_few += residuals.iter().fold(0.0f64, |m, r| m.max(r * r)) / (y.len() * y.len()) as f64;
    let mut v_many = 0.0;
    for (i, row) in many.covariance.iter().enumerate() {
        v_many += row.iter().enumerate().map(|(j, v)| beta[i] * beta[j] * v).sum::<f64>();
    }
    let v_many = v_many.max(0.0);
    // the slopes were fitted to the same residuals: one degree each
    let df_few = (df_few - x.len() as f64).max(1.0);
    let variance = v_few + v_many;
    let pooled = v_few * v_few / df_few + v_many * v_many / many.df.max(1.0);
    let df = if pooled > 0.0 { variance * variance / pooled } else { df_few };
    let mean = mean.clamp(0.0, y_max.max(y_mean));
    let unseen = (mean / (many.draws + 1.0), (y_max - mean).max(0.0) / (many.draws + 1.0));
    Estimated { mean, variance, df, unseen }
}

/// Least squares on the differences, with one row for each anchor: where the draws are all alike, the line is the one
/// that is right for holes and for noise, and not the noise of the draws. Any slope would leave the estimate unbiased.
fn slopes(y: (f64, &[f64]), y_max: f64, x: &[Covariate], parts: &[(f64, Vec<f64>)]) -> Vec<f64> {
    let p = x.len();
    let low: Vec<f64> = x.iter().zip(parts).map(|(c, (m, _))| c.anchors.0 - m).collect();
    let high: Vec<f64> = x.iter().zip(parts).map(|(c, (m, _))| c.anchors.1 - m).collect();
    let (y_low, y_high) = (-y.0, y_max - y.0);
    let mut a = vec![vec![0.0; p]; p];
    let mut b = vec![0.0; p];
    for i in 0..p {
        for j in 0..p {
            a[i][j] = dot(&parts[i].1, &parts[j].1) / 2.0 + low[i] * low[j] + high[i] * high[j];
        }
        a[i][i] += 1e-9;
        b[i] = dot(&parts[i].1, y.1) / 2.0 + low[i] * y_low + high[i] * y_high;
    }
    solve(a, b)
}

/// Gaussian elimination of a small positive definite system.
fn solve(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
    let p = b.len();
    for i in 0..p {
        for j in i + 1..p {
            let factor = a[j][i] / a[i][i];
            let pivot = a[i].clone();
            a[j].iter_mut().zip(pivot).skip(i).for_each(|(below, above)| *below -= factor * above);
            b[j] -= factor * b[i];
        }
    }
    for i in (0..p).rev() {
        for k in i + 1..p {
            b[i] -= a[i][k] * b[k];
        }
        b[i] /= a[i][i];
    }
    b
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt as _, SeedableRng};

    /// 400 samples of a population whose mean is known; how many intervals hold it, and their mean width.
    fn coverage(
        population: impl Fn(&mut rand_chacha::ChaCha8Rng, f64) -> (f64, f64),
        truth: f64,
    ) -> (usize, f64) {
        let (mut held, mut width) = (0, 0.0);
        for seed in 0..400 {
            let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
            let all: Vec<(f64, f64)> = (0..640)
                .map(|h| {
                    let at = (f64::from(h) + rng.random::<f64>()) / 640.0;
                    population(&mut rng, at)
                })
                .collect();
            let few: Vec<(f64, f64)> =
                all.chunks(8).map(|group| group[rng.random_range(0..8usize)]).collect();
            let (mean, differences) =
                split(&all.iter().map(|p| p.0).collect::<Vec<_>>(), &neighbours(&[(0, 0); 640]));
            let covariate = Covariate { at: few.iter().map(|p| p.0).collect(), mean, anchors: (0.0, 1.0) };
            let y: Vec<f64> = few.iter().map(|p| p.1).collect();
            let (low, high) =
                regress(&y, &neighbours(&[(0, 0); 80]), 1.0, &[covariate], &many(&[differences], 640.0))
                    .interval();
            held += usize::from(low <= truth && truth <= high);
            width += (high - low) / 400.0;
        }
        (held, width)
    }

    #[test]
    fn neighbours_stand_for_every_draw_once() {
        let cases: [&[(u32, u32)]; 5] = [
            &[(0, 0); 6],
            &[(0, 0), (0, 0), (0, 0), (0, 1), (1, 1), (1, 1)],
            &[(0, 0), (0, 1), (0, 2), (0, 3)],
            &[(0, 0), (0, 1), (0, 1), (0, 1), (0, 1), (0, 2), (0, 3), (0, 3)],
            &[(0, 5), (0, 6)],
        ];
        for of in cases {
            // a difference of two stands for its factor squared times two variances; those with half come on top
            let strata: f64 = neighbours(of)
                .iter()
                .filter(|p| p.2 != 0.5)
                .map(|Pair(_, _, share)| 2.0 * share * share)
                .sum();
            assert!((strata - of.len() as f64).abs() < 1e-9, "{of:?}: {:?}", neighbours(of));
            assert!(neighbours(of).iter().all(|Pair(a, b, _)| a != b));
        }
    }

    #[test]
    fn intervals_hold_the_truth_of_a_related_variable() {
        let noisy = |rng: &mut rand_chacha::ChaCha8Rng, h: f64| {
            let x = 0.3 + 0.4 * h + 0.1 * rng.random::<f64>();
            (x, 0.8 * x + 0.05 * rng.random::<f64>())
        };
        let (held, width) = coverage(noisy, 0.8 * (0.3 + 0.4 * 0.5 + 0.05) + 0.025);
        assert!(held >= 372, "held {held} of 400, width {width}");
        assert!(width < 0.02, "width {width}");
    }

    #[test]
    fn intervals_hold_the_truth_where_half_a_per_cent_is_of_another_kind() {
        let rare = |rng: &mut rand_chacha::ChaCha8Rng, _: f64| {
            if rng.random::<f64>() < 0.005 { (0.0, 0.0) } else { (0.98 + 0.02 * rng.random::<f64>(), 1.0) }
        };
        let (held, width) = coverage(rare, 0.995);
        assert!(held >= 372, "held {held} of 400, width {width}");
    }
}
