//! A fictitious run: figures computed from formulas with seeded noise, similar to those of real campaigns. Every
//! title says that the figures are made up.

use std::collections::BTreeMap;
use std::path::Path;

use poolwright_lab::campaign::{Case, Study};
use poolwright_lab::order::cases;
use poolwright_lab::{Campaign, Measure, Outcome, PhaseOutcome, Run, Series, Trial, TrialKey};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

pub const TEXT: &str = include_str!("made-up.toml");

/// Returns the campaign, its run and the trials with the noise of `seed`.
pub fn run(seed: u64) -> (Campaign, Run, Vec<Trial>) {
    // As the campaign of a stored run: some of its questions choose among cases that differ in more than what they choose.
    let campaign = Campaign::parse_stored(Path::new("made-up.toml"), TEXT).expect("the campaign is sound");
    let machine =
        [("cpu", "<fast> & many, 2 cores"), ("host", "nowhere"), ("kernel", "Linux 6.12"), ("memory", "8G")];
    let run = Run {
        campaign: campaign.name.clone(),
        text: TEXT.to_owned(),
        scale: "small".into(),
        seed,
        target: "pool".into(),
        started: "2026-01-02T03:04:05Z".into(),
        machine: machine.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
    };
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut trials = Vec::new();
    for study in &campaign.studies {
        for block in 0..study.repeats {
            let drift = 1.0 + 0.05 * (rng.random::<f64>() - 0.5);
            for case in cases(study) {
                let position = trials.len() as u32;
                let outcome = outcome(study, &case, block, drift, &mut rng);
                let key = TrialKey { study: study.name.clone(), case, block };
                let started = format!("2026-01-02T03:{:02}:00Z", 4 + position % 50);
                trials.push(Trial { key, position, started, node: String::new(), outcome });
            }
        }
    }
    (campaign, run, trials)
}

fn outcome(
    study: &Study,
    case: &Case,
    block: u32,
    drift: f64,
    rng: &mut ChaCha8Rng,
) -> Result<Outcome, String> {
    let mut noise = |share: f64| drift * (1.0 + share * (rng.random::<f64>() - 0.5));
    let phase = match study.name.as_str() {
        "switch" => switch(case, &mut noise),
        "space" => space(case, &mut noise),
        _ if case["sync"] == "always" && block == 1 => {
            return Err(
                "running workloads/lab/files: <no space> left on /scratch; free 4G & start again".into()
            );
        }
        _ => calls(case, &mut noise),
    };
    let versions = [("openzfs", "2.3.2"), ("slapd", "2.6.10")];
    let versions = versions.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    Ok(Outcome { phases: vec![phase], seconds: 12.5 * noise(0.01), versions, pool: None })
}

fn measure(value: f64, unit: &str) -> Measure {
    Measure { value, unit: unit.into() }
}

fn measures<const N: usize>(all: [(&str, f64, &str); N]) -> BTreeMap<String, Measure> {
    all.into_iter().map(|(name, value, unit)| (name.to_owned(), measure(value, unit))).collect()
}

fn curve(unit: &str, seconds: u32, mut at: impl FnMut(f64) -> f64) -> Series {
    let points = (0..=seconds).map(|s| (f64::from(s), at(f64::from(s)))).collect();
    Series { unit: unit.into(), points }
}

