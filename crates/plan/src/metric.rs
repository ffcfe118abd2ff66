//! The table of metrics: the name, unit and direction of each figure by which settings are compared.
//!
//! Goals, requirements, the plan, its page, the terminal and the documentation take a metric's properties from [`METRICS`].

use std::cmp::Ordering;

use poolwright_report::{Better, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of a metric. [`METRICS`] defines each; a plan of another release can also have others.
///
/// The order is that of the texts, so that maps by metric have the order of JSON objects. The schema of a name is any text, because a plan
/// with an unknown metric is valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "String", into = "String")]
#[schemars(inline)]
pub enum MetricName {
    /// Space on the pool.
    AllocatedBytes,
    /// Logical bytes per allocated byte.
    SpaceRatio,
    /// Progress of the application.
    WorkRate,
    /// Mean latency of foreground operations.
    MeanLatencyNs,
    /// Median of the latency of foreground reads.
    ReadP50Ns,
    /// 99th percentile of the latency of foreground reads.
    ReadP99Ns,
    /// 99.9th percentile of the latency of foreground reads.
    ReadP999Ns,
    /// Median of the latency of foreground writes.
    WriteP50Ns,
    /// 99th percentile of the latency of foreground writes.
    WriteP99Ns,
    /// 99.9th percentile of the latency of foreground writes.
    WriteP999Ns,
    /// Median of the latency of foreground syncs.
    FsyncP50Ns,
    /// 99th percentile of the latency of foreground syncs.
    FsyncP99Ns,
    /// 99.9th percentile of the latency of foreground syncs.
    FsyncP999Ns,
    /// Operations per second of a replay that runs as fast as possible.
    OpsS,
    /// Bytes written to devices per byte written by the database.
    WriteAmplification,
    /// Bytes read from devices per byte read by the database.
    ReadAmplification,
    /// Bytes written to devices.
    VdevWriteBytes,
    /// Bytes read from devices.
    VdevReadBytes,
    /// Hits of the ARC per access.
    ArcHitRatio,
    /// CPU time per operation.
    CpuNsPerOp,
    /// The objective in maps of changes. It depends on the goal, so it has no row in [`METRICS`].
    Objective,
    /// A metric of another release, which is shown by its name.
    Unknown(UnknownMetric),
}

/// A name that is not one of this release's metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMetric(String);

impl MetricName {
    /// Returns the spelling in plans and JSON.
    pub const fn name(&self) -> &str {
        match self {
            MetricName::AllocatedBytes => "allocated_bytes",
            MetricName::SpaceRatio => "space_ratio",
            MetricName::WorkRate => "work_rate",
            MetricName::MeanLatencyNs => "mean_latency_ns",
            MetricName::ReadP50Ns => "read_p50_ns",
            MetricName::ReadP99Ns => "read_p99_ns",
            MetricName::ReadP999Ns => "read_p999_ns",
            MetricName::WriteP50Ns => "write_p50_ns",
            MetricName::WriteP99Ns => "write_p99_ns",
            MetricName::WriteP999Ns => "write_p999_ns",
            MetricName::FsyncP50Ns => "fsync_p50_ns",
            MetricName::FsyncP99Ns => "fsync_p99_ns",
            MetricName::FsyncP999Ns => "fsync_p999_ns",
            MetricName::OpsS => "ops_s",
            MetricName::WriteAmplification => "write_amplification",
            MetricName::ReadAmplification => "read_amplification",
            MetricName::VdevWriteBytes => "vdev_write_bytes",
            MetricName::VdevReadBytes => "vdev_read_bytes",
            MetricName::ArcHitRatio => "arc_hit_ratio",
            MetricName::CpuNsPerOp => "cpu_ns_per_op",
            MetricName::Objective => "objective",
            MetricName::Unknown(UnknownMetric(name)) => name.as_str(),
        }
    }

    /// Returns the metric's row in [`METRICS`]; `None` for the objective and unknown metrics.
    pub fn row(&self) -> Option<&'static Metric> {
        METRICS.iter().find(|metric| metric.name == *self)
    }

    /// The heading of the metric. One without a row keeps its name.
    pub fn title(&self) -> &str {
        self.row().map_or(self.name(), |metric| metric.title)
    }

    /// The unit of the metric. One without a row has none.
    pub fn unit(&self) -> Unit {
        self.row().map_or(Unit::None, |metric| metric.unit)
    }

    /// The direction in which the metric improves. Lower for one without a row.
    pub fn better(&self) -> Better {
        self.row().map_or(Better::Lower, |metric| metric.better)
    }

    /// The metric that replaces this one where trials do not have it.
    pub fn stand_in(&self) -> Option<&'static MetricName> {
        self.row()?.stand_in
    }
}

