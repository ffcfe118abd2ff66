//! Earlier values of the metrics whose increase or change the rules need.
//!
//! The memory is bounded: a series keeps at most about [`POINTS`] values, only those that differ from the one before, and no
//! longer than the rules need it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::family::{EXPORTER, SOURCE};
use crate::{FAMILIES, FamilyType, MetricFamily, Readings};
use serde::{Deserialize, Serialize};

use crate::alert::condition::{Expression, Seconds};
use crate::alert::rule::AlertRule;

/// Number of values that a series keeps for its window.
const POINTS: f64 = 64.0;
/// The highest number of series. Rules do not fire for further ones.
const SERIES: usize = 200_000;

/// Values of the labels of a resource.
type Labels = Box<[Arc<str>]>;

/// The earlier values.
#[derive(Debug, Default)]
pub struct History {
    /// How long the values of a family are kept.
    windows: HashMap<&'static str, Seconds>,
    /// The series of each resource, by the name of its type.
    resources: HashMap<&'static str, HashMap<Labels, Vec<Series>>>,
    series: usize,
}

/// The values of one metric of one resource: one number, or one for each bucket of a histogram. Counters do not decrease here,
/// although their metric does when the process or module that counts is restarted.
#[derive(Clone, Debug)]
struct Series {
    family: &'static MetricFamily,
    /// When it was last observed.
    seen: f64,
    /// Number of values of an observation.
    width: usize,
    /// The metric's values when it was last observed, then the points: of each, the time and the values.
    numbers: Vec<f64>,
}

/// How the values changed within a window.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The difference of each value.
    pub by: Box<[f64]>,
    /// The part of the window that is known, in seconds.
    pub covered: f64,
}

/// A series of a kept history.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeptSeries {
    family: String,
    labels: Labels,
    seen: f64,
    width: usize,
    numbers: Vec<f64>,
}

impl History {
    /// An empty history for what these rules need.
    pub fn new<'a>(rules: impl IntoIterator<Item = &'a AlertRule>) -> History {
        let mut history = History::default();
        for rule in rules {
            rule.condition.visit(&mut |value: &Expression| {
                let Some((selector, window)) = value.selector().filter(|(_, window)| !window.is_zero())
                else {
                    return;
                };
                history.resources.entry(selector.family.resource.name).or_default();
                let kept = history.windows.entry(selector.family.name).or_default();
                *kept = (*kept).max(window.as_secs() as Seconds);
            });
        }
        history
    }

    /// Adds the values at a time in seconds, which must not be earlier than the last one.
    pub fn observe(&mut self, now: f64, all: &[&Readings]) {
        for resource in all.iter().flat_map(|readings| &readings.resources) {
            let Some(known) = self.resources.get_mut(resource.of.name) else { continue };
            let mut series = known.get_mut(&resource.labels);
            let mut added = Vec::new();
            let mut add = |family: &'static MetricFamily, raw: &[f64]| {
                let Some(window) = self.windows.get(family.name) else { return };
                let known = series.iter_mut().flat_map(|series| series.iter_mut());
                match known.into_iter().find(|series| std::ptr::eq(series.family, family)) {
                    Some(series) => series.add(now, raw, f64::from(*window) / POINTS),
                    None if self.series < SERIES => {
                        added.push(Series::new(family, now, raw));
                        self.series += 1;
                    }
                    None => {}
                }
            };
            for reading in &resource.readings {
                add(reading.family, &[reading.value]);
            }
            for histogram in &resource.histograms {
                let counts: Vec<f64> = histogram.counts.iter().map(|count| *count as f64).collect();
                add(histogram.family, &counts);
            }
            match series {
                _ if added.is_empty() => {}
                Some(series) => series.append(&mut added),
                None => {
                    added.shrink_to_fit();
                    known.insert(resource.labels.clone(), added);
                }
            }
        }
        self.forget(now);
    }

    /// Drops what no rule needs any more.
    fn forget(&mut self, now: f64) {
        self.series = 0;
        for known in self.resources.values_mut() {
            known.retain(|_, series| {
                series.retain_mut(|series| {
                    let oldest = now - f64::from(self.windows[series.family.name]);
                    series.forget(oldest);
                    series.seen >= oldest
                });
                self.series += series.len();
                !series.is_empty()
            });
        }
    }

    fn find(&self, family: &MetricFamily, labels: &[Arc<str>]) -> Option<&Series> {
        let series = self.resources.get(family.resource.name)?.get(labels)?;
        series.iter().find(|series| std::ptr::eq(series.family, family))
    }

    /// How a series has changed within the last seconds; `None` if it was observed only once. If `is_steady`, a change between two
    /// observations was steady, otherwise it happened at the second one.
    pub fn change(
        &self,
        family: &MetricFamily,
        labels: &[Arc<str>],
        window: Seconds,
        now: f64,
        is_steady: bool,
    ) -> Option<Change> {
        let series = self.find(family, labels)?;
        let first = series.point(0);
        if first[0] >= now {
            return None;
        }
        let start = (now - f64::from(window)).max(first[0]);
        let before = series.values_at(start, is_steady)?;
        let by = series.last()[1..].iter().zip(before).map(|(now, before)| now - before).collect();
        Some(Change { by, covered: now - start })
    }

    /// The points of a series within the last seconds, for a line through them.
    pub fn line(
        &self,
        family: &MetricFamily,
        labels: &[Arc<str>],
        window: Seconds,
        now: f64,
    ) -> Vec<(f64, f64)> {
        let points = self.find(family, labels).into_iter().flat_map(Series::points);
        let recent = points.filter(|point| point[0] >= now - f64::from(window));
        recent.map(|point| (point[0], point[1])).collect()
    }

    /// The series, to be kept in a file. Counters of the exporter itself begin again with each process, and are left out.
    pub fn to_kept(&self) -> Vec<KeptSeries> {
        let is_own = |name: &str| [SOURCE.name, EXPORTER.name].contains(&name);
        let kept = self.resources.iter().filter(|(name, _)| !is_own(name)).flat_map(|(_, known)| known);
        let series = kept.flat_map(|(labels, series)| {
            series.iter().map(|series| KeptSeries {
                family: series.family.name.to_owned(),
                labels: labels.clone(),
                seen: series.seen,
                width: series.width,
                numbers: series.numbers.clone(),
            })
        });
        series.collect()
    }

    /// Takes kept series that the rules need, unless they are later than `now`.
    pub fn restore(&mut self, kept: Vec<KeptSeries>, now: f64) {
        for KeptSeries { family, labels, seen, width, numbers } in kept {
            let Some(family) = FAMILIES.iter().copied().find(|known| known.name == family) else { continue };
            let series = Series { family, seen, width, numbers };
            if self.windows.contains_key(family.name) && seen <= now && series.is_consistent() {
                let known = self.resources.entry(family.resource.name).or_default();
                known.entry(labels).or_default().push(series);
                self.series += 1;
            }
        }
    }
}

