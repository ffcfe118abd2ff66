//! `poolwright mrc`: miss-ratio curves.

mod bar;
mod error;
mod live;
mod page;
mod parse;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::builder::PossibleValuesParser;
use poolwright_base::Exit;
use poolwright_mrc::analysis::{
    Divided, Ended, ModelName, MrcRequest, MrcResult, RatioSource, TraceFile, analyze,
};
use poolwright_mrc::input::{Direct, Format, Select};
use poolwright_mrc::openzfs::PrimaryCache;
use poolwright_mrc::sample::Amount;
use poolwright_render::mrc_text::{self, Run};
use poolwright_trace::layout::Role;

use super::options::{check_trace, parse_size, parse_time};
use super::record::parse_buffer;
use crate::interrupt;
use crate::output::{self, Force, Output};
use bar::Bar;
use error::with_option;

/// Draw miss-ratio curves: how much cache a database needs
///
/// Simulates caches of many sizes in one pass over a trace. The trace is one of Poolwright's, or a .lis or oracleGeneral file (plain or
/// compressed with zstd). With --dir, --pid or --zvol, records the running database or volume instead, and writes no
/// trace.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("source").required(true))]
pub struct Args {
    /// The trace
    #[arg(value_name = "FILE", group = "source")]
    file: Option<PathBuf>,

    /// Record the I/O on every file below this directory, and pass it directly to the models
    #[arg(long, value_name = "DIR", group = "source")]
    dir: Option<PathBuf>,

    /// Record the I/O of this process and its children, and pass it directly to the models
    #[arg(long, value_name = "PID", group = "source", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,

    /// Record the I/O that reaches this volume, POOL/VOLUME, or this block device, a path such as /dev/zd0, and pass it directly to the models
    #[arg(long, value_name = "VOLUME", group = "source")]
    zvol: Option<PathBuf>,

    /// With --dir, --pid or --zvol: stop after this time. Default: at Ctrl-C, or when the process ends
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time, conflicts_with = "file")]
    duration: Option<Duration>,

    /// With --dir, --pid or --zvol: size of the buffer between the kernel and the recorder
    #[arg(long, value_name = "SIZE", default_value = "32M", value_parser = parse_buffer, conflicts_with = "file")]
    buffer: u64,

    /// Format of the file. Default: detected from its first bytes and its name
    #[arg(long, value_parser = PossibleValuesParser::new(Format::ALL.map(Format::name)), conflicts_with_all = ["dir", "pid", "zvol"])]
    format: Option<String>,

    /// Models of the cache
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', default_value = "openzfs", value_parser = parse::models())]
    model: Vec<ModelName>,

    /// Cache sizes, such as 512M or 4G: at least 64M for openzfs, at least one record for lru and arc. Default: up to 16 sizes,
    /// the largest of which holds every record of the trace
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = parse::cache)]
    sizes: Vec<u64>,

    /// Recordsizes, each with its own curves. Default: 128K, or the page size of a .lis trace (512)
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = parse::recordsize)]
    recordsize: Vec<u64>,

    /// Compression ratio of the cached records, such as 1.5 (`zfs get compressratio` shows it)
    #[arg(long, value_name = "RATIO", default_value = "1", value_parser = parse::ratio)]
    compress_ratio: f64,

    /// Take the compression ratio of each recordsize from this file, the output of `poolwright estimate --json`
    #[arg(long, value_name = "FILE", conflicts_with = "compress_ratio")]
    estimate: Option<PathBuf>,

    /// Take the ratios of this compression, if the estimate has several
    #[arg(long, value_name = "VALUE", requires = "estimate")]
    compression: Option<String>,

    /// Sector size of the pool as a power of two; a compressed record takes whole sectors
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(9..=16))]
    ashift: u32,

    /// What the ARC caches: all, metadata or none (model openzfs only)
    #[arg(long, value_name = "VALUE", default_value = "all", value_parser = parse::primarycache)]
    primarycache: PrimaryCache,

    /// Whether reads bypass the ARC: standard, page-aligned ones with O_DIRECT do (OpenZFS since 2.3); always, all page-aligned ones
    /// do; disabled, none does
    #[arg(long, value_name = "VALUE", default_value = "standard", value_parser = parse::direct())]
    direct: Direct,

    /// Size of the L2ARC behind each cache (model openzfs only)
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    l2arc: Option<u64>,

    /// Do not prefetch for sequential reads, as with zfs_prefetch_disable=1 (model openzfs only)
    #[arg(long)]
    no_prefetch: bool,

    /// Requests per second in a trace without times (model openzfs only). Default: the second use of a record always counts
    /// as frequent use, however soon it follows the first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    requests_per_second: Option<u32>,

    /// Model only this share of the records, such as 0.01 or 1%, and print a confidence interval for every point
    #[arg(long, value_name = "RATE", value_parser = parse::rate)]
    sample: Option<f64>,

    /// Model as large a share of the records as fits into this much memory
    #[arg(long, value_name = "SIZE", value_parser = parse::memory, conflicts_with = "sample")]
    sample_memory: Option<u64>,

    /// Seed of the sample; another seed selects other records
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..1 << 53))]
    seed: u64,

    /// Only files of these roles, as `trace show` prints them
    #[arg(long, value_name = "ROLE,…", value_delimiter = ',')]
    role: Vec<Role>,

    /// Only this file, or the files below this directory; repeatable
    #[arg(long, value_name = "PATH")]
    path: Vec<PathBuf>,

    /// Latency of a read from the device, to compute the waiting time that more memory saves: 8ms, 80us, or the name of a device profile,
    /// for its latency (nvme, sata-ssd, hdd, sas-15k, san, ebs-gp3)
    #[arg(long, value_name = "TIME", value_parser = parse::latency)]
    miss_latency: Option<u64>,

    /// Find the best division of this much memory between the database's own cache and the ARC. The trace must contain the requests to the
    /// database's cache (.lis, oracleGeneral)
    #[arg(long, value_name = "SIZE", value_parser = parse::cache,
          conflicts_with_all = ["dir", "pid", "zvol", "sample", "sample_memory"])]
    split: Option<u64>,

    /// Write a report to this file, one self-contained HTML page
    #[arg(short = 'o', long, value_name = "FILE")]
    report: Option<PathBuf>,

    #[command(flatten)]
    force: Force,

    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
}

