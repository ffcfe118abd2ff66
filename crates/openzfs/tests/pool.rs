//! The engine end to end, on pool files: create, write, read, sync, snapshot, export, import.

use std::path::Path;

use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Config, Engine, Pool, Spec};

fn engine() -> Engine {
    Engine::start(&Config { arc_bytes: 128 << 20, ..Config::default() }).unwrap()
}

fn settings(pairs: &[(&str, &str)]) -> Settings {
    pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
}

/// Text that compresses about threefold and differs by seed.
fn text(len: usize, seed: u64) -> Vec<u8> {
    let mut x = seed | 1;
    let mut out = Vec::with_capacity(len + 32);
    while out.len() < len {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        out.extend_from_slice(
            format!("row {:08} value {:06}; ", (x >> 40) % 5000, (x >> 20) % 900).as_bytes(),
        );
    }
    out.truncate(len);
    out
}

fn single(dir: &Path, name: &str) -> Pool {
    Pool::create(engine(), &Spec::single(name, dir.join("vdev"), 12)).unwrap()
}

#[test]
fn data_survive_export_and_import() {
    let dir = tempfile::tempdir().unwrap();
    let pool = single(dir.path(), "roundtrip");
    let ds =
        pool.create_dataset("data", &settings(&[("recordsize", "16K"), ("compression", "lz4")])).unwrap();
    let file = ds.create_file("table").unwrap();
    let content = text(1_000_000, 7);
    file.write_at(0, &content).unwrap();
    file.write_at(500_000, b"overwritten").unwrap();
    file.sync().unwrap();
    assert_eq!(file.block_size(), 16384);
    assert_eq!(ds.get("recordsize").unwrap(), "16384");
    drop((file, ds));
    pool.export().unwrap();

    let pool = Pool::import(engine(), &[dir.path().join("vdev")], false).unwrap();
    assert_eq!(pool.name(), "roundtrip");
    let ds = pool.open_dataset("data").unwrap();
    let file = ds.open_file("table").unwrap();
    let mut back = vec![0; content.len() + 10];
    assert_eq!(file.read_at(0, &mut back).unwrap(), content.len());
    assert_eq!(&back[..500_000], &content[..500_000]);
    assert_eq!(&back[500_000..500_011], b"overwritten");
    assert_eq!(&back[500_011..content.len()], &content[500_011..]);
    assert_eq!(ds.files().unwrap(), ["table"]);
    drop((file, ds));
    pool.export().unwrap();

    // A pool that was only read can be exported directly after large reads.
    for _ in 0..5 {
        let pool = Pool::import(engine(), &[dir.path().join("vdev")], true).unwrap();
        let ds = pool.open_dataset("data").unwrap();
        let file = ds.open_file("table").unwrap();
        assert_eq!(file.read_at(0, &mut back).unwrap(), content.len());
        drop((file, ds));
        pool.export().unwrap();
    }
}

#[test]
fn small_files_grow_their_block_and_large_ones_keep_it() {
    let dir = tempfile::tempdir().unwrap();
    let pool = single(dir.path(), "growth");
    let ds = pool.create_dataset("d", &settings(&[("recordsize", "128K")])).unwrap();
    let file = ds.create_file("f").unwrap();
    for (written, block) in [(700, 1024), (77_777, 77_824), (300_000, 131_072)] {
        file.write_at(0, &text(written, 3)).unwrap();
        assert_eq!(file.block_size(), block, "after {written} bytes");
    }
    ds.set("recordsize", "16K").unwrap();
    file.write_at(0, &text(400_000, 4)).unwrap();
    assert_eq!(file.block_size(), 131_072, "recordsize applies only to new files");
    let fresh = ds.create_file("g").unwrap();
    fresh.write_at(0, &text(400_000, 4)).unwrap();
    assert_eq!(fresh.block_size(), 16_384);
}

