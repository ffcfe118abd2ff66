//! A full estimate beside a bare loop of the same codecs over the same bytes on all cores.
//!
//! `speed FILE [RUNS]` runs both RUNS times in turn, on one ashift, and prints one JSON line per run and one with the
//! medians. Bytes count once per recordsize and codec. The bare loop reads as the estimate does, 1 MiB at a time, and
//! does nothing with a record but compress it.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use poolwright_estimate::{Input, Options, estimate};
use poolwright_openzfs::codec::Codec;
use poolwright_openzfs::{Compression, Config, Engine, Geometry};

const STRETCH: u64 = 1 << 20;

fn bare(engine: Engine, path: &Path, options: &Options) -> f64 {
    let began = Instant::now();
    let next = AtomicU64::new(0);
    let geometry = Geometry::plain(options.ashifts[0]);
    let codecs: Vec<Compression> =
        options.compressions.iter().map(|c| Compression::parse(c).expect("a codec")).collect();
    let thread = || {
        let file = File::open(path).expect("opening");
        let len = file.metadata().expect("looking at").len() / STRETCH * STRETCH;
        let mut codecs: Vec<Codec> = codecs.iter().map(|c| Codec::new(engine, c, STRETCH as usize)).collect();
        let mut buf = vec![0; STRETCH as usize];
        loop {
            let at = next.fetch_add(STRETCH, Ordering::Relaxed);
            if at >= len {
                return;
            }
            file.read_exact_at(&mut buf, at).expect("reading");
            for recordsize in &options.recordsizes {
                for codec in &mut codecs {
                    for record in buf.chunks_exact(*recordsize as usize) {
                        std::hint::black_box(codec.store(record, &geometry).expect("compressing"));
                    }
                }
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(thread))));
    began.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut args = std::env::args().skip(1);
    let path = PathBuf::from(args.next().expect("usage: speed FILE [RUNS]"));
    let runs: usize = args.next().map_or(5, |n| n.parse().expect("a number"));
    let engine = Engine::start(&Config { arc_bytes: 64 << 20, ..Config::default() });
    let options = Options { full: true, ashifts: vec![12], ..Options::default() };
    let input = Input::paths(std::slice::from_ref(&path)).expect("a file");
    let pairs = options.recordsizes.len() * (options.compressions.len() - 1);
    let mib = (input.logical_bytes() / STRETCH * pairs as u64) as f64;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for run in 0..runs {
        let estimated = || {
            let began = Instant::now();
            estimate(&input, &options, &mut |_| {}).expect("estimating");
            began.elapsed().as_secs_f64()
        };
        // whichever comes first finds another machine than the one that comes second
        let (e, b) = if run % 2 == 0 {
            let e = estimated();
            (e, bare(engine, &path, &options))
        } else {
            let b = bare(engine, &path, &options);
            (estimated(), b)
        };
        println!(
            "{{\"run\":{run},\"estimate_mib_s\":{:.1},\"bare_mib_s\":{:.1},\"ratio\":{:.3}}}",
            mib / e,
            mib / b,
            b / e
        );
        ours.push(mib / e);
        theirs.push(mib / b);
    }
    let ratio = median(ours.iter().zip(&theirs).map(|(o, t)| o / t).collect());
    println!(
        "{{\"estimate_mib_s\":{:.1},\"bare_mib_s\":{:.1},\"ratio\":{ratio:.3}}}",
        median(ours),
        median(theirs)
    );
}
