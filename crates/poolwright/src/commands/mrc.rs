//! `poolwright mrc`: how often a cache of each size would miss.

mod analysis;
mod live;
mod model_name;
mod models;
mod page;
mod ratios;
mod result;
mod sizes;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::builder::PossibleValuesParser;
use indicatif::{ProgressBar, ProgressStyle};
use poolwright_mrc::advice::Given;
use poolwright_mrc::footprint::Footprint;
use poolwright_mrc::input::{self, Format, Select, Unit};
use poolwright_mrc::openzfs::PrimaryCache;
use poolwright_mrc::sample::Amount;
use poolwright_mrc::sweep::Progress;
use poolwright_mrc::{Curve, Input, Kind};
use poolwright_render::mrc_page::Divided;
use poolwright_render::mrc_text;
use poolwright_trace::layout::Role;
use poolwright_trace::{format_count, format_size};

use super::options::{Usage, check_trace, parse_size, parse_time};
use super::record::parse_buffer;
use crate::interrupt;
use crate::output::{self, Output};
use analysis::{AnalysisArgs, Explanation};
use model_name::ModelName;
use models::{Arcs, ModelConfig};
use ratios::{Compressed, Ratios};
use result::{Ended, MrcResult};
use sizes::Sizes;

/// Work that is shorter shows no progress.
const QUIET: Duration = Duration::from_secs(1);

/// Draw miss-ratio curves: how much cache a database needs
///
/// Shows a trace to models of a cache of many sizes, in one reading. The trace is one of Poolwright's, or a .lis or
/// oracleGeneral file (plain or packed by zstd); with --dir or --pid it is what a database does now, and nothing is
/// written.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("source").required(true))]
pub struct Args {
    /// The trace
    #[arg(value_name = "FILE", group = "source")]
    file: Option<PathBuf>,

    /// Record every file below this directory, and show it to the models while it runs
    #[arg(long, value_name = "DIR", group = "source")]
    dir: Option<PathBuf>,

    /// The same for every file that this process and its children use
    #[arg(long, value_name = "PID", group = "source", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,

    /// With --dir or --pid: stop after this time (otherwise at Ctrl-C, or when the process ends)
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time, conflicts_with = "file")]
    duration: Option<Duration>,

    /// With --dir or --pid: buffer between the kernel and the recorder
    #[arg(long, value_name = "SIZE", default_value = "32M", value_parser = parse_buffer, conflicts_with = "file")]
    buffer: u64,

    /// Format of the file; recognised by its first bytes or its name if left out
    #[arg(long, value_parser = PossibleValuesParser::new(Format::ALL.map(Format::name)), conflicts_with_all = ["dir", "pid"])]
    format: Option<String>,

    /// The caches to model
    #[arg(long, value_enum, value_name = "NAME,…", value_delimiter = ',', default_value = "openzfs")]
    model: Vec<ModelName>,

    /// Sizes of the cache in bytes, with K, M or G; up to 16 that end where all of the trace fits if left
    /// out. The least is 64M for openzfs, and one record for the others
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = parse_cache)]
    sizes: Vec<u64>,

    /// Recordsizes to look at, each with curves of its own. Left out: 128K, or a page of a .lis trace (512)
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = parse_recordsize)]
    recordsize: Vec<u64>,

    #[command(flatten)]
    compressed: Compressed,

    /// openzfs: what of a dataset may be in the ARC: all, metadata or none
    #[arg(long, value_name = "VALUE", default_value = "all", value_parser = parse_primarycache)]
    primarycache: PrimaryCache,

    /// openzfs: an L2ARC of this size behind each cache
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    l2arc: Option<u64>,

    /// openzfs: do not read ahead of sequential readers (zfs_prefetch_disable)
    #[arg(long)]
    no_prefetch: bool,

    /// openzfs: requests in a second of a trace without times; left out, every second use counts as one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    requests_per_second: Option<u32>,

    /// Look at this share of the records only, with a confidence interval around every point: 0.01, or 1%
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    sample: Option<f64>,

    /// The same, with as large a share as fits into this much memory
    #[arg(long, value_name = "SIZE", value_parser = parse_memory, conflicts_with = "sample")]
    sample_memory: Option<u64>,

    /// Seed of the sample: another one looks at other records
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..1 << 53))]
    seed: u64,

    /// Only files of these roles, as `trace show` has them
    #[arg(long, value_name = "ROLE,…", value_delimiter = ',', value_parser = parse_role)]
    role: Vec<Role>,

    /// Only this file, or the files below this directory; repeatable
    #[arg(long, value_name = "PATH")]
    path: Vec<PathBuf>,

    #[command(flatten)]
    analysis: AnalysisArgs,

    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Runs the verb; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    interrupt::watch().context("cannot watch for Ctrl-C")?;
    let began = Instant::now();
    // Opened before the long run: a place that cannot be written shows now.
    let page = |path: &PathBuf| Output::open(path, output::Kind::Page, args.analysis.force);
    let report = args.analysis.report.as_ref().map(page).transpose()?;
    let (mut found, split) = match &args.file {
        Some(_) => file(&args)?,
        None => (live::run(&args)?, None),
    };
    found.seconds = began.elapsed().as_secs_f64();
    if found.ended == Ended::Empty {
        // A curve of no requests would show that a cache of any size has no misses.
        let nothing = Explanation { curves: Vec::new(), given: Given::default(), split: None };
        warn(&page::to_run(&found, &nothing));
        return Ok(1);
    }
    let explanation = args.analysis.explain(&found, split);
    let rendered = page::to_run(&found, &explanation);
    if args.json {
        println!("{}", mrc_text::json(&rendered));
    } else {
        print!("{}", mrc_text::text(&rendered, crate::stdout::terminal()));
    }
    if let Some(report) = report {
        report.write(&page::html(&rendered))?;
    }
    warn(&rendered);
    let unlike = |curve: &Curve| curve.sample.is_some() && curve.model == ModelName::Openzfs.name();
    if !args.no_prefetch && found.curves.iter().any(unlike) {
        eprintln!(
            "poolwright: openzfs in a sample reads nothing ahead; in full it is the curve of --no-prefetch"
        );
    }
    Ok(if found.ended == Ended::Interrupted { 130 } else { 0 })
}

