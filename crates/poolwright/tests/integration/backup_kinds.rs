//! `poolwright backup` of MariaDB, SQLite, LMDB and databases that the user's commands quiesce, on a mounted pool.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::backups::{Pool, is_installed};
use crate::common::mounted::until;
use crate::common::skip_without_fuse;

/// A session of a client that moves amounts between two rows, one transaction after the other.
struct Transfers {
    over: Arc<AtomicBool>,
    acked: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Transfers {
    /// `prints` prints `done` after each transaction.
    fn start(mut client: Command, prints: &'static str) -> Transfers {
        let (over, acked) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (stop, done) = (Arc::clone(&over), Arc::clone(&acked));
        let mut child = client.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let thread = std::thread::spawn(move || {
            let mut input = child.stdin.take().unwrap();
            let mut output = BufReader::new(child.stdout.take().unwrap());
            for n in 1.. {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                writeln!(
                    input,
                    "BEGIN; UPDATE a SET v = v - 1; UPDATE b SET v = v + 1; INSERT INTO acked VALUES ({n}); COMMIT;\n{prints}"
                )
                .unwrap();
                let mut line = String::new();
                output.read_line(&mut line).unwrap();
                assert_eq!(line.trim(), "done");
                done.store(n, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(2));
            }
            drop(input);
            child.wait().unwrap();
        });
        let transfers = Transfers { over, acked, thread: Some(thread) };
        until("the load has begun", || transfers.acked() > 10);
        transfers
    }

    fn acked(&self) -> u64 {
        self.acked.load(Ordering::SeqCst)
    }
}

impl Drop for Transfers {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            ended.unwrap().unwrap();
        }
    }
}

const TABLES: &str = "CREATE TABLE a (v int); CREATE TABLE b (v int); CREATE TABLE acked (n int PRIMARY KEY); \
     INSERT INTO a VALUES (1000); INSERT INTO b VALUES (0);";

/// Prints 1 if nothing is lost.
fn invariant(acked: u64) -> String {
    format!(
        "SELECT (SELECT v FROM a) + (SELECT v FROM b) = 1000 AND (SELECT count(*) FROM acked) = (SELECT v FROM b) AND \
         (SELECT count(*) FROM acked WHERE n <= {acked}) = {acked}"
    )
}

/// A server that is killed when this is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let end = std::time::Instant::now() + Duration::from_secs(60);
        while matches!(self.0.try_wait(), Ok(None)) && std::time::Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn mariadb(pool: &Pool) -> (Server, Command) {
    let (data, socket) = (pool.at("data/db"), pool.at("s"));
    let user = String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
    let mut install = Command::new("mariadb-install-db");
    install.args(["--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal", "--force"]);
    install.arg(format!("--datadir={}", data.display())).arg(format!("--user={}", user.trim()));
    assert!(install.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success());
    let mut server = Command::new("setpriv");
    server.args(["--pdeathsig", "KILL", "--", "mariadbd", "--no-defaults", "--skip-networking"]);
    server.arg(format!("--datadir={}", data.display())).arg(format!("--socket={}", socket.display()));
    server.arg(format!("--user={}", user.trim())).arg(format!("--pid-file={}", pool.at("pid").display()));
    let log = fs::File::create(pool.at("mariadb.log")).unwrap();
    let server = Server(server.stdout(Stdio::null()).stderr(log).spawn().unwrap());
    let client = || {
        let mut client = Command::new("mariadb");
        client.args(["--no-defaults", "--user=root", "--batch", "--skip-column-names", "--unbuffered"]);
        client.arg(format!("--socket={}", socket.display()));
        client
    };
    until("MariaDB answers", || client().args(["-e", "SELECT 1"]).output().unwrap().status.success());
    let made = client().args(["-e", &format!("CREATE DATABASE app; USE app; {TABLES}")]).status().unwrap();
    assert!(made.success());
    let mut session = client();
    session.arg("app");
    (server, session)
}

