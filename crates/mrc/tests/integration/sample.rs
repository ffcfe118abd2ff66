//! Sampled curves compared with exact ones: identical at a rate of 1, and within the confidence interval below it.

use crate::common::{Makers, TEXTBOOK, extent, families};
use poolwright_mrc::input::Unit;
use poolwright_mrc::openzfs::{MIN_SAMPLED, OpenZfs, Options};
use poolwright_mrc::sample::Amount;
use poolwright_mrc::{Access, Curve, Extent, Key, Kind, Model, Pipeline, RecordMap, RecordStream, Run};
use proptest::prelude::*;
use rand::SeedableRng as _;
use rand::distr::Distribution as _;
use rand::distr::weighted::WeightedIndex;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

const SEEDS: u64 = 100;
/// The number of seeds, of a hundred, for which the interval must contain the exact miss ratio.
const INSIDE: usize = 95;

fn openzfs(sizes: &[u64], rate: f64) -> Vec<Box<dyn Model>> {
    let model = |&size: &u64| {
        let options = Options { mintime_ms: 0, ..Options::new(size, 8192) };
        Box::new(OpenZfs::new(options.sampled(rate))) as Box<dyn Model>
    };
    sizes.iter().map(model).collect()
}

const OPENZFS: Makers = &[("openzfs", openzfs)];

fn exact(makers: Makers, unit: Unit, extents: &[Extent], sizes: &[u64]) -> Vec<Curve> {
    let mut stream = RecordStream::new(unit, None).unwrap();
    let mut run = Run::default();
    for (name, models) in makers {
        run.add(name, models(sizes, 1.0));
    }
    let show = |accesses: &[Access], keys: &[Key]| {
        run.feed(accesses, keys);
        Ok(())
    };
    stream.each(extents, show).unwrap();
    run.curves(stream.recordsize(), stream.keys().len() as u64)
}

fn sampled(
    makers: Makers,
    unit: Unit,
    extents: &[Extent],
    sizes: &[u64],
    amount: Amount,
    seed: u64,
) -> Vec<Curve> {
    let record_map = RecordMap::of(unit, None).unwrap();
    let mut sampled = Pipeline::new(record_map, amount, seed, families(makers, sizes)).unwrap();
    extents.chunks(50_000).for_each(|chunk| sampled.feed(chunk).unwrap());
    sampled.flush().unwrap();
    sampled.curves()
}

/// Requests for records of `bytes` whose popularity follows Zipf's law, with this skew.
struct Popular {
    records: u64,
    requests: u64,
    skew: f64,
    bytes: u64,
    /// Share of the requests that belong to scans of 2000 records.
    scan: f64,
    /// Share of the requests that write.
    write: f64,
}

const POPULAR: Popular =
    Popular { records: 50_000, requests: 400_000, skew: 0.9, bytes: 512, scan: 0.0, write: 0.0 };

impl Popular {
    fn extents(&self) -> Vec<Extent> {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let mut places: Vec<u64> = (0..self.records).collect();
        places.shuffle(&mut rng);
        let rank = WeightedIndex::new((1..=self.records).map(|k| (k as f64).powf(-self.skew))).unwrap();
        let (mut scanned, mut start) = (0, 0);
        let extent = |n: u64| {
            let mut place = places[rank.sample(&mut rng)];
            if rng.random_bool(self.scan) {
                if scanned % 2000 == 0 {
                    start = rng.random_range(0..self.records);
                }
                place = (start + scanned % 2000) % self.records;
                scanned += 1;
            }
            let kind = if rng.random_bool(self.write) { Kind::Write } else { Kind::Read };
            Extent { t_ns: n * 1_000_000, file: 0, offset: place * self.bytes, len: self.bytes, kind }
        };
        (0..self.requests).map(extent).collect()
    }
}

/// All records in turn, again and again.
fn repeated(records: u64, requests: u64, bytes: u64) -> Vec<Extent> {
    (0..requests).map(|n| extent(0, 0, n % records * bytes, bytes)).collect()
}

fn unit(recordsize: u64) -> Unit {
    Unit::Bytes { recordsize }
}

