//! Records for some seconds and counts operations by file, kind, flags and length: `record-count DIR|PID SECONDS OUT`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use poolwright_record::{Options, Recorder, Subject};
use poolwright_trace::Trace;
use poolwright_trace::layout::Role;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [subject, seconds, out] = args.as_slice() else {
        return Err("usage: record-count DIR|PID SECONDS OUT".into());
    };
    let subject = subject.parse().map_or_else(|_| Subject::Dir(subject.into()), Subject::Pid);
    let recorder = Recorder::start(subject, &Options::new(out))?;
    let end = Instant::now() + Duration::from_secs_f64(seconds.parse()?);
    let summary = recorder.run(|| Instant::now() >= end, |_| {})?;
    println!("{summary:#?}");

    let trace = Trace::load(out)?;
    let mut counts = BTreeMap::new();
    for event in &trace.events {
        let file = &trace.files[event.file as usize];
        let key = (file.path.as_str(), file.role.map_or("", Role::name), event.op.name(), event.flags.0);
        let (events, bytes) = counts.entry(key).or_insert((0u64, 0u64));
        *events += 1;
        *bytes += event.len;
    }
    for ((path, role, op, flags), (events, bytes)) in counts {
        println!("{events:>9} {op:<9} {bytes:>12} bytes, flags {flags:<2} {role:<7} {path}");
    }
    Ok(())
}
