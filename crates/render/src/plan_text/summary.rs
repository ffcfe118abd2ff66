//! The recommendation and its effect in at most a dozen lines. `tune -v` and the report show the evidence.

use std::io::{self, Write};

use poolwright_plan::{Plan, RolePlan, Verdict};
use poolwright_report::{Tone, Unit};

use super::Text;
use crate::plan_page::{caveats, choices, format};

/// Commands shown; a plan rarely has more datasets.
const COMMANDS: usize = 2;

impl<W: Write> Text<'_, W> {
    /// Writes the verdict, the choices, the number of caveats, and the commands that apply the plan.
    pub(super) fn summary(&mut self, plan: &Plan) -> io::Result<()> {
        let change = plan.verdict == Verdict::Change;
        // The figures follow as a table.
        let why = if change { first_sentence(&plan.why) } else { &plan.why };
        self.recommendation(plan, None, why)?;
        self.evidence(plan)?;
        if let Some(table) = choices::table(plan) {
            self.table(&table)?;
            self.track_record(plan)?;
        }
        for problem in plan.problems() {
            let mark = self.style("!", Tone::Bad);
            self.wrapped(&format!("{mark} "), 2, &format!("Do not follow this plan: {problem}"))?;
        }
        self.caveats(plan)?;
        for (role, excluded) in plan.roles.iter().filter_map(|role| Some((role, role.excluded.as_ref()?))) {
            let mark = self.style("!", Tone::Bad);
            self.wrapped(&format!("{mark} "), 2, &format!("{}: {excluded}", role.role))?;
        }
        if change {
            self.commands(plan)?;
        }
        choices::how(plan).map_or(Ok(()), |how| self.wrapped("", 0, &how))
    }

    /// Writes the database, the goal and the extent of the measurements on one line.
    fn evidence(&mut self, plan: &Plan) -> io::Result<()> {
        let database = plan.subject.database.as_deref().unwrap_or("unknown database");
        let recorded = match &plan.trace {
            Some(trace) => format!("{} recorded", Unit::Seconds.format(trace.duration_s)),
            None => "nothing recorded".to_owned(),
        };
        let trials = match plan.longest_slice() {
            Some(slice) => {
                let replayed = Unit::Seconds.format(slice.end_s - slice.begin_s);
                format!("{replayed} replayed in {}", format::counted(plan.trials, "trial"))
            }
            None => format::counted(plan.trials, "trial"),
        };
        let seconds = Unit::Seconds.format(plan.seconds);
        self.wrapped("", 0, &format!("{database}, goal {}: {recorded}, {trials}, {seconds}", plan.goal.name))
    }

    /// Writes the first cost and the number of further costs and warnings on one line.
    fn caveats(&mut self, plan: &Plan) -> io::Result<()> {
        let (costs, warnings) = (caveats::costs(plan), caveats::warnings(plan).len() - plan.problems().len());
        let mut parts: Vec<String> = costs.first().cloned().into_iter().collect();
        let more = costs.len().saturating_sub(1);
        parts.extend((more > 0).then(|| format!("{} worse", format::counted(more as u64, "more figure"))));
        parts.extend((warnings > 0).then(|| format::counted(warnings as u64, "warning")));
        if parts.is_empty() {
            return Ok(());
        }
        let mark = self.style("!", Tone::Bad);
        self.wrapped(&format!("{mark} "), 2, &format!("{} (-v shows all)", parts.join("; ")))
    }

    /// Writes the commands for the first datasets and a remark on existing files.
    fn commands(&mut self, plan: &Plan) -> io::Result<()> {
        let mut roles: Vec<&RolePlan> = plan.roles.iter().filter(|r| !r.recommended.is_empty()).collect();
        let mut seen = std::collections::BTreeSet::new();
        roles.retain(|role| seen.insert(role.location.mountpoint.as_str()));
        for role in roles.iter().take(COMMANDS) {
            let line = self.style(&super::command_line(role), Tone::Strong);
            writeln!(self.out, "{line}")?;
        }
        let more = roles.len().saturating_sub(COMMANDS);
        let more = if more > 0 { format!(" -v shows {more} more.") } else { String::new() };
        let resized = plan.roles.iter().any(|r| r.recommended.contains_key("recordsize"));
        let existing = if resized {
            "Existing files keep their record size: stop the database and copy them."
        } else {
            "The change applies to data written from then on."
        };
        self.wrapped("", 0, &format!("{existing}{more}"))
    }
}

/// Returns the text up to the end of its first sentence.
fn first_sentence(text: &str) -> &str {
    text.find(". ").map_or(text, |end| &text[..=end])
}
