//! The trade-off as plots: scatter plots of the measurements, heat maps of record size × compression.

use std::collections::BTreeMap;

use poolwright_base::units::counted;
use poolwright_plan::metric::MetricFamily;
use poolwright_plan::{Evidence, EvidenceKind, Gains, MetricName, Outcome, Plan, RolePlan, Spread};
use poolwright_report::plot::{HALF, HeatMap, Intervals, Point, Scatter, WIDTH};
use poolwright_report::text::capitalised;
use poolwright_report::{Axis, Better, Mark, Section, Unit};

use super::format;

/// Returns a plot of the change of each metric, or `None` if nothing was compared.
pub fn gains(all: &Gains) -> Option<Intervals> {
    if all.is_empty() {
        return None;
    }
    let names = format::ordered(all.keys());
    let plot = names.into_iter().fold(Intervals::new("What would change"), |plot, name| {
        let g = &all[name];
        plot.row(name.title(), name.unit(), (g.from, g.to), (g.change, g.ci95), name.better())
    });
    Some(plot)
}

/// Adds the scatter plots and heat maps for which the role has data.
pub fn trade_off(section: &mut Section, plan: &Plan, role: &RolePlan) {
    let (points, source) = comparable(role);
    let has = |name: &MetricName| points.iter().filter(|e| e.metrics.contains_key(name)).count() > 1;
    let space = format::pick(MetricFamily::Space, &plan.goal, has);
    let latency = format::pick(MetricFamily::Speed, &plan.goal, has);
    let wear = format::pick(MetricFamily::Wear, &plan.goal, has);
    let both = |x: Option<&'static MetricName>, y| x.zip(y).map(|(x, y)| scatter(role, &points, x, y));
    let mut plots: Vec<Scatter> = [both(space, latency), both(space, wear)].into_iter().flatten().collect();
    if space.is_some_and(|name| same(&points, name)) {
        // All settings take the same space, so the choice is between speed and wear.
        plots = both(wear, latency).into_iter().collect();
    }
    let (objective, ratio) = (objectives(role, &points), space_ratios(plan, role));
    if plots.is_empty() && objective.is_none() && ratio.is_none() {
        return;
    }
    section.heading("The trade-off");
    for (i, plot) in plots.iter().enumerate() {
        section.plot(plot, if i == 0 { &source } else { "" });
    }
    const OBJECTIVE: &str = "Objective: median of the trials; today is 1, lower is better. Empty cells were not \
                             replayed.";
    const RATIO: &str = "Space ratio: logical bytes per allocated byte, estimated from the files, or from the \
                         end of a trial if there is no estimate.";
    match (objective, ratio) {
        (Some(a), Some(b)) => {
            section.plots(&[a.width(HALF), b.width(HALF)]).paragraph(&format!("{OBJECTIVE} {RATIO}"))
        }
        (Some(map), None) => section.plot(&map, OBJECTIVE),
        (None, Some(map)) => section.plot(&map, RATIO),
        (None, None) => section,
    };
}

/// Returns the entries that can share a plot, and their source. These are the trials if there are at least two, and only
/// those in which the other roles had today's settings, because the latency of a trial is that of all roles together.
fn comparable(role: &RolePlan) -> (Vec<&Evidence>, String) {
    let trials = role.evidence.iter().filter(|e| e.kind == EvidenceKind::Trial);
    let (alone, mixed): (Vec<_>, Vec<_>) = trials.partition(|e| e.others.is_empty());
    if alone.len() < 2 {
        let all: Vec<&Evidence> = alone.into_iter().chain(mixed).collect();
        let source = "Trials on the engine. The settings of the other roles differ between them.";
        return (all, format!("{source} {}", spread(role)));
    }
    let rest = match mixed.len() as u64 {
        0 => String::new(),
        n => format!(" {} that also changed other roles left out.", counted(n, "trial")),
    };
    (alone, format!("Trials on the engine.{rest} {}", spread(role)))
}

fn spread(role: &RolePlan) -> &'static str {
    let range = |e: &Evidence| e.kind == EvidenceKind::Trial && e.spread == Spread::MinMax;
    if role.evidence.iter().any(range) {
        "Bars show the range of the repeats. Hover over a dot for its figures."
    } else {
        "Bars show 95 % intervals. Hover over a dot for its figures."
    }
}

/// Whether the metric varies by less than 0.5 %, which is the difference that two trials of one setting may have.
fn same(points: &[&Evidence], metric: &MetricName) -> bool {
    let values = || points.iter().filter_map(|e| e.metrics.get(metric)).map(|m| m.median);
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    high - low <= 0.005 * high.abs()
}

