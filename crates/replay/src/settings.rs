//! The settings of a replay: properties for each role, and the lists of values that are tried in turn.

use std::collections::BTreeMap;
use std::path::Path;

use poolwright_openzfs::property::{self, Settings};
use poolwright_trace::Trace;
use poolwright_trace::layout::Role;

use crate::{Error, Result};

/// Properties for each role; the role `*` stands for all roles.
pub type PerRole = BTreeMap<String, Settings>;

/// Combines each of the settings `all` with each value of `[role:]property=value[,value…]`, checked against the engine's
/// property table.
///
/// # Errors
/// If the assignment is malformed, or its role, property or a value is unknown.
pub fn combine(all: &[PerRole], assignment: &str) -> Result<Vec<PerRole>> {
    let (role, assignment) = match assignment.split_once(':') {
        Some((role, rest)) if !role.contains('=') => {
            if Role::from_name(role).is_none() {
                return Err(Error::UnknownRole { role: role.to_owned() });
            }
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
pub fn for_roles(per_role: &PerRole, roles: &[String]) -> PerRole {
    let of = |role: &String| {
        let mut settings = per_role.get("*").cloned().unwrap_or_default();
        settings.extend(per_role.get(role).cloned().unwrap_or_default());
        (role.clone(), settings)
    };
    roles.iter().map(of).collect()
}

/// The largest recordsize of the settings in bytes, at least 1M.
pub fn largest_record(settings: &[PerRole]) -> u64 {
    let values = settings.iter().flat_map(|s| s.values()).filter_map(|s| s.get("recordsize"));
    values.filter_map(|v| property::parse_size(v).ok()).max().unwrap_or(0).max(1 << 20)
}

/// The roles of a trace's files, sorted, each once.
pub fn roles_of(trace: &Trace) -> Vec<String> {
    let mut roles: Vec<String> = trace.files.iter().map(|f| named_role(&f.role)).collect();
    roles.sort();
    roles.dedup();
    roles
}

/// The role of a file, which is `other` if the trace has none for it.
pub fn named_role(role: &str) -> String {
    if role.is_empty() { Role::Other.name().into() } else { role.into() }
}

/// Checks that every named role is replayed, because the settings of another role would have no effect. `roles` are those of
/// the trace `path`, and `selected` those to replay; all if empty.
///
/// # Errors
/// [`Error::NoFileOfRole`], [`Error::UnusedSetting`] or [`Error::UnselectedSetting`].
pub fn check_roles(path: &Path, roles: &[String], selected: &[String], settings: &[PerRole]) -> Result<()> {
    let (trace, known) = (|| path.to_owned(), || roles.to_vec());
    if let Some(role) = selected.iter().find(|role| !roles.contains(role)) {
        return Err(Error::NoFileOfRole { trace: trace(), role: role.clone(), known: known() });
    }
    for role in settings.iter().flat_map(|s| s.keys()).filter(|role| *role != "*").cloned() {
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
        let roles = for_roles(&all[0], &["data".into(), "wal".into()]);
        assert_eq!(roles["data"].len(), 1);
        assert_eq!(roles["wal"].len(), 2);
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
        let roles = ["data".to_owned(), "wal".to_owned()];
        let check = |selected: &[String], settings: &str| {
            check_roles(Path::new("t"), &roles, selected, &combinations(&[settings]).unwrap())
        };
        assert!(check(&[], "wal:sync=always").is_ok());
        assert!(matches!(check(&["temp".into()], "sync=always"), Err(Error::NoFileOfRole { .. })));
        assert!(matches!(check(&[], "temp:sync=always"), Err(Error::UnusedSetting { .. })));
        assert!(matches!(check(&roles[..1], "wal:sync=always"), Err(Error::UnselectedSetting { .. })));
    }
}
