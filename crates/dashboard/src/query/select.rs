//! Selectors of series, and functions of their ranges.

use poolwright_monitor::{FamilyType, Unit};

use super::{Dimension, Node, Query};
use crate::metric::QueryMetric;

/// The series of one metric.
#[derive(Clone, Debug)]
pub(super) struct Selector {
    pub(super) metric: QueryMetric,
    pub(super) is_bucket: bool,
    /// Labels with the operator and the value.
    pub(super) matchers: Vec<(&'static str, &'static str, String)>,
}

/// The range of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// The interval that Grafana recommends for rates: at least four scrapes.
    RateInterval,
    /// A fixed time, such as `7d`.
    Fixed(&'static str),
}

/// The dimension of a unit.
pub(super) fn dimension(unit: Unit) -> Dimension {
    match unit {
        Unit::None | Unit::Ratio => Dimension::NONE,
        Unit::Bytes => Dimension { bytes: 1, seconds: 0 },
        Unit::Seconds => Dimension { bytes: 0, seconds: 1 },
    }
}

/// The series of a metric.
///
/// # Panics
/// If the metric is a histogram: it has no series of its own name.
pub fn of(metric: impl Into<QueryMetric>) -> Query {
    let metric = metric.into();
    assert_ne!(metric.kind(), FamilyType::Histogram, "{}", metric.name());
    select(metric, false)
}

/// The change of each bucket of a histogram per second. The label `le` is the bucket's upper bound.
///
/// # Panics
/// If the metric is not a histogram.
pub fn buckets(metric: impl Into<QueryMetric>) -> Query {
    let metric = metric.into();
    assert_eq!(metric.kind(), FamilyType::Histogram, "{}", metric.name());
    let mut query = select(metric, true);
    query.dimension = Dimension::NONE;
    query.rate()
}

/// The increase of a counter per second.
///
/// # Panics
/// If the metric is not a counter.
pub fn rate(metric: impl Into<QueryMetric>) -> Query {
    of(metric).rate()
}

fn select(metric: QueryMetric, is_bucket: bool) -> Query {
    let labels = metric.labels().chain(is_bucket.then_some("le")).collect();
    Query {
        node: Node::Select(Selector { metric, is_bucket, matchers: Vec::new() }),
        labels: Some(labels),
        dimension: dimension(metric.unit()),
    }
}

impl Query {
    /// The selector of a query that is only a selector, or a function of a range.
    fn selector(&mut self) -> &mut Selector {
        match &mut self.node {
            Node::Select(selector) | Node::OverTime { of: selector, .. } => selector,
            _ => panic!("only a selector has matchers and ranges"),
        }
    }

    fn matching(mut self, label: &'static str, operator: &'static str, value: &str) -> Query {
        let known = self.labels().contains(&label);
        let selector = self.selector();
        assert!(known, "{} has no label {label}", selector.metric.name());
        selector.matchers.push((label, operator, value.to_owned()));
        self
    }

    /// Only series whose label has this value.
    pub fn with(self, label: &'static str, value: &str) -> Query {
        self.matching(label, "=", value)
    }

    /// Only series whose label matches a regular expression.
    pub fn like(self, label: &'static str, pattern: &str) -> Query {
        self.matching(label, "=~", pattern)
    }

    /// Only series whose label matches no such value.
    pub fn unlike(self, label: &'static str, pattern: &str) -> Query {
        self.matching(label, "!~", pattern)
    }

    fn over_time(mut self, function: &'static str, window: Window, dimension: Dimension) -> Query {
        let of = self.selector().clone();
        Query { node: Node::OverTime { function, of, window }, labels: self.labels, dimension }
    }

    fn per_second(&self) -> Dimension {
        Dimension { seconds: self.dimension.seconds - 1, ..self.dimension }
    }

    fn assert_counts(&mut self, counts: bool) {
        let metric = self.selector().metric;
        assert_eq!(
            metric.kind() != FamilyType::Gauge,
            counts,
            "{} is a {}",
            metric.name(),
            metric.kind().name()
        );
    }

    /// The increase per second of a counter.
    pub(super) fn rate(mut self) -> Query {
        self.assert_counts(true);
        let dimension = self.per_second();
        self.over_time("rate", Window::RateInterval, dimension)
    }

    /// The increase of a counter in the window.
    ///
    /// # Panics
    /// If the metric is a gauge.
    pub fn increase(mut self, window: Window) -> Query {
        self.assert_counts(true);
        let dimension = self.dimension;
        self.over_time("increase", window, dimension)
    }

    /// The slope of a gauge: its change per second.
    ///
    /// # Panics
    /// If the metric is a counter.
    pub fn slope(mut self, window: Window) -> Query {
        self.assert_counts(false);
        let dimension = self.per_second();
        self.over_time("deriv", window, dimension)
    }
}
