//! Events of the kernel module: `zpool events`.

use super::error::MalformedOutput;

/// One event of the module's log, which holds the last `zfs_zevent_len_max` events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolEvent {
    /// The class: `ereport.fs.zfs.checksum`, `sysevent.fs.zfs.scrub_finish`, …
    pub class: String,
    /// The number of the event since the module was loaded.
    pub eid: u64,
    /// When it happened, in nanoseconds since 1970.
    pub time_ns: u64,
    /// The pool's name. `None` if the event concerns no pool.
    pub pool: Option<String>,
    /// The pool's GUID.
    pub pool_guid: Option<u64>,
    /// The vdev's GUID. `None` if the event concerns the whole pool.
    pub vdev_guid: Option<u64>,
    /// The path of the vdev's device or file.
    pub vdev_path: Option<String>,
}

/// The limit for the number of events, far above the module's limit for its log.
const MAX_EVENTS: usize = 100_000;

/// Parses the output of `zpool events -Hv`, oldest event first. An event is a line with its local time and class, and an
/// indented line for each value. Values of nested lists, which are indented further, are skipped.
///
/// # Errors
/// If an event has no number or time, or there are more than 100,000 events.
pub fn parse_events(text: &str) -> Result<Vec<PoolEvent>, MalformedOutput> {
    let mut events: Vec<PoolEvent> = Vec::new();
    let mut open: Option<OpenEvent> = None;
    for (at, line) in text.lines().enumerate() {
        if let Some(value) = line.strip_prefix(INDENT) {
            if let Some(event) = &mut open {
                event.set(value);
            }
        } else if let Some((_, class)) = line.split_once('\t').filter(|_| !line.starts_with(' ')) {
            events.extend(open.take().map(OpenEvent::finish).transpose()?);
            if events.len() >= MAX_EVENTS {
                return Err(MalformedOutput::new(at + 1, format!("more than {MAX_EVENTS} events")));
            }
            open = Some(OpenEvent::new(at + 1, class));
        }
        // Other lines are empty, or say that events were dropped.
    }
    events.extend(open.map(OpenEvent::finish).transpose()?);
    Ok(events)
}

const INDENT: &str = "        ";

/// An event whose values are being read.
struct OpenEvent {
    line: usize,
    eid: Option<u64>,
    time_ns: Option<u64>,
    event: PoolEvent,
}

impl OpenEvent {
    fn new(line: usize, class: &str) -> OpenEvent {
        let event = PoolEvent {
            class: class.trim().to_owned(),
            eid: 0,
            time_ns: 0,
            pool: None,
            pool_guid: None,
            vdev_guid: None,
            vdev_path: None,
        };
        OpenEvent { line, eid: None, time_ns: None, event }
    }

    /// Takes a line `NAME = VALUE`. A nested line has more spaces before its name and matches none.
    fn set(&mut self, line: &str) {
        let Some((name, value)) = line.split_once(" = ") else { return };
        match name {
            "eid" => self.eid = parse_hex(value),
            "time" => self.time_ns = parse_time(value),
            "pool" => self.event.pool = parse_string(value),
            "pool_guid" => self.event.pool_guid = parse_hex(value),
            "vdev_guid" => self.event.vdev_guid = parse_hex(value).filter(|guid| *guid != 0),
            "vdev_path" => self.event.vdev_path = parse_string(value),
            _ => {}
        }
    }

    fn finish(self) -> Result<PoolEvent, MalformedOutput> {
        let missing = |what: &str| MalformedOutput::new(self.line, format!("the event has no {what}"));
        let eid = self.eid.ok_or_else(|| missing("eid"))?;
        let time_ns = self.time_ns.ok_or_else(|| missing("time"))?;
        Ok(PoolEvent { eid, time_ns, ..self.event })
    }
}

fn parse_hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
}

/// Parses seconds and nanoseconds.
fn parse_time(text: &str) -> Option<u64> {
    let mut parts = text.split_whitespace().map(parse_hex);
    let (seconds, nanoseconds) = (parts.next()??, parts.next()??);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

fn parse_string(text: &str) -> Option<String> {
    Some(text.trim_end().strip_prefix('"')?.strip_suffix('"')?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Nov 25 2026 05:00:00.000000007\tereport.fs.zfs.checksum\n\
        \x20       class = \"ereport.fs.zfs.checksum\"\n\
        \x20       detector = (embedded nvlist)\n\
        \x20               pool = \"nested\"\n\
        \x20       (end detector)\n\
        \x20       pool = \"tank\"\n\
        \x20       pool_guid = 0x11\n\
        \x20       vdev_guid = 0xffffffffffffffff\n\
        \x20       vdev_path = \"/disk/a = b\"\n\
        \x20       time = 0x2 0x7 \n\
        \x20       eid = 0x1f\n\
        \n\
        dropped 3 events\n\
        Nov 25 2026 05:00:00.000000008\tsysevent.fs.zfs.config_sync\n\
        \x20       time = 0x3 0x0\n\
        \x20       eid = 0x20\n";

    #[test]
    fn events() {
        let events = parse_events(TEXT).unwrap();
        assert_eq!(events.len(), 2);
        let first = &events[0];
        assert_eq!(
            (first.class.as_str(), first.eid, first.time_ns),
            ("ereport.fs.zfs.checksum", 31, 2_000_000_007)
        );
        assert_eq!((first.pool.as_deref(), first.pool_guid), (Some("tank"), Some(17)));
        assert_eq!((first.vdev_guid, first.vdev_path.as_deref()), (Some(u64::MAX), Some("/disk/a = b")));
        assert_eq!((events[1].pool.as_deref(), events[1].time_ns), (None, 3_000_000_000));
        assert_eq!(parse_events(""), Ok(Vec::new()));
    }

    #[test]
    fn events_without_a_time_or_number() {
        assert_eq!(parse_events("x\ty\n").unwrap_err().to_string(), "line 1: the event has no eid");
        let without = TEXT.replace("time = 0x2 0x7", "time = 0xffffffffffffffff 0x7");
        assert_eq!(parse_events(&without).unwrap_err().to_string(), "line 1: the event has no time");
    }
}
