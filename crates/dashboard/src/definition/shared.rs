//! Variables, states and queries that several dashboards use.

use poolwright_monitor::MetricFamily;
use poolwright_monitor::family::{EXPORTER_INFO, POOL_OPEN, VDEV_INFO};

use crate::board::{PanelRow, Variable};
use crate::panel::{CodedState, Panel, StateColor};
use crate::query::{Query, of};

/// The Prometheus job of the exporters.
pub(super) const JOB: Variable =
    Variable::label("Job", &EXPORTER_INFO, "job", "The scrape job of the exporters in Prometheus");
/// The hosts.
pub(super) const INSTANCE: Variable =
    Variable::label("Host", &EXPORTER_INFO, "instance", "The address of an exporter, one for each host");
/// The engines.
pub(super) const ENGINE: Variable =
    Variable::label("Engine", &POOL_OPEN, "engine", "kernel, or user for pools of the user-space engine");
/// The pools.
pub(super) const POOL: Variable = Variable::label("Pool", &POOL_OPEN, "pool", "Pools of the chosen hosts");
/// The number of series that a panel shows.
pub(super) const TOP: Variable = Variable::list(
    "top",
    "At most",
    &["10", "5", "20", "50", "100"],
    "Panels that could have one series for each resource show only this number of them",
);

/// The labels of a pool.
pub(super) const OF_POOL: [&str; 3] = ["instance", "engine", "pool"];
/// The labels of a vdev.
pub(super) const OF_VDEV: [&str; 5] = ["instance", "engine", "pool", "vdev", "class"];
/// The labels of a dataset.
pub(super) const OF_DATASET: [&str; 4] = ["instance", "engine", "pool", "dataset"];
/// The labels by which a link selects a pool. It selects the engine too, because two engines may have pools of one name.
pub(super) const SELECT_POOL: &[&str] = &["instance", "engine", "pool"];

const fn state(code: u32, name: &'static str, severity: StateColor) -> CodedState {
    CodedState { code, name, severity }
}

/// The states of pools, from good to bad. The last stands for names that are not in the list.
pub(super) const POOL_STATES: &[CodedState] = &[
    state(0, "ONLINE", StateColor::Good),
    state(1, "DEGRADED", StateColor::Warning),
    state(2, "UNAVAIL", StateColor::Critical),
    state(3, "FAULTED", StateColor::Critical),
    state(4, "SUSPENDED", StateColor::Critical),
    state(5, "another state", StateColor::Warning),
];
/// The states of vdevs, from good to bad. The last stands for names that are not in the list.
pub(super) const VDEV_STATES: &[CodedState] = &[
    state(0, "ONLINE", StateColor::Good),
    state(1, "AVAIL", StateColor::Good),
    state(2, "INUSE", StateColor::Warning),
    state(3, "OFFLINE", StateColor::Warning),
    state(4, "DEGRADED", StateColor::Warning),
    state(5, "REMOVED", StateColor::Critical),
    state(6, "UNAVAIL", StateColor::Critical),
    state(7, "FAULTED", StateColor::Critical),
    state(8, "another state", StateColor::Warning),
];
/// A condition that should hold.
pub(super) const UP: &[CodedState] =
    &[state(0, "failed", StateColor::Critical), state(1, "up", StateColor::Good)];
/// Whether a promise or a property is kept.
pub(super) const KEPT: &[CodedState] =
    &[state(0, "not kept", StateColor::Warning), state(1, "kept", StateColor::Good)];

/// The code of the present state of each resource. The family has one series for each state; 1 marks the present one.
pub(super) fn state_code(family: &'static MetricFamily, states: &[CodedState], by: &[&'static str]) -> Query {
    let (other, named) = states.split_last().expect("there are states");
    let names: Vec<&str> = named.iter().map(|state| state.name).collect();
    let code = |state: &CodedState| f64::from(state.code);
    let of_named = named.iter().map(|state| of(family).with("state", state.name) * code(state));
    let of_other = of(family).unlike("state", &names.join("|")) * code(other);
    of_named.chain([of_other]).reduce(Query::or).expect("there are states").max_by(by)
}

/// Only series of vdevs that are devices or files. Those above them (mirrors, raidz groups, the root) count the same requests
/// again. Series of user-space pools have no type, and only files have rates there.
pub(super) fn leaves(of_vdevs: Query) -> Query {
    let groups = of(&VDEV_INFO).unlike("type", "disk|file");
    of_vdevs.unless_on(&["instance", "engine", "pool", "vdev"], groups)
}

/// The number of series with 1 for states other than the good ones.
pub(super) fn not_in_state(family: &'static MetricFamily, good: &str) -> Query {
    of(family).unlike("state", good).equal_to(1.0).count()
}

/// A row of panels.
pub(super) fn row(title: &'static str, panels: impl IntoIterator<Item = Panel>) -> PanelRow {
    PanelRow { title, panels: panels.into_iter().collect() }
}
