//! A unit of systemd. This host need not have been booted with systemd, so a script stands for `systemctl`. It keeps the states in files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use super::TestDir;

/// The name of the unit. A shell would change it.
pub const UNIT: &str = r"srv-my\x2ddb.service";

const SYSTEMCTL: &str = r#"#!/bin/sh
    cd "$(dirname "$0")/.."
    for word; do printf '<%s>' "$word"; done >>calls; echo >>calls
    case $* in *other.service) load=other;; *) load=load;; esac
    case $1 in
    show) echo "ActiveState=$(cat active)"; echo "LoadState=$(cat $load)";;
    stop) sh db.sh stop && echo inactive >active;;
    start) [ $(cat $load) = loaded ] && sh db.sh start && echo active >active;;
    mask) echo masked >$load;;
    unmask) echo loaded >$load;;
    esac"#;

/// Puts `systemctl` into a directory. `db.sh stop` and `db.sh start` there stop and start the database of the unit. There is another unit,
/// `other.service`, whose mask is in the file `other`.
pub fn install(test_dir: &TestDir, active: &str) {
    fs::create_dir(test_dir.at("bin")).unwrap();
    fs::write(test_dir.at("bin/systemctl"), SYSTEMCTL).unwrap();
    fs::set_permissions(test_dir.at("bin/systemctl"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(test_dir.at("active"), format!("{active}\n")).unwrap();
    ["load", "other"].iter().for_each(|file| fs::write(test_dir.at(file), "loaded\n").unwrap());
}

/// The command of a line, with the option `--unit`, that finds this `systemctl`.
pub fn with_unit(test_dir: &TestDir, line: &str) -> Command {
    let mut command = without_unit(test_dir, line);
    command.args(["--unit", UNIT]);
    command
}

/// The same without the option.
pub fn without_unit(test_dir: &TestDir, line: &str) -> Command {
    let path = format!("{}:{}", test_dir.at("bin").display(), std::env::var("PATH").unwrap());
    let mut command = test_dir.plain();
    command.args(line.split_whitespace()).env("PATH", path);
    command
}

/// The verbs of the calls since the last time, without those that only ask. Each call names the unit.
pub fn take_verbs(test_dir: &TestDir) -> Vec<String> {
    let calls = fs::read_to_string(test_dir.at("calls")).unwrap();
    fs::remove_file(test_dir.at("calls")).unwrap();
    assert!(calls.lines().all(|call| call.ends_with(&format!("<{UNIT}>"))), "{calls}");
    let verbs = calls.lines().map(|call| call[1..].split('>').next().unwrap().to_owned());
    verbs.filter(|verb| verb != "show").collect()
}

/// Whether the unit is `loaded` or `masked`.
pub fn load_state(test_dir: &TestDir) -> String {
    fs::read_to_string(test_dir.at("load")).unwrap().trim().to_owned()
}
