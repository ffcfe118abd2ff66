//! A stress test with concurrent operations: threads write, sync, rename, link and remove files; others take recursive snapshots, roll back,
//! clone blocks, scrub and change properties; members of a mirror or raidz fail and recover; the process is killed or loses its power. After
//! each crash, all acknowledged changes are there. The crashing process, the victim, runs this test binary.
//!
//! `POOLWRIGHT_STRESS_MINUTES` sets the duration (default: half a minute), `POOLWRIGHT_SEED` selects another run.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use poolwright_openzfs::inject::{self, Call, Fault, Injection};
use poolwright_openzfs::node::{New, name};
use poolwright_openzfs::property::Settings;
use poolwright_openzfs::{Config, Dataset, Engine, Layout, Node, Pool, Spec, Use, VdevGroup, power};

const WORKERS: u64 = 4;
const SLOTS: u64 = 12;
/// Time without an acknowledgement after which a victim counts as hung.
const PATIENCE: Duration = Duration::from_secs(180);

fn engine() -> Engine {
    Engine::start(&Config { arc_bytes: 96 << 20, txg_timeout_s: 1, ..Config::default() }).unwrap()
}

/// splitmix64.
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % most
    }
}

fn env(name: &str) -> Option<String> {
    std::env::var(format!("POOLWRIGHT_STRESS_{name}")).ok()
}

fn layouts() -> [(&'static str, Layout, usize); 2] {
    [("mirror", Layout::Mirror, 2), ("raidz", Layout::Raidz(1), 3)]
}

fn files(dir: &Path, n: usize) -> Vec<PathBuf> {
    (0..n).map(|i| dir.join(format!("{i}.vdev"))).collect()
}

/// The contents of a version of a slot, which also determine its length.
fn content(worker: u64, slot: u64, version: u64) -> Vec<u8> {
    let len = Draw(worker << 40 | slot << 32 | version).below(150_000) as usize;
    let line = format!("worker {worker}, slot {slot}, version {version}; ");
    line.into_bytes().into_iter().cycle().take(len).collect()
}

fn entry(worker: u64, n: u64) -> Vec<u8> {
    format!("{:<999}\n", format!("worker {worker}, entry {n}")).into_bytes()
}

fn say(text: String) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{text}").and_then(|()| out.flush()).unwrap();
}

// ---- the victim ----

fn new(mode: u32) -> New<'static> {
    New { mode, uid: 0, gid: 0, device: (0, 0), target: None }
}

fn directory(ds: &Dataset, worker: u64) -> Node {
    let root = ds.root().unwrap();
    let dir = name(format!("w{worker}")).unwrap();
    root.lookup(&dir).or_else(|_| root.make(&dir, &new(libc::S_IFDIR | 0o755))).unwrap()
}

/// Makes one change: prints `tried` before it, and `done` when it is durable.
fn change(ds: &Dataset, dir: &Node, worker: u64, versions: &mut [u64], draw: &mut Draw) {
    let slot = draw.below(SLOTS);
    let version = versions[slot as usize] + 1;
    let (file, temporary) = (name(format!("s{slot}")).unwrap(), name(format!("t{slot}")).unwrap());
    // A file exists in odd versions and not in even ones.
    say(format!("tried {worker} {slot} {version}"));
    if version % 2 == 1 {
        let node =
            dir.lookup(&temporary).or_else(|_| dir.make(&temporary, &new(libc::S_IFREG | 0o644))).unwrap();
        node.truncate(0).unwrap();
        node.write_at(0, &content(worker, slot, version), false).unwrap();
        node.sync().unwrap();
        if draw.below(4) == 0 {
            dir.link(&file, &node).unwrap();
            dir.unlink(&temporary).unwrap();
        } else {
            dir.rename(&temporary, dir, &file, 0).unwrap();
        }
    } else {
        dir.unlink(&file).unwrap();
    }
    ds.commit().unwrap();
    versions[slot as usize] = version;
    say(format!("done {worker} {slot} {version}"));
}

