//! The noise of one trial, pooled over groups of repeated trials.

/// The standard deviation of the logarithm of one trial's figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deviation {
    /// The standard deviation, in units of the natural logarithm: 0.02 is about 2 %.
    pub deviation: f64,
    /// Its degrees of freedom.
    pub freedom: usize,
}

impl Deviation {
    /// Pools the variance within groups of figures (Cochran, *Sampling Techniques*, 3rd ed., 5A.11): the sum of the squared
    /// deviations from each group's own mean, divided by the sum of the groups' degrees of freedom. Ignores figures that are
    /// not positive and finite. Returns `None` if no group has two figures.
    pub fn within(groups: impl Iterator<Item = Vec<f64>>) -> Option<Deviation> {
        let (mut squares, mut freedom) = (0.0, 0);
        for group in groups {
            let logs: Vec<f64> =
                group.iter().filter(|v| **v > 0.0 && v.is_finite()).map(|v| v.ln()).collect();
            if logs.len() < 2 {
                continue;
            }
            let mean = crate::stats::mean(&logs);
            squares += logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
            freedom += logs.len() - 1;
        }
        (freedom > 0).then(|| Deviation { deviation: (squares / freedom as f64).sqrt(), freedom })
    }

    /// Pools two deviations: the mean of the variances, weighted by their degrees of freedom.
    pub fn pooled(self, other: Deviation) -> Deviation {
        let squares = |d: Deviation| d.deviation.powi(2) * d.freedom as f64;
        let freedom = self.freedom + other.freedom;
        Deviation { deviation: ((squares(self) + squares(other)) / freedom as f64).sqrt(), freedom }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_are_within_groups_only() {
        let d = Deviation::within([vec![1.0, 1.0], vec![5.0, 5.0], vec![7.0]].into_iter()).unwrap();
        assert_eq!((d.deviation, d.freedom), (0.0, 2));
        assert_eq!(Deviation::within([vec![1.0], vec![2.0]].into_iter()), None);
        let d = Deviation::within([vec![1.0, 1.0f64.exp()], vec![3.0]].into_iter()).unwrap();
        assert!((d.deviation - 0.5f64.sqrt()).abs() < 1e-12 && d.freedom == 1);
    }

    #[test]
    fn pooling_two_deviations_is_pooling_their_groups() {
        let (some, others) = (vec![1.0, 1.1, 1.2], vec![2.0, 1.0]);
        let within = |groups: Vec<Vec<f64>>| Deviation::within(groups.into_iter()).unwrap();
        let both = within(vec![some.clone(), others.clone()]);
        let pooled = within(vec![some]).pooled(within(vec![others]));
        assert_eq!(pooled.freedom, 3);
        assert!((pooled.deviation - both.deviation).abs() < 1e-12);
    }
}
