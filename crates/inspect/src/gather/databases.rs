//! Finds the databases: in the directories that the user names, or on all datasets and volumes, in the usual directories, and in those in
//! which servers run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use poolwright_base::mountinfo;
use poolwright_base::process::{self, ProcessStat};
use poolwright_base::writers::find_writers;
use poolwright_dbms::client::ClientFailure;
use poolwright_dbms::database::DatabaseKind;
use poolwright_dbms::settings;
use poolwright_trace::layout::{LocatedLayout, Role, linked_directories, locate_all};

use super::files::{self, DatabaseFiles};
use super::mounts::{StorageTable, is_at_or_below};
use super::{ANSWER_TIME, Request, Subject, known};
use crate::Result;
use crate::facts::{DatabaseFacts, ServerFacts};

/// The directories in which distributions' packages keep databases.
const USUAL: [&str; 12] = [
    "/var/lib/clickhouse",
    "/var/lib/etcd",
    "/var/lib/grafana",
    "/var/lib/influxdb",
    "/var/lib/ldap",
    "/var/lib/mongodb",
    "/var/lib/mysql",
    "/var/lib/pgsql",
    "/var/lib/postgresql",
    "/var/lib/prometheus",
    "/var/lib/redis",
    "/var/lib/victoria-metrics",
];

/// After this number of databases, no server is looked for that uses a database of one file, because each search reads all of `/proc`.
const MAX_SERVERS: usize = 20;

/// The programs of servers, as the kernel shortens their names to 15 bytes.
const SERVERS: [&str; 12] = [
    "clickhouse-serv",
    "etcd",
    "influxd",
    "mariadbd",
    "mongod",
    "mysqld",
    "postgres",
    "postmaster",
    "prometheus",
    "redis-server",
    "slapd",
    "valkey-server",
];

/// The servers of this machine, and where their files are.
struct Servers<'a> {
    mounts: &'a StorageTable,
    found: Vec<ProcessStat>,
}

/// Finds the databases, each once.
pub fn find(
    request: &Request,
    mounts: &StorageTable,
    unknown: &mut Vec<String>,
) -> Result<Vec<DatabaseFacts>> {
    let servers = Servers::running(mounts);
    let located = locate(request, &servers, unknown)?;
    let others: Vec<PathBuf> = located.iter().map(|of| of.root.clone()).collect();
    let is_cancelled = || request.is_cancelled();
    let mut databases = Vec::new();
    for found in &located {
        let roots: Vec<PathBuf> =
            std::iter::once(found.root.clone()).chain(linked_directories(&found.root)).collect();
        let search = files::Search {
            roots: &roots,
            located: Some(found),
            others: &others,
            mounts,
            is_cancelled: &is_cancelled,
        };
        let files = search.run();
        request.check_cancelled()?;
        if is_wanted(request, &files) {
            let seeks_server = databases.len() < MAX_SERVERS || !found.layout.is_of_one_file();
            databases.push(database(request, &roots, Some(found), files, mounts, seeks_server, unknown));
        }
    }
    // A directory that the user names counts, whatever is in it.
    for dir in request.subjects.iter().filter_map(directory) {
        let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        if !databases.iter().any(|of| of.root.starts_with(&dir) || dir.starts_with(&of.root)) {
            let roots = [dir];
            let search = files::Search {
                roots: &roots,
                located: None,
                others: &others,
                mounts,
                is_cancelled: &is_cancelled,
            };
            let files = search.run();
            request.check_cancelled()?;
            databases.push(database(request, &roots, None, files, mounts, true, unknown));
        }
    }
    servers.note_others(request, &databases, unknown);
    databases.sort_by(|a, b| a.root.cmp(&b.root));
    Ok(databases)
}

