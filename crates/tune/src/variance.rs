//! Divides the variance of a figure among factors.
//!
//! A linear model of main effects, in which each factor has a level for each value, is fitted to all observations.
//! A factor's share is its sum of squares in addition to all other factors (type II: the increase of the residual
//! when only that factor is removed from the model), divided by the total sum of squares. See Ø. Langsrud, "ANOVA
//! for unbalanced data: Use Type II instead of Type III sums of squares", Statistics and Computing 13 (2003),
//! 163–167. The residual is divided into the differences between repeats of one setting (pure error) and the rest,
//! which is interaction (the lack-of-fit decomposition: Draper and Smith, "Applied Regression Analysis", 3rd
//! edition, 1998, section 2.1).

/// A figure, and the level of each factor at which it was observed.
#[derive(Clone, Debug)]
pub(crate) struct Observation {
    pub levels: Vec<usize>,
    pub value: f64,
}

/// Shares of the total sum of squares.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decomposition {
    /// The share of each factor, in order.
    pub factors: Vec<f64>,
    /// The part that the model explains and no factor alone does.
    pub shared: f64,
    /// The residual between settings.
    pub interactions: f64,
    /// The residual within settings.
    pub noise: f64,
}

/// A smaller variance of logarithms (a deviation of 0.003 %) counts as zero.
const NEGLIGIBLE_VARIANCE: f64 = 1e-9;

/// Divides the variance, or returns `None` for fewer than three observations and for values that do not vary.
pub(crate) fn decompose(all: &[Observation]) -> Option<Decomposition> {
    let values: Vec<f64> = all.iter().map(|o| o.value).collect();
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let total: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    if all.len() < 3 || total / all.len() as f64 <= NEGLIGIBLE_VARIANCE {
        return None;
    }
    let factors = all[0].levels.len();
    let without = |left_out: Option<usize>| {
        let kept = (0..factors).filter(|f| Some(*f) != left_out);
        residual(kept.flat_map(|f| indicators(all, f)).collect(), values.clone())
    };
    let unexplained = without(None);
    let alone: Vec<f64> = (0..factors).map(|f| (without(Some(f)) - unexplained).max(0.0) / total).collect();
    let noise = (within(all) / total).min(unexplained / total);
    let explained = 1.0 - unexplained / total;
    Some(Decomposition {
        shared: explained - alone.iter().sum::<f64>(),
        factors: alone,
        interactions: unexplained / total - noise,
        noise,
    })
}

/// Returns a column for each level of a factor, with 1 for the observations that have the level.
fn indicators(all: &[Observation], factor: usize) -> Vec<Vec<f64>> {
    let levels = all.iter().map(|o| o.levels[factor] + 1).max().unwrap_or(0);
    let column = |level| all.iter().map(|o| f64::from(u8::from(o.levels[factor] == level))).collect();
    (0..levels).map(column).collect()
}

/// Returns the sum of squares of `values` that remains after the best fit by a constant and these columns. The
/// columns are orthogonalised one by one (modified Gram-Schmidt); columns that depend on earlier ones are dropped.
fn residual(columns: Vec<Vec<f64>>, mut values: Vec<f64>) -> f64 {
    let mut basis: Vec<Vec<f64>> = Vec::new();
    for mut column in std::iter::once(vec![1.0; values.len()]).chain(columns) {
        for earlier in &basis {
            remove(&mut column, earlier);
        }
        let length = dot(&column, &column).sqrt();
        if length > 1e-6 {
            column.iter_mut().for_each(|x| *x /= length);
            remove(&mut values, &column);
            basis.push(column);
        }
    }
    dot(&values, &values)
}

/// Subtracts from `vector` its component along `unit`.
fn remove(vector: &mut [f64], unit: &[f64]) {
    let along = dot(vector, unit);
    vector.iter_mut().zip(unit).for_each(|(x, u)| *x -= along * u);
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

/// Returns the sum of squares within observations of equal levels.
fn within(all: &[Observation]) -> f64 {
    let mut groups: std::collections::BTreeMap<&[usize], Vec<f64>> = std::collections::BTreeMap::new();
    for o in all {
        groups.entry(&o.levels).or_default().push(o.value);
    }
    let squares = |values: &Vec<f64>| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter().map(|v| (v - mean).powi(2)).sum::<f64>()
    };
    groups.values().map(squares).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observations(rows: &[([usize; 2], f64)]) -> Vec<Observation> {
        rows.iter().map(|(levels, value)| Observation { levels: levels.to_vec(), value: *value }).collect()
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn a_balanced_design_is_divided_exactly() {
        // Effects of ±2 and ±1 in a full 2×2 design: shares of 4:1, nothing shared, no residual.
        let d = decompose(&observations(&[([0, 0], 3.0), ([0, 1], 1.0), ([1, 0], -1.0), ([1, 1], -3.0)]))
            .unwrap();
        assert!(close(d.factors[0], 0.8) && close(d.factors[1], 0.2), "{d:?}");
        assert!(close(d.shared, 0.0) && close(d.interactions, 0.0) && close(d.noise, 0.0), "{d:?}");
    }

    #[test]
    fn noise_and_interaction_are_told_apart() {
        // Only the combination has an effect, and repeats differ by ±0.1.
        let rows = [([0, 0], 1.0), ([0, 1], -1.0), ([1, 0], -1.0), ([1, 1], 1.0)];
        let twice: Vec<([usize; 2], f64)> =
            rows.iter().flat_map(|(l, v)| [(*l, v - 0.1), (*l, v + 0.1)]).collect();
        let d = decompose(&observations(&twice)).unwrap();
        assert!(d.factors.iter().all(|f| close(*f, 0.0)), "{d:?}");
        assert!(close(d.interactions, 8.0 / 8.08) && close(d.noise, 0.08 / 8.08), "{d:?}");
    }

    #[test]
    fn what_always_changes_together_is_shared() {
        let d = decompose(&observations(&[([0, 0], 1.0), ([1, 1], 2.0), ([2, 2], 4.0)])).unwrap();
        assert!(d.factors.iter().all(|f| close(*f, 0.0)) && close(d.shared, 1.0), "{d:?}");
    }

    #[test]
    fn unbalanced_shares_are_the_textbook_s() {
        // y = 1, 2, 4, 7, 8 with A = 0 0 1 1 1 and B = 0 1 0 1 1. Computed by hand: SSE(A) = 55/6, SSE(B) =
        // 151/6, SSE(A + B) = 16/7, the total is 37.2, and the two trials of the last setting differ by 0.5
        // squared units.
        let rows = [([0, 0], 1.0), ([0, 1], 2.0), ([1, 0], 4.0), ([1, 1], 7.0), ([1, 1], 8.0)];
        let d = decompose(&observations(&rows)).unwrap();
        let (both, a, b, total) = (16.0 / 7.0, 55.0 / 6.0, 151.0 / 6.0, 37.2);
        assert!(close(d.factors[0], (b - both) / total) && close(d.factors[1], (a - both) / total), "{d:?}");
        assert!(close(d.noise, 0.5 / total) && close(d.interactions, (both - 0.5) / total), "{d:?}");
        let all: f64 = d.factors.iter().sum::<f64>() + d.shared + d.interactions + d.noise;
        assert!(close(all, 1.0), "{d:?}");
    }

    #[test]
    fn nothing_to_divide() {
        assert_eq!(decompose(&observations(&[([0, 0], 1.0), ([0, 1], 1.0), ([1, 0], 1.0)])), None);
        assert_eq!(decompose(&observations(&[([0, 0], 1.0), ([0, 1], 2.0)])), None);
        assert_eq!(decompose(&[]), None);
    }
}
