use super::*;
use crate::{Confidence, Point};

fn point(cache_bytes: u64, miss_ratio: f64) -> Point {
    Point { cache_bytes, miss_ratio, update_miss_ratio: 0.0, write_miss_ratio: 0.0, confidence: None }
}

/// `records` is small, so that a curve which ends above it has not settled.
fn curve(points: Vec<Point>) -> Curve {
    Curve {
        model: "lru".into(),
        recordsize: Some(8192),
        requests: 1_000_000,
        records: 100_000,
        points,
        sample: None,
    }
}

fn gib(points: &[(u64, f64)]) -> Curve {
    curve(points.iter().map(|(g, miss)| point(g * GIB, *miss)).collect())
}

/// A cache of 8 GiB holds nearly all reused records; the rest are first accesses.
fn bent() -> Curve {
    gib(&[(1, 0.9), (2, 0.7), (4, 0.4), (8, 0.15), (16, 0.12), (32, 0.1), (64, 0.1)])
}

const DISK: Given =
    Given { seconds: Some(100.0), miss_latency_ns: Some(8_000_000), footprint_bytes: None, host: NO_HOST };
const NO_HOST: Host = Host { arc_max_bytes: None, arc_bytes: None, memory_bytes: None };

#[test]
fn the_knee_is_where_it_bends() {
    let advice = advise(&bent(), &DISK);
    assert_eq!(advice.knee, Some(Knee { cache_bytes: 8 * GIB, read_ratio: 0.15 }));
    let enough = advice.enough.unwrap();
    assert_eq!((enough.cache_bytes, enough.best_read_ratio), (32 * GIB, 0.1));
    assert_eq!(advice.notes, Vec::<String>::new());
}

#[test]
fn the_knee_does_not_depend_on_needlessly_large_sizes() {
    let mut long = bent();
    long.points.extend([128, 256, 1024, 4096].map(|g| point(g * GIB, 0.1)));
    assert_eq!(advise(&long, &DISK).knee, advise(&bent(), &DISK).knee);
}

#[test]
fn the_knee_is_after_a_cliff() {
    // A loop over 8 GiB: LRU has no hit until the whole loop fits.
    let cliff = gib(&[(1, 1.0), (2, 0.99), (4, 0.98), (7, 0.97), (8, 0.13), (16, 0.11), (32, 0.1)]);
    assert_eq!(advise(&cliff, &DISK).knee.unwrap().cache_bytes, 8 * GIB);
}

#[test]
fn curves_without_a_bend_have_a_reason() {
    let why = |c: &Curve| {
        let advice = advise(c, &DISK);
        assert_eq!(advice.knee, None);
        advice.notes.join("; ")
    };
    let straight: Vec<(u64, f64)> = (1..=9).map(|g| (g, 1.0 - 0.1 * g as f64)).collect();
    assert!(why(&gib(&straight)).contains("straight"));
    assert!(why(&gib(&[(1, 0.205), (2, 0.203), (4, 0.2), (8, 0.2)])).contains("flat"));
    assert!(why(&gib(&[(1, 0.9), (2, 0.1)])).contains("fewer than three"));
    assert!(why(&gib(&[])).contains("fewer than three"));
    let mut vague = bent();
    for p in &mut vague.points {
        p.confidence = Some(Confidence { low: p.miss_ratio - 0.45, high: p.miss_ratio + 0.45 });
    }
    assert!(why(&vague).contains("sample"));
}

#[test]
fn a_curve_that_still_falls_has_no_sufficient_size() {
    let enough = |points: &[(u64, f64)]| advise(&gib(points), &DISK).enough.map(|e| e.cache_bytes / GIB);
    assert_eq!(enough(&[(1, 0.9)]), None, "one size says nothing of others");
    assert_eq!(enough(&[(1, 0.9), (2, 0.7)]), None);
    assert_eq!(enough(&[(1, 0.9), (2, 0.7), (4, 0.69)]), Some(2));
    // With 100,000 records in 1,000,000 requests no cache has fewer misses.
    assert_eq!(enough(&[(1, 0.9), (2, 0.1)]), Some(2));
    assert_eq!(enough(&[(1, 0.1)]), Some(1));
}

