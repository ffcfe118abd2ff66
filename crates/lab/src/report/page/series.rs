//! Curves over time, of one typical trial of each case: several cases in one chart, with live changes as vertical
//! lines.

use poolwright_report::plot::{HALF, Line, TimeSeries, WIDTH};
use poolwright_report::{Axis, Section, Unit};

use super::super::{format, measures};
use crate::campaign::Study;
use crate::order::cases;
use crate::outcome::{Outcome, PhaseOutcome, Series};
use crate::store::Trial;

/// Number of distinguishable curves in one chart.
const LINES: usize = 6;

/// The trial that represents its case.
#[derive(Debug)]
pub struct Typical<'a> {
    /// The case.
    pub label: String,
    /// Block number, from 0.
    pub block: u32,
    /// Outcome of the trial.
    pub outcome: &'a Outcome,
}

/// Returns for each case the trial whose first measure is nearest to the median.
pub fn typical<'a>(study: &Study, trials: &'a [Trial]) -> Vec<Typical<'a>> {
    let lead = |o: &Outcome| Some(o.measure(study.measures.first()?)?.value);
    let of_case = |case| {
        let of_case = trials.iter().filter(|t| t.key.study == study.name && t.key.case == case);
        let done: Vec<(u32, &Outcome)> =
            of_case.filter_map(|t| Some((t.key.block, t.outcome.as_ref().ok()?))).collect();
        let values: Vec<f64> = done.iter().filter_map(|(_, o)| lead(o)).collect();
        let median = poolwright_base::stats::median(&values);
        let far = |o: &Outcome| lead(o).map_or(f64::INFINITY, |v| (v - median).abs());
        let (block, outcome) = done.into_iter().min_by(|a, b| far(a.1).total_cmp(&far(b.1)))?;
        Some(Typical { label: format::case(study, &case), block, outcome })
    };
    cases(study).into_iter().filter_map(of_case).collect()
}

/// A family of series that share a chart.
struct Family {
    title: &'static str,
    /// Whether a series belongs to the family.
    holds: fn(&str) -> bool,
    /// Whether the chart is open; the others are collapsed.
    main: bool,
}

const FAMILIES: &[Family] = &[
    Family { title: "Throughput", holds: |n| n == "rate", main: true },
    Family { title: "Rates reported by the driver", holds: is_driver_rate, main: true },
    Family { title: "ARC hit ratio", holds: |n| n == "arc_hit_ratio", main: true },
    Family { title: "ARC size and target", holds: |n| n == "arc_size" || n == "arc_target", main: true },
    Family { title: "CPU of the host", holds: |n| n == "host_cpu", main: true },
    Family {
        title: "Read from and written to vdevs",
        holds: |n| n == "vdev_read_bytes" || n == "vdev_write_bytes",
        main: true,
    },
    Family { title: "Read, by vdev", holds: |n| n.starts_with("vdev_read_bytes."), main: true },
    Family { title: "Written, by vdev", holds: |n| n.starts_with("vdev_write_bytes."), main: true },
    Family { title: "Queues, by vdev", holds: |n| n.starts_with("vdev_queue."), main: false },
    Family {
        title: "Reads and writes of vdevs",
        holds: |n| n == "vdev_reads" || n == "vdev_writes",
        main: false,
    },
    Family { title: "Reads, by vdev", holds: |n| n.starts_with("vdev_reads."), main: false },
    Family { title: "Writes, by vdev", holds: |n| n.starts_with("vdev_writes."), main: false },
    Family {
        title: "CPU of the driver and of the engine, of one processor",
        holds: |n| n == "driver_cpu" || n == "engine_cpu",
        main: false,
    },
];

/// Names of the sampler's series (docs/lab.md); any other name belongs to the driver, and its chart is open.
const SAMPLED: [&str; 7] =
    ["disk_busy", "disk_queue", "run_queue", "memory_available", "vdev_queue", "zil_commits", "zil_bytes"];

/// Adds the charts of every measured phase.
pub fn draw(section: &mut Section, study: &Study, typical: &[Typical]) {
    for phase in study.phases.iter().filter(|p| p.measure) {
        let found: Vec<(&str, &PhaseOutcome)> = (typical.iter())
            .filter_map(|t| Some((t.label.as_str(), t.outcome.phases.iter().find(|p| p.name == phase.name)?)))
            .collect();
        let (main, more) = pictures(&found);
        if main.is_empty() && more.is_empty() {
            continue;
        }
        section.heading(&format!("{} over time", phase.name));
        if found.len() > LINES {
            section
                .paragraph(&format!("{LINES} of {} cases, evenly chosen in the table's order.", found.len()));
        }
        live(section, &found);
        add(section, &main);
        section.folded(&format!("More of {} over time", phase.name), |inside| add(inside, &more));
    }
}

