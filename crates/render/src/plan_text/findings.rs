//! Short forms of the findings beyond the recommendation.

use poolwright_plan::{AdviceStatus, Pareto, Plan};
use poolwright_report::TerminalText;

use crate::plan_page::{findings, format};

/// Number of settings shown of a Pareto set; the report has all.
const SHOWN: usize = 6;

/// Adds the track record of the predictions.
pub(super) fn add_track_record(text: &mut TerminalText, plan: &Plan) {
    if let Some(sentence) = plan.track_record.as_ref().and_then(|t| t.sentence()) {
        text.paragraph("", &sentence);
    }
}

/// Adds the Pareto-optimal settings, and the contribution of each property.
pub(super) fn add(text: &mut TerminalText, plan: &Plan) {
    for found in &plan.pareto {
        let about = format!("of {}, in work rate, space and bytes written together", found.role);
        text.heading("Pareto-optimal settings", &about);
        // The fastest settings come first.
        let settings = format::shortened(&found.settings, SHOWN, |s| s.outcome);
        let more = found.settings.len() - settings.len();
        text.table(&findings::pareto_table(&Pareto { settings, ..found.clone() }));
        if more > 0 {
            text.paragraph("  ", &format!("{more} more in the report"));
        }
        text.paragraph("  ", &findings::pareto_rest(found));
    }
    for found in &plan.contributions {
        let about = format!("of {}, from {} trials", found.role, found.trials);
        text.heading("what each property contributes", &about);
        findings::effects(found).iter().for_each(|line| text.paragraph("  - ", line));
    }
}

/// Adds the published rules and their effects.
pub(super) fn add_advice(text: &mut TerminalText, plan: &Plan) {
    if plan.advice.is_empty() {
        return;
    }
    text.heading("published advice", "compared with today's settings; the report names the sources");
    text.table(&findings::advice_table(&plan.advice, false));
    if plan.advice.iter().any(|a| a.status == AdviceStatus::NotTried) {
        text.paragraph("  ", "--check-advice tries what the search has not tried.");
    }
}