/// The directories of databases. One that lies in that of another is left out, unless the other is marked by one file.
fn locate(request: &Request, servers: &Servers<'_>, unknown: &mut Vec<String>) -> Result<Vec<LocatedLayout>> {
    let mounts = servers.mounts;
    let mut located: Vec<LocatedLayout> = Vec::new();
    for dir in candidates(request, servers) {
        request.check_cancelled()?;
        let is_inside = |root: &Path| {
            let holds = |of: &&LocatedLayout| root.starts_with(&of.root);
            located.iter().filter(holds).any(|of| of.root == root || !of.layout.is_of_one_file())
        };
        if is_inside(&dir) {
            continue;
        }
        if !mounts.may_enter(&dir) {
            unknown.push(format!(
                "{}: it is on a suspended pool, or on a file system of a network or a program",
                poolwright_base::quoted(&dir)
            ));
            continue;
        }
        let found = locate_all(&dir, |sub| mounts.may_enter(sub));
        for found in found.take_while(|_| !request.is_cancelled()) {
            let root = found.root.canonicalize().unwrap_or_else(|_| found.root.clone());
            // Several files of the same system below each other are one entry.
            let is_known = |of: &LocatedLayout| {
                root.starts_with(&of.root)
                    && (of.root == root || !of.layout.is_of_one_file() || of.layout.name == found.layout.name)
            };
            if !located.iter().any(is_known) {
                located.push(LocatedLayout { root, ..found });
            }
        }
    }
    Ok(located)
}

fn directory(subject: &Subject) -> Option<&Path> {
    match subject {
        Subject::Directory(dir) => Some(dir),
        Subject::Dataset(_) => None,
    }
}

/// The directories in which databases are looked for, sorted, so that a directory comes before those in it.
fn candidates(request: &Request, servers: &Servers<'_>) -> BTreeSet<PathBuf> {
    let mounts = servers.mounts;
    let mut dirs = BTreeSet::new();
    for subject in &request.subjects {
        match subject {
            Subject::Directory(dir) => dirs.extend([dir.canonicalize().unwrap_or_else(|_| dir.clone())]),
            Subject::Dataset(name) => {
                let points = mounts.points().filter(|(_, of)| is_at_or_below(&of.dataset, name));
                dirs.extend(points.map(|(point, _)| point.to_owned()));
            }
        }
    }
    let looks_everywhere = request.subjects.iter().all(|subject| matches!(subject, Subject::Dataset(_)));
    if looks_everywhere {
        // A database on a dataset that is mounted on `/` is found there, too. A link is followed without access to its target, which can be
        // on a suspended pool.
        let usual = USUAL.into_iter().map(PathBuf::from);
        dirs.extend(
            usual.map(|dir| std::fs::read_link(&dir).ok().filter(|to| to.is_absolute()).unwrap_or(dir)),
        );
        dirs.extend(servers.found.iter().flat_map(|server| servers.directories_of(server.pid)));
    }
    if request.subjects.is_empty() {
        dirs.extend(mounts.points().map(|(point, _)| point.to_owned()));
    }
    dirs
}

/// Whether a database is on a dataset that the user names; any is wanted if none is named.
fn is_wanted(request: &Request, files: &DatabaseFiles) -> bool {
    let on = |name: &str| files.groups.values().any(|group| is_at_or_below(&group.dataset, name));
    request.subjects.is_empty()
        || request.subjects.iter().any(|subject| match subject {
            Subject::Directory(_) => true,
            Subject::Dataset(name) => on(name),
        })
}

/// The facts of a database. `roots` are its directory, and those to which its links lead.
fn database(
    request: &Request,
    roots: &[PathBuf],
    located: Option<&LocatedLayout>,
    mut files: DatabaseFiles,
    mounts: &StorageTable,
    seeks_server: bool,
    unknown: &mut Vec<String>,
) -> DatabaseFacts {
    let (root, layout) = (&roots[0], located.map(|of| of.layout));
    let server = if seeks_server { find_writers(roots).into_iter().next() } else { None };
    let mut direct_files = 0;
    if let Some(server) = &server {
        for file in process::open_for_writing(server.pid) {
            let is_below = roots.iter().any(|root| file.path.starts_with(root));
            direct_files += usize::from(is_below && file.is_direct);
            if !is_below {
                add_elsewhere(&mut files, &file.path, located, mounts);
            }
        }
    }
    let mut facts = DatabaseFacts {
        layout,
        root: root.clone(),
        page: layout.and_then(|layout| layout.page_size(root)),
        bytes: files.bytes,
        elsewhere: files.groups.is_empty().then(|| mounts.file_system(root)),
        files: files.groups.into_values().collect(),
        paths: files.paths,
        is_server_hidden: !seeks_server || !rustix::process::geteuid().is_root(),
        server: server.map(|of| ServerFacts { pid: of.pid, name: of.name, direct_files }),
        settings: BTreeMap::new(),
    };
    if files.is_partial {
        unknown.push(format!(
            "{}: it has more than {} files and directories; the others were not examined",
            facts.describe(),
            files.entries
        ));
    }
    unknown.extend(files.unread.map(|why| format!("{}: {why}", facts.describe())));
    let settings = settings(request, &facts);
    facts.settings =
        known(settings, &format!("the settings of {}", facts.describe()), unknown).unwrap_or_default();
    facts
}

