//! `poolwright apply --new-pool` and `undo` after it, with a running PostgreSQL.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::common::mounted::{umount, until};
use crate::common::postgres::{Postgres, skip_without_postgres};
use crate::common::second_pool::{FastPool, add_fast, dataset_on, write_plan};
use crate::common::{follows_schema, skip_without_fuse};
use serde_json::{Value, json};

/// A running PostgreSQL on `tank`, a second pool, and a plan that moves it there.
struct Server {
    _fast: FastPool,
    postgres: Postgres,
    bin: PathBuf,
}

impl std::ops::Deref for Server {
    type Target = Postgres;

    fn deref(&self) -> &Postgres {
        &self.postgres
    }
}

impl Server {
    fn start() -> Server {
        let mut _fast = FastPool(0);
        let mut postgres = Postgres::start();
        postgres.set(&[("max_prepared_transactions", "5")]);
        _fast.0 = add_fast(&postgres);
        let server = Server { _fast, postgres, bin: crate::common::postgres::bindir().unwrap() };
        let recommended = json!({"recordsize": "8K", "compression": "lz4"});
        write_plan(&server, Some("PostgreSQL"), &server.db(), server.db().parent().unwrap(), recommended);
        let log = server.at("again.log");
        fs::write(&log, "").unwrap();
        assert!(Command::new("chown").arg("nobody").arg(&log).status().unwrap().success());
        let options =
            format!("-k {} -c listen_addresses= -c full_page_writes=off", server.at("socket").display());
        fs::write(server.at("stop.sh"), server.ctl("stop -m fast")).unwrap();
        let start = server.ctl(&format!("start -l {} -o '{options}'", log.display()));
        fs::write(server.at("start.sh"), start).unwrap();
        for n in 1..=100 {
            server.ask(&format!("INSERT INTO acked VALUES ({n})"));
        }
        server
    }

    fn db(&self) -> PathBuf {
        self.at("data/db").canonicalize().unwrap()
    }

    fn ctl(&self, verb: &str) -> String {
        let (ctl, db) = (self.bin.join("pg_ctl"), self.db());
        format!("setpriv --reuid nobody --clear-groups -- {} -D {} -w {verb}", ctl.display(), db.display())
    }

    /// pgbench. It ends with the server.
    fn load(&self) -> std::process::Child {
        let mut pgbench = self.client("pgbench");
        pgbench.args(["-n", "-c", "2", "-T", "7200", "postgres"]).stdout(Stdio::null()).stderr(Stdio::null());
        pgbench.spawn().unwrap()
    }

    /// `apply` or `undo`, which stop and start the server.
    fn command_with_service(&self, line: &str) -> Command {
        let mut command = self.plain();
        command.args(line.split_whitespace()).args(["--stop", "sh stop.sh", "--start", "sh start.sh"]);
        command
    }

    fn report(&self, line: &str) -> Value {
        let done = self.command_with_service(line).output().unwrap();
        assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
        follows_schema("apply-new-pool", serde_json::from_slice(&done.stdout).unwrap())
    }

    /// The invariants of the tables.
    fn check(&self) {
        let mut check = Command::new("sh");
        check.args(["-c", &Postgres::check(100)]).env("PGHOST", self.at("socket")).env("PGUSER", "nobody");
        assert!(check.status().unwrap().success(), "the invariants of the tables hold");
    }

    fn history(&self) -> u64 {
        self.ask("SELECT count(*) FROM pgbench_history").parse().unwrap()
    }

    /// The datasets with the data and the log.
    fn places(&self) -> [Option<String>; 2] {
        ["data", "wal"].map(|name| dataset_on(&self.at(name)))
    }

    /// Stops the server, and verifies the checksums of all pages.
    fn end(mut self) {
        let stopped = Command::new("sh").arg("stop.sh").current_dir(self.dir.path()).status().unwrap();
        assert!(stopped.success());
        let mut checksums = Command::new(self.bin.join("pg_checksums"));
        assert!(checksums.arg("-D").arg(self.db()).stdout(Stdio::null()).status().unwrap().success());
        self.postgres.stop();
        until("the second pool can be unmounted", || umount(&self.at("f")));
    }
}

fn on(pool: &str) -> [Option<String>; 2] {
    ["data", "wal"].map(|name| Some(format!("{pool}/{name}")))
}

