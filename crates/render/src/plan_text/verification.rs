//! The verification of a plan as terminal text.

use std::io::{self, Write};

use poolwright_plan::{Verification, VerificationVerdict};
use poolwright_report::Tone;

use super::Text;
use crate::plan_page::verification::{INTERVALS, about, headline, reasons, table};

impl<W: Write> Text<'_, W> {
    /// Writes the verdict, the table and the warnings.
    pub(super) fn verification(&mut self, found: &Verification) -> io::Result<()> {
        self.heading("with the database in operation", &about(found))?;
        let tone = match found.verdict {
            VerificationVerdict::Kept | VerificationVerdict::Less => Tone::Good,
            VerificationVerdict::Broken => Tone::Bad,
            VerificationVerdict::NotApplied | VerificationVerdict::Unclear => Tone::Strong,
        };
        let (label, columns) = (headline(found), headline(found).chars().count() + 4);
        let label = self.style(label, tone);
        self.wrapped(&format!("  {label}: "), columns, &found.why)?;
        if !found.promises.is_empty() {
            self.table(&table(found))?;
            self.wrapped("  ", 2, INTERVALS)?;
            for reason in reasons(found) {
                self.wrapped("  ", 2, &reason)?;
            }
        }
        for warning in &found.warnings {
            let mark = self.style("!", Tone::Bad);
            self.wrapped(&format!("  {mark} "), 4, warning)?;
        }
        Ok(())
    }
}
