//! Runs one conformance suite on every target.

use std::collections::BTreeMap;
use std::path::Path;

use poolwright_openzfs::Device;
use poolwright_replay::{
    Directory, EngineOptions, EngineTarget, KernelPoolOptions, KernelPoolTarget, Target,
};
use poolwright_trace::File;
use poolwright_trace::layout::Role;

fn text(len: usize, seed: u64) -> Vec<u8> {
    (0..len).map(|i| b"poolwright holds water "[(i + seed as usize) % 23] ^ (i / 4096) as u8).collect()
}

fn conforms(target: &dyn Target) {
    // A write or `create` creates a file; its data can be read back.
    let content = text(300_000, 1);
    target.write(0, 0, &content, false, false).unwrap();
    let mut back = vec![0; 300_100];
    assert_eq!(target.read(0, 0, &mut back, false).unwrap(), 300_000);
    assert_eq!(&back[..300_000], &content[..]);
    // A synchronous overwrite in the middle.
    target.write(0, 5000, b"durable", true, false).unwrap();
    target.sync(0).unwrap();
    assert_eq!(target.read(0, 4999, &mut back[..9], false).unwrap(), 9);
    assert_eq!(&back[1..8], b"durable");
    // Direct requests with unaligned offsets and memory work like aligned ones.
    target.write(0, 8192, &text(4096, 2), true, true).unwrap();
    assert_eq!(target.read(0, 8192, &mut back[..4096], true).unwrap(), 4096);
    assert_eq!(&back[..4096], &text(4096, 2)[..]);
    assert_eq!(target.read(0, 299_999, &mut back[..100], true).unwrap(), 1);
    // Truncation and holes.
    target.truncate(0, 400_000).unwrap();
    assert_eq!(target.read(0, 399_990, &mut back[..100], false).unwrap(), 10);
    target.punch(0, 131_072, 131_072).unwrap();
    target.read(0, 131_072, &mut back[..131_072], false).unwrap();
    assert!(back[..131_072].iter().all(|b| *b == 0));
    target.punch(0, 0, 0).unwrap();
    target.truncate(0, 10).unwrap();
    assert_eq!(target.read(0, 0, &mut back, false).unwrap(), 10);
    // Creating or removing a file twice is not an error, and a removed file can be created again.
    target.create(1).unwrap();
    target.create(1).unwrap();
    assert_eq!(target.read(1, 0, &mut back, false).unwrap(), 0);
    target.unlink(1).unwrap();
    target.unlink(1).unwrap();
    target.write(1, 100, b"again", false, false).unwrap();
    assert_eq!(target.read(1, 100, &mut back, false).unwrap(), 5);
    // After `settle`, allocation includes the written data.
    target.write(1, 0, &text(1 << 20, 3), false, false).unwrap();
    target.start_txg().unwrap();
    target.settle().unwrap();
    assert!(target.allocated_bytes().unwrap() > 0);
    assert!(target.counters().unwrap().cpu_seconds > 0.0);
    // Concurrent writes from several threads.
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            scope.spawn(move || {
                for i in 0..50u64 {
                    let at = (thread * 50 + i) * 4096;
                    target.write(1, at, &text(4096, at), i % 10 == 0, false).unwrap();
                }
            });
        }
    });
    for i in 0..200u64 {
        target.read(1, i * 4096, &mut back[..4096], false).unwrap();
        assert_eq!(&back[..4096], &text(4096, i * 4096)[..], "block {i}");
    }
}

fn engine_options(scratch: &Path) -> EngineOptions {
    EngineOptions {
        scratch: scratch.to_owned(),
        ashift: 12,
        arc_bytes: 128 << 20,
        dirty_bytes: 128 << 20,
        device: Device::none(),
        txg_timeout_s: 5,
        tunables: BTreeMap::new(),
        clock: None,
    }
}

fn file(role: Role, size: u64) -> File {
    File { role: Some(role), size, ..File::default() }
}

/// What a recorded device can do, on volumes and files alike.
fn conforms_as_a_device(target: &dyn Target, size: u64) {
    let mut back = vec![1; 1 << 20];
    target.create(0).unwrap();
    target.truncate(0, size).unwrap();
    assert_eq!(target.read(0, 0, &mut back, false).unwrap(), 1 << 20);
    assert!(back.iter().all(|b| *b == 0));
    target.write(0, 0, &text(1 << 20, 1), false, false).unwrap();
    target.write(0, size - 4096, &text(4096, 2), true, false).unwrap();
    target.sync(0).unwrap();
    target.punch(0, 256 << 10, 256 << 10).unwrap();
    assert_eq!(target.read(0, 0, &mut back, false).unwrap(), 1 << 20);
    let expected = [&text(1 << 20, 1)[..256 << 10], &[0; 256 << 10], &text(1 << 20, 1)[512 << 10..]].concat();
    assert!(back == expected);
    assert_eq!(target.read(0, size - 4096, &mut back[..8192], false).unwrap(), 4096);
    assert_eq!(&back[..4096], &text(4096, 2)[..]);
    target.start_txg().unwrap();
    target.settle().unwrap();
    assert!((600 << 10..8 << 20).contains(&target.logical_bytes().unwrap()));
}

