//! Sizes and hit ratios of the ARCs over time.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use crate::family::{ARC, ARC_SIZE};

use crate::terminal::sample::{MonitorSample, SampledResource};
use crate::terminal::tab::arc;

/// Number of samples that are kept: more than a screen is wide.
const LONGEST: usize = 512;

/// An ARC in one sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArcPoint {
    /// Its size in bytes.
    pub size: Option<f64>,
    /// The share of hits since the sample before.
    pub hit_ratio: Option<f64>,
}

/// The points of each ARC, the oldest first.
#[derive(Debug, Default)]
pub struct ArcHistory(HashMap<Box<[Arc<str>]>, VecDeque<ArcPoint>>);

impl ArcHistory {
    /// Adds the ARCs of a sample, and forgets those that no longer exist.
    pub fn add(&mut self, sample: &MonitorSample) {
        let mut old = std::mem::take(&mut self.0);
        for one in sample.of(&ARC) {
            let mut points = old.remove(one.labels()).unwrap_or_default();
            if points.len() == LONGEST {
                points.pop_front();
            }
            points.push_back(ArcPoint { size: one.value(&ARC_SIZE), hit_ratio: arc::hit_ratio(sample, one) });
            self.0.insert(one.labels().into(), points);
        }
    }

    /// The last points of an ARC, at most `longest`, the oldest first.
    pub fn last(&self, arc: &SampledResource, longest: usize) -> Vec<ArcPoint> {
        let points = self.0.get(arc.labels());
        let skipped = points.map_or(0, |points| points.len().saturating_sub(longest));
        points.into_iter().flatten().skip(skipped).copied().collect()
    }
}
