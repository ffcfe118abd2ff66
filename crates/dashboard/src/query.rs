//! PromQL queries as values that know the labels and the dimension of their result.
//!
//! A query is built from metrics of the table, so that an unknown metric does not compile. A label that the metric does not
//! have, a rate of a gauge, a sum of bytes and seconds, and two vectors whose labels do not match panic while the
//! dashboards are built, which every test does.

mod render;
mod select;

use std::ops::{Add, Div, Mul, Sub};

pub use render::{Context, Scope};
pub use select::{Window, buckets, of, rate};

use crate::metric::QueryMetric;
use select::Selector;

/// The exponents of a unit. Bytes per second are `Dimension { bytes: 1, seconds: -1 }`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// The exponent of bytes.
    pub bytes: i8,
    /// The exponent of seconds.
    pub seconds: i8,
}

impl Dimension {
    /// The dimension of numbers, ratios and conditions.
    pub const NONE: Dimension = Dimension { bytes: 0, seconds: 0 };

    fn plus(self, other: Dimension) -> Dimension {
        Dimension { bytes: self.bytes + other.bytes, seconds: self.seconds + other.seconds }
    }

    fn minus(self, other: Dimension) -> Dimension {
        Dimension { bytes: self.bytes - other.bytes, seconds: self.seconds - other.seconds }
    }
}

/// A PromQL expression.
#[derive(Clone, Debug)]
pub struct Query {
    node: Node,
    /// The labels of the result, in the order of the table; `None` for a scalar.
    labels: Option<Vec<&'static str>>,
    dimension: Dimension,
}

#[derive(Clone, Debug)]
enum Node {
    Select(Selector),
    /// A function of a range of a selector, such as `rate`.
    OverTime {
        function: &'static str,
        of: Selector,
        window: Window,
    },
    Quantile {
        q: f64,
        of: Box<Query>,
    },
    Aggregate {
        operator: &'static str,
        by: Vec<&'static str>,
        of: Box<Query>,
    },
    Binary {
        operator: &'static str,
        matching: String,
        left: Box<Query>,
        right: Box<Query>,
    },
    Number(f64),
    Time,
    /// `or vector(0)`.
    OrZero(Box<Query>),
    /// The highest (`topk`) or lowest (`bottomk`) series.
    Ranked {
        operator: &'static str,
        of: Box<Query>,
    },
}

/// A number.
pub fn number(value: f64) -> Query {
    Query { node: Node::Number(value), labels: None, dimension: Dimension::NONE }
}

/// The time of the evaluation.
pub fn now() -> Query {
    Query { node: Node::Time, labels: None, dimension: Dimension { bytes: 0, seconds: 1 } }
}

impl Query {
    /// The labels of the result; none for a scalar.
    pub fn labels(&self) -> &[&'static str] {
        self.labels.as_deref().unwrap_or_default()
    }

    /// The dimension of the result.
    pub fn dimension(&self) -> Dimension {
        self.dimension
    }

    /// The metrics of the query, each once, in the order of their first use.
    pub fn metrics(&self) -> Vec<QueryMetric> {
        let mut metrics = Vec::new();
        self.add_metrics(&mut metrics);
        metrics
    }

    fn add_metrics(&self, to: &mut Vec<QueryMetric>) {
        match &self.node {
            Node::Select(selector) | Node::OverTime { of: selector, .. } => {
                if !to.contains(&selector.metric) {
                    to.push(selector.metric);
                }
            }
            Node::Quantile { of, .. }
            | Node::Aggregate { of, .. }
            | Node::OrZero(of)
            | Node::Ranked { of, .. } => of.add_metrics(to),
            Node::Binary { left, right, .. } => {
                left.add_metrics(to);
                right.add_metrics(to);
            }
            Node::Number(_) | Node::Time => {}
        }
    }

