//! The table of measures: the title, the unit and the direction of each figure by which cases are compared.
//!
//! [`MEASURES`] contains the lab's own measures. A campaign declares the figures and the kinds of calls that its driver reports.
//! Columns, plots and sentences use these titles and units.

use std::collections::BTreeMap;

use poolwright_report::Better;
use poolwright_report::text::capitalised;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Study;

/// The direction in which a measure improves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Improvement {
    /// Time, space, CPU load.
    Lower,
    /// Rates, compression ratios, hit ratios.
    Higher,
}

impl From<Improvement> for Better {
    fn from(direction: Improvement) -> Better {
        match direction {
            Improvement::Lower => Better::Lower,
            Improvement::Higher => Better::Higher,
        }
    }
}

/// A measure as campaigns name it, and the words for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasureInfo {
    /// The name in campaigns: `PHASE/NAME` or `NAME`.
    pub name: String,
    /// The heading of its column without the unit: `Table 1: time until durable`.
    pub title: String,
    /// The unit in which the trials report it: `s`, `ns`, `bytes`, `1/s`, `bytes/s`, `ratio`, `percent`, `count`; empty
    /// if the campaign does not declare it.
    pub unit: String,
    /// The direction in which it improves; `null` if neither is better.
    pub better: Option<Improvement>,
}

/// The units in which drivers report figures.
pub(super) const UNITS: [&str; 8] = ["bytes", "s", "ns", "1/s", "bytes/s", "ratio", "count", "percent"];

/// A measure of the lab: name, title, unit, direction.
type MeasureRow = (&'static str, &'static str, &'static str, Option<Improvement>);

const LOWER: Option<Improvement> = Some(Improvement::Lower);
const HIGHER: Option<Improvement> = Some(Improvement::Higher);

/// The measures of every phase; `docs/lab.md` defines them.
pub const MEASURES: &[MeasureRow] = &[
    ("wall_s", "wall time", "s", LOWER),
    ("rate", "work rate", "1/s", HIGHER),
    ("user_s", "CPU time of the database, user", "s", LOWER),
    ("system_s", "CPU time of the database, system", "s", LOWER),
    ("engine_s", "CPU time of OpenZFS", "s", LOWER),
    ("host_cpu", "CPU load of the host", "percent", LOWER),
    ("host_user", "CPU load of the host, user", "percent", LOWER),
    ("host_system", "CPU load of the host, system", "percent", LOWER),
    ("host_iowait", "CPUs idle, waiting for disks", "percent", None),
    ("host_steal", "CPUs taken by the hypervisor", "percent", LOWER),
    ("run_queue", "runnable processes", "count", None),
    ("memory_used", "most memory, with page cache", "bytes", LOWER),
    ("disk_busy", "load of the disk", "percent", LOWER),
    ("disk_queue", "requests in the disk's queue", "count", None),
    ("disk_wait", "time of a request to the disk", "ns", LOWER),
    ("disk_service", "busy time of the disk for a request", "ns", LOWER),
    ("logical", "logical size", "bytes", None),
    ("allocated", "space on the pool", "bytes", LOWER),
    ("ratio", "compression ratio", "ratio", HIGHER),
    ("held", "space that only snapshots hold", "bytes", LOWER),
    ("snapshots", "snapshots", "count", None),
    ("snapshot_max", "longest snapshot", "ns", LOWER),
    ("vdev_read_bytes", "read from vdevs", "bytes", LOWER),
    ("vdev_write_bytes", "written to vdevs", "bytes", LOWER),
    ("vdev_reads", "reads from vdevs", "count", None),
    ("vdev_writes", "writes to vdevs", "count", None),
    ("vdev_wait", "time of a request to a vdev", "ns", LOWER),
    ("flushes", "flushes of vdevs", "count", LOWER),
    ("synced_write_bytes", "written to vdevs until all was on disk", "bytes", LOWER),
    ("arc_hit_ratio", "ARC hit ratio", "ratio", HIGHER),
    ("arc_size", "ARC size", "bytes", None),
    ("arc_target", "ARC target", "bytes", None),
    ("zil_commits", "ZIL commits", "count", None),
    ("zil_bytes", "written to the ZIL", "bytes", LOWER),
    ("read_call_s", "time in read calls", "s", LOWER),
    ("read_call_share", "time in read calls, of the phase", "percent", LOWER),
    ("read_call_p50", "read call, median", "ns", LOWER),
    ("read_call_p99", "read call, p99", "ns", LOWER),
    ("read_call_count", "read calls", "count", None),
    ("read_call_size", "most frequent size of read calls, rounded down to a power of two", "bytes", None),
    ("write_call_s", "time in write calls", "s", LOWER),
    ("write_call_share", "time in write calls, of the phase", "percent", LOWER),
    ("write_call_p50", "write call, median", "ns", LOWER),
    ("write_call_p99", "write call, p99", "ns", LOWER),
    ("write_call_count", "write calls", "count", None),
    ("write_call_size", "most frequent size of write calls, rounded down to a power of two", "bytes", None),
];

/// Whether a measure, `PHASE/NAME.ROLE` or `NAME`, is one of the lab.
pub(crate) fn is_of_the_lab(whole: &str) -> bool {
    let name = whole.split_once('/').map_or(whole, |(_, name)| name);
    let base = name.split_once('.').map_or(name, |(base, _)| base);
    MEASURES.iter().any(|row| row.0 == base)
}

/// Suffixes of a driver's latencies, and their words.
pub(super) const QUANTILES: [(&str, &str); 6] = [
    ("p50", "median"),
    ("p95", "p95"),
    ("p99", "p99"),
    ("p999", "p99.9"),
    ("max", "maximum"),
    ("count", "count"),
];

/// Measures that exist for each role.
pub(super) const BY_ROLE: [&str; 16] = [
    "logical",
    "allocated",
    "held",
    "ratio",
    "read_call_s",
    "read_call_share",
    "read_call_p50",
    "read_call_p99",
    "read_call_count",
    "read_call_size",
    "write_call_s",
    "write_call_share",
    "write_call_p50",
    "write_call_p99",
    "write_call_count",
    "write_call_size",
];

/// A figure that a driver reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DriverFigure {
    /// Title, without the unit.
    pub title: String,
    /// Unit in which the driver reports it.
    pub unit: String,
    /// The direction in which it improves, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub better: Option<Improvement>,
}

