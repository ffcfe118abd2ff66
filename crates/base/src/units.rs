//! Formats numbers for display: with three significant digits and a [`Unit`], or as `zfs` and `zpool` print them. Parses times.

use std::time::Duration;

/// The unit of a number. The number is always in the base unit that the variant names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// A bare number.
    #[default]
    None,
    /// Bytes, shown with the binary suffixes of ZFS (`16K`, `1.87G`).
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Nanoseconds, shown as ns, µs, ms or s.
    Nanoseconds,
    /// Seconds.
    Seconds,
    /// A fraction, shown as a percentage: 0.25 is `25.0 %`.
    Fraction,
    /// A relative change, shown as a signed percentage: -0.25 is `−25.0 %`.
    Change,
    /// A factor, shown as ZFS prints `compressratio`: `1.33x`.
    Ratio,
    /// A count: `18,422`.
    Count,
    /// A rate per second: `5.21k/s`.
    PerSecond,
}

/// The text for a missing number.
pub const MISSING: &str = "–";

impl Unit {
    /// Formats a number with its unit; [`MISSING`] if it is not finite.
    ///
    /// ```
    /// use poolwright_base::units::Unit;
    /// assert_eq!(Unit::Bytes.format(16384.0), "16K");
    /// assert_eq!(Unit::Nanoseconds.format(118_400.0), "118 µs");
    /// assert_eq!(Unit::Change.format(-0.595), "−59.5 %");
    /// ```
    pub fn format(self, v: f64) -> String {
        if !v.is_finite() {
            return MISSING.to_owned();
        }
        let text = match self {
            Unit::None => digits(v),
            Unit::Bytes => binary(v),
            Unit::BytesPerSecond => format!("{}/s", binary(v)),
            Unit::Nanoseconds => time(v),
            Unit::Seconds if v.abs() >= 1.0 => scaled(v, 1000.0, &[" s"]),
            Unit::Seconds => time(v * 1e9),
            Unit::Fraction => format!("{:.1} %", v * 100.0),
            Unit::Change if v > 0.0 => format!("+{:.1} %", v * 100.0),
            Unit::Change => format!("{:.1} %", v * 100.0),
            Unit::Ratio => format!("{}x", digits(v)),
            Unit::Count => count(v),
            Unit::PerSecond => format!("{}/s", thousands(v)),
        };
        minus(text)
    }

    /// Formats a range with its unit once: `1.2 to 1.4 %`.
    ///
    /// ```
    /// use poolwright_base::units::Unit;
    /// assert_eq!(Unit::Nanoseconds.range((9e5, 2e6)), "900 µs to 2 ms");
    /// ```
    pub fn range(self, (low, high): (f64, f64)) -> String {
        let (low, high) = (self.format(low), self.format(high));
        let unit = |text: &str| {
            text.trim_start_matches(|c: char| !c.is_alphabetic() && c != '%' && c != '/').to_owned()
        };
        let shared = unit(&high);
        let low = if unit(&low) == shared { low.trim_end_matches(&shared).trim_end() } else { &low };
        format!("{low} to {high}")
    }

    /// Formats the label of an axis's tick: no trailing zeros, counts as `20k`.
    pub fn tick(self, v: f64) -> String {
        let text = match self {
            Unit::Count => thousands(v),
            Unit::Change if v == 0.0 => return "0 %".to_owned(),
            Unit::Seconds | Unit::Nanoseconds if v == 0.0 => return "0".to_owned(),
            _ => return trim(&self.format(v)),
        };
        minus(trim(&text))
    }
}

/// Formats bytes with the suffixes of ZFS and three digits; see [`format_size`] for the digits of ZFS.
pub fn bytes(n: u64) -> String {
    Unit::Bytes.format(n as f64)
}

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

/// Formats a count with separated thousands: `1,234,567`.
pub fn format_count(count: u64) -> String {
    grouped(&count.to_string())
}

/// Formats a count with its noun: `1 file`, `12,345 events`.
pub fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", format_count(n), if n == 1 { "" } else { "s" })
}

/// A unit for a whole column: its name in the heading, and the factor from the base unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ColumnUnit {
    /// The name, such as `ms`; empty for numbers without a unit.
    pub label: &'static str,
    /// The number in the column is the number in the base unit times this.
    pub factor: f64,
}

/// From this number on, a column takes the next larger unit.
const LONG: f64 = 1e5;

