//! The tab of the ARCs.

use crate::family::{
    ARC, ARC_ACCESS, ARC_ACCESSES, ARC_MAX, ARC_MFU_GHOST_HITS, ARC_MIN, ARC_MRU_GHOST_HITS, ARC_NO_GROW,
    ARC_SIZE, ARC_STATE, ARC_STATE_SIZE, ARC_TARGET, L2ARC_HITS, L2ARC_MISSES, L2ARC_SIZE,
};

use crate::terminal::rows::{self, RowColumn, RowField, Rows};
use crate::terminal::sample::{MonitorSample, SampledResource};

static COLUMNS: [RowColumn; 13] = [
    RowColumn::text("arc", 0),
    RowColumn::figure("size", 6, 0),
    RowColumn::figure("target", 6, 0),
    RowColumn::figure("max", 6, 1),
    RowColumn::figure("min", 6, 6),
    RowColumn::figure("hit", 7, 0),
    RowColumn::figure("data hit", 8, 2),
    RowColumn::figure("metadata hit", 12, 3),
    RowColumn::figure("hit since start", 15, 4),
    RowColumn::figure("ghost hits/s", 12, 5),
    RowColumn::figure("l2 size", 7, 7),
    RowColumn::figure("l2 hit", 7, 8),
    RowColumn::word("growth", 7, 9),
];

static STATE_COLUMNS: [RowColumn; 3] =
    [RowColumn::text("arc", 0), RowColumn::word("state", 10, 0), RowColumn::figure("size", 6, 0)];

/// A row for each ARC.
pub fn rows(sample: &MonitorSample) -> Rows<'_> {
    let all = sample.of(&ARC);
    Rows {
        title: "ARC",
        columns: &COLUMNS,
        count: all.len(),
        nothing: "no ARC: no open pools found",
        row: Box::new(move |index| row(sample, &all[index])),
    }
}

/// A row for each state of each ARC.
pub fn state_rows(sample: &MonitorSample) -> Rows<'_> {
    let all = sample.of(&ARC_STATE);
    Rows {
        title: "ARC states",
        columns: &STATE_COLUMNS,
        count: all.len(),
        nothing: "no ARC reports the sizes of its states",
        row: Box::new(move |index| {
            let state = &all[index];
            let size = rows::size(state.value(&ARC_STATE_SIZE));
            vec![RowField::text(&title(state)), RowField::text(state.label("state")), size]
        }),
    }
}

/// The states of an ARC with their sizes.
pub fn states<'a>(sample: &'a MonitorSample, arc: &SampledResource) -> Vec<(&'a str, f64)> {
    let states = sample.of(&ARC_STATE).iter().filter(|state| state.labels()[..2] == arc.labels()[..2]);
    states.filter_map(|state| Some((state.label("state"), state.value(&ARC_STATE_SIZE)?))).collect()
}

/// The name of an ARC.
pub fn title(arc: &SampledResource) -> String {
    match (arc.label("engine"), arc.label("pool")) {
        (engine, "") => engine.to_owned(),
        (_, pool) => pool.to_owned(),
    }
}

fn row(sample: &MonitorSample, arc: &SampledResource) -> Vec<RowField> {
    let rates = Accesses::new(sample, arc, |access| access.rate(&ARC_ACCESSES));
    let totals = Accesses::new(sample, arc, |access| access.value(&ARC_ACCESSES));
    let ghosts = [&ARC_MRU_GHOST_HITS, &ARC_MFU_GHOST_HITS].map(|family| arc.rate(family));
    let l2 = rows::sum([&L2ARC_HITS, &L2ARC_MISSES].map(|family| arc.rate(family)));
    let is_stopped = arc.has(&ARC_NO_GROW);
    vec![
        RowField::text(&title(arc)),
        rows::size(arc.value(&ARC_SIZE)),
        rows::size(arc.value(&ARC_TARGET)),
        rows::size(arc.value(&ARC_MAX)),
        rows::size(arc.value(&ARC_MIN)),
        rows::share(rates.hit_ratio(|_| true)),
        rows::share(rates.hit_ratio(|kind| kind == "demand_data")),
        rows::share(rates.hit_ratio(|kind| kind == "demand_metadata")),
        rows::share(totals.hit_ratio(|_| true)),
        rows::per_second(rows::sum(ghosts)),
        rows::size(arc.value(&L2ARC_SIZE)),
        rows::share(rows::ratio(arc.rate(&L2ARC_HITS), l2)),
        RowField::text(if is_stopped { "stopped" } else { "" }).bad_if(is_stopped),
    ]
}

/// The hits of an ARC since the last reading, of all accesses.
pub fn hit_ratio(sample: &MonitorSample, arc: &SampledResource) -> Option<f64> {
    Accesses::new(sample, arc, |access| access.rate(&ARC_ACCESSES)).hit_ratio(|_| true)
}

/// Accesses to an ARC: type, whether they were hits, number.
struct Accesses<'a>(Vec<(&'a str, bool, f64)>);

impl<'a> Accesses<'a> {
    fn new(
        sample: &'a MonitorSample,
        arc: &SampledResource,
        number: impl Fn(&SampledResource) -> Option<f64>,
    ) -> Accesses<'a> {
        let of = sample.of(&ARC_ACCESS).iter().filter(|access| access.labels()[..2] == arc.labels()[..2]);
        let entry = |access: &'a SampledResource| {
            Some((access.label("type"), access.label("result") == "hit", number(access)?))
        };
        Accesses(of.filter_map(entry).collect())
    }

    /// The share of hits in the accesses of these types.
    fn hit_ratio(&self, is_counted: impl Fn(&str) -> bool) -> Option<f64> {
        let counted = || self.0.iter().filter(|(kind, _, _)| is_counted(kind));
        let all = rows::sum(counted().map(|(_, _, number)| Some(*number)));
        let hits = counted().filter(|(_, is_hit, _)| *is_hit).map(|(_, _, number)| *number).sum();
        rows::ratio(Some(hits), all)
    }
}
