//! Metrics that panels show: those of Poolwright's exporter, of other exporters, and of Prometheus itself.

use poolwright_monitor::{FamilyType, MetricFamily, Unit};

/// A metric of another exporter, or one that Prometheus stores with each scrape.
#[derive(Debug, PartialEq)]
pub struct ForeignMetric {
    /// The program that exports it.
    pub exporter: &'static str,
    /// The name.
    pub name: &'static str,
    /// How it changes.
    pub kind: FamilyType,
    /// Its unit after the multiplication by `factor`.
    pub unit: Unit,
    /// Converts the exported value to the base unit.
    pub factor: f64,
    /// The labels, without `job` and `instance`.
    pub labels: &'static [&'static str],
    /// The meaning, as one or more sentences.
    pub help: &'static str,
}

/// A metric in a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum QueryMetric {
    /// A metric of Poolwright's exporter.
    Own(&'static MetricFamily),
    /// A metric of another program.
    Foreign(&'static ForeignMetric),
}

impl From<&'static MetricFamily> for QueryMetric {
    fn from(family: &'static MetricFamily) -> QueryMetric {
        QueryMetric::Own(family)
    }
}

impl From<&'static ForeignMetric> for QueryMetric {
    fn from(metric: &'static ForeignMetric) -> QueryMetric {
        QueryMetric::Foreign(metric)
    }
}

impl QueryMetric {
    /// The name in the exposition.
    pub fn name(self) -> &'static str {
        match self {
            QueryMetric::Own(family) => family.name,
            QueryMetric::Foreign(metric) => metric.name,
        }
    }

    /// How the metric changes.
    pub fn kind(self) -> FamilyType {
        match self {
            QueryMetric::Own(family) => family.kind,
            QueryMetric::Foreign(metric) => metric.kind,
        }
    }

    /// The unit.
    pub fn unit(self) -> Unit {
        match self {
            QueryMetric::Own(family) => family.unit,
            QueryMetric::Foreign(metric) => metric.unit,
        }
    }

    /// The factor that converts a value to the base unit.
    pub fn factor(self) -> f64 {
        match self {
            QueryMetric::Own(_) => 1.0,
            QueryMetric::Foreign(metric) => metric.factor,
        }
    }

    /// All labels of a sample. Prometheus adds `job` and `instance`.
    pub fn labels(self) -> impl Iterator<Item = &'static str> {
        let labels = match self {
            QueryMetric::Own(family) => family.resource.labels,
            QueryMetric::Foreign(metric) => metric.labels,
        };
        ["job", "instance"].into_iter().chain(labels.iter().copied())
    }

    /// Whether the variables of a dashboard select series of this metric: its `job` and `instance` are those of Poolwright's
    /// exporter.
    pub fn is_scoped(self) -> bool {
        match self {
            QueryMetric::Own(_) => true,
            QueryMetric::Foreign(metric) => metric.exporter == PROMETHEUS,
        }
    }

    /// The meaning, as an item of a Markdown list.
    pub fn described(self) -> String {
        match self {
            QueryMetric::Own(family) => format!("- `{}`: {}", family.name, family.help),
            QueryMetric::Foreign(metric) if metric.exporter == PROMETHEUS => {
                format!("- `{}` (stored by Prometheus with each scrape): {}", metric.name, metric.help)
            }
            QueryMetric::Foreign(metric) => {
                format!("- `{}` (needs {}): {}", metric.name, metric.exporter, metric.help)
            }
        }
    }
}

/// The exporter of the metrics that Prometheus stores with each scrape.
const PROMETHEUS: &str = "Prometheus";
/// The exporter for PostgreSQL, <https://github.com/prometheus-community/postgres_exporter>.
const POSTGRES: &str = "postgres_exporter";
/// The exporter for MySQL and MariaDB, <https://github.com/prometheus/mysqld_exporter>.
const MYSQL: &str = "mysqld_exporter";