impl Unit {
    /// Chooses the unit of a column: the largest in which no number is below 1, unless another number becomes unwieldy.
    /// Returns `None` for ratios, counts and bare numbers, which are shown as they are.
    ///
    /// ```
    /// use poolwright_base::units::Unit;
    /// assert_eq!(Unit::Seconds.for_column([0.042, 6.42]).unwrap().label, "ms");
    /// assert_eq!(Unit::Bytes.for_column([2e9]).unwrap().label, "GiB");
    /// ```
    pub fn for_column(self, numbers: impl IntoIterator<Item = f64>) -> Option<ColumnUnit> {
        let steps: &[(&'static str, f64)] = match self {
            Unit::Nanoseconds => &[("ns", 1.0), ("µs", 1e-3), ("ms", 1e-6), ("s", 1e-9)],
            Unit::Seconds => &[("ns", 1e9), ("µs", 1e6), ("ms", 1e3), ("s", 1.0)],
            Unit::Bytes => {
                &[("B", 1.0), ("KiB", 1.0 / 1024.0), ("MiB", BINARY_M), ("GiB", BINARY_G), ("TiB", BINARY_T)]
            }
            Unit::BytesPerSecond => &[
                ("B/s", 1.0),
                ("KiB/s", 1.0 / 1024.0),
                ("MiB/s", BINARY_M),
                ("GiB/s", BINARY_G),
                ("TiB/s", BINARY_T),
            ],
            Unit::PerSecond => &[("1/s", 1.0), ("1000/s", 1e-3), ("million/s", 1e-6)],
            Unit::Fraction => &[("%", 100.0)],
            Unit::Change | Unit::None | Unit::Ratio | Unit::Count => return None,
        };
        let sizes = numbers.into_iter().map(f64::abs).filter(|v| v.is_finite() && *v > 0.0);
        let (least, most) = sizes.fold((f64::INFINITY, 0.0), |(least, most), v| (v.min(least), v.max(most)));
        let chosen = match least.is_finite() {
            true => {
                let mut at = steps.iter().rposition(|(_, factor)| least * factor >= 1.0).unwrap_or(0);
                while at + 1 < steps.len() && most * steps[at].1 >= LONG {
                    at += 1;
                }
                at
            }
            // Nothing but zeros: the base unit.
            false => steps.iter().position(|(_, factor)| *factor == 1.0).unwrap_or(0),
        };
        let (label, factor) = steps[chosen];
        Some(ColumnUnit { label, factor })
    }
}

const BINARY_M: f64 = 1.0 / 1_048_576.0;
const BINARY_G: f64 = BINARY_M / 1024.0;
const BINARY_T: f64 = BINARY_G / 1024.0;

/// Replaces the hyphen by a minus sign, and "−0" by "0".
fn minus(text: String) -> String {
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| !c.is_ascii_digit() || c == '0') => rest.to_owned(),
        Some(rest) => format!("−{rest}"),
        None => text,
    }
}

/// Removes trailing zeros after the decimal point: `1.50 ms` → `1.5 ms`.
fn trim(text: &str) -> String {
    let Some(dot) = text.find('.') else { return text.to_owned() };
    let end = text[dot + 1..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |n| dot + 1 + n);
    let number = text[..end].trim_end_matches('0').trim_end_matches('.');
    format!("{number}{}", &text[end..])
}

/// Formats three significant digits.
fn digits(v: f64) -> String {
    let size = v.abs();
    if size >= 1e15 || (size > 0.0 && size < 1e-4) {
        format!("{v:.2e}")
    } else if size >= 99.95 {
        format!("{v:.0}")
    } else if size >= 9.995 {
        format!("{v:.1}")
    } else if size >= 0.0995 || size == 0.0 {
        format!("{v:.2}")
    } else {
        format!("{v:.4}")
    }
}

fn scaled(v: f64, base: f64, suffixes: &[&str]) -> String {
    let mut v = v;
    let mut step = 0;
    // 0.9995: 1023.9K becomes 1.00M, and 999.7 µs becomes 1.00 ms, not 1000 µs.
    while v.abs() >= base * 0.9995 && step + 1 < suffixes.len() {
        v /= base;
        step += 1;
    }
    let number = if v.fract() == 0.0 && v.abs() < 1e4 { format!("{v:.0}") } else { digits(v) };
    format!("{number}{}", suffixes[step])
}

fn binary(v: f64) -> String {
    scaled(v, 1024.0, &["B", "K", "M", "G", "T", "P", "E"])
}

