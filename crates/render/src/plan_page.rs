//! `report.html`: a plan as one self-contained page, the verdict first and the evidence behind it.
//!
//! Everything on the page comes from the plan alone, so that an old plan can be drawn again.

pub mod caveats;
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

use poolwright_report::{Callout, Cell, Column, Page, Section, Table, Tone, Unit};
use poolwright_tune::plan::{Gain, GainVerdict, Plan, Verdict};

/// What stands above the verdict where the database itself contradicts it.
pub const CONTRADICTED: &str = "The database itself does not confirm this plan";

/// The whole page.
pub fn html(plan: &Plan) -> String {
    let mut page = Page::new(&format!("Plan for {}", plan.subject.directory))
        .subtitle(&subtitle(plan))
        .footer(&format!("{} · {}", plan.creator, plan.created));
    let top = page.section("");
    verdict(top, plan);
    tiles(top, plan);
    caveats(top, plan);
    findings::top(top, plan);
    if let Some(found) = &plan.confirmation {
        confirmation::section(page.section("With the database itself"), found);
    }
    if !plan.roles.is_empty() {
        settings(page.section("Settings"), plan);
    }
    if let Some(plot) = picture::gains(&plan.gain) {
        let caption =
            format!("{} All files together, today's settings against the plan's.", role::pairs(&plan.gain));
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
    let size = format!("{} in {}", format::bytes(s.bytes), format::counted(s.files, "file"));
    format!("{database} on {on} · {size} · goal: {} · {}", plan.goal.name, plan.created)
}

fn verdict(top: &mut Section, plan: &Plan) {
    let change = || {
        let changed = plan.roles.iter().filter(|r| !r.recommended.is_empty());
        let all: Vec<String> = changed
            .map(|r| format!("{} to {}", format::role_name(&plan.roles, r), format::settings(&r.recommended)))
            .collect();
        format!("Change {}", all.join("; "))
    };
    if let Some(found) = plan.contradiction() {
        top.callout(Callout::Warning, CONTRADICTED, &found.why);
    }
    match plan.verdict {
        Verdict::Change => top.callout(Callout::Change, &change(), &plan.why),
        Verdict::Keep => top.callout(Callout::Keep, "Keep today's settings", &plan.why),
    };
}

/// The gains of the whole plan; where one was only measured for a role alone, it says so.
fn tiles(top: &mut Section, plan: &Plan) {
    let of_role = |name: &str| {
        let changed = plan.roles.iter().filter(|r| !r.recommended.is_empty());
        changed.filter_map(|r| Some((r, r.gain.get(name)?))).next()
    };
    let has = |name: &str| plan.gain.contains_key(name) || of_role(name).is_some();
    let shown = format::headline(&plan.goal, has).into_iter().filter_map(|name| {
        let (title, gain) = match (plan.gain.get(name), of_role(name)) {
            (Some(gain), _) => (format::title(name).to_owned(), gain),
            (None, Some((role, gain))) => {
                (format!("{}, {} alone", format::title(name), format::replayed(role)), gain)
            }
            (None, None) => return None,
        };
        let value = match gain.verdict {
            GainVerdict::Noise => "no clear change".to_owned(),
            _ => Unit::Change.format(gain.change),
        };
        Some((title, value, remark(name, gain), format::tone(gain)))
    });
    let all: Vec<(String, String, String, Tone)> = shown.collect();
    if !all.is_empty() {
        top.tiles(all.iter().map(|(what, value, more, tone)| (&**what, &**value, &**more, *tone)));
    }
}

fn remark(name: &str, gain: &Gain) -> String {
    // no line break between a number and its unit
    let whole = |text: String| text.replace(' ', "\u{a0}");
    let figures = whole(format::from_to(name, gain));
    format!("{figures}, {} · 95\u{a0}% interval {}", format::verdict(gain), whole(format::interval(gain)))
}

/// What gets much worse, and then all warnings in one place.
fn caveats(top: &mut Section, plan: &Plan) {
    let costs = caveats::costs(plan);
    if !costs.is_empty() {
        top.callout(
            Callout::Warning,
            "What it costs",
            &format!("Worse by more than a tenth: {}.", costs.join("; ")),
        );
    }
    let all = caveats::warnings(plan);
    if !all.is_empty() {
        top.heading("Before you trust this").list(&all);
    }
}

/// One row per role: what is there, what should be, and what it brings alone.
fn settings(section: &mut Section, plan: &Plan) {
    let has = |name: &str| plan.roles.iter().any(|r| r.gain.contains_key(name));
    let metrics = format::headline(&plan.goal, has);
    let mut columns = vec![
        Column::left("role"),
        Column::right("size").key("bytes"),
        Column::left("today"),
        Column::left("recommended"),
    ];
    columns.extend(metrics.iter().map(|m| Column::right(&format::short_title(m)).key(m)));
    let mut table = Table::new(columns);
    for role in &plan.roles {
        let recommended = if role.recommended.is_empty() {
            Cell::text("keep").tone(Tone::Muted)
        } else {
            Cell::text(format::label(role, &format::applied(role))).tone(Tone::Strong)
        };
        let name = format::role_name(&plan.roles, role);
        let mut row = vec![
            Cell::text(name),
            Cell::num(role.bytes as f64, Unit::Bytes),
            Cell::text(format::label(role, &role.current)),
            recommended,
        ];
        row.extend(metrics.iter().map(|m| match role.gain.get(*m) {
            Some(gain) => Cell::num(gain.change, Unit::Change).tone(format::tone(gain)),
            None => Cell::missing(),
        }));
        table.row(row);
    }
    section.table(&table);
    if !metrics.is_empty() {
        section.paragraph(
            "Each row's figures are for that role alone, or with those that share its dataset, the others as today. Green and orange are changes \
             beyond the noise, for better and for worse; grey is inside it.",
        );
    }
}

fn database(section: &mut Section, plan: &Plan) {
    section.paragraph("Settings of the database itself that go with the plan. Poolwright prints them and never edits a configuration.");
    for s in &plan.database {
        section.heading(&format!("{} = {}", s.setting, s.value));
        let mut about: Vec<(&str, &str)> = Vec::new();
        about.extend(s.current.iter().map(|v| ("today", v.as_str())));
        about.push(("why", &s.why));
        about.extend(s.safe_because.iter().map(|v| ("what makes it safe", v.as_str())));
        let requires = format::settings(&s.requires);
        about.extend((!requires.is_empty()).then_some(("only with", requires.as_str())));
        about.push(("takes effect", if s.restart { "when the server is restarted" } else { "at once" }));
        section.key_values(about);
    }
}

fn pool(section: &mut Section, plan: &Plan) {
    let pool = &plan.pool;
    let sector = 1u64.checked_shl(pool.ashift.into()).map(format::bytes).unwrap_or_default();
    let today = match pool.current {
        Some(current) if current == pool.ashift => "; today's pool has that".to_owned(),
        Some(current) => format!(
            "; today's pool has `ashift={current}`, which can only be changed by making the pool anew"
        ),
        None => String::new(),
    };
    section.paragraph(&format!(
        "`ashift={}` (sectors of {sector}): {}{today}.",
        pool.ashift,
        trimmed(&pool.why)
    ));
}

/// Without a full stop at the end, for use inside a sentence.
fn trimmed(text: &str) -> &str {
    text.trim_end().trim_end_matches('.')
}

fn json(plan: &Plan) -> String {
    // a plan holds only strings, numbers and maps with string keys: serde_json has nothing to fail on
    serde_json::to_string_pretty(plan).unwrap_or_else(|e| format!("this plan cannot be written: {e}"))
}
