//! Compares plots, tables and pages with golden files.

use poolwright_report::plot::{Bars, HeatMap, Histogram, Intervals, Line, Point, Scatter, TimeSeries};
use poolwright_report::{Axis, Better, Callout, Cell, Column, Mark, Page, Plot, Section, Table, Tone, Unit};

mod common;
use common::golden;

fn scatter(points: Vec<Point>) -> Scatter {
    let (x, y) = (Axis::new("space ratio", Unit::Ratio), Axis::new("read p99", Unit::Nanoseconds).log());
    Scatter::new("Space against latency", x, y, (Better::Higher, Better::Lower), points)
}

fn trade_off() -> Scatter {
    scatter(vec![
        Point::new(1.91, 283e3, "lz4", "128K lz4").mark(Mark::Today).y_range((270e3, 301e3)),
        Point::new(2.16, 132e3, "zstd-3", "16K zstd-3")
            .mark(Mark::Chosen)
            .y_range((128e3, 140e3))
            .x_range((2.1, 2.2)),
        Point::new(1.62, 118e3, "lz4", "16K lz4"),
        Point::new(2.83, 310e3, "zstd-3", "128K zstd-3"),
        Point::new(1.0, 150e3, "lz4", "<4K & lz4>"),
    ])
}

fn sizes(read: &[(u64, u64)], write: &[(u64, u64)]) -> Histogram {
    Histogram::new("Sizes", "size of one operation", Unit::Bytes).series("read", read).series("write", write)
}

fn intervals() -> Intervals {
    Intervals::new("What would change")
        .row("write amplification", Unit::Ratio, (3.51, 1.42), (-0.595, (-0.612, -0.579)), Better::Lower)
        .row(
            "operations per second",
            Unit::PerSecond,
            (8120.0, 7480.0),
            (-0.08, (-0.12, -0.04)),
            Better::Higher,
        )
        .row("read p99", Unit::Nanoseconds, (412e3, 371e3), (-0.098, (-0.214, 0.026)), Better::Lower)
}

fn series(lines: Vec<Line>) -> TimeSeries {
    let (x, y) = (Axis::new("time", Unit::Seconds), Axis::new("written", Unit::BytesPerSecond).from_zero());
    TimeSeries::new("Writes over time", x, y, lines)
}

/// A figure by size with its band of uncertainty, and a marked size.
fn curves() -> TimeSeries {
    let sizes: [(f64, f64); 5] = [(16e6, 0.9), (128e6, 0.55), (1e9, 0.3), (8e9, 0.12), (64e9, 0.11)];
    let band = sizes.iter().map(|(x, y)| (*x, y - 0.04, y + 0.06)).collect();
    let steep = Line::new("16K", sizes.map(|(x, y)| (x, y * 0.8)).to_vec());
    let lines = vec![Line::new("128K", sizes.to_vec()).band(band).dots(), steep.dots()];
    let x = Axis::new("cache", Unit::Bytes).log();
    TimeSeries::new("Misses by size", x, Axis::new("miss ratio", Unit::Fraction).from_zero(), lines)
        .event(4e9, "today's ARC, 4G")
}

fn bars(values: &[f64]) -> Bars {
    let plot = Bars::new("Wall time", Axis::new("seconds", Unit::Seconds));
    values.iter().enumerate().fold(plot, |plot, (i, v)| {
        let mark = if i == 1 { Mark::Chosen } else { Mark::None };
        let range = (i != 2).then_some((v * 0.9, v * 1.2));
        plot.bar(&format!("<setting> {i}"), ["lz4", "off"][i % 2], *v, range, mark)
    })
}

fn grid() -> HeatMap {
    let mut map = HeatMap::new(
        "Space",
        Unit::Ratio,
        ("recordsize", &["16K", "128K"]),
        ("compression", &["off", "lz4", "zstd-3"]),
    );
    for (r, c, v) in [(0, 0, 1.0), (0, 1, 1.62), (0, 2, 2.16), (1, 0, 1.0), (1, 2, 2.83)] {
        map.set(r, c, v);
    }
    map.mark(0, 2, Mark::Chosen);
    map.mark(1, 0, Mark::Today);
    map
}

fn table() -> Table {
    let mut t = Table::new([Column::left("path"), Column::right("size")]);
    t.row(["/db/<script>alert(1)</script>\"'&\u{202e}".into(), Cell::bytes(16384).tone(Tone::Good)]);
    t.row(["b".into(), Cell::missing()]);
    t.row(["c".into(), Cell::bytes(4096).note("<4K> to 5K")]);
    t
}

