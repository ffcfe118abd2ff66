//! Power failures at random moments, then an import: nothing acknowledged is lost, on every layout.
//!
//! Each power failure (cut) takes up to three processes, which all run this test binary: a victim that writes, syncs and acknowledges until
//! the cut; for every second cut, a process that imports the pool and has another cut while it replays the log; and a process that
//! checks the result. `POOLWRIGHT_CUTS=500` sets the number of cuts, `POOLWRIGHT_SEED` repeats a run with a printed seed.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Config, Dataset, Engine, File, Pool, Spec, power};

#[path = "power/load.rs"]
mod load;

use load::{OPS_PER_FILE, content, file_name, mix, model, run_step};

/// Vdevs in the syntax of `zpool create`; a word that is not a kind of vdev is a file.
const LAYOUTS: &[&str] =
    &["a", "a log l", "mirror a b", "mirror a b log mirror l m", "raidz a b c", "raidz2 a b c d log l"];
/// Maximum number of threads. Every second victim has one, because flushes of other threads would hide a missing flush.
const THREADS: u64 = 3;
const PATIENCE: Duration = Duration::from_secs(600);

// ---- the processes ----

/// A parameter of a child process, from its environment.
fn parameter(what: &str) -> Option<String> {
    std::env::var(format!("POOLWRIGHT_POWER_TEST_{what}")).ok()
}

fn number(what: &str) -> u64 {
    parameter(what).and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{what} is not given"))
}

/// The vdevs of a layout, with files in `dir`.
fn vdevs(dir: &Path, layout: &str) -> Vec<String> {
    let location = |word: &str| match word {
        "mirror" | "raidz" | "raidz2" | "log" => word.to_owned(),
        file => format!("{}:8G", dir.join(file).display()),
    };
    layout.split_whitespace().map(location).collect()
}

fn vdev_files(dir: &Path, layout: &str) -> Vec<PathBuf> {
    let groups = Spec::parse_vdevs(&vdevs(dir, layout)).unwrap();
    groups.into_iter().flat_map(|g| g.files).map(|(path, _)| path).collect()
}

fn engine() -> Engine {
    // SAFETY: the call affects only this process, which runs one test. Prevents a core file if the library aborts.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 }) };
    Engine::start(&Config {
        arc_bytes: 64 << 20,
        dirty_bytes: 64 << 20,
        txg_timeout_s: 1,
        ..Config::default()
    })
    .unwrap()
}

fn create(dir: &Path, layout: &str, logbias: &str) -> (Pool, Dataset) {
    let groups = Spec::parse_vdevs(&vdevs(dir, layout)).unwrap();
    let pool = Pool::create(engine(), &Spec { name: "power".into(), ashift: 12, groups }).unwrap();
    let settings: Settings = [
        ("recordsize".into(), "16K".into()),
        ("compression".into(), "lz4".into()),
        ("logbias".into(), logbias.into()),
    ]
    .into();
    let ds = pool.create_dataset("d", &settings).unwrap();
    (pool, ds)
}

/// Writes, syncs and acknowledges with several threads until the power failure.
#[test]
#[ignore = "started by the tests below as a separate process"]
fn victim() {
    let Some(dir) = parameter("DIR") else { return };
    let seed = number("SEED");
    let logbias = if seed.is_multiple_of(3) { "throughput" } else { "latency" };
    let (pool, ds) = create(Path::new(&dir), &parameter("LAYOUT").unwrap(), logbias);
    power::start(&power::Options {
        after_ops: number("AFTER"),
        seed,
        lie: parameter("LIE").is_some(),
        ..Default::default()
    });
    let one = |thread: u64| {
        for n in 0.. {
            let name = file_name(thread, n);
            let fresh = n.is_multiple_of(OPS_PER_FILE);
            let file = if fresh { ds.create_file(&name) } else { ds.open_file(&name) }.unwrap();
            run_step(&ds, &file, seed, thread, n);
            // Starts with a newline, because the test runner may have printed an incomplete line.
            writeln!(std::io::stdout().lock(), "\nacknowledged {thread} {}", n + 1).unwrap();
            if thread == 0 && n % 20 == 19 {
                pool.start_txg().unwrap();
            }
        }
    };
    // If a thread fails, the others must end too.
    std::panic::set_hook(Box::new(|why| {
        eprintln!("{why}");
        std::process::abort();
    }));
    let threads = if mix(&[seed]).is_multiple_of(2) { 1 } else { THREADS };
    std::thread::scope(|s| (0..threads).for_each(|thread| drop(s.spawn(move || one(thread)))));
}

