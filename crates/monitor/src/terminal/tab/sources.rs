//! The tab of the sources.

use std::time::Instant;

use crate::terminal::rows::{self, RowColumn, RowField, Rows};
use crate::terminal::sample::{Condition, MonitorSample, SourceState};

static COLUMNS: [RowColumn; 7] = [
    RowColumn::text("source", 0),
    RowColumn::word("state", 20, 0),
    RowColumn::figure("age", 8, 0),
    RowColumn::figure("read took", 9, 2),
    RowColumn::figure("reads", 8, 3),
    RowColumn::figure("failed", 7, 1),
    RowColumn::text("error", 0),
];

/// A row for each source at the time `now`.
pub fn rows(sample: &MonitorSample, now: Instant) -> Rows<'_> {
    Rows {
        title: "Sources",
        columns: &COLUMNS,
        count: sample.sources.len(),
        nothing: "no sources: no pools found",
        row: Box::new(move |index| row(&sample.sources[index], now)),
    }
}

fn row(source: &SourceState, now: Instant) -> Vec<RowField> {
    let condition = source.condition(now);
    let is_down = source.is_down(now);
    vec![
        RowField::text(&source.title()),
        RowField::text(&condition.text()).bad_if(is_down),
        rows::age(source.age(now)).bad_if(is_down),
        rows::wait(source.last.duration.map(|duration| duration.as_secs_f64())),
        rows::count(Some(source.last.reads as f64)),
        rows::count(Some(source.last.failures as f64)),
        RowField::text(
            source.last.error.as_deref().filter(|_| condition != Condition::Up).unwrap_or_default(),
        ),
    ]
}

/// One sentence on the sources that are down; `None` if all are up.
pub fn notice(sample: &MonitorSample, now: Instant) -> Option<String> {
    let down: Vec<&SourceState> = sample.sources.iter().filter(|source| source.is_down(now)).collect();
    let first = down.first()?;
    let cause = match (first.condition(now), &first.last.error) {
        (Condition::Failed, Some(error)) => error.clone(),
        (condition, _) => condition.text(),
    };
    let values = match first.age(now) {
        Some(age) => format!("its values are {} old", poolwright_report::text::age(age.as_secs())),
        None => "it has no values".to_owned(),
    };
    let (title, all) = (first.title(), sample.sources.len());
    let number = format!("{} of {all} source{} down", down.len(), if all == 1 { "" } else { "s" });
    Some(poolwright_report::escape::line(&format!("{number}: {title}: {values}: {cause}")))
}
