//! A PostgreSQL whose data and log are on two datasets of a mounted pool, with loads that maintain invariants.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::mounted::{Mounted, umount, until};

/// The directory of the server's programs; `None` if it is not installed.
pub fn bindir() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    let mut dirs: Vec<PathBuf> = versions.flatten().map(|entry| entry.path().join("bin")).collect();
    dirs.sort();
    dirs.into_iter().rfind(|dir| dir.join("postgres").is_file() && dir.join("pgbench").is_file())
}

/// Ends a test with a message if PostgreSQL is not installed, or this is not root, who can run it as another user.
#[allow(unused_macros)]
macro_rules! skip_without_postgres {
    () => {
        if $crate::common::postgres::bindir().is_none() {
            eprintln!("skipped: PostgreSQL with pgbench is not installed");
            return;
        }
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can run PostgreSQL as another user");
            return;
        }
    };
}
#[allow(unused_imports)]
pub(crate) use skip_without_postgres;

/// A command that runs a program as the user nobody.
pub fn as_nobody(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "nobody", "--clear-groups", "--pdeathsig", "KILL", "--"]).arg(program);
    command.current_dir("/").stdin(Stdio::null());
    command
}

fn succeeds(command: &mut Command) -> String {
    let done = command.output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// The running server. Its data directory is `data/db` on `tank/data`, its log `wal/log` on `tank/wal`.
pub struct Postgres {
    pub mounted: Mounted,
    server: Child,
    bindir: PathBuf,
}

impl Deref for Postgres {
    type Target = Mounted;

    fn deref(&self) -> &Mounted {
        &self.mounted
    }
}

impl Postgres {
    /// Makes the database, with the tables of pgbench, and starts the server.
    pub fn start() -> Postgres {
        let mounted = Mounted::on("a.img:8G");
        let status = Command::new("chmod").arg("0711").arg(mounted.dir.path()).status().unwrap();
        assert!(status.success());
        for name in ["data", "wal"] {
            mounted.run(&format!("dataset create tank/{name}"));
            fs::create_dir(mounted.at(name)).unwrap();
            mounted.run(&format!("mount tank/{name} {name}"));
        }
        fs::create_dir(mounted.at("socket")).unwrap();
        for name in ["data", "wal", "socket"] {
            assert!(Command::new("chown").arg("nobody").arg(mounted.at(name)).status().unwrap().success());
        }
        let bindir = bindir().unwrap();
        let mut initdb = as_nobody(&bindir.join("initdb"));
        initdb.arg("-D").arg(mounted.at("data/db")).arg("-X").arg(mounted.at("wal/log"));
        initdb.args(["-U", "nobody", "-A", "trust", "--no-locale", "-E", "UTF8", "-k", "--wal-segsize=1"]);
        succeeds(initdb.env("TZ", "GMT"));
        let server = Postgres::spawn(&mounted, &bindir);
        let postgres = Postgres { mounted, server, bindir };
        postgres.wait();
        fs::create_dir(postgres.at("wal/space")).unwrap();
        let owned = Command::new("chown").arg("nobody").arg(postgres.at("wal/space")).status().unwrap();
        assert!(owned.success());
        postgres.ask(&format!("CREATE TABLESPACE space LOCATION '{}'", postgres.at("wal/space").display()));
        let tables = ["-i", "-q", "-s", "1", "--tablespace=space", "postgres"];
        succeeds(postgres.client("pgbench").args(tables));
        postgres.ask("CREATE TABLE acked (n bigint PRIMARY KEY)");
        postgres
    }

    fn spawn(mounted: &Mounted, bindir: &Path) -> Child {
        let mut command = as_nobody(&bindir.join("postgres"));
        command.arg("-D").arg(mounted.at("data/db"));
        command.arg("-k").arg(mounted.at("socket"));
        command.args(["-c", "listen_addresses=", "-c", "shared_buffers=32MB", "-c", "max_wal_size=64MB"]);
        // As recommended on ZFS. A backup must not depend on it.
        command.args(["-c", "full_page_writes=off"]);
        let log = fs::File::create(mounted.at("server.log")).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
    }

    fn wait(&self) {
        until("PostgreSQL answers", || {
            self.client("psql").args(["-c", "SELECT 1", "postgres"]).output().unwrap().status.success()
        });
    }

    /// A client that connects to the server.
    pub fn client(&self, program: &str) -> Command {
        let mut command = as_nobody(&self.bindir.join(program));
        command.env("PGHOST", self.at("socket")).env("PGUSER", "nobody").env("PGDATABASE", "postgres");
        command
    }

    /// Copies the program to a directory that the server's user can enter, and returns its path.
    pub fn program(&self) -> PathBuf {
        let path = self.at("poolwright");
        fs::copy(assert_cmd::cargo::cargo_bin!("poolwright"), &path).unwrap();
        path
    }

    /// Changes settings of the server and starts it again.
    pub fn set(&mut self, settings: &[(&str, &str)]) {
        for (name, value) in settings {
            self.ask(&format!("ALTER SYSTEM SET {name} = '{}'", value.replace('\'', "''")));
        }
        self.stop();
        self.start_again();
    }

    /// Starts the server after it was stopped.
    pub fn start_again(&mut self) {
        self.server = Postgres::spawn(&self.mounted, &self.bindir);
        self.wait();
    }

    /// Stops the server.
    pub fn stop(&mut self) {
        let _ = Command::new("kill").args(["-INT", &self.server.id().to_string()]).status();
        let end = std::time::Instant::now() + Duration::from_secs(60);
        while matches!(self.server.try_wait(), Ok(None)) && std::time::Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.server.kill();
        let _ = self.server.wait();
    }

    pub fn ask(&self, statement: &str) -> String {
        succeeds(self.client("psql").args(["-X", "-q", "-A", "-t", "-c", statement])).trim().to_owned()
    }

    /// Whether a session of Poolwright exists: while it does, a backup can be under way.
    pub fn is_held(&self) -> bool {
        self.ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'poolwright'") != "0"
    }

    /// The command of `--check` that succeeds if all invariants hold, and all of the first `acked` rows are there.
    pub fn check(acked: u64) -> String {
        format!(
            "psql -X -q -A -t -d postgres -c \"SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT coalesce(sum(delta), 0) FROM \
             pgbench_history) AND (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history) \
             AND (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT coalesce(sum(delta), 0) FROM pgbench_history) AND (SELECT \
             count(*) FROM pgbench_accounts) = 100000 AND (SELECT count(*) FROM acked WHERE n <= {acked}) = {acked} AND (SELECT \
             count(*) = coalesce(max(n), 0) FROM acked)\" | grep -qx t"
        )
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop();
        for name in ["archive", "backup", "data", "wal"] {
            let dir = self.at(name);
            let end = std::time::Instant::now() + Duration::from_secs(30);
            while dir.exists() && !umount(&dir) && std::time::Instant::now() < end {
                std::thread::sleep(Duration::from_millis(50));
                if !poolwright_base::mountinfo::read().unwrap().iter().any(|mount| mount.point == dir) {
                    break;
                }
            }
        }
    }
}

/// pgbench, and a session that inserts numbered rows one by one. Ends when it is dropped.
pub struct Load {
    pgbench: Child,
    over: Arc<AtomicBool>,
    acked: Arc<AtomicU64>,
    writer: Option<JoinHandle<()>>,
}

impl Load {
    pub fn start(postgres: &Postgres) -> Load {
        let mut pgbench = postgres.client("pgbench");
        pgbench.args(["-n", "-c", "2", "-T", "7200", "postgres"]).stdout(Stdio::null()).stderr(Stdio::null());
        let pgbench = pgbench.spawn().unwrap();
        let (over, acked) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let mut psql = postgres.client("psql");
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let first: u64 = postgres.ask("SELECT coalesce(max(n), 0) FROM acked").parse().unwrap();
        acked.store(first, Ordering::SeqCst);
        let (stop, done) = (Arc::clone(&over), Arc::clone(&acked));
        let writer = std::thread::spawn(move || {
            let mut child = psql.spawn().unwrap();
            let mut input = child.stdin.take().unwrap();
            let mut output = BufReader::new(child.stdout.take().unwrap());
            for n in first + 1.. {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                writeln!(input, "INSERT INTO acked VALUES ({n}) RETURNING n;").unwrap();
                let mut line = String::new();
                output.read_line(&mut line).unwrap();
                assert_eq!(line.trim(), n.to_string());
                done.store(n, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(2));
            }
            drop(input);
            child.wait().unwrap();
        });
        let load = Load { pgbench, over, acked, writer: Some(writer) };
        let begun = load.acked() + 20;
        until("the load has begun", || load.acked() > begun);
        load
    }

    /// The number of rows that the server has acknowledged.
    pub fn acked(&self) -> u64 {
        self.acked.load(Ordering::SeqCst)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        let ended = self.writer.take().map(JoinHandle::join);
        let _ = self.pgbench.kill();
        let _ = self.pgbench.wait();
        if !std::thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}
