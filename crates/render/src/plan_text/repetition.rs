//! The comparison of a plan with the repetition of its run, as terminal text.

use poolwright_report::escape;
use poolwright_tune::plan::{Plan, Role};

use crate::plan_page::format;

/// Renders both recommendations and their differences; empty if `new` is not a repetition.
pub fn repetition(old: &Plan, new: &Plan) -> String {
    let Some(repetition) = &new.repetition else { return String::new() };
    let same = if repetition.same { "recommends the same" } else { "recommends other settings" };
    let mut out = format!("Repeated the plan of {}: this run {same}.\n", old.created);
    for (when, plan) in [("then", old), ("now", new)] {
        for (i, line) in recommendations(plan).iter().enumerate() {
            out += &format!("  {:4}  {line}\n", if i == 0 { when } else { "" });
        }
    }
    for line in &repetition.differences {
        out += &format!("  differs: {line}\n");
    }
    for line in &repetition.circumstances {
        out += &format!("  note: {line}\n");
    }
    out + "\n"
}

/// One line for each role.
fn recommendations(plan: &Plan) -> Vec<String> {
    let one = |role: &Role| {
        let settings = format::settings(&role.recommended);
        let settings = if settings.is_empty() { "keep" } else { &settings };
        escape::line(&format!("{}: {settings}", format::role_name(&plan.roles, role)))
    };
    plan.roles.iter().map(one).collect()
}
