//! Records a directory for some seconds and prints the events: `record DIR SECONDS OUT`.
use std::time::{Duration, Instant};

use poolwright_record::{Options, Recorder, Subject};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [subject, seconds, out] = args.as_slice() else {
        return Err("usage: record DIR|PID SECONDS OUT".into());
    };
    let subject = subject.parse().map_or_else(|_| Subject::Dir(subject.into()), Subject::Pid);
    let recorder = Recorder::start(subject, &Options::new(out))?;
    let end = Instant::now() + Duration::from_secs_f64(seconds.parse()?);
    let summary = recorder.run(|| Instant::now() >= end, |_| {})?;
    println!("{summary:#?}");
    let trace = poolwright_trace::Trace::load(out)?;
    for event in trace.events.iter().take(60) {
        println!("{event:?}");
    }
    println!("{:#?}", trace.files);
    Ok(())
}