/// Prints the limitations of the curves on standard error.
fn warn(run: &mrc_text::Run<'_>) {
    for warning in mrc_text::warnings(run) {
        eprintln!("poolwright: {warning}");
    }
}

fn file(args: &Args) -> anyhow::Result<(MrcResult, Option<Divided>)> {
    let path = args.file.as_deref().expect("clap asks for a source");
    let format = args.format.as_deref().and_then(Format::from_name);
    let open = || input::open(path, format, &select(args));
    let mut input = open()?;
    check(args, input.unit())?;
    if input.format() == Format::Trace.name() {
        check_trace(path)?;
    }
    if args.analysis.split.is_some() {
        analysis::check_split(input.format())?;
    }
    sizes::check(&args.sizes, &args.model, &recordsizes(args, input.unit()))?;
    let source = path.display().to_string();
    let ratios = args.compressed.ratios(&recordsizes(args, input.unit()))?;
    let sizes = match Sizes::asked(&args.sizes) {
        Some(sizes) => sizes,
        None => {
            let footprint = footprint(args, &mut *open()?)?;
            let largest = recordsizes(args, input.unit()).last().copied();
            Sizes::touched(&footprint, ratios.of(largest), largest.unwrap_or(1))
        }
    };
    let mut config = config(args, &*input, sizes, ratios);
    if args.primarycache != PrimaryCache::All {
        config.arc.read_bytes = typical_read(&mut *open()?)?;
    }
    let mut sweep = models::sweep(&config)?;
    let mut bar = Bar::new("modelling");
    let read = sweep.show(&mut *input, |read| {
        bar.show(read);
        !interrupt::requested()
    })?;
    bar.clear();
    let mut found = MrcResult::new(source, input.format(), &config, &sweep, &read);
    drop(sweep);
    let Some(total) = args.analysis.split else { return Ok((found, None)) };
    let split = analysis::divide(total, &config, &mut *open()?)?;
    if split.is_none() {
        found.ended = Ended::Interrupted;
    }
    Ok((found, split))
}

/// How many bytes of records the trace touches, of the largest records asked for.
fn footprint(args: &Args, input: &mut dyn Input) -> anyhow::Result<Footprint> {
    let mut footprint = Footprint::new(input.unit(), args.recordsize.iter().copied().max())?;
    let mut bar = Bar::new("measuring");
    footprint.read(input, &mut |input| {
        bar.show(&Progress { share: input.progress(), ..Progress::default() });
        interrupt::requested()
    })?;
    bar.clear();
    if interrupt::requested() {
        bail!("interrupted while the trace was measured; name cache sizes with --sizes to do without");
    }
    Ok(footprint)
}

/// The median length of the reads that a trace begins with.
fn typical_read(input: &mut dyn Input) -> anyhow::Result<Option<u64>> {
    let mut extents = Vec::new();
    input.read(&mut extents)?;
    let mut lengths: Vec<u64> = extents.iter().filter(|p| p.kind == Kind::Read).map(|p| p.len).collect();
    lengths.sort_unstable();
    Ok(lengths.get(lengths.len() / 2).copied())
}

