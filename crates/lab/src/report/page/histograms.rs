//! Histograms of request sizes by dataset and kind, like DTrace's `quantize`.

use std::collections::BTreeMap;

use poolwright_report::plot::{HALF, Histogram};
use poolwright_report::{Section, Unit};

use super::super::format;
use crate::campaign::{Case, Study};
use crate::order::cases;
use crate::store::Trial;

/// Kind of call → power-of-two bucket → number of calls.
type Kinds = BTreeMap<String, BTreeMap<u64, u64>>;

/// Adds a chart for each dataset of each recorded phase: that of the first case open, the others collapsed.
pub fn draw(section: &mut Section, study: &Study, trials: &[Trial]) {
    for phase in &study.phases {
        let all: Vec<(String, Vec<Histogram>)> = (cases(study).into_iter())
            .map(|case| {
                let roles = summed(study, trials, &case, &phase.name);
                let plots = roles.iter().map(|(role, kinds)| plot(role, kinds)).collect();
                (format::case(study, &case), plots)
            })
            .filter(|(_, plots): &(_, Vec<_>)| !plots.is_empty())
            .collect();
        let Some(((label, first), others)) = all.split_first() else { continue };
        section.heading(&format!("Sizes of calls during {}", phase.name));
        if !others.is_empty() {
            section.paragraph(&format!("{label}; all trials of the case together."));
        }
        section.plots(first);
        for (label, of_case) in others {
            section.folded(&format!("{}, {label}", phase.name), |inside| {
                inside.plots(of_case);
            });
        }
    }
}

/// Returns the calls of all trials of a case, by role.
fn summed(study: &Study, trials: &[Trial], case: &Case, phase: &str) -> BTreeMap<String, Kinds> {
    let mut roles: BTreeMap<String, Kinds> = BTreeMap::new();
    let of_case = trials.iter().filter(|t| t.key.study == study.name && t.key.case == *case);
    let phases = of_case.filter_map(|t| t.outcome.as_ref().ok()).flat_map(|o| &o.phases);
    for found in phases.filter(|p| p.name == phase) {
        for (role, kinds) in &found.histograms {
            for (kind, buckets) in kinds {
                let sum = roles.entry(role.clone()).or_default().entry(kind.clone()).or_default();
                for (bucket, calls) in buckets {
                    let count = sum.entry(*bucket).or_default();
                    *count = count.saturating_add(*calls);
                }
            }
        }
    }
    roles
}

fn plot(role: &str, kinds: &Kinds) -> Histogram {
    let plot = Histogram::new(role, "size of one call", Unit::Bytes).size(HALF, 240.0);
    kinds.iter().fold(plot, |plot, (kind, buckets)| {
        plot.series(kind, &buckets.iter().map(|(b, n)| (*b, *n)).collect::<Vec<_>>())
    })
}
