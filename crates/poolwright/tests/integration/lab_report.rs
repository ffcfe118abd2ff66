//! `lab report` with results in a real store, from the fictitious run of the golden files.

use std::path::Path;

use assert_cmd::Command;
use poolwright_lab::Store;
use predicates::prelude::*;

#[path = "../../../lab/tests/made_up/mod.rs"]
mod made_up;

/// A directory with results: a run for each of `seeds`, the first one the latest.
fn results(seeds: &[u64]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(&dir.path().join("lab-made-up.db")).unwrap();
    for seed in seeds.iter().rev() {
        let (_, run, trials) = made_up::run(*seed);
        let id = store.begin(&run).unwrap();
        for trial in &trials {
            store.save(id, trial).unwrap();
        }
    }
    dir
}

fn report(dir: &Path, args: &[&str]) -> assert_cmd::assert::Assert {
    let mut command = Command::cargo_bin("poolwright").unwrap();
    command.current_dir(dir).args(["lab", "report"]).args(args).assert()
}

#[test]
fn the_answers_come_first_and_the_page_is_beside_the_results() {
    let dir = results(&[1]);
    let messages = report(dir.path(), &["made-up"]).success();
    let out = String::from_utf8(messages.get_output().stdout.clone()).unwrap();
    let (claims, choice) = (
        out.find("The original's 7 claims").unwrap(),
        out.find("What its author would choose today").unwrap(),
    );
    assert!(choice < claims && claims < out.find("switch: ").unwrap(), "{out}");
    assert!(out.ends_with("The page: lab-made-up.html\n"), "{out}");
    let page = std::fs::read_to_string(dir.path().join("lab-made-up.html")).unwrap();
    assert!(page.contains("MADE-UP FIGURES") && page.ends_with("</html>\n"));
}

#[test]
fn other_formats_are_printed_and_leave_no_page() {
    let dir = results(&[1]);
    report(dir.path(), &["made-up", "--markdown"])
        .success()
        .stdout(predicate::str::starts_with("# A campaign"));
    let csv = report(dir.path(), &["made-up", "--csv"]).success();
    let csv = String::from_utf8(csv.get_output().stdout.clone()).unwrap();
    let head = "study,primarycache,compression,recordsize,sync,block,node,phase,measure,value,unit\n";
    assert!(csv.starts_with(head), "{csv}");
    let json = report(dir.path(), &["made-up", "--json"]).success();
    let json = crate::common::json_output("lab-report", &json.get_output().stdout);
    assert_eq!((json["planned"].as_u64(), json["done"].as_u64()), (Some(55), Some(54)));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "only the results");
    report(dir.path(), &["made-up", "--csv", "--json"]).code(2);
}

#[test]
fn two_runs_of_one_store_or_of_two_are_compared() {
    let (dir, other) = (results(&[1, 2]), results(&[1]));
    let page = ["-o", "page.html"];
    let args = [&["made-up", "--against", "1"], &page[..]].concat();
    let agree = "Runs 2 and 1 of made-up agree within their intervals in ";
    report(dir.path(), &args)
        .success()
        .stdout(predicate::str::contains(agree).and(predicate::str::contains("seed: 1 and 2")));
    assert!(std::fs::read_to_string(dir.path().join("page.html")).unwrap().contains("Against another run"));
    let there = other.path().join("lab-made-up.db");
    let json = report(dir.path(), &["made-up", "--json", "--against", there.to_str().unwrap()]).success();
    let json = crate::common::json_output("lab-report", &json.get_output().stdout);
    assert_eq!(json["against"]["share"], 1.0, "the same figures");
    assert_eq!(json["against"]["apart"], serde_json::json!([]));
}

#[test]
fn what_is_not_there_is_said() {
    let dir = results(&[1]);
    let no = |args: &[&str], why: &str| {
        report(dir.path(), args).code(1).stderr(predicate::str::contains(why));
    };
    no(&["unheard-of"], "no results of unheard-of: lab-unheard-of.db does not exist\nhint: ");
    no(&["made-up", "--run", "9"], "lab-made-up.db has no run 9 of made-up; it has 1");
    no(&["other", "--results", "lab-made-up.db"], "lab-made-up.db has no run of other");
    no(&["made-up", "-o", "no/such/folder.html"], "cannot write no/such/folder.html");
}
