//! Compares full estimates with the space that the engine allocates for the same bytes.

use std::os::unix::fs::FileExt as _;

use crate::common::{content, file, full, mixed, pool, rng, store};
use poolwright_estimate::Layout;
use proptest::prelude::*;

const CODECS: &[&str] =
    &["off", "zle", "lzjb", "lz4", "gzip-1", "gzip-6", "zstd-fast-10", "zstd-1", "zstd-3", "zstd-9"];

/// Compares every codec on one file, and reports the differences.
fn compare(bytes: &[u8], recordsize: u64, ashift: u32, layout: Layout, codecs: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "source", bytes);
    compare_file(&path, recordsize, ashift, layout, codecs);
}

fn compare_file(path: &std::path::Path, recordsize: u64, ashift: u32, layout: Layout, codecs: &[&str]) {
    let dir = tempfile::tempdir().unwrap();
    // All ashifts are estimated at once, because one compression then serves several of them.
    let estimate = full(path, &[recordsize], codecs, &[9, 12, 13], &[layout]);
    let pool = pool(dir.path(), ashift, layout);
    for codec in codecs {
        let (blocks, _) = store(&pool, codec, recordsize, codec, path);
        let cell = estimate.cell(recordsize, codec, ashift).unwrap();
        assert_eq!(
            cell.allocated_bytes, blocks.asize,
            "{codec} recordsize={recordsize} ashift={ashift} {layout}"
        );
        let total = (blocks.asize + blocks.indirect_asize) as f64;
        let off = (cell.total_bytes as f64 - total).abs();
        // The total is a model's result. The model does not know which records are equal (and have equal checksums) unless
        // they are zeros, and these files have many of them. Nor does it know records so small that they are embedded in their pointer.
        // One allocation more or less, twice, is a large part of the one or two indirect blocks here. The tolerance is
        // half of the pointers' own bytes (128 each, in two copies). tests/databases.rs requires 0.5 % on real files.
        let slack = (4.0 * smallest(ashift, layout)).max(blocks.count as f64 * 128.0);
        assert!(
            off <= (total * 0.02).max(slack),
            "{codec} {recordsize} {ashift} {layout}: {cell:?} {blocks:?}"
        );
    }
}

/// Returns the smallest possible allocation in bytes.
fn smallest(ashift: u32, layout: Layout) -> f64 {
    let sectors = if let Layout::Raidz { parity, .. } = layout { parity + 1 } else { 1 };
    f64::from(sectors << ashift)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 10, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn full_is_what_the_engine_allocates(
        len in 1usize..3_000_000,
        stretch in 64usize..300_000,
        shift in 12u32..=20,
        ashift in prop::sample::select(vec![9u32, 12, 13]),
        layout in prop::sample::select(vec![
            Layout::Plain, Layout::Raidz { parity: 1, disks: 3 }, Layout::Raidz { parity: 2, disks: 6 },
        ]),
        seed: u64,
    ) {
        compare(&mixed(len, stretch, seed), 1 << shift, ashift, layout, CODECS);
    }
}

#[test]
fn lengths_at_the_edges() {
    for len in
        [1, 112, 511, 512, 513, 4095, 4096, 4097, 16383, 16384, 16385, 32768, 100_000, 131_071, 131_073]
    {
        compare(&mixed(len, 5000, len as u64), 16 << 10, 12, Layout::Plain, &["off", "lz4", "zstd-3"]);
        compare(&mixed(len, 5000, len as u64), 128 << 10, 9, Layout::Plain, &["zle", "lz4", "zstd-9"]);
    }
}

#[test]
fn nothing_but_zeros_and_nothing_but_noise() {
    for kind in [0, 1, 5] {
        let bytes = content(kind, 700_000, &mut rng(1));
        compare(&bytes, 32 << 10, 12, Layout::Mirror, CODECS);
        compare(&bytes, 8 << 10, 13, Layout::Raidz { parity: 3, disks: 5 }, &["off", "lz4", "gzip-6"]);
    }
}

