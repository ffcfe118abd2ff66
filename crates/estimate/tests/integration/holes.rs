//! Files with holes, and files that vanish.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::common::{content, engine, mixed, rng};
use poolwright_estimate::{Ended, Estimate, Input, Method, Options, estimate};

const MIB: u64 = 1 << 20;

fn options(full: bool) -> Options {
    Options {
        recordsizes: vec![16 << 10, 128 << 10],
        compressions: ["off", "lz4"].map(str::to_owned).into(),
        ashifts: vec![12],
        full,
        within: 0.05,
        time_limit: None,
        exact_below: 0,
        ..Options::default()
    }
}

fn run(input: &Input, full: bool, progress: &mut dyn FnMut()) -> Estimate {
    engine();
    estimate(input, &options(full), &mut |_| progress()).unwrap()
}

/// A file of 1T with `pieces` of 512K each, at equal distances.
fn sparse_file(path: &Path, pieces: u64) {
    let file = fs::File::create(path).unwrap();
    file.set_len(1 << 40).unwrap();
    let content = mixed(8 << 20, 40_000, 3);
    for i in 0..pieces {
        let at = (1u64 << 40) / pieces * i / MIB * MIB + 40 * 1024;
        let from = (i % 15) as usize * (512 << 10);
        file.write_all_at(&content[from..from + (512 << 10)], at).unwrap();
    }
    file.sync_all().unwrap();
}

#[test]
fn holes_are_neither_read_nor_sampled() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("map");
    sparse_file(&path, 100);
    let input = Input::paths(&[path]).unwrap();
    let exact = run(&input, true, &mut || {});
    assert_eq!((exact.logical_bytes, exact.data_bytes), (1 << 40, 50 * MIB));
    assert_eq!(exact.sampled_bytes, exact.data_bytes);
    let sampled = run(&input, false, &mut || {});
    assert_eq!((sampled.method, sampled.ended), (Method::Sampled, Ended::Done));
    assert!(sampled.achieved <= 0.05, "{}", sampled.achieved);
    for (cell, exact) in sampled.cells.iter().zip(&exact.cells) {
        let [low, high] = cell.ratio_ci95;
        // The interval holds in 95 of 100 cases; three times its width in all.
        let slack = (high - low).max(0.0);
        assert!(low - slack <= exact.ratio && exact.ratio <= high + slack, "{cell:?} {exact:?}");
    }
    // 512K that begin within a record of 128K touch 5 of them.
    let off = |recordsize| sampled.cell(recordsize, "off", 12).unwrap().allocated_bytes;
    assert_eq!((off(16 << 10), off(128 << 10)), (100 * 33 * (16 << 10), 100 * 5 * (128 << 10)));
}

#[test]
fn a_file_of_one_hole_takes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("empty map");
    fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    let found = run(&Input::paths(&[path]).unwrap(), false, &mut || {});
    assert_eq!((found.data_bytes, found.sampled_bytes), (0, 0));
    assert!(found.cells.iter().all(|cell| cell.total_bytes == 0), "{found:?}");
}

#[test]
fn a_preallocated_file_has_no_data() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("preallocated");
    let file = fs::File::create(&path).unwrap();
    if rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 64 * MIB).is_err() {
        return println!("skipped: the file system cannot preallocate");
    }
    file.write_all_at(&content(2, 1 << 20, &mut rng(2)), 32 * MIB).unwrap();
    file.sync_all().unwrap();
    let found = run(&Input::paths(&[path]).unwrap(), true, &mut || {});
    // tmpfs allocates zeroed pages and reports them as data.
    if found.data_bytes < found.logical_bytes {
        assert_eq!(found.data_bytes, MIB);
        assert_eq!(found.cell(128 << 10, "off", 12).unwrap().allocated_bytes, MIB);
    }
}

/// Two files of different contents, of which one is changed by `vanish` before the estimate, or while it runs.
fn without_second(full: bool, at_once: bool, vanish: fn(&Path)) {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("a"), mixed(8 << 20, 40_000, 1)).unwrap();
    let exact = run(&Input::paths(&[path("a")]).unwrap(), true, &mut || {});
    fs::write(path("b"), content(0, 8 << 20, &mut rng(2))).unwrap();
    let input = Input::paths(&[dir.path().to_owned()]).unwrap();
    assert_eq!(input.len(), 2);
    let mut is_there = true;
    let mut once = || {
        if std::mem::take(&mut is_there) {
            vanish(&path("b"));
        }
    };
    if at_once {
        once();
    }
    let found = run(&input, full, &mut once);
    let names: Vec<_> = found.skipped.iter().map(|skipped| skipped.path.clone()).collect();
    assert_eq!(names, [path("b")], "full={full}");
    assert_eq!((found.files, found.logical_bytes), (1, 8 << 20));
    for (cell, exact) in found.cells.iter().zip(&exact.cells) {
        let tolerance = if full { 0.0 } else { 0.1 * exact.ratio };
        assert!((cell.ratio - exact.ratio).abs() <= tolerance, "full={full}: {cell:?} {exact:?}");
    }
}

#[test]
fn a_file_that_vanishes_is_left_out_and_named() {
    for full in [false, true] {
        without_second(full, true, |path| fs::remove_file(path).unwrap());
    }
    without_second(false, false, |path| fs::remove_file(path).unwrap());
}

#[test]
fn a_file_that_cannot_be_read_is_left_out_and_named() {
    for full in [false, true] {
        // A directory can be opened, but not read.
        without_second(full, true, |path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        });
    }
}

#[test]
fn an_input_that_vanishes_as_a_whole_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sort.0");
    for full in [false, true] {
        fs::write(&path, vec![1; 100_000]).unwrap();
        let input = Input::paths(std::slice::from_ref(&path)).unwrap();
        fs::remove_file(&path).unwrap();
        engine();
        let error = estimate(&input, &options(full), &mut |_| {}).unwrap_err().to_string();
        assert!(error.contains("sort.0 cannot be read: No such file"), "{error}");
    }
}
