//! `report.html`: a plan as a self-contained page, with the verdict first and then the evidence.
//!
//! The page is made from the plan alone, so the page of an old plan can be made again.

pub mod caveats;
pub mod choices;
pub mod confirmation;
mod evidence;
pub mod findings;
pub mod format;
pub mod memory;
mod picture;
mod ran_on;
mod role;
#[cfg(test)]
pub mod tests;
pub mod verification;

use poolwright_base::units::bytes;
use poolwright_plan::{Gain, GainVerdict, Measurements, MetricName, Plan, RolePlan, Verdict};
use poolwright_report::{Callout, Cell, Page, Section, Table, Tone, Unit};

/// The heading above the verdict of a plan that its confirmation contradicts.
pub const CONTRADICTED: &str = "The database itself does not confirm this plan";

/// Renders the page of a plan and of what was measured under its settings.
pub fn html(plan: &Plan, measured: &Measurements) -> String {
    let mut page = Page::new(&format!("Plan for {}", plan.subject.directory))
        .subtitle(&subtitle(plan))
        .footer(&format!("{} · {}", plan.creator, plan.created));
    let top = page.section("");
    verdict(top, plan, measured);
    tiles(top, plan);
    if let Some(table) = choices::table(plan) {
        top.heading("The choices").table(&table);
        choices::how(plan).iter().for_each(|how| {
            top.paragraph(how);
        });
    }
    caveats(top, plan);
    findings::top(top, plan);
    if let Some(found) = &measured.confirmation {
        confirmation::section(page.section("With the database itself"), found);
    }
    if let Some(found) = &measured.verification {
        verification::section(page.section("With the database in operation"), found);
    }
    if !plan.roles.is_empty() {
        settings(page.section("Settings"), plan);
    }
    if let Some(plot) = picture::gains(&plan.gain) {
        let caption = format!(
            "{} All files together, today's settings compared with the plan's.",
            role::pairs(&plan.gain)
        );
        page.section("The whole plan").plot(&plot, &caption);
    }
    findings::sections(&mut page, plan);
    if !plan.database.is_empty() {
        database(page.section("Database"), plan);
    }
    if let Some(found) = &plan.memory {
        memory::section(page.section("Memory"), found);
    }
    pool(page.section("Pool"), plan);
    for role in &plan.roles {
        role::section(page.section(&format::role_name(&plan.roles, role)), plan, role);
    }
    ran_on::machine(page.section("What it ran on"), plan);
    ran_on::how_to_read(page.section("How to read this"), plan);
    page.section("The plan itself").raw("plan.json", &json(plan));
    page.html()
}

fn subtitle(plan: &Plan) -> String {
    let s = &plan.subject;
    let database = s.database.as_deref().unwrap_or("Unknown database");
    let on = match &s.dataset {
        Some(dataset) => format!("{} ({dataset})", s.file_system),
        None => s.file_system.clone(),
    };
    let size = format::extent(s.bytes, s.files);
    format!("{database} on {on} · {size} · goal: {} · {}", plan.goal.name, plan.created)
}

fn verdict(top: &mut Section, plan: &Plan, measured: &Measurements) {
    let change = || {
        let changed = plan.roles.iter().filter(|r| !r.recommended.is_empty());
        let all: Vec<String> = changed
            .map(|r| format!("{} to {}", format::role_name(&plan.roles, r), format::settings(&r.recommended)))
            .collect();
        let word = if measured.contradiction().is_some() { "Was recommended:" } else { "Change" };
        format!("{word} {}", all.join("; "))
    };
    if let Some(found) = measured.contradiction() {
        top.callout(Callout::Warning, CONTRADICTED, &found.why);
    }
    match plan.verdict {
        Verdict::Change => top.callout(Callout::Change, &change(), &plan.why),
        Verdict::Keep => top.callout(Callout::Keep, "Keep today's settings", &plan.why),
    };
}

/// One tile for each headline metric: the gain of the whole plan, or else that of the first changed role.
fn tiles(top: &mut Section, plan: &Plan) {
    let of_role = |name: &MetricName| {
        let changed = plan.roles.iter().filter(|r| !r.recommended.is_empty());
        changed.filter_map(|r| Some((r, r.gain.get(name)?))).next()
    };
    let has = |name: &MetricName| plan.gain.contains_key(name) || of_role(name).is_some();
    top.tiles(format::headline(&plan.goal, has).into_iter().filter_map(|name| {
        let (title, gain) = match (plan.gain.get(name), of_role(name)) {
            (Some(gain), _) => (name.title().to_owned(), gain),
            (None, Some((role, gain))) => {
                (format!("{}, {} alone", name.title(), role.replayed_roles()), gain)
            }
            (None, None) => return None,
        };
        let value = match gain.verdict {
            GainVerdict::Noise => "no clear change".to_owned(),
            _ => Unit::Change.format(gain.change),
        };
        Some((title, value, remark(plan, name, gain), format::tone(gain.verdict)))
    }));
}