#[test]
fn mariadb_under_load() {
    skip_without_fuse!();
    if !is_installed("mariadbd") || !is_installed("mariadb-check") {
        eprintln!("skipped: MariaDB is not installed");
        return;
    }
    let pool = Pool::new();
    let (server, session) = mariadb(&pool);
    let load = Transfers::start(session, "SELECT 'done';");
    let connect = format!("--no-defaults --user=root --socket={}", pool.at("s").display());
    for _ in 0..2 {
        let before = load.acked();
        let backup = pool.back_up(&["--connect", &connect]);
        assert_eq!(backup["database"]["kind"], "mariadb");
        assert!(backup["database"]["quiesced_s"].as_f64().unwrap() > 0.0);
        // Commits go on.
        until("commits go on", || load.acked() > before + 20);
        let check = format!("mariadb --no-defaults -N app -e '{}' | grep -qx 1", invariant(before));
        let (passed, code) = pool.restore(&["--check", &check]);
        assert_eq!(
            (&passed[..3], code),
            (&["files", "start and recovery", "CHECK TABLE"].map(String::from)[..], Some(0))
        );
        assert_eq!(passed.len(), 5, "{passed:?}");
    }
    // Another server than the one on these directories.
    let (code, _, stderr) =
        pool.output(&["backup", "run", "data/db", "--to", "tank/backup", "--connect", "--socket=/none"]);
    assert_eq!(code, Some(1), "{stderr}");
    assert!(
        stderr.contains("cannot quiesce the database") && stderr.contains("earlier backups are unchanged"),
        "{stderr}"
    );
    drop(load);
    drop(server);
}

#[test]
fn sqlite_under_load() {
    skip_without_fuse!();
    if !is_installed("sqlite3") {
        eprintln!("skipped: sqlite3 is not installed");
        return;
    }
    let pool = Pool::new();
    let file = pool.at("data/db/app.sqlite");
    let made = Command::new("sqlite3").arg(&file).arg(TABLES).status().unwrap();
    assert!(made.success());
    let mut session = Command::new("sqlite3");
    session.args(["-batch", "-bail", "-cmd", ".timeout 60000"]).arg(&file);
    let load = Transfers::start(session, ".print done");
    for _ in 0..2 {
        let before = load.acked();
        let backup = pool.back_up(&[]);
        assert_eq!(
            (&backup["database"]["kind"], &backup["database"]["consistency"]),
            (&"sqlite".into(), &"session".into())
        );
        until("transactions go on", || load.acked() > before + 20);
        let check =
            format!("sqlite3 \"$POOLWRIGHT_RESTORED/app.sqlite\" '{}' | grep -qx 1", invariant(before));
        let (passed, code) = pool.restore(&["--check", &check]);
        assert_eq!((passed.len(), code), (3, Some(0)), "{passed:?}");
    }
    drop(load);
    // A damaged page.
    let garbage = [0xa5_u8; 3000];
    let opened = fs::OpenOptions::new().write(true).open(&file).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&opened, &garbage, 4096).unwrap();
    pool.back_up(&[]);
    assert_eq!(pool.restore(&[]).1, Some(1));
}

#[test]
fn lmdb_is_not_quiesced_and_needs_a_check() {
    skip_without_fuse!();
    let pool = Pool::new();
    fs::write(pool.at("data/db/data.mdb"), vec![7; 100_000]).unwrap();
    let backup = pool.back_up(&["--database", "openldap", "--keep-source"]);
    assert_eq!(backup["database"]["consistency"], "snapshot");
    assert!(backup["database"].get("quiesced_s").is_none());
    let kept = pool.json("dataset list -t snapshot tank/data");
    assert!(kept["datasets"][0]["name"].as_str().unwrap().starts_with("tank/data@poolwright-kept-"));
    if !is_installed("mdb_dump") {
        pool.fails("backup verify tank/backup", 3, &["cannot run any check", "mdb_dump", "hint: "]);
        let (passed, code) = pool.restore(&["--check", "test -s \"$POOLWRIGHT_RESTORED/data.mdb\""]);
        assert_eq!((passed.len(), code), (2, Some(0)));
    }
}

