//! Settings that can lose data.

use std::collections::BTreeMap;

use crate::campaign::{Case, ParameterPath, Study, settings, value_text};

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
            ParameterPath::Pool(_) | ParameterPath::Tunable(_) | ParameterPath::DatasetPool(_) => None,
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
        study.parameters.iter().filter_map(|(name, value)| dangerous_value("", name, &value_text(value)));
    properties.chain(parameters).collect()
}

pub(super) fn dangerous_value(role: &str, name: &str, value: &str) -> Option<String> {
    let (.., why) = UNSAFE.iter().find(|(n, values, _)| *n == name && values.contains(&value))?;
    let of = if role.is_empty() { String::new() } else { format!("{role}.") };
    Some(format!("{of}{name}={value}: {why}"))
}