/// About `count` sizes from `first` to `last` in a geometric progression.
fn sizes(first: u64, last: u64, count: u32) -> Vec<u64> {
    let step = (last as f64 / first as f64).powf(1.0 / f64::from(count - 1));
    (0..count).map(|n| (first as f64 * step.powi(n as i32)).round() as u64).collect()
}

/// Compares the intervals of a hundred samples with the exact curve, separately for every size.
fn check(makers: Makers, name: &str, (unit, extents): (Unit, Vec<Extent>), rate: f64, sizes: &[u64]) {
    let truth = exact(makers, unit, &extents, sizes);
    let mut inside = vec![vec![0usize; sizes.len()]; truth.len()];
    let mut widths = vec![vec![Vec::new(); sizes.len()]; truth.len()];
    let mut means = vec![vec![0.0; sizes.len()]; truth.len()];
    for seed in 0..SEEDS {
        for (model, sampled) in
            sampled(makers, unit, &extents, sizes, Amount::Rate(rate), seed).iter().enumerate()
        {
            assert_eq!(sampled.requests, truth[model].requests);
            let unsupported_sizes = &sampled.sample.as_ref().unwrap().unsupported_sizes;
            assert!(unsupported_sizes.is_empty(), "{name}: {unsupported_sizes:?}");
            for (size, point) in sampled.points.iter().enumerate() {
                let confidence = point.confidence.unwrap();
                assert!(
                    confidence.low <= point.miss_ratio && point.miss_ratio <= confidence.high,
                    "{point:?}"
                );
                let exact = truth[model].points[size].miss_ratio;
                inside[model][size] += usize::from(confidence.low <= exact && exact <= confidence.high);
                means[model][size] += point.miss_ratio;
                widths[model][size].push(100.0 * (confidence.high - confidence.low));
            }
        }
    }
    for (model, curve) in truth.iter().enumerate() {
        for (size, point) in curve.points.iter().enumerate() {
            let width = &mut widths[model][size];
            width.sort_by(f64::total_cmp);
            let inside = inside[model][size];
            println!(
                "{name} {} {} bytes: exact {:.2} % mean {:.2} %, inside {inside} of {SEEDS}, median width {:.2}",
                curve.model,
                point.cache_bytes,
                100.0 * point.miss_ratio,
                means[model][size] * 100.0 / SEEDS as f64,
                width[width.len() / 2]
            );
            assert!(inside >= INSIDE, "{name} {} {}: inside {inside}", curve.model, point.cache_bytes);
        }
    }
}

#[test]
fn a_hundred_seeds_of_popular_records() {
    let popular = POPULAR;
    check(TEXTBOOK, "zipf", (unit(512), popular.extents()), 0.05, &sizes(512 * 400, 512 * 50_000, 6));
}

#[test]
fn a_hundred_seeds_of_scans_among_popular_records() {
    let popular = Popular { skew: 1.0, bytes: 8192, scan: 0.3, ..POPULAR };
    check(TEXTBOOK, "scan", (unit(8192), popular.extents()), 0.05, &sizes(8192 * 400, 8192 * 50_000, 6));
}

#[test]
fn a_hundred_seeds_of_a_loop() {
    let trace = (unit(4096), repeated(20_000, 400_000, 4096));
    check(TEXTBOOK, "loop", trace, 0.05, &[400, 4_000, 15_000, 19_000, 20_000, 24_000].map(|n| n * 4096));
}

#[test]
fn a_hundred_seeds_of_objects_of_unequal_sizes() {
    let popular = Popular { skew: 0.8, scan: 0.1, ..POPULAR };
    let mut extents = popular.extents();
    for extent in &mut extents {
        let id = extent.offset / 512;
        // From 100 bytes up to 16 times that; large objects are rare.
        (extent.offset, extent.len) = (id, 100 << [0, 0, 0, 1, 1, 2, 3, 4][id as usize % 8]);
    }
    check(TEXTBOOK, "objects", (Unit::Objects, extents), 0.05, &sizes(1000 * 400, 437 * 50_000, 6));
}

