//! `poolwright estimate`: space and codec speed per setting.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};
use poolwright_estimate as estimate;
use poolwright_estimate::{Cell, Ended, Estimate, Input, Layout, Method, Options, Progress};
use poolwright_openzfs::property;
use poolwright_report::{Cell as TableCell, Column, Table, Terminal, Tone};
use poolwright_trace::{format_count, format_size};

use super::options::{parse_size, parse_time};
use crate::interrupt;

/// Wrong usage that only the values show.
const WRONG_USAGE: u8 = 2;
/// A redrawn table faster than this cannot be read.
const REDRAW: Duration = Duration::from_millis(250);
/// Work that is shorter shows no progress.
const QUIET: Duration = Duration::from_secs(1);

/// Space and codec speed of files per recordsize, compression and ashift
///
/// Runs OpenZFS's own codecs on places drawn from the files, until every ratio is known within 1 %; --full reads
/// everything and is exact. Nothing is written.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Files, and directories with all below them on the same file system
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Settings to try: -o recordsize=8K,16K -o compression=off,lz4,zstd-3 (all: every codec and level)
    #[arg(short = 'o', value_name = "PROPERTY=VALUE,…")]
    options: Vec<String>,

    /// Sector sizes as powers of two
    #[arg(long, value_delimiter = ',', value_name = "N,…", default_value = "9,12,13")]
    ashift: Vec<u32>,

    /// Vdev layouts: plain, mirror, raidz1:N, raidz2:N, raidz3:N with N disks in a vdev
    #[arg(long, value_delimiter = ',', value_name = "LAYOUT,…", default_value = "plain")]
    layout: Vec<String>,

    /// Read and compress everything: exact to the byte
    #[arg(long)]
    full: bool,

    /// Stop sampling when every 95 % interval is this narrow
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = parse_percent, conflicts_with = "full")]
    within: f64,

    /// Stop sampling after this long, whatever the intervals
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_time, conflicts_with = "full")]
    limit: Duration,

    /// Stop sampling after reading this much
    #[arg(long, value_name = "SIZE", value_parser = parse_size, conflicts_with = "full")]
    limit_bytes: Option<u64>,

    /// Read at most this much a second
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    rate: Option<u64>,

    /// Threads that compress; all cores if left out
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,

    /// Seed of the places drawn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..1 << 53))]
    seed: u64,

    /// Print one JSON object on standard output
    #[arg(long)]
    json: bool,
}

/// Estimates; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let mut options = match options(&args) {
        Ok(options) => options,
        Err(error) => return Ok(wrong(&error)),
    };
    options.cancel = interrupt::watch()?;
    let input = Input::paths(&args.paths)?;
    let mut screen = Screen::new();
    let found = estimate::estimate(&input, &options, &mut |p| screen.show(p));
    screen.clear();
    let found = match found {
        Err(estimate::Error::Invalid(why)) => return Ok(wrong(&anyhow::anyhow!(why))),
        other => other?,
    };
    if args.json {
        println!("{}", serde_json::to_string(&found)?);
    } else {
        print!("{}", text(&found, Terminal::stdout()));
    }
    warn(&found);
    Ok(if found.ended == Ended::Interrupted { 130 } else { 0 })
}

fn wrong(error: &anyhow::Error) -> u8 {
    eprintln!("poolwright: {error:#}");
    WRONG_USAGE
}

fn options(args: &Args) -> anyhow::Result<Options> {
    let mut options = Options {
        ashifts: args.ashift.clone(),
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
        let (name, values) = property::parse_assignment(option).with_context(|| format!("-o {option}"))?;
        let values = values.split(',');
        match name.as_str() {
            "recordsize" => {
                let sizes = values.map(property::parse_size).collect::<poolwright_openzfs::Result<_>>();
                options.recordsizes = sizes.with_context(|| format!("-o {option}"))?;
            }
            "compression" => options.compressions = values.map(str::to_owned).collect(),
            other => bail!("-o {option}: {other} does not change the space; try recordsize and compression"),
        }
    }
    Ok(options)
}

/// `1%`, `0.5%` or `0.5` (per cent) to a fraction.
fn parse_percent(text: &str) -> Result<f64, String> {
    match text.trim().trim_end_matches('%').trim().parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent < 100.0 => Ok(percent / 100.0),
        _ => Err(format!("{text:?} is no width in per cent; write 1% or 0.5%")),
    }
}

fn parse_rate(text: &str) -> Result<u64, String> {
    match parse_size(text.trim_end_matches("/s"))? {
        0 => Err("nothing can be read at a rate of 0; write 200M".into()),
        rate => Ok(rate),
    }
}

/// The table so far on a terminal, redrawn in place.
struct Screen {
    bar: Option<ProgressBar>,
    began: Instant,
    drawn: Instant,
}

