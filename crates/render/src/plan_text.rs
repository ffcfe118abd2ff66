//! A plan as terminal text: a summary of at most a dozen lines, or all tables.

mod confirmation;
mod findings;
mod summary;
mod verification;

use std::io::{self, Write};

use poolwright_plan::{
    Confirmation, CurrentSource, Evidence, EvidenceKind, Gains, Outcome, Plan, RolePlan, Verdict,
    Verification,
};
use poolwright_report::{Cell, Column, Table, Terminal, Tone, Unit, escape};

use crate::plan_page::{CONTRADICTED, caveats, choices, format, memory};

/// Number of settings shown for each role, including today's and the recommended one.
const ALTERNATIVES: usize = 5;

/// Writes the recommendation and its effect to `out`, escaping control characters in paths and names.
///
/// # Errors
/// Errors of `out`.
pub fn print_summary(plan: &Plan, out: &mut impl Write, terminal: Terminal) -> io::Result<()> {
    Text { out, terminal }.summary(plan)
}

/// Writes the whole plan to `out`, escaping control characters in paths and names.
///
/// # Errors
/// Errors of `out`.
pub fn print(plan: &Plan, out: &mut impl Write, terminal: Terminal) -> io::Result<()> {
    let mut text = Text { out, terminal };
    text.verdict(plan, None)?;
    text.costs(plan)?;
    text.choices(plan)?;
    text.together(plan)?;
    let (tried, quiet): (Vec<&RolePlan>, Vec<&RolePlan>) =
        plan.roles.iter().partition(|r| plan.trace.is_none() || was_tried(r));
    for role in tried {
        text.role(plan, role)?;
    }
    text.quiet(&quiet)?;
    text.findings(plan)?;
    text.advice(plan)?;
    text.database(plan)?;
    text.memory(plan)?;
    text.pool(plan)?;
    text.warnings(plan)?;
    text.next(plan)
}

/// Writes the verdict and the confirmation of a plan.
///
/// # Errors
/// Errors of `out`.
pub fn print_confirmation(
    plan: &Plan,
    found: &Confirmation,
    out: &mut impl Write,
    terminal: Terminal,
) -> io::Result<()> {
    let mut text = Text { out, terminal };
    text.verdict(plan, Some(found))?;
    text.confirmation(found)
}

/// Writes the verification of a plan.
///
/// # Errors
/// Errors of `out`.
pub fn print_verification(found: &Verification, out: &mut impl Write, terminal: Terminal) -> io::Result<()> {
    Text { out, terminal }.verification(found)
}

/// Whether the role was in a trial or has recommendations that need an explanation.
fn was_tried(role: &RolePlan) -> bool {
    !role.gain.is_empty()
        || !role.safe_because.is_empty()
        || role.evidence.iter().any(|e| e.kind == EvidenceKind::Trial)
}

/// The metrics of the gains on the terminal; `report.html` has all.
const SHOWN: &[&str] = &[
    "work_rate",
    "allocated_bytes",
    "mean_latency_ns",
    "read_p99_ns",
    "write_p99_ns",
    "fsync_p99_ns",
    "ops_s",
    "write_amplification",
    "read_amplification",
    "vdev_write_bytes",
    "cpu_ns_per_op",
];

struct Text<'a, W> {
    out: &'a mut W,
    terminal: Terminal,
}

