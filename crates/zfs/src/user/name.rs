//! Names of pools, datasets and snapshots, with the rules of `zpool` and `zfs`.

use crate::user::Fault;

/// The longest full name (pool, dataset and snapshot) in bytes.
pub const MAX: usize = 255;

/// Invalid pool names, because they are keywords of `zpool create`.
const RESERVED: &[&str] = &["log", "cache", "special", "dedup"];
/// Keywords with which a pool name must not begin.
const RESERVED_START: &[&str] = &["mirror", "raidz", "draid", "spare"];

fn fault(name: &str, why: &str) -> Fault {
    Fault::invalid(format!("invalid name {name:?}: {why}"))
}

fn plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.: ".contains(c)
}

fn check_part(whole: &str, part: &str) -> Result<(), Fault> {
    match part {
        "" => Err(fault(whole, "a component is empty")),
        "." | ".." => Err(fault(whole, "`.` and `..` are not valid components")),
        _ if !part.chars().all(plain) => Err(fault(whole, "use letters, digits and - _ . :")),
        _ => Ok(()),
    }
}

/// Checks a pool's name: it begins with a letter, contains no `/`, and is not a keyword of the vdev grammar.
///
/// # Errors
/// `EINVAL` with the rule that the name breaks.
pub fn check_pool(name: &str) -> Result<(), Fault> {
    check_part(name, name)?;
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Err(fault(name, "a pool's name must begin with a letter"));
    }
    if name.ends_with(' ') || name.len() > MAX {
        return Err(fault(name, "it is longer than 255 bytes or ends with a space"));
    }
    let exact = RESERVED.iter().find(|word| name == **word);
    match exact.or_else(|| RESERVED_START.iter().find(|word| name.starts_with(**word))) {
        Some(word) => Err(fault(name, &format!("{word} is a keyword in the list of vdevs"))),
        None => Ok(()),
    }
}

/// Checks a dataset's full name: `tank`, `tank/db/wal`.
///
/// # Errors
/// `EINVAL` with the rule that the name breaks.
pub fn check_dataset(name: &str) -> Result<(), Fault> {
    let mut parts = name.split('/');
    check_pool(parts.next().unwrap_or_default())?;
    parts.try_for_each(|part| check_part(name, part))?;
    if name.len() > MAX { Err(fault(name, "it is longer than 255 bytes")) } else { Ok(()) }
}

/// Checks a snapshot's full name, such as `tank/db@before`, and splits it into dataset and snapshot.
///
/// # Errors
/// `EINVAL` with the rule that the name breaks.
pub fn check_snapshot(name: &str) -> Result<(&str, &str), Fault> {
    let (dataset, snapshot) =
        name.split_once('@').ok_or_else(|| fault(name, "a snapshot is written DATASET@SNAPSHOT"))?;
    check_dataset(dataset)?;
    check_part(name, snapshot)?;
    if name.len() > MAX { Err(fault(name, "it is longer than 255 bytes")) } else { Ok((dataset, snapshot)) }
}

/// The pool of a dataset or snapshot.
pub fn pool_of(name: &str) -> &str {
    name.split(['/', '@']).next().unwrap_or_default()
}

/// The name inside the pool: `db/wal` for `tank/db/wal`, empty for `tank`.
pub fn inside(name: &str) -> &str {
    let rest = &name[pool_of(name).len()..];
    rest.strip_prefix('/').unwrap_or(rest)
}

/// Whether `name` is `root` or below it, snapshots included.
pub fn is_below(name: &str, root: &str) -> bool {
    name.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '@']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_zpool() {
        for good in ["tank", "t", "Tank-2.x:y", "tank/db", "tank/9/a b", "logs"] {
            assert!(check_dataset(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "9tank",
            "mirror",
            "raidz-x",
            "log",
            "spare",
            "tank/",
            "tank//a",
            "tank/../x",
            "/tank",
            "tank/ä",
            "a@b",
        ] {
            assert!(check_dataset(bad).is_err(), "{bad}");
        }
        assert!(check_dataset(&format!("tank/{}", "x".repeat(251))).is_err());
        assert_eq!(check_snapshot("tank/db@a").unwrap(), ("tank/db", "a"));
        for bad in ["tank", "tank@", "tank@a@b", "tank@a/b", "@a"] {
            assert!(check_snapshot(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn parts_of_names() {
        assert_eq!((pool_of("tank/a@b"), pool_of("tank@b"), pool_of("tank")), ("tank", "tank", "tank"));
        assert_eq!((inside("tank/a/b"), inside("tank"), inside("tank@b")), ("a/b", "", "@b"));
        assert!(
            is_below("tank/a@s", "tank/a") && is_below("tank/a", "tank/a") && !is_below("tank/ab", "tank/a")
        );
    }
}
