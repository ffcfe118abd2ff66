//! The table of metrics: the name, unit and direction of each figure by which settings are compared.
//!
//! Goals, requirements, the plan, its page, the terminal and the documentation take a metric's properties from [`METRICS`].

use poolwright_report::{Better, Unit};

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
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The name in `plan.json`.
    pub name: &'static str,
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
    pub stand_in: Option<&'static str>,
    /// The metric that measures nearly the same cost. If both are costs, only that one is listed.
    pub same_cost_as: Option<&'static str>,
}

impl Metric {
    /// A metric without a precedence, a requirement or relations to other metrics.
    const fn new(
        name: &'static str,
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

    const fn precedence(self, precedence: u8) -> Metric {
        Metric { precedence: Some(precedence), ..self }
    }

    const fn requirement(self, name: &'static str) -> Metric {
        Metric { requirement: Some(name), ..self }
    }

    const fn stand_in(self, name: &'static str) -> Metric {
        Metric { stand_in: Some(name), ..self }
    }

    const fn same_cost_as(self, name: &'static str) -> Metric {
        Metric { same_cost_as: Some(name), ..self }
    }
}

/// The metrics that a confirmation measures on the database itself, and that a plan predicts.
pub const CONFIRMED: [&str; 5] =
    ["work_rate", "allocated_bytes", "vdev_write_bytes", "vdev_read_bytes", "cpu_ns_per_op"];

/// The metrics that `verify` measures on the database in operation, in the order of its table.
pub const VERIFIED: [&str; 11] = [
    "allocated_bytes",
    "work_rate",
    "mean_latency_ns",
    "read_p50_ns",
    "read_p99_ns",
    "write_p50_ns",
    "write_p99_ns",
    "fsync_p50_ns",
    "fsync_p99_ns",
    "write_amplification",
    "vdev_write_bytes",
];

/// The metrics of the whole plan's gain that the terminal shows; the page shows all.
pub const ON_TERMINAL: [&str; 11] = [
    "work_rate",
    "allocated_bytes",
    "mean_latency_ns",
    "read_p99_ns",
    "write_p99_ns",
    "fsync_p99_ns",
    "ops_s",
    "write_amplification",
    "read_amplification",
    "vdev_write_bytes",
    "cpu_ns_per_op",
];

/// All metrics in the order in which tables and pages show them.
pub const METRICS: &[Metric] = {
    use Better::{Higher, Lower};
    use MetricFamily::{Cache, Cpu, Space, Speed, Wear};
    use Unit::{Bytes, Fraction, Nanoseconds, PerSecond, Ratio};
    &[
        Metric::new(
            "allocated_bytes",
            "space",
            Bytes,
            Lower,
            Space,
            "space that all files of the database take on the pool with the trial's settings: level-0 and indirect `asize`, estimated \
             from samples of the files",
        )
        .precedence(1)
        .requirement("space"),
        Metric::new("space_ratio", "space ratio", Ratio, Higher, Space, "logical bytes / `allocated_bytes`")
            .precedence(2)
            .same_cost_as("allocated_bytes"),
        Metric::new(
            "work_rate",
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
        .stand_in("ops_s"),
        Metric::new(
            "mean_latency_ns",
            "mean latency",
            Nanoseconds,
            Lower,
            Speed,
            "time that foreground threads waited in operations / number of these operations",
        )
        .precedence(2),
        Metric::new(
            "read_p50_ns",
            "read p50",
            Nanoseconds,
            Lower,
            Speed,
            "median latency of foreground reads at the file interface",
        )
        .precedence(6),
        Metric::new(
            "read_p99_ns",
            "read p99",
            Nanoseconds,
            Lower,
            Speed,
            "99th percentile of the latency of foreground reads",
        )
        .precedence(3)
        .requirement("read_p99"),
        Metric::new(
            "read_p999_ns",
            "read p99.9",
            Nanoseconds,
            Lower,
            Speed,
            "99.9th percentile of the latency of foreground reads",
        )
        .precedence(9),
        Metric::new(
            "write_p50_ns",
            "write p50",
            Nanoseconds,
            Lower,
            Speed,
            "median latency of foreground writes at the file interface",
        )
        .precedence(7),
        Metric::new(
            "write_p99_ns",
            "write p99",
            Nanoseconds,
            Lower,
            Speed,
            "99th percentile of the latency of foreground writes that are not synchronous",
        )
        .precedence(4),
        Metric::new(
            "write_p999_ns",
            "write p99.9",
            Nanoseconds,
            Lower,
            Speed,
            "99.9th percentile of the latency of foreground writes that are not synchronous",
        )
        .precedence(10),
        Metric::new(
            "fsync_p50_ns",
            "fsync p50",
            Nanoseconds,
            Lower,
            Speed,
            "median latency of foreground syncs and synchronous writes",
        )
        .precedence(8),
        Metric::new(
            "fsync_p99_ns",
            "fsync p99",
            Nanoseconds,
            Lower,
            Speed,
            "99th percentile of the latency of foreground syncs and synchronous writes",
        )
        .precedence(5)
        .requirement("sync_p99"),
        Metric::new(
            "fsync_p999_ns",
            "fsync p99.9",
            Nanoseconds,
            Lower,
            Speed,
            "99.9th percentile of the latency of foreground syncs and synchronous writes",
        )
        .precedence(11),
        Metric::new(
            "ops_s",
            "operations",
            PerSecond,
            Higher,
            Speed,
            "operations per second of a replay that runs as fast as possible and therefore \
             has no `work_rate`",
        ),
        Metric::new(
            "write_amplification",
            "write amplification",
            Ratio,
            Lower,
            Wear,
            "bytes written to devices / bytes written by the database",
        )
        .precedence(1),
        Metric::new(
            "read_amplification",
            "read amplification",
            Ratio,
            Lower,
            Cache,
            "bytes read from devices / bytes read by the database",
        ),
        Metric::new(
            "vdev_write_bytes",
            "written to devices",
            Bytes,
            Lower,
            Wear,
            "bytes written to devices during the replay",
        )
        .precedence(2)
        .requirement("write_bytes")
        .same_cost_as("write_amplification"),
        Metric::new(
            "vdev_read_bytes",
            "read from devices",
            Bytes,
            Lower,
            Cache,
            "bytes read from devices during the replay",
        )
        .requirement("read_bytes")
        .same_cost_as("read_amplification"),
        Metric::new(
            "arc_hit_ratio",
            "ARC hits",
            Fraction,
            Higher,
            Cache,
            "ARC hits / (hits + hits on I/O in progress + misses)",
        ),
        Metric::new(
            "cpu_ns_per_op",
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

/// Returns the metric with this name, or `None` if this release does not have it.
pub fn find(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.name == name)
}

/// Returns the metric with this name in requirements.
pub fn find_requirement(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|metric| metric.requirement == Some(name))
}

/// The heading of a metric. An unknown metric keeps its name.
pub fn title(name: &str) -> &str {
    find(name).map_or(name, |metric| metric.title)
}

/// The unit of a metric. An unknown metric has none.
pub fn unit(name: &str) -> Unit {
    find(name).map_or(Unit::None, |metric| metric.unit)
}

/// The direction in which a metric improves. Lower for an unknown metric.
pub fn better(name: &str) -> Better {
    find(name).map_or(Better::Lower, |metric| metric.better)
}

/// The names of a family's representatives, the preferred one first.
pub fn representatives(family: MetricFamily) -> Vec<&'static str> {
    let mut all: Vec<(u8, &str)> = METRICS
        .iter()
        .filter(|metric| metric.family == family)
        .filter_map(|metric| Some((metric.precedence?, metric.name)))
        .collect();
    all.sort_unstable();
    all.into_iter().map(|(_, name)| name).collect()
}

/// Sorts names in the order of [`METRICS`], unknown names last, and removes duplicates.
pub fn ordered<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names: Vec<&str> = names.into_iter().collect();
    let rank = |name: &str| METRICS.iter().position(|metric| metric.name == name).unwrap_or(METRICS.len());
    names.sort_by_key(|name| (rank(name), *name));
    names.dedup();
    names
}