/// Imports the pool and replays its log, possibly with a power failure.
#[test]
#[ignore = "started by the tests below as a separate process"]
fn replayer() {
    let Some(dir) = parameter("DIR") else { return };
    let files = vdev_files(Path::new(&dir), &parameter("LAYOUT").unwrap());
    let pool = Pool::import(engine(), &files, false).unwrap();
    drop(pool.open_dataset("d").unwrap());
    pool.export().unwrap();
}

/// Imports the pool and compares it with the acknowledged steps.
#[test]
#[ignore = "started by the tests below as a separate process"]
fn checker() {
    let Some(dir) = parameter("DIR") else { return };
    let files = vdev_files(Path::new(&dir), &parameter("LAYOUT").unwrap());
    let pool = Pool::import(engine(), &files, false).unwrap();
    let ds = pool.open_dataset("d").unwrap();
    println!("\nreplayed {}", ds.replayed());
    let acknowledged = parameter("ACKNOWLEDGED").unwrap();
    for (thread, steps) in (0..).zip(acknowledged.split(',')) {
        check_thread(&ds, number("SEED"), thread, steps.parse().unwrap());
    }
    pool.scrub().unwrap();
    let stats = pool.stats().unwrap();
    assert_eq!((stats.read_errors, stats.write_errors, stats.checksum_errors), (0, 0, 0));
    let file = ds.create_file("afterwards").unwrap();
    let bytes = content(1, 2, 4, 100_000);
    file.write_sync_at(0, &bytes).unwrap();
    assert!(read(&file) == bytes, "data written after the cut cannot be read back");
    drop((file, ds));
    pool.export().unwrap();
}

fn read(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.size() as usize];
    let n = file.read_at(0, &mut bytes).unwrap();
    assert_eq!(n, bytes.len(), "{} is read short", file.name());
    bytes
}

/// Checks that all acknowledged steps are there, and no later ones except any part of the step in progress.
fn check_thread(ds: &Dataset, seed: u64, thread: u64, steps: u64) {
    let (old, new) = (model(seed, thread, steps), model(seed, thread, steps + 1));
    let names: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let present: Vec<_> = ds.files().unwrap();
    let prefix = format!("thread{thread}-");
    for name in present.iter().filter(|name| name.starts_with(&prefix)) {
        assert!(names.contains(name), "{name} should not be there after {steps} steps");
    }
    for name in names {
        let (before, after) = (old.get(name), new.get(name));
        if !present.contains(name) {
            assert!(before.is_none() || after.is_none(), "{name} is gone after {steps} acknowledged steps");
            continue;
        }
        let found = read(&ds.open_file(name).unwrap());
        // A file in creation may exist and be empty; a file in removal must be unchanged if it exists.
        let before = before.map_or(&[][..], Vec::as_slice);
        compare(name, steps, &found, before, after.map_or(before, Vec::as_slice));
    }
}

fn compare(name: &str, steps: u64, found: &[u8], before: &[u8], after: &[u8]) {
    let (short, long) = (before.len().min(after.len()), before.len().max(after.len()));
    let len = found.len();
    assert!(
        (short..=long).contains(&len),
        "{name} has {len} bytes, not {short} to {long}, after {steps} steps"
    );
    if before == after {
        assert!(found == before, "{name} differs after {steps} acknowledged steps");
        return;
    }
    let at = |bytes: &[u8], i: usize| bytes.get(i).copied().unwrap_or(0);
    let wrong = (0..len).find(|&i| found[i] != at(before, i) && found[i] != at(after, i));
    assert!(wrong.is_none(), "{name} at {wrong:?} is neither as before nor as after step {steps}");
}

// ---- the parent ----

struct Ended {
    status: Option<ExitStatus>,
    out: String,
    err: String,
}

