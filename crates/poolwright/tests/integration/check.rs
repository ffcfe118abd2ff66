//! `poolwright check` on a mounted pool.

use std::process::Command;

use crate::common::mounted::{Mounted, until};
use crate::common::{TestDir, skip_without_fuse};
use serde_json::Value;

/// Runs a check; returns the exit code and the output.
fn check(dir: &TestDir, options: &str) -> (i32, String) {
    let done = dir.command(&format!("check {options}")).output().unwrap();
    assert!(done.stderr.is_empty(), "{done:?}");
    (done.status.code().unwrap(), String::from_utf8(done.stdout).unwrap())
}

/// The alerts of a check.
fn alerts(dir: &TestDir) -> Vec<String> {
    let (_, text) = check(dir, "--json");
    let result: Value = serde_json::from_str(&text).unwrap();
    let alerts = result["alerts"].as_array().unwrap().iter();
    alerts.map(|alert| alert["name"].as_str().unwrap().to_owned()).collect()
}

fn signal(pid: u64, name: &str) {
    Command::new("kill").args([name, &pid.to_string()]).status().unwrap();
}

#[test]
fn alerts_follow_the_pool() {
    skip_without_fuse!();
    let mounted = Mounted::on("mirror a.img:1G b.img:1G");
    let (code, text) = check(&mounted, "");
    assert_eq!(code, 0, "{text}");
    let (first, rest) = text.split_once('\n').unwrap();
    assert!(first.starts_with("POOLWRIGHT OK: ") && first.contains(" rules hold for 1 pool | "), "{first}");
    assert!(first.contains("'PoolNearlyFull tank'=") && first.contains("%;80;"), "{first}");
    assert_eq!(rest, "");
    assert_eq!(mounted.json("check")["state"], "OK");

    // A changed threshold: an empty pool holds some metadata.
    let (code, text) = check(&mounted, "PoolNearlyFull --threshold capacity-warning=0");
    assert_eq!(code, 1, "{text}");
    assert!(text.starts_with("POOLWRIGHT WARNING: pool tank is "), "{text}");

    // The process that has the pool open hangs.
    signal(mounted.pid, "-STOP");
    let (code, text) = check(&mounted, "--timeout 1s");
    signal(mounted.pid, "-CONT");
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("\ncritical SourceDown: source user-pool of pool tank "), "{text}");
    assert_eq!(alerts(&mounted), [""; 0]);

    // One side of the mirror is lost.
    std::fs::remove_file(mounted.at("a.img")).unwrap();
    until("the lost file is reported", || alerts(&mounted).contains(&"PoolDegraded".to_owned()));
    let (code, text) = check(&mounted, "PoolDegraded");
    assert_eq!(code, 1, "{text}");
    assert!(text.ends_with("\nwarning PoolDegraded: pool tank is degraded\n"), "{text}");
    let all = alerts(&mounted);
    for name in ["PoolDegraded", "PoolFileFault"] {
        assert!(all.iter().any(|alert| alert == name), "{all:?}");
    }
    assert!(!all.iter().any(|alert| alert == "PoolFaulted" || alert == "PoolDataErrors"), "{all:?}");
}

#[test]
fn increases_are_those_since_the_earlier_run() {
    skip_without_fuse!();
    let mounted = Mounted::on("a.img:1G");
    assert_eq!(check(&mounted, "VdevWriteErrors").0, 0);
    // The counters of the earlier run were one lower.
    let path = mounted.at("state/check.json");
    let mut state: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for series in state["series"].as_array_mut().unwrap() {
        if series["family"] == "poolwright_vdev_write_errors_total" {
            // The last value, then the time and the value of a point.
            series["numbers"][0] = Value::from(-1.0);
            series["numbers"][2] = Value::from(-1.0);
        }
    }
    std::fs::write(&path, state.to_string()).unwrap();
    let (code, text) = check(&mounted, "VdevWriteErrors");
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("1 writes to vdev"), "{text}");
}

#[test]
fn what_cannot_be_decided_is_unknown() {
    let dir = TestDir::new();
    assert_eq!(
        check(&dir, ""),
        (3, "POOLWRIGHT UNKNOWN: no pool was found\nunknown: no pool was found\n".to_owned())
    );
    let (code, text) = check(&dir, "PoolDegrade");
    assert_eq!((code, text.lines().next()), (3, Some("POOLWRIGHT UNKNOWN: no such alert rule: PoolDegrade")));
    let (code, text) = check(&dir, "PoolFillingUp");
    assert_eq!((code, text.lines().next()), (3, Some("POOLWRIGHT UNKNOWN: PoolFillingUp needs Prometheus")));
    let (code, text) = check(&dir, "--state /dev/null/none");
    assert_eq!(code, 3);
    assert!(text.starts_with("POOLWRIGHT UNKNOWN: cannot use the state of the last check"), "{text}");
}

#[test]
fn a_damaged_state_file_is_replaced_and_named() {
    let dir = TestDir::new();
    let state = dir.at("state.json");
    std::fs::write(&state, "not a state").unwrap();
    let options = format!("--state {}", state.display());
    let (code, text) = check(&dir, &options);
    assert_eq!(code, 3, "{text}");
    assert!(
        text.contains("unknown: replaced the state file") && text.contains("is not a state file"),
        "{text}"
    );
    assert!(!check(&dir, &options).1.contains("state file"), "the next run has it");
}

#[test]
fn the_list_and_the_rule_file() {
    let dir = TestDir::new();
    let list = dir.run("check --list");
    assert!(list.lines().count() >= 30, "{list}");
    assert!(list.lines().any(|line| line.starts_with("PoolDegraded ")), "{list}");
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let kept = std::fs::read_to_string(root.join("packaging/prometheus/poolwright.rules.yml")).unwrap();
    assert_eq!(dir.run("check --prometheus"), kept);
    assert!(dir.run("check --prometheus --threshold quota=0.5").contains("> 0.5\n"));
    dir.fails("check --prometheus --threshold quota=x", 2, &["invalid threshold quota=x"]);
    dir.fails("check --prometheus --threshold none=1", 2, &["no such threshold: none"]);
}
