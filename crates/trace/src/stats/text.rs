//! Formats the statistics as tables for a terminal.

use std::fmt::Write as _;

use super::{Group, Quantiles, SizeHistogram, Stats, Throughput};
use crate::layout::Role;
use poolwright_base::units::{counted, format_count, format_ns, format_size};

const BAR: usize = 32;
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Returns the tables of the total, of each role, and of the `files` busiest files.
pub fn render(stats: &Stats, files: usize) -> String {
    let mut out = String::new();
    head(&mut out, stats);
    roles(&mut out, stats);
    for (role, group) in in_order(stats) {
        histograms(&mut out, role, group);
    }
    busiest(&mut out, stats, files);
    over_time(&mut out, stats);
    out
}

/// Explanations of the less obvious column headings of the table of roles.
const MEANINGS: [&str; 5] = [
    "seq r, w: reads, writes that begin where the thread's last one in the file ended",
    "al r, w:  the largest power of two that divides 99 % of their offsets",
    "wr/sync:  writes to a file until a sync of it; a synchronous write is a sync",
    "wset:     distinct blocks of 4K (next column: 16K) read or written, in bytes",
    "over:     bytes written per distinct byte written",
];

macro_rules! line {
    ($out:expr) => { $out.push('\n') };
    ($out:expr, $($arg:tt)*) => { writeln!($out, $($arg)*).expect("writing to a String succeeds") };
}

fn head(out: &mut String, stats: &Stats) {
    line!(out, "{}, {} ({})", stats.subject, stats.probe_set, stats.creator);
    let layout = stats.layout.as_deref().unwrap_or("unknown layout");
    let active = stats.files.iter().filter(|f| !f.group.ops.is_empty()).count();
    line!(
        out,
        "{:.1} s, {} on {active} of {} ({layout}), {} lost",
        stats.duration_s,
        counted(stats.events, "event"),
        counted(stats.files.len() as u64, "file"),
        format_count(stats.lost_events)
    );
    if stats.lost_events > 0 {
        line!(out, "warning: the recorder lost events; counts and bytes are too low");
    }
    for (what, count) in &stats.unseen {
        line!(out, "not seen: {what} ({})", format_count(*count));
    }
    if stats.total.cached_faults > 0 {
        let faults = counted(stats.total.cached_faults, "page fault");
        line!(out, "not counted as reads: {faults} in mapped files whose pages were in the page cache");
    }
    if stats.torn_bytes > 0 {
        line!(
            out,
            "warning: the end is torn (recorder killed?); {} were not used",
            format_size(stats.torn_bytes)
        );
    }
    for (block, rate) in stats.working_set_sampled.iter().filter(|(_, rate)| **rate < 1.0) {
        let block = block.parse().map(format_size).unwrap_or_default();
        line!(out, "working set of {block} blocks: estimated from {:.2} % of them", rate * 100.0);
    }
}

/// The roles in the order of tables.
fn in_order(stats: &Stats) -> impl Iterator<Item = (Role, &Group)> {
    Role::ALL.into_iter().filter_map(|role| Some((role, stats.roles.get(&role)?)))
}

fn roles(out: &mut String, stats: &Stats) {
    line!(out);
    line!(
        out,
        "{:<8}{:>10}{:>8}{:>10}{:>8}{:>8}{:>6}{:>6}{:>7}{:>7}{:>9}{:>8}{:>8}{:>7}",
        "role",
        "reads",
        "bytes",
        "writes",
        "bytes",
        "syncs",
        "seq r",
        "seq w",
        "al r",
        "al w",
        "wr/sync",
        "wset 4K",
        "16K",
        "over"
    );
    for (role, group) in in_order(stats) {
        role_line(out, role.name(), group);
    }
    if stats.roles.len() > 1 {
        role_line(out, "all", &stats.total);
    }
    for meaning in MEANINGS {
        line!(out, "{meaning}");
    }
    line!(out);
    line!(out, "{:<8}{:<7}{:>9}{:>9}{:>9}", "latency", "", "p50", "p99", "p99.9");
    for (role, group) in in_order(stats) {
        let kinds = [
            ("read", group.read.latency_ns),
            ("write", group.write.latency_ns),
            ("sync", group.sync.latency_ns),
        ];
        for (kind, Quantiles { p50, p99, p999 }) in kinds.iter().filter_map(|(k, q)| q.map(|q| (k, q))) {
            let [p50, p99, p999] = [p50, p99, p999].map(format_ns);
            line!(out, "{role:<8}{kind:<7}{p50:>9}{p99:>9}{p999:>9}");
        }
    }
}