/// Defines the metrics of other programs, and a list of all.
macro_rules! foreign {
    ($($(#[doc = $help:literal])+ $id:ident = $kind:ident $unit:ident of $exporter:ident $name:literal [$($label:literal),*] * $factor:literal;)+) => {
        $($(#[doc = $help])+ pub static $id: ForeignMetric = ForeignMetric {
            exporter: $exporter,
            name: $name,
            kind: FamilyType::$kind,
            unit: Unit::$unit,
            factor: $factor,
            labels: &[$($label),*],
            help: concat!($($help),+).trim_ascii_start(),
        };)+
        /// All metrics of other programs.
        pub static FOREIGN: &[&ForeignMetric] = &[$(&$id),+];
    };
}

foreign! {
    /// Whether the last scrape succeeded.
    UP = Gauge None of PROMETHEUS "up" [] * 1.0;
    /// Duration of the last scrape.
    SCRAPE_DURATION = Gauge Seconds of PROMETHEUS "scrape_duration_seconds" [] * 1.0;
    /// Number of samples of the last scrape.
    SCRAPE_SAMPLES = Gauge None of PROMETHEUS "scrape_samples_scraped" [] * 1.0;

    /// Whether the exporter reaches the server.
    PG_UP = Gauge None of POSTGRES "pg_up" [] * 1.0;
    /// Number of committed transactions.
    PG_COMMITS = Counter None of POSTGRES "pg_stat_database_xact_commit" ["datid", "datname"] * 1.0;
    /// Number of transactions that were rolled back.
    PG_ROLLBACKS = Counter None of POSTGRES "pg_stat_database_xact_rollback" ["datid", "datname"] * 1.0;
    /// Number of blocks read from the file system.
    PG_BLOCKS_READ = Counter None of POSTGRES "pg_stat_database_blks_read" ["datid", "datname"] * 1.0;
    /// Number of blocks found in PostgreSQL's buffer cache.
    PG_BLOCKS_HIT = Counter None of POSTGRES "pg_stat_database_blks_hit" ["datid", "datname"] * 1.0;
    /// Time in which backends read blocks, in milliseconds; 0 unless `track_io_timing` is on.
    PG_READ_TIME = Counter Seconds of POSTGRES "pg_stat_database_blk_read_time" ["datid", "datname"] * 0.001;
    /// Bytes written to temporary files.
    PG_TEMP_BYTES = Counter Bytes of POSTGRES "pg_stat_database_temp_bytes" ["datid", "datname"] * 1.0;
    /// Number of connections.
    PG_BACKENDS = Gauge None of POSTGRES "pg_stat_database_numbackends" ["datid", "datname"] * 1.0;
    /// Size of the database's files.
    PG_SIZE = Gauge Bytes of POSTGRES "pg_database_size_bytes" ["datname"] * 1.0;

    /// Whether the exporter reaches the server.
    MYSQL_UP = Gauge None of MYSQL "mysql_up" [] * 1.0;
    /// Number of statements of clients and of stored programs.
    MYSQL_QUERIES = Counter None of MYSQL "mysql_global_status_queries" [] * 1.0;
    /// Number of executed commands. `command` is its name, such as `commit`.
    MYSQL_COMMANDS = Counter None of MYSQL "mysql_global_status_commands_total" ["command"] * 1.0;
    /// Number of rows that InnoDB read, inserted, updated and deleted.
    MYSQL_ROWS = Counter None of MYSQL "mysql_global_status_innodb_row_ops_total" ["operation"] * 1.0;
    /// Bytes that InnoDB read from files.
    MYSQL_READ_BYTES = Counter Bytes of MYSQL "mysql_global_status_innodb_data_read" [] * 1.0;
    /// Bytes that InnoDB wrote to files.
    MYSQL_WRITE_BYTES = Counter Bytes of MYSQL "mysql_global_status_innodb_data_written" [] * 1.0;
    /// Number of calls of `fsync` by InnoDB.
    MYSQL_FSYNCS = Counter None of MYSQL "mysql_global_status_innodb_data_fsyncs" [] * 1.0;
    /// Bytes that InnoDB wrote to its redo log.
    MYSQL_LOG_BYTES = Counter Bytes of MYSQL "mysql_global_status_innodb_os_log_written" [] * 1.0;
    /// Number of logical reads of pages.
    MYSQL_PAGE_READS = Counter None of MYSQL "mysql_global_status_innodb_buffer_pool_read_requests" [] * 1.0;
    /// Number of logical reads that InnoDB's buffer pool could not answer.
    MYSQL_PAGE_MISSES = Counter None of MYSQL "mysql_global_status_innodb_buffer_pool_reads" [] * 1.0;
    /// Size of InnoDB's buffer pool.
    MYSQL_BUFFER_POOL = Gauge Bytes of MYSQL "mysql_global_variables_innodb_buffer_pool_size" [] * 1.0;
}
