//! The description of scans in the text output of `zpool status`.

use super::{PoolScan, ScanFunction, ScanPhase};
use crate::kernel::command::number::parse_rounded;

/// Parses the lines of the field `scan`. Returns `None` if there was no scan.
///
/// # Errors
/// If a number or a time is malformed.
pub(super) fn parse_scan(lines: &[&str]) -> Result<Option<PoolScan>, String> {
    let first = lines.first().copied().unwrap_or_default().trim();
    let Some((function, rest)) = split_function(first) else { return Ok(None) };
    let Some((phase, rest)) = split_phase(rest) else {
        return Err(format!("{first:?} is not the description of a scan"));
    };
    let mut scan = PoolScan::new(function, phase);
    match phase {
        ScanPhase::Scanning => scan.start_time = Some(parse_date(rest)?),
        ScanPhase::Paused => {}
        ScanPhase::Canceled => scan.end_time = Some(parse_date(rest)?),
        ScanPhase::Finished => set_end(&mut scan, rest)?,
    }
    for line in &lines[1..] {
        set_progress(&mut scan, line.trim())?;
    }
    Ok(Some(scan))
}

/// Parses the lines of the field `scrub` (2.2 and later), which describes a scrub of the blocks in the error log:
/// `error scrub in progress since …` or `scrubbed N error blocks in TIME on …`. It counts blocks, not bytes.
///
/// # Errors
/// If a time is malformed.
pub(super) fn parse_error_scrub(lines: &[&str]) -> Result<Option<PoolScan>, String> {
    let first = lines.first().copied().unwrap_or_default().trim();
    let new = |phase| PoolScan::new(ScanFunction::ErrorScrub, phase);
    if let Some((_, end)) = first.strip_prefix("scrubbed ").and_then(|rest| rest.split_once(" on ")) {
        return Ok(Some(PoolScan { end_time: Some(parse_date(end)?), ..new(ScanPhase::Finished) }));
    }
    let Some((phase, date)) = first.strip_prefix("error scrub ").and_then(split_phase) else {
        return Ok(None);
    };
    let time = Some(parse_date(date)?);
    Ok(Some(match phase {
        ScanPhase::Canceled => PoolScan { end_time: time, ..new(phase) },
        ScanPhase::Scanning => PoolScan { start_time: time, ..new(phase) },
        ScanPhase::Paused => {
            let started =
                lines[1..].iter().find_map(|line| line.trim().strip_prefix("error scrub started on "));
            PoolScan { start_time: started.map(parse_date).transpose()?, ..new(phase) }
        }
        ScanPhase::Finished => return Ok(None),
    }))
}

/// `scrub`, `resilver`, or `resilver (mirror-0)` for a rebuild, each also as `scrub repaired` and `resilvered`.
fn split_function(text: &str) -> Option<(ScanFunction, &str)> {
    if let Some(rest) = text.strip_prefix("scrub ") {
        return Some((ScanFunction::Scrub, rest));
    }
    let rest = text.strip_prefix("resilver")?;
    let rest = rest.strip_prefix("ed").unwrap_or(rest).trim_start();
    match rest.strip_prefix('(').and_then(|rest| rest.split_once(") ")) {
        Some((_, rest)) => Some((ScanFunction::Rebuild, rest)),
        None => Some((ScanFunction::Resilver, rest)),
    }
}

fn split_phase(text: &str) -> Option<(ScanPhase, &str)> {
    let phases = [
        ("in progress since ", ScanPhase::Scanning),
        ("paused since ", ScanPhase::Paused),
        ("canceled on ", ScanPhase::Canceled),
        ("repaired ", ScanPhase::Finished),
    ];
    let named = phases.into_iter().find_map(|(words, phase)| Some((phase, text.strip_prefix(words)?)));
    // `resilvered 3M in …`: nothing is between the function and the bytes.
    named.or_else(|| text.starts_with(|c: char| c.is_ascii_digit()).then_some((ScanPhase::Finished, text)))
}

