//! A plan as terminal text: a summary of at most a dozen lines, or all tables.

mod commands;
mod confirmation;
mod findings;
mod role;
mod summary;
mod verification;

use poolwright_base::units::counted;
use poolwright_plan::metric::ON_TERMINAL;
use poolwright_plan::{Confirmation, Gains, Plan, RolePlan, Verdict, Verification};
use poolwright_report::{Cell, Table, Terminal, TerminalText, Tone, Unit};

use crate::plan_page::{CONTRADICTED, caveats, choices, format, memory};

pub use summary::summary;

/// Renders the whole plan.
pub fn text(plan: &Plan, terminal: Terminal) -> String {
    let mut text = TerminalText::new(terminal);
    verdict(&mut text, plan, None);
    marked(
        &mut text,
        "costs",
        "worse by more than 10 %, with the whole 95 % interval",
        &caveats::costs(plan),
    );
    choices(&mut text, plan);
    if !plan.gain.is_empty() {
        text.heading("the whole plan", "all files together, today's settings compared with the plan's");
        gains(&mut text, &plan.gain);
    }
    let (tried, quiet): (Vec<&RolePlan>, Vec<&RolePlan>) =
        plan.roles.iter().partition(|r| plan.trace.is_none() || role::was_tried(r));
    for role in tried {
        role::add(&mut text, plan, role);
    }
    role::add_quiet(&mut text, &quiet);
    findings::add(&mut text, plan);
    findings::add_advice(&mut text, plan);
    database(&mut text, plan);
    memory(&mut text, plan);
    pool(&mut text, plan);
    marked(&mut text, "before you trust this", "", &caveats::warnings(plan));
    commands::add_next(&mut text, plan);
    text.finish()
}

/// Renders the verdict and the confirmation of a plan.
pub fn confirmation(plan: &Plan, found: &Confirmation, terminal: Terminal) -> String {
    let mut text = TerminalText::new(terminal);
    verdict(&mut text, plan, Some(found));
    confirmation::add(&mut text, found);
    text.finish()
}

/// Renders the verification of a plan.
pub fn verification(found: &Verification, terminal: Terminal) -> String {
    let mut text = TerminalText::new(terminal);
    verification::add(&mut text, found);
    text.finish()
}

/// Adds the recommendation with `why`, below the confirmation if that contradicts it.
fn recommendation(text: &mut TerminalText, plan: &Plan, contradiction: Option<&Confirmation>, why: &str) {
    if let Some(found) = contradiction {
        text.labelled(("", CONTRADICTED, ": "), Tone::Bad, &found.why);
    }
    let (label, tone) = match plan.verdict {
        Verdict::Keep => ("Keep", Tone::Strong),
        Verdict::Change if contradiction.is_some() => ("Was recommended", Tone::Strong),
        Verdict::Change => ("Change", Tone::Good),
    };
    text.labelled(("", label, ": "), tone, why);
}

fn verdict(text: &mut TerminalText, plan: &Plan, confirmation: Option<&Confirmation>) {
    let contradiction = confirmation.filter(|found| found.contradicts_the_plan());
    recommendation(text, plan, contradiction, &plan.why);
    let s = &plan.subject;
    let about = format!(
        "{} in {} ({}, {}), goal {}",
        s.database.as_deref().unwrap_or("unknown database"),
        s.directory,
        s.dataset.as_deref().unwrap_or(&s.file_system),
        format::extent(s.bytes, s.files),
        plan.goal.name,
    );
    text.paragraph("", &about);
    let replayed = plan.longest_slice().map(|slice| format!(" ({} replayed)", format::slice(&slice)));
    let recorded = match &plan.trace {
        Some(trace) => {
            let length = Unit::Seconds.format(trace.duration_s);
            format!("{length} of recording{}, ", replayed.unwrap_or_default())
        }
        None => "no recording, estimates only; ".to_owned(),
    };
    let (trials, seconds) = (counted(plan.trials, "trial"), Unit::Seconds.format(plan.seconds));
    text.paragraph("", &format!("{recorded}{trials} in {seconds}"));
    findings::add_track_record(text, plan);
}

/// Adds a heading and lines with a warning mark; nothing if there are no lines.
fn marked(text: &mut TerminalText, heading: &str, about: &str, lines: &[String]) {
    if !lines.is_empty() {
        text.heading(heading, about);
        lines.iter().for_each(|line| text.warning("  ", line));
    }
}

/// Adds today's settings, the recommended ones and the alternatives, if there are any.
fn choices(text: &mut TerminalText, plan: &Plan) {
    if let (Some(how), Some(table)) = (choices::how(plan), choices::table(plan)) {
        text.heading("the choices", "changes from today, with 95 % intervals");
        text.table(&table);
        text.paragraph("  ", &how);
    }
}

/// Adds the table of gains.
fn gains(text: &mut TerminalText, gains: &Gains) {
    let shown = format::ordered(gains.keys().filter(|name| ON_TERMINAL.contains(name)));
    let table = Table::of(shown.into_iter().map(|name| (name, &gains[name])))
        .left("metric", |(name, _)| name.title())
        .right("today", |(name, gain)| Cell::num(gain.from, name.unit()))
        .right("then", |(name, gain)| Cell::num(gain.to, name.unit()))
        .right("change", |(_, gain)| Cell::num(gain.change, Unit::Change).tone(format::tone(gain.verdict)))
        .right("trials' 95 %", |(_, gain)| Unit::Change.range(gain.ci95))
        .right("verdict", |(_, gain)| Cell::text(format::verdict(gain)).tone(format::tone(gain.verdict)))
        .table();
    text.table(&table);
}

fn database(text: &mut TerminalText, plan: &Plan) {
    if !plan.database.is_empty() {
        text.heading("database", "settings to go with the plan; poolwright never sets them");
    }
    for s in &plan.database {
        let mut now: Vec<String> = s.current.iter().map(|v| format!("now {v}")).collect();
        now.extend(s.restart.then(|| "needs a restart".to_owned()));
        let now = if now.is_empty() { String::new() } else { format!("  ({})", now.join(", ")) };
        text.paragraph("  ", &format!("{} = {}{now}", s.setting, s.value));
        text.paragraph("    why   ", &s.why);
        if let Some(safe) = &s.safe_because {
            text.paragraph("    safe  ", safe);
        }
        if !s.requires.is_empty() {
            text.paragraph("    only  ", &format!("with {}", format::settings(&s.requires)));
        }
    }
}

fn memory(text: &mut TerminalText, plan: &Plan) {
    let Some(found) = &plan.memory else { return };
    let how =
        if found.curve.is_some() { "for the ARC; computed from the recording, not measured" } else { "" };
    text.heading("memory", how);
    memory::sentences(found).iter().for_each(|sentence| text.paragraph("  ", sentence));
}

fn pool(text: &mut TerminalText, plan: &Plan) {
    let today = match plan.pool.current {
        Some(now) if now != plan.pool.ashift => {
            format!(" (today {now}; another value requires another pool: `poolwright apply --new-pool`)")
        }
        _ => String::new(),
    };
    text.heading("pool", "");
    text.paragraph("  ", &format!("ashift={}{today}: {}", plan.pool.ashift, plan.pool.why));
}

#[cfg(test)]
mod tests;
