//! The confirmation of a plan as terminal text.

use poolwright_plan::{Confirmation, ConfirmationVerdict};
use poolwright_report::{TerminalText, Tone};

use crate::plan_page::confirmation::{DEVIATION, about, headline, table};

/// Adds the verdict, the table and the warnings.
pub(super) fn add(text: &mut TerminalText, found: &Confirmation) {
    text.heading("with the database itself", &about(found));
    let tone = match found.verdict {
        ConfirmationVerdict::Confirmed | ConfirmationVerdict::BetterThanToday => Tone::Good,
        ConfirmationVerdict::NotConfirmed => Tone::Bad,
    };
    text.labelled(("  ", headline(found), ": "), tone, &found.why);
    text.table(&table(found));
    text.paragraph("  ", DEVIATION);
    found.warnings.iter().for_each(|warning| text.warning("  ", warning));
}
