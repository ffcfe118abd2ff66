//! Volumes against a model: reads, writes, discards, durable writes, and what the intent log contains.

use std::path::PathBuf;

use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Config, Engine, Pool, Spec, Volume, ZilStats};

mod common;
use common::noise;

const SIZE: u64 = 8 << 20;

fn pool(name: &str, dir: &tempfile::TempDir) -> Pool {
    let engine = Engine::start(&Config { arc_bytes: 64 << 20, ..Config::default() }).unwrap();
    Pool::create(engine, &Spec::single(name, PathBuf::from(dir.path()).join("vdev"), 12)).unwrap()
}

fn settings(pairs: &[(&str, &str)]) -> Settings {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// splitmix64.
fn mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Does 400 random requests in units of a sector, and compares every read with a copy of the volume in memory.
fn behaves_as_the_model(volume: &Volume, block: u64, seed: u64) {
    let mut model = vec![0u8; SIZE as usize];
    let mut state = seed;
    for step in 0..400 {
        let len = [512, 4096, block, 3 * block, 200 << 10][(mix(&mut state) % 5) as usize];
        let offset = mix(&mut state) % (SIZE - len) / 512 * 512;
        let range = offset as usize..(offset + len) as usize;
        match mix(&mut state) % 8 {
            0..=3 => {
                let bytes = noise(len as usize, step);
                volume.write_at(offset, &bytes, step % 3 == 0).unwrap();
                model[range].copy_from_slice(&bytes);
            }
            4 => {
                volume.discard(offset, len).unwrap();
                let (start, end) = (offset.next_multiple_of(block), (offset + len) / block * block);
                if start < end {
                    model[start as usize..end as usize].fill(0);
                }
            }
            5 => volume.flush().unwrap(),
            _ => {
                let mut bytes = vec![1; len as usize];
                volume.read_at(offset, &mut bytes).unwrap();
                assert!(bytes == model[range], "step {step}: {len} bytes at {offset} of blocks of {block}");
            }
        }
    }
    let mut all = vec![1; SIZE as usize];
    volume.read_at(0, &mut all).unwrap();
    assert!(all == model, "blocks of {block}");
}

#[test]
fn a_volume_keeps_what_is_written_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let pool = pool("volumes", &dir);
    for (n, block) in ["4K", "16K", "128K"].iter().enumerate() {
        let settings = settings(&[("volblocksize", block), ("compression", "lz4")]);
        let volume = pool.create_volume(&format!("v{n}"), SIZE, &settings).unwrap();
        let bytes = poolwright_openzfs::property::parse_size(block).unwrap();
        behaves_as_the_model(&volume, bytes, n as u64);
    }
    assert_eq!(pool.list().unwrap(), ["volumes", "volumes/v0", "volumes/v1", "volumes/v2"]);
}

#[test]
fn space_is_that_of_whole_blocks_and_discards_free_it() {
    let dir = tempfile::tempdir().unwrap();
    let pool = pool("space", &dir);
    let volume = pool.create_volume("v", SIZE, &settings(&[("volblocksize", "64K")])).unwrap();
    let empty = volume.stats().unwrap().referenced;
    // A sector in each of 16 blocks allocates 16 blocks; the rest of a block is zeros, which compress.
    for i in 0..16 {
        volume.write_at(i << 16, &noise(4096, i), false).unwrap();
    }
    pool.sync().unwrap();
    let sparse = volume.stats().unwrap();
    assert_eq!(sparse.logicalreferenced >> 16, 16);
    for i in 0..16 {
        volume.write_at(i << 16, &noise(65536, i), false).unwrap();
    }
    pool.sync().unwrap();
    let full = volume.stats().unwrap().referenced;
    assert!(full >= empty + (16 << 16) && full > sparse.referenced + (13 << 16), "{empty} {sparse:?} {full}");
    volume.discard(0, 16 << 16).unwrap();
    pool.sync().unwrap();
    assert!(volume.stats().unwrap().referenced < empty + (1 << 16));
}

/// The traffic of the log for a durable write of `len` bytes to a new volume.
fn logged(pool: &Pool, name: &str, pairs: &[(&str, &str)], len: usize) -> ZilStats {
    let volume = pool.create_volume(name, SIZE, &settings(pairs)).unwrap();
    // The first record of a log waits for a transaction group.
    volume.write_at(SIZE / 2, &[1; 512], true).unwrap();
    let before = volume.zil_stats();
    volume.write_at(0, &noise(len, 7), true).unwrap();
    volume.zil_stats().since(&before)
}

#[test]
fn the_log_has_pointers_only_to_whole_large_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let pool = pool("logs", &dir);
    let (k16, k64) = (("volblocksize", "16K"), ("volblocksize", "64K"));
    let indirect = |name, pairs: &[_], len| logged(&pool, name, pairs, len).indirect_bytes;
    assert_eq!(indirect("whole", &[k64], 64 << 10), 64 << 10);
    assert_eq!(indirect("part", &[k64], 32 << 10), 0);
    // Unlike a write to a file, a long write to small blocks is logged with its data.
    assert_eq!(indirect("small", &[k16], 64 << 10), 0);
    assert_eq!(indirect("biased", &[k16, ("logbias", "throughput")], 64 << 10), 64 << 10);
    let none = logged(&pool, "unsynced", &[k16, ("sync", "disabled")], 4096);
    assert_eq!(none.copied_bytes + none.needcopy_bytes + none.indirect_bytes, 0);
}

#[test]
fn what_no_volume_has_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let pool = pool("refused", &dir);
    for pair in [("volblocksize", "3K"), ("volblocksize", "32M"), ("recordsize", "16K"), ("direct", "always")]
    {
        assert!(pool.create_volume("v", SIZE, &settings(&[pair])).is_err(), "{pair:?}");
    }
    let volume = pool.create_volume("v", SIZE + 1, &settings(&[("volblocksize", "64K")])).unwrap();
    volume.read_at(SIZE, &mut [0; 65536]).unwrap();
    for (offset, len) in [(SIZE + 65536, 1), (SIZE, 65537), (u64::MAX, 2)] {
        assert!(volume.read_at(offset, &mut vec![0; len]).is_err());
        assert!(volume.write_at(offset, &vec![0; len], false).is_err());
        assert!(volume.discard(offset, len as u64).is_err());
    }
    assert!(pool.open_dataset("v").is_err(), "a volume is not a file system");
}