/// What clap cannot see.
fn check(args: &Args, unit: Unit) -> anyhow::Result<()> {
    if unit == Unit::Objects && !args.recordsize.is_empty() {
        return Err(anyhow::anyhow!(
            "a trace of objects has no recordsize: each is a record of its own size"
        ))
        .context(Usage);
    }
    Ok(())
}

fn select(args: &Args) -> Select {
    Select { roles: args.role.clone(), paths: args.path.clone() }
}

/// The recordsizes asked for, ascending, or else the trace's own; none of objects.
fn recordsizes(args: &Args, unit: Unit) -> Vec<u64> {
    let mut asked = args.recordsize.clone();
    asked.sort_unstable();
    asked.dedup();
    match unit {
        Unit::Bytes { recordsize } if asked.is_empty() => vec![recordsize],
        _ => asked,
    }
}

fn config(args: &Args, input: &dyn Input, sizes: Sizes, ratios: Ratios) -> ModelConfig {
    let mut models = args.model.clone();
    let mut seen = Vec::new();
    models.retain(|model| !seen.contains(model) && (seen.push(*model), true).1);
    ModelConfig {
        unit: input.unit(),
        arc: Arcs {
            offsets: input.unit() != Unit::Objects,
            fine_times: input.has_fine_times(),
            requests_per_s: args.requests_per_second,
            prefetch: !args.no_prefetch,
            l2arc_bytes: args.l2arc.unwrap_or(0),
            primarycache: args.primarycache,
            read_bytes: None,
        },
        models,
        recordsizes: recordsizes(args, input.unit()),
        sizes,
        ratios,
        sample: args.sample.map(Amount::Rate).or(args.sample_memory.map(Amount::Memory)),
        seed: args.seed,
    }
}

/// A cache of nothing has no figures.
fn parse_cache(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        0 => Err("a cache of no bytes misses everything; name a larger one".into()),
        bytes => Ok(bytes),
    }
}

fn parse_recordsize(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    let fits = bytes.is_power_of_two() && (512..=16 << 20).contains(&bytes);
    if fits { Ok(bytes) } else { Err("a recordsize is a power of two from 512 to 16M".into()) }
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let (digits, unit) = text.strip_suffix('%').map_or((text, 1.0), |digits| (digits.trim_end(), 0.01));
    match digits.parse::<f64>().map(|rate| rate * unit) {
        Ok(rate) if rate > 0.0 && rate <= 1.0 => Ok(rate),
        _ => Err(format!("{text:?} is no share of the records; write 0.01 or 1%")),
    }
}

fn parse_memory(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    let least = poolwright_mrc::sample::LEAST_MEMORY;
    if bytes < least { Err(format!("a sample takes {} at least", format_size(least))) } else { Ok(bytes) }
}

fn parse_primarycache(text: &str) -> Result<PrimaryCache, String> {
    match text {
        "all" => Ok(PrimaryCache::All),
        "metadata" => Ok(PrimaryCache::Metadata),
        "none" => Ok(PrimaryCache::None),
        _ => Err("primarycache is all, metadata or none".into()),
    }
}

fn parse_role(text: &str) -> Result<Role, String> {
    let names = || Role::ALL.map(Role::name).join(", ");
    Role::from_name(text).ok_or_else(|| format!("there is no role {text:?}; roles are {}", names()))
}

/// How far the reading is, on a terminal.
struct Bar {
    bar: Option<ProgressBar>,
    what: &'static str,
    began: Instant,
}

impl Bar {
    fn new(what: &'static str) -> Bar {
        let bar = std::io::stderr().is_terminal().then(ProgressBar::hidden);
        Bar { bar, what, began: Instant::now() }
    }

    fn show(&mut self, read: &Progress) {
        let Some(bar) = &mut self.bar else { return };
        if self.began.elapsed() < QUIET {
            return;
        }
        if bar.is_hidden() {
            *bar = ProgressBar::new(1000);
            let style = ProgressStyle::with_template("{prefix} {bar:24} {msg}").expect("a constant template");
            bar.set_style(style);
            bar.set_prefix(self.what);
        }
        let share = read.share.unwrap_or(0.0);
        bar.set_position((share * 1000.0) as u64);
        let requests = match read.requests {
            0 => String::new(),
            n => format!(", {} requests", format_count(n)),
        };
        bar.set_message(format!("{:.0} %{requests}", share * 100.0));
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