impl Series {
    fn new(family: &'static MetricFamily, now: f64, raw: &[f64]) -> Series {
        let numbers = raw.iter().chain([&now]).chain(raw).copied().collect();
        Series { family, seen: now, width: raw.len(), numbers }
    }

    fn points(&self) -> impl DoubleEndedIterator<Item = &[f64]> + ExactSizeIterator {
        self.numbers[self.width..].chunks_exact(self.width + 1)
    }

    /// A point: its time and its values.
    fn point(&self, at: usize) -> &[f64] {
        &self.numbers[self.width + at * (self.width + 1)..][..self.width + 1]
    }

    fn last(&self) -> &[f64] {
        &self.numbers[self.numbers.len() - self.width - 1..]
    }

    fn add(&mut self, now: f64, raw: &[f64], spacing: f64) {
        if raw.len() != self.width {
            *self = Series::new(self.family, now, raw);
            return;
        }
        let is_counter = self.family.kind != FamilyType::Gauge;
        let changed = |((new, old), value): ((&f64, &f64), &f64)| match is_counter {
            true => value + if new < old { *new } else { new - old },
            false => *new,
        };
        let last = self.last();
        let values = raw.iter().zip(&self.numbers).zip(&last[1..]).map(changed);
        if values.clone().ne(last[1..].iter().copied()) {
            let point: Vec<f64> = [now].into_iter().chain(values).collect();
            if self.seen - last[0] > spacing {
                let unchanged: Vec<f64> = [self.seen].iter().chain(&last[1..]).copied().collect();
                self.push(&unchanged);
            }
            let count = self.points().len();
            if count > 1 && self.point(count - 1)[0] - self.point(count - 2)[0] < spacing {
                self.numbers.truncate(self.numbers.len() - self.width - 1);
            }
            self.push(&point);
        }
        self.numbers[..self.width].copy_from_slice(raw);
        self.seen = now;
    }

    /// Adds a point. Most series change seldom: they have memory only for the points that they have.
    fn push(&mut self, point: &[f64]) {
        self.numbers.reserve_exact(point.len());
        self.numbers.extend(point);
    }