/// Parses `BYTES in TIME with N errors on DATE`, or without the bytes.
fn set_end(scan: &mut PoolScan, text: &str) -> Result<(), String> {
    let malformed = || format!("{text:?} is not the end of a scan");
    let (bytes, rest) = text.split_once(" in ").ok_or_else(malformed)?;
    let (duration, rest) = rest.split_once(" with ").ok_or_else(malformed)?;
    let (errors, date) = rest.split_once(" errors on ").ok_or_else(malformed)?;
    scan.repaired = Some(parse_rounded(bytes).ok_or_else(malformed)?);
    let duration = parse_duration(duration).ok_or_else(malformed)?;
    scan.errors = Some(errors.parse().map_err(|_| malformed())?);
    let end = parse_date(date)?;
    scan.end_time = Some(end);
    scan.start_time = end.checked_sub(duration);
    Ok(())
}

/// Parses a line below the first: when a paused scrub started, `scanned … issued … total` of 2.1, `scanned / total … issued /
/// total` of 2.2, or `BYTES repaired, PERCENT done`.
fn set_progress(scan: &mut PoolScan, line: &str) -> Result<(), String> {
    if let Some(date) = line.strip_prefix("scrub started on ") {
        scan.start_time = Some(parse_date(date)?);
        return Ok(());
    }
    for part in line.split(", ") {
        let mut words = part.split_whitespace().peekable();
        let Some(bytes) = words.next().and_then(parse_rounded) else { continue };
        let total = words.next_if_eq(&"/").and_then(|_| words.next()).and_then(parse_rounded);
        match words.next() {
            Some("issued") => (scan.issued, scan.total) = (Some(bytes), total.or(scan.total)),
            Some("total") => scan.total = Some(bytes),
            Some("repaired" | "resilvered") => scan.repaired = Some(bytes),
            // What walking the pool has found (`scanned`); and 2.1 has no word between the bytes and the rate of a rebuild's `issued`.
            _ => {}
        }
    }
    Ok(())
}

/// Parses `00:01:30` or `2 days 00:01:30` to seconds.
fn parse_duration(text: &str) -> Option<u64> {
    let (days, time) = text.split_once(" days ").unwrap_or(("0", text));
    let mut seconds = days.parse::<u64>().ok()?.checked_mul(24)?;
    let mut parts = time.split(':');
    for unit in [1, 60, 60] {
        let part: u64 = parts.next()?.parse().ok()?;
        seconds = seconds.checked_mul(unit)?.checked_add(part)?;
    }
    parts.next().is_none().then_some(seconds)
}

/// Parses a time as `ctime` prints it, in UTC, to seconds since 1970: `Wed Nov 25 05:01:12 2026`.
fn parse_date(text: &str) -> Result<u64, String> {
    date_seconds(text.trim()).ok_or_else(|| format!("{text:?} is not a date"))
}

