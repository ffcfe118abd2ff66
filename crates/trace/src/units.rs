//! Sizes as `zfs` and `zpool` print and take them, and times for people.

/// A size given by a person that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a size: expected a number with an optional suffix K, M, G, T, P or E, such as 16K or 1.5G"
)]
pub struct SizeError {
    /// What was given.
    pub text: String,
}

const SUFFIXES: [char; 6] = ['K', 'M', 'G', 'T', 'P', 'E'];

/// Bytes as ZFS prints them: binary suffix, no space, at most four digits: `512`, `16K`, `1.50M`, `10.2G`.
///
/// Exact multiples have no fraction, others as many digits as fit (`zfs_nicenum` in libzutil does the same).
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

/// Bytes from `16K`, `1.5G`, `4096`, `128KiB` or `2gb`; suffixes are binary, in either case, as ZFS takes them.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let error = || SizeError { text: text.to_owned() };
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let (number, suffix) = trimmed.split_at(split);
    let shift = suffix_shift(suffix.trim_start()).ok_or_else(error)?;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(1 << shift).ok_or_else(error);
    }
    let value = number.parse::<f64>().map_err(|_| error())? * (1u64 << shift) as f64;
    // 2^64 itself is the first value that does not fit.
    if value.is_finite() && value < u64::MAX as f64 { Ok(value.round() as u64) } else { Err(error()) }
}

fn suffix_shift(suffix: &str) -> Option<u32> {
    let upper = suffix.to_ascii_uppercase();
    if upper.is_empty() || upper == "B" {
        return Some(0);
    }
    let mut rest = upper.chars();
    let first = rest.next()?;
    let unit = SUFFIXES.iter().position(|s| *s == first)?;
    matches!(rest.as_str(), "" | "B" | "IB").then_some(10 * (unit as u32 + 1))
}

/// Nanoseconds with a unit and about three digits: `830ns`, `12.4us`, `1.25ms`, `31.0s`.
pub fn format_ns(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns}ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let digits = if value < 10.0 { 2 } else { usize::from(value < 100.0) };
    format!("{value:.digits$}{unit}")
}

/// A count with thousands separated: `1,234,567`.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
    fn sizes_are_taken_as_zfs_takes_them() {
        let good = [
            ("16K", 16384),
            ("4096", 4096),
            ("1.5G", 3 << 29),
            ("2gb", 2 << 30),
            ("128KiB", 131072),
            ("7 M", 7 << 20),
        ];
        for (text, bytes) in good {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "K", "-1", "1Q", "1.2.3", "16Kx", "99E", "1e3", "NaN", "."] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_and_counts_read_well() {
        let times =
            [(0, "0ns"), (999, "999ns"), (1250, "1.25us"), (12_400, "12.4us"), (3_100_000_000, "3.10s")];
        for (ns, text) in times {
            assert_eq!(format_ns(ns), text);
        }
        assert_eq!(format_count(0), "0");
        assert_eq!(format_count(999), "999");
        assert_eq!(format_count(1_234_567), "1,234,567");
    }

    proptest! {
        #[test]
        fn any_text_is_a_size_or_an_error(text in ".*") {
            let _ = parse_size(&text);
        }

        #[test]
        fn what_is_printed_is_read_back_within_its_digits(bytes in 0..1u64 << 60) {
            let back = parse_size(&format_size(bytes)).unwrap();
            prop_assert!(back.abs_diff(bytes) as f64 <= bytes as f64 * 0.006);
        }
    }
}
