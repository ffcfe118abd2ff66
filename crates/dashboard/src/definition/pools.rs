//! The pools of a fleet: state, capacity, scans, errors, events.

use poolwright_monitor::family::*;

use super::shared::{self, OF_POOL, SELECT_POOL, not_in_state, row, state_code};
use crate::board::{Board, PanelRow};
use crate::panel::{Panel, PanelThresholds, PanelUnit};
use crate::query::{Query, Window, now, of, rate};

const POOL_LEGEND: &str = "{{instance}} {{pool}}";
/// Shares of a pool's capacity that need attention and action.
const FULL: PanelThresholds = PanelThresholds::Above(0.8, 0.9);
const DAY: f64 = 86_400.0;

pub(super) fn board() -> Board {
    Board {
        uid: "poolwright-pools",
        title: "ZFS pools",
        help: "Which pools of the fleet need attention: state, capacity and its trend, scrubs, errors, events.",
        variables: vec![shared::JOB, shared::INSTANCE, shared::ENGINE, shared::POOL, shared::TOP],
        rows: vec![overview(), states(), capacity(), scans(), errors(), events()],
    }
}

/// The allocated share of each pool.
fn share() -> Query {
    of(&POOL_ALLOCATED) / of(&POOL_SIZE)
}

fn overview() -> PanelRow {
    use PanelUnit::{Bytes, Count};
    let bad = PanelThresholds::CriticalFrom(1.0);
    row(
        "Overview",
        [
            Panel::stat("Hosts", Count, of(&EXPORTER_INFO).count()),
            Panel::stat("Pools", Count, of(&POOL_OPEN).count()),
            Panel::stat("Capacity", Bytes, of(&POOL_SIZE).sum_by(&[])),
            Panel::stat("Allocated", Bytes, of(&POOL_ALLOCATED).sum_by(&[])),
            Panel::stat("Transaction groups", PanelUnit::PerSecond, rate(&POOL_TXG).sum_by(&[])),
            Panel::stat("Sources not up", Count, of(&SOURCE_UP).equal_to(0.0).count()).limits(bad),
            Panel::stat("Pools not ONLINE", Count, not_in_state(&POOL_STATE_NOW, "ONLINE")).limits(bad),
            Panel::stat("Vdevs not ONLINE", Count, not_in_state(&VDEV_STATE_NOW, "ONLINE|AVAIL")).limits(bad),
            Panel::stat("Pools with lost data", Count, of(&POOL_DATA_ERRORS).above(0.0).count()).limits(bad),
            Panel::stat("Pools above 80 %", Count, share().above(0.8).count())
                .limits(PanelThresholds::WarningFrom(1.0)),
            Panel::stat("Scrubs and resilvers", Count, running().count())
                .note("Pools in which a scrub or a resilver runs."),
            Panel::stat("Mean fragmentation", PanelUnit::Percent, of(&POOL_FRAGMENTATION).avg_by(&[])),
        ],
    )
}

/// Pools in which a scrub or a resilver runs.
fn running() -> Query {
    (of(&SCRUB_RUNNING) + of(&RESILVER_RUNNING)).max_by(&OF_POOL).above(0.0)
}

fn states() -> PanelRow {
    let code = || state_code(&POOL_STATE_NOW, shared::POOL_STATES, &OF_POOL);
    let fullest = || share().max_by(&OF_POOL).top();
    let of_fullest = |query: Query| query.max_by(&OF_POOL).among(fullest());
    let scrub_age = PanelThresholds::Above(35.0 * DAY, 90.0 * DAY);
    let errors = PanelThresholds::CriticalFrom(1.0);
    let table = Panel::table("Fullest pools")
        .note("A row leads to the vdevs of the pool.")
        .state_column("State", shared::POOL_STATES, code().among(fullest()))
        .column("Size", PanelUnit::Bytes, of_fullest(of(&POOL_SIZE)))
        .column("Free", PanelUnit::Bytes, of_fullest(of(&POOL_FREE)))
        .limited_column("Allocated", PanelUnit::Percent, FULL, fullest())
        .limited_column(
            "Fragmentation",
            PanelUnit::Percent,
            PanelThresholds::Above(0.5, 0.7),
            of_fullest(of(&POOL_FRAGMENTATION)),
        )
        .column("Deduplication", PanelUnit::Multiple, of_fullest(of(&POOL_DEDUP)))
        .limited_column(
            "Last scrub finished before",
            PanelUnit::Seconds,
            scrub_age,
            of_fullest(now() - of(&SCRUB_END)),
        )
        .limited_column(
            "Damaged blocks or files",
            PanelUnit::Count,
            errors,
            of_fullest(of(&POOL_DATA_ERRORS)),
        )
        .leading_to("poolwright-vdevs", SELECT_POOL);
    let timeline = Panel::timeline("State", shared::POOL_STATES)
        .note("The pools in the worst states.")
        .show(code().top(), POOL_LEGEND)
        .leading_to("poolwright-vdevs", SELECT_POOL);
    row("Pools", [table, timeline])
}

