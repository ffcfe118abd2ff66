//! What a codec costs depends on how far it compresses a record, so that records of metadata do not decide what data costs.

use std::collections::BTreeMap;
use std::time::Duration;

use poolwright_openzfs::clock::{self, CodecCost, Costs, VirtualClock};
use poolwright_openzfs::{Config, Engine, Pool, Spec};

mod common;

const RECORD: usize = 16 << 10;
const RECORDS: u64 = 100;
const DEAR: Duration = Duration::from_millis(3);

/// A machine a thousand times as slow as this one: a codec that is measured takes more than this for a record of 16K.
const SLOW_PERMILLE: u64 = 1_000_000;
const MIN_SLOW: Duration = Duration::from_millis(1);

#[test]
fn records_that_compress_differently_have_different_costs() {
    let cost = |n: u32| CodecCost {
        codec: 15,
        level: 0,
        size_bits: RECORD.ilog2() + 1,
        ratio_bits: n,
        decompress: false,
        ns: if n < 1 { DEAR.as_nanos() as u64 } else { 1000 },
    };
    let codecs = (0..8).map(cost).collect();
    let costs =
        Costs { call_ns: 0, switch_ns: 0, copy_ps: 0, checksum_ps: 0, codec_permille: SLOW_PERMILLE, codecs };
    let clock = Some(VirtualClock { processors: 2, seed: 1, costs });
    let engine = Engine::start(&Config { arc_bytes: 64 << 20, clock, ..Config::default() }).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let pool = Pool::create(engine, &Spec::single("tank", dir.path().join("vdev"), 12)).unwrap();
    let cpu_of = |compression: &str, name: &str, content: &[u8]| {
        let settings = [("compression", compression), ("recordsize", "16K")];
        let settings: BTreeMap<String, String> =
            settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let dataset = pool.create_dataset(name, &settings).unwrap();
        let (file, before) = (dataset.create_file(name).unwrap(), clock::cpu_time());
        for n in 0..RECORDS {
            file.write_at(n * RECORD as u64, content).unwrap();
        }
        pool.sync().unwrap();
        clock::cpu_time() - before
    };
    let all = DEAR * RECORDS as u32;
    let text = b"numbered lines of text; ".repeat(RECORD / 24 + 1);
    let (noise, known) =
        (cpu_of("lz4", "noise", &common::noise(RECORD, 1)), cpu_of("lz4", "text", &text[..RECORD]));
    assert!(noise >= all && noise < 2 * all, "{noise:?}");
    assert!(known < all / 10, "{known:?}");

    Costs::measure_codecs();
    let measured = cpu_of("zstd-3", "measured", &text[..RECORD]);
    assert!(measured >= MIN_SLOW * RECORDS as u32, "{measured:?}");
}
