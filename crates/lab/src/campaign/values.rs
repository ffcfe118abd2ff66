//! Parses and checks properties, fields of the pool, measures, sizes and times.

use std::collections::BTreeMap;

use poolwright_openzfs::property::{self, Settings};
use poolwright_openzfs::{Device, Engine};

use super::text::{Fields, Node};
use super::{ParameterPath, Phase, PoolSpec};
use crate::Result;

/// Parses a size such as `4G` into bytes.
pub(super) fn size(node: &Node<'_>) -> Result<u64> {
    property::parse_size(&node.spelled()?).map_err(|_| node.wrong("a size: 512M, 4G"))
}

/// Parses a time such as `30s`, `5m`, `1h` into nanoseconds.
pub(super) fn time_ns(node: &Node<'_>) -> Result<u64> {
    let text = node.text()?;
    let units = [("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];
    let parsed = units.iter().find_map(|(unit, ns)| {
        let number = text.strip_suffix(unit)?.parse::<f64>().ok()?;
        Some(number * ns)
    });
    match parsed {
        Some(ns) if (1e6..1e7 * 1e9).contains(&ns) => Ok(ns as u64),
        _ => Err(node.wrong("a time: 30s, 5m or 1h")),
    }
}

/// Parses the value of a property; returns its canonical name and the value.
pub(super) fn property(node: &Node<'_>, name: &str) -> Result<(String, String)> {
    let value = node.spelled()?;
    let known = property::find(name).map_err(|e| node.error(e.to_string()))?;
    property::check(known.name, &value).map_err(|e| node.error(e.to_string()))?;
    Ok((known.name.to_owned(), value))
}

/// Adds the properties of a role to those that it already has.
pub(super) fn properties(node: &Node<'_>, base: &mut Settings) -> Result<()> {
    for entry in node.entries()? {
        let (name, value) = property(&entry, entry.key())?;
        base.insert(name, value);
    }
    Ok(())
}

/// Parses a pool; missing fields come from `base`.
pub(super) fn pool(fields: Fields<'_>, base: &PoolSpec) -> Result<PoolSpec> {
    let mut pool = base.clone();
    if let Some(node) = fields.get("vdevs") {
        pool.vdevs = vdevs(&node)?;
    }
    if let Some(node) = fields.get("ashift") {
        pool.ashift = node.whole(9..=16)?;
    }
    if let Some(node) = fields.get("arc") {
        pool.arc = arc(&node)?;
    }
    if let Some(node) = fields.get("device") {
        pool.device = device(&node)?;
    }
    if let Some(node) = fields.get("caching") {
        pool.caching = one_of(&node, CACHINGS)?;
    }
    if let Some(node) = fields.get("tunables") {
        tunables(&node, &mut pool.tunables)?;
    }
    fields.end()?;
    Ok(pool)
}

const CACHINGS: &[&str] = &["through", "pages", "writeback"];

/// Parses and checks a level's value for a path.
pub(super) fn setting_value(place: &ParameterPath, node: &Node<'_>) -> Result<serde_json::Value> {
    Ok(match place {
        ParameterPath::Dataset(_, name) => property(node, name)?.1.into(),
        ParameterPath::Tunable(name) => tunable(node, name)?.into(),
        ParameterPath::Workload(_) => node.json()?,
        ParameterPath::Pool(key) => match key.as_str() {
            "vdevs" => vdevs(node)?.into(),
            "ashift" => node.whole(9..=16)?.into(),
            "arc" => arc(node)?.into(),
            "device" => device(node)?.into(),
            _ => one_of(node, CACHINGS)?.into(),
        },
    })
}

/// The fields of a pool that have a single value.
pub(super) const POOL_KEYS: &[&str] = &["vdevs", "ashift", "arc", "device", "caching"];

fn tunables(node: &Node<'_>, tunables: &mut BTreeMap<String, String>) -> Result<()> {
    for entry in node.entries()? {
        tunables.insert(entry.key().to_owned(), tunable(&entry, entry.key())?);
    }
    Ok(())
}

/// Parses a device in the spelling of `mount --device`: `KIND[,FILE=KIND…]`.
fn device(node: &Node<'_>) -> Result<String> {
    let text = node.line()?;
    for (i, word) in text.split(',').enumerate() {
        let kind = match word.split_once('=') {
            Some((_file, kind)) if i > 0 => kind,
            _ => word,
        };
        Device::parse(kind).map_err(|why| node.error(why.to_string()))?;
    }
    Ok(text)
}

/// Parses the value of a module parameter: a size or a number.
fn tunable(node: &Node<'_>, name: &str) -> Result<String> {
    if !Engine::tunables().any(|known| known == name) {
        let known: Vec<_> = Engine::tunables().collect();
        return Err(node.error(format!("unknown tunable {name:?}; expected one of {}", known.join(", "))));
    }
    size(node)?;
    node.spelled()
}

fn vdevs(node: &Node<'_>) -> Result<Vec<String>> {
    let words = node.lines()?;
    match words.iter().find(|w| w.contains(['/', ' '])) {
        Some(word) => Err(node.error(format!(
            "vdevs: invalid argument {word:?}; expected an argument of `pool create` such as mirror, log or d0:64G (files are created in the scratch directory)"
        ))),
        None if words.is_empty() => Err(node.error("vdevs: no file is named; expected for example [\"d0:64G\"]")),
        None => Ok(words),
    }
}

fn arc(node: &Node<'_>) -> Result<String> {
    if size(node)? < 64 << 20 {
        return Err(node.wrong("a size of at least 64M"));
    }
    node.spelled()
}

fn one_of(node: &Node<'_>, allowed: &[&str]) -> Result<String> {
    let text = node.text()?;
    if allowed.contains(&text.as_str()) { Ok(text) } else { Err(node.wrong(&allowed.join(", "))) }
}

/// Measures that exist for each role.
const BY_ROLE: &[&str] = &["logical", "allocated", "ratio"];

/// Parses the name of a measure: `[PHASE/]NAME[.ROLE]`. A driver may report figures with any name.
pub(super) fn measure(
    node: &Node<'_>,
    phases: &[Phase],
    datasets: &BTreeMap<String, Settings>,
) -> Result<String> {
    let whole = node.line()?;
    let name = match whole.split_once('/') {
        None => whole.as_str(),
        Some((phase, name)) => {
            let measured: Vec<_> = phases.iter().filter(|p| p.measure).map(|p| p.name.as_str()).collect();
            if !measured.contains(&phase) {
                let known = measured.join(", ");
                return Err(node
                    .error(format!("{whole:?}: unknown measured phase {phase:?}; expected one of {known}")));
            }
            name
        }
    };
    let (base, role) = name.split_once('.').map_or((name, None), |(base, role)| (base, Some(role)));
    match role {
        Some(role) if !BY_ROLE.contains(&base) => {
            let by_role = BY_ROLE.join(", ");
            return Err(node.error(format!(
                "{whole:?}: {base} does not exist for a single role such as {role}; only {by_role} do"
            )));
        }
        Some(role) if !datasets.contains_key(role) => return Err(unknown_role(node, role, datasets)),
        _ => {}
    }
    let fine = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if base.is_empty() || !base.chars().all(fine) {
        return Err(node.error(format!(
            "invalid measure {whole:?}: expected one of docs/lab.md or a figure of the driver"
        )));
    }
    Ok(whole)
}

/// Returns the error for an unknown role.
pub(super) fn unknown_role(
    node: &Node<'_>,
    role: &str,
    datasets: &BTreeMap<String, Settings>,
) -> crate::Error {
    let known: Vec<_> = datasets.keys().map(String::as_str).collect();
    node.error(format!("unknown dataset {role:?}; expected one of {}", known.join(", ")))
}
