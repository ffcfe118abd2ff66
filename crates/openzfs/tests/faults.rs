//! I/O errors of the host at the n-th call of each kind, in each phase of a pool's life, on each layout: after each error, all acknowledged
//! changes are there. The process with the errors, the victim, runs this test binary.
//!
//! `POOLWRIGHT_FAULTS` sets the number of calls to fail in each phase. The test prints a table of the outcomes.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use poolwright_openzfs::inject::{self, Call, Fault, Injection};
use poolwright_openzfs::node::{New, name};
use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Config, Dataset, Engine, Layout, Pool, Spec, Use, VdevGroup};

const FILES: u64 = 24;
const PHASES: &[&str] = &["import", "open", "rename", "write", "scrub"];
const LAYOUTS: &[(&str, Layout, usize)] =
    &[("single", Layout::Stripe, 1), ("mirror", Layout::Mirror, 2), ("raidz", Layout::Raidz(1), 3)];
const FAULTS: &[(&str, Call, Fault)] = &[
    ("read EIO", Call::Read, Fault::Error(libc::EIO)),
    ("read short", Call::Read, Fault::Short),
    ("read damaged", Call::Read, Fault::Damage),
    ("write EIO", Call::Write, Fault::Error(libc::EIO)),
    ("write ENOSPC", Call::Write, Fault::Error(libc::ENOSPC)),
    ("flush EIO", Call::Flush, Fault::Error(libc::EIO)),
];
/// Time limit of a victim.
const LIMIT: Duration = Duration::from_secs(120);

fn engine() -> Engine {
    Engine::start(&Config { arc_bytes: 64 << 20, txg_timeout_s: 3600, ..Config::default() }).unwrap()
}

fn content(file: u64, round: u64) -> Vec<u8> {
    format!("file {file}, round {round}; ").into_bytes().into_iter().cycle().take(9000).collect()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "vdev"));
    files.sort();
    files
}

fn say(text: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "\n{text}").unwrap();
    out.flush().unwrap();
}

// ---- the victim ----

/// Creates the pool with which all cases start: rows on disk, newer ones only in the log. Ends by sending itself SIGKILL.
fn make(dir: &Path, layout: &str) {
    let (_, layout, n) = *LAYOUTS.iter().find(|(name, ..)| *name == layout).unwrap();
    let files = (0..n).map(|i| (dir.join(format!("{i}.vdev")), 64 << 20)).collect();
    let groups = vec![VdevGroup { layout, usage: Use::Data, files }];
    let pool = Pool::create(engine(), &Spec { name: "faults".into(), ashift: 12, groups }).unwrap();
    let ds = pool.create_dataset("d", &Settings::new()).unwrap();
    let root = ds.root().unwrap();
    let new = |mode| New { mode, uid: 0, gid: 0, device: (0, 0), target: None };
    let a = root.make(c"a", &new(libc::S_IFDIR | 0o755)).unwrap();
    root.make(c"b", &new(libc::S_IFDIR | 0o755)).unwrap();
    for i in 0..FILES {
        ds.create_file(&format!("f{i}")).unwrap().write_at(0, &content(i, 0)).unwrap();
        a.make(&name(format!("n{i}")).unwrap(), &new(libc::S_IFREG | 0o644)).unwrap();
    }
    pool.sync().unwrap();
    for i in 0..FILES {
        let file = ds.open_file(&format!("f{i}")).unwrap();
        file.write_at(0, &content(i, 1)).unwrap();
        file.sync().unwrap();
    }
    // SAFETY: ends this process, like a crash.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

/// Runs a phase, with errors if it is the requested phase.
struct Phases {
    wanted: String,
    injection: Option<(Call, Fault, u64, u64)>,
}

impl Phases {
    fn run<T>(&self, phase: &str, work: impl FnOnce() -> T) -> T {
        let Some((call, fault, first, times)) = self.injection.filter(|_| self.wanted == phase) else {
            return work();
        };
        inject::start(&Injection { file: None, call, fault, first, times }).unwrap();
        let done = work();
        say(&format!("calls {}", inject::calls()));
        inject::stop();
        done
    }
}

fn number(name: &str) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(0)
}