/// Adds a chart for each case with a live change: its effect on the rates and, on the right axis, on the ARC.
fn live(section: &mut Section, found: &[(&str, &PhaseOutcome)]) {
    let changed = found.iter().filter(|(_, phase)| !phase.changes.is_empty());
    for (label, phase) in changed.take(LINES) {
        let reported = phase.series.iter().filter(|(name, _)| is_driver_rate(name));
        let mut rates: Vec<(&String, &Series)> = reported.collect();
        if rates.is_empty() {
            rates.extend(phase.series.iter().filter(|(name, _)| *name == "rate"));
        }
        let Some((name, first)) = rates.first() else { continue };
        let (unit, factor) = measures::shown(name, &first.unit, first.points.iter().map(|p| p.1));
        let lines = rates.iter().filter(|(_, s)| s.unit == first.unit);
        let lines = lines.map(|(name, s)| Line::new(name, points(s, factor))).collect();
        let axis = Axis::new("", unit).from_zero();
        let title = format!("{label}: effect of the change");
        let mut plot = TimeSeries::new(&title, Axis::new("time", Unit::Seconds), axis, lines);
        if let Some(hits) = phase.series.get("arc_hit_ratio") {
            let line = Line::new("ARC hit ratio", points(hits, 1.0));
            plot = plot.right(Axis::new("ARC hit ratio", Unit::Fraction).from_zero(), vec![line]);
        }
        let plot = phase.changes.iter().fold(plot, |plot, (at, text)| plot.event(*at, text));
        section.plot(&plot, "");
    }
}

fn is_driver_rate(name: &str) -> bool {
    name.ends_with("_rate")
}

/// A chart, and whether it takes the page's full width.
struct Picture {
    plot: TimeSeries,
    wide: bool,
}

fn add(section: &mut Section, pictures: &[Picture]) {
    for picture in pictures.iter().filter(|p| p.wide) {
        section.plot(&picture.plot, "");
    }
    section.plots(pictures.iter().filter(|picture| !picture.wide).map(|picture| &picture.plot));
}

/// Returns the charts that are open, and those that are collapsed.
fn pictures(found: &[(&str, &PhaseOutcome)]) -> (Vec<Picture>, Vec<Picture>) {
    let mut names: Vec<&str> = Vec::new();
    for (_, phase) in found {
        for (name, series) in &phase.series {
            // `done` only grows; its slope is `rate`.
            if name != "done" && !names.contains(&name.as_str()) && series.points.len() > 1 {
                names.push(name);
            }
        }
    }
    let (mut main, mut more) = (Vec::new(), Vec::new());
    for family in FAMILIES {
        let of: Vec<&str> = names.iter().copied().filter(|n| (family.holds)(n)).collect();
        if !of.is_empty() {
            let location = if family.main { &mut main } else { &mut more };
            location.extend(picture(family.title, &of, found));
        }
    }
    for name in names.into_iter().filter(|n| !FAMILIES.iter().any(|f| (f.holds)(n))) {
        let sampled = SAMPLED.contains(&name);
        let location = if sampled { &mut more } else { &mut main };
        location.extend(picture(name, &[name], found));
    }
    (main, more)
}

fn picture(title: &str, names: &[&str], found: &[(&str, &PhaseOutcome)]) -> Option<Picture> {
    let with: Vec<_> =
        found.iter().filter(|(_, p)| names.iter().any(|n| p.series.contains_key(*n))).collect();
    let chosen = spread(with.len(), (LINES / names.len()).max(2));
    let first = names.iter().find_map(|n| with.iter().find_map(|(_, p)| p.series.get(*n)))?;
    let (unit, factor) = measures::shown(names[0], &first.unit, first.points.iter().map(|p| p.1));
    let mut lines = Vec::new();
    let mut events = Vec::new();
    for (label, phase) in chosen.iter().map(|&i| with[i]) {
        for name in names {
            let Some(series) = phase.series.get(*name).filter(|s| s.unit == first.unit) else { continue };
            let line = match (names.len(), with.len()) {
                (1, _) => (*label).to_owned(),
                (_, 1) => (*name).to_owned(),
                _ => format!("{label}: {name}"),
            };
            lines.push(Line::new(&line, points(series, factor)));
        }
        let text = |t: &str| if chosen.len() > 1 { format!("{label}: {t}") } else { t.to_owned() };
        events.extend(phase.changes.iter().map(|(at, t)| (*at, text(t))));
    }
    // A chart with events needs space for their labels.
    let wide = !events.is_empty();
    let (width, height) = if wide { (WIDTH, 300.0) } else { (HALF, 240.0) };
    let y = Axis::new("", unit).from_zero();
    let plot = TimeSeries::new(title, Axis::new("time", Unit::Seconds), y, lines).size(width, height);
    Some(Picture { plot: events.iter().fold(plot, |plot, (at, text)| plot.event(*at, text)), wide })
}

fn points(series: &Series, factor: f64) -> Vec<(f64, f64)> {
    series.points.iter().map(|(t, v)| (*t, v * factor)).collect()
}

/// Returns `most` indices of `n`, evenly spaced, including the first and the last.
fn spread(n: usize, most: usize) -> Vec<usize> {
    if n <= most {
        return (0..n).collect();
    }
    (0..most).map(|i| i * (n - 1) / (most - 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_holds_both_ends() {
        assert_eq!(spread(3, 6), [0, 1, 2]);
        assert_eq!(spread(11, 6), [0, 2, 4, 6, 8, 10]);
        assert_eq!(spread(7, 2), [0, 6]);
        assert_eq!(spread(0, 2), [0usize; 0]);
    }
}
