//! Miss-ratio curves and their interpretation as a self-contained page.

pub mod format;
pub mod picture;
#[cfg(test)]
mod tests;

use poolwright_base::units::bytes;
use poolwright_mrc::advice::{Explained, Host, Step, StepVerdict};
use poolwright_mrc::analysis::Divided;
use poolwright_mrc::{Point, partition};
use poolwright_report::{Callout, Cell, Page, Section, Table, Tone, Unit};

/// The contents of a page.
pub struct Report<'a> {
    /// The name of the trace.
    pub source: &'a str,
    /// The program and its version.
    pub creator: &'a str,
    /// Names and values that describe the trace and the run.
    pub about: &'a [(String, String)],
    /// Names and values that describe the machine.
    pub machine: &'a [(String, String)],
    /// A curve for each model and record size.
    pub curves: &'a [Explained],
    /// Today's ARC.
    pub host: Host,
    /// The division of memory, if requested.
    pub split: Option<&'a Divided>,
    /// The limitations of the curves.
    pub warnings: &'a [String],
    /// The same results as a JSON object.
    pub json: &'a str,
}

/// Renders the page.
pub fn html(report: &Report<'_>) -> String {
    let mut page =
        Page::new(&format!("Cache for {}", report.source)).subtitle(&subtitle(report)).footer(report.creator);
    let top = page.section("");
    if let Some(main) = report.curves.first() {
        tiles(top, main);
    }
    for warning in report.warnings {
        top.callout(Callout::Warning, "Before you trust this", warning);
    }
    if !report.curves.is_empty() {
        curves(page.section("Curves"), report);
    }
    for explained in report.curves {
        one(page.section(&format::name(&explained.curve)), explained);
    }
    if let Some(divided) = report.split {
        division(page.section("The database's cache and the ARC"), divided);
    }
    let section = page.section("What it ran on");
    section.key_values(report.about.iter().chain(report.machine).map(|(k, v)| (k, v)));
    section.key_values(format::host(&report.host));
    how_to_read(page.section("How to read this"));
    page.section("All figures").raw("mrc.json", report.json);
    page.html()
}

fn subtitle(report: &Report<'_>) -> String {
    let mut models: Vec<&str> = report.curves.iter().map(|e| e.curve.model.as_str()).collect();
    distinct(&mut models);
    let mut sizes: Vec<String> = report.curves.iter().filter_map(|e| e.curve.recordsize).map(bytes).collect();
    distinct(&mut sizes);
    let records =
        if sizes.is_empty() { String::new() } else { format!(" · records of {}", sizes.join(", ")) };
    format!("miss-ratio curves: {}{records}", models.join(", "))
}

/// Removes duplicates and keeps the order.
fn distinct<T: PartialEq + Clone>(all: &mut Vec<T>) {
    let mut seen: Vec<T> = Vec::new();
    all.retain(|one| !seen.contains(one) && (seen.push(one.clone()), true).1);
}

/// The knee and the sufficient size of the first curve, today's ARC and the effect of another gigabyte.
fn tiles(top: &mut Section, main: &Explained) {
    let advice = &main.advice;
    let ratio = |r: f64| format!("{} of requests read", Unit::Fraction.format(r));
    let mut all: Vec<(&str, String, String)> = Vec::new();
    match advice.knee {
        Some(knee) => all.push(("knee", bytes(knee.cache_bytes), ratio(knee.read_ratio))),
        None => all.push(("knee", "none".into(), "see the notes".into())),
    }
    all.extend(advice.enough.map(|e| ("enough", bytes(e.cache_bytes), ratio(e.read_ratio))));
    if let Some(today) = &advice.today {
        let now = today.read_ratio.map_or("outside the curve".into(), ratio);
        all.push(("today's ARC", bytes(today.from_bytes), now));
        let (figure, more) = format::saving(today);
        all.push(("the next gigabyte", figure, more));
    }
    let about = format::name(&main.curve);
    top.tiles(all.into_iter().map(|(what, value, more)| (what, value, more, Tone::Plain)));
    if !advice.notes.is_empty() {
        top.callout(Callout::Note, &about, &format::sentence(&advice.notes.join("; ")));
    }
}

fn curves(section: &mut Section, report: &Report<'_>) {
    for (plot, caption) in picture::curves(report.curves, &report.host) {
        section.plot(&plot, &caption);
    }
    if report.curves.len() < 2 {
        return;
    }
    let table = Table::of(report.curves)
        .left("curve", |e| format::name(&e.curve))
        .right("requests", |e| Cell::count(e.curve.requests))
        .right("records", |e| Cell::count(e.curve.records))
        .right("knee", |e| e.advice.knee.map(|knee| Cell::bytes(knee.cache_bytes)))
        .right("enough", |e| e.advice.enough.map(|enough| Cell::bytes(enough.cache_bytes)))
        .right("reads at that size", |e| {
            e.advice.enough.map(|enough| Cell::num(enough.read_ratio * e.curve.requests as f64, Unit::Count))
        })
        .table();
    section.table(&table);
}

