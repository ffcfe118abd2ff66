//! The program's files are private, while it works and afterwards, with any umask; scratch directories are removed, however the
//! process ends.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use poolwright_trace::layout::Role;
use poolwright_trace::{Event, File, Flags, Op, Trace};

const BIN: &str = env!("CARGO_BIN_EXE_poolwright");
const PAGE: u64 = 16384;
/// Time limit of waits, long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);
const SMOKE: &str = include_str!("../fixtures/smoke.toml");

/// Files to which other users may have access: a suffix or a part of the path, and the reason.
const OPEN: &[(&str, &str)] = &[
    ("/work/plan.json", "a plan contains names, settings and figures, no data of the database"),
    ("/work/plan.json.1", "the previous plan"),
    ("/work/.plan.json.", "the plan while it is written"),
    ("/work/report.html", "a page contains no more than a plan"),
    ("/work/report.html.1", "the previous page"),
    ("/work/.report.html.", "the page while it is written"),
    ("/work/mrc.html", "a page"),
    ("/work/.mrc.html.", "a page while it is written"),
    ("/run/", "a socket as it is bound, in a directory that others cannot enter"),
    (
        "/data/poolwright-trial-",
        "below a trial's directory, which others cannot enter, a driver's files have its modes",
    ),
];

/// A user's home, temporary and state directories, in which the program runs with umask 000.
struct TestDir(tempfile::TempDir);

impl TestDir {
    fn new() -> TestDir {
        let test_dir = TestDir(tempfile::tempdir().unwrap());
        for dir in ["work", "tmp", "state", "run", "home"] {
            std::fs::create_dir(test_dir.at(dir)).unwrap();
        }
        test_dir
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", "umask 000; exec \"$@\"", "sh", BIN])
            .args(line.split_whitespace())
            .current_dir(self.at("work"))
            .env("TMPDIR", self.at("tmp"))
            .env("HOME", self.at("home"))
            .env("POOLWRIGHT_STATE_DIR", self.at("state/poolwright"))
            .env("POOLWRIGHT_RUNTIME_DIR", self.at("run/poolwright"))
            .env("POOLWRIGHT_HOME", Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
            .stdin(Stdio::null());
        command
    }

    fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// Runs the program and expects one of these exit codes.
    fn expect(&self, line: &str, codes: &[i32]) -> String {
        let out = self.run(line);
        let messages = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(
            out.status.code().is_some_and(|code| codes.contains(&code)),
            "{line}: {} {messages}",
            out.status
        );
        messages
    }

    /// A table and a trace of reads and writes of it.
    fn recorded(&self) {
        std::fs::create_dir(self.at("work/db")).unwrap();
        let path = self.at("work/db/table.ibd");
        let text: String = (0..40_000u32).map(|i| format!("{i:06} customer {:03}; ", i % 997)).collect();
        std::fs::write(&path, &text.as_bytes()[..32 * PAGE as usize]).unwrap();
        let event = |i: u64| Event {
            t_ns: i * 1_000_000,
            dur_ns: 1000,
            op: if i.is_multiple_of(3) { Op::Write } else { Op::Read },
            file: 0,
            offset: i * 7 % 32 * PAGE,
            len: PAGE,
            pid: 1,
            tid: 1,
            flags: Flags::default(),
            gap: None,
        };
        let file = File {
            path: path.display().to_string(),
            size: 32 * PAGE,
            role: Some(Role::Data),
            ..File::default()
        };
        let trace = Trace { files: vec![file], events: (0..600).map(event).collect(), ..Trace::default() };
        trace.save(self.at("work/t.parquet")).unwrap();
    }
}

/// Examines all files below a directory while the program runs.
struct Watch {
    root: PathBuf,
    end: Arc<AtomicBool>,
    seen: std::thread::JoinHandle<BTreeMap<PathBuf, u32>>,
}

