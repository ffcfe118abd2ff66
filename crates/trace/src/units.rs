//! Formats sizes as `zfs` and `zpool` print them, and times and counts for display. Parses times.

use std::time::Duration;

const SUFFIXES: [char; 6] = ['K', 'M', 'G', 'T', 'P', 'E'];

/// Formats bytes as ZFS does: binary suffix, no space, at most four digits: `512`, `16K`, `1.50M`, `10.2G`.
///
/// Exact multiples have no fraction, other values as many digits as fit (as `zfs_nicenum` in libzutil).
pub fn format_size(bytes: u64) -> String {
    let mut unit = 0;
    while unit < SUFFIXES.len() && bytes >> (10 * (unit + 1)) != 0 {
        unit += 1;
    }
    if unit == 0 {
        return bytes.to_string();
    }
    let scale = 1u64 << (10 * unit);
    let suffix = SUFFIXES[unit - 1];
    if bytes.is_multiple_of(scale) {
        return format!("{}{suffix}", bytes / scale);
    }
    let value = bytes as f64 / scale as f64;
    let text = [2, 1, 0].map(|digits| format!("{value:.digits$}")).into_iter().find(|text| text.len() <= 4);
    format!("{}{suffix}", text.unwrap_or_else(|| format!("{value:.0}")))
}

/// Formats nanoseconds with a unit and about three digits: `830ns`, `12.4µs`, `1.25ms`, `31.0s`.
pub fn format_ns(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns}ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "µs"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$}{unit}")
}

/// Formats a duration of a run: `40 s`, `12 min`, `3.5 h`.
pub fn format_duration(time: Duration) -> String {
    match time.as_secs() {
        s @ 0..120 => format!("{s} s"),
        s @ 120..7200 => format!("{} min", s / 60),
        s => format!("{:.1} h", s as f64 / 3600.0),
    }
}

/// A text that is not a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid time {0:?}: expected a number and a unit, such as 30s, 5m or 1h")]
pub struct InvalidDuration(String);

/// Parses a time such as `30s`, `5m`, `1h`, `500ms` or `20us`; without a unit, in seconds.
///
/// # Errors
/// If the text is not a number with a unit, or the time is 0 or longer than about 115 days.
pub fn parse_duration(text: &str) -> Result<Duration, InvalidDuration> {
    const UNITS: [(&str, f64); 5] = [("us", 1e-6), ("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    const MAX_S: f64 = 1e7;
    let (digits, factor) =
        UNITS.iter().find_map(|(u, f)| Some((text.strip_suffix(u)?, *f))).unwrap_or((text, 1.0));
    match digits.parse::<f64>() {
        Ok(n) if n > 0.0 && n * factor < MAX_S => Ok(Duration::from_secs_f64(n * factor)),
        _ => Err(InvalidDuration(text.to_owned())),
    }
}

/// Formats a count with separated thousands: `1,234,567`.
pub fn format_count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with its noun: `1 file`, `12,345 events`.
pub fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", format_count(n), if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_look_as_zfs_prints_them() {
        let cases: [(u64, &str); 12] = [
            (0, "0"),
            (1023, "1023"),
            (1024, "1K"),
            (16384, "16K"),
            (1536, "1.50K"),
            (15 * 1024 + 512, "15.5K"),
            (1000 * 1024 + 1, "1000K"),
            (1 << 20, "1M"),
            ((10 << 30) + (205 << 20), "10.2G"),
            (96 << 20, "96M"),
            (u64::MAX, "16.0E"),
            (1 << 60, "1E"),
        ];
        for (bytes, text) in cases {
            assert_eq!(format_size(bytes), text, "{bytes}");
        }
    }

    #[test]
    fn times_are_parsed() {
        let cases = [("30s", 30_000), ("5m", 300_000), ("500ms", 500), ("2", 2_000), ("1.5h", 5_400_000)];
        for (text, ms) in cases {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["", "soon", "-1s", "0s", "1e9h"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
        let shown = [40, 720, 12_600].map(|s| format_duration(Duration::from_secs(s)));
        assert_eq!(shown, ["40 s", "12 min", "3.5 h"]);
    }

    #[test]
    fn times_and_counts_read_well() {
        let times =
            [(0, "0ns"), (999, "999ns"), (1250, "1.25µs"), (12_400, "12.4µs"), (3_100_000_000, "3.10s")];
        for (ns, text) in times {
            assert_eq!(format_ns(ns), text);
        }
        assert_eq!([0, 1, 2345].map(|n| counted(n, "file")), ["0 files", "1 file", "2,345 files"]);
        assert_eq!(format_count(0), "0");
        assert_eq!(format_count(999), "999");
        assert_eq!(format_count(1_234_567), "1,234,567");
    }
}
