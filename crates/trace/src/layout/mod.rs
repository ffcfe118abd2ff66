//! Roles of a database's files: a table of layouts, and rules for files that no layout covers.

mod glob;
mod links;
mod page;
mod table;
mod usage;

use std::collections::VecDeque;
use std::ops::Range;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::path_text;

pub use links::{linked_directories, linked_directories_below};
pub use page::{PageSize, PageSource};
pub use table::LAYOUTS;
pub use usage::{Usage, by_use};

/// The role of a file in its database. The order is that of the names, so that maps by role have the order of JSON objects.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Files that are written once sequentially and kept: archived logs, exports.
    Archive,
    /// Dumps and snapshots.
    Backup,
    /// Logs that replicas and restores read: binary logs, change logs.
    Binlog,
    /// Tables, heaps, documents: read and rewritten in place, or merged.
    Data,
    /// Files that are read once sequentially: the sources of an import.
    Import,
    /// Indexes in separate files.
    Index,
    /// Other files: control files, locks, text logs.
    #[default]
    Other,
    /// Spilled sorts, temporary tables: short-lived, not needed after a crash.
    Temp,
    /// A volume (zvol): a block device with a file system of its own, such as the disk of a virtual machine.
    Volume,
    /// Write-ahead and redo logs, journals, double-write buffers: appended to or overwritten in a cycle, synced, rarely
    /// read.
    Wal,
}

impl Role {
    /// Every role, in the order of tables.
    pub const ALL: [Role; 10] = [
        Role::Data,
        Role::Index,
        Role::Wal,
        Role::Binlog,
        Role::Temp,
        Role::Backup,
        Role::Archive,
        Role::Import,
        Role::Volume,
        Role::Other,
    ];

    /// Returns the spelling in traces, plans and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Role::Data => "data",
            Role::Wal => "wal",
            Role::Binlog => "binlog",
            Role::Temp => "temp",
            Role::Index => "index",
            Role::Backup => "backup",
            Role::Archive => "archive",
            Role::Import => "import",
            Role::Volume => "volume",
            Role::Other => "other",
        }
    }

    /// Returns the property of OpenZFS that is the block size of this data.
    pub const fn block_property(self) -> &'static str {
        match self {
            Role::Volume => "volblocksize",
            _ => "recordsize",
        }
    }

    /// Returns the role with the given name; [`str::parse`] also names the known ones.
    pub fn from_name(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }

    /// Lists names, separated by commas, for messages.
    pub fn list(roles: &[Role]) -> String {
        roles.iter().map(|role| role.name()).collect::<Vec<_>>().join(", ")
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// A name that no role has.
#[derive(Debug, thiserror::Error)]
#[error("unknown role {0:?} (known: {known})", known = Role::list(&Role::ALL))]
pub struct UnknownRole(pub String);

impl std::str::FromStr for Role {
    type Err = UnknownRole;

    fn from_str(name: &str) -> Result<Role, UnknownRole> {
        Role::from_name(name).ok_or_else(|| UnknownRole(name.to_owned()))
    }
}

/// The file layout of one database system.
#[derive(Debug)]
pub struct Layout {
    /// Short name, as used in plans: `mariadb`.
    pub name: &'static str,
    /// Display name.
    pub title: &'static str,
    /// Sets of patterns. A directory has this layout if, for at least one set, every pattern matches some path below
    /// it.
    pub markers: &'static [&'static [&'static str]],
    /// File patterns and their roles; the first match applies.
    pub files: &'static [(&'static str, Role)],
    /// Page size in bytes if no header contains it; `None` if the system has no pages.
    pub default_page: Option<u32>,
    /// Whether the markers count only together with the page header: for layouts with common file names.
    needs_header: bool,
    /// Reads the page size from the files below a directory.
    page_header: Option<&'static page::Header>,
}

/// A layout and the directory in which it was found.
#[derive(Clone, Debug)]
pub struct LocatedLayout {
    /// The layout.
    pub layout: &'static Layout,
    /// The root directory of the database: the examined directory or one below it.
    pub root: PathBuf,
}

impl LocatedLayout {
    /// Returns the role of a file. Below the root, only the path relative to it counts, so that a database in
    /// `/var/lib/pg_wal` is not mistaken for a log.
    pub fn role_of(&self, path: &Path) -> Option<Role> {
        self.layout.role_of(path.strip_prefix(&self.root).unwrap_or(path))
    }
}

/// The number of directory levels that [`locate`] searches.
const DEPTH: usize = 4;
/// The number of names after which [`locate`] enters no more directories.
const ENTRIES: usize = 500_000;
/// The number of names of one directory, and of those below it, that are compared with markers.
const NAMES: usize = 20_000;
/// A directory that leads to the snapshots of a dataset, which the kernel mounts when they are accessed.
const SNAPSHOTS: &str = ".zfs";

