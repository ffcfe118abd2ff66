//! The vdevs of pools: state, rates, latency, request sizes, errors.

use poolwright_monitor::MetricFamily;
use poolwright_monitor::family::*;

use super::shared::{self, OF_VDEV, leaves, row, state_code};
use crate::board::{Board, PanelRow, Variable};
use crate::panel::{Panel, PanelThresholds, PanelUnit};
use crate::query::{Query, Window, buckets, of, rate};

const VDEV_LEGEND: &str = "{{instance}} {{pool}} {{vdev}}";
/// The classes whose vdevs have requests of their own; `root` is their sum.
const NOT_ROOT: &str = "root";

pub(super) fn board() -> Board {
    const QUEUES: &[&str] = &[
        "disk_read",
        "disk_write",
        "total_read",
        "total_write",
        "sync_read",
        "sync_write",
        "async_read",
        "async_write",
        "scrub",
        "trim",
        "rebuild",
    ];
    const OPS: &[&str] =
        &["sync_read", "sync_write", "async_read", "async_write", "scrub", "trim", "rebuild"];
    Board {
        uid: "poolwright-vdevs",
        title: "ZFS vdevs",
        help: "Which vdevs are slow, busy or failing: state, rates, latency, request sizes, errors.",
        variables: vec![
            shared::JOB,
            shared::INSTANCE,
            shared::ENGINE,
            shared::POOL,
            Variable::label(
                "Class",
                &VDEV_STATE_NOW,
                "class",
                "Data vdevs (normal), or log, cache, special, dedup, spare",
            ),
            Variable::pattern("Vdev (pattern)", "vdev", "A regular expression for the name or path of vdevs"),
            Variable::list(
                "queue",
                "Queue",
                QUEUES,
                "The part of a request's time, for the heat map and the percentiles",
            ),
            Variable::list("op", "Operation", OPS, "The operation of requests, for their sizes"),
            shared::TOP,
        ],
        rows: vec![states(), rates(), latency(), histograms(), sizes(), errors()],
    }
}

fn states() -> PanelRow {
    let code = || state_code(&VDEV_STATE_NOW, shared::VDEV_STATES, &OF_VDEV);
    let worst = || code().top();
    let of_worst = |query: Query| query.max_by(&OF_VDEV).among(worst());
    let errors = |family| of_worst(of(family));
    let bad = PanelThresholds::CriticalFrom(1.0);
    let table = Panel::table("Vdevs in the worst states")
        .state_column("State", shared::VDEV_STATES, worst())
        .column("Size", PanelUnit::Bytes, of_worst(of(&VDEV_SIZE)))
        .limited_column(
            "Allocated",
            PanelUnit::Percent,
            PanelThresholds::Above(0.8, 0.9),
            of_worst(of(&VDEV_ALLOCATED) / of(&VDEV_SIZE)),
        )
        .column("Sector", PanelUnit::Bytes, of_worst(of(&VDEV_SECTOR)))
        .limited_column("Read errors", PanelUnit::Count, bad, errors(&VDEV_READ_ERRORS))
        .limited_column("Write errors", PanelUnit::Count, bad, errors(&VDEV_WRITE_ERRORS))
        .limited_column("Checksum errors", PanelUnit::Count, bad, errors(&VDEV_CHECKSUM_ERRORS))
        .limited_column(
            "Slow requests",
            PanelUnit::Count,
            PanelThresholds::Above(1.0, 100.0),
            errors(&VDEV_SLOW_IOS),
        );
    let timeline = Panel::timeline("State", shared::VDEV_STATES).show(worst(), VDEV_LEGEND);
    let places =
        Panel::table("Places of vdevs").note("The type of each vdev, and the vdev above it.").column(
            "Vdevs",
            PanelUnit::Count,
            of(&VDEV_INFO).count_by(&["instance", "pool", "vdev", "type", "parent"]).top(),
        );
    row("State", [table, timeline, places])
}

/// The rate of a counter of vdevs other than the root.
fn vdev_rate(family: &'static MetricFamily) -> Query {
    rate(family).unlike("class", NOT_ROOT)
}

fn rates() -> PanelRow {
    let panel = |title, unit, family| Panel::graph(title, unit).show(vdev_rate(family).top(), VDEV_LEGEND);
    row(
        "Rates",
        [
            panel("Bytes read", PanelUnit::BytesPerSecond, &VDEV_READ_BYTES),
            panel("Bytes written", PanelUnit::BytesPerSecond, &VDEV_WRITE_BYTES),
            panel("Reads", PanelUnit::PerSecond, &VDEV_READS),
            panel("Writes", PanelUnit::PerSecond, &VDEV_WRITES),
            panel("Cache flushes", PanelUnit::PerSecond, &VDEV_FLUSHES),
            panel("Bytes trimmed", PanelUnit::BytesPerSecond, &VDEV_TRIM_BYTES),
            panel("Trim requests", PanelUnit::PerSecond, &VDEV_TRIMS).sized(24, 8),
        ],
    )
}

/// The typical time of a request at each device or file: the mean, or the median where ZFS counts only a histogram.
fn typical(time: &'static MetricFamily, requests: &'static MetricFamily, queue: &str) -> Query {
    let mean = leaves(vdev_rate(time) / vdev_rate(requests)).max_by(&OF_VDEV);
    let with_bound = ["instance", "engine", "pool", "vdev", "class", "le"];
    let of_queue = leaves(buckets(&VDEV_LATENCY).with("queue", queue).unlike("class", NOT_ROOT));
    mean.or(of_queue.sum_by(&with_bound).quantile(0.5))
}

