//! A mounted pool with a directory of a database, which tests back up.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::follows_schema;
use super::mounted::{Mounted, umount_soon};

/// A pool with the dataset `tank/data`, mounted on `data`, with the directory `data/db`.
pub struct Pool(Mounted);

impl std::ops::Deref for Pool {
    type Target = Mounted;

    fn deref(&self) -> &Mounted {
        &self.0
    }
}

impl Pool {
    pub fn new() -> Pool {
        let mounted = Mounted::on("a.img:4G");
        mounted.run("dataset create tank/data");
        fs::create_dir(mounted.at("data")).unwrap();
        mounted.run("mount tank/data data");
        fs::create_dir(mounted.at("data/db")).unwrap();
        Pool(mounted)
    }

    /// Runs the program with arguments that may contain spaces.
    pub fn output(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let done = self.plain().args(arguments).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (done.status.code(), text(&done.stdout), text(&done.stderr))
    }

    /// Makes a backup; its manifest.
    pub fn back_up(&self, arguments: &[&str]) -> Value {
        let common = ["backup", "run", "data/db", "--to", "tank/backup", "--mountpoint", "backup", "--json"];
        let (code, stdout, stderr) = self.output(&[&common, arguments].concat());
        assert_eq!(code, Some(0), "{stderr}");
        follows_schema("backup-run", serde_json::from_str(&stdout).unwrap())["backup"].clone()
    }

    /// Restores a backup; the names of the checks that passed, and the exit code.
    pub fn restore(&self, arguments: &[&str]) -> (Vec<String>, Option<i32>) {
        let (code, stdout, stderr) =
            self.output(&[&["backup", "verify", "tank/backup", "--json"], arguments].concat());
        assert!(matches!(code, Some(0 | 1)), "{stderr}");
        let report = follows_schema("backup-verify", serde_json::from_str(&stdout).unwrap());
        let checks =
            report["restores"].as_array().unwrap().iter().flat_map(|of| of["checks"].as_array().unwrap());
        let passed = checks.filter(|check| check["result"] == "passed");
        (passed.map(|check| check["name"].as_str().unwrap().to_owned()).collect(), code)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for name in ["archive", "backup", "data"] {
            if self.at(name).exists() {
                umount_soon(&self.at(name));
            }
        }
    }
}

/// Whether a program can be found.
pub fn is_installed(program: &str) -> bool {
    let found =
        Command::new("sh").args(["-c", &format!("command -v {program}")]).stdout(Stdio::null()).status();
    found.unwrap().success()
}