impl From<&str> for MetricName {
    fn from(name: &str) -> MetricName {
        let mut known = METRICS.iter().map(|metric| &metric.name).chain([&MetricName::Objective]);
        let found = known.find(|known| known.name() == name).cloned();
        found.unwrap_or_else(|| MetricName::Unknown(UnknownMetric(name.to_owned())))
    }
}

impl From<String> for MetricName {
    fn from(name: String) -> MetricName {
        name.as_str().into()
    }
}

impl From<MetricName> for String {
    fn from(name: MetricName) -> String {
        name.name().to_owned()
    }
}

impl Ord for MetricName {
    fn cmp(&self, other: &MetricName) -> Ordering {
        self.name().cmp(other.name())
    }
}

impl PartialOrd for MetricName {
    fn partial_cmp(&self, other: &MetricName) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl std::fmt::Display for MetricName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// The aspect of the storage that a metric describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricFamily {
    /// Space on the pool.
    Space,
    /// Progress of the database and the latency of its operations.
    Speed,
    /// Bytes written, which wear out flash devices.
    Wear,
    /// Reads that the cache did not serve.
    Cache,
    /// Processor time.
    Cpu,
}

/// The least number of operations for a 99th percentile: two must lie beyond it. A 99.9th needs ten times as many.
pub const MIN_FOR_P99: u64 = 200;

/// A figure by which settings are compared.
#[derive(Clone, Debug)]
pub struct Metric {
    /// The name.
    pub name: MetricName,
    /// The heading in tables and on pages.
    pub title: &'static str,
    /// The unit of the value.
    pub unit: Unit,
    /// Which direction is an improvement.
    pub better: Better,
    /// The aspect of the storage that the metric describes.
    pub family: MetricFamily,
    /// The definition of the metric, in Markdown.
    pub meaning: &'static str,
    /// Precedence when one metric has to represent the family: 1 is preferred. `None` if the metric never does.
    pub precedence: Option<u8>,
    /// The name in requirements (`space<=-20%`). `None` if the metric cannot be required.
    pub requirement: Option<&'static str>,
    /// The metric that replaces this one where trials do not have it.
    pub stand_in: Option<&'static MetricName>,
    /// The metric that measures nearly the same cost. If both are costs, only that one is listed.
    pub same_cost_as: Option<&'static MetricName>,
}

impl Metric {
    /// A metric without a precedence, a requirement or relations to other metrics.
    const fn new(
        name: MetricName,
        title: &'static str,
        unit: Unit,
        better: Better,
        family: MetricFamily,
        meaning: &'static str,
    ) -> Metric {
        Metric {
            name,
            title,
            unit,
            better,
            family,
            meaning,
            precedence: None,
            requirement: None,
            stand_in: None,
            same_cost_as: None,
        }
    }

    const fn precedence(mut self, precedence: u8) -> Metric {
        self.precedence = Some(precedence);
        self
    }

    const fn requirement(mut self, name: &'static str) -> Metric {
        self.requirement = Some(name);
        self
    }

