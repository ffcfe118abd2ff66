//! The running kernel.

/// The release, as `uname -r` prints it; empty if it cannot be read.
pub fn release() -> String {
    line("/proc/sys/kernel/osrelease").unwrap_or_default()
}

/// The version of the loaded OpenZFS module. Returns `None` if it is not loaded.
pub fn zfs_module_version() -> Option<String> {
    line("/sys/module/zfs/version")
}

fn line(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

/// The name of the host, as `uname -n` prints it; empty if it cannot be read.
pub fn host_name() -> String {
    line("/proc/sys/kernel/hostname").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_kernel() {
        assert!(super::release().starts_with(|c: char| c.is_ascii_digit()));
    }
}
