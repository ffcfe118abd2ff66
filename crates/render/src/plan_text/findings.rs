//! Short forms of the findings beyond the recommendation.

use std::io::{self, Write};

use poolwright_plan::{AdviceStatus, Outcome, Pareto, Plan};

use super::Text;
use crate::plan_page::findings;

/// Number of settings shown of a Pareto set; the report has all.
const SHOWN: usize = 6;

/// The fastest settings, always including today's and the recommended ones.
fn shortened(found: &Pareto) -> Pareto {
    let marked = |i: &usize| matches!(found.settings[*i].outcome, Outcome::Current | Outcome::Recommended);
    let mut kept: Vec<usize> = (0..found.settings.len()).collect();
    kept.sort_by_key(|i| !marked(i)); // The sort is stable: within both halves the fastest come first.
    kept.truncate(SHOWN);
    kept.sort_unstable();
    Pareto { settings: kept.into_iter().map(|i| found.settings[i].clone()).collect(), ..found.clone() }
}

impl<W: Write> Text<'_, W> {
    /// Writes the track record of the predictions.
    pub(super) fn track_record(&mut self, plan: &Plan) -> io::Result<()> {
        match plan.track_record.as_ref().and_then(|t| t.sentence()) {
            Some(sentence) => self.wrapped("", 0, &sentence),
            None => Ok(()),
        }
    }

    /// Writes the Pareto-optimal settings, and the contribution of each property.
    pub(super) fn findings(&mut self, plan: &Plan) -> io::Result<()> {
        for found in &plan.pareto {
            let about = format!("of {}, in work rate, space and bytes written together", found.role);
            self.heading("Pareto-optimal settings", &about)?;
            let short = shortened(found);
            self.table(&findings::pareto_table(&short))?;
            let more = found.settings.len() - short.settings.len();
            if more > 0 {
                self.wrapped("  ", 2, &format!("{more} more in the report"))?;
            }
            self.wrapped("  ", 2, &findings::pareto_rest(found))?;
        }
        for found in &plan.contributions {
            let about = format!("of {}, from {} trials", found.role, found.trials);
            self.heading("what each property contributes", &about)?;
            for line in findings::effects(found) {
                self.wrapped("  - ", 4, &line)?;
            }
        }
        Ok(())
    }

    /// Writes the published rules and their effects.
    pub(super) fn advice(&mut self, plan: &Plan) -> io::Result<()> {
        if plan.advice.is_empty() {
            return Ok(());
        }
        self.heading("published advice", "compared with today's settings; the report names the sources")?;
        self.table(&findings::advice_table(&plan.advice, false))?;
        if plan.advice.iter().any(|a| a.status == AdviceStatus::NotTried) {
            self.wrapped("  ", 2, "--check-advice tries what the search has not tried.")?;
        }
        Ok(())
    }
}
