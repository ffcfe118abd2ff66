//! The results of all draws so far, and the estimated spaces.

use std::collections::HashMap;

use crate::measurement::PointShares;
use crate::options::Grid;
use crate::result::Space;
use crate::statistics::{self, Covariate, Estimated, Many, Pair};

#[derive(Default)]
struct PairDraws {
    /// The indices of the points, ascending.
    points: Vec<usize>,
    /// The shares at each point, by geometry.
    shares: Vec<Vec<f64>>,
}

/// The covariates of every point, and for each pair the points at which it ran.
pub(crate) struct Draws {
    covariates: [Vec<f64>; 2],
    /// Pass and file of each point.
    of: Vec<(u32, u32)>,
    passes: u32,
    pairs: Vec<PairDraws>,
    every: Vec<usize>,
    /// The share of each cell if no record could be compressed.
    most: Vec<f64>,
}

/// The covariates' means over all points, computed once for all cells.
struct CovariateMeans {
    means: [f64; 2],
    many: Many,
}

impl Draws {
    pub(crate) fn new(grid: &Grid, every: Vec<usize>, most: Vec<f64>) -> Draws {
        let one = |_| PairDraws { points: Vec::new(), shares: vec![Vec::new(); grid.geometries.len()] };
        Draws {
            covariates: [Vec::new(), Vec::new()],
            of: Vec::new(),
            passes: 0,
            pairs: (0..grid.pairs()).map(one).collect(),
            every,
            most,
        }
    }

    pub(crate) fn points(&self) -> usize {
        self.covariates[0].len()
    }

    /// Adds a pass, with its points in the order of the line.
    pub(crate) fn push(&mut self, pass: Vec<PointShares>) {
        self.passes += 1;
        for seen in pass {
            let point = self.points();
            self.of.push((self.passes, seen.file as u32));
            for (list, value) in self.covariates.iter_mut().zip(seen.scout) {
                list.push(value);
            }
            for (pair, shares) in seen.shares {
                let pair = &mut self.pairs[pair];
                pair.points.push(point);
                pair.shares.iter_mut().zip(shares).for_each(|(list, share)| list.push(share));
            }
        }
    }

    /// Returns the space of every cell, from the shares of a line of `len` bytes.
    pub(crate) fn spaces(&self, grid: &Grid, off: &[Option<Space>], len: u64) -> Vec<Space> {
        let all = statistics::neighbours(&self.of);
        let parts = self.covariates.each_ref().map(|list| statistics::split(list, &all));
        let means = [parts[0].0, parts[1].0];
        let covariate_means =
            CovariateMeans { means, many: statistics::many(&parts.map(|p| p.1), self.points() as f64) };
        let geometries = grid.geometries.len();
        let mut known: HashMap<usize, Estimated> = HashMap::new();
        let mut order: Vec<usize> = (0..grid.pairs()).collect();
        order.sort_by_key(|pair| self.every[*pair]);
        let mut out: Vec<Space> = off.iter().map(|off| off.unwrap_or(Space::exact(0))).collect();
        for pair in order {
            let of: Vec<(u32, u32)> = self.pairs[pair].points.iter().map(|p| self.of[*p]).collect();
            let neighbours = statistics::neighbours(&of);
            for g in (0..geometries).filter(|g| off[pair * geometries + g].is_none()) {
                let cell = pair * geometries + g;
                let estimated = self.cell(grid, (pair, g), &neighbours, &covariate_means, &known);
                known.insert(cell, estimated);
                let (low, high) = estimated.interval();
                let len = len as f64;
                out[cell] = Space {
                    allocated: estimated.mean * len,
                    low: low.max(0.0) * len,
                    high: high * len,
                    draws: self.pairs[pair].points.len() as u64,
                };
            }
        }
        out
    }

    fn cell(
        &self,
        grid: &Grid,
        (pair, g): (usize, usize),
        neighbours: &[Pair],
        covariate_means: &CovariateMeans,
        known: &HashMap<usize, Estimated>,
    ) -> Estimated {
        let own = &self.pairs[pair];
        let y = &own.shares[g];
        let y_max = self.most[pair * grid.geometries.len() + g];
        let at = |i: usize| own.points.iter().map(|p| self.covariates[i][*p]).collect();
        let covariates =
            [0, 1].map(|i| Covariate { at: at(i), mean: covariate_means.means[i], anchors: (0.0, 1.0) });
        let by_covariates = statistics::regress(y, neighbours, y_max, &covariates, &covariate_means.many);
        let by_parent = |(parent, g): (usize, usize)| {
            let at = self.shares_at(parent, g, &own.points)?;
            let parents = known.get(&(parent * grid.geometries.len() + g))?;
            let covariate = Covariate {
                at,
                mean: parents.mean,
                anchors: (0.0, self.most[parent * grid.geometries.len() + g]),
            };
            let covariance = vec![vec![parents.variance]];
            let many = Many { covariance, df: parents.df, draws: covariate_means.many.draws };
            Some(statistics::regress(y, neighbours, y_max, &[covariate], &many))
        };
        // Pairs at the same geometry, and at the finest, because rounding to a coarse geometry hides information of
        // small records about large ones.
        let finest = (0..grid.geometries.len()).min_by_key(|g| grid.geometries[*g].1.asize(1)).unwrap_or(g);
        let parents =
            self.parents(grid, pair).flat_map(|p| [Some((p, g)), (g != finest).then_some((p, finest))]);
        let candidates = parents.flatten().filter_map(by_parent);
        candidates.fold(by_covariates, |best, next| if next.variance < best.variance { next } else { best })
    }

    /// Returns the pairs of the same recordsize or codec that run at more points.
    fn parents(&self, grid: &Grid, pair: usize) -> impl Iterator<Item = usize> {
        let codecs = grid.codecs.len();
        (0..grid.pairs()).filter(move |other| {
            let related = other / codecs == pair / codecs || other % codecs == pair % codecs;
            let more = self.every[*other] < self.every[pair]
                && self.pairs[*other].points.len() > self.pairs[pair].points.len();
            related && more && !grid.is_off(other % codecs)
        })
    }

    fn shares_at(&self, pair: usize, g: usize, points: &[usize]) -> Option<Vec<f64>> {
        let other = &self.pairs[pair];
        let find = |point: &usize| other.points.binary_search(point).ok().map(|i| other.shares[g][i]);
        points.iter().map(find).collect()
    }
}
