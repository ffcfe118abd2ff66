//! On the virtual clock, the engine takes records that it has compressed before from a cache. They are stored as before.

use std::collections::BTreeMap;

use poolwright_openzfs::clock::{Costs, VirtualClock};
use poolwright_openzfs::{Config, Engine, Pool, Spec};

mod common;

const RECORD: usize = 32 << 10;
const RECORDS: u64 = 60;

/// A record that compresses well, hardly, or not at all.
fn record(n: u64) -> Vec<u8> {
    let noise = common::noise(RECORD, n);
    let text: Vec<u8> = format!("record {n}, ").bytes().cycle().take(RECORD).collect();
    match n % 3 {
        0 => text,
        1 => [&noise[..RECORD - 6000], &text[..6000]].concat(),
        _ => noise,
    }
}

#[test]
fn a_record_from_the_cache_is_stored_like_one_that_was_compressed() {
    let clock = Some(VirtualClock { processors: 2, seed: 1, costs: Costs::reference() });
    let engine = Engine::start(&Config { arc_bytes: 64 << 20, clock, ..Config::default() }).unwrap();
    // From here on, codecs are measured: some runs are real although the record is in the cache.
    Costs::measure_codecs();
    let dir = tempfile::tempdir().unwrap();
    let vdev = dir.path().join("vdev");
    let pool = Pool::create(engine, &Spec::single("tank", &vdev, 12)).unwrap();
    for codec in ["lz4", "zstd-3", "gzip-6"] {
        let settings = [("compression", codec), ("recordsize", "32K")];
        let settings: BTreeMap<String, String> =
            settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let dataset = pool.create_dataset(codec, &settings).unwrap();
        let blocks: Vec<_> = ["first", "again", "once more"]
            .map(|name| {
                let file = dataset.create_file(name).unwrap();
                for n in 0..RECORDS {
                    file.write_at(n * RECORD as u64, &record(n)).unwrap();
                }
                pool.sync().unwrap();
                format!("{:?}", file.blocks().unwrap())
            })
            .into();
        assert!(blocks.iter().all(|of_file| *of_file == blocks[0]), "{codec}: {blocks:?}");
    }
    pool.export().unwrap();
    // The import empties the ARC.
    let pool = common::import_again(engine, &[vdev]);
    for codec in ["lz4", "zstd-3", "gzip-6"] {
        let dataset = pool.open_dataset(codec).unwrap();
        for name in ["first", "again", "once more"] {
            let (file, mut read) = (dataset.open_file(name).unwrap(), vec![0; RECORD]);
            for n in 0..RECORDS {
                assert_eq!(file.read_at(n * RECORD as u64, &mut read).unwrap(), RECORD);
                assert!(read == record(n), "{codec}, {name}: record {n}");
            }
        }
    }
}
