//! Settings that can lose data, and the values that a case sets.

use std::collections::BTreeMap;

use poolwright_openzfs::property;

use crate::campaign::{Case, ParameterPath, Study};

/// Dangerous values of a dataset's property or a driver's parameter, with the reason.
const UNSAFE: &[(&str, &[&str], &str)] = &[
    ("sync", &["disabled"], "a crash loses writes that were reported to the database as durable"),
    ("checksum", &["off"], "silent corruption is neither seen nor repaired"),
    ("doublewrite", OFF, TORN),
    ("innodb_doublewrite", OFF, TORN),
    ("full_page_writes", OFF, TORN),
    ("fsync", OFF, "a crash loses writes that were reported to the database as durable"),
];
/// `crates/openzfs/tests/torn.rs` demonstrates this.
const TORN: &str =
    "a crash can leave a part of a page on any recordsize: the intent log divides writes over its blocks";
const OFF: &[&str] = &["off", "OFF", "false", "0", "no"];

/// Returns a dataset's property in a case: set by a level, by the study, or OpenZFS's default.
pub(super) fn value(study: &Study, case: &Case, role: &str, property: &str) -> String {
    let chosen = settings(study, case).into_iter().rev();
    let set = chosen.filter_map(|(location, value)| match location {
        ParameterPath::Dataset(r, p) if r == role && p == property => Some(value),
        _ => None,
    });
    set.into_iter().next().unwrap_or_else(|| base(study, role, property))
}

pub(super) fn base(study: &Study, role: &str, name: &str) -> String {
    let set = study.datasets.get(role).and_then(|settings| settings.get(name)).cloned();
    set.unwrap_or_else(|| property::find(name).map_or("default", |p| p.default).to_owned())
}

/// Returns all values that a case's levels set, in the factors' order.
fn settings<'a>(study: &'a Study, case: &Case) -> Vec<(&'a ParameterPath, String)> {
    let levels = study.factors.iter().filter_map(|f| {
        let level = case.get(&f.name)?;
        f.levels.iter().find(|l| l.name == *level)
    });
    levels.flat_map(|l| &l.set).map(|(location, value)| (location, text(value))).collect()
}

fn text(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the dangers of a case: of the values that its levels set, and of those that would be recommended from
/// it.
pub(super) fn dangers(
    study: &Study,
    case: &Case,
    set: &[(String, String)],
    role: Option<&str>,
) -> Vec<String> {
    let mut all: BTreeMap<(&str, &str), String> = BTreeMap::new();
    for (location, value) in settings(study, case) {
        match location {
            ParameterPath::Dataset(role, name) => all.insert((role, name), value),
            ParameterPath::Workload(name) => all.insert(("", name), value),
            ParameterPath::Pool(_) | ParameterPath::Tunable(_) => None,
        };
    }
    if let Some(role) = role {
        all.extend(set.iter().map(|(name, value)| ((role, name.as_str()), value.clone())));
    }
    all.iter().filter_map(|((role, name), value)| dangerous_value(role, name, value)).collect()
}

/// Returns the dangers common to all cases of a study, which are no reason to prefer one case.
pub(super) fn fixed_dangers(study: &Study) -> Vec<String> {
    let properties = study.datasets.iter().flat_map(|(role, settings)| {
        settings.iter().filter_map(move |(name, value)| dangerous_value(role, name, value))
    });
    let parameters =
        study.parameters.iter().filter_map(|(name, value)| dangerous_value("", name, &text(value)));
    properties.chain(parameters).collect()
}

pub(super) fn dangerous_value(role: &str, name: &str, value: &str) -> Option<String> {
    let (.., why) = UNSAFE.iter().find(|(n, values, _)| *n == name && values.contains(&value))?;
    let of = if role.is_empty() { String::new() } else { format!("{role}.") };
    Some(format!("{of}{name}={value}: {why}"))
}
