//! Groups the files of a database by role, according to the directory, the layout and the trace.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use poolwright_base::regular;
use poolwright_trace::layout::{self, LocatedLayout, Role};
use poolwright_trace::{Op, Trace, path_text};

use poolwright_plan::{self as plan, RoleIo};

/// The files of one role.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    /// Files that exist now and are not empty.
    pub paths: Vec<PathBuf>,
    /// Sum of their lengths in bytes.
    pub bytes: u64,
    /// Their I/O in the trace.
    pub io: RoleIo,
    /// Number of reads, writes and syncs in the trace.
    pub ops: u64,
}

/// The files of a directory.
#[derive(Debug, Default)]
pub(crate) struct Inventory {
    pub found: Option<LocatedLayout>,
    pub roles: BTreeMap<Role, Files>,
    pub files: u64,
    pub bytes: u64,
    pub allocated: u64,
    pub skipped: Vec<plan::Skipped>,
    /// Role → the directory to which a symbolic link of the database leads, for roles that are outside of its directory.
    pub linked: BTreeMap<Role, PathBuf>,
}

impl Inventory {
    /// Adds a volume: one file, whose blocks that were never written read as zeros.
    fn add_volume(&mut self, device: &Path) {
        match regular::open_or_block_device(device).and_then(|file| regular::length(&file)) {
            Ok(bytes) => {
                (self.files, self.bytes) = (1, bytes);
                let files = self.roles.entry(Role::Volume).or_default();
                (files.paths, files.bytes) = (vec![device.to_owned()], bytes);
            }
            Err(why) => self.skip(device, &why),
        }
    }

    fn skip(&mut self, path: &Path, why: &std::io::Error) {
        self.skipped.push(plan::Skipped { path: path.display().to_string(), reason: why.to_string() });
    }
}

/// Walks `dir` (on one file system) and the directories behind the database's symbolic links, and adds the I/O in the trace.
pub(crate) fn take_inventory(dir: &Path, trace: &Trace) -> Inventory {
    let mut inventory = Inventory { found: layout::locate(dir), ..Inventory::default() };
    let found = inventory.found.as_ref();
    let links = found.map(|found| layout::linked_directories(&found.root)).unwrap_or_default();
    inventory.linked = found.map(|found| linked_roles(found, &links)).unwrap_or_default();
    let by_path: BTreeMap<&str, Role> =
        trace.files.iter().filter_map(|file| Some((file.path.as_str(), file.role?))).collect();
    let mut seen = BTreeSet::new();
    if regular::is_block_device(dir) {
        inventory.add_volume(dir);
    }
    // The names of the links first: a recording has the files by these names, and the layout gives them roles.
    for dir in links.iter().map(PathBuf::as_path).chain([dir]).filter(|dir| dir.is_dir()) {
        let device = std::fs::metadata(dir).map(|m| m.dev()).ok();
        walk(dir, device, &mut seen, &mut inventory, &by_path);
    }
    for event in &trace.events {
        let role = trace.files[event.file as usize].known_role();
        let files = inventory.roles.entry(role).or_default();
        let op = if event.is_read() { Op::Read } else { event.op };
        *files.io.ops.entry(op.name().to_owned()).or_default() += 1;
        let (name, histogram) = match op {
            Op::Read => ("read", &mut files.io.read_size_histogram),
            Op::Write => ("write", &mut files.io.write_size_histogram),
            _ => {
                files.ops += u64::from(op.is_sync());
                continue;
            }
        };
        files.ops += 1;
        *files.io.bytes.entry(name.to_owned()).or_default() += event.len;
        if event.len > 0 {
            add(histogram, 1 << event.len.ilog2());
        }
    }
    inventory
}

/// How many of the files that a recording read or wrote are in a directory.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FilesInDirectory {
    pub inside: u64,
    pub outside: u64,
    /// Operations on files outside the directory.
    pub ops_outside: u64,
    pub ops: u64,
    /// A file outside the directory.
    pub example: Option<String>,
}

/// Counts the trace's files inside and outside of `dir`, an absolute path.
pub(crate) fn files_in_directory(dir: &Path, trace: &Trace) -> FilesInDirectory {
    let mut ops = vec![0u64; trace.files.len()];
    for event in trace.events.iter().filter(|e| matches!(e.op, Op::Read | Op::Write)) {
        ops[event.file as usize] += 1;
    }
    let mut found = FilesInDirectory::default();
    // The name of a device may be a link.
    let real = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    for (file, ops) in trace.files.iter().zip(ops).filter(|(_, ops)| *ops > 0) {
        let path = file.host_path();
        // For a removed file, the recorded path counts.
        let location = path.canonicalize().or_else(|_| std::path::absolute(&path));
        found.ops += ops;
        if location.is_ok_and(|location| location.starts_with(&real)) || path.starts_with(dir) {
            found.inside += 1;
        } else {
            found.outside += 1;
            found.ops_outside += ops;
            found.example.get_or_insert_with(|| file.path.clone());
        }
    }
    found
}

