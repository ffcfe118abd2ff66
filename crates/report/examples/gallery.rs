//! Renders every plot, table and box on one page: `cargo run -p poolwright-report --example gallery > gallery.html`.
//!
//! All figures on it are invented.

use poolwright_report::plot::{HALF, HeatMap, Histogram, Intervals, Line, Point, Scatter, TimeSeries};
use poolwright_report::{Axis, Better, Callout, Cell, Column, Mark, Page, Table, Tone, Unit};

const RECORDS: [&str; 6] = ["4K", "8K", "16K", "32K", "64K", "128K"];
const CODECS: [&str; 5] = ["off", "lz4", "zstd-1", "zstd-3", "gzip-6"];
/// Invented space ratios by record size and codec.
const SPACE: [[f64; 5]; 6] = [
    [1.00, 1.00, 1.00, 1.00, 1.00],
    [1.00, 1.31, 1.48, 1.52, 1.55],
    [1.00, 1.62, 2.03, 2.16, 2.21],
    [1.00, 1.78, 2.31, 2.48, 2.54],
    [1.00, 1.86, 2.47, 2.69, 2.77],
    [1.00, 1.91, 2.58, 2.83, 2.91],
];

/// Returns an invented latency in nanoseconds: lowest at 16K, higher with a slower codec.
fn latency(record: usize, codec: usize) -> f64 {
    let size = [1.25, 1.08, 1.0, 1.16, 1.52, 2.4][record];
    118e3 * size * [0.97, 1.0, 1.05, 1.12, 1.62][codec]
}

fn trade_off() -> Scatter {
    let mut points = Vec::new();
    for (r, record) in RECORDS.iter().enumerate() {
        for (c, codec) in CODECS.iter().enumerate().filter(|(c, _)| *c < 4 || r % 2 == 0) {
            let (x, y) = (SPACE[r][c], latency(r, c));
            let mark = match (*record, *codec) {
                ("128K", "lz4") => Mark::Today,
                ("16K", "zstd-3") => Mark::Chosen,
                _ => Mark::None,
            };
            let spread = 0.02 + 0.012 * ((r * 5 + c) % 4) as f64;
            let point = Point::new(x, y, codec, &format!("{record} {codec}"));
            points.push(
                point.x_range(x * 0.99, x * 1.01).y_range(y * (1.0 - spread), y * (1.0 + spread)).mark(mark),
            );
        }
    }
    let x = Axis::new("space ratio (logical bytes / allocated bytes)", Unit::Ratio);
    let y = Axis::new("mean latency", Unit::Nanoseconds).log();
    Scatter::new(
        "Space against latency, one point per setting",
        x,
        y,
        (Better::Higher, Better::Lower),
        points,
    )
}

fn grid() -> HeatMap {
    let mut map =
        HeatMap::new("Space ratio", Unit::Ratio, ("recordsize", &RECORDS), ("compression", &CODECS));
    for (r, row) in SPACE.iter().enumerate() {
        for (c, v) in row.iter().enumerate().filter(|(c, _)| (r, *c) != (0, 4)) {
            map.set(r, c, *v);
        }
    }
    map.mark(5, 1, Mark::Today);
    map.mark(2, 3, Mark::Chosen);
    map
}

fn sizes(title: &str, read: &[(u64, u64)], write: &[(u64, u64)]) -> Histogram {
    Histogram::new(title, "size of one operation", Unit::Bytes)
        .series("read", read)
        .series("write", write)
        .size(HALF, 260.0)
}

fn changes() -> Intervals {
    use Better::{Higher, Lower};
    Intervals::new("What would change")
        .row("write amplification", Unit::Ratio, (3.51, 1.42), (-0.595, (-0.612, -0.579)), Lower)
        .row("allocated bytes", Unit::Bytes, (961e6, 802e6), (-0.165, (-0.168, -0.163)), Lower)
        .row("read p99", Unit::Nanoseconds, (412e3, 371e3), (-0.098, (-0.214, 0.026)), Lower)
        .row("fsync p99", Unit::Nanoseconds, (2.4e6, 1.9e6), (-0.208, (-0.305, -0.101)), Lower)
        .row("operations per second", Unit::PerSecond, (8120.0, 9480.0), (0.168, (0.111, 0.224)), Higher)
        .row("CPU per operation", Unit::Nanoseconds, (21e3, 24.4e3), (0.162, (0.118, 0.207)), Lower)
}

