//! The roles of a plan as terminal text: recommended settings, gains, and the best of the tried settings.

use std::collections::BTreeSet;

use poolwright_plan::{CurrentSource, Evidence, EvidenceKind, MetricName, Outcome, Plan, RolePlan};
use poolwright_report::{Cell, Table, TerminalText, Tone, Unit};

use crate::plan_page::format;

/// Number of settings shown for each role, including today's and the recommended one.
pub(super) const ALTERNATIVES: usize = 5;

/// Whether the role was in a trial or has recommendations that need an explanation.
pub(super) fn was_tried(role: &RolePlan) -> bool {
    !role.gain.is_empty()
        || !role.safe_because.is_empty()
        || role.evidence.iter().any(|e| e.kind == EvidenceKind::Trial)
}

/// Adds a role.
pub(super) fn add(text: &mut TerminalText, plan: &Plan, role: &RolePlan) {
    text.heading(role.role.name(), &format!("{}  {}", role.path, format::extent(role.bytes, role.files)));
    let source = match &role.current_source {
        CurrentSource::ZfsGet { dataset } => format!("from {dataset}"),
        CurrentSource::ZfsDefaults { why } => format!("OpenZFS's defaults: {why}"),
    };
    if role.recommended.is_empty() {
        text.paragraph("  keep  ", &format!("{}  ({source})", format::settings(&role.current)));
    } else {
        text.labelled(("  ", "set", "   "), Tone::Good, &format::settings(&role.recommended));
        let mut was = role.current.clone();
        was.retain(|property, _| role.recommended.contains_key(property));
        if !was.is_empty() {
            text.paragraph("  was   ", &format!("{}  ({source})", format::settings(&was)));
        }
    }
    for (property, why) in &role.safe_because {
        text.paragraph("  safe  ", &format!("{property}: {why}"));
    }
    if !role.gain.is_empty() {
        text.paragraph("  ", &format!("{} alone, everything else as today:", role.replayed_roles()));
        super::gains(text, &role.gain);
    }
    alternatives(text, plan, role);
    role.remarks().for_each(|note| text.paragraph("  - ", note));
}

/// Adds the roles that were not in a trial, with the reasons.
pub(super) fn add_quiet(text: &mut TerminalText, roles: &[&RolePlan]) {
    if !roles.is_empty() {
        text.heading("other roles", "without trials");
    }
    for role in roles {
        let what = match role.recommended.is_empty() {
            true => "keep".to_owned(),
            false => format!("{}, like the other files of its dataset", format::settings(&role.recommended)),
        };
        let size = format::extent(role.bytes, role.files);
        text.paragraph("  ", &format!("{}  {}  {size}: {what}", role.role, role.path));
        role.remarks().for_each(|note| text.paragraph("    - ", note));
    }
}

/// Adds the best trials, or the best estimates if there are no trials, then the number of the remaining settings.
fn alternatives(text: &mut TerminalText, plan: &Plan, role: &RolePlan) {
    let of = |rated: fn(&&Evidence) -> bool| role.evidence.iter().filter(rated).collect::<Vec<_>>();
    let trials = of(|e| e.kind == EvidenceKind::Trial && e.outcome != Outcome::Failed);
    let (heading, rated) = match trials.is_empty() {
        true => ("estimated", of(|e| !matches!(e.outcome, Outcome::Failed | Outcome::ScreenedOut))),
        false => ("tried", trials),
    };
    let shown = if rated.len() > 1 { shortlist(&rated) } else { Vec::new() };
    if !shown.is_empty() {
        text.gap();
        text.table(&shortlist_table(plan, role, heading, &shown));
    }
    let count = |outcome| {
        let settings = role.evidence.iter().filter(|e| e.outcome == outcome).map(|e| &e.settings);
        settings.collect::<BTreeSet<_>>().len()
    };
    let rest = [
        (rated.len() - shown.len(), format!("more {heading}")),
        (count(Outcome::ScreenedOut), "not replayed".to_owned()),
        (count(Outcome::Failed), "failed".to_owned()),
    ];
    let rest: Vec<String> = rest.iter().filter(|r| r.0 > 0).map(|(n, what)| format!("{n} {what}")).collect();
    if !rest.is_empty() {
        text.paragraph("  ", &rest.join(", "));
    }
}

/// The best settings in their order, always including the recommended and today's settings.
pub(super) fn shortlist<'a>(rated: &[&'a Evidence]) -> Vec<&'a Evidence> {
    format::shortened(rated, ALTERNATIVES, |e| e.outcome)
}

fn shortlist_table(plan: &Plan, role: &RolePlan, heading: &str, shown: &[&Evidence]) -> Table {
    let has = |name: &MetricName| shown.iter().any(|e| e.metrics.contains_key(name));
    let label = |e: &Evidence| {
        let (label, others) = (format::label(role, &e.settings), format::others(e));
        if others.is_empty() { label } else { format!("{label} (with {others})") }
    };
    Table::of(shown.iter().copied())
        .left(heading, |e| Cell::text(label(e)).tone(format::mark(e.outcome).1))
        .right("objective", |e| Cell::num(e.objective, Unit::None))
        .each(format::headline(&plan.goal, has), |table, name| {
            table.right(format::short_title(name), |e| {
                Cell::num(e.metrics.get(name).map(|m| m.median), name.unit())
            })
        })
        .right("", |e| format::marked(e.outcome))
        .table()
}
