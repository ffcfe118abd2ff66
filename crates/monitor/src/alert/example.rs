//! Example data of the rules: with it, promtool and the tests of this crate check that a rule fires, or does not.

use crate::{MetricFamily, Readings};

use crate::alert::condition::{AlertCondition, Expression, HOUR, MINUTE, Seconds};

/// Data with which a rule fires once, and data with which it does not.
#[derive(Clone, Copy, Debug)]
pub enum Example {
    /// One series decides.
    One {
        /// The rule fires.
        fires: ExampleSeries,
        /// It does not.
        quiet: ExampleSeries,
        /// Further series in both cases.
        others: &'static [ExampleSeries],
    },
    /// Any series.
    Series {
        /// The rule fires.
        fires: &'static [ExampleSeries],
        /// It does not.
        quiet: &'static [ExampleSeries],
    },
}

/// Values of the labels of an example, in the order of the type of the resource.
type ExampleLabels = &'static [&'static str];

impl Example {
    /// A level at which a rule fires, and one at which it does not.
    pub const fn levels(
        family: &'static MetricFamily,
        labels: ExampleLabels,
        fires: f64,
        quiet: f64,
    ) -> Example {
        Example::one(constant(family, labels, fires), constant(family, labels, quiet))
    }

    /// A counter's increase per minute if a rule fires, and if it does not.
    pub const fn rates(
        family: &'static MetricFamily,
        labels: ExampleLabels,
        fires: f64,
        quiet: f64,
    ) -> Example {
        Example::one(ramp(family, labels, 0.0, fires), ramp(family, labels, 0.0, quiet))
    }

    /// A counter's increase per minute if a rule fires, and the value of one that does not increase.
    pub const fn grows(
        family: &'static MetricFamily,
        labels: ExampleLabels,
        step: f64,
        quiet: f64,
    ) -> Example {
        Example::one(ramp(family, labels, 0.0, step), constant(family, labels, quiet))
    }

    const fn one(fires: ExampleSeries, quiet: ExampleSeries) -> Example {
        Example::One { fires, quiet, others: &[] }
    }

    /// The same example with further series in both cases.
    pub const fn with(self, others: &'static [ExampleSeries]) -> Example {
        match self {
            Example::One { fires, quiet, .. } => Example::One { fires, quiet, others },
            several @ Example::Series { .. } => several,
        }
    }

    /// The series with which the rule fires.
    pub fn fires(&self) -> Vec<ExampleSeries> {
        match self {
            Example::One { fires, others, .. } => [&[*fires], *others].concat(),
            Example::Series { fires, .. } => fires.to_vec(),
        }
    }

    /// The series with which the rule does not fire.
    pub fn quiet(&self) -> Vec<ExampleSeries> {
        match self {
            Example::One { quiet, others, .. } => [&[*quiet], *others].concat(),
            Example::Series { quiet, .. } => quiet.to_vec(),
        }
    }
}

/// A series of a metric.
#[derive(Clone, Copy, Debug)]
pub struct ExampleSeries {
    /// The metric.
    pub family: &'static MetricFamily,
    /// Values of its labels, in the order of its type.
    pub labels: ExampleLabels,
    /// Its values.
    pub shape: SeriesShape,
}

/// How the values of a series change. Time starts at 0.
#[derive(Clone, Copy, Debug)]
pub enum SeriesShape {
    /// Always this value.
    Constant(f64),
    /// The first value, and what is added each minute.
    Ramp(f64, f64),
    /// A histogram that starts with zeros: the observations that are added each minute, by the largest value of a bucket. The last one
    /// has no bound.
    Buckets(&'static [f64], &'static [f64]),
}

/// A series that always has the same value.
pub const fn constant(family: &'static MetricFamily, labels: ExampleLabels, value: f64) -> ExampleSeries {
    ExampleSeries { family, labels, shape: SeriesShape::Constant(value) }
}

/// A series that starts with a value and increases by another each minute.
pub const fn ramp(
    family: &'static MetricFamily,
    labels: ExampleLabels,
    first: f64,
    step: f64,
) -> ExampleSeries {
    ExampleSeries { family, labels, shape: SeriesShape::Ramp(first, step) }
}

/// A histogram to which these numbers of observations are added each minute.
pub const fn buckets(
    family: &'static MetricFamily,
    labels: ExampleLabels,
    bounds: &'static [f64],
    step: &'static [f64],
) -> ExampleSeries {
    ExampleSeries { family, labels, shape: SeriesShape::Buckets(bounds, step) }
}

/// The time at which a rule with this condition and delay is decided in the examples: late enough for its history and its delay.
pub fn decision_time(condition: &AlertCondition, wait: Seconds) -> Seconds {
    let mut longest = 0;
    condition.visit(&mut |value: &Expression| {
        let window = value.selector().map_or(0, |(_, window)| window.as_secs() as Seconds);
        // A line through two hours is as good as one through a week.
        let is_line = matches!(value, Expression::Predicted(..));
        longest = longest.max(if is_line { window.min(2 * HOUR) } else { window });
    });
    longest + wait + 10 * MINUTE
}

/// The readings of example data after a number of minutes.
pub fn readings_at(minute: u32, series: &[ExampleSeries]) -> Readings {
    let mut readings = Readings::default();
    for ExampleSeries { family, labels, shape } in series {
        let resource = readings.add_labelled(family.resource, labels);
        match *shape {
            SeriesShape::Constant(value) => {
                resource.set(family, value);
            }
            SeriesShape::Ramp(first, step) => {
                resource.set(family, first + step * f64::from(minute));
            }
            SeriesShape::Buckets(bounds, steps) => {
                let counts = steps.iter().map(|step| (step * f64::from(minute)) as u64).collect();
                resource.histogram(family, bounds, counts);
            }
        }
    }
    readings
}
