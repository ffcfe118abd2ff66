//! The report card of plans: what they promised and recommended, beside the present.

use poolwright_monitor::family::*;

use super::shared::{self, KEPT, row};
use crate::board::{Board, PanelRow, Variable, VariableValues};
use crate::metric::QueryMetric;
use crate::panel::{Panel, PanelThresholds, PanelUnit};
use crate::query::{Query, now, of};

/// The labels of a promise.
const OF_PROMISE: [&str; 6] = ["instance", "plan", "role", "path", "dataset", "metric"];
/// The labels of a role.
const OF_ROLE: [&str; 5] = ["instance", "plan", "role", "path", "dataset"];
const ROLE_LEGEND: &str = "{{instance}} {{role}} {{dataset}}";
const PROMISE_LEGEND: &str = "{{instance}} {{role}} {{metric}}";
const DAY: f64 = 86_400.0;
/// The figures that are sizes of requests.
const SIZES: &str = "mean_.*_bytes";
const SIZE_NOTE: &str =
    "Far from 100 %, programs read and write in other sizes than when the plan was made: tune again.";

pub(super) fn board() -> Board {
    let metric = VariableValues::Label {
        metric: QueryMetric::Own(&PROMISE_VALUE),
        label: "metric",
        is_multiple: true,
    };
    Board {
        uid: "poolwright-plan",
        title: "Plan report card",
        help: "Whether plans still fit: promises beside the present, properties, block sizes of files, sizes of requests.",
        variables: vec![
            shared::JOB,
            shared::INSTANCE,
            Variable::label("Plan", &PLAN_CREATED, "plan", "The file of the plan"),
            Variable::label("Role", &PROMISE_VALUE, "role", "The role of files, such as data or log"),
            Variable {
                name: "metric",
                title: "Promise",
                help: "The promised figures",
                choice: metric,
                scope: Some("metric"),
            },
            shared::TOP,
        ],
        rows: vec![overview(), promises(), verified(), properties(), files(), single()],
    }
}

/// 1 if the present value is in the promised interval, 0 if not.
fn is_kept() -> Query {
    of(&PROMISE_PRESENT).is_at_least(of(&PROMISE_LOW)) * of(&PROMISE_HIGH).is_at_least(of(&PROMISE_PRESENT))
}

/// The share of a role's examined files whose block size is not the record size.
fn other_size() -> Query {
    of(&PLAN_FILES_OTHER_SIZE) / of(&PLAN_FILES)
}

/// The mean size of reads and writes by programs, relative to that of the recording.
fn size_change() -> Query {
    of(&PROMISE_PRESENT).like("metric", SIZES) / of(&PROMISE_VALUE).like("metric", SIZES)
}

fn overview() -> PanelRow {
    let warn = PanelThresholds::WarningFrom(1.0);
    row(
        "Overview",
        [
            Panel::stat("Plans", PanelUnit::Count, of(&PLAN_CREATED).count()),
            Panel::stat("Oldest plan, age", PanelUnit::Seconds, (now() - of(&PLAN_CREATED)).max_by(&[]))
                .limits(PanelThresholds::Above(180.0 * DAY, 365.0 * DAY)),
            Panel::stat("Promises outside their interval", PanelUnit::Count, is_kept().equal_to(0.0).count())
                .limits(warn),
            Panel::stat(
                "Properties not kept",
                PanelUnit::Count,
                of(&PLAN_PROPERTY_KEPT).equal_to(0.0).count(),
            )
            .limits(warn),
            Panel::stat("Files with another block size", PanelUnit::Percent, {
                of(&PLAN_FILES_OTHER_SIZE).sum_by(&[]) / of(&PLAN_FILES).sum_by(&[])
            })
            .limits(PanelThresholds::Above(0.05, 0.5)),
            Panel::stat("Plans that were verified and are broken", PanelUnit::Count, {
                of(&PLAN_BROKEN).sum_by(&[])
            })
            .limits(warn),
            Panel::stat(
                "Mean size of requests, of the recorded",
                PanelUnit::Percent,
                size_change().avg_by(&[]),
            ),
        ],
    )
}

