//! Datasets: space, compression, snapshots, rates, sizes of I/O, the intent log, mounts.

use poolwright_monitor::MetricFamily;
use poolwright_monitor::family::*;

use super::shared::{self, OF_DATASET, row};
use crate::board::{Board, PanelRow, Variable};
use crate::panel::{Panel, PanelThresholds, PanelUnit};
use crate::query::{Query, Window, now, of, rate};

const DATASET_LEGEND: &str = "{{instance}} {{dataset}}";
const DAY: f64 = 86_400.0;

pub(super) fn board() -> Board {
    Board {
        uid: "poolwright-datasets",
        title: "ZFS datasets",
        help: "What datasets hold and do: space, compression, snapshots, rates, I/O sizes beside recordsize, the intent log.",
        variables: vec![
            shared::JOB,
            shared::INSTANCE,
            shared::ENGINE,
            shared::POOL,
            Variable::pattern(
                "Dataset (pattern)",
                "dataset",
                "A regular expression for the full name, such as tank/db.*",
            ),
            shared::TOP,
        ],
        rows: vec![overview(), space(), snapshots(), backups(), rates(), sizes(), intent_log(), mounts()],
    }
}

fn top(title: &'static str, unit: PanelUnit, query: Query) -> Panel {
    Panel::graph(title, unit).show(query.top(), DATASET_LEGEND)
}

fn overview() -> PanelRow {
    let largest = || of(&DATASET_REFERENCED).max_by(&OF_DATASET).top();
    let of_largest = |query: Query| query.max_by(&OF_DATASET).among(largest());
    let value = |family| of_largest(of(family));
    let table = Panel::table("Largest datasets")
        .note("A row leads to the dashboard of a database on the dataset.")
        .column("Refers to", PanelUnit::Bytes, largest())
        .column("Used, with children and snapshots", PanelUnit::Bytes, value(&DATASET_USED))
        .column("Can still be written", PanelUnit::Bytes, value(&DATASET_AVAILABLE))
        .column("Compression", PanelUnit::Multiple, value(&DATASET_COMPRESSION))
        .column("Record size", PanelUnit::Bytes, value(&DATASET_RECORDSIZE))
        .column("Snapshots", PanelUnit::Count, value(&DATASET_SNAPSHOTS))
        .column("Used by snapshots", PanelUnit::Bytes, value(&DATASET_USED_BY_SNAPSHOTS))
        .column("Newest snapshot, age", PanelUnit::Seconds, of_largest(now() - of(&DATASET_NEWEST_SNAPSHOT)))
        .leading_to("poolwright-database", &["instance", "engine", "pool", "dataset"]);
    let properties = Panel::table("Properties that are not at their default")
        .note("Of the datasets that the pattern above chooses, as many as the number above allows.")
        .column(
            "Set",
            PanelUnit::Count,
            of(&PROPERTY_INFO).max_by(&["instance", "dataset", "property", "value", "source"]).top(),
        );
    row("Datasets", [table, properties])
}

fn space() -> PanelRow {
    let quota_share = of(&DATASET_USED) / of(&DATASET_QUOTA);
    let part = |family| of(family).sum_by(&[]);
    row(
        "Space",
        [
            top("Refers to", PanelUnit::Bytes, of(&DATASET_REFERENCED)),
            Panel::graph("Parts of the used space", PanelUnit::Bytes)
                .note("The sum over the chosen datasets. It has no part for children, which would count them twice.")
                .stacked()
                .show(part(&DATASET_USED_BY_DATASET), "data")
                .show(part(&DATASET_USED_BY_SNAPSHOTS), "snapshots")
                .show(part(&DATASET_USED_BY_RESERVATION), "reservations"),
            Panel::graph("Lowest space that can still be written", PanelUnit::Bytes)
                .show(of(&DATASET_AVAILABLE).bottom(), DATASET_LEGEND),
            top("Used share of the quota", PanelUnit::Percent, quota_share).limits(PanelThresholds::Above(0.8, 0.95)).up_to(1.0),
            top("Used by children", PanelUnit::Bytes, of(&DATASET_USED_BY_CHILDREN)),
            top("Compression ratio", PanelUnit::Multiple, of(&DATASET_COMPRESSION)),
            Panel::graph("Data before compression", PanelUnit::Bytes)
                .show(of(&DATASET_LOGICAL_REFERENCED).top(), DATASET_LEGEND)
                .show(of(&DATASET_LOGICAL_USED).top(), "{{instance}} {{dataset}} with children and snapshots"),
            top("Growth of the used space, mean of a day", PanelUnit::BytesPerSecond, of(&DATASET_USED).slope(Window::Fixed("1d"))),
        ],
    )
}

fn snapshots() -> PanelRow {
    row(
        "Snapshots",
        [
            top("Number of snapshots", PanelUnit::Count, of(&DATASET_SNAPSHOTS)),
            top("Used by snapshots", PanelUnit::Bytes, of(&DATASET_USED_BY_SNAPSHOTS)),
            top("Age of the newest snapshot", PanelUnit::Seconds, now() - of(&DATASET_NEWEST_SNAPSHOT))
                .limits(PanelThresholds::Above(2.0 * DAY, 7.0 * DAY)),
            top("Age of the oldest snapshot", PanelUnit::Seconds, now() - of(&DATASET_OLDEST_SNAPSHOT)),
            top("Written since the last snapshot", PanelUnit::Bytes, of(&DATASET_WRITTEN)),
        ],
    )
}

