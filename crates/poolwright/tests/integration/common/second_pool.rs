//! A second pool beside that of a test, and plans that move a database there.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use poolwright_base::mountinfo;
use serde_json::{Value, json};

use super::TestDir;

/// The dataset that is mounted on a directory.
pub fn dataset_on(dir: &Path) -> Option<String> {
    let dir = dir.canonicalize().unwrap();
    let mounts = mountinfo::read().unwrap();
    mountinfo::on(&mounts, &dir).map(|mount| mount.source.to_string_lossy().into_owned())
}

/// Writes the plan of documentation for a directory, with these recommendations for the dataset mounted on `mountpoint`.
pub fn write_plan(
    test_dir: &TestDir,
    database: Option<&str>,
    directory: &Path,
    mountpoint: &Path,
    recommended: Value,
) {
    let example = include_str!("../../../../../docs/examples/plan.json");
    let mut plan: Value = serde_json::from_str(example).unwrap();
    plan["subject"] = json!({"directory": directory, "file_system": "fuse.poolwright", "dataset": "tank/db",
        "files": 1, "bytes": 1, "allocated_bytes": 1});
    if let Some(database) = database {
        plan["subject"]["database"] = json!(database);
    }
    let role = &mut plan["roles"][0];
    role["place"] = json!({"mountpoint": mountpoint, "separable": true});
    (role["paths"], role["path"]) = (json!([directory]), json!(directory));
    role["current"] = json!({"recordsize": "128K", "compression": "on"});
    role["recommended"] = recommended;
    plan["roles"].as_array_mut().unwrap().truncate(1);
    plan.as_object_mut().unwrap().remove("confirmation");
    fs::write(test_dir.at("plan.json"), plan.to_string()).unwrap();
}

/// Makes a second pool, `fast`, with another ashift.
pub fn add_fast(mounted: &TestDir) -> u64 {
    mounted.run("pool create fast b.img:8G -o ashift=13");
    fs::create_dir(mounted.at("f")).unwrap();
    mounted.json("mount fast f --background --arc 64M")["pid"].as_u64().unwrap()
}

/// The process that has the second pool. It is killed when a test ends, after what uses the pool.
pub struct FastPool(pub u64);

impl Drop for FastPool {
    fn drop(&mut self) {
        if self.0 != 0 {
            let _ = Command::new("kill").args(["-KILL", &self.0.to_string()]).stderr(Stdio::null()).status();
        }
    }
}
