//! Known figures: the hit ratios of LRU and of the textbook ARC on the traces of the ARC paper.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use poolwright_mrc::input::{self, Select};
use poolwright_mrc::lru::Lru;
use poolwright_mrc::run::{self, Run, Track};
use poolwright_mrc::{Lane, Model, arc::Arc};

/// A page of a `.lis` trace.
const PAGE: u64 = 512;

/// Pages, and the hits of LRU and of ARC in per cent, as libcachesim 0.3.5 has them (`scripts/mrc/compare.sh`).
const OLTP: [(u64, f64, f64); 5] = [
    (1000, 32.83, 38.95),
    (2000, 42.47, 46.08),
    (5000, 53.65, 55.25),
    (10000, 60.70, 61.87),
    (15000, 64.63, 65.40),
];

/// A trace of the paper, where the tests have been given it.
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

/// Shows a trace to LRU and ARC of these sizes.
fn run(path: &Path, sizes: &[u64]) -> Track {
    let mut input = input::open(path, None, &Select::default()).unwrap();
    let mut run = Run::new();
    run.add("lru", vec![Box::new(Lru::new(sizes))]);
    run.add("arc", sizes.iter().map(|size| Box::new(Arc::new(*size)) as Box<dyn Model>).collect());
    let mut tracks = [Track { lane: Lane::new(input.unit(), None).unwrap(), run }];
    run::drive(input.as_mut(), &mut tracks, |_, _| ControlFlow::Continue(())).unwrap();
    let [track] = tracks;
    track
}

#[test]
fn oltp_gives_the_figures_of_the_paper() {
    let Some(path) = trace("OLTP") else { return };
    let Track { lane, run } = run(&path, &OLTP.map(|(pages, ..)| pages * PAGE));
    assert_eq!((lane.requests(), lane.keys().len()), (914_145, 186_880));
    for (name, of) in [("lru", 0), ("arc", 1)] {
        for (counts, known) in run.counts(name).iter().zip(OLTP) {
            let hits = 100.0 * (1.0 - counts.miss_ratio());
            let known_hits = [known.1, known.2][of];
            assert!(
                (hits - known_hits).abs() <= 0.005,
                "{name} of {} pages: {hits}, not {known_hits}",
                known.0
            );
        }
    }
}