#[test]
#[ignore = "started by the tests below as a separate process"]
fn victim() {
    let Some(dir) = std::env::var_os("POOLWRIGHT_FAULTS_DIR") else { return };
    let dir = PathBuf::from(dir);
    let wanted = std::env::var("POOLWRIGHT_FAULTS_PHASE").unwrap();
    if let Some(layout) = wanted.strip_prefix("make ") {
        return make(&dir, layout);
    }
    let fault = std::env::var("POOLWRIGHT_FAULTS_FAULT").ok();
    let injection = fault.map(|fault| {
        let (_, call, fault) = *FAULTS.iter().find(|(name, ..)| *name == fault).unwrap();
        (call, fault, number("POOLWRIGHT_FAULTS_FIRST"), number("POOLWRIGHT_FAULTS_TIMES"))
    });
    let phases = Phases { wanted, injection };
    match live(&dir, &phases) {
        Ok(()) => say("exported"),
        Err(why) => say(&format!("refused {}", why.replace('\n', " "))),
    }
}

/// A pool's life, from import to export.
fn live(dir: &Path, phases: &Phases) -> Result<(), String> {
    let pool =
        phases.run("import", || Pool::import(engine(), &files(dir), false)).map_err(|e| e.to_string())?;
    let ds = phases.run("open", || pool.open_dataset("d")).map_err(|e| e.to_string())?;
    phases.run("rename", || rename(&ds));
    let failed = phases.run("write", || write(&ds).and_then(|()| pool.sync().map_err(|e| e.to_string())));
    let scrubbed = phases.run("scrub", || pool.scrub().map_err(|e| e.to_string()));
    drop(ds);
    pool.export().map_err(|e| e.to_string())?;
    failed.and(scrubbed)
}

/// Moves files from one directory to the other. After a failed move, the file must be at its old place.
fn rename(ds: &Dataset) {
    let root = ds.root().unwrap();
    let [Ok(a), Ok(b)] = [c"a", c"b"].map(|name| root.lookup(name)) else { return };
    for i in 0..FILES / 2 {
        let name = name(format!("n{i}")).unwrap();
        let moved = a.rename(&name, &b, &name, 0);
        let there = [&a, &b].map(|dir| dir.lookup(&name).map(drop).map_err(|why| why.0));
        let absent = Err(libc::ENOENT);
        match moved {
            Ok(_) => assert!(there[0] == absent && there[1] != absent, "{name:?} was moved: {there:?}"),
            Err(_) => assert!(there[0] != absent && there[1] != Ok(()), "{name:?} was not moved: {there:?}"),
        }
        if moved.is_ok() && ds.commit().is_ok() {
            say(&format!("moved {i}"));
        }
    }
}

fn write(ds: &Dataset) -> Result<(), String> {
    for i in 0..FILES / 2 {
        let file = ds.open_file(&format!("f{i}")).map_err(|e| e.to_string())?;
        file.write_at(0, &content(i, 2)).map_err(|e| e.to_string())?;
        file.sync().map_err(|e| e.to_string())?;
        say(&format!("wrote {i}"));
    }
    Ok(())
}

// ---- the cases ----

struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ended {
    fn says(&self, what: &str) -> Option<&str> {
        self.out.lines().find_map(|line| line.strip_prefix(what))
    }

    fn numbers(&self, what: &str) -> Vec<u64> {
        self.out.lines().filter_map(|line| line.strip_prefix(what)?.trim().parse().ok()).collect()
    }
}

fn run(dir: &Path, phase: &str, env: &[(&str, String)]) -> Ended {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["victim", "--exact", "--ignored", "--nocapture"])
        .env("POOLWRIGHT_FAULTS_DIR", dir)
        .env("POOLWRIGHT_FAULTS_PHASE", phase)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(dir.join("out")).unwrap())
        .stderr(std::fs::File::create(dir.join("err")).unwrap());
    for (name, value) in env {
        command.env(format!("POOLWRIGHT_FAULTS_{name}"), value);
    }
    let (mut child, start) = (command.spawn().unwrap(), Instant::now());
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > LIMIT {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{phase} {env:?} hangs: {}", std::fs::read_to_string(dir.join("err")).unwrap());
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = |name| String::from_utf8_lossy(&std::fs::read(dir.join(name)).unwrap()).into_owned();
    Ended { code: status.code(), out: text("out"), err: text("err") }
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("--sparse=always").args(files(from)).arg(to).status().unwrap();
    assert!(status.success());
}

