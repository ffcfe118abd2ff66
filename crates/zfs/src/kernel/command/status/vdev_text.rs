//! The table of vdevs in the text output of `zpool status`.

use super::{VdevClass, VdevNode};
use crate::kernel::HealthState;

/// Nesting in the largest pool is four levels deep; deeper lines are attached to the deepest.
const MAX_DEPTH: usize = 16;

/// One row, before rows are nested.
struct Row<'a> {
    depth: usize,
    name: &'a str,
    /// The rest of the row; empty for the heading of a class.
    rest: &'a str,
}

/// Parses the lines of the field `config`: the names of the columns, then one row for each vdev, indented by two spaces for each
/// level. A row with a name alone (`logs`, `cache`, …) begins the vdevs of a class.
///
/// # Errors
/// If a row has a malformed number.
pub(super) fn parse_table(lines: &[&str]) -> Result<Vec<VdevNode>, String> {
    let mut rows =
        lines.iter().filter_map(|line| line.strip_prefix('\t')).filter(|line| !line.trim().is_empty());
    let Some(head) = rows.next() else { return Ok(Vec::new()) };
    let state_column =
        head.find("STATE").filter(|_| head.starts_with("NAME")).ok_or("the table has no head")?;
    let has_slow = head.split_whitespace().any(|column| column == "SLOW");
    let mut class = VdevClass::Data;
    let mut top: Vec<VdevNode> = Vec::new();
    for row in rows.map(|row| split(row, state_column)) {
        if row.rest.is_empty() && row.depth == 0 {
            class = parse_class(row.name).ok_or_else(|| format!("{:?} is not a class of vdevs", row.name))?;
            continue;
        }
        let vdev = parse_vdev(&row, class, has_slow)?;
        // The vdevs of the classes other than data are indented below the heading.
        let depth = if class == VdevClass::Data { row.depth } else { row.depth.saturating_sub(1) };
        attach(&mut top, vdev, depth.min(MAX_DEPTH));
    }
    top.iter_mut().for_each(complete);
    Ok(top)
}

/// The GUID in a name of the output with `-g`.
pub(super) fn guid_of(name: &str) -> Option<u64> {
    name.parse().ok()
}

/// Splits a row into the indentation, the name and the rest. Names can contain spaces, so the column of the state counts. Where
/// the name is wider than the column, it ends at the first space.
fn split(row: &str, state_column: usize) -> Row<'_> {
    let trimmed = row.trim_start_matches(' ');
    let depth = (row.len() - trimmed.len()) / 2;
    let at_column = row.split_at_checked(state_column).filter(|(name, state)| {
        name.ends_with("  ") && !name.trim().is_empty() && state.starts_with(|c: char| c.is_ascii_uppercase())
    });
    let (name, rest) = at_column.unwrap_or_else(|| {
        let end = trimmed.find([' ', '\t']).unwrap_or(trimmed.len());
        trimmed.split_at(end)
    });
    Row { depth, name: name.trim(), rest: rest.trim() }
}

fn parse_class(heading: &str) -> Option<VdevClass> {
    Some(match heading {
        "logs" => VdevClass::Log,
        "cache" => VdevClass::Cache,
        "spares" => VdevClass::Spare,
        "special" => VdevClass::Special,
        "dedup" => VdevClass::Dedup,
        _ => return None,
    })
}

fn parse_vdev(row: &Row<'_>, class: VdevClass, has_slow: bool) -> Result<VdevNode, String> {
    // A note follows: `too many errors`, `was /dev/sdb1`, …
    let (state, mut rest) = word(row.rest);
    let mut numbers = [None; 4];
    // Spares have no counters; a note such as `currently in use` can follow their state.
    if class != VdevClass::Spare || rest.starts_with(|c: char| c.is_ascii_digit()) {
        for number in &mut numbers[..if has_slow { 4 } else { 3 }] {
            let (text, after) = word(rest);
            if text.is_empty() {
                break;
            }
            *number = match text {
                "-" => None,
                _ => Some(
                    text.parse().map_err(|_| format!("{text:?} of the vdev {} is not a number", row.name))?,
                ),
            };
            rest = after;
        }
    }
    let [read_errors, write_errors, checksum_errors, slow_ios] = numbers;
    // A missing leaf has its GUID for a name.
    let path = rest.strip_prefix("was ").unwrap_or(row.name);
    let is_file = path.starts_with('/') && !path.starts_with("/dev/");
    Ok(VdevNode {
        name: row.name.to_owned(),
        kind: if is_file { "file" } else { "disk" }.to_owned(),
        class,
        guid: None,
        state: HealthState::parse(state),
        read_errors,
        write_errors,
        checksum_errors,
        slow_ios,
        children: Vec::new(),
    })
}

/// The first word and what follows it.
fn word(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    (word, rest.trim_start())
}

/// Appends a vdev below the last vdevs of the levels above `depth`.
fn attach(vdevs: &mut Vec<VdevNode>, vdev: VdevNode, depth: usize) {
    let class = vdev.class;
    match vdevs.last_mut().filter(|last| depth > 0 && last.class == class) {
        Some(parent) => attach(&mut parent.children, vdev, depth - 1),
        None => vdevs.push(vdev),
    }
}

/// Sets what follows from the position of a vdev.
fn complete(vdev: &mut VdevNode) {
    complete_groups(vdev);
    if vdev.class == VdevClass::Data {
        vdev.kind = "root".to_owned();
    }
}

/// The type of a group follows from its name: `raidz2-0`, `mirror-1`.
fn complete_groups(vdev: &mut VdevNode) {
    if !vdev.children.is_empty() {
        vdev.kind = vdev.name.chars().take_while(char::is_ascii_lowercase).collect();
        vdev.slow_ios = None;
    }
    vdev.children.iter_mut().for_each(complete_groups);
}
