//! The host's memory, from `/proc/meminfo` (`proc_meminfo(5)`).

/// `MemAvailable` in bytes; `None` if the host does not report it.
pub fn available() -> Option<u64> {
    field("MemAvailable")
}

/// `MemTotal` in bytes; `None` if the host does not report it.
pub fn total() -> Option<u64> {
    field("MemTotal")
}

/// A field of `/proc/meminfo` in bytes.
pub fn field(name: &str) -> Option<u64> {
    in_text(&std::fs::read_to_string("/proc/meminfo").ok()?, name)
}

/// A field of `/proc/meminfo` or `/proc/PID/status` in bytes.
pub(crate) fn in_text(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    rest.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kibibytes_are_read() {
        let text = "MemTotal:       16 kB\nMemFree:   1 kB\nMemAvailable:   8 kB\n";
        assert_eq!(in_text(text, "MemAvailable"), Some(8192));
        assert_eq!(in_text(text, "MemAvail"), None);
        let captured = include_str!("../fixtures/meminfo");
        assert_eq!(in_text(captured, "MemTotal"), Some(24_684_084 << 10));
        assert!(in_text(captured, "MemAvailable") < in_text(captured, "MemTotal"));
        assert!(available() <= total());
    }
}
