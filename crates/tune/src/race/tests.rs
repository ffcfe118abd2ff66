//! Races of settings whose true cost is known.

use poolwright_replay::result::Replay;
use poolwright_trace::layout::Role;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::candidates::grid;
use crate::objective::Goal;
use crate::requirement::Requirement;

const BALANCED: Criteria<'static> = Criteria { goal: Goal::Balanced, requirements: &[] };
/// How far the figures of one setting differ on the virtual clock.
const NOISE: f64 = 0.003;
const MANY: usize = 1000;

/// A setting of the role `data`, whose other properties are the defaults.
fn setting(recordsize: &str, changes: &[(&str, &str)]) -> Settings {
    let base =
        [("recordsize", recordsize), ("compression", "lz4"), ("logbias", "latency"), ("primarycache", "all")];
    base.iter().chain(changes).map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

/// The true cost of a setting: 16K is best, zstd-1 costs 10 % less than lz4, and other codecs 10 % more.
fn cost(settings: &Settings) -> f64 {
    let (recordsize, codec) = block_size_and_compression(settings);
    let codec = match codec {
        "zstd-1" => 0.9,
        "lz4" => 1.0,
        _ => 1.1,
    };
    (1.0 + 0.3 * (recordsize as f64 / 16384.0).log2().abs()) * codec
}

/// A trial whose work rate and bytes written follow this cost.
fn replay(cost: f64, clock: f64) -> poolwright_replay::Result<Replay> {
    Ok(Replay {
        ops: 1000,
        allocated_bytes: 1_000_000,
        logical_bytes: 2_000_000,
        work_rate: Some(1.0 / (cost * clock)),
        write_amplification: Some(cost),
        ..Replay::default()
    })
}

/// Runs trials of settings with this cost one after the other, and keeps them in `tried`.
fn trials_of<'t>(
    cost: impl Fn(&Settings) -> f64 + 't,
    seed: u64,
    tried: &'t mut Vec<Settings>,
) -> impl FnMut(&[Settings]) -> Vec<poolwright_replay::Result<Replay>> + 't {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    move |settings| {
        tried.extend(settings.iter().cloned());
        let mut one = |settings: &Settings| {
            let clock = (NOISE * (rng.random::<f64>() - 0.5) * 2.0).exp();
            replay(cost(settings), clock)
        };
        settings.iter().map(&mut one).collect()
    }
}

fn limits(batches: usize) -> Limits {
    Limits { batches, side_by_side: 1 }
}

fn candidates() -> Candidates {
    grid(Role::Data).candidates(0, 16 << 10)
}

/// Races from today's setting, and returns the outcome with the settings that were tried.
fn race_from(today: Settings, cost: impl Fn(&Settings) -> f64, seed: u64) -> (Outcome, Vec<Settings>) {
    let mut tried = Vec::new();
    let mut run = trials_of(cost, seed, &mut tried);
    let mut race = Race { run: &mut run, criteria: BALANCED, limits: limits(MANY) };
    let o = race.race(Runner::new(today), &candidates()).unwrap();
    drop(run);
    (o, tried)
}

fn best(o: &Outcome) -> &Settings {
    &o.others[o.best.expect("a better setting was found")].settings
}

#[test]
fn the_best_is_found_from_any_start() {
    for today in ["4K", "16K", "128K", "1M"] {
        for seed in 0..5 {
            let (o, tried) = race_from(setting(today, &[]), cost, seed);
            assert!(same(best(&o), &setting("16K", &[("compression", "zstd-1")])), "{today}: {:?}", best(&o));
            assert!(o.is_better(0.03) && o.pairs.len() == PAIRS as usize && o.ended == Ended::Found);
            assert_eq!(o.batches, tried.len());
            assert!(tried.len() <= batches(&candidates(), 1), "{today}: {} trials", tried.len());
            for size in ["4K", "8K", "16K", "32K", "64K"] {
                assert!(tried.iter().any(|s| s["recordsize"] == size), "{size} was not tried");
            }
            let of_1m = tried.iter().filter(|s| s["recordsize"] == "1M").count();
            assert_eq!(of_1m > 0, today == "1M", "1M is beyond two that are much worse");
        }
    }
}

#[test]
fn trials_at_the_same_time_find_the_same_setting() {
    for side_by_side in [2, 3, 8] {
        let (mut tried, mut most) = (Vec::new(), 0);
        let mut one_by_one = trials_of(cost, 7, &mut tried);
        let mut run = |settings: &[Settings]| {
            most = most.max(settings.len());
            one_by_one(settings)
        };
        let limits = Limits { side_by_side, ..limits(MANY) };
        let mut race = Race { run: &mut run, criteria: BALANCED, limits };
        let o = race.race(Runner::new(setting("128K", &[])), &candidates()).unwrap();
        assert!(same(best(&o), &setting("16K", &[("compression", "zstd-1")])), "{:?}", best(&o));
        assert_eq!(most, side_by_side);
    }
}

#[test]
fn nothing_is_recommended_if_today_is_best_or_all_are_equal() {
    for seed in 0..20 {
        let (o, _) = race_from(setting("16K", &[("compression", "zstd-1")]), cost, seed);
        assert_eq!(o.best, None);
        let (o, _) = race_from(setting("128K", &[]), |_| 1.0, seed);
        assert!(!o.is_better(0.03), "{:?}", o.change);
    }
}

