//! Formats a scrub or resilver as `zpool status` does after `scan:`.

use poolwright_base::time::rfc3339;
use poolwright_openzfs::{Scan, ScanKind, ScanState};

/// The state of the last scan. `size` formats bytes.
pub fn status_line(scan: Option<&Scan>, size: impl Fn(u64) -> String) -> String {
    let Some(scan) = scan else { return "none requested".to_owned() };
    let (what, verb) = match scan.kind {
        ScanKind::Scrub => ("scrub", "repaired"),
        ScanKind::Resilver => ("resilver", "resilvered"),
    };
    match scan.state {
        ScanState::Canceled => format!("{what} canceled on {}", utc(scan.end_unix_s)),
        ScanState::Finished => {
            let seconds = scan.end_unix_s.saturating_sub(scan.start_unix_s);
            let head = if scan.kind == ScanKind::Scrub { format!("scrub {verb}") } else { verb.to_owned() };
            format!(
                "{head} {} in {} with {} errors on {}",
                size(scan.repaired),
                duration(seconds),
                scan.errors,
                utc(scan.end_unix_s)
            )
        }
        ScanState::Scanning => {
            let total = scan.to_examine.saturating_sub(scan.skipped);
            let percent = 100.0 * scan.issued as f64 / total.max(1) as f64;
            let paused = if scan.paused { " paused" } else { " in progress" };
            format!(
                "{what}{paused} since {}\n\t{} / {} scanned, {} / {} issued\n\t{} {verb}, {percent:.2}% done",
                utc(scan.start_unix_s),
                size(scan.examined),
                size(total),
                size(scan.issued),
                size(total),
                size(scan.repaired)
            )
        }
    }
}

/// `00:01:23`, or `2 days 00:01:23`.
fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let clock = format!("{hours:02}:{minutes:02}:{:02}", seconds % 60);
    if days == 0 { clock } else { format!("{days} days {clock}") }
}

/// `2026-07-01 12:00:00 UTC`. The local time zone would need the C library's state.
fn utc(unix_s: u64) -> String {
    rfc3339(unix_s).replace('T', " ").replace('Z', " UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(scan: Option<&Scan>) -> String {
        status_line(scan, |bytes| match bytes {
            0..1024 => format!("{bytes}B"),
            _ if bytes >> 30 > 0 => format!("{}G", bytes >> 30),
            _ => format!("{}M", bytes >> 20),
        })
    }

    #[test]
    fn dates() {
        for (unix, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_200, "2024-03-01 00:00:00 UTC"),
            (4_107_542_399, "2100-02-28 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(unix), text);
        }
        assert_eq!(duration(2 * 86_400 + 3_661), "2 days 01:01:01");
    }

    #[test]
    fn lines_as_zpool_has_them() {
        let mut scan = Scan {
            kind: ScanKind::Scrub,
            state: ScanState::Finished,
            start_unix_s: 951_782_300,
            end_unix_s: 951_782_400,
            to_examine: 3 << 30,
            skipped: 1 << 30,
            examined: 2 << 30,
            issued: 512 << 20,
            repaired: 0,
            errors: 0,
            paused: false,
        };
        assert_eq!(line(None), "none requested");
        assert_eq!(
            line(Some(&scan)),
            "scrub repaired 0B in 00:01:40 with 0 errors on 2000-02-29 00:00:00 UTC"
        );
        scan.state = ScanState::Scanning;
        assert_eq!(
            line(Some(&scan)),
            "scrub in progress since 2000-02-28 23:58:20 UTC\n\t2G / 2G scanned, 512M / 2G issued\n\t0B repaired, \
             25.00% done"
        );
        scan.state = ScanState::Canceled;
        assert_eq!(line(Some(&scan)), "scrub canceled on 2000-02-29 00:00:00 UTC");
        (scan.kind, scan.state, scan.repaired) = (ScanKind::Resilver, ScanState::Finished, 5 << 20);
        assert!(line(Some(&scan)).starts_with("resilvered 5M in 00:01:40 with 0 errors"));
    }
}
