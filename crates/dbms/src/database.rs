//! The kinds of databases, and how to find their directories.

use std::ffi::OsStr;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use poolwright_base::directory::{Access, Directory};
use poolwright_trace::layout;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::error::refused;

/// A kind of database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DatabaseKind {
    /// PostgreSQL.
    Postgresql,
    /// MariaDB.
    Mariadb,
    /// SQLite.
    Sqlite,
    /// LMDB, as in OpenLDAP.
    Openldap,
    /// Another one.
    None,
}

impl DatabaseKind {
    /// All of them.
    pub const ALL: [DatabaseKind; 5] = [
        DatabaseKind::Postgresql,
        DatabaseKind::Mariadb,
        DatabaseKind::Sqlite,
        DatabaseKind::Openldap,
        DatabaseKind::None,
    ];

    /// Its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            DatabaseKind::Postgresql => "postgresql",
            DatabaseKind::Mariadb => "mariadb",
            DatabaseKind::Sqlite => "sqlite",
            DatabaseKind::Openldap => "openldap",
            DatabaseKind::None => "none",
        }
    }

    /// The kind with this name.
    pub fn from_name(name: &str) -> Option<DatabaseKind> {
        DatabaseKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The kind of database of a layout.
    pub fn of_layout(name: &str) -> Option<DatabaseKind> {
        match name {
            "postgresql" => Some(DatabaseKind::Postgresql),
            "mariadb" => Some(DatabaseKind::Mariadb),
            "sqlite" => Some(DatabaseKind::Sqlite),
            "lmdb" => Some(DatabaseKind::Openldap),
            _ => None,
        }
    }
}

/// A database in the directories of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedDatabase {
    /// Its kind.
    pub kind: DatabaseKind,
    /// Its own directory: for PostgreSQL, the data directory.
    pub root: PathBuf,
}

/// Finds the database in these directories.
///
/// # Errors
/// A refusal if there is none, or one that this program cannot quiesce and the user gives no commands for (`has_hook`).
pub fn locate(paths: &[PathBuf], wanted: Option<DatabaseKind>, has_hook: bool) -> Result<LocatedDatabase> {
    let first = || paths.first().cloned().unwrap_or_default();
    let found = paths.iter().find_map(|path| layout::locate(path));
    let kind = found.as_ref().and_then(|found| DatabaseKind::of_layout(found.layout.name));
    match (wanted, found) {
        (Some(DatabaseKind::None), _) => Ok(LocatedDatabase { kind: DatabaseKind::None, root: first() }),
        (Some(wanted), None) => Ok(LocatedDatabase { kind: wanted, root: first() }),
        (Some(wanted), Some(found)) if kind == Some(wanted) => {
            Ok(LocatedDatabase { kind: wanted, root: found.root })
        }
        (Some(wanted), Some(found)) => {
            let (title, root) = (found.layout.title, poolwright_base::quoted(&found.root));
            refused(format!("{root} has files of {title}, not of {}", wanted.name()))
        }
        (None, Some(found)) if kind.is_some() => {
            Ok(LocatedDatabase { kind: kind.unwrap_or(DatabaseKind::None), root: found.root })
        }
        (None, _) if has_hook => Ok(LocatedDatabase { kind: DatabaseKind::None, root: first() }),
        (None, Some(found)) => {
            refused(format!("{} can be quiesced only by freeze and thaw commands", found.layout.title))
        }
        (None, None) => refused(format!("{} contains no known database", joined(paths))),
    }
}

/// Paths for messages.
pub fn joined(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| poolwright_base::quoted(path).to_string()).collect::<Vec<_>>().join(", ")
}

/// The first bytes of each SQLite database.
pub(crate) const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";

/// The SQLite databases below a directory. Symbolic links are not followed.
pub fn sqlite_files(dir: &Path) -> Vec<PathBuf> {
    found_below(dir, is_sqlite)
}

/// The files below a directory that are wanted, sorted. Symbolic links are not followed; what cannot be read is left out.
pub fn found_below(dir: &Path, is_wanted: impl Fn(&Directory, &OsStr) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if let Ok(dir) = Directory::open(dir) {
        collect(&dir, &is_wanted, &mut found);
    }
    found.sort();
    found
}

fn collect(dir: &Directory, is_wanted: &impl Fn(&Directory, &OsStr) -> bool, found: &mut Vec<PathBuf>) {
    for name in dir.names().unwrap_or_default() {
        match dir.inspect(&name) {
            Ok(Some(meta)) if meta.is_dir() && name != ".zfs" => {
                if let Ok(sub) = dir.directory(&name) {
                    collect(&sub, is_wanted, found);
                }
            }
            Ok(Some(meta)) if meta.is_file() && is_wanted(dir, &name) => found.push(dir.path().join(name)),
            _ => {}
        }
    }
}

fn is_sqlite(dir: &Directory, name: &OsStr) -> bool {
    let mut head = [0; SQLITE_MAGIC.len()];
    let read = dir.file(name, Access::Read).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == SQLITE_MAGIC
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_are_found_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let paths = [dir.path().to_owned()];
        let refusal = |wanted, hook| locate(&paths, wanted, hook).unwrap_err().to_string();
        assert!(refusal(None, false).contains("no known database"));
        assert_eq!(locate(&paths, None, true).unwrap().kind, DatabaseKind::None);
        let sub = dir.path().join("15/main");
        std::fs::create_dir_all(sub.join("base")).unwrap();
        std::fs::create_dir_all(sub.join("global")).unwrap();
        std::fs::write(sub.join("PG_VERSION"), "15\n").unwrap();
        std::fs::write(sub.join("global/pg_control"), "").unwrap();
        let found = locate(&paths, None, false).unwrap();
        assert_eq!((found.kind, &found.root), (DatabaseKind::Postgresql, &sub));
        assert!(refusal(Some(DatabaseKind::Mariadb), false).contains("has files of PostgreSQL"));
        for kind in DatabaseKind::ALL {
            assert_eq!(DatabaseKind::from_name(kind.name()), Some(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
