//! Findings beyond the recommendation: the Pareto-optimal settings, the contribution of each property, published advice, and the
//! track record of the predictions. The page and the terminal have the same tables.

use std::collections::BTreeMap;

use poolwright_base::units::counted;
use poolwright_plan::{
    AdviceStatus, CheckedAdvice, Contributions, Evidence, EvidenceKind, GainVerdict, MeasuredChange,
    MetricName, Outcome, Pareto, Plan, PropertyEffect, RolePlan,
};
use poolwright_report::plot::{Point, Scatter, WIDTH};
use poolwright_report::{Axis, Cell, Mark, Page, Section, Table, Tone, Unit};
use poolwright_tune::candidates::difference;

use super::format;

/// Adds the sections for which the plan has data.
pub fn sections(page: &mut Page, plan: &Plan) {
    if !plan.pareto.is_empty() {
        unbeaten(page.section("Pareto-optimal settings"), plan);
    }
    if !plan.contributions.is_empty() {
        contributions(page.section("What each property contributes"), plan);
    }
    if !plan.advice.is_empty() {
        advice(page.section("Published advice"), plan);
    }
}

/// Adds the track record of the predictions.
pub fn top(section: &mut Section, plan: &Plan) {
    if let Some(sentence) = plan.track_record.as_ref().and_then(|t| t.sentence()) {
        section.paragraph(&sentence);
    }
}

fn unbeaten(section: &mut Section, plan: &Plan) {
    section.paragraph(
        "The Pareto set: the tried settings that no other one beats in work rate, space and bytes written together. \
         Differences inside the noise of the trials do not count. Which setting is best depends on the goal, which \
         selected the recommended one.",
    );
    for found in &plan.pareto {
        section.heading(found.role.name());
        section.table(&pareto_table(found));
        if let Some(plot) = plan.roles.iter().find(|r| r.role == found.role).and_then(|r| scatter(r, found)) {
            section.plot(
                &plot,
                "Medians of all tried settings. The plot does not show space: a setting that looks beaten may take less \
                 space.",
            );
        }
        section.paragraph(&pareto_rest(found));
    }
}

/// Bytes written against work rate, with separate groups for the Pareto set and the other settings. Returns `None` for
/// fewer than three settings.
fn scatter(role: &RolePlan, found: &Pareto) -> Option<Scatter> {
    let x = &MetricName::VdevWriteBytes;
    let names = format::ordered(found.settings.iter().flat_map(|s| s.metrics.keys()));
    let y = names.iter().copied().find(|m| matches!(m, MetricName::WorkRate | MetricName::OpsS))?;
    let point = |e: &Evidence| {
        let (mx, my) = (e.metrics.get(x)?, e.metrics.get(y)?);
        let changes = difference(&e.settings, &role.current);
        let unbeaten = found.settings.iter().any(|s| s.changes == changes);
        let group = if unbeaten { "Pareto-optimal" } else { "dominated" };
        let mark = match e.outcome {
            Outcome::Current => Mark::Today,
            Outcome::Recommended => Mark::Chosen,
            _ => Mark::None,
        };
        Some(Point::new(mx.median, my.median, group, &format::label(role, &e.settings)).mark(mark))
    };
    let tried = role.evidence.iter().filter(|e| e.kind == EvidenceKind::Trial);
    let points: Vec<Point> = tried.filter_map(point).collect();
    if points.len() < 3 {
        return None;
    }
    let axis = |metric: &MetricName| Axis::new(metric.title(), metric.unit());
    let better = (x.better(), y.better());
    Some(Scatter::new("Bytes written against work", axis(x), axis(y), better, points).size(WIDTH, 360.0))
}

/// Returns the settings of the set with their changes against today's.
pub fn pareto_table(found: &Pareto) -> Table {
    let label = |changes| match format::settings(changes) {
        label if label.is_empty() => "as today".to_owned(),
        label => label,
    };
    Table::of(&found.settings)
        .left("setting", |s| Cell::text(label(&s.changes)).tone(format::mark(s.outcome).1))
        .each(format::ordered(found.settings.iter().flat_map(|s| s.metrics.keys())), |table, m| {
            table.right(format::short_title(m), |s| match s.metrics.get(m) {
                Some(value) if s.outcome == Outcome::Current => Cell::num(*value, m.unit()),
                _ => Cell::num(s.change.get(m).copied(), Unit::Change),
            })
        })
        .right("trials", |s| Cell::count(s.trials.into()))
        .right("", |s| format::marked(s.outcome))
        .table()
}

