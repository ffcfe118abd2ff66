//! Properties of datasets, and what levels and live changes set: a path, and a value that fits it.

use std::collections::BTreeMap;

use poolwright_openzfs::property::{self, Settings};
use serde::Deserialize as _;
use serde_json::Value as Json;
use toml::{Spanned, Table, Value};

use super::fault::{Result, fault};
use super::file::{CampaignFile, DatasetEntries, PoolEntries, PoolEntry};
use super::measure::BY_ROLE;
use super::value::{self, Checked, Size, Spelled, unknown};
use super::{MAIN_POOL, ParameterPath, Parameters, Phase, PoolSpec};

/// Paths of a pool's fields.
const POOL_KEYS: [&str; 8] =
    ["vdevs", "ashift", "arc", "device", "caching", "memory", "snapshots", "tunables.NAME"];
/// The key of a dataset that names its pool.
const POOL: &str = "pool";

pub(super) type Roles = BTreeMap<String, Settings>;

/// Returns the name of a scale if the campaign has it.
pub(super) fn known_scale(name: &Spanned<String>, scales: &BTreeMap<String, Parameters>) -> Result<String> {
    if !scales.contains_key(name.get_ref()) {
        return Err(fault(name, unknown("scale", name.get_ref(), scales.keys())));
    }
    Ok(name.get_ref().clone())
}

/// Returns the space that trials need, by scale.
pub(super) fn space(
    entries: &BTreeMap<Spanned<String>, Size>,
    scales: &BTreeMap<String, Parameters>,
) -> Result<BTreeMap<String, u64>> {
    entries.iter().map(|(name, bytes)| Ok((known_scale(name, scales)?, bytes.0))).collect()
}

/// Adds roles and their properties to those that exist already.
pub(super) fn datasets(entries: &DatasetEntries, roles: &mut Roles) -> Result<()> {
    for (key, properties) in entries {
        check_name("dataset", key)?;
        let settings = roles.entry(key.get_ref().clone()).or_default();
        for (name, value) in properties.iter().filter(|(name, _)| name.get_ref() != POOL) {
            let Spelled(text) = value.get_ref();
            let name = property_name(name.get_ref()).map_err(|why| fault(name, why))?;
            check_property(&name, text).map_err(|why| fault(value, why))?;
            settings.insert(name, text.clone());
        }
    }
    Ok(())
}

fn check_name(kind: &str, key: &Spanned<String>) -> Result<()> {
    let name = key.get_ref();
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.is_empty() || !name.chars().all(fine) || [MAIN_POOL, "workload"].contains(&name.as_str()) {
        return Err(fault(
            key,
            format!(
                "invalid {kind} name {name:?}: use lower-case letters, digits and _; pool and workload are reserved"
            ),
        ));
    }
    Ok(())
}

/// Returns the further pools of a study. A field that neither the study nor the campaign states is that of the study's `main` pool.
pub(super) fn pools(
    file: &CampaignFile,
    of_study: &PoolEntries,
    main: &PoolSpec,
) -> Result<BTreeMap<String, PoolSpec>> {
    // A limit and snapshots are the trial's; in its other pools they would count twice.
    let main = PoolSpec { memory: "none".into(), snapshots: "none".into(), ..main.clone() };
    let mut pools = BTreeMap::new();
    for (key, entry) in file.pools.iter().chain(of_study) {
        check_name("pool", key)?;
        if let Some(field) = entry.of_trial() {
            return Err(fault(key, format!("{field} applies to the whole trial: write it in [pool]")));
        }
        let pool = entry.over(pools.get(key.get_ref()).unwrap_or(&main));
        pools.insert(key.get_ref().clone(), pool);
    }
    Ok(pools)
}

/// Adds the pools that datasets name, of those in `known`.
pub(super) fn dataset_pools(
    entries: &DatasetEntries,
    known: &BTreeMap<String, PoolSpec>,
    pool_of: &mut BTreeMap<String, String>,
) -> Result<()> {
    for (role, properties) in entries {
        for (_, value) in properties.iter().filter(|(name, _)| name.get_ref() == POOL) {
            let Spelled(pool) = value.get_ref();
            check_pool(pool, known).map_err(|why| fault(value, why))?;
            pool_of.insert(role.get_ref().clone(), pool.clone());
        }
    }
    Ok(())
}

/// Checks the name of a dataset's pool.
pub(super) fn check_pool(name: &str, known: &BTreeMap<String, PoolSpec>) -> Checked<()> {
    let names = || known.keys().map(String::as_str).chain([MAIN_POOL]);
    if names().any(|known| known == name) { Ok(()) } else { Err(unknown("pool", name, names())) }
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

/// Parses `ROLE.property`, `ROLE.pool`, `pool.KEY`, `pool.tunables.NAME` or `workload.PARAMETER`.
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
        Some((role, POOL)) if roles.contains_key(role) => Ok(ParameterPath::DatasetPool(role.to_owned())),
        Some((role, name)) if roles.contains_key(role) => {
            Ok(ParameterPath::Dataset(role.to_owned(), property_name(name)?))
        }
        Some((role, _)) => Err(unknown("dataset", role, roles.keys())),
        None => Err(format!(
            "invalid path {path:?}: expected ROLE.property, ROLE.pool, pool.KEY, pool.tunables.NAME or workload.PARAMETER"
        )),
    }
}

/// Checks a value for a path.
pub(super) fn setting_value(path: &ParameterPath, value: &Value) -> Checked<Json> {
    let (key, value) = match path {
        ParameterPath::Workload(_) => return value::json(value.clone()),
        ParameterPath::DatasetPool(_) => return Ok(value::spelled(value)?.into()),
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
