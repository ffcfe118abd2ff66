//! The values that a source has read.

use std::collections::HashSet;
use std::sync::Arc;

use crate::family::{MetricFamily, ResourceType};

/// The value of one metric of one resource.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// The metric.
    pub family: &'static MetricFamily,
    /// The value in the family's unit.
    pub value: f64,
}

/// Numbers of observations by their value.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramReading {
    /// The metric.
    pub family: &'static MetricFamily,
    /// The largest value of each bucket but the last, ascending, in the family's unit.
    pub bounds: &'static [f64],
    /// The number of observations in each bucket. The last bucket has no bound.
    pub counts: Box<[u64]>,
}

impl HistogramReading {
    /// For each bucket, its bound and the number of observations up to it. The last bound is infinite.
    pub fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        bounds.zip(&self.counts).scan(0, |sum, (bound, count)| {
            *sum += count;
            Some((bound, *sum))
        })
    }
}

/// One pool, vdev, dataset, …: the values of its labels, and its metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// The type, which names the labels.
    pub of: &'static ResourceType,
    /// Values of the labels, in the order of [`ResourceType::labels`].
    pub labels: Box<[Arc<str>]>,
    /// The metrics that were read. A metric that could not be read is missing.
    pub readings: Vec<Reading>,
    /// The histograms that were read.
    pub histograms: Vec<HistogramReading>,
}

impl Resource {
    fn new(of: &'static ResourceType, labels: Box<[Arc<str>]>) -> Resource {
        Resource { of, labels, readings: Vec::new(), histograms: Vec::new() }
    }

    /// Adds a value. `None` adds nothing.
    ///
    /// # Panics
    /// In debug builds, if the family belongs to another type of resource.
    pub fn set(&mut self, family: &'static MetricFamily, value: impl Into<Option<f64>>) -> &mut Resource {
        debug_assert!(
            std::ptr::eq(family.resource, self.of),
            "{} is not a metric of {}",
            family.name,
            self.of.name
        );
        if let Some(value) = value.into() {
            self.readings.push(Reading { family, value });
        }
        self
    }

    /// Adds a count or a size, which is an integer.
    pub fn count(&mut self, family: &'static MetricFamily, value: impl Into<Option<u64>>) -> &mut Resource {
        self.set(family, value.into().map(|value| value as f64))
    }

    /// Adds a condition as 0 or 1.
    pub fn flag(&mut self, family: &'static MetricFamily, value: impl Into<Option<bool>>) -> &mut Resource {
        self.set(family, value.into().map(|value| f64::from(u8::from(value))))
    }

    /// Adds a histogram.
    ///
    /// # Panics
    /// If the number of counts is not the number of bounds plus one, and in debug builds as [`Resource::set`].
    pub fn histogram(
        &mut self,
        family: &'static MetricFamily,
        bounds: &'static [f64],
        counts: Box<[u64]>,
    ) -> &mut Resource {
        debug_assert!(std::ptr::eq(family.resource, self.of), "{}", family.name);
        assert_eq!(counts.len(), bounds.len() + 1, "buckets of {}", family.name);
        self.histograms.push(HistogramReading { family, bounds, counts });
        self
    }

    /// The value of a metric, if it was read.
    pub fn value(&self, family: &MetricFamily) -> Option<f64> {
        self.readings.iter().find(|reading| std::ptr::eq(reading.family, family)).map(|reading| reading.value)
    }
}

/// Everything that one source has read at one time.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    /// The resources, in the order in which they were read.
    pub resources: Vec<Resource>,
    /// Why some of them are missing: a file that cannot be read does not hide the others.
    pub problems: Vec<String>,
    /// Label values of the resources, until [`Readings::shrink`].
    values: HashSet<Arc<str>>,
}

impl PartialEq for Readings {
    fn eq(&self, other: &Readings) -> bool {
        self.resources == other.resources
    }
}

impl Readings {
    /// Adds a resource, with one value for each label of its type.
    ///
    /// # Panics
    /// If the number of labels differs: an error in the source's code.
    pub fn add<const N: usize>(&mut self, of: &'static ResourceType, labels: [&str; N]) -> &mut Resource {
        self.add_labelled(of, &labels)
    }

    /// As [`Readings::add`], for a number of labels that is not known when the program is compiled.
    ///
    /// # Panics
    /// If the number of labels differs.
    pub fn add_labelled(&mut self, of: &'static ResourceType, labels: &[&str]) -> &mut Resource {
        assert_eq!(labels.len(), of.labels.len(), "labels of {}", of.name);
        let labels = self.shared(labels.iter().copied());
        self.resources.push(Resource::new(of, labels));
        self.resources.last_mut().expect("it was added")
    }

    /// Label values. Equal ones are shared, because many resources are of one pool, or have one value of a property.
    fn shared<'a>(&mut self, labels: impl IntoIterator<Item = &'a str>) -> Box<[Arc<str>]> {
        let before = self.resources.last().map_or(&[][..], |resource| &resource.labels);
        let values = &mut self.values;
        let shared = |label: &str| {
            let known = before.iter().find(|known| ***known == *label).or_else(|| values.get(label));
            known.cloned().unwrap_or_else(|| {
                let new: Arc<str> = Arc::from(label);
                values.insert(Arc::clone(&new));
                new
            })
        };
        labels.into_iter().map(shared).collect()
    }

    /// Returns memory that further resources would need.
    pub fn shrink(&mut self) {
        self.values = HashSet::new();
        self.resources.iter_mut().for_each(|resource| resource.readings.shrink_to_fit());
        self.resources.shrink_to_fit();
    }

    /// Adds one resource for each of `states`, whose metric is 1 for the state `now` and 0 for the others. A state that is
    /// not in the list is added. The last label of the type is the state.
    pub fn add_states(&mut self, family: &'static MetricFamily, labels: &[&str], states: &[&str], now: &str) {
        let unknown = (!states.contains(&now)).then_some(now);
        for state in states.iter().copied().chain(unknown) {
            let labels = self.shared(labels.iter().copied().chain([state]));
            let mut resource = Resource::new(family.resource, labels);
            resource.flag(family, state == now);
            self.resources.push(resource);
        }
    }
}
