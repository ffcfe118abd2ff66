//! The space estimate: ratios and space by record size, codec and sector size, and the speed of the codecs.

use std::collections::BTreeMap;

use poolwright_base::quoted;
use poolwright_base::units::{counted, format_size};
use poolwright_estimate::{Cell, Ended, Estimate, Method, Progress};
use poolwright_report::{Cell as TableCell, Table, Terminal, Tone, Unit};

/// The sector size that [`Detail::Short`] shows: 4K, that of most disks.
const SHOWN_ASHIFT: u32 = 12;

/// Skipped files that the warnings name.
const NAMED_FILES: usize = 10;

/// Which settings the text shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// One sector size as a table, and the best setting of each other one. This fits a screen.
    Short,
    /// All sector sizes and layouts.
    All,
    /// The same, with the space and the interval of each setting, whatever the width.
    Long,
}

/// One line on an estimate in progress.
pub fn status(p: &Progress<'_>) -> String {
    let read = format_size(p.read_bytes);
    let of = format_size(p.data_bytes);
    match p.method {
        Method::Sampled if p.achieved.is_finite() => {
            format!("{read} of {of} read in {:.0} s, widest interval ±{:.1} %", p.seconds, p.achieved * 100.0)
        }
        Method::Sampled => format!("{read} of {of} read in {:.0} s", p.seconds),
        Method::Full => {
            let done = p.read_bytes as f64 / p.data_bytes.max(1) as f64;
            let left = (done > 0.0).then(|| format!(", about {:.0} s left", p.seconds / done - p.seconds));
            format!("{read} of {of} ({:.0} %){}", done * 100.0, left.unwrap_or_default())
        }
    }
}

/// Renders an estimate.
pub fn text(found: &Estimate, choice: Detail, to: Terminal) -> String {
    let how = match found.method {
        Method::Full => "all of it read".to_owned(),
        Method::Sampled => {
            let places = counted(found.places, "place");
            format!("{} read at {places}, seed {}", format_size(found.sampled_bytes), found.seed)
        }
    };
    let data = match found.data_bytes < found.logical_bytes {
        true => format!(", {} of it data and the rest holes", Unit::Bytes.format(found.data_bytes as f64)),
        false => String::new(),
    };
    format!(
        "{}, {}{data}: {how}, in {:.1} s; entropy {:.2} bits/byte\n{}{}",
        counted(found.files, "file"),
        Unit::Bytes.format(found.logical_bytes as f64),
        found.seconds,
        found.entropy_bits,
        tables(&found.cells, choice, to),
        speeds(&found.cells, to),
    )
}

/// The cells of one layout and ashift.
type Group<'a> = ((String, u32), Vec<&'a Cell>);

fn groups(cells: &[Cell]) -> Vec<Group<'_>> {
    let mut groups: BTreeMap<(String, u32), Vec<&Cell>> = BTreeMap::new();
    for cell in cells {
        groups.entry((cell.layout.to_string(), cell.ashift)).or_default().push(cell);
    }
    groups.into_iter().collect()
}

/// Renders one table for each layout and ashift, with a row for each record size and a column for each codec.
pub fn tables(cells: &[Cell], choice: Detail, to: Terminal) -> String {
    let mut groups = groups(cells);
    let shown = groups.iter().position(|((_, ashift), _)| *ashift == SHOWN_ASHIFT).unwrap_or(0);
    let others = match choice {
        Detail::Short if shown < groups.len() => {
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
        out.push_str(
            "no block: holes, and records of up to 112 bytes, which are stored in the block pointer\n",
        );
    }
    out.push('\n');
    out
}

/// The setting with the highest ratio: `2.35x (1M zstd-3)`.
fn best(cells: &[&Cell]) -> Option<String> {
    let best = cells.iter().max_by(|a, b| a.ratio.total_cmp(&b.ratio))?;
    Some(format!("{} ({} {})", ratio(best), format_size(best.recordsize), best.compression))
}

fn section(((layout, ashift), cells): &Group<'_>, choice: Detail, to: Terminal) -> String {
    // If the table is wider than the terminal, or than 80 columns of a pipe, drop first the intervals, then the space.
    let limit = to.width.unwrap_or(80);
    let styles = [Style::Full, Style::Space, Style::Ratio];
    let fits =
        styles.into_iter().find(|style| choice == Detail::Long || table(cells, *style).width() <= limit);
    let style = fits.unwrap_or(Style::Ratio);
    let widest = cells.iter().map(|cell| cell.error()).fold(0.0, f64::max);
    let interval = match style {
        Style::Space | Style::Ratio if widest > 0.0 => format!(", {}", interval(widest)),
        _ => String::new(),
    };
    let space = if style == Style::Ratio { "" } else { " and space" };
    let width = if choice == Detail::Long { to.width } else { Some(limit) };
    format!(
        "\nashift={ashift}, {layout}: ratio{space} of the records{interval} (* best within the intervals)\n{}",
        table(cells, style).terminal_in_parts(Terminal { width, ..to }, 1)
    )
}

/// What a cell of the table shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// Ratio, interval and space.
    Full,
    /// Ratio and space.
    Space,
    /// Ratio.
    Ratio,
}