/// An import that is slow until its data may be cached.
fn switch(case: &Case, noise: &mut impl FnMut(f64) -> f64) -> PhaseOutcome {
    let slow = case["primarycache"] == "none";
    let live = case["primarycache"] == "none, then all";
    let rate = move |t: f64| if slow || (live && t < 30.0) { 200.0 } else { 1000.0 };
    let mean = if live { 480.0 } else { rate(0.0) };
    let hit = move |t: f64| if rate(t) > 500.0 { 0.97 } else { 0.08 };
    let series = [
        ("rate", curve("1/s", 60, |t| rate(t) * noise(0.2))),
        ("recent_rate", curve("1/s", 60, |t| rate(t) * noise(0.05))),
        (
            "average_rate",
            curve("1/s", 60, |t| if live && t > 30.0 { 200.0 + (t - 30.0) * 9.0 } else { rate(t) }),
        ),
        ("arc_hit_ratio", curve("ratio", 60, |t| (hit(t) * noise(0.02)).min(1.0))),
        ("arc_size", curve("bytes", 60, |t| (64e6 + t * 8e6).min(512e6))),
        ("arc_target", curve("bytes", 60, |_| 512e6)),
        ("host_cpu", curve("percent", 60, |_| 71.0 * noise(0.3))),
        ("vdev_read_bytes", curve("bytes/s", 60, |t| if hit(t) < 0.5 { 90e6 } else { 2e6 } * noise(0.4))),
        ("vdev_write_bytes", curve("bytes/s", 60, |_| 12e6 * noise(0.9))),
        ("run_queue", curve("count", 60, |_| 2.0 * noise(0.9))),
        ("vdev_read_bytes.d0", curve("bytes/s", 60, |t| if hit(t) < 0.5 { 90e6 } else { 2e6 })),
    ];
    let mut phase = PhaseOutcome { name: "import".into(), measured: true, ..PhaseOutcome::default() };
    phase.series = series.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
    phase.measures = measures([
        ("entries_per_s", mean * noise(0.05), "1/s"),
        ("wall_s", 60_000.0 / mean * noise(0.05), "s"),
        ("arc_hit_ratio", hit(if live { 59.0 } else { 0.0 }) * 0.99, "ratio"),
        ("run_queue", 1.75 * noise(0.3), "count"),
        ("allocated", 1.5e9, "bytes"),
        ("import_p99", 1.2e9 / mean * noise(0.4), "ns"),
    ]);
    if live {
        phase.measures.insert("gained".into(), measure(5.0 * noise(0.02), "ratio"));
        phase.changes = vec![(30.0, "ldif: primarycache none → all".into())];
        let line =
            |t: u32| (f64::from(t), format!("Processed {} entries, recent rate {}/s </pre>", t * 200, 200));
        phase.log = (1..6).map(|n| line(n * 10)).collect();
    }
    phase
}

/// Time against space.
fn space(case: &Case, noise: &mut impl FnMut(f64) -> f64) -> PhaseOutcome {
    let (ratio, time): (f64, f64) = match case["compression"].as_str() {
        "off" => (1.0, 10.0),
        "lz4" => (1.8, 9.0),
        "zstd-3" => (2.6, 11.0),
        _ => (2.8, 40.0),
    };
    let small = case["recordsize"] == "16K";
    let ratio = if small { 1.0 + (ratio - 1.0) * 0.7 } else { ratio };
    let lost = case["sync"] == "disabled";
    let wall = time * if lost { 0.4 } else { 1.0 } * noise(0.06);
    let mut phase = PhaseOutcome { name: "copy".into(), measured: true, ..PhaseOutcome::default() };
    phase.measures = measures([
        ("wall_s", wall, "s"),
        ("host_cpu", 20.0 + time * noise(0.1), "percent"),
        ("allocated.db", (2e9_f64 / ratio).round(), "bytes"),
        ("ratio.db", ratio, "ratio"),
        ("vdev_write_bytes", 2e9 / ratio * noise(0.5), "bytes"),
    ]);
    phase
}

/// Sizes of calls, and a phase with failing trials.
fn calls(case: &Case, noise: &mut impl FnMut(f64) -> f64) -> PhaseOutcome {
    let always = if case["sync"] == "always" { 4.0 } else { 1.0 };
    let mut phase = PhaseOutcome { name: "run".into(), measured: true, ..PhaseOutcome::default() };
    phase.measures =
        measures([("wall_s", 5.0 * always * noise(0.5), "s"), ("flushes", 18_422.0 * always, "count")]);
    let write = vec![(512, 12), (4096, 9_000), (8192, 41_000), (131_072, 700)];
    let of = |buckets: &[(u64, u64)]| BTreeMap::from([("write".to_owned(), buckets.to_vec())]);
    let mut data = of(&write);
    data.insert("read".into(), vec![(4096, 30_000), (16_384, 2_500)]);
    phase.histograms =
        BTreeMap::from([("data".to_owned(), data), ("wal".to_owned(), of(&[(65_536, 5_000)]))]);
    phase
}
