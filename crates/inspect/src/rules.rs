//! The table of rules.

mod blocks;
mod cache;
mod compression;
mod databases;
mod defects;
mod devices;
mod properties;
mod safety;
mod sources;
mod space;

use crate::facts::{DatabaseFacts, DatasetFacts, DatasetKind, MachineFacts, PoolFacts};
use crate::rule::{FindingSeverity, InspectionRule, RuleMatch};

/// The groups of rules, in the order of the documentation.
const GROUPS: [&[InspectionRule]; 9] = [
    safety::RULES,
    defects::RULES,
    devices::RULES,
    blocks::RULES,
    compression::RULES,
    cache::RULES,
    space::RULES,
    properties::RULES,
    databases::RULES,
];

/// All rules.
pub fn all() -> impl Iterator<Item = &'static InspectionRule> {
    GROUPS.into_iter().flatten()
}

pub use defects::{DEFECTS, not_covered};

/// The matches among the datasets that databases use.
fn on_datasets(
    facts: &MachineFacts,
    find: impl Fn(&DatasetFacts, &[&DatabaseFacts]) -> Option<RuleMatch>,
) -> Vec<RuleMatch> {
    let found = facts.used_datasets().filter_map(|(dataset, databases)| {
        let found = find(dataset, &databases)?;
        Some(if databases.iter().any(|of| of.is_in_use()) { found } else { unused(found) })
    });
    found.collect()
}

/// A match of a database on which no server runs, such as a copy: it is worth a look only if the database will be used.
fn unused(found: RuleMatch) -> RuleMatch {
    let problem = format!("{} (no server runs on it now)", found.problem);
    RuleMatch { severity: Some(FindingSeverity::Advice), problem, ..found }
}

/// The matches among the volumes and the datasets that databases use. A guest can use a volume without the host's knowledge.
fn on_volumes_and_datasets(
    facts: &MachineFacts,
    find: impl Fn(&DatasetFacts) -> Option<RuleMatch>,
) -> Vec<RuleMatch> {
    let is_used =
        |of: &&DatasetFacts| of.kind == DatasetKind::Volume || facts.databases_on(of).next().is_some();
    facts.datasets.iter().filter(is_used).filter_map(find).collect()
}

/// The matches among the pools.
fn on_pools(facts: &MachineFacts, find: impl Fn(&PoolFacts) -> Option<RuleMatch>) -> Vec<RuleMatch> {
    facts.pools.iter().filter_map(find).collect()
}

/// The matches among the databases.
fn on_databases(facts: &MachineFacts, find: impl Fn(&DatabaseFacts) -> Option<RuleMatch>) -> Vec<RuleMatch> {
    facts.databases.iter().filter_map(find).collect()
}

/// The databases in a phrase: `PostgreSQL in /a and MariaDB / MySQL in /b`.
fn names(databases: &[&DatabaseFacts]) -> String {
    databases.iter().map(|of| of.describe()).collect::<Vec<_>>().join(" and ")
}
