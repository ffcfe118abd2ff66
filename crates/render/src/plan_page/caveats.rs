//! The warnings and the costs of a plan, with the same wording on the page and on the terminal.

use poolwright_base::units::counted;
use poolwright_plan::{Plan, RolePlan};
use poolwright_report::Unit;

use super::format;

/// Returns the limitations of the plan, the most serious first.
pub fn warnings(plan: &Plan) -> Vec<String> {
    let mut all: Vec<String> =
        plan.problems().into_iter().map(|p| format!("Do not follow this plan: {p}")).collect();
    match &plan.trace {
        None => all.push(
            "No I/O was recorded, so nothing was replayed: any latency and write amplification is computed, not \
             measured"
                .to_owned(),
        ),
        Some(trace) if trace.lost_events > 0 => all.push(format!(
            "The recorder lost {}, so the replay does less than the database did; record again on a less busy machine or \
             for a shorter time",
            counted(trace.lost_events, "event")
        )),
        Some(_) => {}
    }
    all.extend(plan.warnings.iter().cloned());
    let unseen = plan.trace.iter().flat_map(|t| &t.unseen).filter(|u| u.count > 0);
    all.extend(unseen.map(|u| format!("not in the trace: {} ({})", u.what, times(u.count))));
    all
}

fn times(n: u64) -> String {
    if n == 1 { "once".to_owned() } else { counted(n, "time") }
}

/// Returns a line for each metric that the plan makes much worse. A line without a role is about the whole plan.
pub fn costs(plan: &Plan) -> Vec<String> {
    let line = |cost: &poolwright_plan::Cost| {
        let whose = match &cost.role {
            None => String::new(),
            Some(name) => {
                let role = plan.roles.iter().find(|r| r.role == *name);
                format!(": {} alone", role.map_or_else(|| name.to_string(), RolePlan::replayed_roles))
            }
        };
        format!(
            "{} {} ({}), {}{whose}",
            cost.metric.title(),
            Unit::Change.format(cost.gain.change),
            Unit::Change.range(cost.gain.ci95),
            format::from_to(&cost.metric, &cost.gain)
        )
    };
    plan.costs.iter().map(line).collect()
}
