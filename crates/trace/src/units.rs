//! Parses times. The formats of numbers are those of `report`.

use std::time::Duration;

pub use poolwright_report::units::{counted, format_count, format_duration, format_ns, format_size};

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