/// Runs one of the processes above to its end, or kills it after [`PATIENCE`].
fn run(what: &str, dir: &Path, env: &[(&str, String)]) -> Ended {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([what, "--exact", "--ignored", "--nocapture"]);
    command.env_remove("POOLWRIGHT_POWER").env("RUST_BACKTRACE", "0").env("POOLWRIGHT_POWER_TEST_DIR", dir);
    for (name, value) in env {
        let test = format!("POOLWRIGHT_POWER_TEST_{name}");
        command.env(if *name == "POOLWRIGHT_POWER" { name } else { test.as_str() }, value);
    }
    // To files, because a full pipe would block the child.
    let (out, err) = (dir.join(format!("{what}.out")), dir.join(format!("{what}.err")));
    let file = |path: &Path| Stdio::from(std::fs::File::create(path).unwrap());
    let mut child = command.stdin(Stdio::null()).stdout(file(&out)).stderr(file(&err)).spawn().unwrap();
    let began = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if began.elapsed() > PATIENCE => {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let text = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
    Ended { status, out: text(&out), err: text(&err) }
}

impl Ended {
    fn code(&self) -> Option<i32> {
        self.status.and_then(|status| status.code())
    }

    /// The numbers in the last line of `text` that begins with `start`.
    fn numbers(text: &str, start: &str) -> Vec<u64> {
        let line = text.lines().rev().find_map(|line| line.strip_prefix(start)).unwrap_or_default();
        line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
    }

    fn why(&self) -> String {
        let tail: Vec<_> = self.err.lines().rev().filter(|line| !line.is_empty()).take(8).collect();
        format!("{:?}: {}", self.status, tail.into_iter().rev().collect::<Vec<_>>().join(" | "))
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct Totals {
    acknowledged: u64,
    unflushed: u64,
    lost: u64,
    torn: u64,
    replayed: u64,
    cut_again: u64,
}

/// Performs one cut and checks the result; `Err` describes the loss.
fn one_cut(layout: &str, seed: u64, after: u64, lie: bool, dir: &Path) -> Result<Totals, String> {
    let mut env =
        vec![("LAYOUT", layout.to_owned()), ("SEED", seed.to_string()), ("AFTER", after.to_string())];
    if lie {
        env.push(("LIE", "yes".into()));
    }
    let victim = run("victim", dir, &env);
    if victim.code() != Some(power::EXIT_CODE) {
        panic!("the victim was not cut: {layout}, seed {seed}, after {after}: {}", victim.why());
    }
    let mut totals = Totals::default();
    let cut = Ended::numbers(&victim.err, "poolwright: power cut at operation ");
    let [at, _, reached, unflushed, _, torn] = cut[..] else {
        panic!("no report of the cut: {}", victim.why())
    };
    assert_eq!(at, after);
    (totals.unflushed, totals.lost, totals.torn) = (unflushed, unflushed - reached, torn);
    let steps: Vec<u64> = (0..THREADS)
        .map(|t| Ended::numbers(&victim.out, &format!("acknowledged {t} ")).first().copied().unwrap_or(0))
        .collect();
    totals.acknowledged = steps.iter().sum();
    env.push(("ACKNOWLEDGED", steps.iter().map(u64::to_string).collect::<Vec<_>>().join(",")));

    if !lie && seed.is_multiple_of(2) {
        let mut again = env.clone();
        again.push((
            "POOLWRIGHT_POWER",
            format!("after={},seed={}", 1 + mix(&[seed, 1]) % 60, mix(&[seed, 2])),
        ));
        let replayer = run("replayer", dir, &again);
        match replayer.code() {
            Some(power::EXIT_CODE) => totals.cut_again = 1,
            Some(0) => (),
            _ => return Err(format!("importing after {steps:?} steps: {}", replayer.why())),
        }
    }
    let checker = run("checker", dir, &env);
    if checker.code() != Some(0) {
        return Err(format!("checking after {steps:?} steps: {}", checker.why()));
    }
    totals.replayed = Ended::numbers(&checker.out, "replayed ")[0];
    Ok(totals)
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

fn base_seed() -> u64 {
    from_environment("POOLWRIGHT_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        mix(&[u64::from(std::process::id()), now.unwrap().as_nanos() as u64])
    })
}

/// Runs cuts `0..count`, two at a time; returns the totals and the failures.
fn many(count: u64, base: u64, lie: bool) -> (Totals, Vec<String>) {
    let next = AtomicU64::new(0);
    let result = Mutex::new((Totals::default(), Vec::new()));
    let worker = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= count {
                return;
            }
            let (layout, seed) = (LAYOUTS[i as usize % LAYOUTS.len()], mix(&[base, i]));
            // Some early, most later with more data at risk. With ignored flushes, only late cuts show losses.
            let span = [40, 300, 1500][(i as usize / LAYOUTS.len()) % 3];
            let after = if lie { 200 + mix(&[seed]) % 400 } else { 1 + mix(&[seed]) % span };
            let dir = tempfile::tempdir().unwrap();
            let one = one_cut(layout, seed, after, lie, dir.path());
            let (totals, wrong) = &mut *result.lock().unwrap();
            match one {
                Ok(t) => {
                    totals.acknowledged += t.acknowledged;
                    totals.unflushed += t.unflushed;
                    totals.lost += t.lost;
                    totals.torn += t.torn;
                    totals.replayed += t.replayed;
                    totals.cut_again += t.cut_again;
                }
                Err(why) => {
                    let kept =
                        if lie { String::new() } else { format!(", kept in {}", dir.keep().display()) };
                    wrong.push(format!("cut {i} ({layout}, seed {seed}, operation {after}{kept}): {why}"));
                }
            }
        }
    };
    std::thread::scope(|s| {
        s.spawn(worker);
        s.spawn(worker);
    });
    result.into_inner().unwrap()
}

#[test]
fn nothing_acknowledged_is_lost_when_the_power_fails() {
    let (cuts, base) = (from_environment("POOLWRIGHT_CUTS").unwrap_or(36), base_seed());
    println!("{cuts} cuts; POOLWRIGHT_SEED={base} repeats them");
    let (totals, wrong) = many(cuts, base, false);
    println!("{totals:?}");
    assert!(wrong.is_empty(), "base seed {base}: {} of {cuts} cuts:\n{}", wrong.len(), wrong.join("\n"));
    // The test must have exercised these cases.
    assert!(totals.acknowledged > cuts, "{totals:?}");
    assert!(
        totals.lost > cuts && totals.torn > 0 && totals.replayed > 0 && totals.cut_again > 0,
        "{totals:?}"
    );
}

/// Checks that the test above can fail: it must find losses if the drives ignore flushes.
#[test]
fn ignored_flushes_are_detected() {
    let (cuts, base) = (12, base_seed());
    let (totals, wrong) = many(cuts, base, true);
    println!(
        "{} of {cuts} cuts were found to lose data, base seed {base}\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(!wrong.is_empty(), "base seed {base}: {totals:?}");
}

/// Writes without flushing, reads the data back through the cache with a scrub, then flushes the cache.
#[test]
#[ignore = "started by the tests below as a separate process"]
fn unflushed_writer() {
    let Some(dir) = parameter("DIR") else { return };
    let (pool, ds) = create(Path::new(&dir), "mirror a b", "latency");
    let limit_bytes = number("LIMIT");
    power::start(&power::Options { lie: true, limit_bytes, ..Default::default() });
    let file = ds.create_file("hoard").unwrap();
    for i in 0..40 {
        file.write_at(i << 20, &content(1, 2, 2 * i, 1 << 20)).unwrap();
        if i % 10 == 9 {
            pool.sync().unwrap();
        }
    }
    pool.scrub().unwrap();
    assert_eq!(pool.stats().unwrap().checksum_errors, 0);
    if limit_bytes != 0 {
        power::cut(1);
    }
    power::stop().unwrap();
    drop((file, ds));
    pool.export().unwrap();
    let pool = Pool::import(engine(), &vdev_files(Path::new(&dir), "mirror a b"), false).unwrap();
    let file = pool.open_dataset("d").unwrap().open_file("hoard").unwrap();
    let bytes = read(&file);
    for (i, part) in (0..).zip(bytes.chunks(1 << 20)) {
        assert!(part == content(1, 2, 2 * i, 1 << 20), "part {i} differs");
    }
    drop(file);
    pool.scrub().unwrap();
    assert_eq!(pool.stats().unwrap().checksum_errors, 0);
    pool.export().unwrap();
    println!("\nhoarded {}", bytes.len());
}

#[test]
fn the_cache_is_read_back_and_written_out() {
    let dir = tempfile::tempdir().unwrap();
    let ended = run("unflushed_writer", dir.path(), &[("LIMIT", "0".into())]);
    assert_eq!(ended.code(), Some(0), "{}", ended.why());
    assert_eq!(Ended::numbers(&ended.out, "hoarded "), [40 << 20]);
}

#[test]
fn the_cache_keeps_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    let limit = 4 << 20;
    let ended = run("unflushed_writer", dir.path(), &[("LIMIT", limit.to_string())]);
    assert_eq!(ended.code(), Some(power::EXIT_CODE), "{}", ended.why());
    let cached = Ended::numbers(&ended.err, "poolwright: power cut at operation ")[4];
    assert!((1..=limit).contains(&cached), "{cached} bytes were cached, {limit} allowed");
}

#[test]
fn a_setting_that_cannot_be_read_is_refused() {
    for bad in ["after=soon", "after", "speed=7", "limit=4T", "seed=99999999999999999999"] {
        let dir = tempfile::tempdir().unwrap();
        let env = [("LIMIT", "0".into()), ("POOLWRIGHT_POWER", bad.into())];
        let ended = run("unflushed_writer", dir.path(), &env);
        assert_eq!(ended.code(), Some(2), "{bad}: {}", ended.why());
        assert!(ended.err.contains("invalid option"), "{bad}: {}", ended.err);
    }
}
