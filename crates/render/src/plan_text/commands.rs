//! The commands that apply a plan.

use poolwright_plan::{Plan, Role, RolePlan, Verdict};
use poolwright_report::TerminalText;

use crate::plan_page::format;

/// Adds the commands, and what happens to the existing files; nothing if the plan changes nothing.
pub(super) fn add_next(text: &mut TerminalText, plan: &Plan) {
    if plan.verdict == Verdict::Keep {
        return;
    }
    text.heading("next", "");
    for role in changed_datasets(plan) {
        text.command("  ", &command_line(role));
        if role.location.dataset.is_none() && role.role != Role::Volume {
            let how = role.location.how.as_ref().map_or(String::new(), |how| format!(" ({how})"));
            let (to, from) = (&role.location.mountpoint, &role.path);
            text.paragraph(
                "    ",
                &format!("to be mounted on {to}, for the files that are in {from} today{how}"),
            );
        }
    }
    let existing = match is_resized(plan) {
        true if plan.is_of_volume() => NEW_VOLUME,
        true => "Existing files keep their record size. To convert them, stop the database and copy them.",
        false => LATER,
    };
    text.paragraph("  ", existing);
}

/// Adds the first `shown` commands, and what happens to the existing files.
pub(super) fn add_short(text: &mut TerminalText, plan: &Plan, shown: usize) {
    let roles = changed_datasets(plan);
    roles.iter().take(shown).for_each(|role| text.command("", &command_line(role)));
    let more = roles.len().saturating_sub(shown);
    let more = if more > 0 { format!(" -v shows {more} more.") } else { String::new() };
    let existing = match is_resized(plan) {
        true if plan.is_of_volume() => NEW_VOLUME,
        true => "Existing files keep their record size: stop the database and copy them.",
        false => LATER,
    };
    text.paragraph("", &format!("{existing}{more}"));
}

const LATER: &str = "The change applies to data written from then on.";

const NEW_VOLUME: &str = "The block size of a volume is fixed when it is created: copy the data to a new volume while nothing uses it \
                          (docs/volumes.md). Add -s for a sparse one, and the local properties of the old one.";

/// The first changed role of each dataset.
fn changed_datasets(plan: &Plan) -> Vec<&RolePlan> {
    let mut seen = std::collections::BTreeSet::new();
    let changed = plan.roles.iter().filter(|r| !r.recommended.is_empty());
    changed.filter(|role| seen.insert(role.location.mountpoint.as_str())).collect()
}

fn is_resized(plan: &Plan) -> bool {
    plan.roles.iter().any(|r| r.recommended.contains_key(r.role.block_property()))
}

/// The command that sets the recommended properties of a role's dataset.
fn command_line(role: &RolePlan) -> String {
    let all = format::sorted(&role.recommended).into_iter().map(|(p, v)| quoted(&format!("{p}={v}")));
    match &role.location.dataset {
        dataset if is_new_volume(role) => {
            let all: String = all.map(|s| format!("-o {s} ")).collect();
            let old = dataset.as_deref().unwrap_or("POOL/VOLUME");
            format!("zfs create -V {} {all}{}", role.bytes, quoted(&format!("{old}-new")))
        }
        Some(dataset) => format!("zfs set {} {}", all.collect::<Vec<_>>().join(" "), quoted(dataset)),
        None => {
            let all: String = all.map(|s| format!("-o {s} ")).collect();
            format!("zfs create {all}{}", quoted(&format!("POOL/{}", role.role)))
        }
    }
}

/// Whether the plan needs another volume: the block size of a volume is fixed, and what is on another file system is on none yet.
fn is_new_volume(role: &RolePlan) -> bool {
    role.role == Role::Volume
        && (role.location.dataset.is_none() || role.recommended.contains_key(role.role.block_property()))
}

/// Quotes text for a shell. The name of a dataset may contain spaces, and the plan may be from an untrusted source.
fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/=".contains(c);
    if name.chars().all(plain) { name.to_owned() } else { format!("'{}'", name.replace('\'', "'\\''")) }
}
