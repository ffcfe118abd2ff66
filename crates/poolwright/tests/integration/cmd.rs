//! Data-driven tests of the command line: each file of `tests/cmd` is a terminal session that runs in an empty directory, with its
//! own registry of pools. `TRYCMD=overwrite cargo test --release -p poolwright --test integration cmd` accepts the new output.

use std::time::Duration;

/// The longest time that one command may take. Commands here take less than a second on an idle machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs a session; panics if its output differs from the file.
fn session(name: &str) {
    let registry = tempfile::tempdir().unwrap();
    let path = |name: &str| registry.path().join(name).to_str().unwrap().to_owned();
    trycmd::TestCases::new()
        .env("POOLWRIGHT_STATE_DIR", path("state"))
        .env("POOLWRIGHT_RUNTIME_DIR", path("run"))
        .env("NO_COLOR", "1")
        .env("COLUMNS", "100")
        .timeout(LIMIT)
        .register_bin("poolwright", std::path::Path::new(assert_cmd::cargo::cargo_bin!("poolwright")))
        .case(format!("tests/cmd/{name}.trycmd"))
        .run();
}

#[test]
fn pool() {
    session("pool");
}

#[test]
fn pool_create_refused() {
    session("pool-create-refused");
}

#[test]
fn dataset() {
    session("dataset");
}

#[test]
fn snapshot() {
    session("snapshot");
}

#[test]
fn vdevs() {
    session("vdevs");
}

#[test]
fn usage() {
    session("usage");
}

#[test]
fn every_session_is_run() {
    let mut names: Vec<_> = std::fs::read_dir("tests/cmd")
        .unwrap()
        .filter_map(|entry| {
            entry.unwrap().file_name().to_str().unwrap().strip_suffix(".trycmd").map(str::to_owned)
        })
        .collect();
    names.sort();
    assert_eq!(names, ["dataset", "pool", "pool-create-refused", "snapshot", "usage", "vdevs"]);
}
