//! `poolwright apply` on a pool whose database is running.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::common::mounted::until;
use crate::common::planned_database::PlannedDatabase;
use crate::common::{TestDir, follows_schema, skip_without_fuse};

/// A process that appends numbered lines to a file of the database, and rewrites another in place.
struct Writer(Child, PathBuf);

impl Drop for Writer {
    /// Also the process that the start command has started, if the test fails.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        if let Ok(pid) = fs::read_to_string(&self.1) {
            let _ = Command::new("kill").arg(pid.trim()).stderr(Stdio::null()).status();
        }
    }
}

impl Writer {
    const SCRIPT: &str = "
        n=$(wc -l <m/log); echo $$ >pid
        exec 9>>m/log
        while :; do
            n=$((n + 1)); echo line $n >&9
            printf %08d $n | dd of=m/base/1/7 bs=1 seek=$((n % 150000)) conv=notrunc 2>/dev/null
        done";

    fn start(dir: &TestDir) -> Writer {
        fs::write(dir.at("writer.sh"), Writer::SCRIPT).unwrap();
        fs::write(dir.at("stop.sh"), "kill $(cat pid); rm pid; touch stopped; sleep 0.3").unwrap();
        let start = "sh writer.sh >/dev/null 2>&1 & until [ -e pid ]; do sleep 0.05; done; touch started";
        fs::write(dir.at("start.sh"), start).unwrap();
        fs::write(dir.at("m/log"), "").unwrap();
        let mut command = Command::new("sh");
        command.arg("writer.sh").current_dir(dir.dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        until("the writer has begun", || fs::metadata(dir.at("m/log")).is_ok_and(|log| log.len() > 100));
        Writer(child, dir.at("pid"))
    }

    /// Stops the writer that the start command has started, and returns its lines.
    fn finish(mut self, dir: &TestDir) -> Vec<String> {
        let pid = fs::read_to_string(dir.at("pid")).unwrap();
        let before = fs::metadata(dir.at("m/log")).unwrap().len();
        until("the writer goes on", || fs::metadata(dir.at("m/log")).unwrap().len() > before);
        Command::new("kill").arg(pid.trim()).status().unwrap();
        let _ = self.0.kill();
        self.0.wait().unwrap();
        fs::remove_file(&self.1).unwrap();
        until("it has ended", || !Path::new("/proc").join(pid.trim()).exists());
        fs::read_to_string(dir.at("m/log")).unwrap().lines().map(str::to_owned).collect()
    }
}

#[test]
fn a_running_database_is_stopped_and_started() {
    skip_without_fuse!();
    for online in ["", "--online --max-downtime 10m"] {
        let database = PlannedDatabase::new("a.img:2G");
        let writer = Writer::start(&database);
        database.fails(
            "apply plan.json --yes",
            3,
            &["refused", "is running", "hint: name its unit with --unit"],
        );
        assert!(database.is_default() && !database.at("stopped").exists());
        let mut command = database.plain();
        command.args([
            "apply",
            "plan.json",
            "--yes",
            "--json",
            "--stop",
            "sh stop.sh",
            "--start",
            "sh start.sh",
        ]);
        let done = command.args(online.split_whitespace()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let report: Value = follows_schema("apply", serde_json::from_slice(&done.stdout).unwrap());
        assert!(report["outcome"]["downtime_s"].as_f64().unwrap() > 0.3, "{report}");
        assert_eq!(report["outcome"]["expected_downtime_s"].is_null(), online.is_empty());
        assert_eq!(report["assessment"]["running"]["name"], "sh");
        assert!(database.at("stopped").exists() && database.at("started").exists());
        let lines = writer.finish(&database);
        // No line was lost: the numbers go on where they were, and the file was rewritten.
        for (at, line) in lines.iter().enumerate() {
            assert_eq!(*line, format!("line {}", at + 1));
        }
        assert_eq!(database.block_size("base/1/7"), 16 << 10);
        assert_eq!(database.block_size("sparse"), 16 << 10);
        database.umount();
    }
}

#[test]
fn a_database_that_does_not_stop_is_left_alone() {
    skip_without_fuse!();
    let database = PlannedDatabase::new("a.img:2G");
    let writer = Writer::start(&database);
    let mut command = database.plain();
    command.args([
        "apply",
        "plan.json",
        "--yes",
        "--stop",
        "echo not now; exit 7",
        "--start",
        "touch started",
    ]);
    let done = command.output().unwrap();
    let messages = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(1), "{messages}");
    assert!(
        messages.contains("exit status 7: not now") && messages.contains("everything is as before"),
        "{messages}"
    );
    assert!(database.is_default() && database.snapshots() == 0);
    let hidden = fs::read_dir(database.at("m"))
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(".poolwright"));
    assert_eq!(hidden.count(), 0);
    writer.finish(&database);
    database.umount();
}
