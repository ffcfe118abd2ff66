//! Properties of datasets, and what levels and live changes set: a path, and a value that fits it.

use std::collections::BTreeMap;

use poolwright_openzfs::property::{self, Settings};
use serde::Deserialize as _;
use serde_json::Value as Json;
use toml::{Spanned, Table, Value};

use super::fault::{Result, fault};
use super::file::{DatasetEntries, PoolEntry};
use super::measure::BY_ROLE;
use super::value::{self, Checked, Spelled, unknown};
use super::{ParameterPath, Parameters, Phase, PoolSpec};

/// Paths of a pool's fields.
const POOL_KEYS: [&str; 7] = ["vdevs", "ashift", "arc", "device", "caching", "memory", "tunables.NAME"];

pub(super) type Roles = BTreeMap<String, Settings>;

/// Returns the name of a scale if the campaign has it.
pub(super) fn known_scale(name: &Spanned<String>, scales: &BTreeMap<String, Parameters>) -> Result<String> {
    if !scales.contains_key(name.get_ref()) {
        return Err(fault(name, unknown("scale", name.get_ref(), scales.keys())));
    }
    Ok(name.get_ref().clone())
}

/// Adds roles and their properties to those that exist already.
pub(super) fn datasets(entries: &DatasetEntries, roles: &mut Roles) -> Result<()> {
    for (key, properties) in entries {
        let role = key.get_ref();
        let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if role.is_empty() || !role.chars().all(fine) || ["pool", "workload"].contains(&role.as_str()) {
            return Err(fault(
                key,
                format!(
                    "invalid dataset name {role:?}: use lower-case letters, digits and _; pool and workload are reserved"
                ),
            ));
        }
        let settings = roles.entry(role.clone()).or_default();
        for (name, value) in properties {
            let Spelled(text) = value.get_ref();
            let name = property_name(name.get_ref()).map_err(|why| fault(name, why))?;
            check_property(&name, text).map_err(|why| fault(value, why))?;
            settings.insert(name, text.clone());
        }
    }
    Ok(())
}

/// Parses the values that a table sets: `"ldif.recordsize" = …`, or `ldif.recordsize = …`, which TOML parses as a
/// nested table.
pub(super) fn settings(set: &Table, roles: &Roles) -> Checked<Vec<(ParameterPath, Json)>> {
    let mut found = Vec::new();
    for (path, value) in set.iter().flat_map(|(key, value)| leaves(key.clone(), value)) {
        let path = parameter_path(&path, roles)?;
        let value = setting_value(&path, value)?;
        found.push((path, value));
    }
    Ok(found)
}

fn leaves(path: String, value: &Value) -> Vec<(String, &Value)> {
    match value {
        Value::Table(table) if !path.contains('.') || path == "pool.tunables" => {
            table.iter().flat_map(|(key, value)| leaves(format!("{path}.{key}"), value)).collect()
        }
        _ => vec![(path, value)],
    }
}

/// Parses `ROLE.property`, `pool.KEY`, `pool.tunables.NAME` or `workload.PARAMETER`.
pub(super) fn parameter_path(path: &str, roles: &Roles) -> Checked<ParameterPath> {
    match path.split_once('.') {
        Some(("workload", parameter)) if !parameter.is_empty() => {
            Ok(ParameterPath::Workload(parameter.to_owned()))
        }
        Some(("pool", key)) => match key.strip_prefix("tunables.") {
            Some(name) if !name.is_empty() => Ok(ParameterPath::Tunable(name.to_owned())),
            _ if POOL_KEYS.contains(&key) => Ok(ParameterPath::Pool(key.to_owned())),
            _ => Err(unknown("key of the pool", key, POOL_KEYS)),
        },
        Some((role, name)) if roles.contains_key(role) => {
            Ok(ParameterPath::Dataset(role.to_owned(), property_name(name)?))
        }
        Some((role, _)) => Err(unknown("dataset", role, roles.keys())),
        None => Err(format!(
            "invalid path {path:?}: expected ROLE.property, pool.KEY, pool.tunables.NAME or workload.PARAMETER"
        )),
    }
}

/// Checks a value for a path.
pub(super) fn setting_value(path: &ParameterPath, value: &Value) -> Checked<Json> {
    let (key, value) = match path {
        ParameterPath::Workload(_) => return value::json(value.clone()),
        ParameterPath::Dataset(_, name) => {
            let text = value::spelled(value)?;
            check_property(name, &text)?;
            return Ok(text.into());
        }
        ParameterPath::Tunable(name) => {
            ("tunables", Table::from_iter([(name.clone(), value.clone())]).into())
        }
        ParameterPath::Pool(key) => (key.as_str(), value.clone()),
    };
    let entry = PoolEntry::deserialize(Table::from_iter([(key.to_owned(), value)]));
    let pool = entry.map_err(|error| format!("{key}: {}", error.message()))?.over(&PoolSpec::default());
    let set = serde_json::to_value(pool).map_err(|error| error.to_string())?[key].take();
    match path {
        ParameterPath::Tunable(name) => Ok(set[name].clone()),
        _ => Ok(set),
    }
}

/// Returns the canonical name of a property.
pub(super) fn property_name(name: &str) -> Checked<String> {
    property::find(name).map(|known| known.name.to_owned()).map_err(|error| error.to_string())
}

pub(super) fn check_property(name: &str, value: &str) -> Checked<()> {
    property::check(name, value).map_err(|error| error.to_string())
}

/// Checks the form of a measure's name: `[PHASE/]NAME[.ROLE]`.
pub(super) fn check_measure(whole: &str, phases: &[Phase], roles: &Roles) -> Checked<()> {
    let (phase, name) = whole.split_once('/').map_or((None, whole), |(phase, name)| (Some(phase), name));
    let measured: Vec<_> = phases.iter().filter(|p| p.measure).map(|p| p.name.as_str()).collect();
    if let Some(phase) = phase.filter(|phase| !measured.contains(phase)) {
        return Err(unknown("measured phase", phase, measured));
    }
    let (base, role) = name.split_once('.').map_or((name, None), |(base, role)| (base, Some(role)));
    match role {
        Some(role) if !BY_ROLE.contains(&base) => {
            let by_role = BY_ROLE.join(", ");
            return Err(format!("{base} does not exist for a single role such as {role}; only {by_role} do"));
        }
        Some(role) if !roles.contains_key(role) => return Err(unknown("dataset", role, roles.keys())),
        _ => {}
    }
    Ok(())
}
