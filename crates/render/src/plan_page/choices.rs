//! Today's settings, the recommended ones and the alternatives, a row each.

use poolwright_plan::{
    AlternativeSetting, EvidenceKind, Gain, Gains, MeasuredChange, MetricName, Outcome, Plan, RolePlan,
    Settings, Verdict,
};
use poolwright_report::text::signed;
use poolwright_report::{Cell, Column, Table, Tone};

use super::format;

/// Returns the table of the choices: figures with today's settings, and changes from them with 95 % intervals. That of the work rate
/// contains the errors of earlier predictions; the others contain only the trials' scatter. `None` if there is nothing to choose.
pub fn table(plan: &Plan) -> Option<Table> {
    let (gains, alternatives) = (whole_plan(plan), alternatives(plan));
    let is_changed = plan.verdict == Verdict::Change && !gains.is_empty();
    if !is_changed && alternatives.is_empty() {
        return None;
    }
    let has = |name: &MetricName| {
        gains.contains_key(name) || alternatives.iter().any(|(_, found)| found.change.contains_key(name))
    };
    let metrics = format::headline(&plan.goal, has);
    let columns = metrics.iter().map(|name| Column::right(format::short_title(name)));
    let mut table = Table::new([Column::left(""), Column::left("settings")].into_iter().chain(columns));
    let raced = plan.roles.iter().filter(|role| is_raced(role));
    let labels: Vec<String> = raced.map(|role| labelled(plan, role, &role.current)).collect();
    let values = metrics.iter().map(|name| Cell::num(today(plan, name), name.unit()));
    table.row([Cell::text("today"), Cell::text(labels.join("; "))].into_iter().chain(values));
    let mut add = |name: &str, settings: &str, change: &dyn Fn(&MetricName) -> Option<MeasuredChange>| {
        let changes = metrics.iter().map(|metric| Some(expected(plan, metric, change(metric)?))).collect();
        add_rows(&mut table, name, settings, changes);
    };
    if is_changed {
        let changed = plan.roles.iter().filter(|role| !role.gain.is_empty());
        let labels: Vec<String> = changed.map(|role| labelled(plan, role, &format::applied(role))).collect();
        add("plan", &labels.join("; "), &|metric| gains.get(metric).map(of));
    }
    for (role, found) in alternatives {
        let settings = labelled(plan, role, &format::changed(role, &found.changes));
        add(found.kind.name(), &settings, &|metric| found.change.get(metric).copied());
    }
    Some(table)
}

/// Adds a row with changes, and one with their intervals.
fn add_rows(table: &mut Table, name: &str, settings: &str, changes: Vec<Option<MeasuredChange>>) {
    let percent = |fraction: f64, of: &MeasuredChange| {
        signed(fraction * 100.0, if of.change.abs() < 0.0995 { 1 } else { 0 })
    };
    let change = |of: &MeasuredChange| {
        Cell::text(format!("{} %", percent(of.change, of))).tone(format::tone(of.verdict))
    };
    let interval = |of: &MeasuredChange| {
        Cell::text(format!("{} to {}", percent(of.ci95.0, of), percent(of.ci95.1, of))).tone(Tone::Muted)
    };
    let head = [Cell::text(name).tone(Tone::Strong), Cell::text(settings).tone(Tone::Strong)];
    table.row(head.into_iter().chain(changes.iter().map(|of| of.as_ref().map(change).into())));
    let head = [Cell::text(""), Cell::text("95 %").tone(Tone::Muted)];
    table.row(head.into_iter().chain(changes.iter().map(|of| of.as_ref().map_or("".into(), interval))));
}

/// The change with the interval in which it is expected on the database.
fn expected(plan: &Plan, metric: &MetricName, found: MeasuredChange) -> MeasuredChange {
    MeasuredChange { ci95: plan.expected(metric, found.change, found.ci95), ..found }
}

/// Says how to get a plan that recommends settings like the alternatives; `None` without alternatives.
pub fn how(plan: &Plan) -> Option<String> {
    let found = alternatives(plan).first()?.1;
    Some(format!("`tune --goal {}` recommends the {} settings.", found.goal, found.kind.name()))
}

fn alternatives(plan: &Plan) -> Vec<(&RolePlan, &AlternativeSetting)> {
    plan.roles.iter().filter_map(|role| Some((role, role.alternative.as_ref()?))).collect()
}

/// The gains of the whole plan, or of the first role with gains if the whole plan has none.
fn whole_plan(plan: &Plan) -> &Gains {
    let mut of_roles = plan.roles.iter().map(|role| &role.gain);
    Some(&plan.gain)
        .filter(|gain| !gain.is_empty())
        .or_else(|| of_roles.find(|gain| !gain.is_empty()))
        .unwrap_or(&plan.gain)
}

/// The value of a metric with today's settings.
fn today(plan: &Plan, name: &MetricName) -> Option<f64> {
    let of_trials = |role: &RolePlan| {
        let today =
            role.evidence.iter().find(|e| e.kind == EvidenceKind::Trial && e.outcome == Outcome::Current);
        today.and_then(|e| Some(e.metrics.get(name)?.median))
    };
    whole_plan(plan).get(name).map(|gain| gain.from).or_else(|| plan.roles.iter().find_map(of_trials))
}

fn is_raced(role: &RolePlan) -> bool {
    role.evidence.iter().any(|e| e.kind == EvidenceKind::Trial)
}

/// The label of a role's settings, with its name if several roles were raced.
fn labelled(plan: &Plan, role: &RolePlan, settings: &Settings) -> String {
    let label = format::label(role, settings);
    match plan.roles.iter().filter(|role| is_raced(role)).count() {
        0 | 1 => label,
        _ => format!("{}: {label}", format::role_name(&plan.roles, role)),
    }
}

fn of(gain: &Gain) -> MeasuredChange {
    MeasuredChange { change: gain.change, ci95: gain.ci95, verdict: gain.verdict }
}