/// A campaign's declarations about its drivers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DriverMeasures {
    /// Figures by name.
    pub figures: BTreeMap<String, DriverFigure>,
    /// Kinds of calls with latencies → title.
    pub operations: BTreeMap<String, String>,
}

impl DriverMeasures {
    /// Describes a measure of a study; `None` if neither the lab nor the campaign has it.
    pub fn find(&self, study: &Study, whole: &str) -> Option<MeasureInfo> {
        let (phase, name) = whole.split_once('/').map_or((None, whole), |(p, n)| (Some(p), n));
        let (base, role) = name.split_once('.').map_or((name, None), |(base, role)| (base, Some(role)));
        let (title, unit, better) = self.words(base)?;
        let title = match role.filter(|_| study.datasets.len() > 1) {
            Some(role) => format!("{title} ({role})"),
            None => title,
        };
        let title = match phase.filter(|_| study.measured_phases().count() > 1) {
            Some(phase) => format!("{}: {title}", study.phase_title(phase)),
            None => capitalised(&title),
        };
        Some(MeasureInfo { name: whole.to_owned(), title, unit, better })
    }

    /// Describes a measure by its own name, which the campaign does not declare.
    pub fn undeclared(whole: &str) -> MeasureInfo {
        MeasureInfo { name: whole.to_owned(), title: whole.to_owned(), unit: String::new(), better: None }
    }

    /// Returns title, unit and direction of a measure without phase and role. A figure of the driver replaces a measure
    /// of the lab.
    fn words(&self, base: &str) -> Option<(String, String, Option<Improvement>)> {
        if let Some(figure) = self.figures.get(base) {
            return Some((figure.title.clone(), figure.unit.clone(), figure.better));
        }
        if let Some((_, title, unit, better)) = MEASURES.iter().find(|row| row.0 == base) {
            return Some(((*title).to_owned(), (*unit).to_owned(), *better));
        }
        let (operation, quantile) = base.rsplit_once('_')?;
        let title = self.operations.get(operation)?;
        let (_, word) = QUANTILES.iter().find(|(suffix, _)| *suffix == quantile)?;
        let (unit, better) = if quantile == "count" { ("count", None) } else { ("ns", LOWER) };
        Some((format!("{title}, {word}"), unit.to_owned(), better))
    }

    /// Returns the permitted names, for an error message.
    pub(super) fn known(&self) -> String {
        let lab = MEASURES.iter().map(|row| row.0.to_owned());
        let latencies = self.operations.keys().map(|operation| format!("{operation}_p50 …"));
        lab.chain(self.figures.keys().cloned()).chain(latencies).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A measure of the lab without a definition could not be looked up.
    #[test]
    fn the_documentation_defines_every_measure() {
        let docs = include_str!("../../../../docs/lab.md");
        let (_, section) = docs.split_once("## Measures of every phase").expect("the section of measures");
        let (table, _) = section.split_once("\n## ").unwrap_or((section, ""));
        for (name, ..) in MEASURES {
            let named = table.contains(&format!("`{name}`")) || table.contains(&format!("`{name}.ROLE`"));
            assert!(named, "docs/lab.md does not define {name}");
        }
        assert!(MEASURES.iter().all(|(_, _, unit, _)| UNITS.contains(unit)));
    }
}