#[test]
fn truncate_punch_and_remove() {
    let dir = tempfile::tempdir().unwrap();
    let pool = single(dir.path(), "holes");
    let ds = pool.create_dataset("d", &settings(&[("recordsize", "8K"), ("compression", "off")])).unwrap();
    let file = ds.create_file("f").unwrap();
    file.write_at(0, &text(1 << 20, 5)).unwrap();
    file.punch(8192, 65536).unwrap();
    pool.sync().unwrap();
    let blocks = file.blocks().unwrap();
    assert_eq!(blocks.asize, (1 << 20) - 65536);
    let mut back = vec![1; 65536];
    file.read_at(8192, &mut back).unwrap();
    assert!(back.iter().all(|b| *b == 0));
    file.truncate(100).unwrap();
    assert_eq!((file.size(), file.read_at(0, &mut back).unwrap()), (100, 100));
    file.truncate(20_000).unwrap();
    file.read_at(0, &mut back).unwrap();
    assert!(back[100..20_000].iter().all(|b| *b == 0), "an extended file reads as zeros after the old end");
    ds.remove_file("f").unwrap();
    assert!(ds.open_file("f").is_err());
    drop(file);
    pool.sync().unwrap();
    assert!(ds.files().unwrap().is_empty());
}

#[test]
fn a_snapshot_keeps_the_old_content() {
    let dir = tempfile::tempdir().unwrap();
    let pool = single(dir.path(), "snap");
    let ds = pool.create_dataset("d", &Settings::new()).unwrap();
    let file = ds.create_file("f").unwrap();
    file.write_at(0, b"before").unwrap();
    ds.snapshot("s1").unwrap();
    file.write_at(0, b"after!").unwrap();
    let snapshot = ds.open_snapshot(&pool, "s1").unwrap();
    let mut back = [0; 6];
    snapshot.open_file("f").unwrap().read_at(0, &mut back).unwrap();
    assert_eq!(&back, b"before");
    assert!(snapshot.open_file("f").unwrap().write_at(0, b"x").is_err(), "a snapshot is read-only");
    drop(snapshot);
    assert!(pool.list().unwrap().contains(&"snap/d@s1".to_string()));
    pool.destroy("d@s1").unwrap();
    assert!(!pool.list().unwrap().iter().any(|n| n.contains('@')));
}

#[test]
fn every_layout_and_ashift_holds_data() {
    let vdevs = [
        ("a", 9),
        ("a", 12),
        ("a", 13),
        ("a", 16),
        ("a b", 12),
        ("mirror a b", 12),
        ("raidz a b c", 12),
        ("raidz2 a b c d", 12),
        ("raidz3 a b c d e", 12),
        ("a log l", 12),
        ("a cache c", 12),
        ("mirror a b log mirror l m cache c", 12),
    ];
    for (i, (words, ashift)) in vdevs.iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let words: Vec<String> = words
            .split(' ')
            .map(|w| {
                let keyword = w.len() > 1;
                if keyword { w.to_string() } else { format!("{}:1G", dir.path().join(w).display()) }
            })
            .collect();
        let groups = Spec::parse_vdevs(&words).unwrap();
        let files: Vec<_> = groups.iter().flat_map(|g| g.files.iter().map(|f| f.0.clone())).collect();
        let pool =
            Pool::create(engine(), &Spec { name: format!("layout{i}"), ashift: *ashift, groups }).unwrap();
        let ds = pool.create_dataset("d", &Settings::new()).unwrap();
        let content = text(3_000_000, i as u64 + 1);
        let file = ds.create_file("f").unwrap();
        file.write_at(0, &content).unwrap();
        file.sync().unwrap();
        drop((file, ds));
        pool.export().unwrap();
        let pool = Pool::import(engine(), &files, false).unwrap();
        let mut back = vec![0; content.len()];
        pool.open_dataset("d").unwrap().open_file("f").unwrap().read_at(0, &mut back).unwrap();
        assert!(back == content, "{words:?} ashift={ashift}");
        pool.scrub().unwrap();
        let stats = pool.stats().unwrap();
        assert_eq!((stats.checksum_errors, stats.read_errors), (0, 0), "{words:?}");
    }
}