fn scatter(role: &RolePlan, points: &[&Evidence], x: &'static MetricName, y: &'static MetricName) -> Scatter {
    let mut shown: Vec<&Evidence> =
        points.iter().copied().filter(|e| e.metrics.contains_key(x) && e.metrics.contains_key(y)).collect();
    // The legend lists compressions in the order of the points.
    shown.sort_by_key(|e| format::compression_rank(compression(role, e)));
    let drawn = shown.iter().map(|e| {
        let (mx, my) = (e.metrics[x], e.metrics[y]);
        Point::new(mx.median, my.median, compression(role, e), &format::label(role, &e.settings))
            .x_range((mx.low, mx.high))
            .y_range((my.low, my.high))
            .mark(mark(role, e))
    });
    let points: Vec<Point> = drawn.collect();
    let medians = || shown.iter().map(|e| e.metrics[y].median);
    let (low, high) = (medians().fold(f64::INFINITY, f64::min), medians().fold(0.0, f64::max));
    let wide = low > 0.0 && high / low > 8.0;
    let title = format!("{} against {}", capitalised(x.title()), y.title());
    let y_axis = Axis::new(&axis(y), y.unit());
    let y_axis = if wide { y_axis.log() } else { y_axis };
    let x_axis = Axis::new(&axis(x), x.unit());
    Scatter::new(&title, x_axis, y_axis, (x.better(), y.better()), points).size(WIDTH, 400.0)
}

fn axis(metric: &MetricName) -> String {
    let way = match metric.better() {
        Better::Lower => "lower is better",
        Better::Higher => "higher is better",
    };
    format!("{} ({way})", metric.title())
}

fn compression<'a>(role: &'a RolePlan, e: &'a Evidence) -> &'a str {
    format::value(role, &e.settings, "compression").unwrap_or("any compression")
}

/// The mark of an entry. If the plan keeps today's settings, "recommended" is today's entry.
fn mark(role: &RolePlan, e: &Evidence) -> Mark {
    match e.outcome {
        Outcome::Current => Mark::Today,
        Outcome::Recommended if !role.recommended.is_empty() => Mark::Chosen,
        Outcome::Recommended => Mark::Today,
        _ => Mark::None,
    }
}

/// Block size and compression → value and mark of a cell.
type Cells<'a> = BTreeMap<(&'a str, &'a str), (f64, Mark)>;

fn key<'a>(role: &'a RolePlan, e: &'a Evidence) -> Option<(&'a str, &'a str)> {
    let of = |property| format::value(role, &e.settings, property);
    of(role.role.block_property()).zip(of("compression"))
}

/// The best objective of each cell. Entries of the same cell differ in other properties, such as `logbias`.
fn objectives(role: &RolePlan, points: &[&Evidence]) -> Option<HeatMap> {
    let mut cells = Cells::new();
    for e in points.iter().copied() {
        let (Some(key), Some(objective)) = (key(role, e), e.objective) else { continue };
        let cell = cells.entry(key).or_insert((objective, Mark::None));
        cell.0 = cell.0.min(objective);
        if mark(role, e) != Mark::None {
            cell.1 = mark(role, e);
        }
    }
    heat_map("Objective", Unit::None, role, &cells)
}

fn space_ratios(plan: &Plan, role: &RolePlan) -> Option<HeatMap> {
    let mut cells = Cells::new();
    // Estimates come second, so they replace the trials of the same cell.
    for kind in [EvidenceKind::Trial, EvidenceKind::Estimate] {
        for e in role.evidence.iter().filter(|e| e.kind == kind) {
            let here = e.ashift.is_none_or(|a| a == plan.pool.ashift);
            let (Some(key), Some(ratio)) = (key(role, e), e.metrics.get(&MetricName::SpaceRatio)) else {
                continue;
            };
            if here {
                let mark = match (mark(role, e), cells.get(&key)) {
                    (Mark::None, Some((_, before))) => *before,
                    (mark, _) => mark,
                };
                cells.insert(key, (ratio.median, mark));
            }
        }
    }
    heat_map("Space ratio", Unit::Ratio, role, &cells)
}

/// Returns `None` for fewer than two cells.
fn heat_map(title: &str, unit: Unit, role: &RolePlan, cells: &Cells<'_>) -> Option<HeatMap> {
    if cells.len() < 2 {
        return None;
    }
    let mut rows: Vec<&str> = cells.keys().map(|k| k.0).collect();
    rows.sort_by_key(|r| (format::size(r), *r));
    rows.dedup();
    let mut columns: Vec<&str> = cells.keys().map(|k| k.1).collect();
    columns.sort_by_key(|c| format::compression_rank(c));
    columns.dedup();
    let mut map = HeatMap::new(title, unit, (role.role.block_property(), &rows), ("compression", &columns));
    for ((r, c), (value, mark)) in cells {
        let (Some(r), Some(c)) = (rows.iter().position(|x| x == r), columns.iter().position(|x| x == c))
        else {
            continue;
        };
        map.set(r, c, *value);
        map.mark(r, c, *mark);
    }
    Some(map)
}
