//! The plan's description of the machine and of the database server.

use std::collections::BTreeMap;
use std::process::Command;

use poolwright_base::kernel;
use poolwright_base::machine::MachineInfo;
use poolwright_base::mountinfo::file_system;
pub use poolwright_base::time::rfc3339;
use poolwright_openzfs::Engine;

use crate::tuner::Request;
use poolwright_plan as plan;

/// Describes this machine, and the emulated device of the trials.
pub(crate) fn describe(request: &Request) -> plan::Machine {
    let device = &request.device;
    let host = MachineInfo::read();
    plan::Machine {
        os: host.os.unwrap_or_else(|| "unknown".into()),
        kernel: host.kernel,
        openzfs: Engine::version(),
        openzfs_kernel: kernel::zfs_module_version(),
        cpu: host.cpu.unwrap_or_else(|| "unknown".into()),
        cores: host.cores,
        memory_bytes: host.memory_bytes,
        arc_bytes: Some(request.arc_bytes),
        backing: Some(file_system(&request.scratch)),
        device: plan::Device {
            profile: device.name.clone(),
            read_latency_ns: some(device.read_latency_ns),
            write_latency_ns: some(device.write_latency_ns),
            flush_latency_ns: some(device.flush_latency_ns),
            read_bytes_s: some(device.read_bytes_s),
            write_bytes_s: some(device.write_bytes_s),
            seek_ns: some(device.seek_ns),
            cache_bytes: some(device.cache_bytes),
            iops: some(device.iops),
            queue_depth: (device.name != "none").then_some(device.queue_depth),
        },
        versions: BTreeMap::from([("poolwright".to_string(), env!("CARGO_PKG_VERSION").to_string())]),
    }
}

fn some(value: u64) -> Option<u64> {
    (value > 0).then_some(value)
}

/// The version of the database server, as its program reports it. The running server may be another version.
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