impl Screen {
    fn new() -> Screen {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            bar.set_style(ProgressStyle::with_template("{msg}").expect("a constant template"));
            bar
        });
        Screen { bar, began: Instant::now(), drawn: Instant::now() }
    }

    fn show(&mut self, progress: &Progress<'_>) {
        let Some(bar) = &self.bar else { return };
        if self.began.elapsed() < QUIET || self.drawn.elapsed() < REDRAW {
            return;
        }
        self.drawn = Instant::now();
        let table = tables(progress.cells, Terminal { width: None, ..Terminal::stdout() });
        bar.set_message(format!("{table}{}", status(progress)));
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn status(p: &Progress<'_>) -> String {
    let read = format_size(p.read_bytes);
    let of = format_size(p.logical_bytes);
    match p.method {
        Method::Sampled if p.achieved.is_finite() => {
            format!("{read} of {of} read in {:.0} s, widest interval ±{:.1} %", p.seconds, p.achieved * 100.0)
        }
        Method::Sampled => format!("{read} of {of} read in {:.0} s", p.seconds),
        Method::Full => {
            let done = p.read_bytes as f64 / p.logical_bytes.max(1) as f64;
            let left = if done > 0.0 { p.seconds / done - p.seconds } else { f64::NAN };
            format!("{read} of {of} ({:.0} %), about {left:.0} s left", done * 100.0)
        }
    }
}

fn text(found: &Estimate, to: Terminal) -> String {
    let how = match found.method {
        Method::Full => "all of it read".to_owned(),
        Method::Sampled => {
            format!(
                "{} read at {} places, seed {}",
                format_size(found.sampled_bytes),
                found.places,
                found.seed
            )
        }
    };
    format!(
        "{} files, {}: {how}, in {:.1} s; entropy {:.2} bits/byte\n\n{}{}",
        format_count(found.files),
        format_size(found.logical_bytes),
        found.seconds,
        found.entropy_bits,
        tables(&found.cells, to),
        speeds(&found.cells, to),
    )
}

/// One table per layout and ashift: recordsizes down, codecs across.
fn tables(cells: &[Cell], to: Terminal) -> String {
    let mut groups: BTreeMap<(String, u32), Vec<&Cell>> = BTreeMap::new();
    for cell in cells {
        groups.entry((cell.layout.to_string(), cell.ashift)).or_default().push(cell);
    }
    let mut out = String::new();
    for ((layout, ashift), cells) in groups {
        out.push_str(&format!(
            "ashift={ashift}, {layout}: ratio and space of the records (* best within the intervals)\n"
        ));
        out.push_str(&table(&cells).terminal(to));
        out.push('\n');
    }
    out
}

fn table(cells: &[&Cell]) -> Table {
    let mut codecs: Vec<&str> = Vec::new();
    for cell in cells {
        if !codecs.contains(&cell.compression.as_str()) {
            codecs.push(&cell.compression);
        }
    }
    // no other setting's interval lies wholly above that of a best one
    let floor = cells.iter().map(|c| c.ratio_ci95[0]).fold(0.0, f64::max);
    let columns = codecs.iter().map(|c| Column::right(c));
    let mut table = Table::new([Column::right("recordsize")].into_iter().chain(columns));
    for row in cells.chunks(codecs.len()) {
        let first = TableCell::text(format_size(row[0].recordsize));
        table.row([first].into_iter().chain(row.iter().map(|c| shown(c, c.ratio_ci95[1] >= floor))));
    }
    table
}

fn shown(cell: &Cell, best: bool) -> TableCell {
    let mark = if best { "*" } else { "" };
    let error = match cell.error() {
        0.0 => String::new(),
        wide if wide > 0.995 => " ±?".to_owned(),
        error => format!(" ±{:.1}%", error * 100.0),
    };
    let ratio = if cell.ratio.is_finite() { format!("{:.2}x", cell.ratio) } else { "all holes".to_owned() };
    let text = format!("{mark}{ratio}{error} {}", format_size(cell.allocated_bytes));
    TableCell::text(text).tone(if best { Tone::Good } else { Tone::Plain })
}

/// Codecs down; the slowest and the fastest recordsize.
fn speeds(cells: &[Cell], to: Terminal) -> String {
    let columns = ["codec", "compress MiB/s per core", "decompress MiB/s per core"];
    let mut table =
        Table::new([Column::left(columns[0]), Column::right(columns[1]), Column::right(columns[2])]);
    let mut done: Vec<&str> = Vec::new();
    for codec in cells.iter().map(|c| c.compression.as_str()) {
        if done.contains(&codec) || codec == "off" {
            continue;
        }
        done.push(codec);
        let range = |speed: fn(&Cell) -> Option<f64>| {
            let speeds = || cells.iter().filter(|c| c.compression == codec).filter_map(speed);
            let (low, high) = (speeds().fold(f64::INFINITY, f64::min), speeds().fold(0.0, f64::max));
            match (low, high) {
                _ if high == 0.0 => TableCell::missing(),
                _ if high < low * 1.05 => TableCell::text(format!("{high:.0}")),
                _ => TableCell::text(format!("{low:.0}…{high:.0}")),
            }
        };
        table.row([TableCell::text(codec), range(|c| c.compress_mib_s), range(|c| c.decompress_mib_s)]);
    }
    if table.is_empty() { String::new() } else { table.terminal(to) }
}

/// What the figures leave out, on standard error.
fn warn(found: &Estimate) {
    for skipped in found.skipped.iter().take(10) {
        eprintln!("poolwright: skipped {}: {}", skipped.path.display(), skipped.why);
    }
    if found.skipped.len() > 10 {
        eprintln!("poolwright: … and {} more; --json lists them all", found.skipped.len() - 10);
    }
    if found.changed > 0 {
        eprintln!(
            "poolwright: {} files changed while they were read; their figures mix old and new",
            found.changed
        );
    }
    if found.special > 0 {
        eprintln!("poolwright: {} sockets, pipes or devices were left out", found.special);
    }
    match found.ended {
        Ended::Done => {}
        Ended::Limit => eprintln!(
            "poolwright: stopped at the limit with intervals up to ±{:.1} % (wanted {:.1} %); raise --limit or name fewer \
             settings with -o",
            found.achieved * 100.0,
            found.within * 100.0
        ),
        Ended::Interrupted => eprintln!("poolwright: interrupted; these are the figures so far"),
    }
}
