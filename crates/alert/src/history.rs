//! Earlier values of the metrics whose increase or change the rules need.
//!
//! The memory is bounded: a series keeps at most about [`POINTS`] values, only those that differ from the one before, and no
//! longer than the rules need it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use poolwright_monitor::family::{EXPORTER, SOURCE};
use poolwright_monitor::{FAMILIES, FamilyType, MetricFamily, Readings};
use serde::{Deserialize, Serialize};

use crate::condition::{Expression, Seconds};
use crate::rule::AlertRule;

/// Number of values that a series keeps for its window.
const POINTS: f64 = 64.0;
/// The highest number of series. Rules do not fire for further ones.
const SERIES: usize = 200_000;

/// Values of the labels of a series.
type Labels = Box<[Arc<str>]>;

/// The earlier values.
#[derive(Debug, Default)]
pub struct History {
    /// How long the values of a family are kept.
    windows: HashMap<&'static str, Seconds>,
    families: HashMap<&'static str, HashMap<Labels, Track>>,
    series: usize,
}

/// The values of one series: one number, or one for each bucket of a histogram. Counters do not decrease here, although
/// their metric does when the process or module that counts is restarted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Track {
    points: VecDeque<Point>,
    /// The metric's values when it was last observed.
    raw: Box<[f64]>,
    /// When it was last observed.
    seen: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Point {
    at: f64,
    values: Box<[f64]>,
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
    track: Track,
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
                let kept = history.windows.entry(selector.family.name).or_default();
                *kept = (*kept).max(window.as_secs() as Seconds);
            });
        }
        history
    }

    /// Adds the values at a time in seconds, which must not be earlier than the last one.
    pub fn observe(&mut self, now: f64, all: &[&Readings]) {
        for resource in all.iter().flat_map(|readings| &readings.resources) {
            for reading in &resource.readings {
                self.add(now, reading.family, &resource.labels, || [reading.value].into());
            }
            for histogram in &resource.histograms {
                let counts = || histogram.counts.iter().map(|count| *count as f64).collect();
                self.add(now, histogram.family, &resource.labels, counts);
            }
        }
        self.forget(now);
    }

    /// Adds the values of a series, if a rule needs their history.
    fn add(
        &mut self,
        now: f64,
        family: &'static MetricFamily,
        labels: &Labels,
        values: impl FnOnce() -> Box<[f64]>,
    ) {
        let Some(window) = self.windows.get(family.name) else { return };
        let values = values();
        let spacing = f64::from(*window) / POINTS;
        let tracks = self.families.entry(family.name).or_default();
        match tracks.get_mut(labels) {
            Some(track) => track.add(now, values, family.kind != FamilyType::Gauge, spacing),
            None if self.series < SERIES => {
                let first = Point { at: now, values: values.clone() };
                let track = Track { points: [first].into(), raw: values, seen: now };
                tracks.insert(labels.clone(), track);
                self.series += 1;
            }
            None => {}
        }
    }

    /// Drops what no rule needs any more.
    fn forget(&mut self, now: f64) {
        for (family, tracks) in &mut self.families {
            let oldest = now - f64::from(self.windows[family]);
            tracks.retain(|_, track| track.seen >= oldest);
            for track in tracks.values_mut() {
                // The last value before the window is the one at its start.
                while track.points.get(1).is_some_and(|point| point.at <= oldest) {
                    track.points.pop_front();
                }
            }
        }
        self.series = self.families.values().map(HashMap::len).sum();
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
        let track = self.families.get(family.name)?.get(labels)?;
        let (first, last) = (track.points.front()?, track.points.back()?);
        if first.at >= now {
            return None;
        }
        let start = (now - f64::from(window)).max(first.at);
        let before = track.values_at(start, is_steady)?;
        let by = last.values.iter().zip(before).map(|(now, before)| now - before).collect();
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
        let track = self.families.get(family.name).and_then(|tracks| tracks.get(labels));
        let points = track.into_iter().flat_map(|track| &track.points);
        let recent = points.filter(|point| point.at >= now - f64::from(window));
        recent.filter_map(|point| Some((point.at, *point.values.first()?))).collect()
    }

    /// The series, to be kept in a file. Counters of the exporter itself begin again with each process, and are left out.
    pub fn to_kept(&self) -> Vec<KeptSeries> {
        let is_own = |family: &str| {
            let known = FAMILIES.iter().find(|known| known.name == family);
            known.is_some_and(|known| [SOURCE.name, EXPORTER.name].contains(&known.resource.name))
        };
        let kept = self.families.iter().filter(|(family, _)| !is_own(family));
        let series = kept.flat_map(|(family, tracks)| {
            tracks.iter().map(|(labels, track)| KeptSeries {
                family: (*family).to_owned(),
                labels: labels.clone(),
                track: track.clone(),
            })
        });
        series.collect()
    }

    /// Takes kept series that the rules need, unless they are later than `now`.
    pub fn restore(&mut self, kept: Vec<KeptSeries>, now: f64) {
        for KeptSeries { family, labels, track } in kept {
            let family = FAMILIES.iter().find(|known| known.name == family);
            let needed = family.filter(|family| self.windows.contains_key(family.name));
            if let Some(family) = needed.filter(|_| track.seen <= now && track.is_consistent()) {
                self.families.entry(family.name).or_default().insert(labels, track);
                self.series += 1;
            }
        }
    }
}

