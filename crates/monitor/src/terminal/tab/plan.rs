//! The tab of the plans: planned properties and promised figures, compared with the present ones.

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
        nothing: "no plan to compare",
        row: Box::new(move |index| rows[index].clone()),
    }
}

fn plan_row(plan: &SampledResource, sample: &MonitorSample) -> Vec<RowField> {
    let created = plan.value(&PLAN_CREATED).map(|at| Duration::from_secs_f64((sample.unix_s - at).max(0.0)));
    let text = RowField::text;
    vec![text(plan.label("plan")), text(""), text("age"), text(""), rows::age(created), text("")]
}

fn role_row(of: &SampledResource, what: &str, [planned, present, verdict]: [RowField; 3]) -> Vec<RowField> {
    let role = RowField::text(&format!("  {}", of.label("role")));
    vec![role, RowField::text(of.label("dataset")), RowField::text(what), planned, present, verdict]
}

fn property_row(property: &SampledResource) -> Vec<RowField> {
    let verdict = match property.value(&PLAN_PROPERTY_KEPT) {
        Some(kept) if kept > 0.0 => RowField::text("kept"),
        Some(_) => RowField::text("differs").bad_if(true),
        None => RowField::figure(None),
    };
    let [planned, present] = ["planned", "present"].map(|label| RowField::text(property.label(label)));
    role_row(property, property.label("property"), [planned, present, verdict])
}

/// The block sizes of a role's files; `None` if none were examined.
fn files_row(role: &SampledResource) -> Option<Vec<RowField>> {
    let examined = role.value(&PLAN_FILES)?;
    let other = role.value(&PLAN_FILES_OTHER_SIZE)?;
    let number = |value| Unit::Count.format(value);
    let verdict = RowField::text(if other > 0.0 { "other sizes" } else { "kept" }).bad_if(other > 0.0);
    let planned = RowField::text(&format!("0 of {}", number(examined)));
    Some(role_row(role, "other block sizes", [planned, RowField::text(&number(other)), verdict]))
}

fn promise_row(promise: &SampledResource) -> Vec<RowField> {
    let number = |family| promise.value(family).map(|value| Unit::None.format(value));
    let (low, high) = (promise.value(&PROMISE_LOW), promise.value(&PROMISE_HIGH));
    let interval = match (number(&PROMISE_LOW), number(&PROMISE_HIGH)) {
        (Some(low), Some(high)) => format!(" ({low} to {high})"),
        _ => String::new(),
    };
    let planned = RowField::figure(number(&PROMISE_VALUE).map(|value| value + &interval));
    let verdict = match (promise.value(&PROMISE_PRESENT), low, high) {
        (Some(present), Some(low), _) if present < low => RowField::text("below"),
        (Some(present), _, Some(high)) if present > high => RowField::text("above"),
        (Some(_), Some(_), Some(_)) => RowField::text("as promised"),
        _ => RowField::figure(None),
    };
    let present = RowField::figure(number(&PROMISE_PRESENT));
    role_row(promise, promise.label("metric"), [planned, present, verdict])
}
