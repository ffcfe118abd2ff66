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
use poolwright_report::{Cell as TableCell, Column, Table, Terminal, Tone, Unit};
use poolwright_trace::{counted, format_size};

use super::options::{parse_size, parse_time};
use crate::{interrupt, stdout};

/// Wrong usage that only the values show.
const WRONG_USAGE: u8 = 2;
/// The sector size that the text shows where none was asked for: that of most disks.
const SHOWN_ASHIFT: u32 = 12;
/// A redrawn table faster than this cannot be read.
const REDRAW: Duration = Duration::from_millis(250);
/// Work that is shorter shows no progress.
const QUIET: Duration = Duration::from_secs(1);

/// Estimate space and codec speed of files per recordsize, compression and ashift
///
/// Runs OpenZFS's own codecs on places drawn from the files, until every ratio is known within 1 %; --full reads
/// everything and is exact. Nothing is written.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Files, and directories with all below them on the same file system
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// Settings to try: -o recordsize=8K,16K -o compression=off,lz4,zstd-3 (all: every codec and level, of zstd-fast 1 and 10)
    /// [default: recordsize=4K to 1M, compression=off,lz4,zstd-1,zstd-3,gzip-6]
    #[arg(short = 'o', value_name = "PROPERTY=VALUE,…")]
    options: Vec<String>,

    /// Sector sizes as powers of two [default: 9,12,13, of which the text shows 12]
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    ashift: Option<Vec<u32>>,

    /// Vdev layouts: plain, mirror, raidz1:N, raidz2:N, raidz3:N with N disks in a vdev
    #[arg(long, value_delimiter = ',', value_name = "LAYOUT,…", default_value = "plain")]
    layout: Vec<String>,

    /// Print every sector size, and the space and interval of each setting
    #[arg(long)]
    long: bool,

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
    let choice = choice(&args);
    let mut screen = Screen::new(choice);
    let found = estimate::estimate(&input, &options, &mut |p| screen.show(p));
    screen.clear();
    let found = match found {
        Err(estimate::Error::Invalid(why)) => return Ok(wrong(&anyhow::anyhow!(why))),
        other => other?,
    };
    if args.json {
        println!("{}", serde_json::to_string(&found)?);
    } else {
        print!("{}", text(&found, choice, stdout::terminal()));
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
    choice: Choice,
    began: Instant,
    drawn: Instant,
}

impl Screen {
    fn new(choice: Choice) -> Screen {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            bar.set_style(ProgressStyle::with_template("{msg}").expect("a constant template"));
            bar
        });
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

/// What of the settings is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// A table of one sector size, and the best of the others: what fits a screen.
    Short,
    /// Every sector size and layout.
    All,
    /// The same, each setting with its space and its interval however wide that is.
    Long,
}

fn choice(args: &Args) -> Choice {
    match args.ashift {
        _ if args.long => Choice::Long,
        None if args.layout.len() == 1 => Choice::Short,
        _ => Choice::All,
    }
}

fn text(found: &Estimate, choice: Choice, to: Terminal) -> String {
    let how = match found.method {
        Method::Full => "all of it read".to_owned(),
        Method::Sampled => {
            let places = counted(found.places, "place");
            format!("{} read at {places}, seed {}", format_size(found.sampled_bytes), found.seed)
        }
    };
    format!(
        "{}, {}: {how}, in {:.1} s; entropy {:.2} bits/byte\n{}{}",
        counted(found.files, "file"),
        Unit::Bytes.format(found.logical_bytes as f64),
        found.seconds,
        found.entropy_bits,
        tables(&found.cells, choice, to),
        speeds(&found.cells, to),
    )
}

/// Cells of one layout and ashift.
type Group<'a> = ((String, u32), Vec<&'a Cell>);

fn groups(cells: &[Cell]) -> Vec<Group<'_>> {
    let mut groups: BTreeMap<(String, u32), Vec<&Cell>> = BTreeMap::new();
    for cell in cells {
        groups.entry((cell.layout.to_string(), cell.ashift)).or_default().push(cell);
    }
    groups.into_iter().collect()
}

