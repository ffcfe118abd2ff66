//! Makes samples from the readings of the sources.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Instant;

use crate::family::{
    ARC, ARC_ACCESS, ARC_STATE, DATASET, MOUNT, MOUNT_OP, PLAN, PLAN_PROMISE, PLAN_PROPERTY, PLAN_ROLE, POOL,
    POOL_STATE, VDEV, VDEV_PLACE, VDEV_STATE,
};
use crate::source::SourceName;
use crate::{FamilyType, Readings, Resource, ResourceType, SourceReadings};

use super::{Figure, MonitorSample, SampledResource, SourceState};

/// The types that the tabs show. Other resources are skipped, because there may be many.
static SHOWN: [&ResourceType; 15] = [
    &POOL,
    &POOL_STATE,
    &VDEV,
    &VDEV_STATE,
    &VDEV_PLACE,
    &DATASET,
    &MOUNT,
    &MOUNT_OP,
    &ARC,
    &ARC_ACCESS,
    &ARC_STATE,
    &PLAN,
    &PLAN_ROLE,
    &PLAN_PROPERTY,
    &PLAN_PROMISE,
];

/// Identifies a resource: the name of its type, and its labels.
type ResourceKey<'a> = (&'static str, &'a [Arc<str>]);

/// The last two readings of a source that differ, each with its time.
#[derive(Debug)]
struct LastReads {
    current: (Arc<Readings>, Instant),
    previous: Option<(Arc<Readings>, Instant)>,
}

/// Makes samples, and remembers the readings before the last ones for rates.
#[derive(Debug, Default)]
pub struct MonitorSampler {
    reads: HashMap<SourceName, LastReads>,
}

impl MonitorSampler {
    /// Makes a sample of what [`crate::Poller::refresh`] returned at the time `now`.
    pub fn sample(&mut self, read: &[SourceReadings], now: Instant, unix_s: f64) -> MonitorSample {
        let sources: Vec<SourceState> = read.iter().map(|source| SourceState::new(source, now)).collect();
        self.remember(read, now);
        let mut merged = Merged::default();
        for state in &sources {
            if let Some(reads) = self.reads.get(&state.last.name) {
                merged.add(reads, state.is_down(now));
            }
        }
        MonitorSample { taken: now, unix_s, sources, resources: merged.resources }
    }

    /// Keeps the readings of the sources that still exist.
    fn remember(&mut self, read: &[SourceReadings], now: Instant) {
        let mut old = std::mem::take(&mut self.reads);
        for source in read {
            let (Some(readings), Some(age)) = (&source.readings, source.age) else { continue };
            let Some(at) = now.checked_sub(age) else { continue };
            let reads = match old.remove(&source.name) {
                Some(reads) if Arc::ptr_eq(&reads.current.0, readings) => reads,
                Some(reads) => {
                    LastReads { current: (Arc::clone(readings), at), previous: Some(reads.current) }
                }
                None => LastReads { current: (Arc::clone(readings), at), previous: None },
            };
            self.reads.insert(source.name.clone(), reads);
        }
    }
}

/// The resources of all sources, each once.
#[derive(Default)]
struct Merged<'a> {
    resources: HashMap<&'static str, Vec<SampledResource>>,
    places: HashMap<ResourceKey<'a>, usize>,
}

impl<'a> Merged<'a> {
    /// Adds what a source has read; without rates if the source is down.
    fn add(&mut self, reads: &'a LastReads, is_down: bool) {
        let (readings, at) = &reads.current;
        let previous = reads.previous.as_ref().filter(|_| !is_down);
        let seconds = previous.map(|(_, before)| at.saturating_duration_since(*before).as_secs_f64());
        let before: HashMap<ResourceKey, &Resource> =
            previous.map(|(readings, _)| by_key(readings)).unwrap_or_default();
        for (index, resource) in readings.resources.iter().enumerate().filter(|(_, one)| is_shown(one)) {
            let key = (resource.of.name, &*resource.labels);
            let earlier = before.get(&key).copied().zip(seconds);
            let figures = figures(resource, earlier);
            let all = self.resources.entry(resource.of.name).or_default();
            match self.places.entry(key) {
                Entry::Occupied(place) => {
                    let known = &mut all[*place.get()];
                    known.figures.extend(figures);
                    known.read_at = known.read_at.min(*at);
                }
                Entry::Vacant(place) => {
                    place.insert(all.len());
                    let first = (Arc::clone(readings), index);
                    all.push(SampledResource { first, figures: figures.collect(), read_at: *at });
                }
            }
        }
    }
}

fn is_shown(resource: &Resource) -> bool {
    SHOWN.iter().any(|of| std::ptr::eq(*of, resource.of))
}

fn by_key(readings: &Readings) -> HashMap<ResourceKey<'_>, &Resource> {
    let shown = readings.resources.iter().filter(|resource| is_shown(resource));
    shown.map(|resource| ((resource.of.name, &*resource.labels), resource)).collect()
}

/// The metrics of a resource, with their rates since `earlier`: the same resource and the seconds since it was read.
fn figures<'a>(
    resource: &'a Resource,
    earlier: Option<(&'a Resource, f64)>,
) -> impl Iterator<Item = Figure> + 'a {
    resource.readings.iter().map(move |reading| {
        let counts = reading.family.kind == FamilyType::Counter;
        let rate = earlier.filter(|(_, seconds)| counts && *seconds > 0.0).and_then(|(before, seconds)| {
            let increase = reading.value - before.value(reading.family)?;
            (increase >= 0.0).then_some(increase / seconds)
        });
        Figure { family: reading.family, value: reading.value, rate }
    })
}

#[cfg(test)]
mod tests;