impl Track {
    fn add(&mut self, now: f64, raw: Box<[f64]>, is_counter: bool, spacing: f64) {
        let Some(last) = self.points.back() else { return };
        if raw.len() != last.values.len() {
            *self = Track { points: [Point { at: now, values: raw.clone() }].into(), raw, seen: now };
            return;
        }
        let changed = |((new, old), value): ((&f64, &f64), &f64)| match is_counter {
            true => value + if new < old { *new } else { new - old },
            false => *new,
        };
        let values: Box<[f64]> = raw.iter().zip(&self.raw).zip(&last.values).map(changed).collect();
        if values != last.values {
            if self.seen - last.at > spacing {
                let unchanged = Point { at: self.seen, values: last.values.clone() };
                self.points.push_back(unchanged);
            }
            let count = self.points.len();
            if count > 1 && self.points[count - 1].at - self.points[count - 2].at < spacing {
                self.points.pop_back();
            }
            self.points.push_back(Point { at: now, values });
        }
        (self.raw, self.seen) = (raw, now);
    }

    fn values_at(&self, time: f64, is_steady: bool) -> Option<Box<[f64]>> {
        let after = self.points.partition_point(|point| point.at <= time);
        let before = self.points.get(after.checked_sub(1)?)?;
        match self.points.get(after).filter(|_| is_steady) {
            None => Some(before.values.clone()),
            Some(next) => {
                let part = (time - before.at) / (next.at - before.at);
                let between = before.values.iter().zip(&next.values).map(|(a, b)| a + (b - a) * part);
                Some(between.collect())
            }
        }
    }

    /// Whether a track from a file is one that this module would make.
    fn is_consistent(&self) -> bool {
        let length = self.raw.len();
        !self.points.is_empty()
            && length > 0
            && self.points.iter().all(|point| point.values.len() == length)
            && self.points.iter().is_sorted_by(|a, b| a.at < b.at)
    }
}

#[cfg(test)]
mod tests {
    use poolwright_monitor::family::{VDEV, VDEV_READ_ERRORS, VDEV_READS};

    use super::*;
    use crate::condition::HOUR;
    use crate::table;

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
        assert!(history.families["poolwright_vdev_read_errors_total"][labels().as_slice()].points.len() <= 2);
    }

    #[test]
    fn a_busy_counter_keeps_few_points() {
        let mut history = History::new(table::rules());
        for second in 0..8000 {
            observe(&mut history, f64::from(second), f64::from(second));
        }
        let points = history.families["poolwright_vdev_read_errors_total"][labels().as_slice()].points.len();
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
        assert!(third.families.is_empty());
    }
}