#[test]
fn volumes_and_files_conform_as_devices() {
    let size = 64 << 20;
    let scratch = tempfile::tempdir().unwrap();
    let files = [file(Role::Volume, size)];
    let settings = [("volblocksize".to_string(), "64K".to_string())].into();
    let settings = BTreeMap::from([(Role::Volume, settings)]);
    let target = EngineTarget::create(&engine_options(scratch.path()), &files, &settings, false).unwrap();
    conforms_as_a_device(&target, size);
    assert_eq!(target.allocated_by_role().unwrap().keys().collect::<Vec<_>>(), [&Role::Volume]);
    assert!(target.counters().unwrap().zil.commits >= 2);
    drop(target);
    conforms_as_a_device(&Directory::create(scratch.path(), 1).unwrap(), size);
}

#[test]
fn the_engine_conforms() {
    let scratch = tempfile::tempdir().unwrap();
    let options = engine_options(scratch.path());
    let settings = BTreeMap::from([(Role::Data, [("recordsize".to_string(), "16K".to_string())].into())]);
    let target =
        EngineTarget::create(&options, &[file(Role::Data, 0), file(Role::Wal, 0)], &settings, false).unwrap();
    conforms(&target);
    assert!(target.counters().unwrap().vdev.write_bytes > 0);
    assert_eq!(target.allocated_by_role().unwrap().len(), 2);
    let left: Vec<_> = std::fs::read_dir(scratch.path()).unwrap().collect();
    assert!(left.is_empty(), "the pool's file has no name while it is used: {left:?}");
}

#[test]
fn the_engine_reads_files_opened_with_o_direct_past_the_arc() {
    for (property, times) in [("standard", 8), ("disabled", 0)] {
        let scratch = tempfile::tempdir().unwrap();
        let settings = [("recordsize", "128K"), ("compression", "off"), ("direct", property)];
        let settings = settings.map(|(name, value)| (name.to_string(), value.to_string())).into();
        let settings = BTreeMap::from([(Role::Data, settings)]);
        let target =
            EngineTarget::create(&engine_options(scratch.path()), &[file(Role::Data, 0)], &settings, false)
                .unwrap();
        let (record, piece) = (128 << 10, 16 << 10);
        target.write(0, 0, &text(16 * record, 0), false, false).unwrap();
        target.settle().unwrap();
        // What was written is still in the dbuf cache, where direct reads find it, too.
        target.write(0, 16 * record as u64, &text(32 << 20, 1), false, false).unwrap();
        target.settle().unwrap();
        let before = target.counters().unwrap().vdev.read_bytes;
        let mut buf = vec![0; piece];
        for at in (0..16 * record).step_by(piece) {
            assert_eq!(target.read(0, at as u64, &mut buf, true).unwrap(), piece);
        }
        let read = (target.counters().unwrap().vdev.read_bytes - before) as usize;
        println!("direct={property}: {read} bytes for {}", 16 * record);
        assert_eq!((read + record) / (16 * record), times, "direct={property}: {read} bytes");
    }
}

#[test]
fn a_directory_conforms() {
    let scratch = tempfile::tempdir().unwrap();
    let target = Directory::create(scratch.path(), 2).unwrap();
    conforms(&target);
    drop(target);
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
}

/// Runs in the virtual machine of `scripts/test-kernel.sh trials`: the variable names a dataset of the kernel.
#[test]
fn a_pool_of_the_kernel_conforms() {
    let Ok(parent) = std::env::var("POOLWRIGHT_TEST_DATASET") else {
        eprintln!("skipped: POOLWRIGHT_TEST_DATASET names no dataset of the kernel");
        return;
    };
    let mounts = tempfile::tempdir().unwrap();
    let options = KernelPoolOptions {
        parent: parent.clone(),
        mount_dir: mounts.path().to_owned(),
        properties: poolwright_openzfs::property::defaults(),
        quota: 256 << 20,
        fill_rate: Some(1 << 30),
        latency_limit_ns: u64::MAX,
    };
    let data = [("recordsize".to_string(), "16K".to_string())].into();
    let settings = BTreeMap::from([(Role::Data, data)]);
    let _destroyed = Destroyed(format!("{parent}/poolwright-trial-{}", std::process::id()));
    let target = KernelPoolTarget::create(&options, &[Role::Data, Role::Wal], &settings).unwrap();
    conforms(&target);
    let counters = target.counters().unwrap();
    assert!(
        counters.vdev.write_bytes > 0 && counters.zil.commits > 0 && counters.arc.max > 0,
        "{counters:?}"
    );
    assert_eq!(target.allocated_by_role().unwrap().keys().collect::<Vec<_>>(), [&Role::Data, &Role::Wal]);
    // A write over the quota fails and is reported. The bytes do not compress.
    let mut state = 1u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    let random: Vec<u8> = (0..8 << 20).map(|_| next()).collect();
    let full = (0..40).map(|i| target.write(0, i << 23, &random, true, false)).find_map(Result::err);
    let full = full.map(|why| why.to_string());
    assert!(full.as_ref().is_some_and(|why| why.contains("quota")), "{full:?}");
}

/// Destroys the datasets of a trial, also if the test fails.
struct Destroyed(String);

impl Drop for Destroyed {
    fn drop(&mut self) {
        let status = std::process::Command::new("zfs").args(["destroy", "-r", &self.0]).status();
        assert!(status.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}
