//! One database beside the dataset that holds it.

use poolwright_monitor::MetricFamily;
use poolwright_monitor::family::*;

use super::shared::{self, leaves, row};
use crate::board::{Board, PanelRow, Variable};
use crate::metric::*;
use crate::panel::{Panel, PanelThresholds, PanelUnit};
use crate::query::{Query, buckets, of, rate};

pub(super) fn board() -> Board {
    let postgres = "The address of the postgres_exporter of the database; empty without one";
    let mysql = "The address of the mysqld_exporter of the database; empty without one";
    Board {
        uid: "poolwright-database",
        title: "Database beside dataset",
        help: "What a database asks for, and what its dataset does for it. The panels of the database need the exporter that \
               their descriptions name.",
        variables: vec![
            shared::JOB,
            Variable::one(
                "Host",
                &EXPORTER_INFO,
                "instance",
                "The address of the exporter of the database's host",
            ),
            Variable::one(
                "Engine",
                &DATASET_USED,
                "engine",
                "kernel, or user for pools of the user-space engine",
            ),
            Variable::one("Pool", &DATASET_USED, "pool", "The pool that holds the database"),
            Variable::one("Dataset", &DATASET_USED, "dataset", "The dataset that holds the database"),
            Variable::foreign("postgres", "PostgreSQL", &PG_UP, "instance", false, postgres),
            Variable::foreign(
                "datname",
                "PostgreSQL database",
                &PG_COMMITS,
                "datname",
                true,
                "The database in the server",
            ),
            Variable::foreign("mysql", "MySQL or MariaDB", &MYSQL_UP, "instance", false, mysql),
        ],
        rows: vec![dataset(), pool(), postgresql(), mysql_row()],
    }
}

/// The sum over the dataset, which has one series.
fn sum(query: Query) -> Query {
    query.sum_by(&[])
}

fn dataset() -> PanelRow {
    row(
        "Dataset",
        [
            Panel::graph("Bytes", PanelUnit::BytesPerSecond)
                .show(sum(rate(&DATASET_READ_BYTES)), "read")
                .show(sum(rate(&DATASET_WRITE_BYTES)), "written"),
            Panel::graph("Operations", PanelUnit::PerSecond)
                .show(sum(rate(&DATASET_READS)), "reads")
                .show(sum(rate(&DATASET_WRITES)), "writes")
                .show(sum(rate(&ZIL_COMMITS)), "commits of the intent log"),
            Panel::graph("Sizes beside the record size", PanelUnit::Bytes)
                .note(
                    "Writes that are smaller than a record make ZFS read, change and write the whole record.",
                )
                .show(sum(rate(&DATASET_READ_BYTES)) / sum(rate(&DATASET_READS)), "mean read")
                .show(sum(rate(&DATASET_WRITE_BYTES)) / sum(rate(&DATASET_WRITES)), "mean write")
                .show(sum(of(&DATASET_RECORDSIZE)), "record size"),
            Panel::graph("Space", PanelUnit::Bytes)
                .show(sum(of(&DATASET_REFERENCED)), "on disk")
                .show(sum(of(&DATASET_LOGICAL_REFERENCED)), "before compression")
                .show(sum(of(&DATASET_USED_BY_SNAPSHOTS)), "snapshots"),
        ],
    )
}

/// The rate of a counter, summed over the devices of the pool.
fn of_leaves(family: &'static MetricFamily) -> Query {
    sum(leaves(rate(family).unlike("class", "root")))
}

fn pool() -> PanelRow {
    let latency =
        |queue| leaves(buckets(&VDEV_LATENCY).with("queue", queue).unlike("class", "root")).sum_by(&["le"]);
    let mean = |time, requests| of_leaves(time) / of_leaves(requests);
    let misses = rate(&ARC_ACCESSES).like("type", "demand_.*").with("result", "miss").sum_by(&["type"]);
    let written = || of_leaves(&VDEV_WRITE_BYTES);
    row(
        "Its pool",
        [
            Panel::graph("Typical time of requests at the vdevs", PanelUnit::Seconds)
                .note("Of user-space pools the mean, of kernel pools the median: ZFS counts only a histogram of them.")
                .show(mean(&VDEV_READ_TIME, &VDEV_READS).or(latency("disk_read").quantile(0.5)), "reads")
                .show(mean(&VDEV_WRITE_TIME, &VDEV_WRITES).or(latency("disk_write").quantile(0.5)), "writes")
                .show(mean(&VDEV_FLUSH_TIME, &VDEV_FLUSHES), "cache flushes"),
            Panel::graph("Time of requests with the wait, 99th percentile", PanelUnit::Seconds)
                .show(latency("total_read").quantile(0.99), "reads")
                .show(latency("total_write").quantile(0.99), "writes"),
            Panel::graph("Bytes of the vdevs", PanelUnit::BytesPerSecond)
                .show(of_leaves(&VDEV_READ_BYTES), "read")
                .show(written(), "written"),
            Panel::graph(
                "Bytes at the vdevs for each byte that programs write to the dataset",
                PanelUnit::Multiple,
            )
            .note("Write amplification, if the pool has no other busy dataset. Redundancy is included.")
            .show(written() / sum(rate(&DATASET_WRITE_BYTES)), "written"),
            Panel::graph("Demand misses of the ARC", PanelUnit::PerSecond)
                .note("Of all pools of the kernel, which share one ARC, or of the user-space pool.")
                .show(misses, "{{type}}"),
            Panel::graph("Time to write transaction groups", PanelUnit::Seconds)
                .show(sum(of(&TXG_SYNC)), "last")
                .show(sum(of(&TXG_SYNC_LONGEST)), "longest"),
        ],
    )
}