fn add(histogram: &mut Vec<(u64, u64)>, low: u64) {
    match histogram.binary_search_by_key(&low, |(l, _)| *l) {
        Ok(i) => histogram[i].1 += 1,
        Err(i) => histogram.insert(i, (low, 1)),
    }
}

fn walk(
    dir: &Path,
    device: Option<u64>,
    seen: &mut BTreeSet<(u64, u64)>,
    inventory: &mut Inventory,
    by_path: &BTreeMap<&str, Role>,
) {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(why) => return inventory.skip(dir, &why),
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    for path in paths {
        let Ok(meta) = std::fs::symlink_metadata(&path) else { continue };
        if meta.is_dir() && Some(meta.dev()) == device {
            walk(&path, device, seen, inventory, by_path);
        } else if meta.is_file() && seen.insert((meta.dev(), meta.ino())) {
            if let Err(why) = regular::open(&path) {
                inventory.skip(&path, &why);
                continue;
            }
            let role = by_path.get(path_text::encode(&path).as_str()).copied();
            let role = role.or_else(|| inventory.found.as_ref()?.role_of(&path)).unwrap_or_default();
            let files = inventory.roles.entry(role).or_default();
            files.bytes += meta.len();
            inventory.files += 1;
            inventory.bytes += meta.len();
            inventory.allocated += meta.blocks() * 512;
            if meta.len() > 0 {
                files.paths.push(path);
            }
        }
    }
}

/// The roles whose directory is a symbolic link to a directory outside of the database's.
fn linked_roles(found: &LocatedLayout, links: &[PathBuf]) -> BTreeMap<Role, PathBuf> {
    let linked = |own: &SeparableRole| {
        let path = found.root.join(own.link.filter(|_| own.layout == found.layout.name)?);
        let target = path.canonicalize().ok().filter(|_| links.contains(&path))?;
        Some((own.role, target))
    };
    SEPARABLE.iter().filter_map(linked).collect()
}

/// Returns the directory on which a role's dataset is or would be mounted, and the change of the database that this
/// requires.
pub(crate) fn dataset_location(inventory: &Inventory, dir: &Path, role: Role) -> plan::DatasetLocation {
    let root = inventory.found.as_ref().map_or(dir, |f| f.root.as_path());
    let layout = inventory.found.as_ref().map_or("", |f| f.layout.name);
    if let Some(target) = inventory.linked.get(&role) {
        return plan::DatasetLocation {
            mountpoint: target.display().to_string(),
            separable: true,
            ..plan::DatasetLocation::default()
        };
    }
    let own = SEPARABLE.iter().find(|own| own.layout == layout && own.role == role);
    match own {
        Some(own) => plan::DatasetLocation {
            mountpoint: sibling(root, own.suffix),
            separable: true,
            how: Some(own.how.replace("DIR", &sibling(root, own.suffix))),
            link: own.link.map(|name| root.join(name).display().to_string()),
            ..plan::DatasetLocation::default()
        },
        None if matches!(role, Role::Data | Role::Volume) => plan::DatasetLocation {
            mountpoint: root.display().to_string(),
            separable: true,
            ..plan::DatasetLocation::default()
        },
        None => plan::DatasetLocation {
            mountpoint: root.display().to_string(),
            separable: false,
            ..plan::DatasetLocation::default()
        },
    }
}

fn sibling(root: &Path, name: &str) -> String {
    let base = root.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    root.with_file_name(format!("{base}-{name}")).display().to_string()
}

/// A role that can have a separate directory.
struct SeparableRole {
    /// The layout of the database ([`layout`]).
    layout: &'static str,
    role: Role,
    /// The name of the role's own directory is that of the database's, a hyphen and this.
    suffix: &'static str,
    /// How to move the role there; `DIR` is the directory.
    how: &'static str,
    /// The directory in the database's that can be a symbolic link to it instead.
    link: Option<&'static str>,
}

/// One row of [`SEPARABLE`].
const fn separable(
    layout: &'static str,
    role: Role,
    suffix: &'static str,
    how: &'static str,
    link: Option<&'static str>,
) -> SeparableRole {
    SeparableRole { layout, role, suffix, how, link }
}

/// The roles that can have a separate directory.
const SEPARABLE: &[SeparableRole] = &[
    separable("mariadb", Role::Wal, "wal", "innodb_log_group_home_dir=DIR", None),
    separable("mariadb", Role::Binlog, "binlog", "log_bin=DIR/binlog", None),
    separable("mariadb", Role::Temp, "temp", "tmpdir=DIR", None),
    separable(
        "postgresql",
        Role::Wal,
        "wal",
        "pg_wal as a symbolic link to DIR (`poolwright apply` makes it)",
        Some("pg_wal"),
    ),
    separable("postgresql", Role::Temp, "temp", "temp_tablespaces with a tablespace in DIR", None),
    separable("orientdb", Role::Wal, "wal", "storage.wal.path=DIR", None),
    separable(
        "orientdb",
        Role::Index,
        "index",
        "luceneIndexes as a symbolic link to DIR (`poolwright apply` makes it)",
        Some("luceneIndexes"),
    ),
    separable("rocksdb", Role::Wal, "wal", "wal_dir=DIR", None),
    separable("influxdb", Role::Wal, "wal", "[data] wal-dir = DIR", None),
    separable("etcd", Role::Wal, "wal", "--wal-dir=DIR", None),
    separable(
        "wiredtiger",
        Role::Wal,
        "wal",
        "MongoDB: journal as a symbolic link to DIR; else log=(path=DIR)",
        None,
    ),
    separable("clickhouse", Role::Temp, "temp", "tmp_path=DIR", None),
    separable("duckdb", Role::Temp, "temp", "temp_directory='DIR'", None),
];