fn backups() -> PanelRow {
    const LEGEND: &str = "{{instance}} {{dataset}} ({{tier}}, {{database}})";
    let age =
        |title, family| Panel::graph(title, PanelUnit::Seconds).show((now() - of(family)).top(), LEGEND);
    row(
        "Backups",
        [
            age("Age of the newest backup", &BACKUPS_NEWEST)
                .limits(PanelThresholds::Above(1.5 * DAY, 3.0 * DAY)),
            age("Time since the last restore that passed", &BACKUPS_GOOD_RESTORE)
                .note("Nothing is shown for backups that were never restored.")
                .limits(PanelThresholds::Above(14.0 * DAY, 28.0 * DAY)),
            age("Time since the last restore", &BACKUPS_RESTORE),
            Panel::graph("Whether the last restore passed", PanelUnit::Count)
                .show(of(&BACKUPS_RESTORE_PASSED).bottom(), LEGEND),
            Panel::graph("Whether the last restore could not test its backup", PanelUnit::Count)
                .show(of(&BACKUPS_UNTESTED).top(), LEGEND),
            age("Age of the newest backup that passed a restore", &BACKUPS_NEWEST_GOOD),
            age("Age of the oldest backup", &BACKUPS_OLDEST),
            Panel::graph("Number of backups", PanelUnit::Count).show(of(&BACKUPS_KEPT).top(), LEGEND),
            Panel::graph("Files of the newest backup", PanelUnit::Bytes)
                .show(of(&BACKUPS_NEWEST_SIZE).top(), LEGEND),
            age("Age of the latest time of a backup or restore", &BACKUPS_LATEST)
                .note("Below 0, the clock was ahead when a backup was made or restored."),
            Panel::graph("Time since the last transfer to a target", PanelUnit::Seconds)
                .show((now() - of(&REPLICA_SENT)).top(), "{{instance}} {{dataset}} to {{target}}")
                .limits(PanelThresholds::Above(1.5 * DAY, 3.0 * DAY)),
        ],
    )
}

fn rates() -> PanelRow {
    row(
        "Reads and writes by programs",
        [
            top("Bytes read", PanelUnit::BytesPerSecond, rate(&DATASET_READ_BYTES)),
            top("Bytes written", PanelUnit::BytesPerSecond, rate(&DATASET_WRITE_BYTES)),
            top("Reads", PanelUnit::PerSecond, rate(&DATASET_READS)),
            top("Writes", PanelUnit::PerSecond, rate(&DATASET_WRITES)),
        ],
    )
}

fn sizes() -> PanelRow {
    const NOTE: &str = "Below 1 the average request is smaller than a record. Small writes to a large record make ZFS read, \
        change and write the whole record; small reads read more than they need. Requests to the end of files and to \
        files smaller than a record are small too, so this is a hint and no proof.";
    let mean = |bytes: &'static MetricFamily, requests: &'static MetricFamily| rate(bytes) / rate(requests);
    let reads = || mean(&DATASET_READ_BYTES, &DATASET_READS);
    let writes = || mean(&DATASET_WRITE_BYTES, &DATASET_WRITES);
    row(
        "Sizes of reads and writes beside the record size",
        [
            top("Mean read", PanelUnit::Bytes, reads()),
            top("Mean write", PanelUnit::Bytes, writes()),
            Panel::graph("Mean read in records", PanelUnit::Multiple)
                .note(NOTE)
                .limits(PanelThresholds::WarningBelow(1.0))
                .show((reads() / of(&DATASET_RECORDSIZE)).bottom(), DATASET_LEGEND),
            Panel::graph("Mean write in records", PanelUnit::Multiple)
                .note(NOTE)
                .limits(PanelThresholds::WarningBelow(1.0))
                .show((writes() / of(&DATASET_RECORDSIZE)).bottom(), DATASET_LEGEND),
        ],
    )
}

fn intent_log() -> PanelRow {
    let bad = |family: &'static MetricFamily| of(family).increase(Window::RateInterval).above(0.0).top();
    row(
        "Intent log",
        [
            top("Commits", PanelUnit::PerSecond, rate(&ZIL_COMMITS)),
            top(
                "Records of a commit, mean number",
                PanelUnit::Count,
                rate(&ZIL_RECORDS) / rate(&ZIL_COMMITS),
            ),
            top("Log bytes to the main pool", PanelUnit::BytesPerSecond, rate(&ZIL_NORMAL_BYTES)),
            top("Log bytes to separate log devices", PanelUnit::BytesPerSecond, rate(&ZIL_SLOG_BYTES)),
            Panel::graph(
                "New failed commits, and commits that waited for a transaction group",
                PanelUnit::Count,
            )
            .limits(PanelThresholds::CriticalFrom(1.0))
            .show(bad(&ZIL_ERRORS), "{{instance}} {{dataset}} failed")
            .show(bad(&ZIL_STALLS), "{{instance}} {{dataset}} waited"),
            top("Replayed records", PanelUnit::Count, of(&ZIL_REPLAYED).above(0.0)),
        ],
    )
}

fn mounts() -> PanelRow {
    const MOUNT_LEGEND: &str = "{{instance}} {{dir}}";
    let requests = rate(&MOUNT_REQUESTS).sum_by(&["op"]).top();
    row(
        "Mounts of the user-space engine",
        [
            Panel::graph("Bytes read", PanelUnit::BytesPerSecond)
                .show(rate(&MOUNT_READ_BYTES).top(), MOUNT_LEGEND),
            Panel::graph("Bytes written", PanelUnit::BytesPerSecond)
                .show(rate(&MOUNT_WRITE_BYTES).top(), MOUNT_LEGEND),
            Panel::graph("Requests by operation", PanelUnit::PerSecond)
                .stacked()
                .show(requests, "{{op}}")
                .sized(24, 9),
        ],
    )
}
