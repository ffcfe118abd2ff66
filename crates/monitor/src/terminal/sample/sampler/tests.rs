use std::time::Duration;

use crate::family::*;

use super::*;
use crate::terminal::fixture::{EVERY, kernel_pool, samples, user_pool};
use crate::terminal::sample::Condition;

fn only<'a>(sample: &'a MonitorSample, kind: &ResourceType, label: &str, value: &str) -> &'a SampledResource {
    let mut found = sample.of(kind).iter().filter(|one| one.label(label) == value);
    let one = found.next().unwrap_or_else(|| panic!("no {} with {label}={value}", kind.name));
    assert!(found.next().is_none(), "several {} with {label}={value}", kind.name);
    one
}

#[test]
fn what_several_sources_read_of_a_resource_is_merged() {
    let sample = samples(&[kernel_pool(0)]);
    let pool = only(&sample, &POOL, "pool", "tank");
    assert_eq!(pool.value(&POOL_OPEN), Some(1.0), "from kernel-counters");
    assert_eq!(pool.value(&POOL_FRAGMENTATION), Some(0.01), "from kernel-status");
    let dataset = only(&sample, &DATASET, "dataset", "tank/db");
    assert!(dataset.value(&DATASET_READ_BYTES).is_some() && dataset.value(&DATASET_USED).is_some());
    let names: Vec<&str> = sample.of(&DATASET).iter().map(|one| one.label("dataset")).collect();
    assert_eq!(names, ["tank/db", "tank", "tank/home"], "in the order of the readings");
}

#[test]
fn rates_are_the_increase_between_two_readings() {
    let sample = samples(&[kernel_pool(0), kernel_pool(1)]);
    let vdev = only(&sample, &VDEV, "vdev", "/disk/a");
    assert_eq!(vdev.rate(&VDEV_READS), Some(20.0));
    assert_eq!(vdev.rate(&VDEV_READ_BYTES), Some(f64::from(2 << 20)));
    assert_eq!(vdev.rate(&VDEV_WRITES), Some(0.0));
    assert_eq!(only(&sample, &POOL, "pool", "tank").rate(&POOL_SIZE), None, "a gauge has no rate");
    let first = samples(&[kernel_pool(0)]);
    assert_eq!(only(&first, &VDEV, "vdev", "/disk/a").rate(&VDEV_READS), None, "only one reading");
    let restarted = samples(&[kernel_pool(5), kernel_pool(1)]);
    assert_eq!(only(&restarted, &VDEV, "vdev", "/disk/a").rate(&VDEV_READS), None, "the counter restarted");
}

#[test]
fn readings_that_have_not_changed_keep_their_rates() {
    // The sources' interval is longer than the time between samples: the second sample has the same readings, 2 s older.
    let (first, second) = (user_pool(0), user_pool(1));
    let mut again = second.clone();
    again.age = Some(EVERY);
    let sample = samples(&[vec![first], vec![second], vec![again]]);
    let vdev = only(&sample, &VDEV, "pool", "db");
    assert_eq!(vdev.rate(&VDEV_READS), Some(5.0));
    assert_eq!(sample.taken - vdev.read_at, EVERY);
}

#[test]
fn a_source_that_hangs_or_fails_has_values_but_no_rates() {
    let stale = |change: fn(&mut SourceReadings)| {
        let mut last = user_pool(1);
        change(&mut last);
        let sample = samples(&[vec![user_pool(0)], vec![user_pool(1)], vec![last]]);
        let vdev = only(&sample, &VDEV, "pool", "db");
        assert_eq!(vdev.value(&VDEV_READS), Some(10.0));
        (vdev.rate(&VDEV_READS), sample.sources[0].condition(sample.taken))
    };
    let hangs = stale(|source| source.overdue = Some(Duration::from_secs(7)));
    assert_eq!(hangs, (None, Condition::NoAnswer(Duration::from_secs(7))));
    let failed = stale(|source| source.error = Some("no".to_owned()));
    assert_eq!(failed, (None, Condition::Failed));
    // A read that has only begun has not failed. Its source has new readings, so the rate is 0.
    let slow = stale(|source| source.overdue = Some(Duration::from_secs(1)));
    assert_eq!(slow.1, Condition::Up);
}

#[test]
fn a_source_that_no_longer_exists_is_forgotten() {
    let sample = samples(&[vec![user_pool(0)], vec![], vec![user_pool(1)]]);
    assert_eq!(only(&sample, &VDEV, "pool", "db").rate(&VDEV_READS), None);
}
