//! `poolwright mount` as a user runs it, and other verbs with a mounted pool.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::ops::Deref;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::mounted::{is_mounted, umount_soon as umount, until};
use crate::common::skip_without_fuse;

/// A pool and mount points in a directory. Dropping it unmounts everything and ends the processes.
struct TestDir {
    test_dir: crate::common::TestDir,
    running: Vec<Child>,
}

impl Deref for TestDir {
    type Target = crate::common::TestDir;

    fn deref(&self) -> &crate::common::TestDir {
        &self.test_dir
    }
}

impl TestDir {
    fn new() -> TestDir {
        let test_dir = crate::common::TestDir::new();
        for dir in ["m", "n"] {
            std::fs::create_dir(test_dir.at(dir)).unwrap();
        }
        test_dir.run("pool create tank img:1G -O compression=lz4");
        TestDir { test_dir, running: Vec::new() }
    }

    /// Starts a mount in the foreground of a child process; returns the index of the process.
    fn mount(&mut self, line: &str) -> usize {
        let mut child = self
            .plain()
            .arg("mount")
            .args(line.split_whitespace())
            .args(["--arc", "64M"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut messages = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut messages).unwrap();
        if !messages.contains("mounted on") {
            let mut why = String::new();
            child.stderr.take().unwrap().read_to_string(&mut why).unwrap();
            let _ = child.wait();
            panic!("mount {line} failed: {why}");
        }
        self.running.push(child);
        self.running.len() - 1
    }

    fn pid(&self, which: usize) -> u32 {
        self.running[which].id()
    }

    /// Waits for the end of a process; returns its exit code and messages.
    fn ended(&mut self, which: usize) -> (Option<i32>, String) {
        let child = &mut self.running[which];
        until("the mount process ends", || child.try_wait().unwrap().is_some());
        let mut messages = String::new();
        if let Some(mut stderr) = child.stderr.take() {
            stderr.read_to_string(&mut messages).unwrap();
        }
        (child.wait().unwrap().code(), messages)
    }

    fn signal(&self, which: usize, name: &str) {
        std::process::Command::new("kill").args([name, &self.pid(which).to_string()]).status().unwrap();
    }

    fn is_mounted(&self, dir: &str) -> bool {
        is_mounted(&self.at(dir))
    }
}

impl Drop for TestDir {
    fn drop(&mut self) {
        for child in &mut self.running {
            if child.try_wait().is_ok_and(|ended| ended.is_none()) {
                let _ = child.kill();
            }
            let _ = child.wait();
        }
        for dir in ["n", "m"] {
            if is_mounted(&self.at(dir)) {
                umount(&self.at(dir));
            }
        }
    }
}

#[test]
fn a_mounted_dataset_holds_files_and_ends_with_umount() {
    skip_without_fuse!();
    let mut p = TestDir::new();
    let mount = p.mount("tank m");
    assert!(p.is_mounted("m"));
    std::fs::write(p.at("m/hello"), "world").unwrap();
    std::fs::create_dir(p.at("m/dir")).unwrap();
    let text = p.run("pool status tank");
    let by = format!("by process {}", p.pid(mount));
    assert!(text.contains(&by) && text.contains("tank on ") && text.contains("/m"), "{text}");
    assert!(umount(&p.at("m")));
    let (code, messages) = p.ended(mount);
    assert_eq!(code, Some(0), "{messages}");
    let labels = p.json(&format!("pool import -d {}", p.dir.path().display()));
    assert_eq!(labels["pools"][0]["state"], "exported");
    assert!(!p.at("run/tank.sock").exists());

    let mount = p.mount("tank m -o readonly,caching=pages,threads=2");
    assert_eq!(std::fs::read_to_string(p.at("m/hello")).unwrap(), "world");
    let denied = std::fs::write(p.at("m/new"), "x").unwrap_err();
    assert_eq!(denied.raw_os_error(), Some(30), "EROFS");
    let mounts = p.json("pool status tank")["pools"][0]["info"]["mounts"].clone();
    assert_eq!(mounts[0]["caching"], "pages");
    assert_eq!((mounts[0]["threads"].as_u64(), mounts[0]["readonly"].as_bool()), (Some(2), Some(true)));
    assert!(umount(&p.at("m")));
    assert_eq!(p.ended(mount).0, Some(0));
}

#[test]
fn signals_unmount_flush_and_export() {
    skip_without_fuse!();
    let mut p = TestDir::new();
    for signal in ["-INT", "-TERM"] {
        let mount = p.mount("tank m");
        std::fs::write(p.at("m").join(signal), "not synced").unwrap();
        p.signal(mount, signal);
        let (code, messages) = p.ended(mount);
        assert_eq!(code, Some(0), "{messages}");
        assert!(!p.is_mounted("m"));
    }
    let mount = p.mount("tank m");
    assert_eq!(std::fs::read_to_string(p.at("m/-TERM")).unwrap(), "not synced");
    let held = std::fs::File::create(p.at("m/held")).unwrap();
    let mut messages = BufReader::new(p.running[mount].stderr.take().unwrap()).lines().map_while(Result::ok);
    p.signal(mount, "-TERM");
    assert!(messages.any(|line| line.contains("in use")), "it ended");
    assert!(p.is_mounted("m"), "a mount in use stays mounted");
    p.signal(mount, "-TERM");
    assert!(messages.any(|line| line.contains("still flushing")), "it ended");
    held.write_all_at(b"late", 0).unwrap();
    drop(held);
    let rest: Vec<String> = messages.collect();
    assert_eq!(p.ended(mount).0, Some(0), "{rest:?}");
    let mount = p.mount("tank m");
    assert_eq!(std::fs::read_to_string(p.at("m/held")).unwrap(), "late");
    p.signal(mount, "-INT");
    assert_eq!(p.ended(mount).0, Some(0));
}

#[test]
fn the_mount_continues_if_its_output_is_closed() {
    skip_without_fuse!();
    let mut p = TestDir::new();
    let mount = p.mount("tank m");
    std::fs::write(p.at("m/f"), "kept").unwrap();
    // From here on, the output has no reader, as after a terminal was closed.
    drop(p.running[mount].stderr.take());
    p.signal(mount, "-TERM");
    assert!(p.running[mount].wait().unwrap().success());
    let mount = p.mount("tank m");
    assert_eq!(std::fs::read_to_string(p.at("m/f")).unwrap(), "kept");
    p.signal(mount, "-INT");
    assert_eq!(p.ended(mount).0, Some(0));
}

#[test]
fn properties_take_effect_at_once_and_snapshots_show() {
    skip_without_fuse!();
    let mut p = TestDir::new();
    p.run("dataset create tank/db");
    p.mount("tank/db m");
    let block_size = |name: &str| {
        std::fs::write(p.at("m").join(name), vec![7u8; 1 << 20]).unwrap();
        std::fs::metadata(p.at("m").join(name)).unwrap().blksize()
    };
    assert_eq!(block_size("before"), 128 << 10);
    p.run("dataset set recordsize=16K tank/db");
    assert_eq!(block_size("after"), 16 << 10);
    p.run("dataset set recordsize=1M tank");
    assert_eq!(block_size("own"), 16 << 10, "a local value overrides an inherited one");
    assert_eq!(p.run("dataset get -H recordsize tank/db"), "tank/db\trecordsize\t16K\tlocal\n");

    std::fs::write(p.at("m/changing"), "old").unwrap();
    p.run("dataset snapshot tank/db@one");
    std::fs::write(p.at("m/changing"), "new").unwrap();
    assert_eq!(std::fs::read_to_string(p.at("m/.zfs/snapshot/one/changing")).unwrap(), "old");
    assert_eq!(std::fs::read_to_string(p.at("m/changing")).unwrap(), "new");
    let listed =
        |p: &TestDir| std::fs::read_dir(p.at("m")).unwrap().any(|e| e.unwrap().file_name() == ".zfs");
    assert!(!listed(&p));
    p.run("dataset set snapdir=visible tank");
    assert!(listed(&p), "an inherited value takes effect at once");
    assert_eq!(p.run("dataset get -H -o source snapdir tank/db"), "inherited from tank\n");
    p.run("dataset set snapdir=hidden tank/db");
    assert!(!listed(&p));
    p.fails("dataset destroy -r tank/db", 3, &["refused", "mounted on"]);
}

#[test]
fn a_mounted_dataset_is_rolled_back_while_programs_use_it() {
    skip_without_fuse!();
    let mut p = TestDir::new();
    p.run("dataset create tank/db");
    let mount = p.mount("tank/db m");
    p.mount("tank n");
    std::fs::write(p.at("n/other"), "other").unwrap();
    std::fs::write(p.at("m/table"), "one").unwrap();
    p.run("dataset snapshot tank/db@one");
    let table = std::fs::OpenOptions::new().read(true).write(true).open(p.at("m/table")).unwrap();
    table.write_all_at(b"two, and longer", 0).unwrap();
    p.run("dataset snapshot tank/db@two");
    let new = std::fs::File::create(p.at("m/new")).unwrap();
    let mut writer = std::process::Command::new("sh")
        .args([
            "-c",
            "i=0; while :; do i=$((i+1)); echo $i >> loop; echo $i > n$((i % 20)); rm -f n$((i % 7)); done",
        ])
        .current_dir(p.at("m"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    p.fails("dataset rollback tank/db@one", 1, &["tank/db@two", "-r"]);
    for _ in 0..3 {
        until("a line is written", || p.at("m/loop").exists());
        p.run("dataset rollback tank/db@two");
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert_eq!(p.run("dataset rollback -r tank/db@one"), "");
    assert_eq!(std::fs::read_to_string(p.at("m/table")).unwrap(), "one");
    let listed: Vec<_> = std::fs::read_dir(p.at("m")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(listed, ["table"]);
    let mut bytes = [0; 20];
    assert_eq!(table.read_at(&mut bytes, 0).unwrap(), 3, "it stays open");
    assert_eq!(new.write_at(b"x", 0).unwrap_err().raw_os_error(), Some(5), "EIO");
    assert!(!p.run("dataset list -H -t snapshot tank/db").contains("@two"));
    table.write_all_at(b"1", 0).unwrap();
    table.sync_all().unwrap();
    assert_eq!(p.json("pool status tank")["pools"][0]["info"]["mounts"].as_array().unwrap().len(), 2);
    p.run("dataset get all tank/db");
    assert_eq!(std::fs::read_to_string(p.at("n/other")).unwrap(), "other");
    drop((table, new));
    assert!(umount(&p.at("m")) && umount(&p.at("n")));
    assert_eq!(p.ended(mount).0, Some(0));
    p.mount("tank/db m --record t.parquet");
    assert_eq!(std::fs::read_to_string(p.at("m/table")).unwrap(), "1ne");
    p.fails("dataset rollback tank/db@one", 3, &["being recorded", "umount"]);
}

#[test]
fn a_mounted_pool_is_scrubbed_and_says_which_file_is_damaged() {
    skip_without_fuse!();
    let mut p = TestDir::new();
    p.run("pool create pair mirror a:256M b:256M");
    p.mount("pair m");
    std::fs::write(p.at("m/f"), vec![3u8; 32 << 20]).unwrap();
    let started = p.json("pool scrub pair");
    assert!(["scanning", "finished"].contains(&started["state"].as_str().unwrap()), "{started}");
    let clean = p.json("pool scrub -w pair");
    assert_eq!((clean["state"].as_str(), clean["lost"].as_u64()), (Some("finished"), Some(0)));
    let side = std::fs::OpenOptions::new().write(true).open(p.at("b")).unwrap();
    for at in 4..240u64 {
        side.write_all_at(&vec![0xa5; 1 << 20], at << 20).unwrap();
    }
    p.command("pool scrub -w pair").assert().code(1);
    let status = p.command("pool status pair --json").assert().code(1);
    let status = crate::common::json_output("pool-status", &status.get_output().stdout);
    let status = &status["pools"][0];
    let sides = status["layout"]["vdevs"][0]["children"].as_array().unwrap();
    let errors = |name: &str| {
        let guid = &sides.iter().find(|v| v["path"].as_str().unwrap().ends_with(name)).unwrap()["guid"];
        let vdevs = status["info"]["vdevs"].as_array().unwrap();
        let vdev = vdevs.iter().find(|v| v["guid"] == *guid).unwrap();
        (vdev["state"].as_str().unwrap().to_owned(), vdev["checksum_errors"].as_u64().unwrap())
    };
    assert_eq!(errors("/a"), ("ONLINE".to_owned(), 0));
    assert!(errors("/b").1 > 0, "{status}");
    let scan = &status["info"]["scan"];
    assert_eq!((scan["state"].as_str(), scan["errors"].as_u64()), (Some("finished"), Some(0)));
    assert!(scan["repaired"].as_u64().unwrap() > 1 << 20, "{scan}");
    assert_eq!(p.json("pool scrub -w pair")["checksum_errors"], 0);
    p.fails("pool scrub -s pair", 1, &["not being scrubbed"]);
}

#[test]
fn one_process_owns_the_pool() {
    skip_without_fuse!();
    let mut p = TestDir::new();
    p.run("dataset create tank/db");
    let mount = p.mount("tank m");
    let pid = format!("process {}", p.pid(mount));
    p.fails("mount tank n", 3, &["refused", &pid, "tank is mounted on", "/m"]);
    p.fails("mount tank/none n", 1, &[&pid, "no such dataset"]);
    let added = p.json("mount tank/db n");
    assert_eq!(
        (added["pid"].as_u64(), added["owner"].as_bool()),
        (Some(u64::from(p.pid(mount))), Some(false))
    );
    std::fs::write(p.at("n/file"), "in the other dataset").unwrap();
    assert!(!p.at("m/file").exists());
    // No other process can open the pool, even without the socket.
    std::fs::create_dir(p.at("free")).unwrap();
    std::fs::rename(p.at("run"), p.at("away")).unwrap();
    p.fails("pool import tank img", 3, &["refused", "in use", &pid]);
    p.fails("mount tank free", 3, &["refused", "in use", &pid]);
    std::fs::rename(p.at("away"), p.at("run")).unwrap();
    p.fails("pool create tank other:128M", 3, &["in use", &pid]);

    assert!(umount(&p.at("m")));
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(std::fs::read_to_string(p.at("n/file")).unwrap(), "in the other dataset");
    let held = std::fs::File::open(p.at("n/file")).unwrap();
    p.fails("pool export tank", 3, &["in use"]);
    drop(held);
    assert_eq!(p.run("pool export tank"), "tank exported\n");
    assert_eq!(p.ended(mount).0, Some(0));
    assert!(!p.is_mounted("n"));
    assert!(!p.at("state/pools/tank.json").exists() && p.at("img").exists());
}

#[test]
fn iostat_counts_what_moves() {
    skip_without_fuse!();
    let mut p = TestDir::new();
    p.mount("tank m");
    let path = p.at("m/load");
    let writer = std::thread::spawn(move || {
        let file = std::fs::File::create(path).unwrap();
        let mut x = 1u64;
        let noise: Vec<u8> = (0..1 << 20)
            .map(|_| {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (x >> 56) as u8
            })
            .collect();
        for i in 0..16u64 {
            file.write_all_at(&noise, i << 20).unwrap();
        }
        file.sync_all().unwrap();
    });
    writer.join().unwrap();
    let start = Instant::now();
    let out = p.run("pool iostat -v tank 300ms 2 --json");
    let took = start.elapsed().as_secs_f64();
    let reports: Vec<Value> =
        out.lines().map(|line| crate::common::json_output("pool-iostat", line.as_bytes())).collect();
    assert_eq!(reports.len(), 2);
    assert!(reports[0]["total"]["write_bytes"].as_u64().unwrap() >= 16 << 20, "{}", reports[0]);
    assert!(reports[0]["total"]["flushes"].as_u64().unwrap() > 0);
    let seconds = reports[1]["seconds"].as_f64().unwrap();
    assert!((0.2..took).contains(&seconds), "{seconds} of {took}");
    assert_eq!(reports[0]["files"].as_array().unwrap().len(), 1);
    let text = p.run("pool iostat -v tank");
    assert!(text.contains("/img"), "{text}");

    let mut socket = UnixStream::connect(p.at("run/tank.sock")).unwrap();
    let mode = std::fs::metadata(p.at("run/tank.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    socket.write_all(b"{\"verb\":\"counters\"}\n").unwrap();
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).unwrap();
    let counters: Value = serde_json::from_str(&line).unwrap();
    let counters = &counters["ok"];
    assert_eq!(counters["version"], 1);
    assert!(counters["arc"]["size"].as_u64().unwrap() > 0);
    assert_eq!(counters["datasets"][0]["name"], "tank");
    assert!(counters["datasets"][0]["zil"]["commits"].as_u64().unwrap() > 0, "{counters}");
    assert!(counters["mounts"][0]["ops"]["write"].as_u64().unwrap() >= 16, "{counters}");
    assert!(counters["mounts"][0]["write_bytes"].as_u64().unwrap() >= 16 << 20);
}

#[test]
fn a_killed_owner_leaves_what_was_synced_and_nothing_in_the_way() {
    skip_without_fuse!();
    let mut p = TestDir::new();
    let mount = p.mount("tank m");
    let file = std::fs::File::create(p.at("m/acknowledged")).unwrap();
    file.write_all_at(b"safe", 0).unwrap();
    file.sync_all().unwrap();
    drop(file);
    p.signal(mount, "-KILL");
    p.running[mount].wait().unwrap();
    assert!(p.at("run/tank.sock").exists(), "a killed process cannot remove its socket");
    p.fails("mount tank m", 1, &["dead mount", "umount"]);
    assert!(umount(&p.at("m")));
    let info = p.json("dataset list tank");
    assert_eq!(info["datasets"][0]["name"], "tank");
    let mount = p.mount("tank m");
    assert_eq!(std::fs::read_to_string(p.at("m/acknowledged")).unwrap(), "safe");
    p.signal(mount, "-INT");
    assert_eq!(p.ended(mount).0, Some(0));
}

#[test]
fn a_background_mount_writes_a_log() {
    skip_without_fuse!();
    let p = TestDir::new();
    p.fails("mount tank/none m --background", 1, &["no such dataset"]);
    let mounted = p.json("mount tank m --background --arc 64M");
    let pid = mounted["pid"].as_u64().unwrap() as u32;
    assert_eq!(mounted["owner"], true);
    std::fs::write(p.at("m/file"), "x").unwrap();
    let log = p.at("state/log/tank.log");
    // The log process may be slower.
    until("the mount is logged", || std::fs::read_to_string(&log).is_ok_and(|text| text.ends_with('\n')));
    let text = std::fs::read_to_string(&log).unwrap();
    let (time, message) = text.trim_end().split_once(&format!(" [{pid}] ")).expect(&text);
    assert!(time.len() == 20 && time.starts_with("20") && time.ends_with('Z'), "{text}");
    assert_eq!(message, format!("note: tank mounted on {}", p.at("m").display()));
    p.run("pool export tank");
    // If no process reaps orphans, the ended process stays as a zombie.
    let ended = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_none_or(|rest| rest.is_empty() || rest.starts_with('Z'))
    };
    until("the mount process ends after the export", ended);
    assert!(!p.is_mounted("m"));
}

#[test]
fn a_mount_records_its_own_trace() {
    skip_without_fuse!();
    let mut p = TestDir::new();
    std::fs::create_dir(p.at("out")).unwrap();
    let mount = p.mount("tank m --record out/t.parquet");
    std::fs::create_dir(p.at("m/db")).unwrap();
    let file = std::fs::File::create(p.at("m/db/table.ibd")).unwrap();
    for i in 0..32u64 {
        file.write_all_at(&[i as u8; 16384], i * 16384).unwrap();
    }
    file.sync_data().unwrap();
    file.set_len(65536).unwrap();
    drop(file);
    std::fs::rename(p.at("m/db/table.ibd"), p.at("m/db/renamed.ibd")).unwrap();
    assert_eq!(std::fs::read(p.at("m/db/renamed.ibd")).unwrap().len(), 65536);
    std::fs::write(p.at("m/db/gone"), "x").unwrap();
    std::fs::remove_file(p.at("m/db/gone")).unwrap();
    assert!(umount(&p.at("m")));
    let (code, messages) = p.ended(mount);
    assert_eq!(code, Some(0), "{messages}");

    let shown = p.json("trace show out/t.parquet");
    assert_eq!(shown["bytes"]["write"], 32 * 16384 + 1);
    assert_eq!(shown["ops"]["write"], 33);
    assert_eq!(shown["bytes"]["read"], 65536);
    for (op, n) in [("fdatasync", 1), ("rename", 1), ("unlink", 1), ("create", 2)] {
        assert_eq!(shown["ops"][op], n, "{op}: {}", shown["ops"]);
    }
    let files = shown["files"].as_array().unwrap();
    let path = |f: &Value| f["path"].as_str().unwrap_or_default().to_owned();
    let table = files.iter().find(|f| path(f).ends_with("/m/db/renamed.ibd")).expect("under its last name");
    assert_eq!((table["size"].as_u64(), table["role"].as_str()), (Some(65536), Some("data")));

    // It cannot be recorded again.
    p.fails("mount tank m --record out/t.parquet", 3, &["it is an earlier recording", "hint: "]);
    assert!(!p.is_mounted("m"));

    // Without I/O there is no trace.
    let mount = p.mount("tank m --record out/idle.parquet");
    assert!(umount(&p.at("m")));
    let (code, messages) = p.ended(mount);
    assert!(code == Some(0) && messages.contains("nothing was recorded"), "{code:?} {messages}");
    let left: Vec<_> = std::fs::read_dir(p.at("out")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["t.parquet"]);
}