#[test]
fn a_hundred_seeds_of_the_arc_of_openzfs() {
    let popular =
        Popular { records: 30_000, requests: 200_000, bytes: 8192, scan: 0.1, write: 0.2, ..POPULAR };
    check(OPENZFS, "openzfs", (unit(8192), popular.extents()), 0.2, &sizes(5 * MIN_SAMPLED, 240 << 20, 4));
}

#[test]
fn a_hundred_seeds_of_a_loop_in_the_arc_of_openzfs() {
    let records = 30_000;
    let trace = (unit(8192), repeated(records, 300_000, 8192));
    let sizes =
        [0.8, 0.9, 0.95, 0.96, 0.97, 0.98, 1.0, 1.2].map(|share| (8192.0 * share * records as f64) as u64);
    check(OPENZFS, "loop", trace, 0.1, &sizes);
}

#[test]
fn a_memory_limit_selects_the_largest_rate_that_fits() {
    let popular = Popular { records: 1_000_000, requests: 2_000_000, skew: 0.6, write: 0.2, ..POPULAR };
    let (unit, extents) = (unit(512), popular.extents());
    let sizes = sizes(512 * 2_000, 512 * 200_000, 5);
    let plenty = sampled(TEXTBOOK, unit, &extents, &sizes, Amount::Memory(1 << 30), 4);
    assert_eq!(plenty, exact(TEXTBOOK, unit, &extents, &sizes));

    let little = sampled(TEXTBOOK, unit, &extents, &sizes, Amount::Memory(64 << 20), 4);
    let rate = little[0].sample.as_ref().unwrap().rate;
    assert!(rate < 1.0 && rate > 0.001, "{rate}");
    assert_eq!(little, sampled(TEXTBOOK, unit, &extents, &sizes, Amount::Rate(rate), 4));
}

#[test]
fn sizes_without_enough_records_are_reported() {
    let popular = Popular { records: 100_000, requests: 200_000, ..POPULAR };
    let (unit, extents) = (unit(512), popular.extents());
    let sizes = [512 * 100, 512 * 10_000];
    let lru = sampled(TEXTBOOK, unit, &extents, &sizes, Amount::Rate(0.02), 1).swap_remove(0);
    assert_eq!(lru.points.iter().map(|point| point.cache_bytes).collect::<Vec<_>>(), [512 * 10_000]);
    let unsupported_sizes = lru.sample.unwrap().unsupported_sizes;
    assert_eq!((unsupported_sizes.len(), unsupported_sizes[0].cache_bytes), (1, 512 * 100));
    assert!((unsupported_sizes[0].needs_rate - 0.06).abs() < 1e-9, "{unsupported_sizes:?}");
    for rate in [0.001, 1e-9] {
        let tiny = sampled(TEXTBOOK, unit, &extents, &sizes, Amount::Rate(rate), 1).swap_remove(0);
        assert!(tiny.points.is_empty() && tiny.sample.unwrap().unsupported_sizes.len() == 2);
    }
    let refused =
        |amount| Pipeline::new(RecordMap::objects(), amount, 1, Vec::new()).unwrap_err().to_string();
    for rate in [0.0, -1.0, 1.1, f64::NAN] {
        assert!(refused(Amount::Rate(rate)).starts_with("the sampling rate is "));
    }
    assert_eq!(refused(Amount::Memory(1000)), "a sample needs at least 64M of memory, not 1000 bytes");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_rate_of_one_is_exact(runs in proptest::collection::vec((0..3u32, 0..200u64, 1..3_000u64, 0..8u8), 1..200)) {
        let extent = |(file, record, len, kind): (u32, u64, u64, u8)| Extent {
            t_ns: 0,
            file,
            offset: record * 512,
            len,
            kind: match kind {
                0 => Kind::Free,
                1..4 => Kind::Write,
                _ => Kind::Read,
            },
        };
        let extents: Vec<Extent> = runs.into_iter().map(extent).collect();
        let unit = Unit::Bytes { recordsize: 1024 };
        let sizes = [1 << 10, 10 << 10, 100 << 10];
        for amount in [Amount::Rate(1.0), Amount::Memory(1 << 30)] {
            let curves = sampled(TEXTBOOK, unit, &extents, &sizes, amount, 9);
            prop_assert_eq!(curves, exact(TEXTBOOK, unit, &extents, &sizes));
        }
    }
}
