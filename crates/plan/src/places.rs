//! The places that a plan may name: the parts of the rules that the plan alone shows. `apply` compares the places with the host.

use std::path::Path;

use poolwright_base::quoted;

use super::RolePlan;

/// Directories of the system, below which no dataset is mounted for a plan, with the exceptions below them.
const SYSTEM: &str = "/bin /boot /dev /etc /lib /lib32 /lib64 /libx32 /proc /root /run /sbin /sys /usr";
const EXCEPTIONS: &str = "/dev/shm /usr/local";

/// The first rule that the places of a role break. `subject` is the database's directory.
pub(super) fn problem(subject: &str, role: &RolePlan) -> Option<String> {
    let location = &role.location;
    let named = [Some(subject), Some(location.mountpoint.as_str()), location.link.as_deref()];
    if let Some(path) = named.into_iter().flatten().find(|path| !is_plain(path)) {
        return Some(format!(
            "{} is not a plain path: absolute, without `.`, `..`, `//` and a `/` at its end",
            quoted(path)
        ));
    }
    let (link, mountpoint) = (Path::new(location.link.as_deref()?), Path::new(&location.mountpoint));
    if link == Path::new(subject) || !link.starts_with(subject) {
        return Some(format!(
            "{} is to become a link, but is not below the database's directory {}",
            quoted(link),
            quoted(subject)
        ));
    }
    if !is_beside(mountpoint, link.parent()?) {
        return Some(format!(
            "{} is to be the mount point for {}, but is not beside the directory that has it: {}-NAME",
            quoted(mountpoint),
            quoted(link),
            quoted(link.parent()?)
        ));
    }
    is_of_the_system(mountpoint).then(|| format!("{} is in a directory of the system", quoted(mountpoint)))
}

/// Whether a path is a directory's own, a hyphen and a name: `/srv/pg-wal` for `/srv/pg`.
pub fn is_beside(path: &Path, directory: &Path) -> bool {
    let suffix = || {
        let name = path.file_name()?.to_str()?;
        name.strip_prefix(directory.file_name()?.to_str()?)?.strip_prefix('-')
    };
    path.parent() == directory.parent() && suffix().is_some_and(|suffix| !suffix.is_empty())
}

fn is_of_the_system(path: &Path) -> bool {
    let is_below = |list: &str| list.split(' ').any(|dir| path.starts_with(dir));
    is_below(SYSTEM) && !is_below(EXCEPTIONS)
}

/// Whether a path is absolute and consists of names.
fn is_plain(path: &str) -> bool {
    let Some(below) = path.strip_prefix('/') else { return false };
    below.is_empty() || below.split('/').all(|name| !matches!(name, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;

    fn problem_of(mountpoint: &str, link: Option<&str>) -> Option<String> {
        let mut plan: Plan = crate::tests::example().1;
        let location = &mut plan.roles[0].location;
        (location.mountpoint, location.link) = (mountpoint.to_owned(), link.map(str::to_owned));
        problem("/srv/pg", &plan.roles[0])
    }

    #[test]
    fn places_of_tune_are_accepted() {
        for (mountpoint, link) in [
            ("/srv/pg", None),
            ("/srv/pg-wal", Some("/srv/pg/pg_wal")),
            ("/srv/pg/15/main-wal", Some("/srv/pg/15/main/pg_wal")),
            ("/fast/log", None),
            ("/", None),
        ] {
            assert_eq!(problem_of(mountpoint, link), None, "{mountpoint} {link:?}");
        }
    }

    #[test]
    fn other_places_are_refused() {
        let cases = [
            ("srv/pg", None, "not a plain path"),
            ("", None, "not a plain path"),
            ("/srv/../etc", None, "not a plain path"),
            ("/srv//pg-wal", Some("/srv/pg/wal"), "not a plain path"),
            ("/srv/pg-wal", Some("/srv/pg/../other/wal"), "not a plain path"),
            ("/srv/pg-wal", Some("/srv/pg"), "not below"),
            ("/srv/pg-wal", Some("/srv/pgother/wal"), "not below"),
            ("/srv/pg-wal", Some("/other/sub"), "not below"),
            ("/etc/hole.service.d", Some("/srv/pg/wal"), "not beside"),
            ("/srv/pgwal", Some("/srv/pg/wal"), "not beside"),
            ("/srv/pg-", Some("/srv/pg/wal"), "not beside"),
            ("/srv/pg", Some("/srv/pg/wal"), "not beside"),
            ("/srv/pg/x-wal", Some("/srv/pg/wal"), "not beside"),
            ("/srv/pg-wal", Some("/srv/pg/a/wal"), "not beside"),
        ];
        for (mountpoint, link, expected) in cases {
            let found = problem_of(mountpoint, link).unwrap_or_default();
            assert!(found.contains(expected), "{mountpoint} {link:?}: {found}");
        }
    }

    #[test]
    fn nothing_is_mounted_in_directories_of_the_system() {
        for path in ["/etc/pg-wal", "/usr/lib/pg-wal", "/run/pg-wal", "/dev/pg-wal"] {
            assert!(is_of_the_system(Path::new(path)), "{path}");
        }
        for path in ["/usr/local/pgsql/data-wal", "/dev/shm/pg-wal", "/srv/pg-wal", "/etcetera/pg-wal"] {
            assert!(!is_of_the_system(Path::new(path)), "{path}");
        }
    }
}