fn capacity() -> PanelRow {
    let growth = || of(&POOL_ALLOCATED).slope(Window::Fixed("7d"));
    let days_left = (of(&POOL_SIZE) * 0.8 - of(&POOL_ALLOCATED)) / growth().above(0.0);
    row(
        "Capacity",
        [
            Panel::graph("Allocated share", PanelUnit::Percent)
                .show(share().top(), POOL_LEGEND)
                .limits(FULL)
                .up_to(1.0)
                .note("From about 80 % on, ZFS spends more time looking for free space, and new blocks are less contiguous."),
            Panel::bars("Time until 80 % is allocated", PanelUnit::Seconds)
                .show(days_left.bottom(), POOL_LEGEND)
                .limits(PanelThresholds::Below(7.0 * DAY, 30.0 * DAY))
                .note("If the pool grows as in the last 7 days. Negative: more is allocated. Pools that do not grow are missing."),
            Panel::graph("Growth, mean of 7 days", PanelUnit::BytesPerSecond).show(growth().top(), POOL_LEGEND),
            Panel::graph("Fragmentation of the free space", PanelUnit::Percent)
                .show(of(&POOL_FRAGMENTATION).top(), POOL_LEGEND)
                .limits(PanelThresholds::Above(0.5, 0.7))
                .up_to(1.0),
            Panel::graph("Space not free yet, leaked, or held by a checkpoint", PanelUnit::Bytes)
                .show(of(&POOL_FREEING).top(), "{{instance}} {{pool}} freeing")
                .show(of(&POOL_LEAKED).above(0.0).top(), "{{instance}} {{pool}} leaked")
                .show(of(&POOL_CHECKPOINT).top(), "{{instance}} {{pool}} checkpoint"),
            Panel::graph("Space saved by cloned blocks, and possible growth", PanelUnit::Bytes)
                .show(of(&POOL_CLONES_SAVED).top(), "{{instance}} {{pool}} saved by clones")
                .show(of(&POOL_EXPANDABLE).top(), "{{instance}} {{pool}} expandable"),
        ],
    )
}

fn scans() -> PanelRow {
    let share = of(&SCAN_EXAMINED) / of(&SCAN_TO_EXAMINE);
    let examined_share = share.max_by(&OF_POOL).among(running()).top();
    let speed = of(&SCAN_EXAMINED).slope(Window::RateInterval).max_by(&OF_POOL).among(running());
    row(
        "Scrubs and resilvers",
        [
            Panel::graph("Age of the last scrub", PanelUnit::Seconds)
                .show((now() - of(&SCRUB_END)).top(), POOL_LEGEND)
                .limits(PanelThresholds::Above(35.0 * DAY, 90.0 * DAY)),
            Panel::graph("Progress", PanelUnit::Percent).show(examined_share, POOL_LEGEND).up_to(1.0),
            Panel::graph("Speed", PanelUnit::BytesPerSecond).show(speed.top(), POOL_LEGEND),
            Panel::graph("Repaired or copied", PanelUnit::Bytes).show(of(&SCAN_REPAIRED).top(), POOL_LEGEND),
            Panel::graph("Errors that could not be repaired", PanelUnit::Count)
                .show(of(&SCAN_ERRORS).top(), POOL_LEGEND)
                .limits(PanelThresholds::CriticalFrom(1.0)),
            Panel::graph("Paused or canceled", PanelUnit::Count)
                .show(of(&SCAN_PAUSED).equal_to(1.0).top(), "{{instance}} {{pool}} paused")
                .show(of(&SCRUB_CANCELED).equal_to(1.0).top(), "{{instance}} {{pool}} canceled"),
        ],
    )
}

fn errors() -> PanelRow {
    let new = |family| of(family).increase(Window::RateInterval).sum_by(&OF_POOL).above(0.0).top();
    row(
        "Errors",
        [
            Panel::graph("New errors of vdevs", PanelUnit::Count)
                .show(new(&VDEV_READ_ERRORS), "{{instance}} {{pool}} read")
                .show(new(&VDEV_WRITE_ERRORS), "{{instance}} {{pool}} write")
                .show(new(&VDEV_CHECKSUM_ERRORS), "{{instance}} {{pool}} checksum")
                .leading_to("poolwright-vdevs", SELECT_POOL),
            Panel::graph("New slow requests", PanelUnit::Count)
                .show(new(&VDEV_SLOW_IOS), POOL_LEGEND)
                .leading_to("poolwright-vdevs", SELECT_POOL),
            Panel::graph("Damaged blocks or files", PanelUnit::Count)
                .show(of(&POOL_DATA_ERRORS).top(), POOL_LEGEND)
                .limits(PanelThresholds::CriticalFrom(1.0)),
            Panel::graph("Lost files of pools on files", PanelUnit::Count)
                .show(of(&POOL_FILE_FAULTS).top(), POOL_LEGEND)
                .limits(PanelThresholds::CriticalFrom(1.0)),
        ],
    )
}

fn events() -> PanelRow {
    let by_class = of(&EVENTS).increase(Window::RateInterval).sum_by(&["class"]);
    let by_pool = of(&EVENTS).increase(Window::RateInterval).like("class", "ereport.*").sum_by(&OF_POOL);
    row(
        "Events of the kernel module",
        [
            Panel::graph("Events by class", PanelUnit::Count).show(by_class.above(0.0).top(), "{{class}}"),
            Panel::graph("Error reports by pool", PanelUnit::Count)
                .show(by_pool.above(0.0).top(), POOL_LEGEND)
                .note("Events whose class begins with ereport."),
            Panel::graph("Lost error reports", PanelUnit::Count)
                .show(of(&EVENTS_DROPPED).increase(Window::RateInterval).top(), "{{instance}}")
                .limits(PanelThresholds::CriticalFrom(1.0)),
        ],
    )
}
