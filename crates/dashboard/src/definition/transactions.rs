//! Transaction groups and transactions: what makes writers wait.

use poolwright_monitor::family::*;

use super::shared::{self, OF_POOL, leaves, row};
use crate::board::{Board, PanelRow};
use crate::panel::{Panel, PanelThresholds, PanelUnit};
use crate::query::{Query, buckets, of, rate};

const POOL_LEGEND: &str = "{{instance}} {{pool}}";

pub(super) fn board() -> Board {
    Board {
        uid: "poolwright-transactions",
        title: "ZFS transactions",
        help: "What makes writers wait: the time to write transaction groups, dirty data, waits by reason, synchronous writes.",
        variables: vec![shared::JOB, shared::INSTANCE, shared::ENGINE, shared::POOL, shared::TOP],
        rows: vec![groups(), waits(), synchronous()],
    }
}

fn top(title: &'static str, unit: PanelUnit, query: Query) -> Panel {
    Panel::graph(title, unit).show(query.top(), POOL_LEGEND)
}

fn groups() -> PanelRow {
    let slow = PanelThresholds::Above(5.0, 30.0);
    row(
        "Transaction groups",
        [
            top("Time to write the last group", PanelUnit::Seconds, of(&TXG_SYNC)).limits(slow),
            top("Longest time to write one of the recent groups", PanelUnit::Seconds, of(&TXG_SYNC_LONGEST))
                .limits(slow),
            top("Time that the last group was open", PanelUnit::Seconds, of(&TXG_OPEN))
                .note("`zfs_txg_timeout` (5 seconds) unless dirty data closes the group earlier."),
            top("Dirty data of the last group", PanelUnit::Bytes, of(&TXG_DIRTY)),
            top("Groups", PanelUnit::PerSecond, rate(&POOL_TXG)),
            top("Write rate of the last group", PanelUnit::BytesPerSecond, of(&TXG_DIRTY) / of(&TXG_SYNC))
                .note("Dirty data of a group, divided by the time to write it."),
        ],
    )
}

fn waits() -> PanelRow {
    let waits = || rate(&TX_WAITS).sum_by(&["instance", "engine"]);
    let share = waits() / rate(&TX_ASSIGNED).sum_by(&["instance", "engine"]);
    row(
        "Transactions",
        [
            Panel::graph("Waits by reason", PanelUnit::PerSecond)
                .stacked()
                .note("The sum over the chosen hosts. `dirty_delay`: ZFS slows writers down, because dirty data approaches its limit.")
                .show(rate(&TX_WAITS).sum_by(&["reason"]).above(0.0), "{{reason}}"),
            Panel::graph("Waits by host", PanelUnit::PerSecond).show(waits().top(), "{{instance}}"),
            Panel::graph("Waits of each transaction, mean number", PanelUnit::Count)
                .show(share.top(), "{{instance}}")
                .limits(PanelThresholds::Above(0.01, 0.1)),
            Panel::graph("Transactions", PanelUnit::PerSecond).show(rate(&TX_ASSIGNED).top(), "{{instance}}"),
        ],
    )
}

fn synchronous() -> PanelRow {
    let by_pool = |query: Query| query.sum_by(&OF_POOL).top();
    let log = leaves(buckets(&VDEV_LATENCY).with("queue", "disk_write").with("class", "log"));
    let queue = leaves(buckets(&VDEV_LATENCY).with("queue", "sync_write").unlike("class", "root"));
    let with_bound = ["instance", "engine", "pool", "le"];
    row(
        "Synchronous writes",
        [
            Panel::graph("Commits of the intent log", PanelUnit::PerSecond)
                .show(by_pool(rate(&ZIL_COMMITS)), POOL_LEGEND),
            Panel::graph("Commits that waited for a transaction group, or failed", PanelUnit::PerSecond)
                .show(by_pool(rate(&ZIL_STALLS)), "{{instance}} {{pool}} waited")
                .show(by_pool(rate(&ZIL_ERRORS)), "{{instance}} {{pool}} failed"),
            top(
                "Time of writes at log devices, 99th percentile",
                PanelUnit::Seconds,
                log.sum_by(&with_bound).quantile(0.99),
            ),
            top(
                "Wait in the queue of synchronous writes, 99th percentile",
                PanelUnit::Seconds,
                queue.sum_by(&with_bound).quantile(0.99),
            ),
            Panel::graph("Log bytes", PanelUnit::BytesPerSecond)
                .show(by_pool(rate(&ZIL_NORMAL_BYTES)), "{{instance}} {{pool}} to the main pool")
                .show(by_pool(rate(&ZIL_SLOG_BYTES)), "{{instance}} {{pool}} to log devices"),
            top(
                "Cache flushes",
                PanelUnit::PerSecond,
                leaves(rate(&VDEV_FLUSHES).unlike("class", "root")).sum_by(&OF_POOL),
            ),
        ],
    )
}