    fn aggregate(self, operator: &'static str, by: &[&'static str]) -> Query {
        for label in by {
            assert!(
                self.labels().contains(label),
                "{operator} by {label}: the labels are {:?}",
                self.labels()
            );
        }
        let dimension = if operator == "count" { Dimension::NONE } else { self.dimension };
        let by = by.to_vec();
        Query {
            labels: Some(by.clone()),
            dimension,
            node: Node::Aggregate { operator, by, of: Box::new(self) },
        }
    }

    /// The sum of the series that agree in these labels.
    pub fn sum_by(self, by: &[&'static str]) -> Query {
        self.aggregate("sum", by)
    }

    /// The greatest of the series that agree in these labels.
    pub fn max_by(self, by: &[&'static str]) -> Query {
        self.aggregate("max", by)
    }

    /// The mean of the series that agree in these labels.
    pub fn avg_by(self, by: &[&'static str]) -> Query {
        self.aggregate("avg", by)
    }

    /// The number of series that agree in these labels.
    pub fn count_by(self, by: &[&'static str]) -> Query {
        self.aggregate("count", by)
    }

    /// The number of all series; 0 if there is none.
    pub fn count(self) -> Query {
        self.count_by(&[]).or_zero()
    }

    /// 0 if the result, which has no labels, is empty.
    ///
    /// # Panics
    /// If the result has labels: `vector(0)` would be a further series.
    pub fn or_zero(self) -> Query {
        assert!(self.labels().is_empty(), "or vector(0) after the labels {:?}", self.labels());
        Query { labels: self.labels.clone(), dimension: self.dimension, node: Node::OrZero(Box::new(self)) }
    }

    /// The value below which the share `q` of a histogram's observations is.
    ///
    /// # Panics
    /// If the query does not have the label `le`.
    pub fn quantile(self, q: f64) -> Query {
        assert!(self.labels().contains(&"le"), "a quantile needs the label le: {:?}", self.labels());
        let Node::Aggregate { of, .. } = &self.node else {
            panic!("a quantile of buckets that are not summed")
        };
        let unit = of.metrics()[0].unit();
        let labels = self.labels().iter().copied().filter(|label| *label != "le").collect();
        Query {
            labels: Some(labels),
            dimension: select::dimension(unit),
            node: Node::Quantile { q, of: Box::new(self) },
        }
    }

    /// The series with the highest values: as many as the variable `top` says. In a graph they are the same series at all
    /// times, those with the highest mean (rates) or the highest last value (levels).
    pub fn top(self) -> Query {
        self.ranked("topk")
    }

    /// The series with the lowest values, as [`Query::top`].
    pub fn bottom(self) -> Query {
        self.ranked("bottomk")
    }

    fn ranked(self, operator: &'static str) -> Query {
        Query {
            labels: self.labels.clone(),
            dimension: self.dimension,
            node: Node::Ranked { operator, of: Box::new(self) },
        }
    }

    fn binary(
        operator: &'static str,
        left: Query,
        right: Query,
        matching: String,
        dimension: Dimension,
    ) -> Query {
        if matching.is_empty()
            && let (Some(a), Some(b)) = (&left.labels, &right.labels)
        {
            let same = a.len() == b.len() && a.iter().all(|label| b.contains(label));
            assert!(same, "{operator} between vectors with the labels {a:?} and {b:?}");
        }
        let labels = left.labels.clone().or_else(|| right.labels.clone());
        let node = Node::Binary { operator, matching, left: Box::new(left), right: Box::new(right) };
        Query { node, labels, dimension }
    }

    /// The quotient of each series and the one series of `other` that agrees in the labels `on`.
    pub fn over_group(self, on: &[&'static str], other: Query) -> Query {
        for label in on {
            assert!(self.labels().contains(label) && other.labels().contains(label), "on {label}");
        }
        let dimension = self.dimension.minus(other.dimension);
        Query::binary("/", self, other, format!(" on ({}) group_left ()", on.join(", ")), dimension)
    }

    /// The series whose value compares with a number, in the unit of the query.
    fn compared(self, operator: &'static str, value: f64) -> Query {
        let dimension = self.dimension;
        Query::binary(operator, self, number(value), String::new(), dimension)
    }

    /// The series above a value.
    pub fn above(self, value: f64) -> Query {
        self.compared(">", value)
    }

    /// The series below a value.
    pub fn below(self, value: f64) -> Query {
        self.compared("<", value)
    }

    /// The series with a value.
    pub fn equal_to(self, value: f64) -> Query {
        self.compared("==", value)
    }

    /// 1 for series that are not below the series of `other` with the same labels, and 0 for those that are.
    pub fn is_at_least(self, other: Query) -> Query {
        assert_eq!(self.dimension, other.dimension, "a comparison");
        Query::binary(">= bool", self, other, String::new(), Dimension::NONE)
    }

    /// The series for which `other` has a series with the same labels.
    pub fn among(self, other: Query) -> Query {
        let dimension = self.dimension;
        Query::binary("and", self, other, String::new(), dimension)
    }

    /// The series for which `other` has no series that agrees in the labels `on`.
    pub fn unless_on(self, on: &[&'static str], other: Query) -> Query {
        for label in on {
            assert!(self.labels().contains(label) && other.labels().contains(label), "on {label}");
        }
        let dimension = self.dimension;
        Query::binary("unless", self, other, format!(" on ({})", on.join(", ")), dimension)
    }

    /// These series, and those of `other` with other labels.
    pub fn or(self, other: Query) -> Query {
        let dimension = self.dimension;
        assert_eq!(dimension, other.dimension, "or");
        Query::binary("or", self, other, String::new(), dimension)
    }
}

impl Add for Query {
    type Output = Query;
    fn add(self, other: Query) -> Query {
        assert_eq!(self.dimension, other.dimension, "a sum");
        let dimension = self.dimension;
        Query::binary("+", self, other, String::new(), dimension)
    }
}

impl Sub for Query {
    type Output = Query;
    fn sub(self, other: Query) -> Query {
        assert_eq!(self.dimension, other.dimension, "a difference");
        let dimension = self.dimension;
        Query::binary("-", self, other, String::new(), dimension)
    }
}

impl Mul for Query {
    type Output = Query;
    fn mul(self, other: Query) -> Query {
        let dimension = self.dimension.plus(other.dimension);
        Query::binary("*", self, other, String::new(), dimension)
    }
}

impl Mul<f64> for Query {
    type Output = Query;
    fn mul(self, factor: f64) -> Query {
        self * number(factor)
    }
}

impl Div for Query {
    type Output = Query;
    fn div(self, other: Query) -> Query {
        let dimension = self.dimension.minus(other.dimension);
        Query::binary("/", self, other, String::new(), dimension)
    }
}
