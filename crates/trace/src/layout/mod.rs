//! What a database's files are to it: a declarative table of layouts, and rules for files that no layout knows.

mod glob;
mod page;
mod table;
mod usage;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use page::{PageSize, PageSource};
pub use table::LAYOUTS;
pub use usage::{Usage, by_use};

/// What a file is to its database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Tables, heaps, documents: read and rewritten in place, or merged.
    Data,
    /// Write-ahead and redo logs, journals, double-write buffers: appended or cycled, synced, hardly read.
    Wal,
    /// Logs that replicas and restores read: binary logs, change logs.
    Binlog,
    /// Spilled sorts, temporary tables: gone soon, never needed after a crash.
    Temp,
    /// Indexes in files of their own.
    Index,
    /// Dumps and snapshots.
    Backup,
    /// Files that are written once from start to end and kept: archived logs, exports.
    Archive,
    /// Files that are read once from start to end: the sources of an import.
    Import,
    /// All else: control files, locks, text logs.
    #[default]
    Other,
}

impl Role {
    /// Every role, in the order in which tables show them.
    pub const ALL: [Role; 9] = [
        Role::Data,
        Role::Index,
        Role::Wal,
        Role::Binlog,
        Role::Temp,
        Role::Backup,
        Role::Archive,
        Role::Import,
        Role::Other,
    ];

    /// The spelling in traces, plans and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Role::Data => "data",
            Role::Wal => "wal",
            Role::Binlog => "binlog",
            Role::Temp => "temp",
            Role::Index => "index",
            Role::Backup => "backup",
            Role::Archive => "archive",
            Role::Import => "import",
            Role::Other => "other",
        }
    }

    /// The role of that name.
    pub fn from_name(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// How one database system lays out its files.
#[derive(Debug)]
pub struct Layout {
    /// Short name, as used in plans: `mariadb`.
    pub name: &'static str,
    /// Name for people.
    pub title: &'static str,
    /// The directory is of this layout if for any of these sets every pattern matches some path below it.
    pub markers: &'static [&'static [&'static str]],
    /// File patterns and roles; the first that matches counts.
    pub files: &'static [(&'static str, Role)],
    /// Page size where no header says it; `None` where the system has no pages.
    pub default_page: Option<u32>,
    /// Whether the markers count only if the page header is there too: for layouts with everyday file names.
    needs_header: bool,
    /// Reads the page size from the files below a directory.
    page_header: Option<page::Header>,
}

/// A layout and where it was found.
#[derive(Clone, Debug)]
pub struct LocatedLayout {
    /// The layout.
    pub layout: &'static Layout,
    /// The database's own directory: the one asked about or one below it.
    pub root: PathBuf,
}

impl LocatedLayout {
    /// The role of a file; below the root only what is below it counts, so that a database in `/var/lib/pg_wal` is not
    /// taken for a log.
    pub fn role_of(&self, path: &Path) -> Option<Role> {
        self.layout.role_of(path.strip_prefix(&self.root).unwrap_or(path))
    }
}

/// How deep [`locate`] looks below the directory it was given.
const DEPTH: usize = 4;
/// How many names it looks at before it gives up.
const ENTRIES: usize = 50_000;

impl Layout {
    /// The layout of that name.
    pub fn by_name(name: &str) -> Option<&'static Layout> {
        LAYOUTS.iter().find(|layout| layout.name == name)
    }

    /// The role of a file by its path, absolute or relative to the database; `None` if no pattern matches.
    pub fn role_of(&self, path: &Path) -> Option<Role> {
        let parts = components(path);
        self.files.iter().find(|(pattern, _)| glob::matches_end(pattern, &parts)).map(|(_, role)| *role)
    }

    /// The database's page size, from the header of one of its files below `root` or else the default.
    pub fn page_size(&self, root: &Path) -> Option<PageSize> {
        let read = self.page_header.and_then(|header| header(root));
        read.or_else(|| self.default_page.map(|bytes| PageSize { bytes, source: PageSource::Default }))
    }

    fn is_at(&self, root: &Path, paths: &[String]) -> bool {
        let confirmed =
            || !self.needs_header || self.page_header.is_some_and(|header| header(root).is_some());
        self.marks(paths) && confirmed()
    }

    /// Whether markers are among these paths or the directories above them.
    fn marks_among(&self, paths: &[&str]) -> bool {
        let present = |pattern: &&str| {
            paths.iter().any(|path| {
                let parts = components(Path::new(path));
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

/// The role of `path` in `layout`; [`Role::Other`] where no pattern matches or no layout is known.
pub fn role(layout: Option<&Layout>, path: &Path) -> Role {
    layout.and_then(|layout| layout.role_of(path)).unwrap_or_default()
}

/// The layout of the database in `dir`, or in a directory near below it.
pub fn detect(dir: &Path) -> Option<&'static Layout> {
    locate(dir).map(|found| found.layout)
}

/// The same, with the database's own directory. Of several databases the one highest up is found.
pub fn locate(dir: &Path) -> Option<LocatedLayout> {
    let mut queue = VecDeque::from([(dir.to_owned(), 0)]);
    let mut seen = 0;
    while let Some((root, depth)) = queue.pop_front() {
        let paths = names_below(&root, "", 3, &mut seen);
        if let Some(layout) = LAYOUTS.iter().find(|layout| layout.is_at(&root, &paths)) {
            return Some(LocatedLayout { layout, root });
        }
        if depth < DEPTH && seen < ENTRIES {
            queue.extend(subdirectories(&root).into_iter().map(|sub| (sub, depth + 1)));
        }
    }
    None
}

/// The layout that explains most of these paths, for a trace whose files are out of reach; it must explain some as data
/// or indexes. Of several that explain as many, one whose markers are among the paths.
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

fn components(path: &Path) -> Vec<&str> {
    path.to_str().map(|text| text.split('/').filter(|part| !part.is_empty()).collect()).unwrap_or_default()
}

/// Relative names in `dir` down to `depth` levels. Unreadable directories are left out: detection is a convenience.
fn names_below(dir: &Path, prefix: &str, depth: usize, seen: &mut usize) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        *seen += 1;
        if *seen > ENTRIES {
            break;
        }
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = format!("{prefix}{name}");
        if depth > 1 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            names.extend(names_below(&entry.path(), &format!("{path}/"), depth - 1, seen));
        }
        names.push(path);
    }
    names
}

fn subdirectories(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<_> =
        entries.filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir())).map(|e| e.path()).collect();
    found.sort();
    found
}