impl<W: Write> Text<'_, W> {
    /// Writes the recommendation with `why`, below the confirmation if that contradicts it.
    fn recommendation(
        &mut self,
        plan: &Plan,
        contradiction: Option<&Confirmation>,
        why: &str,
    ) -> io::Result<()> {
        if let Some(found) = contradiction {
            self.labelled(CONTRADICTED, Tone::Bad, &found.why)?;
        }
        match plan.verdict {
            Verdict::Keep => self.labelled("Keep", Tone::Strong, why),
            Verdict::Change if contradiction.is_some() => self.labelled("Was recommended", Tone::Strong, why),
            Verdict::Change => self.labelled("Change", Tone::Good, why),
        }
    }

    /// Writes a paragraph that begins with a label.
    fn labelled(&mut self, label: &str, tone: Tone, text: &str) -> io::Result<()> {
        let styled = self.style(label, tone);
        self.wrapped(&format!("{styled}: "), label.chars().count() + 2, text)
    }

    fn verdict(&mut self, plan: &Plan, confirmation: Option<&Confirmation>) -> io::Result<()> {
        self.recommendation(plan, confirmation.filter(|found| found.contradicts_the_plan()), &plan.why)?;
        let s = &plan.subject;
        let database = s.database.as_deref().unwrap_or("unknown database");
        let about = format!(
            "{database} in {} ({}, {} in {}), goal {}",
            s.directory,
            s.dataset.as_deref().unwrap_or(&s.file_system),
            format::bytes(s.bytes),
            format::counted(s.files, "file"),
            plan.goal.name,
        );
        self.wrapped("", 0, &about)?;
        let recorded = match &plan.trace {
            Some(trace) => {
                let replayed =
                    plan.longest_slice().map(|slice| format!(" ({} replayed)", format::slice(&slice)));
                format!(
                    "{} of recording{}, ",
                    Unit::Seconds.format(trace.duration_s),
                    replayed.unwrap_or_default()
                )
            }
            None => "no recording, estimates only; ".to_owned(),
        };
        let trials = format::counted(plan.trials, "trial");
        let figures = format!("{recorded}{trials} in {}", Unit::Seconds.format(plan.seconds));
        self.wrapped("", 0, &figures)?;
        self.track_record(plan)
    }

    fn role(&mut self, plan: &Plan, role: &RolePlan) -> io::Result<()> {
        let size = format!("{} in {}", format::bytes(role.bytes), format::counted(role.files, "file"));
        self.heading(role.role.name(), &format!("{}  {size}", role.path))?;
        let today = format::settings(&role.current);
        let source = match &role.current_source {
            CurrentSource::ZfsGet { dataset } => format!("from {dataset}"),
            CurrentSource::ZfsDefaults { why } => format!("OpenZFS's defaults: {why}"),
        };
        if role.recommended.is_empty() {
            self.wrapped("  keep  ", 8, &format!("{today}  ({source})"))?;
        } else {
            let set = self.style("set", Tone::Good);
            self.wrapped(&format!("  {set}   "), 8, &format::settings(&role.recommended))?;
            let was =
                format::sorted(&role.current).into_iter().filter(|(p, _)| role.recommended.contains_key(*p));
            let was: Vec<String> = was.map(|(p, v)| format!("{p}={v}")).collect();
            if !was.is_empty() {
                self.wrapped("  was   ", 8, &format!("{}  ({source})", was.join(" ")))?;
            }
        }
        for (property, why) in &role.safe_because {
            self.wrapped("  safe  ", 8, &format!("{property}: {why}"))?;
        }
        if !role.gain.is_empty() {
            self.wrapped("  ", 2, &format!("{} alone, everything else as today:", role.replayed_roles()))?;
            self.gains(&role.gain)?;
        }
        self.alternatives(plan, role)?;
        for note in role.remarks() {
            self.wrapped("  - ", 4, note)?;
        }
        Ok(())
    }

    /// Writes a heading and lines with a warning mark; nothing if there are no lines.
    fn marked(&mut self, heading: &str, about: &str, lines: &[String]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        self.heading(heading, about)?;
        for line in lines {
            let mark = self.style("!", Tone::Bad);
            self.wrapped(&format!("  {mark} "), 4, line)?;
        }
        Ok(())
    }

    /// Writes the costs.
    fn costs(&mut self, plan: &Plan) -> io::Result<()> {
        let about = "worse by more than 10 %, with the whole 95 % interval";
        self.marked("costs", about, &caveats::costs(plan))
    }

    /// Writes today's settings, the recommended ones and the alternatives, if there are any.
    fn choices(&mut self, plan: &Plan) -> io::Result<()> {
        let (Some(how), Some(table)) = (choices::how(plan), choices::table(plan)) else {
            return Ok(());
        };
        self.heading("the choices", "changes from today, with 95 % intervals")?;
        self.table(&table)?;
        self.wrapped("  ", 2, &how)
    }

    /// Writes the gains of the whole plan, which the verdict quotes.
    fn together(&mut self, plan: &Plan) -> io::Result<()> {
        if plan.gain.is_empty() {
            return Ok(());
        }
        self.heading("the whole plan", "all files together, today's settings compared with the plan's")?;
        self.gains(&plan.gain)
    }

    /// Writes the roles that were not in a trial, with the reasons.
    fn quiet(&mut self, roles: &[&RolePlan]) -> io::Result<()> {
        if roles.is_empty() {
            return Ok(());
        }
        self.heading("other roles", "without trials")?;
        for role in roles {
            let what = if role.recommended.is_empty() {
                "keep".to_owned()
            } else {
                format!("{}, like the other files of its dataset", format::settings(&role.recommended))
            };
            let size = format!("{} in {}", format::bytes(role.bytes), format::counted(role.files, "file"));
            self.wrapped("  ", 2, &format!("{}  {}  {size}: {what}", role.role, role.path))?;
            for note in role.remarks() {
                self.wrapped("    - ", 6, note)?;
            }
        }
        Ok(())
    }

    fn gains(&mut self, gains: &Gains) -> io::Result<()> {
        let mut table = Table::new([
            Column::left("metric"),
            Column::right("today"),
            Column::right("then"),
            Column::right("change"),
            Column::right("trials' 95 %"),
            Column::right("verdict"),
        ]);
        let shown = gains.keys().map(String::as_str).filter(|name| SHOWN.contains(name));
        for name in format::ordered(shown) {
            let (gain, unit) = (&gains[name], format::unit(name));
            table.row([
                Cell::text(format::title(name)),
                Cell::num(gain.from, unit),
                Cell::num(gain.to, unit),
                Cell::num(gain.change, Unit::Change).tone(format::tone(gain)),
                Cell::text(format::interval(gain)),
                Cell::text(format::verdict(gain)).tone(format::tone(gain)),
            ]);
        }
        self.table(&table)
    }

    /// Writes the best trials, or the best estimates if there are no trials, then the number of the remaining settings.
    fn alternatives(&mut self, plan: &Plan, role: &RolePlan) -> io::Result<()> {
        let of =
            |rated: &dyn Fn(&Evidence) -> bool| role.evidence.iter().filter(|e| rated(e)).collect::<Vec<_>>();
        let trials = of(&|e| e.kind == EvidenceKind::Trial && e.outcome != Outcome::Failed);
        let (heading, rated) = if trials.is_empty() {
            let out = |e: &Evidence| matches!(e.outcome, Outcome::Failed | Outcome::ScreenedOut);
            ("estimated", of(&|e| !out(e)))
        } else {
            ("tried", trials)
        };
        let shown = if rated.len() > 1 { shortlist(&rated) } else { Vec::new() };
        if !shown.is_empty() {
            let has = |name: &str| shown.iter().any(|e| e.metrics.contains_key(name));
            let metrics = format::headline(&plan.goal, has);
            let mut columns = vec![Column::left(heading), Column::right("objective")];
            columns.extend(metrics.iter().map(|m| Column::right(&format::short_title(m))));
            columns.push(Column::right(""));
            let mut table = Table::new(columns);
            for e in &shown {
                table.row(alternative(role, e, &metrics));
            }
            writeln!(self.out)?;
            self.table(&table)?;
        }
        let count = |outcome| {
            let settings = role.evidence.iter().filter(|e| e.outcome == outcome).map(|e| &e.settings);
            settings.collect::<std::collections::BTreeSet<_>>().len()
        };
        let rest = [
            (rated.len() - shown.len(), format!("more {heading}")),
            (count(Outcome::ScreenedOut), "not replayed".to_owned()),
            (count(Outcome::Failed), "failed".to_owned()),
        ];
        let rest: Vec<String> =
            rest.iter().filter(|r| r.0 > 0).map(|(n, what)| format!("{n} {what}")).collect();
        if rest.is_empty() { Ok(()) } else { self.wrapped("  ", 2, &rest.join(", ")) }
    }

    fn database(&mut self, plan: &Plan) -> io::Result<()> {
        if plan.database.is_empty() {
            return Ok(());
        }
        self.heading("database", "settings to go with the plan; poolwright never sets them")?;
        for s in &plan.database {
            let mut now: Vec<String> = s.current.iter().map(|v| format!("now {v}")).collect();
            now.extend(s.restart.then(|| "needs a restart".to_owned()));
            let now = if now.is_empty() { String::new() } else { format!("  ({})", now.join(", ")) };
            self.wrapped("  ", 2, &format!("{} = {}{now}", s.setting, s.value))?;
            self.wrapped("    why   ", 10, &s.why)?;
            if let Some(safe) = &s.safe_because {
                self.wrapped("    safe  ", 10, safe)?;
            }
            if !s.requires.is_empty() {
                self.wrapped("    only  ", 10, &format!("with {}", format::settings(&s.requires)))?;
            }
        }
        Ok(())
    }

    fn memory(&mut self, plan: &Plan) -> io::Result<()> {
        let Some(found) = &plan.memory else { return Ok(()) };
        let how =
            if found.curve.is_some() { "for the ARC; computed from the recording, not measured" } else { "" };
        self.heading("memory", how)?;
        for sentence in memory::sentences(found) {
            self.wrapped("  ", 2, &sentence)?;
        }
        Ok(())
    }

    fn pool(&mut self, plan: &Plan) -> io::Result<()> {
        let today = match plan.pool.current {
            Some(now) if now != plan.pool.ashift => {
                format!(" (today {now}; another value requires another pool: `poolwright apply --new-pool`)")
            }
            _ => String::new(),
        };
        self.heading("pool", "")?;
        self.wrapped("  ", 2, &format!("ashift={}{today}: {}", plan.pool.ashift, plan.pool.why))
    }

    fn warnings(&mut self, plan: &Plan) -> io::Result<()> {
        self.marked("before you trust this", "", &caveats::warnings(plan))
    }

    fn next(&mut self, plan: &Plan) -> io::Result<()> {
        if plan.verdict == Verdict::Keep {
            return Ok(());
        }
        self.heading("next", "")?;
        let mut places: Vec<&str> = Vec::new();
        for role in plan.roles.iter().filter(|r| !r.recommended.is_empty()) {
            if !places.contains(&role.location.mountpoint.as_str()) {
                places.push(&role.location.mountpoint);
                self.command(role)?;
            }
        }
        let resized = plan.roles.iter().any(|r| r.recommended.contains_key("recordsize"));
        let text = if resized {
            "Existing files keep their record size. To convert them, stop the database and copy them."
        } else {
            "The change applies to data written from then on."
        };
        self.wrapped("  ", 2, text)
    }

    /// The command that sets the recommended properties of a role's dataset.
    fn command(&mut self, role: &RolePlan) -> io::Result<()> {
        writeln!(self.out, "  {}", self.style(&command_line(role), Tone::Strong))?;
        if role.location.dataset.is_some() {
            return Ok(());
        }
        let how = role.location.how.as_ref().map_or(String::new(), |how| format!(" ({how})"));
        let text = format!(
            "to be mounted on {}, for the files that are in {} today{how}",
            role.location.mountpoint, role.path
        );
        self.wrapped("    ", 4, &text)
    }

    fn heading(&mut self, name: &str, more: &str) -> io::Result<()> {
        let name = escape::line(name);
        let more = if more.is_empty() { String::new() } else { format!("  {}", escape::line(more)) };
        writeln!(self.out, "\n{}{more}", self.style(&name, Tone::Strong))
    }

    /// Writes a table, indented by two columns.
    fn table(&mut self, table: &Table) -> io::Result<()> {
        let inner = Terminal { width: self.terminal.width.map(|w| w.saturating_sub(2)), ..self.terminal };
        for line in table.terminal(inner).lines() {
            writeln!(self.out, "  {line}")?;
        }
        Ok(())
    }

    /// Writes `lead` and then `text`, wrapped between words; continuation lines are indented by `indent` columns.
    fn wrapped(&mut self, lead: &str, indent: usize, text: &str) -> io::Result<()> {
        let text = escape::line(text);
        let room = self.terminal.width.map_or(usize::MAX, |w| w.saturating_sub(indent).max(20));
        for (i, line) in wrap(&text, room).into_iter().enumerate() {
            if i == 0 {
                writeln!(self.out, "{lead}{line}")?;
            } else {
                writeln!(self.out, "{:indent$}{line}", "")?;
            }
        }
        Ok(())
    }

    fn style(&self, text: &str, tone: Tone) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Good => "1;32",
            Tone::Bad => "1;31",
            Tone::Muted => "2",
            Tone::Strong => "1",
        };
        if self.terminal.ansi { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The command that sets the recommended properties. It is not wrapped, so that it can be copied.
fn command_line(role: &RolePlan) -> String {
    let all = format::sorted(&role.recommended).into_iter().map(|(p, v)| quoted(&format!("{p}={v}")));
    let line = match &role.location.dataset {
        Some(dataset) => format!("zfs set {} {}", all.collect::<Vec<_>>().join(" "), quoted(dataset)),
        None => {
            let all: String = all.map(|s| format!("-o {s} ")).collect();
            format!("zfs create {all}{}", quoted(&format!("POOL/{}", role.role)))
        }
    };
    escape::line(&line)
}

/// The best settings in their order, always including the recommended and today's settings.
fn shortlist<'a>(rated: &[&'a Evidence]) -> Vec<&'a Evidence> {
    let marked = |e: &Evidence| matches!(e.outcome, Outcome::Recommended | Outcome::Current);
    let mut order: Vec<usize> = (0..rated.len()).collect();
    order.sort_by_key(|i| !marked(rated[*i])); // The sort is stable: within both halves the best come first.
    order.truncate(ALTERNATIVES);
    order.sort_unstable();
    order.into_iter().map(|i| rated[i]).collect()
}

