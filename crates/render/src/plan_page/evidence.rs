//! The evidence as tables: separate ones for trials and estimates, because they differ in reliability.

use poolwright_plan::{Evidence, EvidenceKind, Measured, Outcome, Plan, RolePlan};
use poolwright_report::{Cell, Column, Section, Table, Tone, Unit};

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
fn measured<'a>(entries: &[&'a Evidence]) -> Vec<&'a str> {
    format::ordered(entries.iter().flat_map(|e| e.metrics.keys()).map(String::as_str))
}

fn failure(plan: &Plan, role: &RolePlan, e: &Evidence) -> String {
    let label = format::label(role, &e.settings);
    let sectors =
        e.ashift.filter(|a| *a != plan.pool.ashift).map_or(String::new(), |a| format!(" ashift={a}"));
    format!("Failed: `{label}{sectors}`: {}", e.why.as_deref().unwrap_or("unknown reason"))
}

/// The headline metrics of each entry with their spread.
fn overview(plan: &Plan, role: &RolePlan, entries: &[&Evidence]) -> Table {
    let has = |name: &str| entries.iter().any(|e| e.metrics.contains_key(name));
    let trials = entries.iter().any(|e| e.kind == EvidenceKind::Trial);
    let metrics = if trials { format::headline(&plan.goal, has) } else { measured(entries) };
    let spreads = |name: &str| entries.iter().any(|e| e.metrics.get(name).is_some_and(|m| m.low < m.high));
    let objective = entries.iter().any(|e| e.objective.is_some());
    let more = entries.iter().any(|e| !more(plan, role, e).is_empty());
    let why = entries.iter().any(|e| e.why.is_some());
    let out = entries.iter().all(|e| e.outcome == Outcome::ScreenedOut);

    // Right-aligned cells are not wrapped.
    let mut columns: Vec<Column> = (!out).then(|| Column::right("outcome")).into_iter().collect();
    let setting = if more { "compression and more" } else { "compression" };
    columns.extend([Column::right("recordsize"), Column::left(setting)]);
    columns.extend(objective.then(|| Column::right("objective")));
    for name in &metrics {
        columns.push(Column::right(&format::short_title(name)).key(name));
        columns.extend(spreads(name).then(|| Column::right("±")));
    }
    columns.extend(why.then(|| Column::left("why")));
    let mut table = Table::new(columns);
    for e in entries {
        let (outcome, tone) = outcome(role, e);
        let mut row: Vec<Cell> = (!out).then(|| Cell::text(outcome).tone(tone)).into_iter().collect();
        row.extend([record_size(role, e), compression(plan, role, e)]);
        row.extend(objective.then(|| number(e.objective, Unit::None)));
        for name in &metrics {
            let figure = e.metrics.get(*name);
            row.push(number(figure.map(|m| m.median), format::unit(name)));
            let spread = spreads(name).then(|| number(figure.and_then(half_range), Unit::Fraction));
            row.extend(spread.map(|cell| cell.tone(Tone::Muted)));
        }
        row.extend(why.then(|| e.why.as_ref().map_or(Cell::text(""), Cell::text)));
        table.row(row);
    }
    table
}

/// The record size as a number, so that the column sorts by size.
fn record_size(role: &RolePlan, e: &Evidence) -> Cell {
    match format::value(role, &e.settings, "recordsize") {
        Some(value) => format::size(value).map_or(Cell::text(value), |n| Cell::num(n as f64, Unit::Bytes)),
        None => Cell::missing(),
    }
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

fn number(value: Option<f64>, unit: Unit) -> Cell {
    value.map_or(Cell::missing(), |v| Cell::num(v, unit))
}

/// Half of the range, relative to the median.
fn half_range(m: &Measured) -> Option<f64> {
    (m.median != 0.0).then(|| (m.high - m.low) / 2.0 / m.median.abs())
}

fn outcome(role: &RolePlan, e: &Evidence) -> (&'static str, Tone) {
    match e.outcome {
        Outcome::Current => ("today", Tone::Strong),
        Outcome::Recommended if role.recommended.is_empty() => ("today", Tone::Strong),
        Outcome::Recommended => ("recommended", Tone::Good),
        Outcome::Raced => ("raced", Tone::Plain),
        Outcome::ScreenedOut => ("not replayed", Tone::Muted),
        Outcome::Failed => ("failed", Tone::Bad),
    }
}

/// All metrics with their median, low and high values in base units.
fn all(role: &RolePlan, entries: &[&Evidence]) -> Table {
    let metrics = measured(entries);
    let mut columns = vec![Column::left("setting"), Column::left("others"), Column::right("ashift")];
    columns.extend([Column::left("outcome"), Column::right("repeats"), Column::right("objective")]);
    columns.extend(metrics.iter().flat_map(|m| {
        [Column::right(m), Column::right(&format!("{m}_low")), Column::right(&format!("{m}_high"))]
    }));
    let mut table = Table::new(columns);
    for e in entries {
        let mut row = vec![
            Cell::text(format::label(role, &e.settings)),
            Cell::text(format::others(e)),
            number(e.ashift.map(f64::from), Unit::None),
            Cell::text(outcome(role, e).0),
            number(Some(e.repeats.into()), Unit::None),
            number(e.objective, Unit::None),
        ];
        for name in &metrics {
            let figure = e.metrics.get(*name);
            let ends = [figure.map(|m| m.median), figure.map(|m| m.low), figure.map(|m| m.high)];
            row.extend(ends.map(|v| number(v, format::unit(name))));
        }
        table.row(row);
    }
    table
}
