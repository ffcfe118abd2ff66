//! Events of the kernel module: `zpool events`.

use super::error::MalformedOutput;

/// One event of the module's log, which holds the last `zfs_zevent_len_max` events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolEvent {
    /// The class: `ereport.fs.zfs.checksum`, `sysevent.fs.zfs.scrub_finish`, …
    pub class: String,
    /// The number of the event since the module was loaded.
    pub eid: u64,
    /// The pool's name. `None` if the event concerns no pool.
    pub pool: Option<String>,
}

/// The limit for the number of events, far above the module's limit for its log.
const MAX_EVENTS: usize = 100_000;

/// Parses the output of `zpool events -Hv`, oldest event first. An event is a line with its local time and class, and an
/// indented line for each value. Values of nested lists, which are indented further, are skipped.
///
/// # Errors
/// If an event has no number, or there are more than 100,000 events.
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
    class: String,
    eid: Option<u64>,
    pool: Option<String>,
}

impl OpenEvent {
    fn new(line: usize, class: &str) -> OpenEvent {
        OpenEvent { line, class: class.trim().to_owned(), eid: None, pool: None }
    }

    /// Takes a line `NAME = VALUE`. A nested line has more spaces before its name and matches none.
    fn set(&mut self, line: &str) {
        match line.split_once(" = ") {
            Some(("eid", value)) => self.eid = parse_hex(value),
            Some(("pool", value)) => self.pool = parse_string(value),
            _ => {}
        }
    }

    fn finish(self) -> Result<PoolEvent, MalformedOutput> {
        let eid = self.eid.ok_or_else(|| MalformedOutput::new(self.line, "the event has no eid"))?;
        Ok(PoolEvent { class: self.class, eid, pool: self.pool })
    }
}

fn parse_hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok()
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
        let first =
            PoolEvent { class: "ereport.fs.zfs.checksum".to_owned(), eid: 31, pool: Some("tank".to_owned()) };
        assert_eq!((&events[0], events[1].pool.as_deref()), (&first, None));
        assert_eq!(parse_events(""), Ok(Vec::new()));
    }

    #[test]
    fn events_without_a_number() {
        assert_eq!(parse_events("x\ty\n").unwrap_err().to_string(), "line 1: the event has no eid");
    }
}
