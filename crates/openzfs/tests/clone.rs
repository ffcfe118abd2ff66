//! Copies between files: their bytes, the space that they share, and their state after SIGKILL.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use poolwright_openzfs::{Config, Dataset, Engine, Errno, File, Node, Pool, Spec};

mod common;

const MIB: u64 = 1 << 20;

/// An engine that syncs transaction groups only on request.
fn engine() -> Engine {
    Engine::start(&Config { arc_bytes: 128 << 20, txg_timeout_s: 3600, ..Config::default() }).unwrap()
}

fn create(vdev: &Path, name: &str, recordsize: &str) -> (Pool, Dataset) {
    let pool = Pool::create(engine(), &Spec::single(name, vdev.to_owned(), 12)).unwrap();
    let settings = [("recordsize".into(), recordsize.into()), ("compression".into(), "off".into())].into();
    let ds = pool.create_dataset("d", &settings).unwrap();
    (pool, ds)
}

/// Incompressible bytes that differ by seed.
fn noise(len: u64, seed: u64) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x as u8
    };
    (0..len).map(|_| next()).collect()
}

fn file(ds: &Dataset, name: &str, content: &[u8]) -> File {
    let file = ds.create_file(name).unwrap();
    file.write_at(0, content).unwrap();
    file
}

fn content(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.size() as usize];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

/// Copies the whole range, with as many calls as necessary.
fn copy(from: &Node, at: u64, to: &Node, to_at: u64, len: u64) -> u64 {
    let mut done = 0;
    loop {
        match from.copy_to(at + done, to, to_at + done, len - done, false).unwrap() {
            0 => return done,
            n => done += n,
        }
    }
}

fn saved(pool: &Pool) -> u64 {
    pool.sync().unwrap();
    pool.stats().unwrap().bclone_saved
}

#[test]
fn a_copy_shares_its_blocks_until_one_side_changes() {
    let dir = tempfile::tempdir().unwrap();
    let vdev = dir.path().join("vdev");
    let (pool, ds) = create(&vdev, "share", "16K");
    let mut bytes = noise(9 * MIB + 777, 1);
    let a = file(&ds, "a", &bytes);
    pool.sync().unwrap();
    let before = pool.stats().unwrap().allocated;
    let b = ds.create_file("b").unwrap();
    assert_eq!(a.node().copy_to(0, b.node(), 0, u64::MAX >> 1, false).unwrap(), a.size(), "in one call");
    assert!(content(&b) == bytes, "read before it is on disk");
    assert_eq!((b.size(), b.block_size()), (a.size(), 16384));
    assert!(saved(&pool) >= 9 * MIB, "{:?}", pool.stats());
    let grown = pool.stats().unwrap().allocated.saturating_sub(before);
    assert!(grown < MIB, "the copy took {grown} bytes");

    // A change of one file does not affect the other.
    b.write_at(5 * MIB + 3, b"changed").unwrap();
    a.write_at(0, b"CHANGED").unwrap();
    let mut other = bytes.clone();
    other[5 * MIB as usize + 3..][..7].copy_from_slice(b"changed");
    bytes[..7].copy_from_slice(b"CHANGED");
    assert!(content(&a) == bytes && content(&b) == other);
    drop(a);
    ds.remove_file("a").unwrap();
    drop((b, ds));
    pool.export().unwrap();
    let pool = common::import_again(engine(), &[vdev]);
    let ds = pool.open_dataset("d").unwrap();
    assert!(content(&ds.open_file("b").unwrap()) == other, "after import, without its source");
    assert!(saved(&pool) < 64 << 10, "blocks of a removed source are no longer shared");
    drop(ds);
    pool.scrub().unwrap();
    assert_eq!(pool.stats().unwrap().checksum_errors, 0);
    pool.export().unwrap();
}