#[test]
fn the_codec_decides_between_record_sizes() {
    // With lz4, 64K is a little better than 16K; with zstd-1, 16K is much better.
    let cost = |settings: &Settings| match (settings["recordsize"].as_str(), settings["compression"].as_str())
    {
        ("64K", "lz4") => 0.9,
        ("16K", "lz4") => 0.92,
        ("16K", "zstd-1") => 0.6,
        _ => 1.0,
    };
    let (o, _) = race_from(setting("128K", &[]), cost, 3);
    assert!(same(best(&o), &setting("16K", &[("compression", "zstd-1")])), "{:?}", best(&o));
}

#[test]
fn a_property_counts_only_if_it_brings_three_per_cent() {
    let with_logbias = |factor: f64| {
        move |settings: &Settings| {
            cost(settings) * if settings["logbias"] == "throughput" { factor } else { 1.0 }
        }
    };
    let (o, _) = race_from(setting("128K", &[]), with_logbias(0.8), 1);
    assert_eq!(best(&o)["logbias"], "throughput");
    let (o, _) = race_from(setting("128K", &[]), with_logbias(0.98), 1);
    assert_eq!(best(&o)["logbias"], "latency");
}

#[test]
fn a_property_of_today_that_hides_the_best_record_size_is_found() {
    // Without the data in the ARC, all record sizes but the largest are bad.
    let cost = |settings: &Settings| match settings["primarycache"].as_str() {
        "all" => cost(settings),
        _ => 10.0 / block_size_and_compression(settings).0 as f64 * 1048576.0,
    };
    let (o, _) = race_from(setting("128K", &[("primarycache", "none")]), cost, 1);
    let wanted = setting("16K", &[("compression", "zstd-1")]);
    assert!(same(best(&o), &wanted), "{:?}", best(&o));
}

#[test]
fn a_change_that_brings_nothing_is_left_out() {
    // The record size hardly matters.
    let cost = |settings: &Settings| {
        let size = if settings["recordsize"] == "16K" { 0.992 } else { 1.0 };
        size * if settings["compression"] == "zstd-1" { 0.8 } else { 1.0 }
    };
    let (o, _) = race_from(setting("128K", &[]), cost, 2);
    assert!(same(best(&o), &setting("128K", &[("compression", "zstd-1")])), "{:?}", best(&o));
    if let Some(left_out) = &o.left_out {
        assert!(left_out.starts_with("recordsize=16K is left out"), "{left_out}");
    }
}

#[test]
fn a_race_ends_after_its_batches_and_confirms_what_it_has_found() {
    // At least: today's settings, another one, and the confirmation.
    for (batches, side_by_side, run) in
        [(0, 1, 6), (6, 1, 6), (7, 1, 7), (4, 2, 4), (6, 2, 6), (3, 8, 3), (4, 8, 4)]
    {
        let mut tried = Vec::new();
        let mut trials = trials_of(cost, 1, &mut tried);
        let mut race =
            Race { run: &mut trials, criteria: BALANCED, limits: Limits { batches, side_by_side } };
        let o = race.race(Runner::new(setting("128K", &[])), &candidates()).unwrap();
        assert_eq!(
            (o.ended, o.pairs.len(), o.batches),
            (Ended::OutOfTrials, PAIRS as usize, run),
            "{batches} of {side_by_side}"
        );
        assert_eq!(best(&o)["recordsize"], "16K", "the record size of the requests is tried first");
    }
}

#[test]
fn a_failing_setting_is_dropped_and_a_failing_today_is_an_error() {
    let mut run = |settings: &[Settings]| {
        let one = |settings: &Settings| match settings["recordsize"].as_str() {
            "16K" => Err(poolwright_replay::Error::Nothing("out of order".into())),
            _ => replay(cost(settings), 1.0),
        };
        settings.iter().map(one).collect()
    };
    let mut race = Race { run: &mut run, criteria: BALANCED, limits: limits(MANY) };
    let o = race.race(Runner::new(setting("128K", &[])), &candidates()).unwrap();
    assert!(["8K", "32K"].contains(&best(&o)["recordsize"].as_str()), "{:?}", best(&o));
    let failed = o.others.iter().find(|r| r.settings["recordsize"] == "16K").unwrap();
    assert_eq!(failed.failures, ["out of order"]);
    let error = race.race(Runner::new(setting("16K", &[])), &candidates()).unwrap_err().to_string();
    assert!(error.contains("out of order"), "{error}");
}

#[test]
fn a_setting_that_misses_a_requirement_is_not_the_best() {
    // 16K is fastest, but writes three times as much.
    let requirements = [Requirement::parse("write_bytes<=0%").unwrap()];
    let criteria = Criteria { goal: Goal::Balanced, requirements: &requirements };
    let mut run = |settings: &[Settings]| {
        let one = |settings: &Settings| {
            let written = if settings["recordsize"] == "16K" { 3000 } else { 900 };
            let mut replay = replay(cost(settings), 1.0)?;
            replay.vdev.write_bytes = written;
            Ok(replay)
        };
        settings.iter().map(one).collect()
    };
    let mut race = Race { run: &mut run, criteria, limits: limits(MANY) };
    let o = race.race(Runner::new(setting("128K", &[])), &candidates()).unwrap();
    assert!(["8K", "32K"].contains(&best(&o)["recordsize"].as_str()), "{:?}", best(&o));
}
