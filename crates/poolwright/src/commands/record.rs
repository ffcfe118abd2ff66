//! `poolwright record`: records a live database's file I/O, or the I/O of a volume.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use indicatif::ProgressBar;
use poolwright_base::quoted;
use poolwright_record::{BlockDevice, Options, Progress, Recorder, RecordingSummary, Subject};
use poolwright_replay::codec_times;
use poolwright_trace::Writer;

use super::options::{parse_size, parse_time};
use crate::failure::hint;
use crate::{interrupt, progress_line};

/// Record a live database's file I/O, or the I/O of a volume, into a trace
///
/// Needs root, or CAP_BPF and CAP_PERFMON. Without these privileges, use `poolwright trace import` to convert a log of fio, or
/// `poolwright mount --record` to record a mount of the user-space engine.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("subject").required(true))]
pub struct Args {
    /// Record the I/O of all processes on the files below this directory
    #[arg(long, value_name = "DIR", group = "subject")]
    dir: Option<PathBuf>,

    /// Record the I/O of this process and its children on all files
    #[arg(long, value_name = "PID", group = "subject", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,

    /// Record the I/O that reaches this volume, POOL/VOLUME, or this block device, a path such as /dev/zd0. The trace shows what the file
    /// system on it, or the virtual machine, reads and writes below its page cache, as operations on one file
    #[arg(long, value_name = "VOLUME", group = "subject")]
    zvol: Option<PathBuf>,

    /// Stop after this time, such as 60s, 5m or 1h [default: at Ctrl-C, or when the process ends]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    duration: Option<Duration>,

    /// The trace to write. An existing recording of that name is not overwritten
    #[arg(short, long, value_name = "TRACE")]
    output: PathBuf,

    /// Replace an existing recording of that name when the first event arrives
    #[arg(long)]
    force: bool,

    /// Size of the buffer between the kernel and the recorder. A larger buffer loses fewer events in a burst
    #[arg(long, value_name = "SIZE", default_value = "32M", value_parser = parse_buffer)]
    buffer: u64,

    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Returns the subject that the options name, of which clap requires one.
pub(super) fn subject(
    dir: Option<&Path>,
    pid: Option<u32>,
    zvol: Option<&Path>,
) -> poolwright_record::Result<Subject> {
    Ok(match (dir, pid, zvol) {
        (Some(dir), ..) => Subject::Dir(dir.to_owned()),
        (_, Some(pid), _) => Subject::Pid(pid),
        (.., Some(volume)) => Subject::Device(BlockDevice::find(volume)?),
        (None, None, None) => unreachable!("clap requires one of them"),
    })
}

/// Runs the verb; returns the exit code.
///
/// # Errors
/// If the recorder cannot start or the trace cannot be written.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let stop = interrupt::watch().context("cannot watch for Ctrl-C")?;
    let subject = subject(args.dir.as_deref(), args.pid, args.zvol.as_deref())?;
    if !args.force {
        Writer::refuse_recording(&args.output)
            .map_err(|why| with_recording_hint(why, "choose another name, or replace it with --force"))?;
    }
    let what = subject.describe();
    let mut options = Options::new(&args.output);
    options.ring_bytes = args.buffer;
    options.codec_times = Some(codec_times::measure);
    let recorder = Recorder::start(subject.clone(), &options)?;
    let bar = bar(args.duration, &what);
    let end = args.duration.map(|duration| Instant::now() + duration);
    let until = || stop.load(Ordering::Relaxed) || end.is_some_and(|end| Instant::now() >= end);
    let summary = recorder.run(until, |progress| show(&bar, progress))?;
    bar.finish_and_clear();

    if args.json {
        println!("{}", serde_json::to_string(&RecordingSummary::from(&summary))?);
    } else if summary.trace.events > 0 {
        print!("{}", summary.text());
    }
    if summary.trace.events == 0 {
        let cause = match &subject {
            Subject::Dir(dir) => format!("no process used a file in {}", quoted(dir)),
            Subject::Pid(pid) => format!("process {pid} used no file"),
            Subject::Device(device) => format!("no request reached {}", quoted(device.path())),
        };
        eprintln!(
            "poolwright: nothing was recorded: {cause}\n\
             hint: check the directory, process or volume, and run a load during the recording"
        );
        return Ok(1);
    }
    Ok(0)
}

/// Adds what to do if a path holds an earlier recording.
pub(super) fn with_recording_hint(error: poolwright_trace::Error, todo: &str) -> anyhow::Error {
    let is_recorded = matches!(error, poolwright_trace::Error::Recorded(_));
    let error = anyhow::Error::from(error);
    if is_recorded { error.context(hint(todo)) } else { error }
}

pub(super) fn parse_buffer(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if (64 << 10..=1 << 30).contains(&bytes) { Ok(bytes) } else { Err("use 64K to 1G".to_owned()) }
}

pub(super) fn bar(duration: Option<Duration>, what: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = match duration {
        Some(_) => "recording {prefix} {bar:24} {msg}",
        None => "{spinner} recording {prefix} {msg}",
    };
    progress_line::bar(duration.map(|d| d.as_millis() as u64), template).with_prefix(what.to_owned())
}

pub(super) fn show(bar: &ProgressBar, progress: &Progress) {
    bar.set_position(progress.elapsed.as_millis() as u64);
    bar.set_message(progress.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_bounded() {
        assert_eq!(parse_buffer("64K"), Ok(64 << 10));
        assert!(parse_buffer("4K").is_err());
        assert!(parse_buffer("2G").is_err());
        assert!(parse_buffer("many").is_err());
    }
}
