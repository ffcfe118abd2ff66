//! The exporters themselves: sources, cost, releases.

use poolwright_monitor::family::*;

use super::shared::{self, UP, row};
use crate::board::{Board, PanelRow, Variable};
use crate::metric::{SCRAPE_DURATION, SCRAPE_SAMPLES, UP as SCRAPED};
use crate::panel::{Panel, PanelThresholds, PanelUnit};
use crate::query::{Query, Window, of, rate};

const SOURCE_LEGEND: &str = "{{instance}} {{source}} {{pool}}";

pub(super) fn board() -> Board {
    Board {
        uid: "poolwright-exporter",
        title: "Poolwright exporters",
        help: "Whether the figures of the other dashboards are present and fresh, and what they cost.",
        variables: vec![
            shared::JOB,
            shared::INSTANCE,
            Variable::label("Source", &SOURCE_UP, "source", "What an exporter reads"),
            shared::TOP,
        ],
        rows: vec![overview(), sources(), cost(), releases()],
    }
}

fn top(title: &'static str, unit: PanelUnit, query: Query) -> Panel {
    Panel::graph(title, unit).show(query.top(), "{{instance}}")
}

fn overview() -> PanelRow {
    use PanelUnit::{Bytes, Count, Seconds};
    let bad = PanelThresholds::CriticalFrom(1.0);
    row(
        "Overview",
        [
            Panel::stat("Exporters", Count, of(&EXPORTER_INFO).count()),
            Panel::stat("Failed scrapes", Count, of(&SCRAPED).equal_to(0.0).count()).limits(bad),
            Panel::stat("Sources not up", Count, of(&SOURCE_UP).equal_to(0.0).count()).limits(bad),
            Panel::stat("Oldest readings", Seconds, of(&SOURCE_AGE).max_by(&[]))
                .limits(PanelThresholds::Above(60.0, 300.0)),
            Panel::stat("Samples of all scrapes", Count, of(&SCRAPE_SAMPLES).sum_by(&[])),
            Panel::stat("Largest exporter", Bytes, of(&EXPORTER_MEMORY).max_by(&[]))
                .limits(PanelThresholds::Above(64.0 * 1024.0 * 1024.0, 256.0 * 1024.0 * 1024.0)),
        ],
    )
}

fn sources() -> PanelRow {
    let top = |title, unit, query: Query| Panel::graph(title, unit).show(query.top(), SOURCE_LEGEND);
    row(
        "Sources",
        [
            Panel::timeline("Sources", UP)
                .note("Failed sources come first.")
                .show(of(&SOURCE_UP).bottom(), SOURCE_LEGEND),
            top("Age of the readings", PanelUnit::Seconds, of(&SOURCE_AGE))
                .limits(PanelThresholds::Above(60.0, 300.0)),
            top("Duration of a read", PanelUnit::Seconds, of(&SOURCE_DURATION)),
            top("Reads", PanelUnit::PerSecond, rate(&SOURCE_READS)),
            top(
                "New failures",
                PanelUnit::Count,
                of(&SOURCE_FAILURES).increase(Window::RateInterval).above(0.0),
            )
            .limits(PanelThresholds::WarningFrom(1.0)),
        ],
    )
}

fn cost() -> PanelRow {
    row(
        "Cost",
        [
            top("Memory", PanelUnit::Bytes, of(&EXPORTER_MEMORY)),
            top("CPU, share of one processor", PanelUnit::Percent, rate(&EXPORTER_CPU))
                .limits(PanelThresholds::Above(0.05, 0.5)),
            top("Scrapes", PanelUnit::PerSecond, rate(&EXPORTER_SCRAPES)),
            top(
                "Rejected connections",
                PanelUnit::Count,
                of(&EXPORTER_REJECTED).increase(Window::RateInterval).above(0.0),
            )
            .limits(PanelThresholds::WarningFrom(1.0)),
            top("Samples of a scrape", PanelUnit::Count, of(&SCRAPE_SAMPLES)),
            top("Duration of a scrape", PanelUnit::Seconds, of(&SCRAPE_DURATION)),
        ],
    )
}

fn releases() -> PanelRow {
    row(
        "Releases",
        [
            Panel::table("Exporters by release")
                .column("Exporters", PanelUnit::Count, of(&EXPORTER_INFO).count_by(&["version"]))
                .sized(12, 8),
            Panel::table("Kernel modules by release")
                .column("Hosts", PanelUnit::Count, of(&MODULE_INFO).count_by(&["kernel", "programs"]))
                .sized(12, 8),
        ],
    )
}