/// What `poolwright verify` has measured in operation.
fn verified() -> PanelRow {
    let labels = ["instance", "plan", "metric"];
    let value = |family| of(family).max_by(&labels);
    let table = Panel::table("Verified promises")
        .note("Changes in operation, measured by `poolwright verify` before the plan was applied and afterwards: 50 % is half as much again.")
        .column("Promised", PanelUnit::Percent, value(&VERIFIED_PROMISED))
        .column("Measured", PanelUnit::Percent, value(&VERIFIED_CHANGE))
        .column("From", PanelUnit::Percent, value(&VERIFIED_LOW))
        .column("To", PanelUnit::Percent, value(&VERIFIED_HIGH));
    let age = (now() - of(&PLAN_VERIFIED_AT)).max_by(&["instance", "plan"]);
    row(
        "Verification",
        [
            table,
            Panel::graph("Time since the last verification", PanelUnit::Seconds)
                .show(age, "{{instance}} {{plan}}"),
        ],
    )
}

fn promises() -> PanelRow {
    // Both directions count: a promise that is exceeded by far may mean that the work has changed.
    let relative = || (of(&PROMISE_PRESENT) / of(&PROMISE_VALUE)).max_by(&OF_PROMISE);
    let shown = || is_kept().max_by(&OF_PROMISE).bottom();
    let value = |family| of(family).max_by(&OF_PROMISE).among(shown());
    let table = Panel::table("Promises")
        .note("Figures for which the plan has an interval, in the unit of each figure. Those outside come first.")
        .state_column("Promise", KEPT, shown())
        .column("Promised", PanelUnit::Count, value(&PROMISE_VALUE))
        .column("From", PanelUnit::Count, value(&PROMISE_LOW))
        .column("To", PanelUnit::Count, value(&PROMISE_HIGH))
        .column("Present", PanelUnit::Count, value(&PROMISE_PRESENT))
        .column("Present, of promised", PanelUnit::Percent, relative().among(shown()));
    row(
        "Promises",
        [
            table,
            Panel::timeline("Promises kept", KEPT)
                .note("Promises outside their interval come first.")
                .show(shown(), PROMISE_LEGEND),
            Panel::graph("Present value, of the promised one", PanelUnit::Percent)
                .show(relative().top(), PROMISE_LEGEND)
                .note("The highest. Whether more or less is better depends on the figure."),
            Panel::graph("Present value, of the promised one (lowest)", PanelUnit::Percent)
                .show(relative().bottom(), PROMISE_LEGEND)
                .note("The lowest. Whether more or less is better depends on the figure."),
        ],
    )
}

fn properties() -> PanelRow {
    let labels = ["instance", "role", "dataset", "property", "planned", "present"];
    let kept = || of(&PLAN_PROPERTY_KEPT).max_by(&labels).bottom();
    row(
        "Properties",
        [
            Panel::table("Planned and present values")
                .note("Properties that differ come first.")
                .state_column("State", KEPT, kept()),
            Panel::timeline("Properties kept", KEPT)
                .note("Properties that differ come first.")
                .show(kept(), "{{instance}} {{dataset}} {{property}} {{planned}}"),
        ],
    )
}

fn files() -> PanelRow {
    row(
        "Files and requests",
        [
            Panel::graph(
                "Files with another block size than their dataset's record size",
                PanelUnit::Percent,
            )
            .show(other_size().max_by(&OF_ROLE).top(), ROLE_LEGEND)
            .limits(PanelThresholds::Above(0.05, 0.5))
            .up_to(1.0),
            Panel::graph("Examined files", PanelUnit::Count).show(of(&PLAN_FILES).top(), ROLE_LEGEND),
            Panel::graph("Mean size of requests, of the recorded (highest)", PanelUnit::Percent)
                .note(SIZE_NOTE)
                .show(size_change().top(), PROMISE_LEGEND),
            Panel::graph("Mean size of requests, of the recorded (lowest)", PanelUnit::Percent)
                .note(SIZE_NOTE)
                .show(size_change().bottom(), PROMISE_LEGEND),
        ],
    )
}

fn single() -> PanelRow {
    let line = |family| of(family).max_by(&OF_PROMISE).top();
    row(
        "Each promise",
        [Panel::graph("$metric", PanelUnit::Count)
            .note("In the unit of the figure.")
            .repeated("metric")
            .show(line(&PROMISE_PRESENT), "{{instance}} {{role}} present")
            .show(line(&PROMISE_VALUE), "{{instance}} {{role}} promised")
            .show(line(&PROMISE_LOW), "{{instance}} {{role}} promised, from")
            .show(line(&PROMISE_HIGH), "{{instance}} {{role}} promised, to")],
    )
}
