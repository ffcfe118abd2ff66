//! A description of this machine for plans, results and reports.

use std::collections::BTreeMap;

use crate::{kernel, memory};

/// This machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineInfo {
    /// The name and version of the distribution, from `/etc/os-release` (`os-release(5)`).
    pub os: Option<String>,
    /// The kernel's release.
    pub kernel: String,
    /// The model of the CPU.
    pub cpu: Option<String>,
    /// The number of CPUs that this process may use.
    pub cores: u32,
    /// The memory in bytes; 0 if the host does not report it.
    pub memory_bytes: u64,
}

impl MachineInfo {
    /// Reads the description of this machine.
    pub fn read() -> MachineInfo {
        MachineInfo {
            os: read("/etc/os-release").and_then(|text| distribution(&text)),
            kernel: kernel::release(),
            cpu: read("/proc/cpuinfo").and_then(|text| cpu_model(&text)),
            cores: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
            memory_bytes: memory::total().unwrap_or(0),
        }
    }

    /// The description as names and values: `os`, `kernel`, `cpu`, `cores`, `memory_bytes`. Leaves out unknown values.
    pub fn fields(self) -> BTreeMap<String, String> {
        let fields = [
            ("os", self.os),
            ("kernel", Some(self.kernel)),
            ("cpu", self.cpu),
            ("cores", Some(self.cores.to_string())),
            ("memory_bytes", Some(self.memory_bytes.to_string())),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

fn distribution(os_release: &str) -> Option<String> {
    let name = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_files() {
        let text = "PRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\nNAME=\"Debian GNU/Linux\"\n";
        assert_eq!(distribution(text).as_deref(), Some("Debian GNU/Linux 13 (trixie)"));
        assert_eq!(distribution("NAME=x\n"), None);
        let text = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R) CPU @ 2.00GHz\n";
        assert_eq!(cpu_model(text).as_deref(), Some("Intel(R) Xeon(R) CPU @ 2.00GHz"));
        assert_eq!(cpu_model(""), None);
    }

    #[test]
    fn this_machine() {
        let fields = MachineInfo::read().fields();
        assert!(fields["cores"].parse::<u32>().unwrap() > 0);
        assert!(fields["memory_bytes"].parse::<u64>().unwrap() > 0);
    }
}