#[cfg(test)]
mod tests {
    use super::*;
    use poolwright_trace::{Event, File, Flags};

    fn trace(paths: &[(&str, Op)]) -> Trace {
        let file = |(path, _): &(&str, Op)| File { path: (*path).into(), ..File::default() };
        let event = |(i, (_, op)): (usize, &(&str, Op))| Event {
            t_ns: 0,
            dur_ns: 1,
            op: *op,
            file: i as u32,
            offset: 0,
            len: 4096,
            pid: 1,
            tid: 1,
            flags: Flags::default(),
            gap: None,
        };
        Trace {
            files: paths.iter().map(file).collect(),
            events: paths.iter().enumerate().map(event).collect(),
            ..Trace::default()
        }
    }

    #[test]
    fn every_separable_role_is_of_a_known_layout() {
        for own in SEPARABLE {
            let known = layout::Layout::by_name(own.layout).map(|found| found.files);
            let has_role = known.is_some_and(|files| files.iter().any(|(_, role)| *role == own.role));
            assert!(has_role, "{}: {}", own.layout, own.role);
        }
    }

    #[test]
    fn a_log_behind_a_link_has_the_place_of_the_link() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (root, wal) = (top.join("pg"), top.join("log"));
        for dir in ["base/1", "global", "pg_wal"] {
            std::fs::create_dir_all(root.join(dir)).unwrap();
        }
        for file in ["PG_VERSION", "global/pg_control", "base/1/2", "pg_wal/000000010000000000000001"] {
            std::fs::write(root.join(file), b"x").unwrap();
        }
        let inventory = take_inventory(&root, &Trace::default());
        assert_eq!(inventory.roles[&Role::Wal].paths, [root.join("pg_wal/000000010000000000000001")]);
        let place = dataset_location(&inventory, &root, Role::Wal);
        assert_eq!((place.mountpoint.as_str(), place.link.is_some()), (sibling(&root, "wal").as_str(), true));

        std::fs::rename(root.join("pg_wal"), &wal).unwrap();
        std::os::unix::fs::symlink(&wal, root.join("pg_wal")).unwrap();
        // The same files, also of a directory in which the link's target is.
        for dir in [&root, &top] {
            let inventory = take_inventory(dir, &Trace::default());
            assert_eq!(inventory.roles[&Role::Wal].paths, [root.join("pg_wal/000000010000000000000001")]);
            let place = dataset_location(&inventory, dir, Role::Wal);
            let expected = plan::DatasetLocation {
                mountpoint: wal.display().to_string(),
                separable: true,
                ..plan::DatasetLocation::default()
            };
            assert_eq!(place, expected);
        }
    }

    #[test]
    fn page_faults_that_read_are_reads_of_the_role() {
        let mut trace = trace(&[("/db/a", Op::Map), ("/db/a", Op::Map), ("/db/a", Op::Map)]);
        trace.events[1].dur_ns = 0;
        (trace.events[2].dur_ns, trace.events[2].flags) = (0, Flags::CACHED);
        let inventory = take_inventory(tempfile::tempdir().unwrap().path(), &trace);
        let files = &inventory.roles[&Role::Other];
        assert_eq!((files.ops, files.io.bytes["read"]), (1, 4096));
        assert_eq!(files.io.ops, BTreeMap::from([("map".to_owned(), 2), ("read".to_owned(), 1)]));
    }

    #[test]
    fn files_of_the_recording_are_told_apart_by_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let db = dir.path().canonicalize().unwrap().join("db");
        std::fs::create_dir(&db).unwrap();
        std::fs::write(db.join("table"), b"x").unwrap();
        std::os::unix::fs::symlink(&db, dir.path().join("link")).unwrap();
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let here = text(db.join("table"));
        let linked = text(dir.path().join("link/table"));
        let gone = text(db.join("gone"));
        let beside = text(dir.path().join("db2/table"));
        let all = trace(&[(&here, Op::Read), (&linked, Op::Read), (&gone, Op::Write), (&beside, Op::Read)]);
        let found = files_in_directory(&db, &all);
        let expected =
            FilesInDirectory { inside: 3, outside: 1, ops_outside: 1, ops: 4, example: Some(beside.clone()) };
        assert_eq!(found, expected);
        // A file that was only opened does not count.
        assert_eq!(files_in_directory(&db, &trace(&[(&beside, Op::Open)])), FilesInDirectory::default());
    }
}
