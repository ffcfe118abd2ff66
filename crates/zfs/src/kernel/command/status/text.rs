//! The text output of `zpool status` (before 2.3).

use super::scan_text::{parse_error_scrub, parse_scan};
use super::vdev_text::{guid_of, parse_table};
use super::{KernelPool, ScanFunction, VdevNode};
use crate::kernel::HealthState;
use crate::kernel::command::MalformedOutput;

/// The fields of a pool, each of which begins a line.
const FIELDS: [&str; 12] = [
    "pool",
    "state",
    "status",
    "action",
    "see",
    "scan",
    "scrub",
    "remove",
    "checkpoint",
    "expand",
    "config",
    "errors",
];

/// Parses the output of `zpool status -ps`, printed with `LC_ALL=C` and `TZ=UTC`.
///
/// # Errors
/// If the text is not such output.
pub fn parse_status_text(text: &str) -> Result<Vec<KernelPool>, MalformedOutput> {
    let mut pools: Vec<KernelPool> = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    while let Some((at, line)) = lines.next() {
        let Some((name, value)) = field(line) else { continue };
        let mut block = vec![value];
        // A field ends before the next one; `config` has a table with empty lines.
        while let Some((_, next)) = lines.next_if(|(_, line)| field(line).is_none()) {
            block.push(next);
        }
        if name == "pool" {
            pools.push(new_pool(value.trim()));
            continue;
        }
        let malformed = |cause: String| MalformedOutput::new(at + 1, cause);
        let pool =
            pools.last_mut().ok_or_else(|| malformed("a field before the name of a pool".to_owned()))?;
        set(pool, name, &block).map_err(malformed)?;
    }
    Ok(pools)
}

/// The name and the value of a field, if the line begins one. Names are indented to be aligned at their colons.
fn field(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let name = name.trim_start_matches(' ');
    (FIELDS.contains(&name) && line.len() - value.len() <= 12)
        .then(|| (name, value.strip_prefix(' ').unwrap_or(value)))
}

fn new_pool(name: &str) -> KernelPool {
    KernelPool {
        name: name.to_owned(),
        state: HealthState::Other("UNKNOWN".to_owned()),
        scan: None,
        rebuild: None,
        vdevs: Vec::new(),
        data_errors: None,
    }
}

fn set(pool: &mut KernelPool, name: &str, block: &[&str]) -> Result<(), String> {
    let first = block.first().copied().unwrap_or_default().trim();
    match name {
        "state" => pool.state = HealthState::parse(first),
        "scan" => match parse_scan(block)? {
            Some(scan) if scan.function == ScanFunction::Rebuild => pool.rebuild = Some(scan),
            Some(scan) => pool.scan = Some(scan),
            None => {}
        },
        // A scrub of the blocks in the error log is printed instead of an older one of all blocks.
        "scrub" => pool.scan = parse_error_scrub(block)?,
        "config" => pool.vdevs = parse_table(block)?,
        "errors" => pool.data_errors = data_errors(block)?,
        _ => {}
    }
    Ok(())
}

/// `No known data errors`, `3 data errors, use '-v' for a list`, or the names of the damaged files.
fn data_errors(block: &[&str]) -> Result<Option<u64>, String> {
    let first = block.first().copied().unwrap_or_default().trim();
    if first.starts_with("No known data errors") {
        return Ok(Some(0));
    }
    if first.starts_with("Permanent errors") {
        return Ok(Some(block[1..].iter().filter(|line| !line.trim().is_empty()).count() as u64));
    }
    let count = first.split_once(" data errors").map(|(count, _)| count.parse());
    count.transpose().map_err(|_| format!("{first:?} has no number of errors"))
}

/// Sets the GUIDs of vdevs from a second output, in which `zpool status -g` printed GUIDs as names. A pool whose vdevs
/// changed between the two stays without GUIDs.
pub fn assign_guids(pools: &mut [KernelPool], with_guids: &[KernelPool]) {
    for pool in pools {
        let Some(other) = with_guids.iter().find(|other| other.name == pool.name) else { continue };
        if is_same_shape(&pool.vdevs, &other.vdevs) {
            assign(&mut pool.vdevs, &other.vdevs);
        }
    }
}

fn is_same_shape(vdevs: &[VdevNode], others: &[VdevNode]) -> bool {
    let is_same = |(vdev, other): (&VdevNode, &VdevNode)| {
        vdev.class == other.class && is_same_shape(&vdev.children, &other.children)
    };
    vdevs.len() == others.len() && vdevs.iter().zip(others).all(is_same)
}

fn assign(vdevs: &mut [VdevNode], others: &[VdevNode]) {
    for (vdev, other) in vdevs.iter_mut().zip(others) {
        vdev.guid = guid_of(&other.name);
        assign(&mut vdev.children, &other.children);
    }
}