impl Args {
    fn request(&self) -> MrcRequest {
        MrcRequest {
            models: self.model.clone(),
            sizes: self.sizes.clone(),
            recordsizes: self.recordsize.clone(),
            ratios: match &self.estimate {
                Some(path) => {
                    RatioSource::Estimate { path: path.clone(), compression: self.compression.clone() }
                }
                None => RatioSource::Uniform(self.compress_ratio),
            },
            ashift: self.ashift,
            primarycache: self.primarycache,
            l2arc_bytes: self.l2arc.unwrap_or(0),
            prefetch: !self.no_prefetch,
            requests_per_s: self.requests_per_second,
            sample: self.sample.map(Amount::Rate).or(self.sample_memory.map(Amount::Memory)),
            seed: self.seed,
            split_bytes: self.split,
        }
    }

    fn select(&self) -> Select {
        Select { roles: self.role.clone(), paths: self.path.clone(), direct: self.direct }
    }
}

/// Runs the verb, and returns the exit code.
///
/// # Errors
/// If the trace or the recording cannot be read, the arguments do not fit it, or the report cannot be written.
pub fn run(args: Args) -> anyhow::Result<u8> {
    interrupt::watch().context("cannot watch for Ctrl-C")?;
    let began = Instant::now();
    // Opened before the long run, so that a path that cannot be written is reported at once.
    let page = |path: &PathBuf| Output::open(path, output::Kind::Page, args.force);
    let report = args.report.as_ref().map(page).transpose()?;
    let (mut result, split) = match &args.file {
        Some(path) => file(&args, path)?,
        None => (live::run(&args)?, None),
    };
    result.seconds = began.elapsed().as_secs_f64();
    let explanation = result.explain(args.miss_latency, split);
    let run = Run { result: &result, explanation: &explanation };
    if result.ended == Ended::Empty {
        warn(&run);
        return Ok(1);
    }
    if args.json {
        println!("{}", mrc_text::json(&run));
    } else {
        print!("{}", mrc_text::text(&run, crate::stdout::terminal()));
    }
    if let Some(report) = report {
        report.write(&page::html(&run))?;
    }
    warn(&run);
    let openzfs = ModelName::Openzfs.name();
    if !args.no_prefetch && result.curves.iter().any(|c| c.sample.is_some() && c.model == openzfs) {
        eprintln!(
            "poolwright: note: sampling disables prefetch in the model openzfs; compare with --no-prefetch without a sample"
        );
    }
    Ok(if result.ended == Ended::Interrupted { Exit::Interrupted.code() } else { 0 })
}

/// Prints the limitations of the curves on standard error.
fn warn(run: &Run<'_>) {
    for warning in mrc_text::warnings(run) {
        eprintln!("poolwright: warning: {warning}");
    }
}

fn file(args: &Args, path: &Path) -> anyhow::Result<(MrcResult, Option<Divided>)> {
    let format = args.format.as_deref().and_then(Format::from_name);
    let file = TraceFile { path: path.to_owned(), format, select: args.select() };
    let input = file.open().map_err(|error| with_option(error.into()))?;
    if input.format() == Format::Trace.name() {
        check_trace(path)?;
    }
    let mut bar = Bar::default();
    let done = analyze(&args.request(), &file, input, |phase, read| {
        bar.show(phase, read);
        !interrupt::requested()
    });
    bar.clear();
    done.map_err(with_option)
}