#[test]
fn ranges_that_cannot_be_cloned_are_copied() {
    let dir = tempfile::tempdir().unwrap();
    let (pool, ds) = create(&dir.path().join("vdev"), "rest", "16K");
    let bytes = noise(3 * MIB + 100, 2);
    let a = file(&ds, "a", &bytes);
    pool.sync().unwrap();
    let at = |bytes: &[u8], from: u64, len: u64| bytes[from as usize..(from + len) as usize].to_vec();

    // The same offset within a record on both sides: the partial records are copied, and the records between them are cloned.
    let b = ds.create_file("b").unwrap();
    assert_eq!(copy(a.node(), 1000, b.node(), 1000, MIB), MIB);
    assert_eq!(at(&content(&b), 1000, MIB), at(&bytes, 1000, MIB));
    assert!(content(&b)[..1000].iter().all(|byte| *byte == 0));
    let shared = saved(&pool);
    assert!((MIB - 64 * 1024..MIB).contains(&shared), "{shared}");

    // Different offsets, a different record size, and a copy within one file.
    let c = ds.create_file("c").unwrap();
    assert_eq!(copy(a.node(), 500, c.node(), 0, u64::MAX >> 1), a.size() - 500);
    assert!(content(&c) == bytes[500..]);
    ds.set("recordsize", "64K").unwrap();
    let d = file(&ds, "d", &noise(MIB, 3));
    pool.sync().unwrap();
    assert_eq!(copy(a.node(), 0, d.node(), 0, MIB), MIB);
    assert!(content(&d) == bytes[..MIB as usize]);
    assert_eq!(saved(&pool), shared);
    assert_eq!(copy(a.node(), 0, a.node(), 2 * MIB, MIB), MIB);
    assert_eq!(at(&content(&a), 2 * MIB, MIB), at(&bytes, 0, MIB));
    assert!(saved(&pool) >= shared + MIB, "within a file too");
    assert_eq!(a.node().copy_to(0, a.node(), 100, 1000, false), Err(Errno(libc::EINVAL)), "they overlap");
    assert_eq!(copy(a.node(), a.size(), c.node(), 0, 10), 0, "no data after the end");
    let root = ds.root().unwrap();
    assert_eq!(root.copy_to(0, c.node(), 0, 10, false), Err(Errno(libc::EISDIR)));
    assert_eq!(a.node().copy_to(0, &root, 0, 10, false), Err(Errno(libc::EISDIR)));
    drop((root, a, b, c, d, ds));
    pool.scrub().unwrap();
    assert_eq!(pool.stats().unwrap().checksum_errors, 0);
    pool.export().unwrap();
}

#[test]
fn a_large_copy_waits_for_a_dirty_source() {
    let dir = tempfile::tempdir().unwrap();
    let (pool, ds) = create(&dir.path().join("vdev"), "dirty", "16K");
    let (large, small) = (noise(8 * MIB, 4), noise(MIB, 5));
    let (a, b) = (file(&ds, "a", &large), file(&ds, "b", &small));
    let (c, d) = (ds.create_file("c").unwrap(), ds.create_file("d").unwrap());
    assert_eq!(copy(b.node(), 0, d.node(), 0, MIB), MIB);
    assert!(content(&d) == small);
    assert_eq!(saved(&pool), 0, "a small range was copied at once");
    a.write_at(17, b"dirty again").unwrap();
    assert_eq!(copy(a.node(), 0, c.node(), 0, 8 * MIB), 8 * MIB);
    assert!(content(&c) == content(&a));
    assert_eq!(saved(&pool), 8 * MIB);
    drop((a, b, c, d, ds));
    pool.export().unwrap();
}

#[test]
fn small_files_keep_room_to_grow() {
    let dir = tempfile::tempdir().unwrap();
    let (pool, ds) = create(&dir.path().join("vdev"), "small", "128K");
    for (i, len) in [700, 5000, 77_777, 131_072, 300_000].into_iter().enumerate() {
        let bytes = noise(len, 10 + i as u64);
        let a = file(&ds, &format!("a{i}"), &bytes);
        pool.sync().unwrap();
        let b = ds.create_file(&format!("b{i}")).unwrap();
        assert_eq!(copy(a.node(), 0, b.node(), 0, len), len);
        assert!(content(&b) == bytes);
        // After the existing data, where a small block could not grow.
        assert_eq!(copy(a.node(), 0, b.node(), len, len), len);
        b.write_at(800_000, b"far").unwrap();
        assert_eq!(b.block_size(), 131_072, "{len} bytes");
        let all = content(&b);
        assert!(all[..len as usize] == bytes && all[len as usize..2 * len as usize] == bytes);
        // To a file with one block, which is smaller than the source's blocks.
        let c = file(&ds, &format!("c{i}"), b"a word of its own");
        assert_eq!(copy(b.node(), 131_072, c.node(), 131_072, 1 << 20), b.size() - 131_072);
        assert!(content(&c)[131_072..] == all[131_072..]);
        assert!(content(&c).starts_with(b"a word of its own\0"));
    }
    drop(ds);
    pool.scrub().unwrap();
    assert_eq!(pool.stats().unwrap().checksum_errors, 0);
    pool.export().unwrap();
}

