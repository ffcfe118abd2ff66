//! Times as text.

use std::sync::OnceLock;
use std::time::Instant;

use jiff::Timestamp;

/// The current time as [`rfc3339`] formats it.
pub fn now() -> String {
    rfc3339(Timestamp::now().as_second().try_into().unwrap_or_default())
}

/// The current time in seconds since 1970.
pub fn unix_seconds() -> f64 {
    Timestamp::now().as_duration().as_secs_f64()
}

/// The time in seconds since 1970 by a clock that is set once, at its first use: its differences are right even if the host's clock is
/// changed later.
pub fn steady_seconds() -> f64 {
    static SET: OnceLock<(f64, Instant)> = OnceLock::new();
    let (began, at) = SET.get_or_init(|| (unix_seconds(), Instant::now()));
    began + at.elapsed().as_secs_f64()
}

/// Formats a time in seconds since 1970 as RFC 3339 in UTC: `2000-02-29T12:34:56Z`. A year has four digits there, so
/// later times are shown as the end of the year 9999.
pub fn rfc3339(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    format!("{:.0}", time.unwrap_or(Timestamp::MAX))
}

/// Parses a time in RFC 3339, and returns seconds since 1970. `None` for another text, and for a time before 1970.
pub fn parse_rfc3339(text: &str) -> Option<u64> {
    text.parse::<Timestamp>().ok()?.as_second().try_into().ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn dates() {
        assert_eq!(super::rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(super::rfc3339(951_827_696), "2000-02-29T12:34:56Z");
        assert_eq!(super::rfc3339(4_102_444_799), "2099-12-31T23:59:59Z");
        assert!(super::rfc3339(u64::MAX).starts_with("9999-12-"));
        assert_eq!(super::parse_rfc3339("2000-02-29T12:34:56Z"), Some(951_827_696));
        assert_eq!(super::parse_rfc3339("2000-02-29T14:34:56+02:00"), Some(951_827_696));
        assert_eq!(super::parse_rfc3339("1960-01-01T00:00:00Z"), None);
        assert_eq!(super::parse_rfc3339("today"), None);
    }
}