fn thousands(v: f64) -> String {
    scaled(v, 1000.0, &["", "k", "M", "G", "T", "P", "E"])
}

fn time(ns: f64) -> String {
    scaled(ns, 1000.0, &[" ns", " µs", " ms", " s"])
}

fn count(v: f64) -> String {
    if v.abs() >= 1e15 {
        return digits(v);
    }
    let out = grouped(&format!("{:.0}", v.abs()));
    if v < 0.0 { format!("-{out}") } else { out }
}

/// Separates the thousands of a number.
fn grouped(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_zfs_prints_them() {
        for (v, text) in [(0.0, "0B"), (512.0, "512B"), (16384.0, "16K"), (1048576.0, "1M"), (2.0e9, "1.86G")]
        {
            assert_eq!(Unit::Bytes.format(v), text);
        }
        assert_eq!(Unit::Bytes.format(1048575.0), "1.00M");
    }

    #[test]
    fn times_go_up_through_their_units() {
        let shown: Vec<_> =
            [250.0, 999.0, 999_700.0, 1.5e6, 2.0e9].map(|v| Unit::Nanoseconds.format(v)).into();
        assert_eq!(shown, ["250 ns", "999 ns", "1.00 ms", "1.50 ms", "2 s"]);
    }

    #[test]
    fn counts_changes_and_ratios() {
        assert_eq!(Unit::Count.format(18422.0), "18,422");
        assert_eq!(Unit::Count.format(-1234567.0), "−1,234,567");
        assert_eq!(Unit::Change.format(0.041), "+4.1 %");
        assert_eq!(Unit::Change.format(-0.0001), "0.0 %");
        assert_eq!(Unit::Ratio.format(1.333), "1.33x");
        assert_eq!(Unit::PerSecond.format(5210.0), "5.21k/s");
    }

    #[test]
    fn what_is_no_number_is_a_dash_and_what_is_huge_stays_short() {
        for unit in [Unit::None, Unit::Bytes, Unit::Nanoseconds, Unit::Change, Unit::Count, Unit::Ratio] {
            assert_eq!(unit.format(f64::NAN), MISSING);
            assert_eq!(unit.format(f64::INFINITY), MISSING);
            assert!(unit.format(1e200).len() < 220);
        }
        assert_eq!(Unit::None.format(1e200), "1.00e200");
    }

    #[test]
    fn a_column_has_one_unit() {
        let label = |unit: Unit, all: &[f64]| unit.for_column(all.iter().copied()).map(|column| column.label);
        assert_eq!(label(Unit::Seconds, &[0.037, 0.25, 6.4]), Some("ms"));
        assert_eq!(label(Unit::Seconds, &[0.001, 900.0]), Some("s"), "900,000 ms is unwieldy");
        assert_eq!(label(Unit::Nanoseconds, &[1.2e6, 6e6]), Some("ms"));
        assert_eq!(label(Unit::Bytes, &[734e6, 2e9]), Some("MiB"));
        assert_eq!(label(Unit::PerSecond, &[201.0, 1010.0]), Some("1/s"));
        assert_eq!(label(Unit::Seconds, &[0.0, f64::NAN]), Some("s"));
        assert_eq!(label(Unit::Fraction, &[0.5]), Some("%"));
        assert_eq!(label(Unit::Ratio, &[1.8]), None);
    }

    #[test]
    fn a_range_has_its_unit_once() {
        assert_eq!(Unit::Fraction.range((0.1, 0.25)), "10.0 to 25.0 %");
        assert_eq!(Unit::PerSecond.range((10.0, 25.0)), "10 to 25/s");
        assert_eq!(Unit::PerSecond.range((-3.0, 2e3)), "−3/s to 2k/s");
        assert_eq!(Unit::Change.range((-0.168, -0.163)), "−16.8 to −16.3 %");
    }

    #[test]
    fn ticks_carry_no_idle_zeros() {
        assert_eq!(Unit::Nanoseconds.tick(1.5e6), "1.5 ms");
        assert_eq!(Unit::Change.tick(-0.5), "−50 %");
        assert_eq!(Unit::Count.tick(20_000.0), "20k");
        assert_eq!(Unit::None.tick(10.0), "10");
        assert_eq!(Unit::None.tick(100.0), "100");
    }

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
        let durations = [40, 720, 12_600].map(|s| format_duration(Duration::from_secs(s)));
        assert_eq!(durations, ["40 s", "12 min", "3.5 h"]);
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
    }
}