#[test]
fn files_are_cloned_from_a_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let (pool, ds) = create(&dir.path().join("vdev"), "back", "16K");
    let bytes = noise(2 * MIB, 6);
    drop(file(&ds, "a", &bytes));
    ds.snapshot("then").unwrap();
    ds.remove_file("a").unwrap();
    let then = ds.open_snapshot(&pool, "then").unwrap();
    let b = ds.create_file("b").unwrap();
    let old = then.open_file("a").unwrap();
    assert_eq!(copy(old.node(), 0, b.node(), 0, 2 * MIB), 2 * MIB);
    assert!(content(&b) == bytes);
    assert_eq!(saved(&pool), 2 * MIB);
    assert_eq!(b.node().copy_to(0, old.node(), 0, 10, false), Err(Errno(libc::EROFS)));
    drop((old, then, b, ds));
    pool.export().unwrap();
}

// ---- kill and replay ----

const FILES: u64 = 6;

/// The expected contents of the victim's n-th copy: the source, with a different word in one of its records.
fn expected(n: u64) -> Vec<u8> {
    let mut bytes = noise(2 * MIB, 7);
    bytes[(n * 100_000) as usize..][..8].copy_from_slice(&n.to_le_bytes());
    bytes
}

/// Runs only as the victim: clones and overwrites blocks, which are only in the log when it is killed.
#[test]
#[ignore = "started by the test below as a separate process"]
fn victim() {
    let Ok(vdev) = std::env::var("POOLWRIGHT_CLONE_VDEV") else { return };
    let (pool, ds) = create(&PathBuf::from(vdev), "kills", "16K");
    let a = file(&ds, "a", &noise(2 * MIB, 7));
    ds.commit().unwrap();
    pool.sync().unwrap();
    for n in 0..FILES {
        let copied = ds.create_file(&format!("copy{n}")).unwrap();
        // Over existing data, after it, and into an empty file.
        if n % 3 > 0 {
            copied.write_at(0, &noise(if n % 3 == 1 { 3000 } else { MIB }, 20 + n)).unwrap();
        }
        assert_eq!(copy(a.node(), 0, copied.node(), 0, 2 * MIB), 2 * MIB);
        copied.write_at(n * 100_000, &n.to_le_bytes()).unwrap();
        if n % 2 == 0 {
            copied.sync().unwrap();
        }
    }
    drop(a);
    ds.remove_file("a").unwrap();
    ds.commit().unwrap();
    writeln!(std::io::stdout().lock(), "\nthe victim is done").unwrap();
    std::thread::sleep(std::time::Duration::from_secs(600));
}

#[test]
fn clones_survive_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let vdev = dir.path().join("vdev");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["victim", "--exact", "--ignored", "--nocapture"])
        .env("POOLWRIGHT_CLONE_VDEV", &vdev)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let done = lines.any(|line| line == "the victim is done");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(done, "the victim ended before it was done");

    for round in ["replayed", "after one more import"] {
        let pool = common::import_again(engine(), std::slice::from_ref(&vdev));
        let ds = pool.open_dataset("d").unwrap();
        assert_eq!(ds.replayed() >= 3 * FILES, round == "replayed", "{} records", ds.replayed());
        assert_eq!(ds.files().unwrap().len() as u64, FILES, "the source was removed");
        for n in 0..FILES {
            assert!(content(&ds.open_file(&format!("copy{n}")).unwrap()) == expected(n), "{round}: copy{n}");
        }
        let shared = saved(&pool);
        assert!(shared > (FILES - 2) * 2 * MIB, "{round}: only {shared} bytes are shared");
        drop(ds);
        pool.scrub().unwrap();
        assert_eq!(pool.stats().unwrap().checksum_errors, 0, "{round}");
        pool.export().unwrap();
    }
}
