//! The confirmation of a plan as terminal text.

use std::io::{self, Write};

use poolwright_plan::{Confirmation, ConfirmationVerdict};
use poolwright_report::Tone;

use super::Text;
use crate::plan_page::confirmation::{DEVIATION, about, headline, table};

impl<W: Write> Text<'_, W> {
    /// Writes the verdict, the table and the warnings.
    pub(super) fn confirmation(&mut self, found: &Confirmation) -> io::Result<()> {
        self.heading("with the database itself", &about(found))?;
        let tone = match found.verdict {
            ConfirmationVerdict::Confirmed | ConfirmationVerdict::BetterThanToday => Tone::Good,
            ConfirmationVerdict::NotConfirmed => Tone::Bad,
        };
        let (label, columns) = (headline(found), headline(found).chars().count() + 4);
        let label = self.style(label, tone);
        self.wrapped(&format!("  {label}: "), columns, &found.why)?;
        self.table(&table(found))?;
        self.wrapped("  ", 2, DEVIATION)?;
        for warning in &found.warnings {
            let mark = self.style("!", Tone::Bad);
            self.wrapped(&format!("  {mark} "), 4, warning)?;
        }
        Ok(())
    }
}
