//! A sample: the readings of all sources at one time, with merged resources and rates of counters.

mod sampler;
mod source_state;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use crate::{MetricFamily, Readings, ResourceType};

pub use sampler::MonitorSampler;
pub use source_state::{Condition, SourceState};

/// The last readings of all sources at one time.
#[derive(Debug)]
pub struct MonitorSample {
    /// When it was taken.
    pub taken: Instant,
    /// The same time in seconds since 1970.
    pub unix_s: f64,
    /// The sources, by name.
    pub sources: Vec<SourceState>,
    /// Name of the type → resources, in the order in which they were read.
    resources: HashMap<&'static str, Vec<SampledResource>>,
}

impl MonitorSample {
    /// The resources of a type, in the order in which they were read.
    pub fn of(&self, kind: &ResourceType) -> &[SampledResource] {
        self.resources.get(kind.name).map_or(&[], Vec::as_slice)
    }
}

/// A pool, vdev, dataset, … with the metrics that all sources have read of it.
#[derive(Clone, Debug)]
pub struct SampledResource {
    /// The readings that contain its labels, and its index there.
    first: (Arc<Readings>, usize),
    figures: Vec<Figure>,
    /// When the oldest of its metrics was read.
    pub read_at: Instant,
}

/// A metric with its rate.
#[derive(Clone, Copy, Debug)]
struct Figure {
    family: &'static MetricFamily,
    value: f64,
    /// The increase of a counter in one second.
    rate: Option<f64>,
}

impl SampledResource {
    /// The values of the labels.
    pub fn labels(&self) -> &[Arc<str>] {
        &self.first.0.resources[self.first.1].labels
    }

    /// The value of a label; empty if the type has no such label.
    pub fn label(&self, name: &str) -> &str {
        let of = self.first.0.resources[self.first.1].of;
        let at = of.labels.iter().position(|label| *label == name);
        at.and_then(|at| self.labels().get(at)).map_or("", |value| value)
    }

    fn figure(&self, family: &MetricFamily) -> Option<&Figure> {
        self.figures.iter().find(|figure| std::ptr::eq(figure.family, family))
    }

    /// The value of a metric, if it was read.
    pub fn value(&self, family: &MetricFamily) -> Option<f64> {
        self.figure(family).map(|figure| figure.value)
    }

    /// The increase of a counter in one second between its last two readings. `None` before the second reading, after a
    /// restart of the counter, and while the source does not answer.
    pub fn rate(&self, family: &MetricFamily) -> Option<f64> {
        self.figure(family).and_then(|figure| figure.rate)
    }

    /// Whether a condition was read and holds.
    pub fn has(&self, family: &MetricFamily) -> bool {
        self.value(family).is_some_and(|value| value > 0.0)
    }
}
