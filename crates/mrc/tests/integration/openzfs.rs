//! The openzfs model compared with the engine, on generated accesses. `scripts/mrc/engine.sh` compares more traces.

#[path = "../../../devtools/src/bin/mrc-engine/child.rs"]
mod child;
#[path = "../../../devtools/src/bin/mrc-engine/compare.rs"]
mod compare;
#[path = "../../../devtools/src/bin/mrc-engine/ops.rs"]
mod ops;

use compare::{EngineCase, compare, scratch};

/// Maximum error in percentage points. It would be 1 on an idle machine. Beside other tests the engine's threads wait
/// for a processor, and a delayed eviction finds other blocks.
const BAR: f64 = 2.0;

/// The child process of the tests below, not a test.
#[test]
#[ignore = "started by the other tests"]
fn serve() {
    assert!(child::serve().unwrap(), "no job");
}

fn case(recordsize: u64, compression: &str) -> EngineCase {
    EngineCase {
        recordsize,
        compression: compression.into(),
        prefetch: "none".into(),
        primarycache: "all".into(),
        l2arc: 0,
        pace: 0,
        repeats: 1,
        sizes: vec![64 << 20, 96 << 20],
        verbose: false,
    }
}

fn agree(updates: bool, case: EngineCase) {
    let ops = ops::scans(30_000, 24_000, updates);
    let dir = scratch(&ops, case.l2arc).unwrap();
    let rows = compare(dir.path(), &ops, &case, |_| ()).unwrap();
    assert_eq!(rows.len(), case.sizes.len());
    for row in &rows {
        assert!(row.off().abs() <= BAR, "{case:?} at {}M: {row}", row.arc_bytes >> 20);
    }
    // The sizes must differ by more than the maximum error, or agreement would mean little.
    let gain = rows.last().unwrap().engine - rows[0].engine;
    assert!(gain > BAR || case.sizes.len() == 1, "{case:?}: {gain:.2} points between the sizes");
}

#[test]
fn reads_hit_as_in_the_engine() {
    agree(false, case(8 << 10, "off"));
}

#[test]
fn compressed_records_and_writes_hit_as_in_the_engine() {
    agree(true, case(128 << 10, "lz4"));
}

#[test]
fn prefetch_hits_as_in_the_engine() {
    agree(false, EngineCase { prefetch: "all".into(), ..case(16 << 10, "off") });
}

#[test]
fn without_primarycache_partial_reads_hit_in_the_dbuf_cache() {
    agree(
        false,
        EngineCase { primarycache: "metadata".into(), sizes: vec![64 << 20], ..case(128 << 10, "off") },
    );
}

#[test]
fn the_l2arc_hits_as_in_the_engine() {
    // At least five seconds: enough for several feeds, which are at least a fifth of a second apart, and for reads of
    // what they wrote.
    let ops = ops::scans(60_000, 24_000, false);
    let case = EngineCase { l2arc: 512 << 20, pace: 12_000, sizes: vec![64 << 20], ..case(8 << 10, "off") };
    let dir = scratch(&ops, case.l2arc).unwrap();
    for row in compare(dir.path(), &ops, &case, |_| ()).unwrap() {
        let (engine, model) = (row.engine_l2, row.model_l2);
        println!("cache vdev: engine {engine:.2}, model {model:.2}, {:.1} s", row.seconds);
        assert!((engine - model).abs() <= 2.0 * BAR, "L2ARC hits: engine {engine:.2} %, model {model:.2} %");
        assert!(engine > BAR, "the cache vdev answered only {engine:.2} %");
    }
}