fn remark(plan: &Plan, name: &MetricName, gain: &Gain) -> String {
    // A number and its unit stay on one line.
    let whole = |text: String| text.replace(' ', "\u{a0}");
    let figures = whole(format::from_to(name, gain));
    let ends = plan.expected(name, gain.change, gain.ci95);
    // Only the interval of the work rate contains the errors of earlier predictions.
    let what = if ends == gain.ci95 { "trials" } else { "95\u{a0}% interval" };
    format!("{figures}, {} · {what} {}", format::verdict(gain), whole(Unit::Change.range(ends)))
}

/// The costs, then all warnings.
fn caveats(top: &mut Section, plan: &Plan) {
    let costs = caveats::costs(plan);
    if !costs.is_empty() {
        top.callout(
            Callout::Warning,
            "What it costs",
            &format!("Worse by more than 10 %: {}.", costs.join("; ")),
        );
    }
    let all = caveats::warnings(plan);
    if !all.is_empty() {
        top.heading("Before you trust this").list(&all);
    }
}

/// One row for each role: its size, its settings, and the gains of its own trials.
fn settings(section: &mut Section, plan: &Plan) {
    let has = |name: &MetricName| plan.roles.iter().any(|r| r.gain.contains_key(name));
    let metrics = format::headline(&plan.goal, has);
    let recommended = |role: &RolePlan| match role.recommended.is_empty() {
        true => Cell::text("keep").tone(Tone::Muted),
        false => Cell::text(format::label(role, &format::applied(role))).tone(Tone::Strong),
    };
    let table = Table::of(&plan.roles)
        .left("role", |role| format::role_name(&plan.roles, role))
        .right("size", |role| Cell::bytes(role.bytes))
        .left("today", |role| format::label(role, &role.current))
        .left("recommended", recommended)
        .each(&metrics, |table, name| {
            let change = |gain: &Gain| Cell::num(gain.change, Unit::Change).tone(format::tone(gain.verdict));
            table.right(format::short_title(name), |role| role.gain.get(name).map(change))
        })
        .table();
    section.table(&table);
    if !metrics.is_empty() {
        section.paragraph(
            "Each row shows the effect of changing that role alone, together with the roles on the same dataset. Green is \
             a clear improvement, orange a clear deterioration, grey a change inside the noise.",
        );
    }
}

fn database(section: &mut Section, plan: &Plan) {
    section.paragraph("Settings of the database that go with the plan. Poolwright prints them and never edits a configuration.");
    for s in &plan.database {
        section.heading(&format!("{} = {}", s.setting, s.value));
        let mut about: Vec<(&str, &str)> = Vec::new();
        about.extend(s.current.iter().map(|v| ("today", v.as_str())));
        about.push(("why", &s.why));
        about.extend(s.safe_because.iter().map(|v| ("safe because", v.as_str())));
        let requires = format::settings(&s.requires);
        about.extend((!requires.is_empty()).then_some(("requires", requires.as_str())));
        about.push(("takes effect", if s.restart { "when the server is restarted" } else { "at once" }));
        section.key_values(about);
    }
}

fn pool(section: &mut Section, plan: &Plan) {
    let pool = &plan.pool;
    let sector = 1u64.checked_shl(pool.ashift.into()).map(bytes).unwrap_or_default();
    let today = match pool.current {
        Some(current) if current == pool.ashift => "; the pool has this value today".to_owned(),
        Some(current) => {
            format!(
                "; the pool has `ashift={current}` today, and another value requires another pool (`poolwright apply --new-pool`)"
            )
        }
        None => String::new(),
    };
    section.paragraph(&format!(
        "`ashift={}` (sectors of {sector}): {}{today}.",
        pool.ashift,
        trimmed(&pool.why)
    ));
}

/// Removes a final period, for use inside a sentence.
fn trimmed(text: &str) -> &str {
    text.trim_end().trim_end_matches('.')
}

fn json(plan: &Plan) -> String {
    // A plan has only strings, numbers and maps with string keys, so this does not fail.
    serde_json::to_string_pretty(plan).unwrap_or_else(|e| format!("cannot write the plan as JSON: {e}"))
}