/// Returns a sentence on the number of beaten settings and the noise of a trial.
pub fn pareto_rest(found: &Pareto) -> String {
    let mut text = match found.beaten {
        0 => "No tried setting is beaten by another".to_owned(),
        1 => "1 other tried setting is beaten by one of these".to_owned(),
        n => format!("{n} other tried settings are beaten by one of these"),
    };
    let noise: Vec<String> = format::ordered(found.noise.keys())
        .into_iter()
        .map(|m| format!("{} {}", m.title(), Unit::Fraction.format(found.noise[m])))
        .collect();
    if !noise.is_empty() {
        text += &format!("; one trial's standard deviation: {}", noise.join(", "));
    }
    text + "."
}

fn contributions(section: &mut Section, plan: &Plan) {
    section.paragraph(
        "The effect of each recommended property alone, from trials of settings that differ in nothing else.",
    );
    for found in &plan.contributions {
        section.heading(&format!("{}, {}", found.role, counted(found.trials.into(), "trial")));
        section.list(effects(found));
    }
}

/// Returns a sentence for each recommended property.
pub fn effects(found: &Contributions) -> Vec<String> {
    found.effects.iter().map(|(property, effect)| effect_of(property, effect)).collect()
}

fn effect_of(property: &str, effect: &PropertyEffect) -> String {
    if effect.pairs == 0 {
        return format!(
            "{property}={}: not separated, because it was tried only together with other changes",
            effect.to
        );
    }
    let figures: Vec<String> = format::ordered(effect.metrics.keys())
        .into_iter()
        .map(|m| format!("{} {}", m.title(), change(&effect.metrics[m])))
        .collect();
    format!(
        "{property}={} alone instead of {}: {} (from {} of settings that differ in nothing else)",
        effect.to,
        effect.from.as_deref().unwrap_or("today's"),
        figures.join(", "),
        counted(effect.pairs.into(), "pair"),
    )
}

fn change(effect: &MeasuredChange) -> String {
    let interval = Unit::Change.range(effect.ci95);
    match effect.verdict {
        GainVerdict::Noise => format!("no clear change ({interval})"),
        _ => format!("{} ({interval})", Unit::Change.format(effect.change)),
    }
}

fn advice(section: &mut Section, plan: &Plan) {
    section.paragraph(
        "Published rules, compared with today's settings of this database, as trials show them. `tune --check-advice` tries those that \
         the search has not tried.",
    );
    section.table(&advice_table(&plan.advice, true));
    let mut lines: Vec<String> = Vec::new();
    for a in &plan.advice {
        let line = format!("{} ({}): {}", a.source.title, a.source.url, advised(plan, &a.source.url));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    section.heading("Sources").list(lines);
    let reasons: BTreeMap<&str, Vec<&str>> = plan.advice.iter().fold(BTreeMap::new(), |mut all, a| {
        all.entry(a.basis.as_str()).or_default().push(a.rule.as_str());
        all
    });
    section.heading("Basis of the figures");
    section.list(reasons.into_iter().map(|(basis, mut rules)| {
        rules.dedup();
        format!("{}: {basis}", rules.join(", "))
    }));
}

/// The rules that a source gives.
fn advised(plan: &Plan, url: &str) -> String {
    let mut all: Vec<String> = Vec::new();
    for a in plan.advice.iter().filter(|a| a.source.url == url) {
        let text = format!("`{}`: {}", a.rule, a.advice);
        if !all.contains(&text) {
            all.push(text);
        }
    }
    all.join("; ")
}

/// Returns a row for each rule and role.
pub fn advice_table(all: &[CheckedAdvice], with_intervals: bool) -> Table {
    let change = |effect: &MeasuredChange| {
        let cell = Cell::num(effect.change, Unit::Change).tone(format::tone(effect.verdict));
        if with_intervals { cell.note(Unit::Change.range(effect.ci95)) } else { cell }
    };
    Table::of(all)
        .left("rule", |a| a.rule.as_str())
        .left("role", |a| a.role.name())
        .left("settings", |a| format::settings(&a.settings))
        .each(format::ordered(all.iter().flat_map(|a| a.measured.keys())), |table, m| {
            table.right(format::short_title(m), |a| a.measured.get(m).map(change))
        })
        .left("status", |a| status(a.status))
        .table()
}

fn status(status: AdviceStatus) -> Cell {
    match status {
        AdviceStatus::Followed => Cell::text("as today").tone(Tone::Muted),
        AdviceStatus::Tried => Cell::text("measured"),
        AdviceStatus::NotTried => Cell::text("not tried").tone(Tone::Muted),
    }
}
