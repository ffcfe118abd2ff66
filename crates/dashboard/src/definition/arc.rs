//! The ARC and the L2ARC: size, hits, what a larger one would gain.

use poolwright_monitor::family::*;

use super::shared::{self, row};
use crate::board::{Board, PanelRow, Variable};
use crate::panel::{Panel, PanelThresholds, PanelUnit};
use crate::query::{Query, Window, of, rate};

/// The kernel's ARC has no pool.
const ARC_LEGEND: &str = "{{instance}} {{pool}}";

pub(super) fn board() -> Board {
    let pool_help = "The user-space pool whose process has the ARC. All includes the ARC of the kernel, which has no pool";
    Board {
        uid: "poolwright-arc",
        title: "ZFS ARC",
        help: "Whether the caches are large enough, and whether they leave enough memory: size, hits, ghost hits, L2ARC.",
        variables: vec![
            shared::JOB,
            shared::INSTANCE,
            Variable::label(
                "Engine",
                &ARC_SIZE,
                "engine",
                "kernel, or user for pools of the user-space engine",
            ),
            Variable::label("User-space pool", &ARC_SIZE, "pool", pool_help),
            shared::TOP,
        ],
        rows: vec![overview(), size(), hits(), pressure(), l2arc(), module()],
    }
}

fn top(title: &'static str, unit: PanelUnit, query: Query) -> Panel {
    Panel::graph(title, unit).show(query.top(), ARC_LEGEND)
}

