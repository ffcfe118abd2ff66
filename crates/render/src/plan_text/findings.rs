//! What the trials showed beyond the recommendation, in short.

use std::io::{self, Write};

use poolwright_tune::plan::{AdviceStatus, Outcome, Pareto, Plan};

use super::Text;
use crate::plan_page::findings;

/// Settings shown of a set; the report has all.
const SHOWN: usize = 6;

/// The fastest few, today's and the recommended one always among them.
fn shortened(found: &Pareto) -> Pareto {
    let marked = |i: &usize| matches!(found.settings[*i].outcome, Outcome::Current | Outcome::Recommended);
    let mut kept: Vec<usize> = (0..found.settings.len()).collect();
    kept.sort_by_key(|i| !marked(i)); // stable: the fastest first within each half
    kept.truncate(SHOWN);
    kept.sort_unstable();
    Pareto { settings: kept.into_iter().map(|i| found.settings[i].clone()).collect(), ..found.clone() }
}

impl<W: Write> Text<'_, W> {
    /// One sentence on how good predictions were elsewhere.
    pub(super) fn track_record(&mut self, plan: &Plan) -> io::Result<()> {
        match plan.track_record.as_ref().and_then(|t| t.sentence()) {
            Some(sentence) => self.wrapped("", 0, &sentence),
            None => Ok(()),
        }
    }

    /// Settings that no other beats, and what each property contributes.
    pub(super) fn findings(&mut self, plan: &Plan) -> io::Result<()> {
        for found in &plan.pareto {
            let about = format!("of {}, in work rate, space and bytes written together", found.role);
            self.heading("settings that no other beats", &about)?;
            let short = shortened(found);
            self.table(&findings::pareto_table(&short))?;
            let more = found.settings.len() - short.settings.len();
            if more > 0 {
                self.wrapped("  ", 2, &format!("{more} more in the report"))?;
            }
            self.wrapped("  ", 2, &findings::pareto_rest(found))?;
        }
        for found in &plan.contributions {
            let about = format!("to the variance over the {} trials of {}", found.trials, found.role);
            self.heading("what each property contributes", &about)?;
            if !found.metrics.is_empty() {
                self.table(&findings::shares_table(found))?;
            }
            for line in findings::effects(found) {
                self.wrapped("  - ", 4, &line)?;
            }
        }
        Ok(())
    }

    /// Published rules, held against today's settings.
    pub(super) fn advice(&mut self, plan: &Plan) -> io::Result<()> {
        if plan.advice.is_empty() {
            return Ok(());
        }
        self.heading("published advice", "against today's settings; the report names the sources")?;
        self.table(&findings::advice_table(&plan.advice, false))?;
        if plan.advice.iter().any(|a| a.status == AdviceStatus::Predicted) {
            let text =
                "Figures with ~ are the model's predictions, not measured; --check-advice measures them.";
            self.wrapped("  ", 2, text)?;
        }
        Ok(())
    }
}