#[test]
fn every_property_and_codec_is_accepted_live() {
    let dir = tempfile::tempdir().unwrap();
    let pool = single(dir.path(), "props");
    let ds = pool.create_dataset("d", &Settings::new()).unwrap();
    let mut tried = 0;
    let codecs = [
        "off",
        "on",
        "lz4",
        "lzjb",
        "zle",
        "gzip-1",
        "gzip-6",
        "gzip-9",
        "zstd-1",
        "zstd-3",
        "zstd-19",
        "zstd-fast-1",
        "zstd-fast-1000",
    ];
    let all: &[(&str, &[&str])] = &[
        ("compression", &codecs),
        ("recordsize", &["512", "4K", "16K", "128K", "1M", "16M"]),
        ("primarycache", &["none", "metadata", "all"]),
        ("secondarycache", &["none", "metadata", "all"]),
        ("logbias", &["throughput", "latency"]),
        ("sync", &["always", "disabled", "standard"]),
        ("checksum", &["sha256", "blake3", "off", "on"]),
        ("copies", &["2", "3", "1"]),
        ("redundant_metadata", &["most", "some", "none", "all"]),
        ("prefetch", &["none", "metadata", "all"]),
    ];
    for (property, values) in all {
        for value in *values {
            ds.set(property, value).unwrap();
            let file = ds.create_file(&format!("{property}-{value}")).unwrap();
            let content = text(200_000, tried + 1);
            file.write_at(0, &content).unwrap();
            file.sync().unwrap();
            let mut back = vec![0; content.len()];
            file.read_at(0, &mut back).unwrap();
            assert!(back == content, "{property}={value}");
            tried += 1;
        }
    }
    for (property, value) in
        [("compression", "lzma"), ("recordsize", "3000"), ("recordsize", "32M"), ("copies", "4")]
    {
        let error = ds.set(property, value).unwrap_err().to_string();
        assert!(error.contains(value) || error.contains(property), "{error}");
    }
}

#[test]
fn errors_name_bad_pools() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("vdev");
    let pool = Pool::create(engine(), &Spec::single("locked", &path, 12)).unwrap();
    let error = Pool::import(engine(), std::slice::from_ref(&path), false).unwrap_err().to_string();
    assert!(error.contains("in use"), "{error}");
    let error = Pool::create(engine(), &Spec::single("again", &path, 12)).unwrap_err().to_string();
    assert!(error.contains("not empty"), "{error}");
    drop(pool);
    let text = dir.path().join("text");
    std::fs::write(&text, "hello").unwrap();
    assert!(Pool::import(engine(), &[text], false).unwrap_err().to_string().contains("contains no pool"));
    assert!(Pool::import(engine(), &[dir.path().join("missing")], false).is_err());
    assert!(Pool::create(engine(), &Spec::single("shift", dir.path().join("x"), 8)).is_err());
}

/// The offset of `needle` in the first GiB of a sparse file.
fn find_in(path: &Path, needle: &[u8]) -> u64 {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::open(path).unwrap();
    let mut window = vec![0u8; (1 << 20) + needle.len()];
    for at in (0..1u64 << 30).step_by(1 << 20) {
        let n = file.read_at(&mut window, at).unwrap();
        if let Some(i) = window[..n].windows(needle.len()).position(|w| w == needle) {
            return at + i as u64;
        }
    }
    panic!("the data is not in the pool's file");
}

fn flip(path: &Path, at: u64) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[!byte[0]], at).unwrap();
}

