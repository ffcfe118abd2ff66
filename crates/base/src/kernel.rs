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

/// Identifies this start of the host: it has another value after the next one (`proc_sys_kernel(5)`); empty if it cannot be read.
pub fn boot_id() -> String {
    line("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

/// When the kernel was started, by the present clock; `None` if `/proc/stat` does not contain it.
pub fn start_time() -> Option<std::time::SystemTime> {
    boot_time(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// The line `btime` of `/proc/stat` (`proc_stat(5)`): seconds since 1970.
fn boot_time(stat: &str) -> Option<std::time::SystemTime> {
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_kernel() {
        assert!(super::release().starts_with(|c: char| c.is_ascii_digit()));
    }

    #[test]
    fn the_kernel_was_started_before_now() {
        assert!(super::start_time().unwrap() < std::time::SystemTime::now());
        assert_eq!(
            super::boot_time("cpu 1 2\nbtime 5\n"),
            Some(std::time::UNIX_EPOCH + std::time::Duration::from_secs(5))
        );
        assert_eq!(super::boot_time("cpu 1 2\n"), None);
    }
}
