//! The recommendation and its effect in at most a dozen lines. `tune -v` and the report show the evidence.

use poolwright_base::units::counted;
use poolwright_plan::{Plan, Verdict};
use poolwright_report::{Terminal, TerminalText, Unit};

use super::{commands, findings, recommendation};
use crate::plan_page::{caveats, choices};

/// Commands shown; a plan rarely has more datasets.
const COMMANDS: usize = 2;

/// Renders the verdict, the choices, the number of caveats, and the commands that apply the plan.
pub fn summary(plan: &Plan, terminal: Terminal) -> String {
    let mut text = TerminalText::new(terminal);
    let change = plan.verdict == Verdict::Change;
    // The figures follow as a table.
    let why = if change { first_sentence(&plan.why) } else { &plan.why };
    recommendation(&mut text, plan, None, why);
    text.paragraph("", &evidence(plan));
    if let Some(table) = choices::table(plan) {
        text.table(&table);
        findings::add_track_record(&mut text, plan);
    }
    for problem in plan.problems() {
        text.warning("", &format!("Do not follow this plan: {problem}"));
    }
    if let Some(caveats) = caveats(plan) {
        text.warning("", &format!("{caveats} (-v shows all)"));
    }
    for role in &plan.roles {
        role.excluded.iter().for_each(|excluded| text.warning("", &format!("{}: {excluded}", role.role)));
    }
    if change {
        commands::add_short(&mut text, plan, COMMANDS);
    }
    choices::how(plan).iter().for_each(|how| text.paragraph("", how));
    text.finish()
}

/// The database, the goal and the extent of the measurements.
fn evidence(plan: &Plan) -> String {
    let database = plan.subject.database.as_deref().unwrap_or("unknown database");
    let recorded = match &plan.trace {
        Some(trace) => format!("{} recorded", Unit::Seconds.format(trace.duration_s)),
        None => "nothing recorded".to_owned(),
    };
    let replayed = plan.longest_slice().map_or_else(String::new, |slice| {
        format!("{} replayed in ", Unit::Seconds.format(slice.end_s - slice.begin_s))
    });
    let (trials, seconds) = (counted(plan.trials, "trial"), Unit::Seconds.format(plan.seconds));
    format!("{database}, goal {}: {recorded}, {replayed}{trials}, {seconds}", plan.goal.name)
}

/// The first cost and the number of further costs and warnings; `None` if there are none.
fn caveats(plan: &Plan) -> Option<String> {
    let (costs, warnings) = (caveats::costs(plan), caveats::warnings(plan).len() - plan.problems().len());
    let mut parts: Vec<String> = costs.first().cloned().into_iter().collect();
    let more = costs.len().saturating_sub(1);
    parts.extend((more > 0).then(|| format!("{} worse", counted(more as u64, "more figure"))));
    parts.extend((warnings > 0).then(|| counted(warnings as u64, "warning")));
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// Returns the text up to the end of its first sentence.
fn first_sentence(text: &str) -> &str {
    text.find(". ").map_or(text, |end| &text[..=end])
}
