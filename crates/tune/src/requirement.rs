//! Requirements in addition to a goal: bounds on the change of a metric, such as `space<=-20%` or `work_rate>=-5%`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::objective::Metrics;
use poolwright_plan::metric::{self, METRICS};
use poolwright_plan::{Gains, MetricName};

/// The side of the bound on which a change must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The change is at most the bound.
    AtMost,
    /// The change is at least the bound.
    AtLeast,
}

/// A bound on the change of a metric against today's settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Requirement {
    /// The name, as in [`Metric::requirement`](poolwright_plan::metric::Metric::requirement).
    pub name: String,
    /// The required side of the bound.
    pub side: Side,
    /// The bound, as a fraction: -0.2 is 20 % less than today.
    pub bound: f64,
}

impl Requirement {
    /// Parses `NAME<=CHANGE%` or `NAME>=CHANGE%`.
    ///
    /// # Errors
    /// A message if the form, the name or the percentage is invalid.
    pub fn parse(text: &str) -> Result<Requirement, String> {
        let form = || {
            format!("invalid requirement {text:?}: expected a limit such as space<=-20% or work_rate>=-5%")
        };
        let (name, side, bound) = [("<=", Side::AtMost), (">=", Side::AtLeast)]
            .into_iter()
            .find_map(|(sign, side)| {
                text.split_once(sign).map(|(name, bound)| (name.trim(), side, bound.trim()))
            })
            .ok_or_else(form)?;
        if metric::find_requirement(name).is_none() {
            let all: Vec<&str> = METRICS.iter().filter_map(|metric| metric.requirement).collect();
            return Err(format!("unknown figure {name:?} in {text:?} (known: {})", all.join(", ")));
        }
        let percent: f64 = bound.strip_suffix('%').and_then(|n| n.trim().parse().ok()).ok_or_else(form)?;
        if !percent.is_finite() || percent < -100.0 {
            return Err(form());
        }
        Ok(Requirement { name: name.to_owned(), side, bound: percent / 100.0 })
    }

    /// The bounded metric; `None` if [`Requirement::name`] is unknown.
    pub fn metric(&self) -> Option<&'static MetricName> {
        metric::find_requirement(&self.name).map(|metric| &metric.name)
    }

    pub(crate) fn allows(&self, change: f64) -> bool {
        match self.side {
            Side::AtMost => change <= self.bound,
            Side::AtLeast => change >= self.bound,
        }
    }

    /// The change of the bounded metric from `today`; `None` if either side lacks it.
    pub(crate) fn change(&self, metrics: &Metrics, today: &Metrics) -> Option<f64> {
        let metric = self.metric()?;
        let old = today.get(metric).filter(|old| **old > 0.0)?;
        Some(metrics.get(metric)? / old - 1.0)
    }

    /// Whether the whole 95 % interval of the change is on the required side; false if the metric was not measured.
    pub fn is_met(&self, gains: &Gains) -> bool {
        self.fulfilment(gains) == Some(Fulfilment::Met)
    }

    /// Compares the 95 % interval of the change with the bound. Returns `None` if the metric was not measured.
    pub fn fulfilment(&self, gains: &Gains) -> Option<Fulfilment> {
        let gain = gains.get(self.metric()?)?;
        Some(match (self.allows(gain.ci95.0), self.allows(gain.ci95.1)) {
            (true, true) => Fulfilment::Met,
            (false, false) => Fulfilment::Missed,
            _ => Fulfilment::Unclear,
        })
    }
}

/// Whether measurements meet a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fulfilment {
    /// The whole interval is on the required side.
    Met,
    /// The whole interval is on the other side.
    Missed,
    /// The bound is inside the interval.
    Unclear,
}

impl std::fmt::Display for Requirement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = match self.side {
            Side::AtMost => "<=",
            Side::AtLeast => ">=",
        };
        // Rounded, because -0.07 * 100 is not exactly -7 in binary.
        write!(f, "{}{sign}{}%", self.name, (self.bound * 1e11).round() / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poolwright_plan::{Gain, GainVerdict};

    #[test]
    fn requirements_are_read_and_written() {
        for text in ["space<=-20%", "work_rate>=-5%", "work_rate>=-7%", "read_p99<=0%", "space<=-12.5%"] {
            assert_eq!(Requirement::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Requirement::parse("space <= -20 %").unwrap().bound, -0.2);
        for wrong in ["space", "space<=20", "speed>=5%", "space<=%", "space<=-120%", "space<=NaN%"] {
            assert!(Requirement::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_requirement_is_met_by_the_whole_interval() {
        let gains = |low: f64, high: f64| {
            let gain = Gain {
                from: 1.0,
                to: 1.0,
                change: 0.0,
                ci95: (low, high),
                pairs: 3,
                verdict: GainVerdict::Noise,
            };
            Gains::from([(MetricName::WorkRate, gain)])
        };
        let r = Requirement::parse("work_rate>=-5%").unwrap();
        assert!(r.is_met(&gains(-0.04, 0.2)));
        assert!(!r.is_met(&gains(-0.06, 0.2)));
        assert_eq!(r.fulfilment(&gains(-0.06, 0.2)), Some(Fulfilment::Unclear));
        assert_eq!(r.fulfilment(&gains(-0.2, -0.06)), Some(Fulfilment::Missed));
        assert!(!r.is_met(&Gains::new()));
    }
}