    const fn stand_in(mut self, name: &'static MetricName) -> Metric {
        self.stand_in = Some(name);
        self
    }

    const fn same_cost_as(mut self, name: &'static MetricName) -> Metric {
        self.same_cost_as = Some(name);
        self
    }
}

/// The metrics that a confirmation measures on the database itself, and that a plan predicts.
pub const CONFIRMED: &[MetricName] = &[
    MetricName::WorkRate,
    MetricName::AllocatedBytes,
    MetricName::VdevWriteBytes,
    MetricName::VdevReadBytes,
    MetricName::CpuNsPerOp,
];

/// The metrics that `verify` measures on the database in operation, in the order of its table.
pub const VERIFIED: &[MetricName] = &[
    MetricName::AllocatedBytes,
    MetricName::WorkRate,
    MetricName::MeanLatencyNs,
    MetricName::ReadP50Ns,
    MetricName::ReadP99Ns,
    MetricName::WriteP50Ns,
    MetricName::WriteP99Ns,
    MetricName::FsyncP50Ns,
    MetricName::FsyncP99Ns,
    MetricName::WriteAmplification,
    MetricName::VdevWriteBytes,
];

/// The metrics of the whole plan's gain that the terminal shows; the page shows all.
pub const ON_TERMINAL: &[MetricName] = &[
    MetricName::WorkRate,
    MetricName::AllocatedBytes,
    MetricName::MeanLatencyNs,
    MetricName::ReadP99Ns,
    MetricName::WriteP99Ns,
    MetricName::FsyncP99Ns,
    MetricName::OpsS,
    MetricName::WriteAmplification,
    MetricName::ReadAmplification,
    MetricName::VdevWriteBytes,
    MetricName::CpuNsPerOp,
];