fn append(dir: &Node, worker: u64, entries: &mut u64) {
    let log = name("log").unwrap();
    let node = dir.lookup(&log).or_else(|_| dir.make(&log, &new(libc::S_IFREG | 0o644))).unwrap();
    node.write_at(*entries * 1000, &entry(worker, *entries), false).unwrap();
    node.sync().unwrap();
    *entries += 1;
    say(format!("entry {worker} {entries}"));
}

fn work(ds: &Dataset, worker: u64, seed: u64) {
    let dir = directory(ds, worker);
    let mut draw = Draw(seed ^ worker << 50);
    let mut versions: Vec<u64> = (0..SLOTS)
        .map(|slot| {
            let known = env("VERSIONS").unwrap_or_default();
            let mut words = known.split(' ').filter_map(|w| w.strip_prefix(&format!("{worker}/{slot}=")));
            words.next().map_or(0, |v| v.parse().unwrap())
        })
        .collect();
    let mut entries = dir.lookup(&name("log").unwrap()).map_or(0, |log| log.size() / 1000);
    loop {
        if draw.below(3) == 0 {
            append(&dir, worker, &mut entries);
        } else {
            change(ds, &dir, worker, &mut versions, &mut draw);
        }
    }
}

/// Takes recursive snapshots, rolls back a separate dataset, clones blocks, scrubs, and changes properties.
fn administer(pool: &Pool, ds: &Dataset, seed: u64) {
    let mut draw = Draw(!seed);
    let mut own = pool.open_dataset("own").ok();
    for round in 0.. {
        let mine = own.take().unwrap_or_else(|| pool.create_dataset("own", &Settings::new()).unwrap());
        let file = mine.open_file("f").or_else(|_| mine.create_file("f")).unwrap();
        file.write_at(0, &content(99, 0, round)).unwrap();
        file.truncate(content(99, 0, round).len() as u64).unwrap();
        let snapshot = format!("s{}-{round}", std::process::id());
        pool.snapshot_all(&["", "d", "own"], &snapshot).unwrap();
        file.write_at(0, b"after the snapshot").unwrap();
        let copy = mine.open_file("copy").or_else(|_| mine.create_file("copy")).unwrap();
        file.node().copy_to(0, copy.node(), 0, 100_000, true).unwrap();
        drop((file, copy));
        match draw.below(6) {
            0 => drop(pool.start_scrub()),
            1 => ds.set("compression", ["lz4", "off", "zstd-1"][draw.below(3) as usize]).unwrap(),
            2 => ds.set("recordsize", ["16K", "128K", "1M"][draw.below(3) as usize]).unwrap(),
            3 => ds.set("logbias", ["latency", "throughput"][draw.below(2) as usize]).unwrap(),
            4 => pool.sync().unwrap(),
            _ => {}
        }
        mine.close().expect("no file of it is open");
        pool.rollback("own", &snapshot).unwrap();
        let back = pool.open_dataset("own").unwrap();
        let mut bytes = vec![0; content(99, 0, round).len()];
        back.open_file("f").unwrap().read_at(0, &mut bytes).unwrap();
        assert!(bytes == content(99, 0, round), "wrong contents after a rollback");
        for dataset in ["", "d", "own"] {
            pool.destroy(&format!("{dataset}@{snapshot}")).unwrap();
        }
        own = Some(back);
        say(format!("round {round}"));
    }
}

