//! The tab of the plans: planned properties and promised figures against the present.

use std::time::Duration;

use crate::family::{
    PLAN, PLAN_CREATED, PLAN_FILES, PLAN_FILES_OTHER_SIZE, PLAN_PROMISE, PLAN_PROPERTY, PLAN_PROPERTY_KEPT,
    PLAN_ROLE, PROMISE_HIGH, PROMISE_LOW, PROMISE_PRESENT, PROMISE_VALUE,
};
use poolwright_report::Unit;

use crate::terminal::rows::{self, RowColumn, RowField, Rows};
use crate::terminal::sample::{MonitorSample, SampledResource};

static COLUMNS: [RowColumn; 6] = [
    RowColumn::text("role", 0),
    RowColumn::text("dataset", 2),
    RowColumn::word("what", 17, 0),
    RowColumn::word("planned", 22, 3),
    RowColumn::word("present", 9, 0),
    RowColumn::word("verdict", 11, 0),
];

/// A row for each plan, followed by its properties, files and promises.
pub fn rows(sample: &MonitorSample) -> Rows<'_> {
    let mut rows: Vec<Vec<RowField>> = Vec::new();
    for plan in sample.of(&PLAN) {
        let below = |kind| sample.of(kind).iter().filter(|row| row.label("plan") == plan.label("plan"));
        rows.push(plan_row(plan, sample));
        rows.extend(below(&PLAN_PROPERTY).map(property_row));
        rows.extend(below(&PLAN_ROLE).filter_map(files_row));
        rows.extend(below(&PLAN_PROMISE).map(promise_row));
    }
    Rows {
        title: "Plan",
        columns: &COLUMNS,
        count: rows.len(),
        nothing: "no plan is compared with the present",
        row: Box::new(move |index| rows[index].clone()),
    }
}

fn plan_row(plan: &SampledResource, sample: &MonitorSample) -> Vec<RowField> {
    let created = plan.value(&PLAN_CREATED).map(|at| Duration::from_secs_f64((sample.unix_s - at).max(0.0)));
    let mut row = vec![
        RowField::text(plan.label("plan")),
        RowField::text(""),
        RowField::text("age"),
        RowField::text(""),
    ];
    row.extend([rows::age(created), RowField::text("")]);
    row
}

fn role_fields(row: &SampledResource, what: &str) -> Vec<RowField> {
    let role = format!("  {}", row.label("role"));
    vec![RowField::text(&role), RowField::text(row.label("dataset")), RowField::text(what)]
}

fn property_row(property: &SampledResource) -> Vec<RowField> {
    let verdict = match property.value(&PLAN_PROPERTY_KEPT) {
        Some(kept) if kept > 0.0 => RowField::text("kept"),
        Some(_) => RowField::text("differs").bad_if(true),
        None => RowField::figure(None),
    };
    let mut row = role_fields(property, property.label("property"));
    row.extend([
        RowField::text(property.label("planned")),
        RowField::text(property.label("present")),
        verdict,
    ]);
    row
}

/// The block sizes of a role's files; `None` if none were examined.
fn files_row(role: &SampledResource) -> Option<Vec<RowField>> {
    let examined = role.value(&PLAN_FILES)?;
    let other = role.value(&PLAN_FILES_OTHER_SIZE)?;
    let number = |value| Unit::Count.format(value);
    let verdict = if other > 0.0 { "other sizes" } else { "kept" };
    let mut row = role_fields(role, "other block sizes");
    let planned = format!("0 of {}", number(examined));
    row.extend([
        RowField::text(&planned),
        RowField::text(&number(other)),
        RowField::text(verdict).bad_if(other > 0.0),
    ]);
    Some(row)
}

fn promise_row(promise: &SampledResource) -> Vec<RowField> {
    let number = |family| promise.value(family).map(|value| Unit::None.format(value));
    let (low, high) = (promise.value(&PROMISE_LOW), promise.value(&PROMISE_HIGH));
    let interval = match (number(&PROMISE_LOW), number(&PROMISE_HIGH)) {
        (Some(low), Some(high)) => format!(" ({low} to {high})"),
        _ => String::new(),
    };
    let planned = number(&PROMISE_VALUE).map(|value| value + &interval);
    let verdict = match (promise.value(&PROMISE_PRESENT), low, high) {
        (Some(present), Some(low), _) if present < low => RowField::text("below"),
        (Some(present), _, Some(high)) if present > high => RowField::text("above"),
        (Some(_), Some(_), Some(_)) => RowField::text("as promised"),
        _ => RowField::figure(None),
    };
    let mut row = role_fields(promise, promise.label("metric"));
    row.extend([RowField::figure(planned), RowField::figure(number(&PROMISE_PRESENT)), verdict]);
    row
}