/// All metrics in the order in which tables and pages show them.
pub const METRICS: &[Metric] = {
    use Better::{Higher, Lower};
    use MetricFamily::{Cache, Cpu, Space, Speed, Wear};
    use MetricName::*;
    use Unit::{Bytes, Fraction, Nanoseconds, PerSecond, Ratio};
    &[
        Metric::new(
            AllocatedBytes,
            "space",
            Bytes,
            Lower,
            Space,
            "space that all files of the database take on the pool with the trial's settings: level-0 and indirect `asize`, estimated \
             from samples of the files",
        )
        .precedence(1)
        .requirement("space"),
        Metric::new(SpaceRatio, "space ratio", Ratio, Higher, Space, "logical bytes / `allocated_bytes`")
            .precedence(2)
            .same_cost_as(&AllocatedBytes),
        Metric::new(
            WorkRate,
            "work rate",
            Ratio,
            Higher,
            Speed,
            "recorded seconds of the application's work that are done in one second. The \
             model's rate is scaled to a trial of today's settings",
        )
        .precedence(1)
        .requirement("work_rate")
        // A trace without durations has no think times, so it is replayed as fast as possible.
        .stand_in(&OpsS),
        Metric::new(
            MeanLatencyNs,
            "mean latency",
            Nanoseconds,
            Lower,
            Speed,
            "time that foreground threads waited in operations / number of these operations",
        )
        .precedence(2),
        Metric::new(
            ReadP50Ns,
            "read p50",
            Nanoseconds,
            Lower,
            Speed,
            "median latency of foreground reads at the file interface",
        )
        .precedence(6),
        Metric::new(
            ReadP99Ns,
            "read p99",
            Nanoseconds,
            Lower,
            Speed,
            "99th percentile of the latency of foreground reads",
        )
        .precedence(3)
        .requirement("read_p99"),
        Metric::new(
            ReadP999Ns,
            "read p99.9",
            Nanoseconds,
            Lower,
            Speed,
            "99.9th percentile of the latency of foreground reads",
        )
        .precedence(9),
        Metric::new(
            WriteP50Ns,
            "write p50",
            Nanoseconds,
            Lower,
            Speed,
            "median latency of foreground writes at the file interface",
        )
        .precedence(7),
        Metric::new(
            WriteP99Ns,
            "write p99",
            Nanoseconds,
            Lower,
            Speed,
            "99th percentile of the latency of foreground writes that are not synchronous",
        )
        .precedence(4),
        Metric::new(
            WriteP999Ns,
            "write p99.9",
            Nanoseconds,
            Lower,
            Speed,
            "99.9th percentile of the latency of foreground writes that are not synchronous",
        )
        .precedence(10),
        Metric::new(
            FsyncP50Ns,
            "fsync p50",
            Nanoseconds,
            Lower,
            Speed,
            "median latency of foreground syncs and synchronous writes",
        )
        .precedence(8),
        Metric::new(
            FsyncP99Ns,
            "fsync p99",
            Nanoseconds,
            Lower,
            Speed,
            "99th percentile of the latency of foreground syncs and synchronous writes",
        )
        .precedence(5)
        .requirement("sync_p99"),
        Metric::new(
            FsyncP999Ns,
            "fsync p99.9",
            Nanoseconds,
            Lower,
            Speed,
            "99.9th percentile of the latency of foreground syncs and synchronous writes",
        )
        .precedence(11),
        Metric::new(
            OpsS,
            "operations",
            PerSecond,
            Higher,
            Speed,
            "operations per second of a replay that runs as fast as possible and therefore \
             has no `work_rate`",
        ),
        Metric::new(
            WriteAmplification,
            "write amplification",
            Ratio,
            Lower,
            Wear,
            "bytes written to devices / bytes written by the database",
        )
        .precedence(1),
        Metric::new(
            ReadAmplification,
            "read amplification",
            Ratio,
            Lower,
            Cache,
            "bytes read from devices / bytes read by the database",
        ),
        Metric::new(
            VdevWriteBytes,
            "written to devices",
            Bytes,
            Lower,
            Wear,
            "bytes written to devices during the replay",
        )
        .precedence(2)
        .requirement("write_bytes")
        .same_cost_as(&WriteAmplification),
        Metric::new(
            VdevReadBytes,
            "read from devices",
            Bytes,
            Lower,
            Cache,
            "bytes read from devices during the replay",
        )
        .requirement("read_bytes")
        .same_cost_as(&ReadAmplification),
        Metric::new(
            ArcHitRatio,
            "ARC hits",
            Fraction,
            Higher,
            Cache,
            "ARC hits / (hits + hits on I/O in progress + misses)",
        ),
        Metric::new(
            CpuNsPerOp,
            "CPU per operation",
            Nanoseconds,
            Lower,
            Cpu,
            "CPU time of the trial's process, including the application's recorded CPU time / \
             number of operations",
        )
        .requirement("cpu"),
    ]
};

/// Returns the metric with this name in requirements.
pub fn find_requirement(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.requirement == Some(name))
}

/// The names of a family's representatives, the preferred one first.
pub fn representatives(family: MetricFamily) -> Vec<&'static MetricName> {
    let mut all: Vec<(u8, &MetricName)> = METRICS
        .iter()
        .filter(|metric| metric.family == family)
        .filter_map(|metric| Some((metric.precedence?, &metric.name)))
        .collect();
    all.sort_unstable();
    all.into_iter().map(|(_, name)| name).collect()
}

/// Sorts names in the order of [`METRICS`], those without a row last, and removes duplicates.
pub fn ordered<'a>(names: impl IntoIterator<Item = &'a MetricName>) -> Vec<&'a MetricName> {
    let mut names: Vec<&MetricName> = names.into_iter().collect();
    let rank =
        |name: &MetricName| METRICS.iter().position(|metric| metric.name == *name).unwrap_or(METRICS.len());
    names.sort_by_key(|name| (rank(name), *name));
    names.dedup();
    names
}

#[cfg(test)]
mod tests;
