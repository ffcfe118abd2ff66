//! The rate of the models alone, without the reading of a trace; for `scripts/bench/90-mrc.sh`.
//!
//! usage: mrc-rate TRACE MODEL SIZES ROUNDS
//!
//! Reads the trace into memory, then, ROUNDS times, cuts it into records, numbers them and shows them to `lru` (on one
//! core) or `arc` (on all) of the comma-separated SIZES in bytes. Prints a JSON line a round, for `lru` with its processor
//! time too: on a shared machine, use the latter.

use std::path::Path;
use std::time::Instant;

use poolwright_mrc::arc::Arc;
use poolwright_mrc::input::{self, Select};
use poolwright_mrc::{Access, Key, Lru, Model, RecordStream, Run};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, trace, model, sizes, rounds] = arguments.as_slice() else {
        eprintln!("usage: mrc-rate TRACE lru|arc SIZES ROUNDS");
        std::process::exit(2);
    };
    let sizes: Vec<u64> = sizes.split(',').map(|size| size.parse().expect("a size in bytes")).collect();
    let mut input = input::open(Path::new(trace), None, &Select::default()).expect("a trace");
    let (mut all, mut extents) = (Vec::new(), Vec::new());
    loop {
        input.read(&mut extents).expect("a trace that can be read");
        if extents.is_empty() {
            break;
        }
        all.push(std::mem::take(&mut extents));
    }
    for _ in 0..rounds.parse().expect("a number of rounds") {
        let mut lru = Lru::new(&sizes);
        let mut arcs = Run::default();
        arcs.add("arc", sizes.iter().map(|size| Box::new(Arc::new(*size)) as Box<dyn Model>).collect());
        let mut show = |accesses: &[Access], keys: &[Key]| {
            match model.as_str() {
                "lru" => lru.feed(accesses, keys),
                _ => arcs.feed(accesses, keys),
            }
            Ok(())
        };
        let (start, before) = (Instant::now(), processor_seconds());
        let mut stream = RecordStream::new(input.unit(), None).expect("a stream");
        for extents in &all {
            stream.each(extents, &mut show).expect("records");
        }
        let seconds = start.elapsed().as_secs_f64();
        let cpu_seconds = (model == "lru").then(|| processor_seconds() - before);
        println!(
            "{}",
            serde_json::json!({ "requests": stream.requests(), "seconds": seconds, "cpu_seconds": cpu_seconds })
        );
    }
}

/// What this thread has had of the processor (`Documentation/scheduler/sched-stats.rst`: nanoseconds on it come first).
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a kernel with schedstat");
    let nanoseconds: u64 = stat.split(' ').next().and_then(|n| n.parse().ok()).expect("nanoseconds");
    nanoseconds as f64 / 1e9
}