fn over_time() -> TimeSeries {
    let line = |name: &str, base: f64, phase: f64| {
        let y = |t: f64| base + base * 0.08 * (t / 3.0 + phase).sin() + base * 0.05 * (t * 1.7 + phase).cos();
        let gap = |t: f64| if (40.0..43.0).contains(&t) && phase > 0.0 { f64::NAN } else { y(t) };
        Line::new(name, (0..600).map(|i| (f64::from(i) / 10.0, gap(f64::from(i) / 10.0))).collect())
    };
    let x = Axis::new("time since the start of the replay", Unit::Seconds);
    let y = Axis::new("bytes written to devices", Unit::BytesPerSecond).from_zero();
    TimeSeries::new("Writes over time", x, y, vec![line("today", 61e6, 0.0), line("recommended", 27e6, 1.3)])
}

fn roles() -> Table {
    let mut t = Table::new([
        Column::left("role"),
        Column::left("path"),
        Column::right("size").key("bytes"),
        Column::left("today"),
        Column::left("recommended"),
        Column::right("write amp.").key("write_amplification_change"),
    ]);
    let mut row = |role, path, size, today, then, change: f64, tone| {
        let change = Cell::num(change, Unit::Change).tone(tone);
        let size = Cell::num(size, Unit::Bytes);
        t.row([Cell::text(role), Cell::text(path), size, Cell::text(today), Cell::text(then), change]);
    };
    row("data", "/srv/mariadb/data", 2.05e9, "128K lz4", "16K zstd-3", -0.595, Tone::Good);
    row("wal", "/srv/mariadb/redo", 1.0e8, "128K lz4", "128K lz4", 0.004, Tone::Muted);
    row("binlog", "/srv/mariadb/<b>binlog</b>", 4.2e8, "128K lz4", "128K zstd-3", f64::NAN, Tone::Plain);
    t
}

fn main() {
    let mut page = Page::new("Plan for /srv/mariadb")
        .subtitle("MariaDB 10.11 on ext4 · goal: balanced · every figure on this page is made up")
        .footer("gallery of poolwright-report");
    page.section("")
        .callout(
            Callout::Change,
            "Change: 16K records with zstd-3 for the data files",
            "Writes 60 % fewer bytes to the devices and takes 17 % less space; latency is no worse beyond noise.",
        )
        .tiles([
            ("write amplification", "−59.5 %", "3.51 → 1.42", Tone::Good),
            ("space", "−16.5 %", "961M → 802M", Tone::Good),
            ("read p99", "noise", "412 µs → 371 µs", Tone::Muted),
            ("CPU per operation", "+16.2 %", "21.0 µs → 24.4 µs", Tone::Bad),
        ])
        .callout(Callout::Warning, "1 file was skipped", "`/srv/mariadb/aria_log_control`: permission denied.");
    page.section("Roles")
        .paragraph("Sizes are today's; `recordsize` takes effect for new files only.")
        .table(&roles());
    page.section("Trade-off")
        .plot(
            &trade_off(),
            "Bars are the smallest and largest of five repeats. Point at a dot for its figures.",
        )
        .plot(&changes(), "Five interleaved pairs of trials.")
        .plot(&grid(), "Sampled estimate at `ashift=12`.");
    page.section("What the database does")
        .plots(&[
            &sizes("data", &[(16384, 18_400)], &[(16384, 20_500), (32768, 500), (131072, 1210)]),
            &sizes("wal", &[], &[(512, 5200), (1024, 9100), (2048, 6400), (4096, 2900), (16384, 120)]),
        ])
        .plot(&over_time(), "");
    page.section("What it ran on")
        .key_values([
            ("CPU", "Example CPU 2.5 GHz, 8 cores"),
            ("memory", "32G, ARC limit 256M"),
            ("OpenZFS", "2.3.2 (library)"),
            ("seeds", "42, 43"),
        ])
        .raw(
            "plan.json",
            "{\n  \"format\": \"poolwright-plan\",\n  \"note\": \"</pre><script>alert(1)</script>\"\n}",
        );
    print!("{}", page.html());
}