/// The share of accesses of the given types that did not wait for a device, by labels.
fn hit_share(types: &str, by: &[&'static str]) -> Query {
    let accesses = || rate(&ARC_ACCESSES).like("type", types);
    accesses().with("result", "hit").sum_by(by) / accesses().sum_by(by)
}

fn overview() -> PanelRow {
    use PanelUnit::{Bytes, PerSecond, Percent};
    let misses = rate(&ARC_ACCESSES).like("type", "demand_.*").with("result", "miss").sum_by(&[]);
    let ghosts = rate(&ARC_MRU_GHOST_HITS).sum_by(&[]) + rate(&ARC_MFU_GHOST_HITS).sum_by(&[]);
    let l2 =
        rate(&L2ARC_HITS).sum_by(&[]) / (rate(&L2ARC_HITS).sum_by(&[]) + rate(&L2ARC_MISSES).sum_by(&[]));
    row(
        "Overview",
        [
            Panel::stat("Size", Bytes, of(&ARC_SIZE).sum_by(&[])),
            Panel::stat("Maximum", Bytes, of(&ARC_MAX).sum_by(&[])),
            Panel::stat("Demand hits", Percent, hit_share("demand_.*", &[]))
                .limits(PanelThresholds::Below(0.8, 0.95)),
            Panel::stat("Demand misses", PerSecond, misses),
            Panel::stat("Ghost hits", PerSecond, ghosts),
            Panel::stat("L2ARC hits", Percent, l2),
        ],
    )
}

fn size() -> PanelRow {
    let state = of(&ARC_STATE_SIZE).unlike("state", ".*ghost").sum_by(&["state"]);
    let ghosts = of(&ARC_STATE_SIZE).like("state", ".*ghost").sum_by(&["state"]);
    row(
        "Size",
        [
            Panel::graph("Size, target and limits", PanelUnit::Bytes)
                .note("The sum over the chosen hosts and engines.")
                .show(of(&ARC_SIZE).sum_by(&[]), "size")
                .show(of(&ARC_TARGET).sum_by(&[]), "target")
                .show(of(&ARC_MAX).sum_by(&[]), "maximum")
                .show(of(&ARC_MIN).sum_by(&[]), "minimum"),
            Panel::graph("States", PanelUnit::Bytes)
                .stacked()
                .show(state, "{{state}}")
                .show(ghosts, "{{state}} (no data)"),
            Panel::graph("Target, share of the maximum", PanelUnit::Percent)
                .note("The ARCs that are furthest below their maximum.")
                .show((of(&ARC_TARGET) / of(&ARC_MAX)).bottom(), ARC_LEGEND)
                .limits(PanelThresholds::Below(0.25, 0.5))
                .up_to(1.0),
            top(
                "Compression of cached blocks",
                PanelUnit::Multiple,
                of(&ARC_UNCOMPRESSED) / of(&ARC_COMPRESSED),
            ),
            Panel::graph("Metadata and structures", PanelUnit::Bytes)
                .show(of(&ARC_METADATA).top(), "{{instance}} {{pool}} metadata")
                .show(of(&ARC_OVERHEAD).top(), "{{instance}} {{pool}} headers and structures"),
            Panel::graph("Memory of the host, and available to programs", PanelUnit::Bytes)
                .show(of(&HOST_MEMORY).top(), "{{instance}} memory")
                .show(of(&HOST_MEMORY_AVAILABLE).bottom(), "{{instance}} available"),
            Panel::graph("ARC of the kernel, share of the host's memory", PanelUnit::Percent)
                .show(
                    (of(&ARC_SIZE).with("engine", "kernel").max_by(&["job", "instance"]) / of(&HOST_MEMORY))
                        .top(),
                    "{{instance}}",
                )
                .limits(PanelThresholds::Above(0.75, 0.9))
                .up_to(1.0),
        ],
    )
}

fn hits() -> PanelRow {
    let by_arc = ["instance", "engine", "pool"];
    let misses = rate(&ARC_ACCESSES).like("type", "demand_.*").with("result", "miss").sum_by(&by_arc);
    let by_type = rate(&ARC_ACCESSES).sum_by(&["type", "result"]);
    row(
        "Hits and misses",
        [
            Panel::graph("Hits by type", PanelUnit::Percent)
                .note("The share of accesses that found the block in memory. An iohit is not counted as a hit: it waits for a read under way.")
                .show(hit_share(".*", &["type"]), "{{type}}")
                .up_to(1.0),
            Panel::graph("Lowest shares of demand hits", PanelUnit::Percent)
                .show(hit_share("demand_.*", &by_arc).bottom(), ARC_LEGEND)
                .limits(PanelThresholds::Below(0.8, 0.95))
                .up_to(1.0),
            top("Demand misses", PanelUnit::PerSecond, misses),
            Panel::graph("Accesses by type and result", PanelUnit::PerSecond).show(by_type, "{{type}} {{result}}"),
            Panel::graph("Ghost hits", PanelUnit::PerSecond)
                .note("Misses that a larger ARC would have answered. None: a larger ARC would gain nothing now.")
                .show(rate(&ARC_MRU_GHOST_HITS).top(), "{{instance}} {{pool}} recently used")
                .show(rate(&ARC_MFU_GHOST_HITS).top(), "{{instance}} {{pool}} frequently used"),
        ],
    )
}

fn pressure() -> PanelRow {
    let new = |family| of(family).increase(Window::RateInterval).above(0.0).top();
    row(
        "Shortage of memory",
        [
            Panel::graph("Reclaims", PanelUnit::Count)
                .show(new(&ARC_DIRECT_RECLAIMS), "{{instance}} {{pool}} at once")
                .show(new(&ARC_BACKGROUND_RECLAIMS), "{{instance}} {{pool}} in the background"),
            Panel::graph("Writers that waited for memory", PanelUnit::Count)
                .show(new(&ARC_THROTTLED), ARC_LEGEND)
                .limits(PanelThresholds::WarningFrom(1.0)),
            Panel::graph("ARCs that may not grow", PanelUnit::Count)
                .show(of(&ARC_NO_GROW).above(0.0).count(), "ARCs that may not grow")
                .sized(24, 7),
        ],
    )
}

fn l2arc() -> PanelRow {
    let hits = rate(&L2ARC_HITS) / (rate(&L2ARC_HITS) + rate(&L2ARC_MISSES));
    row(
        "L2ARC",
        [
            top("Hits", PanelUnit::Percent, hits).up_to(1.0),
            Panel::graph("Size and occupied space", PanelUnit::Bytes)
                .show(of(&L2ARC_SIZE).top(), "{{instance}} {{pool}} size")
                .show(of(&L2ARC_ALLOCATED).top(), "{{instance}} {{pool}} occupied"),
            top("Memory for headers", PanelUnit::Bytes, of(&L2ARC_HEADERS)),
            Panel::graph("Bytes read and written", PanelUnit::BytesPerSecond)
                .show(rate(&L2ARC_READ_BYTES).top(), "{{instance}} {{pool}} read")
                .show(rate(&L2ARC_WRITE_BYTES).top(), "{{instance}} {{pool}} written"),
            top("New errors", PanelUnit::Count, of(&L2ARC_ERRORS).increase(Window::RateInterval))
                .limits(PanelThresholds::CriticalFrom(1.0)),
        ],
    )
}

fn module() -> PanelRow {
    let by_host = ["instance"];
    let prefetch = || rate(&PREFETCH_ACCESSES);
    let share = prefetch().with("result", "hit").sum_by(&by_host) / prefetch().sum_by(&by_host);
    row(
        "Prefetch and dbuf cache of the kernel module",
        [
            Panel::graph("Accesses that continue a known stream", PanelUnit::Percent)
                .show(share.top(), "{{instance}}")
                .up_to(1.0),
            Panel::graph("Dbuf cache", PanelUnit::Bytes)
                .show(of(&DBUF_CACHE).top(), "{{instance}} size")
                .show(of(&DBUF_CACHE_TARGET).top(), "{{instance}} target"),
        ],
    )
}