#[test]
#[ignore = "started by the test below as a separate process"]
fn victim() {
    let Some(dir) = env("DIR").map(PathBuf::from) else { return };
    let (layout, seed): (usize, u64) =
        (env("LAYOUT").unwrap().parse().unwrap(), env("SEED").unwrap().parse().unwrap());
    let (_, layout, n) = layouts()[layout];
    let members = files(&dir, n);
    let cut: u64 = env("CUT").unwrap().parse().unwrap();
    if cut != 0 {
        power::start(&power::Options { after_ops: cut, seed, ..Default::default() });
    }
    let pool = if members[0].exists() {
        Pool::import(engine(), &members, false).unwrap()
    } else {
        let group = VdevGroup {
            layout,
            usage: Use::Data,
            files: members.iter().map(|m| (m.clone(), 1 << 30)).collect(),
        };
        Pool::create(engine(), &Spec { name: "stress".into(), ashift: 12, groups: vec![group] }).unwrap()
    };
    let ds = pool.open_dataset("d").or_else(|_| pool.create_dataset("d", &Settings::new())).unwrap();
    pool.sync().unwrap();
    say("up".into());
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let ds = &ds;
            scope.spawn(move || work(ds, worker, seed));
        }
        scope.spawn(|| administer(&pool, &ds, seed));
        let mut draw = Draw(seed ^ 77);
        std::thread::sleep(Duration::from_millis(draw.below(400)));
        if draw.below(2) == 0 {
            let member = &members[draw.below(n as u64) as usize];
            let call = [Call::Write, Call::Flush, Call::Read][draw.below(3) as usize];
            let fault = Fault::Error([libc::EIO, libc::ENOSPC][draw.below(2) as usize]);
            inject::start(&Injection { file: Some(member), call, fault, first: 1, times: 0 }).unwrap();
            say(format!("fails {} {call:?}", member.display()));
            std::thread::sleep(Duration::from_millis(draw.below(500)));
            inject::stop();
        }
    });
}

// ---- the expected state ----

#[derive(Default)]
struct Known {
    done: BTreeMap<(u64, u64), u64>,
    tried: BTreeMap<(u64, u64), u64>,
    entries: BTreeMap<u64, u64>,
    acknowledged: u64,
    rounds: u64,
    failures: u64,
    /// Whether the pool and its dataset were created.
    made: bool,
}

impl Known {
    fn hear(&mut self, line: &str) {
        let mut words = line.split(' ');
        let kind = words.next().unwrap_or_default();
        let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        match (kind, numbers[..].first(), numbers.len()) {
            ("tried", _, 3) => drop(self.tried.insert((numbers[0], numbers[1]), numbers[2])),
            ("done", _, 3) => {
                self.done.insert((numbers[0], numbers[1]), numbers[2]);
                self.acknowledged += 1;
            }
            ("entry", _, 2) => {
                self.entries.insert(numbers[0], numbers[1]);
                self.acknowledged += 1;
            }
            ("up", ..) => self.made = true,
            ("round", ..) => self.rounds += 1,
            ("fails", ..) => self.failures += 1,
            _ => {}
        }
    }

    fn check_slot(&mut self, dir: &Node, worker: u64, slot: u64, case: &str) {
        let done = self.done.get(&(worker, slot)).copied().unwrap_or(0);
        let tried = self.tried.get(&(worker, slot)).copied().unwrap_or(0);
        let found = dir.lookup(&name(format!("s{slot}")).unwrap()).ok().map(|node| {
            let mut bytes = vec![0; node.size() as usize];
            node.read_at(0, &mut bytes)
                .unwrap_or_else(|why| panic!("{case}: worker {worker}, slot {slot}: {why}"));
            bytes
        });
        let is = |version: u64| match &found {
            Some(bytes) => version % 2 == 1 && *bytes == content(worker, slot, version),
            None => version.is_multiple_of(2),
        };
        let now = (done..=tried.max(done)).find(|v| is(*v));
        let now = now.unwrap_or_else(|| {
            let len = found.as_ref().map(Vec::len);
            panic!("{case}: worker {worker}, slot {slot}: version {done} was acknowledged, {tried} tried; found {len:?} bytes")
        });
        self.done.insert((worker, slot), now);
        self.tried.insert((worker, slot), now);
    }

    fn check(&mut self, members: &[PathBuf], case: &str) {
        let pool = Pool::import(engine(), members, false).unwrap_or_else(|why| panic!("{case}: {why}"));
        let ds = pool.open_dataset("d").unwrap_or_else(|why| panic!("{case}: {why}"));
        for worker in 0..WORKERS {
            let dir = directory(&ds, worker);
            (0..SLOTS).for_each(|slot| self.check_slot(&dir, worker, slot, case));
            let n = self.entries.get(&worker).copied().unwrap_or(0);
            let Ok(log) = dir.lookup(&name("log").unwrap()) else {
                assert_eq!(n, 0, "{case}: worker {worker}: the log is gone");
                continue;
            };
            for i in 0..n {
                let mut bytes = vec![0; 1000];
                log.read_at(i * 1000, &mut bytes).unwrap();
                assert!(bytes == entry(worker, i), "{case}: worker {worker}: entry {i} of {n} is lost");
            }
        }
        drop(ds);
        pool.export().unwrap();
    }
}

