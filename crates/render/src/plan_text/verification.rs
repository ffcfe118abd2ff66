//! The verification of a plan as terminal text.

use poolwright_plan::{Verification, VerificationVerdict};
use poolwright_report::{TerminalText, Tone};

use crate::plan_page::verification::{INTERVALS, about, headline, reasons, table};

/// Adds the verdict, the table and the warnings.
pub(super) fn add(text: &mut TerminalText, found: &Verification) {
    text.heading("with the database in operation", &about(found));
    let tone = match found.verdict {
        VerificationVerdict::Kept | VerificationVerdict::Less => Tone::Good,
        VerificationVerdict::Broken => Tone::Bad,
        VerificationVerdict::NotApplied | VerificationVerdict::Unclear => Tone::Strong,
    };
    text.labelled(("  ", headline(found), ": "), tone, &found.why);
    if !found.promises.is_empty() {
        text.table(&table(found));
        text.paragraph("  ", INTERVALS);
        reasons(found).iter().for_each(|reason| text.paragraph("  ", reason));
    }
    found.warnings.iter().for_each(|warning| text.warning("  ", warning));
}
