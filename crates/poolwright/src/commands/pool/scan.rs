//! A scrub or resilver in `zpool status`'s words, and `poolwright pool scrub`.

use poolwright_host::time::rfc3339;
use poolwright_openzfs::{Scan, ScanKind, ScanState};
use poolwright_trace::format_size;
use poolwright_userpool::{Request, Scrub, ScrubHow, registry};

use crate::commands::pool_connection::{PoolConnection, PoolFiles, parse_pool, print_json};

/// Read and check every block of a pool, repairing what can be repaired
///
/// On a pool that is mounted it goes on in the mount's process, and `pool status` shows how far it is; -w waits for its
/// end. A pool that nobody has open is open only for this, so the end is waited for in any case. Exit code 1 if that end
/// came with errors.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The pool
    #[arg(value_name = "POOL", value_parser = parse_pool)]
    pool: String,

    /// Wait for its end; also for that of one that is running already
    #[arg(short = 'w', conflicts_with = "stop")]
    wait: bool,

    /// Stop the one that is running
    #[arg(short = 's')]
    stop: bool,

    #[command(flatten)]
    files: PoolFiles,

    /// Print one JSON object: the pool, state (scanning, finished, canceled), when it began, seconds, bytes allocated,
    /// errors met by kind, bytes repaired, blocks lost
    #[arg(long)]
    json: bool,
}

/// Scrubs; the value is the exit code.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let how = match (args.wait, args.stop) {
        (_, true) => ScrubHow::Stop,
        (true, _) => ScrubHow::Wait,
        _ => ScrubHow::Start,
    };
    let scrub: Scrub = PoolConnection::once(&args.pool, &args.files, &Request::Scrub { how })?;
    let ended = scrub.state == ScanState::Finished;
    if let (true, Some(mut entry)) = (ended, registry::find(&args.pool)?) {
        entry.last_scrub = Some(scrub.clone());
        registry::save(&entry)?;
    }
    if args.json {
        let mut value = serde_json::to_value(&scrub)?;
        value["pool"] = args.pool.into();
        print_json(&value)?;
    } else {
        println!("{}: {}", args.pool, done(&scrub));
    }
    Ok(u8::from(ended && scrub.errors() + scrub.lost > 0))
}

/// A scrub in words.
fn done(scrub: &Scrub) -> String {
    match scrub.state {
        ScanState::Scanning => {
            return "scrub started; `poolwright pool status` shows how far it is".to_owned();
        }
        ScanState::Canceled => return "scrub stopped".to_owned(),
        ScanState::Finished => {}
    }
    let found = match scrub.errors() + scrub.lost {
        0 => "no errors".to_owned(),
        _ => format!(
            "{} read, {} write and {} checksum errors, {} repaired, {} blocks lost",
            scrub.read_errors,
            scrub.write_errors,
            scrub.checksum_errors,
            size(scrub.repaired),
            scrub.lost
        ),
    };
    format!("{} checked in {:.1} s, {found}", format_size(scrub.allocated), scrub.seconds)
}

/// What `zpool status` has after `scan:`.
pub fn line(scan: Option<&Scan>) -> String {
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

/// Nothing has its unit here, as `zpool` prints it.
fn size(bytes: u64) -> String {
    if bytes < 1024 { format!("{bytes}B") } else { format_size(bytes) }
}

/// `00:01:23`, or `2 days 00:01:23`.
fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let clock = format!("{hours:02}:{minutes:02}:{:02}", seconds % 60);
    if days == 0 { clock } else { format!("{days} days {clock}") }
}

/// `2026-07-01 12:00:00 UTC`: the host's zone would need the C library's state.
fn utc(unix_s: u64) -> String {
    rfc3339(unix_s).replace('T', " ").replace('Z', " UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

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
