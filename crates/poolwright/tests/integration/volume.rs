//! `estimate`, `replay` and `tune` of a volume. A loop device stands in for `/dev/zdN`, of which this needs only that it is a block device.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use poolwright_trace::layout::Role;
use poolwright_trace::{Event, File, Flags, Op, Trace};
use serde_json::Value;

const PAGE: u64 = 8192;
/// The first half is text, the rest zeros that were written.
const BYTES: u64 = 16 << 20;

/// A loop device on a file, which is detached when it is dropped.
struct Loop {
    device: PathBuf,
    image: PathBuf,
}

impl Loop {
    /// Prints that the test is skipped, and returns `None`, if loop devices are not permitted.
    fn attach(dir: &Path) -> Option<Loop> {
        let image = dir.join("image");
        let text: String = (0..400_000u32).map(|i| format!("{:07} customer {:03}; ", i, i % 997)).collect();
        let mut bytes = text.into_bytes();
        bytes.truncate(BYTES as usize / 2);
        bytes.resize(BYTES as usize, 0);
        std::fs::write(&image, &bytes).unwrap();
        let output = Command::new("losetup").args(["--find", "--show"]).arg(&image).output();
        match output {
            Ok(output) if output.status.success() => {
                let device = String::from_utf8(output.stdout).unwrap().trim().into();
                Some(Loop { device, image })
            }
            other => {
                eprintln!("SKIPPED: no loop device: {other:?}");
                None
            }
        }
    }

    /// A trace of reads and durable writes of pages of the text, as the recorder writes it.
    fn trace(&self, path: &Path) {
        let file = File {
            path: self.device.display().to_string(),
            size: BYTES,
            role: Some(Role::Volume),
            ..File::default()
        };
        let mut events = Vec::new();
        for i in 0..1500u64 {
            let page = i * 7919 % (BYTES / 2 / PAGE);
            for (n, op) in [Op::Read, Op::Write, Op::Fsync].into_iter().enumerate() {
                let (offset, len) = if op == Op::Fsync { (0, 0) } else { (page * PAGE, PAGE) };
                let t_ns = i * 2_000_000 + n as u64 * 100_000;
                let flags = Flags::default();
                events.push(Event {
                    t_ns,
                    dur_ns: 50_000,
                    op,
                    file: 0,
                    offset,
                    len,
                    pid: 1,
                    tid: 1,
                    flags,
                    gap: None,
                });
            }
        }
        Trace { files: vec![file], events, ..Trace::default() }.save(path).unwrap();
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).status();
    }
}

fn poolwright(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_poolwright"));
    command.current_dir(dir).args(args).stdin(Stdio::null()).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn the_space_of_a_volume_is_that_of_a_file_with_its_bytes_and_zeros_are_holes() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = Loop::attach(dir.path()) else { return };
    let cells = |path: &Path, size: &str| {
        let options =
            ["estimate", "--full", "--json", "--ashift", "12", "-o", size, "-o", "compression=off,lz4"];
        let found = json(&poolwright(dir.path(), &[&options[..], &[path.to_str().unwrap()]].concat()));
        let bytes = |cell: &Value| cell["allocated_bytes"].as_u64().unwrap();
        found["cells"].as_array().unwrap().iter().map(bytes).collect::<Vec<u64>>()
    };
    let (device, file) =
        (cells(&disk.device, "volblocksize=8K,64K"), cells(&disk.image, "recordsize=8K,64K"));
    let [off_8k, lz4_8k, off_64k, lz4_64k] = device[..] else { panic!("{device:?}") };
    assert_eq!((off_8k, off_64k), (BYTES / 2, BYTES / 2));
    assert_eq!((lz4_8k, lz4_64k), (file[1], file[3]));
    assert_eq!((file[0], file[2]), (BYTES, BYTES), "the zeros of a file were written");
}

#[test]
fn a_plan_of_a_volume_has_its_block_size() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = Loop::attach(dir.path()) else { return };
    disk.trace(&dir.path().join("t.parquet"));
    let device = disk.device.to_str().unwrap();
    let run = |more: &[&str]| {
        let args =
            ["tune", device, "--trace", "t.parquet", "--budget", "8s", "--device", "nvme", "--arc", "64M"];
        poolwright(
            dir.path(),
            &[&args[..], &["--scratch", ".", "--goal", "space", "-o", "volblocksize=4K"], more].concat(),
        )
    };
    let plan = crate::common::follows_schema("plan", json(&run(&["--json"])));
    assert_eq!(plan["subject"]["file_system"], "a block device");
    let [role] = plan["roles"].as_array().unwrap().as_slice() else { panic!("{plan}") };
    assert_eq!((&role["role"], &role["current"]["volblocksize"]), (&"volume".into(), &"4K".into()));
    assert_eq!((&role["path"], role["bytes"].as_u64()), (&device.into(), Some(BYTES)));
    assert!(role["current"].get("recordsize").is_none());
    // Blocks of a sector cannot be compressed.
    let recommended =
        role["recommended"]["volblocksize"].as_str().expect("a larger block size takes less space");
    assert!(["16K", "32K", "64K", "128K"].contains(&recommended), "{recommended}");
    let text = run(&["--force", "--plan", "p2.json", "--report", "r2.html"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains(&format!("zfs create -V {BYTES}")) && text.contains("volblocksize="), "{text}");
    assert!(!text.contains("confirm"), "{text}");
}

#[test]
fn a_replay_of_a_volume_tries_block_sizes_and_no_record_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = Loop::attach(dir.path()) else { return };
    disk.trace(&dir.path().join("t.parquet"));
    let run = |setting: &str| {
        let more = ["--arc", "64M", "--device", "none", "--scratch", ".", "--json", "-o", setting];
        poolwright(dir.path(), &[&["replay", "t.parquet"], &more[..]].concat())
    };
    let found = json(&run("volblocksize=8K"));
    let read = found["ops_by_kind"]["read"].as_u64();
    assert_eq!(read, Some(1500), "{found}");
    let refused = run("recordsize=8K");
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && why.contains("a volume has no property recordsize"), "{why}");
}