fn alternative(role: &RolePlan, e: &Evidence, metrics: &[&str]) -> Vec<Cell> {
    let mut label = format::label(role, &e.settings);
    let others = format::others(e);
    if !others.is_empty() {
        label += &format!(" (with {others})");
    }
    let (mark, tone) = match e.outcome {
        Outcome::Current => ("today", Tone::Strong),
        Outcome::Recommended => ("recommended", Tone::Good),
        _ => ("", Tone::Plain),
    };
    let mut row = vec![Cell::text(label).tone(tone)];
    row.push(e.objective.map_or(Cell::missing(), |v| Cell::num(v, Unit::None)));
    let figure = |name: &&str| e.metrics.get(*name).map(|m| Cell::num(m.median, format::unit(name)));
    row.extend(metrics.iter().map(|name| figure(name).unwrap_or(Cell::missing())));
    row.push(Cell::text(mark).tone(tone));
    row
}

/// Quotes text for a shell. The name of a dataset may contain spaces, and the plan may be from an untrusted source.
fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/=".contains(c);
    if name.chars().all(plain) { name.to_owned() } else { format!("'{}'", name.replace('\'', "'\\''")) }
}

/// Wraps text at spaces into lines of at most `room` characters; a longer word gets its own line.
fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let need = word.chars().count();
        let line = lines.len() - 1;
        if lines[line].is_empty() {
            lines[line].push_str(word);
            used = need;
        } else if used + 1 + need <= room {
            lines[line].push(' ');
            lines[line].push_str(word);
            used += 1 + need;
        } else {
            lines.push(word.to_owned());
            used = need;
        }
    }
    lines.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
    lines
}

#[cfg(test)]
mod tests;