fn latency() -> PanelRow {
    const TYPICAL: &str =
        "Of user-space pools the mean, of kernel pools the median: ZFS counts only a histogram of them.";
    const PEERS: &str =
        "The typical time of a device, divided by the mean of all devices of its class in the pool.";
    let reads = || typical(&VDEV_READ_TIME, &VDEV_READS, "disk_read");
    let writes = || typical(&VDEV_WRITE_TIME, &VDEV_WRITES, "disk_write");
    let peers = ["instance", "engine", "pool", "class"];
    // An idle vdev has no mean (0/0), and would leave its peers without one.
    let among_peers = |times: Query| times.clone().over_group(&peers, times.above(0.0).avg_by(&peers)).top();
    let panel = |title, unit, note, query| Panel::graph(title, unit).note(note).show(query, VDEV_LEGEND);
    let flushes = vdev_rate(&VDEV_FLUSH_TIME) / vdev_rate(&VDEV_FLUSHES);
    let in_flight = |time| vdev_rate(time).top();
    row(
        "Latency",
        [
            panel("Typical time of reads", PanelUnit::Seconds, TYPICAL, reads().top()),
            panel("Typical time of writes", PanelUnit::Seconds, TYPICAL, writes().top()),
            panel("Time of reads beside the peers", PanelUnit::Multiple, PEERS, among_peers(reads()))
                .limits(PanelThresholds::Above(2.0, 5.0)),
            panel("Time of writes beside the peers", PanelUnit::Multiple, PEERS, among_peers(writes()))
                .limits(PanelThresholds::Above(2.0, 5.0)),
            panel("Mean time of cache flushes", PanelUnit::Seconds, "User-space pools only.", flushes.top()),
            Panel::graph("Requests in progress, mean number", PanelUnit::Count)
                .note("The time in requests per second. User-space pools only.")
                .show(in_flight(&VDEV_READ_TIME), "{{instance}} {{pool}} {{vdev}} reads")
                .show(in_flight(&VDEV_WRITE_TIME), "{{instance}} {{pool}} {{vdev}} writes"),
        ],
    )
}

/// The latency buckets of the chosen queue.
fn latency_buckets() -> Query {
    leaves(buckets(&VDEV_LATENCY).with("queue", "$queue").unlike("class", NOT_ROOT))
}

fn histograms() -> PanelRow {
    let by_vdev = ["instance", "pool", "vdev", "le"];
    let by_queue = ["queue", "le"];
    let queues = || {
        buckets(&VDEV_LATENCY).like("queue", "(sync|async)_.*|scrub|trim|rebuild").unlike("class", NOT_ROOT)
    };
    let quantile = |q: f64| latency_buckets().sum_by(&by_vdev).quantile(q).top();
    row(
        "Distribution of latency",
        [
            Panel::heatmap("Latency of the chosen queue", PanelUnit::Seconds, latency_buckets().sum_by(&["le"]))
                .note("Requests per second of all chosen vdevs, by their time. The queue is chosen above.")
                .sized(24, 10),
            Panel::graph("99th percentile", PanelUnit::Seconds)
                .note("Of the queue that is chosen above. Between the bounds of buckets, the value is interpolated.")
                .show(quantile(0.99), VDEV_LEGEND),
            Panel::graph("Median", PanelUnit::Seconds)
                .note("Of the queue that is chosen above. Between the bounds of buckets, the value is interpolated.")
                .show(quantile(0.5), VDEV_LEGEND),
            Panel::graph("Wait in ZFS's queues, 99th percentile", PanelUnit::Seconds)
                .note("How long requests of all chosen vdevs wait in each queue before they reach the device.")
                .show(leaves(queues()).sum_by(&by_queue).quantile(0.99), "{{queue}}"),
            Panel::graph("Requests by queue", PanelUnit::PerSecond)
                .stacked()
                .show(leaves(queues().with("le", "+Inf")).sum_by(&["queue"]), "{{queue}}"),
        ],
    )
}

fn sizes() -> PanelRow {
    let chosen = leaves(buckets(&VDEV_REQUEST_SIZE).with("op", "$op").unlike("class", NOT_ROOT));
    let all = || buckets(&VDEV_REQUEST_SIZE).unlike("class", NOT_ROOT);
    let mean = |bytes, requests| (vdev_rate(bytes) / vdev_rate(requests)).top();
    row(
        "Request sizes",
        [
            Panel::heatmap("Sizes of the chosen operation", PanelUnit::Bytes, chosen.sum_by(&["le"]))
                .note(
                    "Requests per second of all chosen vdevs, by their size. The operation is chosen above.",
                )
                .sized(24, 10),
            Panel::graph("Median size by operation", PanelUnit::Bytes)
                .show(leaves(all()).sum_by(&["op", "le"]).quantile(0.5), "{{op}}"),
            Panel::graph("Requests by operation", PanelUnit::PerSecond)
                .stacked()
                .show(leaves(all().with("le", "+Inf")).sum_by(&["op"]), "{{op}}"),
            Panel::graph("Mean size of reads", PanelUnit::Bytes)
                .show(mean(&VDEV_READ_BYTES, &VDEV_READS), VDEV_LEGEND),
            Panel::graph("Mean size of writes", PanelUnit::Bytes)
                .show(mean(&VDEV_WRITE_BYTES, &VDEV_WRITES), VDEV_LEGEND),
        ],
    )
}

fn errors() -> PanelRow {
    let new = |family| of(family).increase(Window::RateInterval).above(0.0).top();
    let panel = |title, family| Panel::graph(title, PanelUnit::Count).show(new(family), VDEV_LEGEND);
    row(
        "Errors",
        [
            panel("New read errors", &VDEV_READ_ERRORS),
            panel("New write errors", &VDEV_WRITE_ERRORS),
            panel("New checksum errors", &VDEV_CHECKSUM_ERRORS),
            panel("New slow requests", &VDEV_SLOW_IOS),
        ],
    )
}
