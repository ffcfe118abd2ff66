//! The section of one role: recommended properties, gains, the trade-off as plots, and the evidence.

use poolwright_base::units::{bytes, counted};
use poolwright_plan::{CurrentSource, Gains, Plan, RolePlan};
use poolwright_report::plot::{Histogram, WIDTH};
use poolwright_report::{Callout, Cell, Section, Table, Tone, Unit};

use super::{evidence, format, picture};

/// Fills the section of one role.
pub fn section(section: &mut Section, plan: &Plan, role: &RolePlan) {
    section.paragraph(&location(plan, role));
    properties(section, role);
    section.list(role.remarks());
    if let Some(plot) = picture::gains(&role.gain) {
        section.plot(&plot, &gains_caption(role));
    }
    picture::trade_off(section, plan, role);
    sizes(section, role);
    evidence::tables(section, plan, role);
}

fn location(plan: &Plan, role: &RolePlan) -> String {
    let size = format::extent(role.bytes, role.files);
    let mut text = format!("`{}`: {size}", role.path);
    if let Some((_, more)) = role.paths.split_first().filter(|(_, more)| !more.is_empty()) {
        let shown: Vec<String> = more.iter().take(5).map(|p| format!("`{p}`")).collect();
        let rest = more.len().saturating_sub(5);
        let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
        text += &format!(", with {}{rest}", shown.join(", "));
    }
    text += ". ";
    let at = &role.location;
    let mountpoint = &at.mountpoint;
    match (&at.dataset, at.separable) {
        (Some(dataset), _) => text += &format!("It is on the dataset `{dataset}`."),
        (None, true) => text += &format!("It can have its own dataset, mounted on `{mountpoint}`"),
        (None, false) => text += &format!("It shares the dataset mounted on `{mountpoint}`."),
    }
    if at.dataset.is_none() && at.separable {
        text += &at.how.as_ref().map_or(".".to_owned(), |how| format!(", by `{how}`."));
    }
    let with = plan.roles.iter().filter(|r| r.location.mountpoint == *mountpoint && r.path != role.path);
    let with: Vec<String> = with.map(|r| format::role_name(&plan.roles, r)).collect();
    if !with.is_empty() {
        text += &format!(
            " These roles are on the same dataset and therefore have the same settings: {}.",
            with.join(", ")
        );
    }
    text
}

/// Today's and the recommended value of each property, changed properties first.
fn properties(section: &mut Section, role: &RolePlan) {
    let mut names: Vec<&str> =
        role.current.keys().chain(role.recommended.keys()).map(String::as_str).collect();
    names.sort_by_key(|p| (!role.recommended.contains_key(*p), format::property_rank(p)));
    names.dedup();
    if names.is_empty() {
        return;
    }
    let then = |name| match role.recommended.get(name) {
        Some(value) => Cell::text(value).tone(Tone::Strong),
        None => Cell::text("keep").tone(Tone::Muted),
    };
    let table = Table::of(names)
        .left("property", |name| name)
        .left("today", |name| role.current.get(name).map(String::as_str))
        .left("recommended", then)
        .left_if(!role.safe_because.is_empty(), "safe because", |name| {
            role.safe_because.get(name).map(String::as_str)
        })
        .table();
    section.table(&table);
    match &role.current_source {
        CurrentSource::ZfsGet { dataset } => {
            section.paragraph(&format!("Today's values are those of the dataset `{dataset}`."))
        }
        CurrentSource::ZfsDefaults { why } => {
            section.paragraph(&format!("\"Today\" means the defaults of OpenZFS: {}.", super::trimmed(why)))
        }
    };
}

fn gains_caption(role: &RolePlan) -> String {
    let whose = match role.together_with.len() {
        0 => String::new(),
        _ => format!(" {} were replayed together.", role.replayed_roles()),
    };
    format!(
        "{}{whose} The other roles had today's settings. A change whose interval includes 0 is inside the noise.",
        pairs(&role.gain)
    )
}

/// Returns a sentence on the number of pairs behind the gains.
pub fn pairs(gain: &Gains) -> String {
    let pairs = || gain.values().map(|g| g.pairs);
    let (least, most) = (pairs().min().unwrap_or(0), pairs().max().unwrap_or(0));
    match (least, most) {
        (0, 0) => "Both sides are estimates; nothing was replayed.".to_owned(),
        (0, most) => format!("Up to {most} trials of each setting; some figures are estimates."),
        (least, most) if least == most => format!("{most} trials of each setting."),
        (least, most) => format!("{least} to {most} trials of each setting."),
    }
}

/// The recorded I/O of the role.
fn sizes(section: &mut Section, role: &RolePlan) {
    let Some(io) = &role.io else {
        section.callout(
            Callout::Note,
            "No I/O recorded",
            "The recommendation for this role is based on its files alone.",
        );
        return;
    };
    section.heading("Recorded I/O");
    let count = |op: &str| io.ops.get(op).map(|n| counted(*n, op));
    let mut facts: Vec<String> =
        ["read", "write", "fsync", "fdatasync"].into_iter().filter_map(count).collect();
    let moved = |what: &str, done: &str| {
        io.bytes.get(what).filter(|n| **n > 0).map(|n| format!("{} {done}", bytes(*n)))
    };
    facts.extend(moved("read", "read"));
    facts.extend(moved("write", "written"));
    if !facts.is_empty() {
        section.paragraph(&format!("{}.", facts.join(", ")));
    }
    let (read, write) = (&io.read_size_histogram, &io.write_size_histogram);
    if read.iter().chain(write).any(|(_, n)| *n > 0) {
        let plot = Histogram::new("Sizes of reads and writes", "size of one operation", Unit::Bytes)
            .series("reads", read)
            .series("writes", write);
        section.plot(&plot.size(WIDTH, 240.0), "");
    }
}