impl Watch {
    /// Ignores files that the test itself made.
    fn start(test_dir: &TestDir) -> Watch {
        let root = test_dir.0.path().to_owned();
        let end = Arc::new(AtomicBool::new(false));
        let known = all(&root);
        let (ended, watched) = (Arc::clone(&end), root.clone());
        let seen = std::thread::spawn(move || {
            let mut seen = BTreeMap::new();
            loop {
                let last = ended.load(Ordering::Acquire);
                seen.extend(all(&watched).into_iter().filter(|(path, _)| !known.contains_key(path)));
                if last {
                    return seen;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        Watch { root, end, seen }
    }

    /// Checks that all examined files are private or on the list; returns their paths below the directory.
    fn end(self) -> Vec<String> {
        self.end.store(true, Ordering::Release);
        let seen = self.seen.join().unwrap();
        let below = |path: &Path| format!("/{}", path.strip_prefix(&self.root).unwrap().display());
        let open: Vec<String> = seen
            .iter()
            .filter(|(_, mode)| *mode & 0o077 != 0)
            .map(|(path, mode)| format!("{:03o} {}", mode & 0o777, below(path)))
            .filter(|line| !OPEN.iter().any(|(test_dir, _)| line.contains(test_dir)))
            .collect();
        assert!(open.is_empty(), "others have access to\n{}", open.join("\n"));
        seen.keys().map(|path| below(path)).collect()
    }
}

/// Files, directories, pipes and sockets below `root` with their modes, on its own file system. A link has no mode.
fn all(root: &Path) -> BTreeMap<PathBuf, u32> {
    let device = std::fs::metadata(root).unwrap().dev();
    let mut found = BTreeMap::new();
    let mut todo = vec![root.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            if meta.dev() != device || meta.is_symlink() {
                continue;
            }
            if meta.is_dir() {
                todo.push(entry.path());
            }
            found.insert(entry.path(), meta.mode());
        }
    }
    found
}

fn assert_saw(seen: &[String], parts: &[&str]) {
    for part in parts {
        assert!(seen.iter().any(|path| path.contains(part)), "{part} was not seen: {seen:#?}");
    }
}

#[test]
fn traces_captures_and_plans() {
    let test_dir = TestDir::new();
    test_dir.recorded();
    let fio = "fio version 3 iolog\n0 /db/a add\n1 /db/a open\n2 /db/a read 0 4096\n";
    std::fs::write(test_dir.at("work/log"), fio).unwrap();
    let watch = Watch::start(&test_dir);
    test_dir.expect("trace import log -o imported.parquet", &[0]);
    test_dir.expect("trace export t.parquet -o t.csv --format csv", &[0]);
    test_dir.expect("mrc t.parquet --sizes 64M -o mrc.html", &[0]);
    test_dir.expect("estimate db", &[0]);
    let trials = "--device none --arc 64M --warm 0";
    test_dir.expect(&format!("replay t.parquet {trials} --scratch ../tmp -o recordsize=8K,16K"), &[0]);
    test_dir.expect(&format!("replay t.parquet {trials} --scratch ../tmp --dir ../tmp"), &[0]);
    for _ in 0..2 {
        test_dir.expect(
            "tune db --trace t.parquet --budget 3s --device none --arc 64M --scratch ../tmp",
            &[0, 4],
        );
    }
    let seen = watch.end();
    let made = ["imported.parquet", "t.csv", "mrc.html", "plan.json.1", "report.html.1", "/vdev"];
    assert_saw(&seen, &made);
    assert_saw(&seen, &["/capture/image", "/capture/index.json", "/trial-0.json", "poolwright-trial-"]);
    assert_eq!(std::fs::read_dir(test_dir.at("tmp")).unwrap().count(), 0, "scratch is removed");
}

#[test]
fn recordings() {
    let test_dir = TestDir::new();
    test_dir.recorded();
    let watch = Watch::start(&test_dir);
    let out = test_dir.run("record --dir db --for 1s -o r.parquet");
    let messages = String::from_utf8_lossy(&out.stderr).into_owned();
    if messages.contains("cannot record") {
        eprintln!("SKIPPED recordings: {messages}");
        return;
    }
    let seen = watch.end();
    assert_saw(&seen, &["r.parquet"]);
}

#[test]
fn pools_mounts_and_their_logs() {
    let test_dir = TestDir::new();
    let watch = Watch::start(&test_dir);
    test_dir.expect("pool create tank ../tmp/a:256M log ../tmp/b:128M", &[0]);
    test_dir.expect("dataset create tank/db", &[0]);
    if std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_err() {
        eprintln!("SKIPPED the mount of pools_mounts_and_their_logs: /dev/fuse cannot be opened");
    } else {
        std::fs::create_dir(test_dir.at("home/m")).unwrap();
        std::fs::set_permissions(test_dir.at("home/m"), std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .unwrap();
        test_dir.expect("mount tank ../home/m --background --arc 64M --record ../tmp/mounted.parquet", &[0]);
        std::fs::write(test_dir.at("home/m/file"), vec![1; 1 << 20]).unwrap();
        test_dir.expect("dataset snapshot tank@one", &[0]);
        let seen = all(test_dir.0.path());
        assert!(seen.keys().any(|path| path.ends_with("log/tank.log")), "{seen:#?}");
        let began = Instant::now();
        // The watch may have a directory of the mount open.
        while !Command::new("umount").arg(test_dir.at("home/m")).status().unwrap().success() {
            assert!(began.elapsed() < PATIENCE, "the mount stays busy");
            std::thread::sleep(Duration::from_millis(10));
        }
        while test_dir.run("pool export tank").status.code() != Some(0) {
            assert!(began.elapsed() < PATIENCE, "the pool stays open");
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(test_dir.at("tmp/mounted.parquet").exists());
    }
    let seen = watch.end();
    assert_saw(&seen, &["/tmp/a", "/tmp/b", "/pools/tank.json"]);
}

#[test]
fn labs() {
    let test_dir = TestDir::new();
    std::fs::write(test_dir.at("work/smoke.toml"), SMOKE).unwrap();
    std::fs::create_dir(test_dir.at("work/data")).unwrap();
    let watch = Watch::start(&test_dir);
    let line = "lab run ./smoke.toml --scratch ../tmp --target directory:data --only size --keep";
    test_dir.expect(line, &[0]);
    let seen = watch.end();
    assert_saw(
        &seen,
        &["/lock", "/lab-smoke.db", "/kept/1/trial.json", "/kept/1/trial.log", "poolwright-trial-"],
    );
}

#[test]
fn a_lab_writes_through_no_link() {
    let test_dir = TestDir::new();
    std::fs::write(test_dir.at("work/smoke.toml"), SMOKE).unwrap();
    std::fs::write(test_dir.at("home/precious"), "precious").unwrap();
    std::fs::create_dir(test_dir.at("work/data")).unwrap();
    let root = test_dir.at("tmp").join(format!("poolwright-lab.{}", rustix::process::getuid().as_raw()));
    let line = "lab run ./smoke.toml --scratch ../tmp --target directory:data --only size";
    std::fs::create_dir(&root).unwrap();
    std::os::unix::fs::symlink(test_dir.at("home/precious"), root.join("lock")).unwrap();
    let messages = test_dir.expect(line, &[1]);
    assert!(messages.contains("not a regular file") && messages.contains("--scratch"), "{messages}");
    assert_eq!(std::fs::read_to_string(test_dir.at("home/precious")).unwrap(), "precious");
    std::fs::remove_dir_all(&root).unwrap();
    std::fs::create_dir(test_dir.at("home/theirs")).unwrap();
    std::os::unix::fs::symlink(test_dir.at("home/theirs"), &root).unwrap();
    let messages = test_dir.expect(line, &[1]);
    assert!(messages.contains("not a directory"), "{messages}");
    assert_eq!(std::fs::read_dir(test_dir.at("home/theirs")).unwrap().count(), 0);
    std::fs::remove_file(&root).unwrap();
    std::fs::create_dir(&root).unwrap();
    if std::os::unix::fs::chown(&root, Some(12345), None).is_ok() {
        let messages = test_dir.expect(line, &[1]);
        assert!(messages.contains("belongs to user 12345"), "{messages}");
    }
}

/// An output is first written to a predictable name, in a directory that may be writable by all users.
#[test]
fn outputs_are_written_through_no_link() {
    let test_dir = TestDir::new();
    test_dir.recorded();
    std::fs::write(test_dir.at("home/precious"), "precious").unwrap();
    // The shell makes links with its own process id in their names, then executes the program, which has the same process id.
    let script = "for n in .mrc.html.$$ .mrc.html.part-$$ .r.parquet.partial-$$.part-$$; do ln -s ../home/precious $n; done; exec \"$@\"";
    std::fs::write(test_dir.at("work/log"), "fio version 3 iolog\n0 /a add\n1 /a open\n2 /a read 0 4096\n")
        .unwrap();
    for line in ["mrc t.parquet --sizes 64M -o mrc.html", "trace import log -o r.parquet"] {
        let status = Command::new("sh")
            .args(["-c", script, "sh", BIN])
            .args(line.split(' '))
            .current_dir(test_dir.at("work"))
            .stdout(Stdio::null())
            .status();
        assert!(status.unwrap().success(), "{line}");
        assert_eq!(std::fs::read_to_string(test_dir.at("home/precious")).unwrap(), "precious", "{line}");
    }
}

/// Starts a replay with a long trial: 600 operations that take a second of this machine each.
fn slow_replay(test_dir: &TestDir, more: &str) -> Child {
    let line = format!("replay t.parquet --clock real --device none --arc 64M --warm 0 --paced=0.001 {more}");
    test_dir.command(&line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn scratch_in(dir: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().flatten();
    entries.filter(|e| e.file_name().to_string_lossy().starts_with(prefix)).map(|e| e.path()).collect()
}

/// Waits until the child's trial runs; returns its scratch directory.
fn wait_for_trial(dir: &Path) -> PathBuf {
    let began = Instant::now();
    loop {
        if let Some(found) =
            scratch_in(dir, "poolwright-scratch-").pop().filter(|dir| dir.join("trial-0.json").exists())
        {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "no trial began");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(status.unwrap().success());
}

#[test]
fn scratch_of_a_killed_process_is_removed_and_a_live_ones_stays() {
    let test_dir = TestDir::new();
    test_dir.recorded();
    let mut live = slow_replay(&test_dir, "--scratch ../tmp");
    let lives = wait_for_trial(&test_dir.at("tmp"));
    std::fs::create_dir(test_dir.at("other")).unwrap();
    let mut dead = slow_replay(&test_dir, "--scratch ../other");
    let left = wait_for_trial(&test_dir.at("other"));
    signal(&dead, "KILL");
    dead.wait().unwrap();
    assert!(left.join("capture/image").exists(), "a kill leaves the capture");
    // A leftover in TMPDIR; the id of a live process in its name makes no difference.
    let moved = test_dir.at("tmp").join(format!("poolwright-scratch-{}", std::process::id()));
    std::fs::rename(&left, &moved).unwrap();
    // The next run checks TMPDIR even if its own scratch directory is elsewhere.
    test_dir.expect("replay t.parquet --device none --arc 64M --warm 0 --scratch ../other", &[0]);
    assert!(!moved.exists(), "the leftovers of a killed process were not removed");
    assert!(lives.join("capture/image").exists(), "the scratch directory of a live process was removed");
    signal(&live, "TERM");
    assert_eq!(live.wait().unwrap().code(), Some(130));
    assert!(!lives.exists());
}

#[test]
fn a_second_interruption_leaves_no_scratch() {
    let test_dir = TestDir::new();
    test_dir.recorded();
    // A stopped process receives both signals at once, so no destructor runs between them.
    for line in ["--scratch ../tmp", "--scratch ../tmp --dir ../tmp"] {
        for _ in 0..3 {
            let mut child = slow_replay(&test_dir, line);
            wait_for_trial(&test_dir.at("tmp"));
            signal(&child, "STOP");
            signal(&child, "INT");
            signal(&child, "TERM");
            signal(&child, "CONT");
            assert_eq!(child.wait().unwrap().code(), Some(130));
            let began = Instant::now();
            while !scratch_in(&test_dir.at("tmp"), "poolwright-scratch-").is_empty() {
                assert!(began.elapsed() < Duration::from_secs(10), "{line}: {:?}", all(&test_dir.at("tmp")));
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    }
    // If a trial is killed with its parent, the next run removes its directory.
    test_dir.expect("replay t.parquet --device none --warm 0 --scratch ../tmp --dir ../tmp", &[0]);
    assert_eq!(std::fs::read_dir(test_dir.at("tmp")).unwrap().count(), 0);
}
