//! A mounted pool with the files of a database, and a plan for its dataset.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::mounted::Mounted;

/// The attributes of a file or directory that apply and undo keep, and its content.
pub type Manifest = BTreeMap<PathBuf, (u32, u32, u64, i64, i64, u64, Vec<u8>)>;

/// What is below a directory.
fn manifest(dir: &Path) -> Manifest {
    let (mut found, mut rest) = (Manifest::new(), vec![dir.to_owned()]);
    while let Some(path) = rest.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        let content = match () {
            () if meta.is_dir() => {
                rest.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                Vec::new()
            }
            () if meta.is_file() && meta.len() < 64 << 20 => fs::read(&path).unwrap(),
            () if meta.is_file() => {
                let (file, mut end) = (fs::File::open(&path).unwrap(), [0; 64]);
                file.read_exact_at(&mut end, meta.len() - 64).unwrap();
                end.to_vec()
            }
            () => fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
        };
        let times = (meta.mtime(), meta.mtime_nsec());
        let links = if meta.is_dir() { 0 } else { meta.nlink() };
        found.insert(path, (meta.mode(), meta.uid(), links, times.0, times.1, meta.len(), content));
    }
    found
}

/// A mounted pool with files of several kinds.
pub struct PlannedDatabase(pub Mounted);

impl std::ops::Deref for PlannedDatabase {
    type Target = Mounted;

    fn deref(&self) -> &Mounted {
        &self.0
    }
}

impl PlannedDatabase {
    pub fn new(pool: &str) -> PlannedDatabase {
        let database = PlannedDatabase(Mounted::on(pool));
        let at = |name: &str| database.at("m").join(name);
        fs::create_dir_all(at("base/1")).unwrap();
        for i in 0..30_u32 {
            let row = format!("{i} row of a table that compresses well; ");
            let size = [100, 9_000, 200_000, 1_500_000][i as usize % 4];
            fs::write(at(&format!("base/1/{i}")), row.repeat(size / row.len())).unwrap();
        }
        fs::hard_link(at("base/1/2"), at("base/link")).unwrap();
        fs::write(at("empty"), "").unwrap();
        fs::set_permissions(at("base/1/3"), fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("base/1", at("symlink")).unwrap();
        let sparse = fs::File::create(at("sparse")).unwrap();
        sparse.write_all_at(&[9; 100], 5 << 30).unwrap();
        let status =
            Command::new("touch").args(["-d", "1999-12-31 23:59:59.123456789"]).arg(at("base/1/2")).status();
        assert!(status.unwrap().success());
        database.plan(json!({"recordsize": "16K", "compression": "zstd-3"}));
        database
    }

    /// Writes a plan that recommends these properties.
    pub fn plan(&self, recommended: Value) {
        let example = include_str!("../../../../../docs/examples/plan.json");
        let mut plan: Value = serde_json::from_str(example).unwrap();
        let m = self.at("m").canonicalize().unwrap();
        plan["subject"] = json!({"directory": m, "file_system": "fuse.poolwright", "dataset": "tank",
            "files": 1, "bytes": 1, "allocated_bytes": 1});
        let role = &mut plan["roles"][0];
        role["place"] = json!({"mountpoint": m, "separable": true});
        role["paths"] = json!([m]);
        role["path"] = json!(m);
        role["current"] = json!({"recordsize": "128K", "compression": "on"});
        role["recommended"] = recommended;
        fs::write(self.at("plan.json"), plan.to_string()).unwrap();
    }

    /// Adds a log, and a role of the plan that moves it into a dataset of its own.
    pub fn with_log(self) -> PlannedDatabase {
        let log = self.at("m/pg_wal");
        fs::create_dir_all(log.join("archive_status")).unwrap();
        for i in 0..6_u32 {
            fs::write(log.join(i.to_string()), format!("record {i} ").repeat(30_000)).unwrap();
        }
        fs::hard_link(log.join("5"), log.join("archive_status/5")).unwrap();
        std::os::unix::fs::symlink("../base", log.join("symlink")).unwrap();
        fs::set_permissions(&log, fs::Permissions::from_mode(0o2750)).unwrap();
        let touched = Command::new("touch").args(["-d", "2001-02-03 04:05:06.789"]).arg(&log).status();
        assert!(touched.unwrap().success());
        let m = self.at("m").canonicalize().unwrap();
        let (link, new) = (m.join("pg_wal"), m.with_file_name("m-wal"));
        self.edit_plan(|plan| {
            let mut role = plan["roles"][0].clone();
            role["role"] = json!("wal");
            role["path"] = json!(link);
            role["paths"] = json!([link]);
            role["place"] = json!({"mountpoint": new, "dataset": "tank", "separable": true, "how": "a link", "link": link});
            role["recommended"] = json!({"recordsize": "64K", "logbias": "throughput"});
            role["together_with"] = json!([]);
            plan["roles"].as_array_mut().unwrap().truncate(1);
            plan["roles"].as_array_mut().unwrap().push(role);
        });
        self
    }

    /// The names of all datasets.
    pub fn datasets(&self) -> Vec<String> {
        let list = self.json("dataset list");
        let names = list["datasets"].as_array().unwrap().iter();
        names.map(|of| of["name"].as_str().unwrap().to_owned()).filter(|name| !name.contains('@')).collect()
    }

    /// The manifest, with the files of the moved log where they were.
    pub fn manifest_with_log(&self) -> Manifest {
        let mut found = self.manifest();
        let (link, new) = (self.at("m/pg_wal"), self.at("m-wal"));
        if fs::symlink_metadata(&link).unwrap().is_symlink() {
            assert_eq!(fs::read_link(&link).unwrap(), new.canonicalize().unwrap());
            found.remove(&link);
            for (path, of) in manifest(&new) {
                found.insert(link.join(path.strip_prefix(&new).unwrap()), of);
            }
            // `join` of an empty path appends a separator, which `Path` ignores.
        }
        found
    }

    pub fn edit_plan(&self, edit: impl FnOnce(&mut Value)) {
        let mut plan = serde_json::from_slice(&fs::read(self.at("plan.json")).unwrap()).unwrap();
        edit(&mut plan);
        fs::write(self.at("plan.json"), plan.to_string()).unwrap();
    }

    /// Value and source of a property.
    pub fn property(&self, property: &str) -> (String, String) {
        let found = self.json(&format!("dataset get {property} tank"));
        let text = |key: &str| found["values"][0][key].as_str().unwrap().to_owned();
        (text("value"), text("source"))
    }

    pub fn snapshots(&self) -> usize {
        let list = self.json("dataset list -t snapshot tank");
        list["datasets"].as_array().unwrap().len()
    }

    pub fn block_size(&self, name: &str) -> u64 {
        fs::metadata(self.at("m").join(name)).unwrap().blksize()
    }

    pub fn manifest(&self) -> Manifest {
        manifest(&self.at("m"))
    }

    pub fn is_default(&self) -> bool {
        ["recordsize", "compression"].iter().all(|of| self.property(of).1 == "default")
    }
}