/// One table per layout and ashift: recordsizes down, codecs across.
fn tables(cells: &[Cell], choice: Choice, to: Terminal) -> String {
    let mut groups = groups(cells);
    let shown = groups.iter().position(|((_, ashift), _)| *ashift == SHOWN_ASHIFT).unwrap_or(0);
    let others = match choice {
        Choice::Short if shown < groups.len() => {
            let one = groups.remove(shown);
            std::mem::replace(&mut groups, vec![one])
        }
        _ => Vec::new(),
    };
    let mut out: String = groups.iter().map(|group| section(group, choice, to)).collect();
    let others = others.iter().filter_map(|((_, ashift), cells)| Some(format!("{ashift}: {}", best(cells)?)));
    let others: Vec<String> = others.collect();
    if !others.is_empty() {
        out.push_str(&format!("best at ashift={}; all: --long\n", others.join(", ")));
    }
    if cells.iter().any(|cell| !cell.ratio.is_finite()) {
        out.push_str("no block: holes, and records of up to 112 bytes, which the block pointer holds\n");
    }
    out.push('\n');
    out
}

/// `2.35x (1M zstd-3)`: the setting with the highest ratio.
fn best(cells: &[&Cell]) -> Option<String> {
    let best = cells.iter().max_by(|a, b| a.ratio.total_cmp(&b.ratio))?;
    Some(format!("{} ({} {})", ratio(best), format_size(best.recordsize), best.compression))
}

fn section(((layout, ashift), cells): &Group<'_>, choice: Choice, to: Terminal) -> String {
    // What fits the terminal, or 80 columns of a pipe: the interval goes first, then the space.
    let limit = to.width.unwrap_or(80);
    let styles = [Style::Full, Style::Space, Style::Ratio];
    let fits =
        styles.into_iter().find(|style| choice == Choice::Long || table(cells, *style).width() <= limit);
    let style = fits.unwrap_or(Style::Ratio);
    let widest = cells.iter().map(|cell| cell.error()).fold(0.0, f64::max);
    let interval = match style {
        Style::Space | Style::Ratio if widest > 0.0 => format!(", {}", interval(widest)),
        _ => String::new(),
    };
    let space = if style == Style::Ratio { "" } else { " and space" };
    let width = if choice == Choice::Long { to.width } else { Some(limit) };
    format!(
        "\nashift={ashift}, {layout}: ratio{space} of the records{interval} (* best within the intervals)\n{}",
        table(cells, style).terminal_in_parts(Terminal { width, ..to }, 1)
    )
}

/// How much a cell says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Full,
    Space,
    Ratio,
}

fn table(cells: &[&Cell], style: Style) -> Table {
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
        table.row([first].into_iter().chain(row.iter().map(|c| shown(c, style, c.ratio_ci95[1] >= floor))));
    }
    table
}

fn shown(cell: &Cell, style: Style, best: bool) -> TableCell {
    let mut text = format!("{}{}", if best { "*" } else { "" }, ratio(cell));
    if style == Style::Full && cell.error() > 0.0 {
        text.push_str(&format!(" {}", interval(cell.error())));
    }
    if style != Style::Ratio {
        text.push_str(&format!(" {}", format_size(cell.allocated_bytes)));
    }
    TableCell::text(text).tone(if best { Tone::Good } else { Tone::Plain })
}

fn ratio(cell: &Cell) -> String {
    if cell.ratio.is_finite() { format!("{:.2}x", cell.ratio) } else { "no block".to_owned() }
}

fn interval(error: f64) -> String {
    if error > 0.995 { "±?".to_owned() } else { format!("±{:.1}%", error * 100.0) }
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
            "poolwright: {} changed during the reading; the figures mix old and new",
            counted(found.changed, "file")
        );
    }
    if found.special > 0 {
        eprintln!(
            "poolwright: left out: {} (sockets, pipes, devices)",
            counted(found.special, "special file")
        );
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
