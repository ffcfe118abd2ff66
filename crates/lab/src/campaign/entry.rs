//! Entries that the file's top level and its studies have alike: names of scales, and datasets.

use std::collections::BTreeMap;

use poolwright_openzfs::property::Settings;

use super::text::Node;
use super::{Parameters, values};
use crate::Result;

/// It has to be one of the campaign's scales.
pub(super) fn known_scale(node: &Node<'_>, scale: &str, scales: &BTreeMap<String, Parameters>) -> Result<()> {
    if scales.contains_key(scale) {
        return Ok(());
    }
    let known: Vec<_> = scales.keys().map(String::as_str).collect();
    Err(node.error(format!("there is no scale {scale:?}; there is {}", known.join(", "))))
}

/// A role and its properties, over those it has.
pub(super) fn dataset(entry: &Node<'_>, datasets: &mut BTreeMap<String, Settings>) -> Result<()> {
    let role = entry.key();
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if role.is_empty() || !role.chars().all(fine) || ["pool", "workload"].contains(&role) {
        return Err(entry.error(format!(
            "a dataset cannot be called {role:?}: lower-case letters, digits and _, and neither pool nor workload"
        )));
    }
    values::properties(entry, datasets.entry(role.to_owned()).or_default())
}
