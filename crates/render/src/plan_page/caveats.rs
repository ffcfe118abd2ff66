//! What a reader has to know before following a plan: its warnings and its costs, in the same words on the page and at the
//! terminal.

use poolwright_report::Unit;
use poolwright_tune::plan::Plan;

use super::format;

/// Everything that limits what the plan is worth, the worst first, each once.
pub fn warnings(plan: &Plan) -> Vec<String> {
    let mut all: Vec<String> =
        plan.problems().into_iter().map(|p| format!("Do not follow this plan as it stands: {p}")).collect();
    match &plan.trace {
        None => all.push(
            "No I/O was recorded, so nothing was replayed: what is said of latency and write amplification, if \
             anything, is computed and not measured"
                .to_owned(),
        ),
        Some(trace) if trace.lost_events > 0 => all.push(format!(
            "The recording lost {}: the replay does less than the database did; record again on a quieter machine or for \
             a shorter time",
            format::counted(trace.lost_events, "event")
        )),
        Some(_) => {}
    }
    all.extend(plan.warnings.iter().cloned());
    let unseen = plan.trace.iter().flat_map(|t| &t.unseen).filter(|u| u.count > 0);
    all.extend(unseen.map(|u| format!("{} was met {} and is not in the trace", u.what, times(u.count))));
    all
}

fn times(n: u64) -> String {
    if n == 1 { "once".to_owned() } else { format::counted(n, "time") }
}

/// What the plan makes much worse, a line each.
pub fn costs(plan: &Plan) -> Vec<String> {
    let line = |cost: &poolwright_tune::plan::Cost| {
        let whose = match &cost.role {
            None => "the whole plan".to_owned(),
            Some(name) => {
                let role = plan.roles.iter().find(|r| r.role == *name);
                role.map_or_else(|| name.clone(), format::replayed) + " alone"
            }
        };
        format!(
            "{} {} ({}), {}: {whose}",
            format::title(&cost.metric),
            Unit::Change.format(cost.gain.change),
            format::interval(&cost.gain),
            format::from_to(&cost.metric, &cost.gain)
        )
    };
    plan.costs.iter().map(line).collect()
}
