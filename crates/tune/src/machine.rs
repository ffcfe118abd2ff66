//! What the measurements ran on.

use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::path::Path;
use std::process::Command;

use poolwright_host::time::rfc3339;
use poolwright_openzfs::{Device, Engine};

use crate::plan;

/// This machine.
pub(crate) fn describe(arc_bytes: u64, device: &Device, backing: &Path) -> plan::Machine {
    plan::Machine {
        os: os_release().unwrap_or_else(|| "unknown".into()),
        kernel: read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        openzfs: Engine::version(),
        openzfs_kernel: read_to_string("/sys/module/zfs/version").ok().map(|v| v.trim().to_owned()),
        cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".into()),
        cores: std::thread::available_parallelism().map_or(1, |n| n.get()) as u32,
        memory_bytes: memory_bytes("MemTotal"),
        arc_bytes: Some(arc_bytes),
        backing: Some(file_system(backing)),
        device: plan::Device {
            profile: device.name.clone(),
            read_latency_ns: some(device.read_latency_ns),
            write_latency_ns: some(device.write_latency_ns),
            flush_latency_ns: some(device.flush_latency_ns),
            read_bytes_s: some(device.read_bytes_s),
            write_bytes_s: some(device.write_bytes_s),
            seek_ns: some(device.seek_ns),
            iops: some(device.iops),
            queue_depth: (device.name != "none").then_some(device.queue_depth),
        },
        versions: BTreeMap::from([("poolwright".to_string(), env!("CARGO_PKG_VERSION").to_string())]),
    }
}

/// This machine in words, for what is not a plan: `os`, `kernel`, `cpu`, `cores`, `memory_bytes`, `openzfs`,
/// `poolwright`.
pub fn description() -> BTreeMap<String, String> {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let known = [
        ("os", os_release()),
        ("kernel", read_to_string("/proc/sys/kernel/osrelease").ok().map(|v| v.trim().to_owned())),
        ("cpu", field("/proc/cpuinfo", "model name")),
        ("cores", Some(cores.to_string())),
        ("memory_bytes", Some(memory_bytes("MemTotal").to_string())),
        ("openzfs", Some(Engine::version())),
        ("poolwright", Some(env!("CARGO_PKG_VERSION").to_owned())),
    ];
    known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn some(value: u64) -> Option<u64> {
    (value > 0).then_some(value)
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = read_to_string(path).ok()?;
    let line = text.lines().find(|l| l.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The type of the file system that holds a directory: `ext4`, `zfs`.
pub fn file_system(dir: &Path) -> String {
    crate::current::detect(dir, &BTreeMap::new()).file_system
}

/// A line of `/proc/meminfo` in bytes; 0 if it is not there.
pub fn memory_bytes(name: &str) -> u64 {
    poolwright_host::memory::field(name).unwrap_or(0)
}

fn os_release() -> Option<String> {
    let text = read_to_string("/etc/os-release").ok()?;
    let value =
        |key: &str| text.lines().find_map(|l| l.strip_prefix(key)).map(|v| v.trim_matches('"').to_owned());
    value("PRETTY_NAME=")
}

/// Now, RFC 3339 in UTC.
pub fn now() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    rfc3339(since.as_secs())
}

/// The server's version, for the plan's subject: asked of the program, not of the running server.
pub(crate) fn database_version(layout: &str) -> Option<String> {
    let program = match layout {
        "mariadb" => "mariadbd",
        "postgresql" => "postgres",
        _ => return None,
    };
    let out = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let version = text.split_whitespace().find(|w| w.starts_with(|c: char| c.is_ascii_digit()))?;
    Some(version.split('-').next()?.to_owned())
}