#[test]
fn every_spelling_of_compression_takes_what_a_dataset_with_it_takes() {
    let spellings = poolwright_openzfs::property::compressions();
    let codecs: Vec<&str> = spellings.iter().map(String::as_str).collect();
    let bytes = mixed(600_000, 40_000, 11);
    compare(&bytes, 128 << 10, 9, Layout::Plain, &codecs);

    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "source", &bytes);
    let estimate = full(&path, &[128 << 10], &codecs, &[9], &[Layout::Plain]);
    let size = |name: &str| estimate.cell(128 << 10, name, 9).unwrap().allocated_bytes;
    for (spelling, meaning) in
        [("on", "lz4"), ("gzip", "gzip-6"), ("zstd", "zstd-3"), ("zstd-fast", "zstd-fast-1")]
    {
        assert_eq!(size(spelling), size(meaning), "{spelling}");
        assert!(size(spelling) < size("off"), "{spelling}");
    }
}

#[test]
fn large_records() {
    let bytes = mixed(20_000_000, 400_000, 7);
    compare(&bytes, 16 << 20, 12, Layout::Plain, &["off", "lz4", "zstd-3"]);
    compare(&bytes[..9_999_999], 16 << 20, 12, Layout::Plain, &["lz4", "zstd-3", "zstd-9"]);
}

#[test]
fn holes_of_the_source_stay_holes_even_without_compression() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sparse");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(9_000_001).unwrap();
    let mut rng = rng(3);
    for at in [0u64, 1_000_000, 1_100_000, 5_300_000] {
        file.write_all_at(&content(2, 70_000, &mut rng), at).unwrap();
    }
    file.write_all_at(&[0; 200_000], 7_000_000).unwrap();
    file.sync_all().unwrap();
    for recordsize in [4 << 10, 32 << 10, 128 << 10, 1 << 20] {
        compare_file(&path, recordsize, 12, Layout::Plain, &["off", "lz4", "zstd-1"]);
    }
}

#[test]
fn free_pages_are_holes_or_have_equal_checksums() {
    // As a file of InnoDB: its free pages are zeros.
    const PAGE: usize = 16 << 10;
    let mut bytes = vec![0; 700 * PAGE];
    for pages in [0..150, 180..260] {
        let used = &mut bytes[pages.start * PAGE..pages.end * PAGE];
        used.copy_from_slice(&content(2, used.len(), &mut rng(9)));
    }
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "source", &bytes);
    for (recordsize, ashift) in [(4 << 10, 12), (16 << 10, 13)] {
        let estimate = full(&path, &[recordsize], &["off", "lz4"], &[ashift], &[Layout::Plain]);
        let pool_dir = tempfile::tempdir().unwrap();
        let pool = pool(pool_dir.path(), ashift, Layout::Plain);
        for codec in ["off", "lz4"] {
            let (blocks, _) = store(&pool, codec, recordsize, codec, &path);
            let total = blocks.asize + blocks.indirect_asize;
            let cell = estimate.cell(recordsize, codec, ashift).unwrap();
            // Each indirect block can be a sector larger or smaller, in both copies.
            let slack = blocks.indirect_count * 2 * (1 << ashift);
            let off = cell.total_bytes.abs_diff(total);
            assert!(off <= slack, "{codec} {recordsize}: {off} bytes: {cell:?} {blocks:?}");
        }
    }
}

#[test]
fn holes_of_the_source_are_not_pointers_of_written_records() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sparse");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(64 << 20).unwrap();
    let mut rng = rng(5);
    for at in [0u64, 17 << 20, 45 << 20] {
        file.write_all_at(&content(2, 4 << 20, &mut rng), at).unwrap();
    }
    file.sync_all().unwrap();
    for recordsize in [4 << 10, 8 << 10, 16 << 10] {
        let estimate = full(&path, &[recordsize], &["lz4", "zstd-3"], &[12], &[Layout::Plain]);
        let pool_dir = tempfile::tempdir().unwrap();
        let pool = pool(pool_dir.path(), 12, Layout::Plain);
        for codec in ["lz4", "zstd-3"] {
            let (blocks, _) = store(&pool, codec, recordsize, codec, &path);
            let total = (blocks.asize + blocks.indirect_asize) as f64;
            let cell = estimate.cell(recordsize, codec, 12).unwrap();
            let error = (cell.total_bytes as f64 / total - 1.0) * 100.0;
            println!("{codec} {recordsize}: {error:+.3} % ({} of indirect blocks)", blocks.indirect_asize);
            assert!(error.abs() < 0.5, "{codec} {recordsize}: {error:+.3} %: {cell:?} {blocks:?}");
        }
    }
}