fn one(section: &mut Section, explained: &Explained) {
    section.list(format::sentences(explained).into_iter().chain(format::sample(&explained.curve)));
    figures(section, explained);
}

/// Adds the tables of one curve: the misses of each size, and the reads that more memory saves.
pub fn figures(section: &mut Section, explained: &Explained) {
    section.table(&sizes(explained));
    section.heading(&format!("Effect of {} more", bytes(explained.advice.step_bytes)));
    section.table(&steps(&explained.advice.steps));
}

/// One row for each cache size.
fn sizes(explained: &Explained) -> Table {
    let points = &explained.curve.points;
    let has = |of: fn(&Point) -> f64| points.iter().any(|p| of(p) > 0.0);
    let sampled = points.iter().any(|p| p.confidence.is_some());
    let fraction = |v: f64| Cell::num(v, Unit::Fraction);
    Table::of(points)
        .right("cache", |p| Cell::bytes(p.cache_bytes))
        .right("misses", |p| fraction(p.miss_ratio))
        .right("hits", |p| fraction(1.0 - p.miss_ratio))
        .right_if(sampled, "95 % confidence interval of the misses", |p| {
            p.confidence.map(|b| Unit::Fraction.range((b.low, b.high)))
        })
        .right_if(has(|p| p.update_miss_ratio), "partial writes", |p| fraction(p.update_miss_ratio))
        .right_if(has(|p| p.write_miss_ratio), "whole writes, no read", |p| fraction(p.write_miss_ratio))
        .table()
}

fn steps(steps: &[Step]) -> Table {
    let cell =
        |s: &Step, v: Option<f64>, unit| Cell::num(v.filter(|_| s.verdict != StepVerdict::Unknown), unit);
    Table::of(steps)
        .right("from", |s| Cell::bytes(s.from_bytes))
        .right("to", |s| Cell::bytes(s.to_bytes))
        .right("reads saved, of requests", |s| cell(s, Some(s.reads.value), Unit::Fraction))
        .right_if(steps.iter().any(|s| s.reads_s.is_some()), "per second", |s| {
            cell(s, s.reads_s.map(|r| r.value), Unit::PerSecond)
        })
        .right_if(steps.iter().any(|s| s.wait_ms_s.is_some()), "waiting saved per second", |s| {
            cell(s, s.wait_ms_s.map(|r| r.value * 1e6), Unit::Nanoseconds)
        })
        .left_if(steps.iter().any(|s| s.verdict != StepVerdict::Saves), "", |s| {
            Cell::text(format::verdict(s.verdict)).tone(Tone::Muted)
        })
        .table()
}

fn division(section: &mut Section, divided: &Divided) {
    section.paragraph(&format::best_division(divided));
    section.plot(&picture::division(divided), "");
    section.table(&shares(divided));
    section.paragraph(format::DIVISION_ASSUMES);
}

/// Returns a table with a row for each division.
pub fn shares(divided: &Divided) -> Table {
    let best = partition::best(&divided.shares);
    let tone = |s: &partition::Share| if best.is_some_and(|b| b == *s) { Tone::Good } else { Tone::Plain };
    Table::of(&divided.shares)
        .right("database's cache", |s| Cell::bytes(s.database_bytes))
        .right("ARC", |s| Cell::bytes(s.arc_bytes))
        .right("reads from the ARC", |s| Cell::count(s.database_reads))
        .right("written back", |s| Cell::count(s.write_backs))
        .right("reads from the device", |s| Cell::count(s.device_reads).tone(tone(s)))
        .right("share of requests", |s| Cell::num(format::device_ratio(s), Unit::Fraction).tone(tone(s)))
        .table()
}

fn how_to_read(section: &mut Section) {
    section.list([
        "Request: an access to one record. A hit is a request whose record is in the cache. With larger records, the same \
         trace has fewer requests, so the ratios of different record sizes are not comparable; the numbers of reads are.",
        "Read from the device: a miss that needs the content of the record, which is a read or a partial write. A miss \
         that writes the whole record needs no read.",
        "Knee: the point of the curve's lower convex hull that is farthest below the straight line from the smallest size \
         to the sufficient one (Kneedle, 2011). Up to the knee, more memory saves many reads; beyond it, few.",
        "Enough: the smallest size whose reads are within 5 % of the minimum.",
        "Waiting saved: reads saved per second × the latency of a read, summed over all waiting threads. More than one \
         second per second means that several threads wait at the same time.",
        "The first access to a record misses in every cache. A short trace has many first accesses; a database that runs \
         for weeks has few.",
    ]);
}
