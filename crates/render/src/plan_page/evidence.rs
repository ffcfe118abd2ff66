//! The evidence as tables: separate ones for trials and estimates, because they differ in reliability.

use poolwright_plan::{Evidence, EvidenceKind, Measured, MetricName, Outcome, Plan, RolePlan};
use poolwright_report::{Cell, Section, Table, Tone, Unit};

use super::format;

/// Adds a table for each kind of evidence of the role.
pub fn tables(section: &mut Section, plan: &Plan, role: &RolePlan) {
    section.heading("Evidence");
    if role.evidence.is_empty() {
        section.paragraph("Nothing was tried for this role.");
        return;
    }
    let kinds = [
        (
            EvidenceKind::Trial,
            "Trials: replays of the recording on the OpenZFS engine. Figures are medians; ± is half of the range of the \
             repeats.",
        ),
        (
            EvidenceKind::Estimate,
            "Estimates: space computed from samples of the files; ± is half of the interval.",
        ),
    ];
    for (kind, about) in kinds {
        let entries: Vec<&Evidence> = role.evidence.iter().filter(|e| e.kind == kind).collect();
        if entries.is_empty() {
            continue;
        }
        section.paragraph(&format!("{about}{}", repeats(&entries)));
        let (failed, done): (Vec<&Evidence>, Vec<&Evidence>) =
            entries.iter().copied().partition(|e| e.outcome == Outcome::Failed);
        if !done.is_empty() {
            section.table(&overview(plan, role, &done));
        }
        section.list(failed.into_iter().map(|e| failure(plan, role, e)));
        if kind == EvidenceKind::Trial {
            section.raw("All figures of these trials as CSV", &all(role, &entries).csv());
        }
    }
}

/// The number of repeats of the trials.
fn repeats(entries: &[&Evidence]) -> String {
    let counts =
        || entries.iter().filter(|e| e.kind == EvidenceKind::Trial).map(|e| e.repeats).filter(|n| *n > 0);
    match (counts().min(), counts().max()) {
        (Some(least), Some(most)) if least == most => format!(" Repeats: {most}."),
        (Some(least), Some(most)) => format!(" Repeats: {least} to {most}."),
        _ => String::new(),
    }
}

/// The metrics of all entries in display order.
fn measured<'a>(entries: &[&'a Evidence]) -> Vec<&'a MetricName> {
    format::ordered(entries.iter().flat_map(|e| e.metrics.keys()))
}

fn failure(plan: &Plan, role: &RolePlan, e: &Evidence) -> String {
    let label = format::label(role, &e.settings);
    let sectors =
        e.ashift.filter(|a| *a != plan.pool.ashift).map_or(String::new(), |a| format!(" ashift={a}"));
    format!("Failed: `{label}{sectors}`: {}", e.why.as_deref().unwrap_or("unknown reason"))
}

/// The headline metrics of each entry with their spread.
fn overview(plan: &Plan, role: &RolePlan, entries: &[&Evidence]) -> Table {
    let any = |has: &dyn Fn(&Evidence) -> bool| entries.iter().any(|e| has(e));
    let has = |name: &MetricName| any(&|e| e.metrics.contains_key(name));
    let spreads = |name: &MetricName| any(&|e| e.metrics.get(name).is_some_and(|m| m.low < m.high));
    let is_trial = any(&|e| e.kind == EvidenceKind::Trial);
    let metrics = if is_trial { format::headline(&plan.goal, has) } else { measured(entries) };
    let is_replayed = any(&|e| e.outcome != Outcome::ScreenedOut);
    let is_more = any(&|e| !more(plan, role, e).is_empty());
    // Right-aligned cells are not wrapped.
    Table::of(entries.iter().copied())
        .right_if(is_replayed, "outcome", |e| outcome(role, e))
        .right(role.role.block_property(), |e| block_size(role, e))
        .left(if is_more { "compression and more" } else { "compression" }, |e| compression(plan, role, e))
        .right_if(any(&|e| e.objective.is_some()), "objective", objective)
        .each(metrics, |table, name| {
            let unit = name.unit();
            table
                .right(format::short_title(name), |e| Cell::num(e.metrics.get(name).map(|m| m.median), unit))
                .right_if(spreads(name), "±", |e| {
                    Cell::num(e.metrics.get(name).and_then(half_range), Unit::Fraction).tone(Tone::Muted)
                })
        })
        .left_if(any(&|e| e.why.is_some()), "why", |e| e.why.as_deref().unwrap_or_default())
        .table()
}

/// The block size as a number, so that the column sorts by size.
fn block_size(role: &RolePlan, e: &Evidence) -> Cell {
    let value = format::value(role, &e.settings, role.role.block_property());
    value.map(|value| format::size(value).map_or(Cell::text(value), Cell::bytes)).into()
}

fn compression(plan: &Plan, role: &RolePlan, e: &Evidence) -> Cell {
    let compression = format::value(role, &e.settings, "compression").unwrap_or_default();
    let text = format!("{compression} {}", more(plan, role, e));
    if text == " " { Cell::missing() } else { Cell::text(text.trim()) }
}

/// The other differences from today: properties, the pool's sector size, the settings of other roles.
fn more(plan: &Plan, role: &RolePlan, e: &Evidence) -> String {
    let mut all = format::differing(role, &e.settings);
    all.extend(e.ashift.filter(|a| *a != plan.pool.ashift).map(|a| format!("ashift={a}")));
    let others = format::others(e);
    all.extend((!others.is_empty()).then(|| format!("with {others}")));
    all.join(", ")
}

fn objective(e: &Evidence) -> Cell {
    Cell::num(e.objective, Unit::None)
}

/// Half of the range, relative to the median.
fn half_range(m: &Measured) -> Option<f64> {
    (m.median != 0.0).then(|| (m.high - m.low) / 2.0 / m.median.abs())
}

fn outcome(role: &RolePlan, e: &Evidence) -> Cell {
    let (name, tone) = match e.outcome {
        Outcome::Recommended if role.recommended.is_empty() => format::mark(Outcome::Current),
        Outcome::Current | Outcome::Recommended => format::mark(e.outcome),
        Outcome::Raced => ("raced", Tone::Plain),
        Outcome::ScreenedOut => ("not replayed", Tone::Muted),
        Outcome::Failed => ("failed", Tone::Bad),
    };
    Cell::text(name).tone(tone)
}

/// All metrics with their median, low and high values in base units.
fn all(role: &RolePlan, entries: &[&Evidence]) -> Table {
    Table::of(entries.iter().copied())
        .left("setting", |e| format::label(role, &e.settings))
        .left("others", format::others)
        .right("ashift", |e| Cell::num(e.ashift.map(f64::from), Unit::None))
        .left("outcome", |e| outcome(role, e))
        .right("repeats", |e| Cell::num(f64::from(e.repeats), Unit::None))
        .right("objective", objective)
        .each(measured(entries), |table, name| {
            let cell = |e: &Evidence, value: fn(&Measured) -> f64| {
                Cell::num(e.metrics.get(name).map(value), name.unit())
            };
            table
                .right(name.name(), |e| cell(e, |m| m.median))
                .right(format!("{name}_low"), |e| cell(e, |m| m.low))
                .right(format!("{name}_high"), |e| cell(e, |m| m.high))
        })
        .table()
}