/// Imports the pool without errors and checks it.
fn check(dir: &Path, ended: &Ended, case: &str) {
    let pool = Pool::import(engine(), &files(dir), false).unwrap_or_else(|why| panic!("{case}: {why}"));
    let ds = pool.open_dataset("d").unwrap_or_else(|why| panic!("{case}: {why}"));
    let wrote = ended.numbers("wrote ");
    for i in 0..FILES {
        let mut bytes = vec![0; 9000];
        let file = ds.open_file(&format!("f{i}")).unwrap();
        assert_eq!(file.read_at(0, &mut bytes).unwrap(), 9000, "{case}: f{i}");
        let round = (1..=2).find(|round| bytes == content(i, *round));
        assert!(round.is_some(), "{case}: f{i} is neither as before nor as after");
        assert!(round == Some(2) || !wrote.contains(&i), "{case}: f{i}, acknowledged, is lost");
    }
    let root = ds.root().unwrap();
    let moved = ended.numbers("moved ");
    for i in 0..FILES {
        let name = name(format!("n{i}")).unwrap();
        let there = [c"a", c"b"].map(|dir| root.lookup(dir).unwrap().lookup(&name).is_ok());
        assert!(there[0] != there[1], "{case}: n{i} is in {there:?}");
        assert!(there[1] || !moved.contains(&i), "{case}: n{i}, acknowledged as moved, is not");
    }
    drop(root);
    drop(ds);
    pool.export().unwrap();
}

/// Classifies the outcome of a case.
fn outcome(ended: &Ended, case: &str) -> &'static str {
    assert!(
        !ended.err.contains("was moved:") && !ended.err.contains("was not moved:"),
        "{case}: {}",
        ended.err
    );
    match ended.code {
        Some(0) if ended.says("exported").is_some() => "went on",
        Some(0) if ended.says("refused ").is_some() => "refused",
        Some(1) if ended.err.contains("the process ends") => "stopped",
        // An assertion of libzpool, where a kernel panics.
        None => "aborted",
        code => panic!("{case}: ended with {code:?}: {} {}", ended.out, ended.err),
    }
}

/// The calls to fail in a phase with `calls` calls: the first, and `places - 1` others up to the last.
fn places(calls: u64, places: u64) -> Vec<u64> {
    let mut at: Vec<u64> = (0..places).map(|i| 1 + calls.saturating_sub(1) * i / places.max(2)).collect();
    at.dedup();
    if calls == 0 { Vec::new() } else { at }
}

/// A scratch directory, in memory if there is enough free space, because the victims flush constantly.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// A process that a test starts has copies of all open files until it executes its program, and with them the locks of pools that another test
/// exports meanwhile. So these tests run one after the other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn nothing_acknowledged_is_lost() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let most = match number("POOLWRIGHT_FAULTS") {
        0 => 1,
        n => n,
    };
    let home = scratch();
    let mut table: BTreeMap<(usize, usize, usize), BTreeMap<&str, u64>> = BTreeMap::new();
    for (l, (layout, ..)) in LAYOUTS.iter().enumerate() {
        let image = home.path().join(layout);
        std::fs::create_dir(&image).unwrap();
        let made = run(&image, &format!("make {layout}"), &[]);
        assert_eq!(made.code, None, "{layout}: {} {}", made.out, made.err);
        for (p, phase) in PHASES.iter().enumerate() {
            for (f, (fault, ..)) in FAULTS.iter().enumerate() {
                let case = |first: u64, times: u64| {
                    let dir = tempfile::tempdir_in(home.path()).unwrap();
                    copy(&image, dir.path());
                    let env = [
                        ("FAULT", (*fault).to_owned()),
                        ("FIRST", first.to_string()),
                        ("TIMES", times.to_string()),
                    ];
                    let ended = run(dir.path(), phase, &env);
                    (dir, ended)
                };
                let (_, counted) = case(u64::MAX, 1);
                assert!(
                    counted.says("exported").is_some(),
                    "{layout} {phase}: {} {}",
                    counted.out,
                    counted.err
                );
                let calls = counted.numbers("calls ").first().copied().unwrap_or(0);
                for (i, first) in places(calls, most).into_iter().enumerate() {
                    // Fail one call, or all from there on; a short run alternates between the two.
                    let times: &[u64] = if most > 1 { &[1, 0] } else { &[((p + f + i) % 2) as u64] };
                    for &times in times {
                        let (dir, ended) = case(first, times);
                        let text =
                            format!("{layout}, {phase}, {fault} at call {first} of {calls}, times {times}");
                        *table.entry((l, p, f)).or_default().entry(outcome(&ended, &text)).or_default() += 1;
                        check(dir.path(), &ended, &text);
                    }
                }
            }
        }
    }
    print_table(&table);
}

