//! The machine, and the kernel module.

use std::collections::BTreeMap;
use std::fs;

use poolwright_base::memory;
use poolwright_zfs::kernel::command::version::parse_release;

use super::{Request, known};
use crate::facts::SystemFacts;

/// The driver's names of volumes begin with this: `zd16`.
const VOLUME: &str = "/dev/zd";

pub fn read(request: &Request, unknown: &mut Vec<String>) -> SystemFacts {
    let version = fs::read_to_string(request.module.join("version")).ok();
    let module = version.and_then(|text| parse_release(text.trim())).filter(|_| request.kstats.is_present());
    let arc = match module {
        Some(_) => known(request.kstats.named("arcstats"), "the size of the ARC", unknown).flatten(),
        None => None,
    };
    let value = |name: &str| arc.as_ref()?.unsigned(name);
    SystemFacts {
        architecture: std::env::consts::ARCH.to_owned(),
        memory: memory::total(),
        memory_available: memory::available(),
        parameters: if module.is_some() { parameters(request) } else { BTreeMap::new() },
        module,
        arc_max: value("c_max"),
        arc_size: value("size"),
        swap_volumes: swap_volumes(&fs::read_to_string("/proc/swaps").unwrap_or_default()),
    }
}

/// The parameters of the module that can be read.
fn parameters(request: &Request) -> BTreeMap<String, String> {
    let entries = fs::read_dir(request.module.join("parameters")).into_iter().flatten().flatten();
    let text = |entry: fs::DirEntry| {
        let value = fs::read_to_string(entry.path()).ok()?;
        Some((entry.file_name().into_string().ok()?, value.trim().to_owned()))
    };
    entries.filter_map(text).collect()
}

/// The device files of volumes in `/proc/swaps`.
fn swap_volumes(table: &str) -> Vec<String> {
    let devices = table.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    devices.filter(|device| device.starts_with(VOLUME)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_volumes_count_as_swap_on_volumes() {
        let table =
            "Filename\tType\tSize\tUsed\tPriority\n/dev/sda2 partition 1 0 -2\n/dev/zd16 partition 1 0 -3\n";
        assert_eq!(swap_volumes(table), ["/dev/zd16"]);
        assert!(swap_volumes("").is_empty());
    }
}