/// Runs one victim until it is killed or its power fails; returns how it ended.
fn round(dir: &Path, layout: usize, seed: u64, draw: &mut Draw, known: &mut Known) -> &'static str {
    let cut = if draw.below(2) == 0 { 0 } else { 50 + draw.below(6000) };
    let versions: Vec<String> = known.done.iter().map(|((w, s), v)| format!("{w}/{s}={v}")).collect();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["victim", "--exact", "--ignored", "--nocapture"]).env("RUST_BACKTRACE", "0");
    for (name, value) in [
        ("DIR", dir.display().to_string()),
        ("LAYOUT", layout.to_string()),
        ("SEED", seed.to_string()),
        ("CUT", cut.to_string()),
        ("VERSIONS", versions.join(" ")),
    ] {
        command.env(format!("POOLWRIGHT_STRESS_{name}"), value);
    }
    let err = dir.join("err");
    let mut child =
        command.stdout(Stdio::piped()).stderr(std::fs::File::create(&err).unwrap()).spawn().unwrap();
    let (tell, lines) = channel();
    let out = BufReader::new(child.stdout.take().unwrap());
    let reader =
        std::thread::spawn(move || out.lines().map_while(Result::ok).for_each(|line| drop(tell.send(line))));
    let until = Instant::now() + Duration::from_millis(300 + draw.below(4000));
    let (mut last, mut killed) = (Instant::now(), false);
    loop {
        match lines.recv_timeout(Duration::from_millis(20)) {
            Ok(line) => {
                known.hear(&line);
                last = Instant::now();
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                assert!(
                    last.elapsed() < PATIENCE,
                    "seed {seed}: no progress: {}",
                    std::fs::read_to_string(&err).unwrap()
                );
            }
        }
        if !killed && cut == 0 && Instant::now() > until {
            killed = true;
            child.kill().unwrap();
        }
    }
    reader.join().unwrap();
    let (status, messages) = (child.wait().unwrap(), std::fs::read_to_string(&err).unwrap());
    match status.code() {
        None if killed => "killed",
        Some(code) if code == power::EXIT_CODE => "cut",
        Some(1) if messages.contains("the process ends") => "stopped",
        _ => panic!("seed {seed}: ended by itself with {status}: {messages}"),
    }
}

#[test]
fn concurrent_operations_and_crashes() {
    let minutes = env("MINUTES").map_or(0.5, |m| m.parse().unwrap());
    let seed: u64 = std::env::var("POOLWRIGHT_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let mut draw = Draw(seed);
    let end = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
    let mut table = Vec::new();
    for (layout, (title, _, n)) in layouts().into_iter().enumerate() {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let mut known = Known::default();
        let mut ends: BTreeMap<&str, u64> = BTreeMap::new();
        let share = end.saturating_duration_since(Instant::now()) / (2 - layout as u32);
        let until = Instant::now() + share;
        while Instant::now() < until {
            let one = draw.below(1 << 40);
            let ended = round(dir.path(), layout, one, &mut draw, &mut known);
            *ends.entry(ended).or_default() += 1;
            if known.made {
                known.check(&files(dir.path(), n), &format!("{title}, seed {one}, {ended}"));
            } else {
                files(dir.path(), n).iter().for_each(|member| drop(std::fs::remove_file(member)));
            }
        }
        table.push(format!(
            "{title}: {ends:?}; {} changes acknowledged, {} rounds of snapshots and rollbacks, {} members failed; nothing lost",
            known.acknowledged, known.rounds, known.failures
        ));
    }
    table.iter().for_each(|line| println!("{line}"));
}
