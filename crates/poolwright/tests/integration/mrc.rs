//! `poolwright mrc` as a user runs it.

#[path = "../../../report/tests/common/mod.rs"]
mod golden;

use std::path::Path;

use assert_cmd::Command;
use golden::golden;
use poolwright_trace::layout::Role;
use poolwright_trace::{Event, File, Flags, Op, Trace};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

struct TestDir(tempfile::TempDir);

impl TestDir {
    /// With a trace of each format: `t.lis`, `t.oracleGeneral`, `t.parquet`.
    fn new() -> TestDir {
        let test_dir = TestDir(tempfile::tempdir().unwrap());
        std::fs::write(test_dir.path().join("t.lis"), lis()).unwrap();
        std::fs::write(test_dir.path().join("t.oracleGeneral"), oracle()).unwrap();
        trace().save(test_dir.path().join("t.parquet")).unwrap();
        test_dir
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("poolwright"));
        command.current_dir(self.path()).arg("mrc").args(line.split_whitespace());
        command
    }

    /// Standard output and standard error.
    fn run(&self, line: &str) -> (String, String) {
        let done = self.command(line).assert().success();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (text(&done.get_output().stdout), text(&done.get_output().stderr))
    }

    fn json(&self, line: &str) -> Value {
        crate::common::json_output("mrc", self.run(&format!("{line} --json")).0.as_bytes())
    }

    fn fails(&self, line: &str, code: i32, fragments: &[&str]) {
        let done = self.command(line).assert().code(code);
        let messages = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
        assert!(done.get_output().stdout.is_empty(), "{line}");
        for fragment in fragments {
            assert!(messages.contains(fragment), "{line}: does not contain {fragment:?}: {messages}");
        }
        assert!(!messages.contains("panicked") && !messages.contains("internal error"), "{line}: {messages}");
    }
}

/// Page numbers of a table of 1000 pages: mostly the first ones, sometimes a scan.
fn page(n: u64) -> u64 {
    if n % 4000 >= 3000 { n % 1000 } else { (n * n % 1009) * (n * 7919 % 997) / 1009 }
}

fn lis() -> String {
    (0..20_000).map(|n| format!("{} 1 0 {n}\n", page(n))).collect()
}

/// Requests for 20,000 pages, of which few are popular.
fn many() -> String {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let page = |_| (rng.random::<f64>().powi(4) * 20_000.0) as u64 * 7919 % 20_000;
    (0..200_000).map(page).map(|page| format!("{page} 1 0 0\n")).collect()
}

fn oracle() -> Vec<u8> {
    let record = |n: u64| {
        let (seconds, size) = ((n / 100) as u32, 1000 + (page(n) % 7 * 500) as u32);
        let mut bytes = seconds.to_le_bytes().to_vec();
        bytes.extend(page(n).to_le_bytes());
        bytes.extend(size.to_le_bytes());
        bytes.extend((-1i64).to_le_bytes());
        bytes
    };
    (0..20_000).flat_map(record).collect()
}

/// A table whose 8K pages are read and written, and a log that grows.
fn trace() -> Trace {
    let file = |path: &str, role: &str, size| File {
        path: path.into(),
        role: Role::from_name(role),
        size,
        ..File::default()
    };
    let event = |n: u64, op, file, offset, len| Event {
        t_ns: n * 1_000_000,
        dur_ns: 20_000,
        op,
        file,
        offset,
        len,
        pid: 1,
        tid: 1,
        flags: if file == 1 { Flags::APPEND } else { Flags::default() },
        gap: None,
    };
    let mut events = vec![event(0, Op::Open, 0, 0, 8_192_000), event(0, Op::Open, 1, 0, 100)];
    for n in 0..20_000 {
        let op = if n % 5 == 0 { Op::Write } else { Op::Read };
        events.push(event(n, op, 0, page(n) * 8192, 8192));
        if n % 10 == 0 {
            events.push(event(n, Op::Write, 1, 100 + n * 50, 500));
        }
    }
    let files = vec![file("/db/t.ibd", "data", 8_192_000), file("/db/log", "wal", 1_000_100)];
    let mut trace = Trace { files, events, ..Trace::default() };
    trace.meta.duration_ns = 20_000_000_000;
    trace.meta.subject = "dir:/db".into();
    trace
}