#[test]
fn a_gigabyte_is_worth_what_it_saves() {
    let advice = advise(&bent(), &DISK);
    assert_eq!(advice.step_bytes, GIB);
    let first = advice.steps[0];
    assert_eq!((first.from_bytes, first.to_bytes, first.verdict), (GIB, 2 * GIB, StepVerdict::Saves));
    // 0.2 of 10,000 requests a second, 8 ms each.
    assert!((first.reads_s.unwrap().value - 2_000.0).abs() < 1e-6);
    assert!((first.wait_ms_s.unwrap().value - 16_000.0).abs() < 1e-6);
    // A quarter of the way from 4 to 8 GiB.
    assert!((advice.steps[2].reads.value - 0.0625).abs() < 1e-9);
    assert_eq!(advice.steps[5].verdict, StepVerdict::Nothing);
    assert_eq!(advice.steps.len(), 6);
}

#[test]
fn a_small_curve_has_a_small_step() {
    let small = curve((1..=17).map(|n| point(n << 20, 0.5 / n as f64)).collect());
    assert_eq!(advise(&small, &DISK).step_bytes, 2 << 20);
    assert_eq!(advise(&curve(vec![point(5, 0.5)]), &DISK).step_bytes, 1);
}

#[test]
fn confidence_intervals_are_propagated() {
    let mut sampled = bent();
    for p in &mut sampled.points {
        p.confidence = Some(Confidence { low: p.miss_ratio - 0.02, high: p.miss_ratio + 0.02 });
    }
    let advice = advise(&sampled, &DISK);
    let first = advice.steps[0].reads_s.unwrap();
    assert!((first.low - 1_600.0).abs() < 1e-6 && (first.high - 2_400.0).abs() < 1e-6, "{first:?}");
    // From 8 to 9 GiB the saving is 0.00375: less than the intervals.
    assert_eq!(advice.steps[3].verdict, StepVerdict::NoDifference);
    assert_eq!(advice.knee.unwrap().cache_bytes, 8 * GIB);
}

#[test]
fn todays_arc_is_interpolated_within_the_curve() {
    let at = |g: u64, c: &Curve| {
        let host = Host { arc_max_bytes: Some(g * GIB), ..NO_HOST };
        advise(c, &Given { host, ..DISK }).today.unwrap()
    };
    let three = at(3, &bent());
    assert!((three.read_ratio.unwrap() - 0.55).abs() < 1e-9);
    assert!((three.reads.value - 0.15).abs() < 1e-9);
    // All reused records fit, so more memory saves nothing.
    assert_eq!((at(200, &bent()).verdict, at(200, &bent()).read_ratio), (StepVerdict::Nothing, Some(0.1)));
    assert_eq!(at(0, &bent()).verdict, StepVerdict::Unknown);
    let cut = gib(&[(1, 0.9), (2, 0.7), (4, 0.4)]);
    assert_eq!(at(4, &cut).verdict, StepVerdict::Unknown);
    assert_eq!(at(200, &cut).verdict, StepVerdict::Unknown);
    let into_the_end = at(3, &cut);
    assert_eq!((into_the_end.to_bytes, into_the_end.verdict), (4 * GIB, StepVerdict::Saves));
    let host = Host { arc_max_bytes: Some(4 * GIB), ..NO_HOST };
    let full = advise(&cut, &Given { host, footprint_bytes: Some(4 * GIB), ..DISK });
    assert_eq!(full.today.unwrap().verdict, StepVerdict::Nothing);
}

#[test]
fn whole_writes_read_nothing() {
    let mut writes = bent();
    for p in &mut writes.points {
        p.write_miss_ratio = p.miss_ratio;
    }
    let advice = advise(&writes, &DISK);
    assert!(advice.steps.iter().all(|s| s.verdict == StepVerdict::Nothing));
    assert!(advice.notes[0].contains("flat"));
}

#[test]
fn unknown_facts_are_left_out() {
    let timeless = advise(&bent(), &Given { seconds: None, ..DISK });
    assert!(timeless.steps.iter().all(|s| s.reads_s.is_none() && s.wait_ms_s.is_none()));
    assert!(timeless.notes[0].contains("no time"));
    let iops_only = advise(&bent(), &Given { miss_latency_ns: None, ..DISK });
    assert!(iops_only.steps.iter().all(|s| s.reads_s.is_some() && s.wait_ms_s.is_none()));
    assert_eq!(iops_only.today, None);
}

#[test]
fn advice_survives_serialization() {
    let host = Host { arc_max_bytes: Some(3 * GIB), ..NO_HOST };
    let advice = advise(&bent(), &Given { host, ..DISK });
    let text = serde_json::to_string(&advice).unwrap();
    assert_eq!(serde_json::from_str::<Advice>(&text).unwrap(), advice);
}