    /// Drops the points before `oldest`, except the last of them, whose values are those at the start of the window.
    fn forget(&mut self, oldest: f64) {
        let before = self.points().take_while(|point| point[0] <= oldest).count();
        let dropped = before.saturating_sub(1) * (self.width + 1);
        self.numbers.drain(self.width..self.width + dropped);
    }

    fn values_at(&self, time: f64, is_steady: bool) -> Option<Box<[f64]>> {
        let after = self.points().take_while(|point| point[0] <= time).count();
        let before = self.point(after.checked_sub(1)?);
        if after == self.points().len() || !is_steady {
            return Some(before[1..].into());
        }
        let next = self.point(after);
        let part = (time - before[0]) / (next[0] - before[0]);
        Some(before[1..].iter().zip(&next[1..]).map(|(a, b)| a + (b - a) * part).collect())
    }

    /// Whether a series from a file is one that this module would make.
    fn is_consistent(&self) -> bool {
        let points = self.numbers.len().checked_sub(self.width);
        self.width > 0
            && points.is_some_and(|numbers| numbers > 0 && numbers % (self.width + 1) == 0)
            && self.points().map(|point| point[0]).is_sorted_by(|a, b| a < b)
    }
}

#[cfg(test)]
mod tests {
    use crate::family::{VDEV, VDEV_READ_ERRORS, VDEV_READS};

    use super::*;
    use crate::alert::condition::HOUR;
    use crate::alert::table;

    const LABELS: [&str; 4] = ["kernel", "tank", "sda", "normal"];

    fn labels() -> Vec<Arc<str>> {
        LABELS.map(Arc::from).to_vec()
    }

    fn observe(history: &mut History, now: f64, errors: f64) {
        let mut readings = Readings::default();
        readings.add(&VDEV, LABELS).set(&VDEV_READ_ERRORS, errors).set(&VDEV_READS, errors);
        history.observe(now, &[&readings]);
    }

    fn increase(history: &History, now: f64) -> Option<(f64, f64)> {
        let change = history.change(&VDEV_READ_ERRORS, &labels(), HOUR, now, false)?;
        Some((change.by[0], change.covered))
    }

    fn points(history: &History) -> usize {
        history.find(&VDEV_READ_ERRORS, &labels()).unwrap().points().len()
    }

    #[test]
    fn increases_survive_resets_and_end_with_the_window() {
        let mut history = History::new(table::rules());
        observe(&mut history, 0.0, 5.0);
        assert_eq!(increase(&history, 0.0), None, "one observation says nothing");
        observe(&mut history, 60.0, 5.0);
        assert_eq!(increase(&history, 60.0), Some((0.0, 60.0)));
        observe(&mut history, 120.0, 7.0);
        observe(&mut history, 180.0, 1.0); // `zpool clear`, and one more
        assert_eq!(increase(&history, 180.0), Some((3.0, 180.0)));
        observe(&mut history, 5000.0, 1.0);
        assert_eq!(increase(&history, 5000.0), Some((0.0, 3600.0)));
        assert!(points(&history) <= 2);
    }

    #[test]
    fn a_busy_counter_keeps_few_points() {
        let mut history = History::new(table::rules());
        for second in 0..8000 {
            observe(&mut history, f64::from(second), f64::from(second));
        }
        let points = points(&history);
        assert!((30..140).contains(&points), "{points}");
        let (by, covered) = increase(&history, 7999.0).unwrap();
        assert!((by - 3600.0).abs() < 120.0 && covered == 3600.0, "{by} {covered}");
        let steady = history.change(&VDEV_READ_ERRORS, &labels(), HOUR, 7999.0, true).unwrap();
        assert!((steady.by[0] - 3600.0).abs() < 1e-6, "{steady:?}");
    }

    #[test]
    fn a_kept_history_goes_on_after_a_pause() {
        let mut first = History::new(table::rules());
        observe(&mut first, 0.0, 5.0);
        let text = serde_json::to_string(&first.to_kept()).unwrap();
        let mut second = History::new(table::rules());
        second.restore(serde_json::from_str(&text).unwrap(), 100.0);
        observe(&mut second, 1800.0, 9.0);
        assert_eq!(increase(&second, 1800.0), Some((4.0, 1800.0)));
        // A series that is later than the present comes from a clock that was wrong.
        let mut third = History::new(table::rules());
        third.restore(serde_json::from_str(&text).unwrap(), -5.0);
        assert_eq!(third.series, 0);
    }
}