fn table(cells: &[&Cell], style: Style) -> Table {
    let codecs = codecs(cells.iter().copied());
    // A setting is marked as best unless the whole interval of another one is above its own.
    let floor = cells.iter().map(|c| c.ratio_ci95[0]).fold(0.0, f64::max);
    Table::of(cells.chunks(codecs.len()))
        .right("recordsize", |row| format_size(row[0].recordsize))
        .each(codecs.iter().enumerate(), |table, (i, codec)| {
            table.right(*codec, |row| row.get(i).map(|c| shown(c, style, c.ratio_ci95[1] >= floor)))
        })
        .table()
}

/// The codecs in their order.
fn codecs<'a>(cells: impl Iterator<Item = &'a Cell>) -> Vec<&'a str> {
    let mut codecs: Vec<&str> = Vec::new();
    for cell in cells {
        if !codecs.contains(&cell.compression.as_str()) {
            codecs.push(&cell.compression);
        }
    }
    codecs
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

/// The range of each codec's speeds over the record sizes.
fn speeds(cells: &[Cell], to: Terminal) -> String {
    let codecs = codecs(cells.iter()).into_iter().filter(|codec| *codec != "off");
    let range = |codec: &str, speed: fn(&Cell) -> Option<f64>| {
        let speeds = || cells.iter().filter(|c| c.compression == codec).filter_map(speed);
        let (low, high) = (speeds().fold(f64::INFINITY, f64::min), speeds().fold(0.0, f64::max));
        match (low, high) {
            _ if high == 0.0 => TableCell::missing(),
            _ if high < low * 1.05 => TableCell::text(format!("{high:.0}")),
            _ => TableCell::text(format!("{low:.0}…{high:.0}")),
        }
    };
    let table = Table::of(codecs)
        .left("codec", |codec| codec)
        .right("compress MiB/s per core", |codec| range(codec, |c| c.compress_mib_s))
        .right("decompress MiB/s per core", |codec| range(codec, |c| c.decompress_mib_s))
        .table();
    if table.is_empty() { String::new() } else { table.terminal(to) }
}

/// The limitations of an estimate: skipped and changed files, and why it ended early.
pub fn warnings(found: &Estimate) -> Vec<String> {
    let named = found.skipped.iter().take(NAMED_FILES);
    let mut all: Vec<String> =
        named.map(|skipped| format!("skipped {}: {}", quoted(&skipped.path), skipped.why)).collect();
    if found.skipped.len() > NAMED_FILES {
        all.push(format!("… and {} more; --json lists them all", found.skipped.len() - NAMED_FILES));
    }
    if found.changed > 0 {
        let files = counted(found.changed, "file");
        all.push(format!("{files} changed while being read; the figures mix old and new data"));
    }
    if found.special > 0 {
        all.push(format!("left out: {} (sockets, pipes, devices)", counted(found.special, "special file")));
    }
    match found.ended {
        Ended::Done => {}
        Ended::Limit => all.push(format!(
            "stopped at the limit with intervals up to ±{:.1} % (wanted {:.1} %); raise --limit or name fewer settings \
             with -o",
            found.achieved * 100.0,
            found.within * 100.0
        )),
        Ended::Interrupted => all.push("interrupted; these are the figures so far".to_owned()),
    }
    all
}