fn print_table(table: &BTreeMap<(usize, usize, usize), BTreeMap<&str, u64>>) {
    const OUTCOMES: &[&str] = &["went on", "refused", "stopped", "aborted"];
    println!("| layout | phase | fault | cases | {} |", OUTCOMES.join(" | "));
    for ((l, p, f), outcomes) in table {
        let cells: Vec<String> =
            OUTCOMES.iter().map(|o| outcomes.get(o).copied().unwrap_or(0).to_string()).collect();
        let cases: u64 = outcomes.values().sum();
        let (layout, phase, fault) = (LAYOUTS[*l].0, PHASES[*p], FAULTS[*f].0);
        println!("| {layout} | {phase} | {fault} | {cases} | {} |", cells.join(" | "));
    }
}

// ---- vdevs that fail ----

fn groups(dir: &Path, words: &str) -> Vec<VdevGroup> {
    let words: Vec<String> = words
        .split(' ')
        .map(|word| match word {
            "mirror" | "raidz1" | "cache" => word.to_owned(),
            name => format!("{}:128M", dir.join(name).display()),
        })
        .collect();
    Spec::parse_vdevs(&words).unwrap()
}

/// All writes to one side of a pool fail: the vdev is faulted, and the pool continues with all its data.
#[test]
fn a_redundant_vdev_is_faulted() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for (n, (words, call)) in [
        ("mirror a b", Call::Write),
        ("mirror a b", Call::Flush),
        ("raidz1 a b c", Call::Write),
        ("mirror b c cache a", Call::Write),
    ]
    .into_iter()
    .enumerate()
    {
        let dir = tempfile::tempdir().unwrap();
        let spec = Spec { name: format!("leg{n}"), ashift: 12, groups: groups(dir.path(), words) };
        let pool = Pool::create(engine(), &spec).unwrap();
        let ds = pool.create_dataset("d", &Settings::new()).unwrap();
        let bad = dir.path().join("a");
        let fault = Fault::Error(libc::ENOSPC);
        inject::start(&Injection { file: Some(&bad), call, fault, first: 1, times: 0 }).unwrap();
        let start = Instant::now();
        let state = |pool: &Pool| {
            let all = pool.vdevs().unwrap();
            all.iter().filter(|vdev| vdev.state == "FAULTED").count()
        };
        let mut round = 0;
        while state(&pool) == 0 {
            assert!(start.elapsed() < LIMIT, "{words}: never faulted: {:?}", pool.vdevs());
            let file = ds.create_file(&format!("f{round}")).unwrap();
            file.write_at(0, &content(round, 0).repeat(100)).unwrap();
            file.sync().unwrap();
            pool.sync().unwrap();
            round += 1;
        }
        let errors: u64 = pool.vdevs().unwrap().iter().map(|vdev| vdev.write_errors).sum();
        assert!(call == Call::Flush || errors > 0, "{words}: no write error was counted");
        ds.create_file("after").unwrap().write_sync_at(0, &content(99, 9)).unwrap();
        drop(ds);
        pool.export().unwrap();
        inject::stop();

        // The file can be written again: the next import resilvers it.
        let spec: Vec<PathBuf> =
            spec.groups.iter().flat_map(|g| &g.files).map(|(path, _)| path.clone()).collect();
        let pool = Pool::import(engine(), &spec, false).unwrap();
        let ds = pool.open_dataset("d").unwrap();
        for i in 0..round {
            let mut bytes = vec![0; 900_000];
            ds.open_file(&format!("f{i}")).unwrap().read_at(0, &mut bytes).unwrap();
            assert!(bytes == content(i, 0).repeat(100), "{words}: f{i}");
        }
        let mut bytes = vec![0; 9000];
        ds.open_file("after").unwrap().read_at(0, &mut bytes).unwrap();
        assert!(bytes == content(99, 9));
        println!("{words}, {call:?}: after the next import {:?}", pool.vdevs().unwrap());
        drop(ds);
        pool.export().unwrap();
    }
}
