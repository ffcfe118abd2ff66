//! Compares the speed of a full estimate with that of a bare loop of the same codecs over the same bytes, both on all cores.
//!
//! `estimate-speed FILE [RUNS]` runs both RUNS times in turn, with one ashift, and prints one line of JSON for each run and a
//! last line with the medians. Bytes count once for each recordsize and codec. The bare loop reads 1 MiB at a time, as the
//! estimate does, and only compresses each record.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use poolwright_estimate::{Input, Options, estimate};
use poolwright_openzfs::codec::Codec;
use poolwright_openzfs::{Compression, Config, Engine, Geometry};

/// As in the program, so that the same code is measured.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const STRETCH: u64 = 1 << 20;

fn bare(engine: Engine, path: &Path, options: &Options) {
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
}

/// Returns the CPU time of this process so far in seconds, the fairer measure on a machine with other load.
fn processor() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let after_name = stat.rsplit(')').next().expect("a name in parentheses");
    // utime and stime are fields 14 and 15, in ticks of 10 ms (proc(5))
    after_name.split_whitespace().skip(11).take(2).map(|t| t.parse::<f64>().expect("ticks") / 100.0).sum()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut args = std::env::args().skip(1);
    let path = PathBuf::from(args.next().expect("usage: estimate-speed FILE [RUNS]"));
    let runs: usize = args.next().map_or(5, |n| n.parse().expect("a number"));
    let engine =
        Engine::start(&Config { arc_bytes: 64 << 20, ..Config::default() }).expect("starting the engine");
    let options = Options { full: true, ashifts: vec![12], ..Options::default() };
    let input = Input::paths(std::slice::from_ref(&path)).expect("a file");
    let pairs = options.recordsizes.len() * (options.compressions.len() - 1);
    let mib = (input.logical_bytes() / STRETCH * pairs as u64) as f64;
    let mut lines: Vec<[f64; 4]> = Vec::new();
    for run in 0..runs {
        let timed = |work: &dyn Fn()| {
            let (began, used) = (Instant::now(), processor());
            work();
            (mib / began.elapsed().as_secs_f64(), mib / (processor() - used))
        };
        let estimated = || timed(&|| drop(estimate(&input, &options, &mut |_| {}).expect("estimating")));
        let plain = || timed(&|| bare(engine, &path, &options));
        // Alternate the order, because the first run may affect the second.
        let (e, b) = if run % 2 == 0 {
            let e = estimated();
            (e, plain())
        } else {
            let b = plain();
            (estimated(), b)
        };
        lines.push([e.0, b.0, e.0 / b.0, e.1 / b.1]);
        print(lines[run]);
    }
    print(std::array::from_fn(|i| median(lines.iter().map(|l| l[i]).collect())));
}

fn print([ours, theirs, ratio, processor]: [f64; 4]) {
    println!(
        "{{\"estimate_mib_s\":{ours:.1},\"bare_mib_s\":{theirs:.1},\"ratio\":{ratio:.3},\"processor_ratio\":{processor:.3}}}"
    );
}