/// Adds one plot of each kind.
fn plots(section: &mut Section) {
    let sizes = sizes(&[(4096, 10), (16384, 900)], &[(512, 1), (16384, 400)]);
    section.plot(&trade_off(), "").plot(&sizes, "").plot(&intervals(), "").plot(&grid(), "");
    let gap = vec![(0.0, 1e6), (1.0, 3e6), (2.0, f64::NAN), (3.0, 2e6), (4.0, 2.5e6)];
    let lines = vec![Line::new("today", gap), Line::new("then", vec![(0.0, 5e5), (4.0, 6e5)])];
    let switched = series(lines.clone())
        .event(1.5, "primarycache none → <all>")
        .event(3.9, "the same again, near the end");
    let ratio = Line::new("hit ratio", vec![(0.0, 0.1), (2.0, 0.2), (2.1, 0.95), (4.0, 0.97)]);
    let two = switched.clone().right(Axis::new("hit ratio", Unit::Fraction).from_zero(), vec![ratio]);
    section.plot(&series(lines), "").plot(&switched, "").plot(&two, "");
    section.plot(&curves(), "").plot(&bars(&[12.0, 3.5, 0.01, 7.0]), "");
}

#[test]
fn the_page_looks_as_it_did() {
    let mut page = Page::new("Plan for /db/<x>").subtitle("goal: balanced").footer("made by a test");
    page.section("").callout(Callout::Keep, "Keep", "Nothing is better than `recordsize=128K`.");
    page.section("Roles").tiles([("space", "−16 %", "", Tone::Good)]).table(&table());
    page.section("Plots").plot(&grid(), "At `ashift=12`.").plots([&intervals()]).list(["one", "two"]);
    plots(page.section("Every plot"));
    page.section("Machine").key_values([("CPU", "<fast>")]).raw("plan.json", "{\"a\":\"</pre><script>\"}");
    page.section("Folded").folded("<more>", |inside| {
        inside.table(&table()).raw("log", "</details>");
    });
    golden("page.html", &page.html());
}

#[test]
fn text_from_outside_cannot_become_mark_up() {
    let evil = "</title></svg></pre><script>alert(1)</script><img src=x onerror=alert(1)>\"'`\u{1b}\u{0}";
    let mut page = Page::new(evil).subtitle(evil).footer(evil);
    let mut map = HeatMap::new(evil, Unit::None, (evil, &[evil]), (evil, &[evil]));
    map.set(0, 0, 1.0);
    let mut t = Table::new([Column::left(evil)]);
    t.row([Cell::text(evil)]);
    let pt = || Point::new(1.0, 1.0, evil, evil).mark(Mark::Chosen);
    let axis = || Axis::new(evil, Unit::None);
    for _ in 0..3 {
        page.section(evil)
            .heading(evil)
            .paragraph(evil)
            .list([evil])
            .callout(Callout::Warning, evil, evil)
            .tiles([(evil, evil, evil, Tone::Bad)])
            .key_values([(evil, evil)])
            .raw(evil, evil)
            .table(&t)
            .plot(&map, evil)
            .plot(&Scatter::new(evil, axis(), axis(), (Better::Lower, Better::Lower), vec![pt()]), evil)
            .plot(&Histogram::new(evil, evil, Unit::Bytes).series(evil, &[(1, 1)]), evil)
            .plot(&Intervals::new(evil).row(evil, Unit::None, (1., 2.), (1., (0.5, 2.)), Better::Lower), evil)
            .plot(
                &TimeSeries::new(evil, axis(), axis(), vec![Line::new(evil, vec![(1.0, 1.0)])])
                    .event(1.0, evil),
                evil,
            )
            .plot(
                &Bars::new(evil, axis()).bar(evil, evil, 1.0, None, Mark::Chosen).bar(
                    evil,
                    "",
                    1.0,
                    None,
                    Mark::None,
                ),
                evil,
            )
            .folded(evil, |inside| {
                inside.raw(evil, evil);
            });
    }
    let html = page.html();
    assert_eq!(html.matches("<script").count(), 1, "the page has only its sorting script");
    assert!(!html.contains("<img") && !html.contains(['\u{1b}', '\u{0}']));
    assert_eq!(html.matches("</title>").count(), html.matches("<title>").count());
    assert_eq!(html.matches("<svg").count(), 18);
}

#[test]
fn the_page_fetches_nothing() {
    let mut page = Page::new("t");
    page.section("a").plot(&trade_off(), "").table(&table());
    let html = page.html();
    for outside in ["http://", "https://", "url(", "@import", " src=", "<link", "fetch(", "import("] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert!(html.contains("default-src 'none'"));
}

