//! Makes a data set for the estimator. `estimate-generate DIR GIB` writes GIB files of 1 GiB each, with what a database's
//! directory contains: tables of pages filled to different degrees, indexes, text logs, compressed blobs, and some empty pages.
//! The files are flushed to disk and dropped from the page cache.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;

use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

#[path = "../../../estimate/tests/integration/common/mod.rs"]
#[allow(dead_code)] // the functions of its tests
mod common;

/// Generates one megabyte of a table: 16K pages of rows with some words in them; the rest of the page is empty.
fn table(rng: &mut ChaCha8Rng, fullness: f64, out: &mut Vec<u8>) {
    for _ in 0..64 {
        let end = out.len() + 16384;
        let used = ((fullness + 0.2 * (rng.random::<f64>() - 0.5)).clamp(0.1, 1.0) * 16384.0) as usize;
        let kind = 2 + rng.random_range(0..2u8);
        out.extend(common::content(kind, used * 2 / 3, rng));
        out.extend(common::content(4, used / 3, rng));
        out.resize(end, 0);
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().expect("usage: estimate-generate DIR GIB"));
    let gib: u64 = args.next().and_then(|n| n.parse().ok()).expect("usage: estimate-generate DIR GIB");
    fs::create_dir_all(&dir).expect("create the directory");
    for i in 0..gib {
        let mut rng = common::rng(i);
        let kind = [3u8, 3, 3, 3, 3, 3, 2, 0, 3, 4][i as usize % 10];
        let fullness = 0.5 + 0.05 * (i % 10) as f64;
        let mut file = File::create(dir.join(format!("file{i:03}"))).expect("create a file");
        let mut out = Vec::with_capacity(1 << 20);
        for m in 0..1024 {
            out.clear();
            match kind {
                3 if m > 900 && i % 3 == 0 => out.resize(1 << 20, 0),
                3 => table(&mut rng, fullness, &mut out),
                other => out.extend(common::content(other, 1 << 20, &mut rng)),
            }
            file.write_all(&out).expect("writing");
        }
        file.sync_all().expect("syncing");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)
            .expect("dropping from the page cache");
    }
}