fn date_seconds(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, month, day, time, year] = words[..] else { return None };
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let (day, year): (u64, u64) = (day.parse().ok()?, year.parse().ok()?);
    if !(1..=31).contains(&day) || !(1970..=9999).contains(&year) {
        return None;
    }
    // Days since 1970 by counting years from March, so that the leap day is the last of a year.
    let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * years + years / 4 - years / 100 + years / 400 + (153 * months + 2) / 5 + day - 1;
    // 719,468 days from 1 March of the year 0 to 1970. Negative for January and February 1970 only.
    days.checked_sub(719_468)?.checked_mul(86_400)?.checked_add(parse_duration(time)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> PoolScan {
        parse_scan(&text.lines().collect::<Vec<_>>()).unwrap().unwrap()
    }

    #[test]
    fn dates_and_durations() {
        assert_eq!(parse_date("Thu Jan  1 00:00:00 1970"), Ok(0));
        assert_eq!(parse_date("Thu Feb 29 12:34:56 2024"), Ok(1_709_210_096));
        assert_eq!(parse_date("Wed Nov 25 05:01:12 2026"), Ok(1_795_582_872));
        assert_eq!(parse_duration("00:01:30"), Some(90));
        assert_eq!(parse_duration("2 days 01:00:00"), Some(2 * 86_400 + 3600));
        for text in
            ["", "Wed Nov 25 05:01 2026", "Wed Foo 25 05:01:12 2026", "Wed Nov 99 05:01:12 2026", "a b c d e"]
        {
            assert!(parse_date(text).is_err(), "{text}");
        }
    }

    #[test]
    fn progress_of_2_1_and_2_2() {
        let expected = (Some(1 << 30), Some(10 << 30), Some(512));
        let numbers = |scan: &PoolScan| (scan.issued, scan.total, scan.repaired);
        let old = parse(
            "scrub in progress since Wed Nov 25 05:01:12 2026\n\
             \t3G scanned at 100M/s, 1G issued at 30M/s, 10G total\n\
             \t512B repaired, 10.00% done, 00:05:00 to go\n",
        );
        assert_eq!(numbers(&old), expected);
        let new = parse(
            "scrub paused since Wed Nov 25 05:02:12 2026\n\
             \tscrub started on Wed Nov 25 05:01:12 2026\n\
             \t3G / 12G scanned, 1G / 10G issued\n\
             \t512B repaired, 10.00% done\n",
        );
        assert_eq!(numbers(&new), expected);
        assert_eq!((old.phase, new.phase), (ScanPhase::Scanning, ScanPhase::Paused));
        assert_eq!((old.start_time, new.start_time), (Some(1_795_582_872), Some(1_795_582_872)));
        let rebuild = parse(
            "resilver (mirror-0) in progress since Wed Nov 25 05:01:12 2026\n\
             \t3G scanned at 100M/s, 1G issued 30M/s, 10G total\n\
             \t512B resilvered, 10.00% done, no estimated completion time\n",
        );
        assert_eq!((rebuild.function, numbers(&rebuild)), (ScanFunction::Rebuild, expected));
    }

    #[test]
    fn scrubs_of_the_error_log() {
        let parse = |text: &str| parse_error_scrub(&text.lines().collect::<Vec<_>>()).unwrap().unwrap();
        let finished = parse("scrubbed 3 error blocks in 0 days 00:00:01 on Wed Nov 25 05:01:12 2026");
        assert_eq!((finished.function, finished.phase), (ScanFunction::ErrorScrub, ScanPhase::Finished));
        assert_eq!((finished.end_time, finished.issued), (Some(1_795_582_872), None));
        let running = parse(
            "error scrub in progress since Wed Nov 25 05:01:12 2026\n\t50.00% done, issued I/O for 3 error blocks",
        );
        assert_eq!((running.phase, running.start_time), (ScanPhase::Scanning, Some(1_795_582_872)));
        let paused = parse(
            "error scrub paused since Wed Nov 25 05:02:12 2026\n\terror scrub started on Wed Nov 25 05:01:12 2026",
        );
        assert_eq!((paused.phase, paused.start_time), (ScanPhase::Paused, Some(1_795_582_872)));
        assert_eq!(parse_error_scrub(&["something else"]), Ok(None));
    }

    #[test]
    fn scans_that_have_ended() {
        let scrub = parse("scrub repaired 64K in 00:00:02 with 3 errors on Wed Nov 25 05:01:12 2026");
        assert_eq!((scrub.function, scrub.phase), (ScanFunction::Scrub, ScanPhase::Finished));
        assert_eq!((scrub.repaired, scrub.errors), (Some(65_536), Some(3)));
        assert_eq!((scrub.start_time, scrub.end_time), (Some(1_795_582_870), Some(1_795_582_872)));
        let resilver = parse("resilvered 1.50M in 1 days 00:00:02 with 0 errors on Wed Nov 25 05:01:12 2026");
        assert_eq!((resilver.function, resilver.repaired), (ScanFunction::Resilver, Some(3 << 19)));
        let rebuild = parse("resilvered (mirror-1) 1M in 00:00:02 with 0 errors on Wed Nov 25 05:01:12 2026");
        assert_eq!((rebuild.function, rebuild.phase), (ScanFunction::Rebuild, ScanPhase::Finished));
        let canceled = parse("resilver canceled on Wed Nov 25 05:01:12 2026");
        assert_eq!((canceled.function, canceled.phase), (ScanFunction::Resilver, ScanPhase::Canceled));
        assert_eq!(parse_scan(&["none requested"]), Ok(None));
        assert!(parse_scan(&["scrub repaired 64K"]).is_err());
        assert!(parse_scan(&["scrub something"]).is_err());
    }
}