/// Removes the values that differ between runs and machines, such as the ARC of a machine with ZFS.
fn steady(mut found: Value) -> String {
    let fields = found.as_object_mut().unwrap();
    assert!(fields.remove("seconds").unwrap().as_f64().unwrap() >= 0.0);
    assert!(fields.remove("memory_bytes").unwrap().as_u64().unwrap() > 0);
    assert!(fields.remove("host").unwrap().is_object());
    fields["advice"].as_object_mut().unwrap().remove("today");
    for curve in fields["curves"].as_array_mut().unwrap() {
        curve["advice"].as_object_mut().unwrap().remove("today");
    }
    serde_json::to_string_pretty(&found).unwrap() + "\n"
}

#[test]
fn tables_and_json_of_each_format() {
    let test_dir = TestDir::new();
    for (name, line) in [
        ("lis", "t.lis --model lru,arc --sizes 64K,128K,256K"),
        ("oracle", "t.oracleGeneral --model arc,lru --sizes 256K,1M"),
        ("trace", "t.parquet --model lru --recordsize 128K,8K --sizes 1M,4M"),
    ] {
        let text = test_dir.run(line).0;
        let lines = text.lines().filter(|line| !line.starts_with("- Today's ARC"));
        golden(&format!("mrc-{name}.txt"), &lines.flat_map(|line| [line, "\n"]).collect::<String>());
        golden(&format!("mrc-{name}.json"), &steady(test_dir.json(line)));
    }
}

