//! Counts how often the 95 % interval of a sampled estimate contains the result of a full estimate.
//!
//! `estimate-coverage DIR [SEEDS] [MIB]` makes sets of files of different mixes in DIR, and estimates each in full once and
//! from SEEDS samples. It prints one line of JSON for each mix: how many intervals contained the full result, for the worst
//! cell and for all cells together.

use std::fs;
use std::path::{Path, PathBuf};

use poolwright_estimate::{Estimate, Input, Options, estimate};
use rand::RngExt as _;

/// As in the program, so that the same code is measured.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[path = "../../../estimate/tests/integration/common/mod.rs"]
#[allow(dead_code)] // the functions of its tests
mod common;

type Make = fn(&Path, usize);

const MIXES: &[(&str, Make)] = &[
    ("stretches of six kinds in few files", stretches),
    ("noise with one place in fifty of zeros", rare_zeros),
    ("text with one place in fifty of noise", rare_noise),
    ("thousands of small files", small_files),
    ("one large file of a kind and many of another", lopsided),
    ("database pages filled to different degrees", pages),
];

fn stretches(dir: &Path, len: usize) {
    for i in 0..4 {
        common::file(dir, &format!("f{i}"), &common::mixed(len / 4, 3 << 20, i));
    }
}

/// Generates content of kind `usual`, with 256K of kind `rare` in one of fifty places.
fn rare(dir: &Path, len: usize, usual: u8, rare: u8) {
    let mut rng = common::rng(9);
    let mut out = Vec::with_capacity(len);
    while out.len() < len {
        let kind = if rng.random_range(0..50) == 0 { rare } else { usual };
        out.extend(common::content(kind, 256 << 10, &mut rng));
    }
    common::file(dir, "data", &out);
}

fn rare_zeros(dir: &Path, len: usize) {
    rare(dir, len, 0, 1);
}

fn rare_noise(dir: &Path, len: usize) {
    rare(dir, len, 2, 0);
}

fn small_files(dir: &Path, len: usize) {
    let mut rng = common::rng(4);
    let mut done = 0;
    while done < len {
        let n = (rng.random::<f64>().powi(4) * 400_000.0) as usize + 1;
        let kind = rng.random_range(0..6);
        common::file(dir, &format!("{done:012}"), &common::content(kind, n, &mut rng));
        done += n;
    }
}

fn lopsided(dir: &Path, len: usize) {
    let mut rng = common::rng(5);
    common::file(dir, "large", &common::content(0, len * 7 / 10, &mut rng));
    for i in 0..10 {
        common::file(dir, &format!("part{i}"), &common::content(2 + i % 2, len * 3 / 100, &mut rng));
    }
}

fn pages(dir: &Path, len: usize) {
    let mut rng = common::rng(6);
    let mut out = Vec::with_capacity(len);
    let mut fullness = 0.7;
    while out.len() < len {
        if rng.random_range(0..500) == 0 {
            fullness = rng.random::<f64>();
        }
        let used = ((fullness + 0.3 * (rng.random::<f64>() - 0.5)).clamp(0.02, 1.0) * 16384.0) as usize;
        let kind = if rng.random_range(0..4) == 0 { 4 } else { 3 };
        out.extend(common::content(kind, used, &mut rng));
        out.resize(out.len().next_multiple_of(16384), 0);
    }
    common::file(dir, "table.ibd", &out);
}

fn run(dir: &Path, options: &Options) -> Estimate {
    let input = Input::paths(&[dir.to_owned()]).expect("the files were just made");
    estimate(&input, options, &mut |_| {}).expect("estimating")
}

fn show(sample: &Estimate) {
    for c in &sample.cells {
        eprintln!(
            "{} {} {} {:.4} ±{:.4} draws {}",
            c.recordsize,
            c.compression,
            c.ashift,
            c.ratio,
            c.error(),
            c.draws
        );
    }
    eprintln!("{} places {:?} {:.2} s", sample.places, sample.ended, sample.seconds);
}

/// Compares samples of a directory with its full estimate, and prints the line of its mix.
fn report(name: &str, dir: &Path, seeds: usize, options: &Options) {
    let truth = run(dir, options);
    let mut held = vec![0; truth.cells.len()];
    let (mut seconds, mut places, mut width, mut narrow) = (0.0, 0, 0.0, 0);
    for seed in 0..seeds {
        let sample = run(dir, &Options { full: false, seed: seed as u64, ..options.clone() });
        for ((held, cell), truth) in held.iter_mut().zip(&sample.cells).zip(&truth.cells) {
            *held += usize::from(cell.ratio_ci95[0] <= truth.ratio && truth.ratio <= cell.ratio_ci95[1]);
        }
        if std::env::var("SHOW").is_ok() {
            show(&sample);
        }
        seconds += sample.seconds / seeds as f64;
        places += sample.places as usize;
        width += sample.achieved / seeds as f64;
        narrow += usize::from(sample.achieved <= sample.within);
    }
    let sampled: Vec<_> = held.iter().zip(&truth.cells).collect();
    let (worst, cell) = sampled.iter().min_by_key(|(h, _)| **h).expect("there are cells");
    let mean = sampled.iter().map(|(h, _)| **h).sum::<usize>() as f64 / sampled.len() as f64;
    println!(
        "{{\"mix\":\"{name}\",\"seeds\":{seeds},\"worst_cell\":\"{} {} {}\",\"held_worst\":{worst},\"held_mean\":{mean:.1},\
         \"within\":{:.4},\"narrow\":{narrow},\"places\":{},\"seconds\":{seconds:.2},\"full_seconds\":{:.2}}}",
        cell.recordsize,
        cell.compression,
        cell.ashift,
        width,
        places / seeds,
        truth.seconds
    );
}

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().expect("usage: estimate-coverage DIR [SEEDS] [MIB] [MIX]"));
    let number = |text: Option<String>, or: usize| text.map_or(or, |t| t.parse().expect("a number"));
    let seeds = number(args.next(), 200);
    let len = number(args.next(), 256) << 20;
    let only = args.next();
    let options = Options {
        recordsizes: vec![16 << 10, 128 << 10],
        compressions: ["lz4", "zstd-3", "gzip-6"].map(str::to_owned).to_vec(),
        ashifts: vec![12],
        full: true,
        exact_below: 0,
        within: std::env::var("WITHIN").map_or(0.04, |w| w.parse().expect("a fraction")),
        ..Options::default()
    };
    for (name, make) in MIXES.iter().filter(|(n, _)| only.as_ref().is_none_or(|o| n.contains(o.as_str()))) {
        let dir = dir.join("mix");
        fs::create_dir_all(&dir).expect("create the directory");
        make(&dir, len);
        report(name, &dir, seeds, &options);
        fs::remove_dir_all(&dir).expect("remove the directory");
    }
}