/// Adds a log or table that the server has open for writing in another directory.
fn add_elsewhere(
    files: &mut DatabaseFiles,
    path: &Path,
    located: Option<&LocatedLayout>,
    mounts: &StorageTable,
) {
    let role = located.and_then(|of| of.layout.role_of(path));
    if let (Some(role), Some(storage)) = (role.filter(|role| *role != Role::Other), mounts.storage_at(path)) {
        files.group(storage, role).files += 1;
    }
}

/// The settings of a running server, or of SQLite's files.
fn settings(
    request: &Request,
    of: &DatabaseFacts,
) -> std::result::Result<BTreeMap<String, String>, ClientFailure> {
    let kind = of.layout.and_then(|layout| DatabaseKind::of_layout(layout.name));
    match (kind, &of.server) {
        (Some(DatabaseKind::Sqlite), _) => {
            let files: Vec<PathBuf> = of.paths.iter().map(|file| file.path.clone()).collect();
            Ok(settings::of_sqlite(&files))
        }
        (Some(kind), Some(server)) => {
            let is_interrupted = || request.is_cancelled();
            let command_line = process::command_line(server.pid);
            settings::of_server(kind, &of.root, &command_line, ANSWER_TIME, &is_interrupted)
        }
        _ => Ok(BTreeMap::new()),
    }
}

impl<'a> Servers<'a> {
    /// The processes of known servers.
    fn running(mounts: &'a StorageTable) -> Servers<'a> {
        let is_server = |stat: &ProcessStat| SERVERS.contains(&stat.name.as_str()) && !stat.has_ended();
        Servers { mounts, found: process::all().into_iter().filter(is_server).collect() }
    }

    /// The working directory of a server, and those of its files that are open for writing. Visible to root and the server's user. A path
    /// counts if this process has the same file system there, as for a service with a mount namespace of its own.
    fn directories_of(&self, pid: i32) -> BTreeSet<PathBuf> {
        let theirs = mountinfo::of_process(pid).unwrap_or_default();
        let files = process::open_for_writing(pid).filter_map(|file| file.path.parent().map(Path::to_owned));
        let dirs = process::working_directory(pid).into_iter().chain(files);
        let excluded = ["/", "/dev", "/tmp", "/run", "/proc", "/var/log"];
        let is_candidate = |dir: &PathBuf| {
            !excluded.iter().any(|of| dir == Path::new(of)) && self.mounts.agrees_with(&theirs, dir)
        };
        dirs.filter(is_candidate).collect()
    }

    /// Notes the servers whose databases were not found.
    fn note_others(&self, request: &Request, databases: &[DatabaseFacts], unknown: &mut Vec<String>) {
        if !request.subjects.is_empty() {
            return;
        }
        let pids: Vec<i32> = self.found.iter().map(|server| server.pid).collect();
        let is_known =
            |pid: i32| databases.iter().any(|of| of.server.as_ref().is_some_and(|server| server.pid == pid));
        // Workers belong to the server that has started them.
        for server in self.found.iter().filter(|of| !pids.contains(&of.parent) && !is_known(of.pid)) {
            let why = match process::working_directory(server.pid) {
                None => "only root can see its files",
                Some(_) => "its database was not found; name its directory",
            };
            unknown.push(format!("{} (process {}): {why}", server.name, server.pid));
        }
    }
}