#[test]
fn the_first_curve_stands_at_the_top() {
    let test_dir = TestDir::new();
    let found = test_dir.json("t.parquet --model arc,lru,arc --recordsize 16K,8K --sizes 4M,1M,4M");
    let names: Vec<_> =
        found["curves"].as_array().unwrap().iter().map(|c| (&c["model"], &c["recordsize"])).collect();
    let all = [8192, 16384].map(|size| ["arc", "lru"].map(|name| (json!(name), json!(size))));
    assert_eq!(names, all.iter().flatten().map(|(name, size)| (name, size)).collect::<Vec<_>>());
    assert_eq!((&found["model"], &found["recordsize"]), (&json!("arc"), &json!(8192)));
    assert_eq!(found["points"], found["curves"][0]["points"]);
    assert_eq!(found["requests"], 20_000 + 2_000 + 121, "a log write in two records of 8K is two requests");
    let sizes =
        found["points"].as_array().unwrap().iter().map(|point| point["cache_bytes"].as_u64().unwrap());
    assert_eq!(sizes.collect::<Vec<_>>(), [1 << 20, 4 << 20]);
    let misses = |c: &Value| {
        c["points"].as_array().unwrap().iter().map(|p| p["miss_ratio"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    assert!(misses(&found).iter().all(|ratio| (0.0..=1.0).contains(ratio)));
    // LRU's caches are nested.
    let lru = misses(&found["curves"][1]);
    assert!(lru[0] > lru[1], "{lru:?}");
}

#[test]
fn sizes_end_when_the_whole_trace_fits() {
    let test_dir = TestDir::new();
    let found = test_dir.json("t.lis --model lru");
    let points = found["points"].as_array().unwrap();
    let pages = found["records"].as_u64().unwrap();
    assert_eq!(found["footprint_bytes"], pages * 512);
    let last = points.last().unwrap();
    assert!(last["cache_bytes"].as_u64().unwrap() >= pages * 512);
    assert!(
        (last["miss_ratio"].as_f64().unwrap() - pages as f64 / 20_000.0).abs() < 1e-9,
        "only first uses miss"
    );
    assert!((10..=16).contains(&points.len()));
    // Records of half the size: twice as many fit.
    let smaller = test_dir.json("t.parquet --model lru --recordsize 8K --compress-ratio 2");
    let larger = test_dir.json("t.parquet --model lru --recordsize 8K");
    let bytes = |found: &Value| found["footprint_bytes"].as_u64().unwrap();
    assert_eq!(bytes(&smaller), bytes(&larger) / 2);
    assert_eq!(ratio(&smaller, 0, 1 << 20), ratio(&larger, 0, 2 << 20));
}

fn ratio(found: &Value, curve: usize, cache_bytes: u64) -> f64 {
    let points = found["curves"][curve]["points"].as_array().unwrap();
    points.iter().find(|point| point["cache_bytes"] == cache_bytes).unwrap()["miss_ratio"].as_f64().unwrap()
}

#[test]
fn records_are_as_small_as_an_estimate_found() {
    let test_dir = TestDir::new();
    let text: String = (0..200_000).map(|n| format!("{n:06} customer {:03}; ", n % 997)).collect();
    std::fs::write(test_dir.path().join("table"), text).unwrap();
    let mut estimate = Command::new(assert_cmd::cargo::cargo_bin!("poolwright"));
    let line = "estimate table --full --json -o recordsize=8K,128K -o compression=lz4,zstd-3 --ashift 12";
    let done = estimate.current_dir(test_dir.path()).args(line.split_whitespace()).assert().success();
    std::fs::write(test_dir.path().join("e.json"), &done.get_output().stdout).unwrap();
    let cells = crate::common::json_output("estimate", &done.get_output().stdout);
    let found = |recordsize: u64, compression: &str| {
        let cell = |c: &&Value| c["recordsize"] == recordsize && c["compression"] == compression;
        cells["cells"].as_array().unwrap().iter().find(cell).unwrap()["ratio"].as_f64().unwrap()
    };
    let line = "t.parquet --model lru --recordsize 8K,128K --sizes 1M,2M";
    let all = test_dir.json(&format!("{line} --estimate e.json --compression zstd-3"));
    for (curve, recordsize) in [(0, 8192), (1, 131_072)] {
        let one = test_dir.json(&format!("{line} --compress-ratio {}", found(recordsize, "zstd-3")));
        for size in [1 << 20, 2 << 20] {
            assert_eq!(ratio(&all, curve, size), ratio(&one, curve, size), "{recordsize}");
        }
    }
    let plain = test_dir.json(line);
    assert!(ratio(&all, 1, 1 << 20) < ratio(&plain, 1, 1 << 20));
    test_dir.fails(
        &format!("{line} --estimate e.json"),
        2,
        &["e.json has several compressions: lz4, zstd-3", "--compression"],
    );
    test_dir.fails(
        &format!("{line} --estimate e.json --compression gzip"),
        2,
        &["no recordsize=8192, compression=gzip"],
    );
    test_dir.fails(&format!("{line} --estimate t.lis"), 1, &["t.lis is not a space estimate: invalid type"]);
    test_dir.fails("t.oracleGeneral --estimate e.json --compression lz4", 2, &["of objects"]);
}

#[test]
fn openzfs_has_only_sizes_that_it_allows() {
    let test_dir = TestDir::new();
    let (table, messages) = test_dir.run("t.parquet --recordsize 8K");
    assert!(table.contains("openzfs: 22,121 requests") && table.contains("\n  64M "), "{table}");
    assert!(messages.contains("fit into the smallest ARC that OpenZFS allows, 64M"), "{messages}");
    let both = test_dir.json("t.parquet --recordsize 8K --model openzfs,lru");
    let first = |curve: usize| both["curves"][curve]["points"][0]["cache_bytes"].as_u64().unwrap();
    assert!(first(0) == 64 << 20 && first(1) < 64 << 20, "{both}");
    assert!(!messages.contains("databases do not use such datasets"), "{messages}");
    let (_, messages) = test_dir.run("t.lis --sizes 64M");
    assert!(
        messages.contains("for records of 512, OpenZFS's ARC needs more memory for headers"),
        "{messages}"
    );
}

#[test]
fn files_are_selected() {
    let test_dir = TestDir::new();
    let requests = |more: &str| {
        test_dir.json(&format!("t.parquet --model lru --recordsize 8K --sizes 1M {more}"))["requests"]
            .as_u64()
            .unwrap()
    };
    let (data, wal) = (requests("--role data"), requests("--role wal"));
    assert_eq!((data, data + wal), (20_000, requests("")));
    assert_eq!(requests("--path /db/log"), wal);
    assert_eq!(requests("--path /db --role wal,data"), data + wal);
    // The log was appended: the first write to each of its records reads nothing.
    let log = test_dir.json("t.parquet --role wal --recordsize 8K --model lru --sizes 8K,1M");
    assert_eq!(
        log["points"][1]["update_miss_ratio"],
        json!(1.0 / wal as f64),
        "the record with the first 100 bytes"
    );
    test_dir.fails(
        "t.parquet --role temp --sizes 64M",
        1,
        &["t.parquet", "none of its 2 files", "data, wal"],
    );
    test_dir.fails("t.lis --role data --sizes 64M", 1, &["t.lis", "no files to select"]);
}

#[test]
fn invalid_events_are_counted() {
    let test_dir = TestDir::new();
    std::fs::write(
        test_dir.path().join("odd.lis"),
        "1 1 0 0\n5 0 0 1\n99999999999999999999 1 0 2\n1 1 0 3\n1 9999999 0 4\n",
    )
    .unwrap();
    let (table, messages) = test_dir.run("odd.lis --model lru --sizes 4K");
    assert!(table.contains("2 requests for 1 record of 512"), "{table}");
    for fragments in
        ["1 event of zero length", "1 event past the largest offset", "1 event longer than 2 GiB"]
    {
        assert!(messages.contains(fragments), "{messages}");
    }
    let skipped = test_dir.json("odd.lis --model lru --sizes 4K")["skipped"].clone();
    assert_eq!(skipped, json!({"zero_length": 1, "too_far": 1, "too_long": 1, "direct": 0, "unsorted": 0}));
    std::fs::write(test_dir.path().join("none.lis"), "5 0 0 1\n").unwrap();
    for format in ["", "--json"] {
        let done = test_dir.command(&format!("none.lis --sizes 64M -o r.html {format}")).assert().code(1);
        let messages = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
        assert!(messages.contains("no request") && messages.contains("1 event of zero length"), "{messages}");
        assert!(done.get_output().stdout.is_empty() && !test_dir.path().join("r.html").exists());
    }
}

#[test]
fn damage_is_an_error_with_a_position() {
    let test_dir = TestDir::new();
    std::fs::write(test_dir.path().join("cut.oracleGeneral"), &oracle()[..1000]).unwrap();
    std::fs::write(test_dir.path().join("bad.lis"), "1 1 0 0\n1 one 0 1\n").unwrap();
    std::fs::write(test_dir.path().join("empty"), "").unwrap();
    std::fs::write(test_dir.path().join("letter"), "Dear reader,\n").unwrap();
    for (file, fragments) in [
        ("cut.oracleGeneral", "cut.oracleGeneral, record 42 (byte 984): truncated after 16 of 24 bytes"),
        ("bad.lis", "bad.lis, line 2: \"one\" is not a number"),
        ("empty", "empty is empty"),
        ("letter", "use --format"),
        (".", "it is a directory"),
        ("missing", "cannot open missing"),
        ("t.lis --format oraclegeneral", "t.lis, record"),
        ("t.lis --format trace", "t.lis is not a Poolwright trace"),
        ("t.parquet --format lis", "t.parquet, line 1"),
    ] {
        test_dir.fails(&format!("{file} --sizes 64M"), 1, &[fragments]);
        test_dir.fails(file, 1, &[fragments]);
    }
}

/// The trace of a killed recorder is used up to its last checkpoint, with a warning.
#[test]
fn a_torn_trace_is_reported() {
    let test_dir = TestDir::new();
    let path = test_dir.path().join("t.parquet");
    let whole = std::fs::read(&path).unwrap();
    std::fs::write(&path, &whole[..whole.len() - 10]).unwrap();
    test_dir.fails("t.parquet --sizes 64M", 1, &["t.parquet", "no event", "torn"]);
    std::fs::write(&path, [&whole[..], b"half a checkpoint"].concat()).unwrap();
    let (table, messages) = test_dir.run("t.parquet --model lru --recordsize 8K --sizes 1M");
    assert!(
        table.contains("22,121 requests") && messages.contains("17 bytes after the last checkpoint are lost"),
        "{table}{messages}"
    );
}

#[test]
fn wrong_usage_is_exit_code_2() {
    let test_dir = TestDir::new();
    for (line, fragments) in [
        ("", "<FILE"),
        ("t.lis --dir .", "cannot be used with"),
        ("t.lis --for 5s", "cannot be used with"),
        ("t.lis --model clock", "openzfs"),
        ("t.lis --sizes 0", "at least one byte"),
        ("t.lis --sizes 1", "no ARC below 64M"),
        ("t.parquet --sizes 1M,64M --model lru,openzfs", "--sizes 1M"),
        ("t.lis --sizes 100 --model arc", "one record of 512"),
        ("t.parquet --sizes 100K --model lru --recordsize 8K,128K", "one record of 128K"),
        ("t.oracleGeneral --sizes 1 --model lru", "one record of 512"),
        ("t.lis --sizes many", "many"),
        ("t.lis --recordsize 3K", "power of two"),
        ("t.lis --recordsize 32M", "from 512 to 16M"),
        ("t.lis --compress-ratio 0.5", "compression ratio"),
        ("t.lis --format csv", "oraclegeneral"),
        ("t.lis --sample 0", "share of the records"),
        ("t.lis --sample 200%", "share of the records"),
        ("t.lis --sample-memory 1K", "at least 64M"),
        ("t.lis --sample 0.1 --sample-memory 1G", "cannot be used with"),
        ("t.lis --primarycache some", "all, metadata or none"),
        ("t.parquet --role table", "unknown role"),
        ("t.oracleGeneral --recordsize 8K", "a trace of objects has no recordsize"),
        ("--dir . --format lis", "cannot be used with"),
        ("--dir . --split 1G", "cannot be used with"),
        ("t.lis --miss-latency soon", "not a latency"),
        ("t.parquet --split 1G --sizes 64M", "recorded below that cache"),
    ] {
        test_dir.fails(line, 2, &[fragments]);
    }
}

#[test]
fn a_full_sample_is_exact_and_a_partial_one_has_intervals() {
    let test_dir = TestDir::new();
    std::fs::write(test_dir.path().join("many.lis"), many()).unwrap();
    let line = "many.lis --model lru,arc --sizes 1M,4M";
    let exact = test_dir.json(line);
    let all = test_dir.json(&format!("{line} --sample 1"));
    for (one, other) in exact["curves"].as_array().unwrap().iter().zip(all["curves"].as_array().unwrap()) {
        assert_eq!(one["points"], other["points"]);
    }
    let part = test_dir.json(&format!("{line} --sample 10% --seed 3"));
    for (exact, part) in exact["curves"].as_array().unwrap().iter().zip(part["curves"].as_array().unwrap()) {
        assert_eq!(part["sample"]["rate"], 0.1);
        assert_eq!(exact["requests"], part["requests"]);
        for (exact, part) in
            exact["points"].as_array().unwrap().iter().zip(part["points"].as_array().unwrap())
        {
            let at = |name: &str| part["confidence"][name].as_f64().unwrap();
            let ratio = exact["miss_ratio"].as_f64().unwrap();
            assert!(at("low") <= ratio && ratio <= at("high"), "{exact} {part}");
        }
    }
    let (table, _) = test_dir.run(&format!("{line} --sample 0.1"));
    assert!(table.contains("misses, 95 %") && table.contains("10 %"), "{table}");
    let few = test_dir.run("many.lis --model lru --sizes 8K,4M --sample 0.05").0;
    assert!(few.contains("8K: the sample has too few records") && few.contains("; use --sample 0."), "{few}");
}

#[test]
fn a_report_is_written_whole_or_not_at_all() {
    let test_dir = TestDir::new();
    test_dir.run("t.parquet --model lru,arc --sizes 1M,4M,8M --miss-latency 8ms -o report.html");
    let page = std::fs::read_to_string(test_dir.path().join("report.html")).unwrap();
    for fragments in ["<title>Cache for t.parquet", "lru", "arc", "</html>"] {
        assert!(page.contains(fragments), "no {fragments:?}");
    }
    test_dir.fails("missing.lis --sizes 1M -o other.html", 1, &["missing.lis"]);
    test_dir.fails("t.lis --sizes 1M -o no/such/place.html", 1, &["no/such/place.html"]);
    let names =
        std::fs::read_dir(test_dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    assert_eq!(names, ["report.html", "t.lis", "t.oracleGeneral", "t.parquet"]);
}

#[test]
fn memory_is_divided_for_a_trace_recorded_above_the_databases_cache() {
    let test_dir = TestDir::new();
    let found = test_dir.json("t.lis --model lru --sizes 64K,512K --split 256K");
    let shares = found["split"]["shares"].as_array().unwrap();
    assert_eq!(shares.len(), 9);
    let reads = |n: usize| shares[n]["device_reads"].as_u64().unwrap();
    // If one of the two caches gets all memory, the result is that of a single LRU cache.
    assert_eq!(reads(0), reads(8));
    assert!(test_dir.run("t.lis --model lru --sizes 64K --split 256K").0.contains("256K divided:"));
}

/// Ctrl-C during a long read shows the results so far and sets the exit code.
#[test]
fn an_interrupted_reading_shows_what_it_has() {
    let test_dir = TestDir::new();
    // A billion requests: frames of zstd may follow one another.
    let frame = zstd::encode_all("1 1 0 0\n2 1 0 0\n".repeat(1 << 19).as_bytes(), 1).unwrap();
    std::fs::write(test_dir.path().join("long.lis.zst"), frame.repeat(1000)).unwrap();
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("poolwright"));
    command.args(["mrc", "long.lis.zst", "--model", "lru", "--sizes", "1G", "--json"]);
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .current_dir(test_dir.path());
    let child = command.spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    // It catches the signal (bit 1 of the mask) before it starts to read.
    let catches = |text: &str| {
        let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        mask.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & 2 != 0)
    };
    while !catches(&std::fs::read_to_string(&status).unwrap()) {
        assert!(std::time::Instant::now() < deadline, "it does not start");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    let killed = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let found = crate::common::json_output("mrc", &output.stdout);
    assert_eq!(found["ended"], "interrupted");
    let requests = found["requests"].as_u64().unwrap();
    assert!(requests > 0 && requests < 1_000_000_000, "{requests}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("what was read so far"));
}