/// Checks that every coordinate is a finite number within the drawing, or, for text, close to it.
fn sound(svg: &str) {
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    let quoted = |name: &str| -> Vec<f64> {
        let key = format!(" {name}=\"");
        svg.match_indices(&key)
            .map(|(i, k)| svg[i + k.len()..].split('"').next().unwrap().parse().unwrap())
            .collect()
    };
    for name in ["x", "y", "x1", "y1", "x2", "y2", "cx", "cy"] {
        for v in quoted(name) {
            assert!((-20.0..=1000.0).contains(&v), "{name}={v} in {svg}");
        }
    }
    for name in ["width", "height", "r"] {
        assert!(quoted(name).iter().all(|v| *v >= 0.0), "{svg}");
    }
    assert_eq!(svg.matches("<g>").count(), svg.matches("</g>").count());
}

#[test]
fn degenerate_input_gives_a_sound_picture() {
    let odd: [&[f64]; 9] = [
        &[],
        &[5.0],
        &[0.0],
        &[7.0; 4],
        &[f64::NAN],
        &[f64::INFINITY, 1.0, f64::NEG_INFINITY, 2.0],
        &[f64::MAX, f64::MIN, 1.0],
        &[1e-300, 1e300 / 2.0],
        &[-5.0, -5.0, 3.0],
    ];
    for set in odd {
        let point = |v: &f64| Point::new(*v, *v, "g", "label").y_range((v * 0.9, v * 1.1)).mark(Mark::Today);
        sound(&scatter(set.iter().map(point).collect()).svg());
        let linear = Axis::new("x", Unit::Bytes);
        let better = (Better::Lower, Better::Lower);
        sound(&Scatter::new("", linear.clone(), linear, better, set.iter().map(point).collect()).svg());
        sound(
            &series(vec![Line::new("a", set.iter().map(|v| (*v, *v)).collect()), Line::new("b", vec![])])
                .svg(),
        );
        let rows = set.iter().fold(Intervals::new("t"), |plot, v| {
            plot.row("m", Unit::Bytes, (*v, *v), (*v, (v - 1.0, v + 1.0)), Better::Lower)
        });
        sound(&rows.svg());
        sound(&bars(set).svg());
        let events =
            set.iter().fold(series(vec![Line::new("a", vec![(0.0, 1.0)])]), |s, v| s.event(*v, "event"));
        sound(&events.svg());
        let band = set.iter().map(|v| (*v, v * 0.5, v + 1.0)).collect();
        let curve = Line::new("a", set.iter().map(|v| (*v, *v)).collect()).band(band).dots();
        sound(&series(vec![curve]).svg());
        let second = vec![Line::new("b", set.iter().map(|v| (*v, *v)).collect())];
        sound(&series(vec![]).right(Axis::new("y", Unit::Bytes), second).svg());
        let names: Vec<String> = (0..set.len()).map(|i| format!("column {i}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut map = HeatMap::new("t", Unit::None, ("r", &["only"]), ("c", &names));
        set.iter().enumerate().for_each(|(c, v)| map.set(0, c, *v));
        sound(&map.svg());
    }
    for buckets in [&[][..], &[(0, 0)], &[(0, 1)], &[(u64::MAX, u64::MAX), (0, 1)], &[(3, 5), (3, 5)]] {
        sound(&sizes(buckets, buckets).svg());
        sound(&sizes(buckets, &[]).svg());
    }
    sound(&Histogram::new("", "", Unit::Count).svg());
    sound(&series(vec![]).svg());
    sound(&HeatMap::new("", Unit::None, ("", &[]), ("", &[])).svg());
}

#[test]
fn nothing_measured_is_said_and_what_is_missing_is_counted() {
    assert!(scatter(vec![]).svg().contains("nothing was measured"));
    assert!(series(vec![]).svg().contains("nothing was measured"));
    let svg = scatter(vec![Point::new(1.0, 1.0, "g", "a"), Point::new(1.0, -1.0, "g", "b")]).svg();
    assert!(svg.contains("1 figure is missing"), "{svg}");
}

#[test]
fn a_label_at_the_edge_is_not_cut_off() {
    let points = [0u64, 64, 128, 192, 256].map(|m| ((m << 20) as f64, 0.5)).to_vec();
    let x = Axis::new("cache", Unit::Bytes);
    let svg = TimeSeries::new("t", x, Axis::new("y", Unit::Fraction), vec![Line::new("a", points)]).svg();
    let edge = svg.lines().find(|l| l.contains(">256M<")).expect("the last tick has its label");
    assert!(edge.contains("x=\"872\"") && edge.contains("text-anchor=\"end\""), "{edge}");
}

#[test]
fn a_long_series_stays_small() {
    let points = (0..1_000_000).map(|i| (f64::from(i), f64::from(i % 1000))).collect();
    assert!(series(vec![Line::new("a", points)]).svg().len() < 100_000);
}
