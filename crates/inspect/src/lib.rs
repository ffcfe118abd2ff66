//! Known problems of the databases, datasets and pools on a machine, found in seconds without a recording. It only reads.
//!
//! [`gather`] determines the [`facts`]; the [`rules`], one table, find problems in them. Each finding has its evidence from this machine, the
//! publication on which the rule is based, what to do, and what that changes. A rule whose facts are missing finds nothing, and
//! [`Inspection::unknown`] says what is missing.

mod documentation;
mod error;
pub mod facts;
#[cfg(test)]
mod fixture;
pub mod gather;
mod rule;
mod rules;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

pub use documentation::table_of_rules;
pub use error::{Error, Result};
use facts::{DatabaseFacts, DatasetKind, MachineFacts};
pub use gather::{Request, Subject};
pub use rule::{Finding, FindingSeverity};

/// The result of an inspection.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Inspection {
    /// The version of the kernel's OpenZFS; `None` if its module is not loaded.
    pub openzfs: Option<String>,
    /// The pools of the kernel.
    pub pools: Vec<String>,
    /// The volumes (zvols) of the pools.
    pub volumes: Vec<String>,
    /// The databases.
    pub databases: Vec<InspectedDatabase>,
    /// The findings, the worst first.
    pub findings: Vec<Finding>,
    /// The number of rules.
    pub rules: usize,
    /// What could not be determined, and why: rules that need it found nothing.
    pub unknown: Vec<String>,
}

/// A database that was inspected.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct InspectedDatabase {
    /// The name of the system; `None` if it is not known.
    pub system: Option<String>,
    /// Its directory.
    pub directory: PathBuf,
    /// Its datasets and volumes.
    pub datasets: Vec<String>,
    /// The size of its files in bytes.
    pub bytes: u64,
    /// The program and process that has its files open for writing.
    pub server: Option<String>,
    /// The file system of its directory, if that is not on OpenZFS.
    pub file_system: Option<String>,
}

/// Inspects this machine.
///
/// # Errors
/// If a named directory or pool does not exist, or the user interrupts the inspection.
pub fn inspect(request: &Request) -> Result<Inspection> {
    Ok(evaluate(&gather::facts(request)?))
}

/// Applies all rules to facts.
pub fn evaluate(facts: &MachineFacts) -> Inspection {
    let mut findings: Vec<Finding> = rules::all().flat_map(|rule| rule.findings(facts)).collect();
    findings.sort_by_key(|finding| finding.severity);
    let defects = facts.host.module.as_ref().and_then(rules::not_covered);
    let volumes = facts.datasets.iter().filter(|of| of.kind == DatasetKind::Volume);
    Inspection {
        openzfs: facts.host.module.as_ref().map(|release| release.text.clone()),
        pools: facts.pools.iter().map(|pool| pool.space.name.clone()).collect(),
        volumes: volumes.map(|volume| volume.name.clone()).collect(),
        databases: facts.databases.iter().map(inspected).collect(),
        findings,
        rules: rules::all().count(),
        unknown: facts.unknown.iter().cloned().chain(defects).collect(),
    }
}

fn inspected(of: &DatabaseFacts) -> InspectedDatabase {
    let mut datasets: Vec<String> = of.files.iter().map(|group| group.dataset.clone()).collect();
    datasets.sort();
    datasets.dedup();
    InspectedDatabase {
        system: of.layout.map(|layout| layout.title.to_owned()),
        directory: of.root.clone(),
        datasets,
        bytes: of.bytes,
        server: of.server.as_ref().map(|server| format!("{} (process {})", server.name, server.pid)),
        file_system: of.elsewhere.clone(),
    }
}