#[test]
fn damaged_data_is_an_error_and_never_wrong_bytes() {
    for (mirrored, direct) in [(false, false), (true, false), (false, true), (true, true)] {
        let dir = tempfile::tempdir().unwrap();
        let paths = [dir.path().join("a"), dir.path().join("b")];
        let mut words: Vec<String> = paths.iter().map(|p| format!("{}:1G", p.display())).collect();
        if mirrored {
            words.insert(0, "mirror".into())
        } else {
            words.truncate(1)
        }
        let groups = Spec::parse_vdevs(&words).unwrap();
        let files: Vec<_> = groups.iter().flat_map(|g| g.files.iter().map(|f| f.0.clone())).collect();
        let name = format!("damage{}{}", u8::from(mirrored), u8::from(direct));
        let pool = Pool::create(engine(), &Spec { name, ashift: 12, groups }).unwrap();
        let ds =
            pool.create_dataset("d", &settings(&[("recordsize", "16K"), ("compression", "off")])).unwrap();
        let content = text(64 * 16384, 99);
        ds.create_file("f").unwrap().write_at(0, &content).unwrap();
        drop(ds);
        pool.export().unwrap();
        // Which side of a mirror serves a read depends on where the block lies, so blocks are damaged on alternate sides.
        for block in 20..36 {
            let path = if mirrored { &paths[block % 2] } else { &paths[0] };
            flip(path, find_in(path, &content[block * 16384..block * 16384 + 64]));
        }

        let pool = Pool::import(engine(), &files, false).unwrap();
        let ds = pool.open_dataset("d").unwrap();
        let file = ds.open_file("f").unwrap();
        let file = if direct { file.into_direct() } else { file };
        let mut back = vec![0; 16384];
        for block in 20..36 {
            let read = file.read_at(block as u64 * 16384, &mut back);
            if mirrored {
                read.unwrap();
                assert!(
                    back == content[block * 16384..][..16384],
                    "the other side of the mirror has the data"
                );
            } else {
                let error = read.unwrap_err();
                assert_eq!(error.errno(), Some(5), "{error}");
            }
        }
        file.read_at(19 * 16384, &mut back).unwrap();
        assert!(back == content[19 * 16384..20 * 16384], "the adjacent block is intact");
        assert!(pool.stats().unwrap().checksum_errors > 0);
    }
}

#[test]
fn a_pool_whose_labels_are_gone_is_named() {
    use std::os::unix::fs::FileExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v");
    let groups = Spec::parse_vdevs(&[format!("{}:1G", path.display())]).unwrap();
    Pool::create(engine(), &Spec { name: "labels".into(), ashift: 12, groups }).unwrap().export().unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    for at in [0u64, 256 << 10, (1 << 30) - (512 << 10), (1 << 30) - (256 << 10)] {
        file.write_all_at(&vec![0u8; 256 << 10], at).unwrap();
    }
    let error = Pool::import(engine(), &[path], false).unwrap_err().to_string();
    assert!(error.contains("none of its four labels is valid"), "{error}");
}

#[test]
fn a_dataset_goes_back_to_its_latest_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let pool = single(dir.path(), "rollback");
    for dataset in ["d", ""] {
        let ds = if dataset.is_empty() {
            pool.open_dataset("").unwrap()
        } else {
            pool.create_dataset(dataset, &settings(&[])).unwrap()
        };
        assert_eq!(pool.latest_snapshot(dataset).unwrap(), None);
        ds.create_file("kept").unwrap().write_at(0, b"first").unwrap();
        ds.snapshot("one").unwrap();
        ds.create_file("later").unwrap();
        ds.open_file("kept").unwrap().write_at(0, b"other").unwrap();
        ds.snapshot("two").unwrap();
        assert!(pool.rollback(dataset, "two").is_err(), "the dataset is open");
        drop(ds);
        assert_eq!(pool.latest_snapshot(dataset).unwrap().as_deref(), Some("two"));
        assert_eq!(pool.rollback(dataset, "one").unwrap_err().errno(), Some(libc::EEXIST));
        pool.destroy(&format!("{dataset}@two")).unwrap();
        pool.rollback(dataset, "one").unwrap();
        let ds = pool.open_dataset(dataset).unwrap();
        let mut back = [0; 5];
        ds.open_file("kept").unwrap().read_at(0, &mut back).unwrap();
        assert_eq!((&back, ds.files().unwrap().len()), (b"first", 1));
    }
    pool.export().unwrap();
}
