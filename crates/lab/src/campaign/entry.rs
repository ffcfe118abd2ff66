//! Entries that both the file's top level and its studies may have: names of scales, and datasets.

use std::collections::BTreeMap;

use poolwright_openzfs::property::Settings;

use super::text::Node;
use super::{Parameters, values};
use crate::Result;

/// Checks that `scale` is one of the campaign's scales.
pub(super) fn known_scale(node: &Node<'_>, scale: &str, scales: &BTreeMap<String, Parameters>) -> Result<()> {
    if scales.contains_key(scale) {
        return Ok(());
    }
    let known: Vec<_> = scales.keys().map(String::as_str).collect();
    Err(node.error(format!("unknown scale {scale:?}; expected one of {}", known.join(", "))))
}

/// Adds the properties of a role to those that it already has.
pub(super) fn dataset(entry: &Node<'_>, datasets: &mut BTreeMap<String, Settings>) -> Result<()> {
    let role = entry.key();
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if role.is_empty() || !role.chars().all(fine) || ["pool", "workload"].contains(&role) {
        return Err(entry.error(format!(
            "invalid dataset name {role:?}: use lower-case letters, digits and _; pool and workload are reserved"
        )));
    }
    values::properties(entry, datasets.entry(role.to_owned()).or_default())
}