impl Layout {
    /// Returns the layout with the given name.
    pub fn by_name(name: &str) -> Option<&'static Layout> {
        LAYOUTS.iter().find(|layout| layout.name == name)
    }

    /// Returns the role of a file by its path, absolute or relative to the database, or `None` if no pattern matches.
    pub fn role_of(&self, path: &Path) -> Option<Role> {
        let text = path_text::encode(path);
        let parts = components(&text);
        self.files.iter().find(|(pattern, _)| glob::matches_end(pattern, &parts)).map(|(_, role)| *role)
    }

    /// Returns the database's page size, from the header of one of its files below `root`, otherwise the default.
    pub fn page_size(&self, root: &Path) -> Option<PageSize> {
        let read = self.page_header.and_then(|header| header.page_size(root));
        read.or_else(|| self.default_page.map(|bytes| PageSize { bytes, source: PageSource::Default }))
    }

    /// Whether one file with a common name, or of a common system, marks it, so that the directory can have other databases below it.
    pub fn is_of_one_file(&self) -> bool {
        self.needs_header || ["lmdb", "redis"].contains(&self.name)
    }

    fn is_at(&self, root: &Path, paths: &[String]) -> bool {
        let confirmed =
            || !self.needs_header || self.page_header.is_some_and(|header| header.page_size(root).is_some());
        self.marks(paths) && confirmed()
    }

    /// Whether the markers match these paths or directories above them.
    fn marks_among(&self, paths: &[&str]) -> bool {
        let present = |pattern: &&str| {
            paths.iter().any(|path| {
                let parts = components(path);
                (1..=parts.len()).any(|end| glob::matches_end(pattern, &parts[..end]))
            })
        };
        self.markers.iter().any(|set| set.iter().all(present))
    }

    fn marks(&self, paths: &[String]) -> bool {
        let present = |pattern: &&str| {
            let parts: Vec<&str> = pattern.split('/').collect();
            paths.iter().any(|path| glob::matches(&parts, &path.split('/').collect::<Vec<_>>()))
        };
        self.markers.iter().any(|set| set.iter().all(present))
    }
}

/// Returns the layout of the database in `dir` or in a directory up to a few levels below.
pub fn detect(dir: &Path) -> Option<&'static Layout> {
    locate(dir).map(|found| found.layout)
}

/// Returns the layout with the root directory of the database. Of several databases, it returns the topmost.
pub fn locate(dir: &Path) -> Option<LocatedLayout> {
    locate_all(dir, |_| true).next()
}

/// As [`locate`]: all databases, each before those that are deeper. It searches in the directory of a database only if another one can be
/// there: below a file of SQLite, for example. It enters only the directories that `enters` accepts.
pub fn locate_all(dir: &Path, enters: impl Fn(&Path) -> bool) -> impl Iterator<Item = LocatedLayout> {
    let mut queue = VecDeque::from([(dir.to_owned(), 0)]);
    let mut seen = 0;
    std::iter::from_fn(move || {
        while let Some((root, depth)) = queue.pop_front() {
            let paths = names_below(&root, "", 3, &mut 0, &enters);
            seen += paths.len();
            let layout = LAYOUTS.iter().find(|layout| layout.is_at(&root, &paths));
            let is_searched = layout.is_none_or(|layout| layout.is_of_one_file());
            if is_searched && depth < DEPTH && seen < ENTRIES {
                let below = subdirectories(&root).into_iter().filter(|sub| enters(sub));
                queue.extend(below.map(|sub| (sub, depth + 1)));
            }
            if let Some(layout) = layout {
                return Some(LocatedLayout { layout, root });
            }
        }
        None
    })
}

/// Returns the layout that matches most of the given paths, for a trace whose files are not accessible. It must match
/// some path as data or index. Of several equally good layouts, it prefers one whose markers match.
pub fn detect_paths<'a>(paths: impl IntoIterator<Item = &'a str>) -> Option<&'static Layout> {
    let paths: Vec<&str> = paths.into_iter().collect();
    let explains = |layout: &Layout| {
        let roles: Vec<Role> = paths.iter().filter_map(|path| layout.role_of(Path::new(path))).collect();
        let tables = roles.iter().any(|role| matches!(role, Role::Data | Role::Index));
        if tables { roles.iter().filter(|role| **role != Role::Other).count() } else { 0 }
    };
    let hits: Vec<usize> = LAYOUTS.iter().map(explains).collect();
    let most = hits.iter().copied().max().filter(|most| *most > 0)?;
    let best = || LAYOUTS.iter().zip(&hits).filter(|(_, n)| **n == most).map(|(layout, _)| layout);
    best().find(|layout| layout.marks_among(&paths)).or_else(|| best().next())
}

/// The parts of a path's component that no layout recognizes: the whole of it, or what the `*` of a pattern match.
pub(crate) fn free_parts(name: &str) -> Vec<Range<usize>> {
    let patterns = LAYOUTS.iter().flat_map(|layout| {
        let files = layout.files.iter().map(|(pattern, _)| *pattern);
        files.chain(layout.markers.iter().copied().flatten().copied())
    });
    let is_specific = |part: &&str| !part.chars().all(|character| matches!(character, '*' | '?'));
    let recognized = patterns.flat_map(|pattern| pattern.split('/').filter(is_specific));
    let found = recognized.filter_map(|part| glob::starred(part, name));
    found.min_by_key(|parts| glob::total(parts)).unwrap_or_else(|| std::iter::once(0..name.len()).collect())
}

fn components(path: &str) -> Vec<&str> {
    path.split('/').filter(|part| !part.is_empty()).collect()
}

/// Lists relative names in `dir`, down to `depth` levels. Skips unreadable directories, because detection is
/// best-effort.
fn names_below(
    dir: &Path,
    prefix: &str,
    depth: usize,
    seen: &mut usize,
    enters: &impl Fn(&Path) -> bool,
) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        *seen += 1;
        if *seen > NAMES {
            break;
        }
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = format!("{prefix}{name}");
        let is_dir = || name != SNAPSHOTS && entry.file_type().is_ok_and(|kind| kind.is_dir());
        if depth > 1 && is_dir() && enters(&entry.path()) {
            names.extend(names_below(&entry.path(), &format!("{path}/"), depth - 1, seen, enters));
        }
        names.push(path);
    }
    names
}

fn subdirectories(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let is_searched = |entry: &std::fs::DirEntry| {
        entry.file_name() != SNAPSHOTS && entry.file_type().is_ok_and(|kind| kind.is_dir())
    };
    let mut found: Vec<_> = entries.filter(is_searched).map(|entry| entry.path()).collect();
    found.sort();
    found
}
