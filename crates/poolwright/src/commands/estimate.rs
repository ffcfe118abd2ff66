//! `poolwright estimate`: space and codec speed per setting.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use indicatif::ProgressBar;
use poolwright_base::{Exit, quoted};
use poolwright_estimate as estimate;
use poolwright_estimate::{Ended, Estimate, Input, Layout, Options, Progress};
use poolwright_openzfs::property;
use poolwright_render::estimate_text::{self, Detail, status, tables, text};
use poolwright_trace::layout;

use super::options::{Usage, parse_size, parse_time};
use crate::{interrupt, progress_line, stdout};

/// Time between two drawings of the table. A table that changes faster cannot be read.
const REDRAW: Duration = Duration::from_millis(250);
/// An estimate that takes less time shows no progress.
const QUIET: Duration = Duration::from_secs(1);

/// The largest volblocksize in bytes.
const LARGEST_VOLUME_BLOCK: u64 = 128 << 10;

/// Estimate space and codec speed of files per recordsize, compression and ashift
///
/// Compresses a random sample of the files with OpenZFS's own codecs until every ratio is known within 1 %. --full reads
/// everything and is exact. Writes nothing.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Files, directories, and devices of volumes (/dev/zvol/POOL/VOLUME), whose block size is shown as recordsize. A directory includes
    /// everything below it on the same file system, and the targets of a database's links (PostgreSQL's log and tablespaces)
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Settings to try: -o recordsize=8K,16K -o compression=off,lz4,zstd-3; of a volume, volblocksize. compression=all tries every codec and
    /// level, but of zstd-fast only 1 and 10
    /// [default: recordsize=4K to 1M, volblocksize=4K to 128K, compression=off,lz4,zstd-1,zstd-3,gzip-6]
    #[arg(short = 'o', value_name = "PROPERTY=VALUE,…")]
    options: Vec<String>,

    /// Sector sizes as powers of two [default: 9,12,13; the text shows 12 in full]
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    ashift: Option<Vec<u32>>,

    /// Vdev layouts: plain, mirror, raidz1:N, raidz2:N, raidz3:N with N disks in a vdev
    #[arg(long, value_delimiter = ',', value_name = "LAYOUT,…", default_value = "plain")]
    layout: Vec<String>,

    /// Print all sector sizes, with the space and the interval of each setting
    #[arg(long)]
    long: bool,

    /// Read and compress everything: the result is exact to the byte
    #[arg(long)]
    full: bool,

    /// Stop sampling when every 95 % interval is this narrow
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = parse_percent, conflicts_with = "full")]
    within: f64,

    /// Stop sampling after this time, even if the intervals are wider
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_time, conflicts_with = "full")]
    limit: Duration,

    /// Stop sampling after reading this many bytes
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with = "full")]
    limit_bytes: Option<u64>,

    /// Read at most this many bytes per second
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    rate: Option<u64>,

    /// Number of compressing threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,

    /// Seed that selects the sampled offsets
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..1 << 53))]
    seed: u64,

    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Estimates; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let mut options = options(&args).context(Usage)?;
    options.cancel = interrupt::watch()?;
    let input = Input::paths(&with_linked(&args.paths))?;
    let is_size =
        |option: &String| property::parse_assignment(option).is_ok_and(|(name, _)| name != "compression");
    let names_sizes = args.options.iter().any(is_size);
    if input.has_devices() && !names_sizes {
        options.recordsizes.retain(|size| *size <= LARGEST_VOLUME_BLOCK);
    }
    let choice = choice(&args);
    let mut screen = Screen::new(choice);
    let found = estimate::estimate(&input, &options, &mut |p| screen.show(p));
    screen.clear();
    let found = found?;
    if args.json {
        println!("{}", serde_json::to_string(&found)?);
    } else {
        print!("{}", text(&found, choice, stdout::terminal()));
    }
    warn(&found);
    Ok(if found.ended == Ended::Interrupted { Exit::Interrupted.code() } else { 0 })
}

/// The paths, and the directories to which links of the databases in them lead: those that `record` follows.
fn with_linked(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut all = paths.to_vec();
    for linked in paths.iter().flat_map(|path| layout::linked_directories_below(path)) {
        eprintln!("poolwright: note: {} leads outside the directory, and is included", quoted(&linked));
        all.push(linked);
    }
    all
}

fn options(args: &Args) -> anyhow::Result<Options> {
    let mut options = Options {
        ashifts: args.ashift.clone().unwrap_or_else(|| Options::default().ashifts),
        layouts: args.layout.iter().map(|l| Layout::parse(l)).collect::<estimate::Result<_>>()?,
        full: args.full,
        within: args.within,
        time_limit: Some(args.limit),
        byte_limit: args.limit_bytes,
        rate: args.rate,
        threads: args.threads.map(|n| n as usize),
        seed: args.seed,
        ..Options::default()
    };
    for option in &args.options {
        options.set(option).with_context(|| format!("-o {option}"))?;
    }
    Ok(options)
}

/// `1%`, `0.5%` or `0.5` (per cent) to a fraction.
fn parse_percent(text: &str) -> Result<f64, String> {
    match text.trim().trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent < 100.0 => Ok(percent / 100.0),
        _ => Err(format!("{text:?} is not a percentage: expected for example 1% or 0.5%")),
    }
}

fn parse_rate(text: &str) -> Result<u64, String> {
    match parse_size(text.trim_end_matches("/s"))? {
        0 => Err("the rate must be above 0, such as 200M".into()),
        rate => Ok(rate),
    }
}

/// The preliminary table on a terminal, redrawn in place.
struct Screen {
    bar: Option<ProgressBar>,
    choice: Detail,
    began: Instant,
    drawn: Instant,
}

impl Screen {
    fn new(choice: Detail) -> Screen {
        let bar = std::io::stderr().is_terminal().then(|| progress_line::bar(None, "{msg}"));
        Screen { bar, choice, began: Instant::now(), drawn: Instant::now() }
    }

    fn show(&mut self, progress: &Progress<'_>) {
        let Some(bar) = &self.bar else { return };
        if self.began.elapsed() < QUIET || self.drawn.elapsed() < REDRAW {
            return;
        }
        self.drawn = Instant::now();
        let table = tables(progress.cells, self.choice, stdout::terminal());
        bar.set_message(format!("{table}{}", status(progress)));
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn choice(args: &Args) -> Detail {
    match args.ashift {
        _ if args.long => Detail::Long,
        None if args.layout.len() == 1 => Detail::Short,
        _ => Detail::All,
    }
}

/// Prints the limitations of the figures on standard error.
fn warn(found: &Estimate) {
    for warning in estimate_text::warnings(found) {
        eprintln!("poolwright: warning: {warning}");
    }
}