fn role_line(out: &mut String, name: &str, group: &Group) {
    let op = |name: &str| group.ops.get(name).copied().unwrap_or(0);
    let percent = |share: Option<f64>| share.map_or("-".to_owned(), |s| format!("{:.0}%", s * 100.0));
    let size = |size: Option<u64>| size.map_or("-".to_owned(), format_size);
    let decimal = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.1}"));
    let wset = |at: usize| group.working_set.get(at).map_or(0, |w| w.bytes);
    line!(
        out,
        "{name:<8}{:>10}{:>8}{:>10}{:>8}{:>8}{:>6}{:>6}{:>7}{:>7}{:>9}{:>8}{:>8}{:>7}",
        format_count(group.read_size_histogram.total()),
        format_size(group.bytes.read),
        format_count(op("write")),
        format_size(group.bytes.write),
        format_count(group.sync.calls + group.sync.sync_writes),
        percent(group.read.sequential),
        percent(group.write.sequential),
        size(group.read.offset_alignment),
        size(group.write.offset_alignment),
        decimal(group.sync.writes_per_sync),
        format_size(wset(0)),
        format_size(wset(1)),
        decimal(group.overwrite_factor),
    );
}

fn histograms(out: &mut String, role: Role, group: &Group) {
    let ways = [
        ("reads", &group.read_size_histogram, &group.read),
        ("writes", &group.write_size_histogram, &group.write),
    ];
    for (what, sizes, way) in ways.into_iter().filter(|(_, sizes, _)| !sizes.0.is_empty()) {
        let of_kind = |kind: &str| way.size_histogram_by_kind.get(kind).map_or(0, SizeHistogram::total);
        let share = |kind: &str| of_kind(kind) as f64 * 100.0 / sizes.total() as f64;
        line!(out);
        line!(
            out,
            "{role} {what} by size ({:.0}% direct, {:.0}% synchronous)",
            share("direct"),
            share("sync")
        );
        bars(out, sizes);
    }
}

fn bars(out: &mut String, sizes: &SizeHistogram) {
    let most = sizes.0.iter().map(|(_, count)| *count).max().unwrap_or(1).max(1);
    let total = sizes.total().max(1);
    for (low, count) in &sizes.0 {
        let bar = bar(*count as f64 / most as f64);
        let share = *count as f64 * 100.0 / total as f64;
        line!(out, "{:>7} {:>11} {share:>5.1}% {bar}", format_size(*low), format_count(*count));
    }
}

fn bar(share: f64) -> String {
    let eighths = (share * BAR as f64 * 8.0).round() as usize;
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(EIGHTHS[eighths % 8]);
    } else if eighths == 0 {
        bar.push(EIGHTHS[1]); // a non-empty bucket is visible
    }
    bar
}

fn busiest(out: &mut String, stats: &Stats, files: usize) {
    let mut order: Vec<_> = stats.files.iter().filter(|f| !f.group.ops.is_empty()).collect();
    order.sort_by_key(|f| std::cmp::Reverse(f.group.bytes.read + f.group.bytes.write));
    if order.is_empty() || files == 0 {
        return;
    }
    line!(out);
    line!(out, "{:<8}{:>8}{:>8}{:>8}{:>8}  file", "role", "size", "read", "written", "syncs");
    for file in order.iter().take(files) {
        let guessed = if file.role_from_use { "?" } else { "" };
        line!(
            out,
            "{:<8}{:>8}{:>8}{:>8}{:>8}  {}",
            format!("{}{guessed}", file.role),
            format_size(file.size),
            format_size(file.group.bytes.read),
            format_size(file.group.bytes.write),
            format_count(file.group.sync.calls + file.group.sync.sync_writes),
            file.path.escape_debug()
        );
    }
    if order.len() > files {
        line!(out, "… and {} more", format_count((order.len() - files) as u64));
    }
    if order.iter().any(|f| f.role_from_use) {
        line!(out, "? role guessed from how the file was used");
    }
}

fn over_time(out: &mut String, stats: &Stats) {
    if stats.events == 0 {
        return;
    }
    line!(out);
    let row = |name: &str, value: fn(&Throughput) -> u64, shown: fn(u64) -> String, out: &mut String| {
        let most = stats.throughput.iter().map(value).max().unwrap_or(0);
        if most > 0 {
            let level = |part: &Throughput| match value(part) {
                0 => ' ',
                n => LEVELS[((n as f64 / most as f64 * 8.0).ceil() as usize).clamp(1, 8) - 1],
            };
            let width = stats.duration_s / stats.throughput.len() as f64;
            let rate = if width > 0.0 { (most as f64 / width) as u64 } else { 0 };
            let line: String = stats.throughput.iter().map(level).collect();
            line!(out, "{name:<8}|{line}| at most {}/s", shown(rate));
        }
    };
    row("read", |t| t.read_bytes, format_size, out);
    row("write", |t| t.write_bytes, format_size, out);
    row("syncs", |t| t.syncs, format_count, out);
}
