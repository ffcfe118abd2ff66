//! Compares two runs of one campaign: whether they agree within the intervals that they print.

use schemars::JsonSchema;
use serde::Serialize;

use super::cells::Row;
use super::figure::Figure;
use super::{Report, StudyReport, format, measures};
use crate::campaign::Case;

/// The comparison of two runs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Comparison {
    /// Name of the campaign.
    pub campaign: String,
    /// Numbers of the runs.
    pub runs: (i64, i64),
    /// Differences that make the runs different experiments: seed, scale, target or machine; empty if there are
    /// none.
    pub unlike: Vec<String>,
    /// Number of cells with an interval in both runs.
    pub cells: usize,
    /// Number of cells whose intervals overlap.
    pub agree: usize,
    /// Share of overlapping cells; `null` if there are none with intervals.
    pub share: Option<f64>,
    /// Number of cells with a figure in both runs but without an interval in one, because it has too few
    /// trials. They are not included in `cells`.
    pub without_interval: usize,
    /// Number of cells that only one run has.
    pub in_one_only: usize,
    /// Cells whose intervals do not overlap, largest difference first.
    pub apart: Vec<CellDiff>,
    /// Number of those whose measure includes the work of other processes on the host.
    pub apart_of_host: usize,
}

/// A cell in which the runs differ.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CellDiff {
    /// Name of the study.
    pub study: String,
    /// The case.
    pub case: Case,
    /// The case's name in tables.
    pub label: String,
    /// The figure of the first run, as printed.
    pub first: String,
    /// The figure of the second run.
    pub second: String,
    /// The measure.
    pub measure: String,
    /// Its title.
    pub title: String,
    /// Ratio of the second median to the first.
    pub ratio: f64,
}

/// Compares every cell of every table. Intervals are compared as printed, with three significant digits.
pub fn compare(first: &Report, second: &Report) -> Comparison {
    let mut all = Comparison {
        campaign: first.campaign.clone(),
        runs: (first.run, second.run),
        unlike: unlike(first, second),
        cells: 0,
        agree: 0,
        share: None,
        without_interval: 0,
        in_one_only: 0,
        apart: Vec::new(),
        apart_of_host: 0,
    };
    for study in &first.studies {
        let Some(other) = second.studies.iter().find(|s| s.name == study.name) else { continue };
        for row in &study.rows {
            let twin = other.rows.iter().find(|r| r.case == row.case);
            for (i, measure) in study.measures.iter().enumerate() {
                let column = other.measures.iter().position(|m| m == measure);
                let pair =
                    (row.figures[i].as_ref(), twin.zip(column).and_then(|(r, c)| r.figures[c].as_ref()));
                match pair {
                    (Some(a), Some(b)) => all.count(study, row, a, b),
                    (None, None) => {}
                    _ => all.in_one_only += 1,
                }
            }
        }
    }
    all.share = (all.cells > 0).then(|| all.agree as f64 / all.cells as f64);
    all.apart_of_host = all.apart.iter().filter(|cell| measures::is_of_host(&cell.measure)).count();
    all.apart.sort_by(|a, b| b.ratio.ln().abs().total_cmp(&a.ratio.ln().abs()));
    all
}

impl Comparison {
    fn count(&mut self, study: &StudyReport, row: &Row, a: &Figure, b: &Figure) {
        let (Some(ia), Some(ib)) = (a.ci95, b.ci95) else {
            self.without_interval += 1;
            return;
        };
        self.cells += 1;
        if overlap(ia, ib) {
            self.agree += 1;
            return;
        }
        self.apart.push(CellDiff {
            study: study.name.clone(),
            case: row.case.clone(),
            label: row.label.clone(),
            first: format::figure(a),
            second: format::figure(b),
            measure: a.measure.clone(),
            title: study.measure_title(&a.measure).to_owned(),
            ratio: b.median / a.median,
        });
    }
}

fn overlap(a: (f64, f64), b: (f64, f64)) -> bool {
    let before = |x: f64, y: f64| printed(x) <= printed(y) + printed(y).abs() * 1e-9;
    before(a.0, b.1) && before(b.0, a.1)
}

/// Rounds to three significant digits.
fn printed(v: f64) -> f64 {
    if v == 0.0 || !v.is_finite() {
        return v;
    }
    let unit = 10f64.powf(v.abs().log10().floor() - 2.0);
    (v / unit).round() * unit
}

fn unlike(a: &Report, b: &Report) -> Vec<String> {
    let mut unlike = Vec::new();
    let mut say = |what: &str, a: &str, b: &str| {
        if a != b {
            unlike.push(format!("{what}: {a} and {b}"));
        }
    };
    say("campaign", &a.campaign, &b.campaign);
    say("scale", &a.scale, &b.scale);
    say("seed", &a.seed.to_string(), &b.seed.to_string());
    say("target", &a.target, &b.target);
    for (key, value) in &a.machine {
        say(key, value, b.machine.get(key).map_or("–", String::as_str));
    }
    unlike
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_that_are_printed_alike_overlap() {
        assert!(overlap((1.0, 2.0), (2.0, 3.0)));
        assert!(!overlap((1.0, 2.0), (2.01, 3.0)));
        assert!(overlap((1_000_400.0, 1_000_400.0), (1_000_800.0, 1_000_800.0)), "1.00M and 1.00M");
        assert!(!overlap((1_000_400.0, 1_000_400.0), (1_010_000.0, 1_010_000.0)), "1.00M and 1.01M");
        assert!(overlap((0.0, 0.0), (0.0, 0.0)) && !overlap((-1.0, -0.5), (0.5, 1.0)));
    }
}