/// A PostgreSQL under load moves in this way, and back nearly online.
fn moves_under_load(way: &str) {
    let server = Server::start();
    server.ask("BEGIN; INSERT INTO acked VALUES (1000000); PREPARE TRANSACTION 'prepared'");
    let mut pgbench = server.load();
    until("pgbench writes", || server.history() > 50);
    let report = server.report(&format!("apply plan.json --new-pool fast --yes --json {way}"));
    pgbench.wait().unwrap();
    let outcome = &report["outcome"];
    assert!(outcome["downtime_s"].as_f64().is_some() && outcome["expected_downtime_s"].as_f64().is_some());
    assert_eq!(outcome["standby"], json!(way == "--standby"));
    assert_eq!(report["assessment"]["running"]["name"], "postgres");
    assert_eq!(server.places(), on("fast"));
    server.ask("COMMIT PREPARED 'prepared'");
    assert_eq!(server.ask("DELETE FROM acked WHERE n = 1000000 RETURNING n"), "1000000");
    server.check();
    let log = fs::read_to_string(server.at("again.log")).unwrap();
    assert!(log.contains("database system was shut down at") && !log.contains("not properly"), "{log}");
    let moved = server.history();
    let mut pgbench = server.load();
    until("pgbench writes on the new pool", || server.history() > moved + 50);
    let undone = server.report("undo plan.json --yes --json --online");
    pgbench.wait().unwrap();
    let kept = undone["outcome"]["kept_snapshots"].as_array().unwrap();
    assert_eq!(kept.len(), if way == "--standby" { 2 } else { 0 }, "{undone}");
    if let Some(name) = kept.first().and_then(Value::as_str) {
        let again = format!("apply plan.json --new-pool fast --yes {way}");
        let done = server.command_with_service(&again).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.code() == Some(3) && said.contains(name) && said.contains("is kept"), "{said}");
    }
    assert!(server.history() > moved + 50, "what was written on the new pool is there");
    assert_eq!(server.places(), on("tank"));
    server.check();
    server.end();
}

#[test]
fn a_running_postgresql_moves_to_another_pool_and_back() {
    skip_without_fuse!();
    skip_without_postgres!();
    moves_under_load("--online");
}

#[test]
fn a_standby_takes_the_place_of_a_running_postgresql() {
    skip_without_fuse!();
    skip_without_postgres!();
    moves_under_load("--standby");
}

/// What a standby would not have is refused, and a run that is killed at any step leaves the database running, and is continued.
#[test]
fn a_standby_loses_nothing() {
    skip_without_fuse!();
    skip_without_postgres!();
    let server = Server::start();
    let line = "apply plan.json --new-pool fast --standby --yes";
    let refused = |words: &[&str]| {
        let done = server.command_with_service(line).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(3), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
        assert_eq!(server.places(), on("tank"));
    };
    server.fails("apply plan.json --new-pool fast --standby --online --yes", 2, &["cannot be used with"]);
    server.fails("apply plan.json --standby --yes", 2, &["--new-pool"]);
    server.ask("CREATE UNLOGGED TABLE volatile (n int)");
    refused(&["unlogged table", "hint: "]);
    server.ask("DROP TABLE volatile");
    // Its files are removed by the next checkpoint.
    server.ask("CHECKPOINT");
    server.ask("SELECT pg_create_physical_replication_slot('other')");
    refused(&["replication slot other", "hint: "]);
    server.ask("SELECT pg_drop_replication_slot('other')");

    server.ask("ALTER SYSTEM SET work_mem = '5MB'");

    // The standby would write into the directory of a new tablespace, which is the primary's: it fails, and the database goes on.
    let elsewhere = server.at("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    assert!(Command::new("chown").arg("nobody").arg(&elsewhere).status().unwrap().success());
    let mut command = server.command_with_service(line);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(said.any(|line| line.contains("pg_verifybackup")));
    server.ask(&format!("CREATE TABLESPACE elsewhere LOCATION '{}'", elsewhere.display()));
    let said: Vec<String> = said.collect();
    assert_eq!(child.wait().unwrap().code(), Some(3), "{said:?}");
    assert!(said.iter().any(|line| line.contains("Read-only file system")), "{said:?}");
    assert_eq!(server.places(), on("tank"));
    server.ask("DROP TABLESPACE elsewhere");

    for step in ["pg_basebackup", "pg_verifybackup", "will be stopped", "zfs unmount tank/data"] {
        let mut command = server.command_with_service(line);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(said.any(|line| line.contains(step)), "{step}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let without = line.replace("--standby", "--online");
    let done = server.command_with_service(&without).output().unwrap();
    assert!(String::from_utf8_lossy(&done.stderr).contains("begun with a standby"), "{done:?}");
    // The last run was killed when the server was stopped, so this one starts it first.
    server.report(&format!("{line} --json"));
    assert_eq!(server.places(), on("fast"));
    assert_eq!(server.ask("SELECT pg_is_in_recovery()"), "f");
    assert_eq!(server.ask("SHOW work_mem"), "5MB", "the settings are those of the primary");
    assert_eq!(server.ask("SELECT count(*) FROM pg_replication_slots"), "0");
    server.check();
    server.end();
}