/// The sum over the chosen databases of the PostgreSQL server.
fn pg(query: Query) -> Query {
    query.with("instance", "$postgres").like("datname", "$datname").sum_by(&[])
}

fn postgresql() -> PanelRow {
    let read = || pg(rate(&PG_BLOCKS_READ));
    let hit = || pg(rate(&PG_BLOCKS_HIT));
    row(
        "PostgreSQL",
        [
            Panel::graph("Transactions", PanelUnit::PerSecond)
                .show(pg(rate(&PG_COMMITS)), "committed")
                .show(pg(rate(&PG_ROLLBACKS)), "rolled back"),
            Panel::graph("Blocks read, and ARC misses", PanelUnit::PerSecond)
                .note("Blocks that PostgreSQL reads and the ARC has do not reach a device.")
                .show(read(), "blocks read from the file system")
                .show(sum(rate(&DATASET_READS)), "reads of the dataset"),
            Panel::graph("Hits in PostgreSQL's buffers", PanelUnit::Percent)
                .show(hit() / (hit() + read()), "hits")
                .limits(PanelThresholds::Below(0.8, 0.95))
                .up_to(1.0),
            Panel::graph("Mean time to read a block", PanelUnit::Seconds)
                .note("Needs `track_io_timing`. Reads that the ARC answers are included.")
                .show(pg(rate(&PG_READ_TIME)) / read(), "PostgreSQL's reads"),
            Panel::graph("Bytes written to the dataset for each commit", PanelUnit::Bytes)
                .show(sum(rate(&DATASET_WRITE_BYTES)) / pg(rate(&PG_COMMITS)), "written"),
            Panel::graph("Commits, and commits of the intent log", PanelUnit::PerSecond)
                .note("Fewer commits of the log than of the database: group commit, or `synchronous_commit` is off.")
                .show(pg(rate(&PG_COMMITS)), "database")
                .show(sum(rate(&ZIL_COMMITS)), "intent log"),
            Panel::graph("Size of the databases, and of the dataset", PanelUnit::Bytes)
                .show(pg(of(&PG_SIZE)), "databases")
                .show(sum(of(&DATASET_REFERENCED)), "dataset on disk"),
            Panel::graph("Temporary files", PanelUnit::BytesPerSecond).show(pg(rate(&PG_TEMP_BYTES)), "written"),
            Panel::graph("Connections", PanelUnit::Count).show(pg(of(&PG_BACKENDS)), "connections"),
        ],
    )
}

/// The sum over the MySQL or MariaDB server.
fn my(query: Query) -> Query {
    query.with("instance", "$mysql").sum_by(&[])
}

fn mysql_row() -> PanelRow {
    let commits = || my(rate(&MYSQL_COMMANDS).with("command", "commit"));
    let misses = || my(rate(&MYSQL_PAGE_MISSES));
    let written = || my(rate(&MYSQL_WRITE_BYTES));
    row(
        "MySQL or MariaDB",
        [
            Panel::graph("Statements", PanelUnit::PerSecond)
                .show(my(rate(&MYSQL_QUERIES)), "statements")
                .show(commits(), "commits"),
            Panel::graph("Rows", PanelUnit::PerSecond)
                .show(rate(&MYSQL_ROWS).with("instance", "$mysql").sum_by(&["operation"]), "{{operation}}"),
            Panel::graph("Bytes of InnoDB, and of the dataset", PanelUnit::BytesPerSecond)
                .show(my(rate(&MYSQL_READ_BYTES)), "InnoDB reads")
                .show(written(), "InnoDB writes")
                .show(sum(rate(&DATASET_READ_BYTES)), "read from the dataset")
                .show(sum(rate(&DATASET_WRITE_BYTES)), "written to the dataset"),
            Panel::graph("Pages not in InnoDB's buffer pool", PanelUnit::Percent)
                .note("The share of logical reads of pages that read from the file system.")
                .show(misses() / my(rate(&MYSQL_PAGE_READS)), "misses")
                .limits(PanelThresholds::Above(0.01, 0.05)),
            Panel::graph("Calls of fsync, and commits of the intent log", PanelUnit::PerSecond)
                .show(my(rate(&MYSQL_FSYNCS)), "InnoDB's fsync")
                .show(sum(rate(&ZIL_COMMITS)), "commits of the intent log"),
            Panel::graph("Redo log", PanelUnit::BytesPerSecond)
                .show(my(rate(&MYSQL_LOG_BYTES)), "redo log")
                .show(sum(rate(&ZIL_NORMAL_BYTES)), "intent log, main pool")
                .show(sum(rate(&ZIL_SLOG_BYTES)), "intent log, log devices"),
            Panel::graph("Bytes written for each commit", PanelUnit::Bytes)
                .show(written() / commits(), "by InnoDB")
                .show(sum(rate(&DATASET_WRITE_BYTES)) / commits(), "to the dataset"),
            Panel::graph("Memory of InnoDB and of the ARC", PanelUnit::Bytes)
                .note("Both may hold the same pages.")
                .show(my(of(&MYSQL_BUFFER_POOL)), "InnoDB's buffer pool")
                .show(sum(of(&ARC_SIZE)), "ARC"),
        ],
    )
}
