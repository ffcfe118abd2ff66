//! Published figures: the hit ratios of LRU and of the textbook ARC on the traces of the ARC paper.

use std::path::{Path, PathBuf};

use crate::common::textbook;
use poolwright_mrc::input::{self, Select};
use poolwright_mrc::{Curve, RecordMap, Sweep};

/// A page of a `.lis` trace.
const PAGE: u64 = 512;

/// Pages, and the hit ratios of LRU and of ARC in per cent, from libcachesim 0.3.5 (`scripts/mrc/compare.sh`).
const OLTP: [(u64, f64, f64); 5] = [
    (1000, 32.83, 38.95),
    (2000, 42.47, 46.08),
    (5000, 53.65, 55.25),
    (10000, 60.70, 61.87),
    (15000, 64.63, 65.40),
];

/// A trace of the paper, if it is available.
fn trace(name: &str) -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let shared = std::env::var_os("POOLWRIGHT_SHARED").map_or(beside, PathBuf::from);
    let path = shared.join(format!("data/arc-{name}.lis.zst"));
    if !path.exists() {
        println!("skipped: {name}: there is no {}", path.display());
        return None;
    }
    Some(path)
}

/// The curves of LRU and ARC at these sizes.
fn curves(path: &Path, sizes: &[u64]) -> Vec<Curve> {
    let mut input = input::open(path, None, &Select::default()).unwrap();
    let mut sweep = Sweep::default();
    sweep.add(textbook(RecordMap::of(input.unit(), None).unwrap(), sizes));
    sweep.show(input.as_mut(), |_| true).unwrap();
    sweep.curves()
}

#[test]
fn oltp_gives_the_published_figures() {
    let Some(path) = trace("OLTP") else { return };
    let curves = curves(&path, &OLTP.map(|(pages, ..)| pages * PAGE));
    assert_eq!(curves.iter().map(|curve| curve.model.as_str()).collect::<Vec<_>>(), ["lru", "arc"]);
    for (curve, of) in curves.iter().zip(0..) {
        assert_eq!((curve.requests, curve.records), (914_145, 186_880));
        for (point, known) in curve.points.iter().zip(OLTP) {
            let (hits, expected) = (100.0 * (1.0 - point.miss_ratio), [known.1, known.2][of]);
            assert!((hits - expected).abs() <= 0.005, "{} of {} pages: {hits}", curve.model, known.0);
        }
    }
}