/// Waits for a line that a run prints on standard error, then kills it.
fn kill_at(pool: &Pool, arguments: &[&str], stage: &str) {
    let common = ["backup", "run", "data/db", "--to", "tank/backup", "--mountpoint", "backup"];
    let mut command = pool.plain();
    let mut child = command.args(common).args(arguments).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == stage), "{stage}");
    // Before, there is nothing to release.
    until("the freeze command runs", || pool.at("begun").exists());
    fs::remove_file(pool.at("begun")).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn commands_of_the_user_quiesce_and_release() {
    skip_without_fuse!();
    let pool = Pool::new();
    fs::write(pool.at("data/db/table"), vec![7; 3_000_000]).unwrap();
    let log = pool.at("log");
    let freeze = format!("echo freeze >>{}", log.display());
    let thaw = format!("echo thaw >>{}", log.display());
    let told = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let hooks = ["--freeze", &freeze, "--thaw", &thaw];
    let backup = pool.back_up(&hooks);
    assert_eq!(backup["database"]["consistency"], "hook");
    assert_eq!(told(&log), "freeze\nthaw\n");
    pool.fails("backup verify tank/backup", 3, &["no check for this database is available"]);
    let same = format!("cmp \"$POOLWRIGHT_RESTORED/table\" {}", pool.at("data/db/table").display());
    assert_eq!(pool.restore(&["--check", &same]).1, Some(0));
    assert_eq!(pool.restore(&["--check", "false"]).1, Some(1));
    // Killed while the freeze command runs, and after it: each freeze has a thaw behind it.
    let begun = format!("touch {}", pool.at("begun").display());
    let slow = format!("{begun}; sleep 1; {freeze}");
    let freeze = format!("{begun}; {freeze}");
    for (count, (command, stage)) in
        [(&slow, "quiescing the database"), (&freeze, "taking the snapshot"), (&freeze, "copying")]
            .iter()
            .enumerate()
    {
        kill_at(&pool, &["--freeze", command, "--thaw", &thaw], stage);
        let expected = "freeze\nthaw\n".repeat(count + 2);
        until("the database is released", || told(&log) == expected);
    }
    // Too late.
    let common = ["backup", "run", "data/db", "--to", "tank/backup", "--max-quiesced", "1s"];
    let late = format!("{begun}; sleep 3; {freeze}");
    let (code, _, stderr) = pool.output(&[&common[..], &["--freeze", &late, "--thaw", &thaw]].concat());
    assert_eq!(code, Some(1));
    assert!(stderr.contains("did not end within 1 s"), "{stderr}");
    until("the database is released", || told(&log) == "freeze\nthaw\n".repeat(5));
    // A freeze command that fails.
    let (code, _, stderr) = pool.output(&[&common[..], &["--freeze", "exit 7", "--thaw", &thaw]].concat());
    assert_eq!(code, Some(1));
    assert!(stderr.contains("exit status 7") && stderr.contains("it was thawed"), "{stderr}");
    let list = pool.json("backup list tank/backup");
    assert_eq!(list["backups"].as_array().unwrap().len(), 1, "an interrupted run leaves no backup");
    pool.back_up(&hooks);
    assert_eq!(pool.restore(&["--check", &same]).1, Some(0));
}

#[test]
fn only_changed_blocks_are_written() {
    skip_without_fuse!();
    let pool = Pool::new();
    // Does not compress.
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let bytes: Vec<u8> = (0..64 << 20).map(|_| random()).collect();
    fs::write(pool.at("data/db/table"), &bytes).unwrap();
    let allocated = || {
        pool.json("dataset get used tank/backup")["values"][0]["value"]
            .as_str()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    pool.back_up(&["--database", "none"]);
    let first = allocated();
    assert!(first > 60 << 20, "{first}");
    let file = fs::OpenOptions::new().write(true).open(pool.at("data/db/table")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"changed", 20 << 20).unwrap();
    pool.back_up(&["--database", "none"]);
    pool.run("dataset list tank");
    let more = allocated() - first;
    assert!(more < 8 << 20, "one block was changed, and {more} bytes were written");
    let get = |property: &str| {
        let found = pool.json(&format!("dataset get {property} tank/backup"));
        found["values"][0]["value"].as_str().unwrap().to_owned()
    };
    assert_eq!((get("recordsize"), get("logbias")), ("1048576".to_owned(), "throughput".to_owned()));
    assert!(get("compression").starts_with("zstd"));
    let old =
        pool.json("backup list tank/backup")["backups"][0]["manifest"]["name"].as_str().unwrap().to_owned();
    let kept = fs::read(pool.at("backup/.zfs/snapshot").join(old).join("files/0/table")).unwrap();
    assert!(kept == bytes, "the older backup has the old content");
}
