//! The settings of a replay: properties for each role, and the lists of values that are tried in turn.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use poolwright_openzfs::property::{self, Settings};
use poolwright_trace::layout::Role;
use poolwright_trace::{File, Trace};

use crate::{Error, Result};

/// Properties for each role; the role `*` stands for all roles.
pub type PerRole = BTreeMap<String, Settings>;

/// The settings of each role's dataset.
pub type RoleSettings = BTreeMap<Role, Settings>;

/// Combines each of the settings `all` with each value of `[role:]property=value[,value…]`, checked against the engine's
/// property table.
///
/// # Errors
/// If the assignment is malformed, or its role, property or a value is unknown.
pub fn combine(all: &[PerRole], assignment: &str) -> Result<Vec<PerRole>> {
    let (role, assignment) = match assignment.split_once(':') {
        Some((role, rest)) if !role.contains('=') => {
            role.parse::<Role>()?;
            (role, rest)
        }
        _ => ("*", assignment),
    };
    let (name, values) = property::parse_assignment(assignment)?;
    let mut combined = Vec::new();
    for value in values.split(',') {
        property::check(&name, value)?;
        for base in all {
            let mut settings = base.clone();
            settings.entry(role.to_owned()).or_default().insert(name.clone(), value.to_owned());
            combined.push(settings);
        }
    }
    Ok(combined)
}

/// The settings of each role: those of `*`, overridden by those of the role.
pub fn for_roles(per_role: &PerRole, roles: &[Role]) -> RoleSettings {
    let of = |role: &Role| {
        let mut settings = per_role.get("*").cloned().unwrap_or_default();
        settings.extend(per_role.get(role.name()).cloned().unwrap_or_default());
        (*role, settings)
    };
    roles.iter().map(of).collect()
}

/// The largest recordsize of the settings in bytes, at least 1M.
pub fn largest_record(settings: &[PerRole]) -> u64 {
    let values = settings.iter().flat_map(|s| s.values()).filter_map(|s| s.get("recordsize"));
    values.filter_map(|v| property::parse_size(v).ok()).max().unwrap_or(0).max(1 << 20)
}

/// The roles of a trace's files, sorted, each once.
pub fn roles_of(trace: &Trace) -> Vec<Role> {
    let roles: BTreeSet<Role> = trace.files.iter().map(File::known_role).collect();
    roles.into_iter().collect()
}

/// Checks that every named role is replayed, because the settings of another role would have no effect. `roles` are those of
/// the trace `path`, and `selected` those to replay; all if empty.
///
/// # Errors
/// [`Error::NoFileOfRole`], [`Error::UnusedSetting`] or [`Error::UnselectedSetting`].
pub fn check_roles(path: &Path, roles: &[Role], selected: &[Role], settings: &[PerRole]) -> Result<()> {
    let (trace, known) = (|| path.to_owned(), || roles.to_vec());
    if let Some(role) = selected.iter().find(|role| !roles.contains(role)) {
        return Err(Error::NoFileOfRole { trace: trace(), role: *role, known: known() });
    }
    for role in settings.iter().flat_map(|s| s.keys()).filter_map(|role| Role::from_name(role)) {
        if !roles.contains(&role) {
            return Err(Error::UnusedSetting { trace: trace(), role, known: known() });
        }
        if !selected.is_empty() && !selected.contains(&role) {
            return Err(Error::UnselectedSetting { role, selected: selected.to_vec() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combinations(assignments: &[&str]) -> Result<Vec<PerRole>> {
        assignments.iter().try_fold(vec![PerRole::new()], |all, assignment| combine(&all, assignment))
    }

    #[test]
    fn comma_lists_multiply_and_roles_keep_apart() {
        let all = combinations(&["recordsize=8K,16K", "wal:logbias=throughput,latency"]).unwrap();
        assert_eq!(all.len(), 4);
        let roles = for_roles(&all[0], &[Role::Data, Role::Wal]);
        assert_eq!(roles[&Role::Data].len(), 1);
        assert_eq!(roles[&Role::Wal].len(), 2);
        for bad in [
            "recordsize=3K",
            "compression=lzma",
            "colour=red",
            "sync=sometimes",
            "disk:recordsize=8K",
            "recordsize",
        ] {
            assert!(combinations(&[bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn regions_hold_the_largest_record() {
        assert_eq!(largest_record(&combinations(&["recordsize=8K,16K"]).unwrap()), 1 << 20);
        assert_eq!(largest_record(&combinations(&["wal:recordsize=8K,4M"]).unwrap()), 4 << 20);
    }

    #[test]
    fn roles_that_are_not_replayed_are_refused() {
        let roles = [Role::Data, Role::Wal];
        let check = |selected: &[Role], settings: &str| {
            check_roles(Path::new("t"), &roles, selected, &combinations(&[settings]).unwrap())
        };
        assert!(check(&[], "wal:sync=always").is_ok());
        assert!(matches!(check(&[Role::Temp], "sync=always"), Err(Error::NoFileOfRole { .. })));
        assert!(matches!(check(&[], "temp:sync=always"), Err(Error::UnusedSetting { .. })));
        assert!(matches!(check(&roles[..1], "wal:sync=always"), Err(Error::UnselectedSetting { .. })));
    }
}
