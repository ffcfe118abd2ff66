//! Imports fio's I/O logs, versions 2 and 3, as written by `fio --write_iolog`.
//!
//! fio's HOWTO describes the format ("Trace file format v2" and "v3"). Timestamps of version 3 are in microseconds;
//! version 2 has only `wait`.

use std::path::Path;

use poolwright_base::quoted;

use super::{Lines, Sink};
use crate::{Event, Op, Result};

/// The name of the format on the command line and in a trace.
pub const FORMAT: &str = "fio-iolog";

const HEADS: [(&str, u32); 2] = [("fio version 2 iolog", 2), ("fio version 3 iolog", 3)];
/// The entry of `unseen` for a version without times.
const NO_TIMES: &str = "times of operations (iolog version 2 has none)";

/// A time of version 3 from which on it cannot be that of a job, but of the day: a year, in microseconds.
const TIME_OF_DAY_US: u64 = 365 * 86_400 * 1_000_000;

/// The action of one line.
#[derive(Debug, PartialEq)]
enum Action {
    Add,
    Open,
    Close,
    Wait,
    Io(Op),
}

#[derive(Debug, PartialEq)]
struct LogEntry<'a> {
    time_us: u64,
    path: &'a str,
    action: Action,
    offset: u64,
    len: u64,
}

/// Whether a file that begins with `head` is an I/O log of fio.
pub fn is_iolog(head: &[u8]) -> bool {
    HEADS.iter().any(|(text, _)| head.starts_with(text.as_bytes()))
}

/// Reads the whole source.
///
/// # Errors
///
/// Returns an error if a line is invalid or cannot be read, or if the trace cannot be written.
pub(super) fn import(lines: &mut Lines<'_>, sink: &mut Sink) -> Result<()> {
    let first = lines.next_line()?.unwrap_or_default();
    let Some((_, version)) = HEADS.iter().find(|(text, _)| *text == first.trim_end()) else {
        let shown: String = first.chars().take(40).collect();
        return Err(lines.error(format!("expected \"fio version 2 iolog\" or 3, found {shown:?}")));
    };
    let mut now_us: u64 = 0;
    let mut origin_us = 0;
    let mut events = 0;
    while let Some(text) = lines.next_line()? {
        if text.trim().is_empty() {
            continue;
        }
        if HEADS.iter().any(|(head, _)| *head == text.trim_end()) {
            return Err(lines.error(another_log(lines.path, lines.number)));
        }
        let line = parse(&text, *version).map_err(|why| lines.error(why))?;
        let step = if line.action == Action::Wait { line.offset } else { 0 };
        if origin_us == 0 && line.time_us >= TIME_OF_DAY_US {
            origin_us = line.time_us;
            sink.note(format!(
                "the times are times of the day, {origin_us} microseconds since 1970 and later: the recording begins with the \
                 first of them"
            ));
        }
        let time_us = line.time_us.saturating_sub(origin_us);
        now_us = if *version == 3 { time_us } else { now_us.saturating_add(step) };
        let event = to_event(&line, now_us, sink).map_err(|why| lines.error(why))?;
        if let Some(event) = event {
            events += 1;
            sink.push(event)?;
        }
    }
    if *version == 2 {
        sink.unseen(NO_TIMES, events);
    }
    Ok(())
}

/// The error for a second log in the file.
fn another_log(path: &Path, line: u64) -> String {
    format!(
        "another log begins here: fio appends to a log that exists, and its jobs share one\n\
         hint: import the logs one by one: csplit {} {line} makes xx00 and xx01 of them",
        quoted(&path)
    )
}

fn to_event(line: &LogEntry<'_>, now_us: u64, sink: &mut Sink) -> Result<Option<Event>, String> {
    let (op, offset, len) = match line.action {
        Action::Wait => return Ok(None),
        Action::Add => {
            sink.file(line.path);
            return Ok(None);
        }
        Action::Open => (Op::Open, 0, 0),
        Action::Close => (Op::Close, 0, 0),
        Action::Io(op) if op.is_sync() => (op, 0, 0), // fio logs the position of its last I/O
        Action::Io(op) => (op, line.offset, line.len),
    };
    let file = sink.known(line.path).ok_or_else(|| format!("{:?} is used before its \"add\"", line.path))?;
    let t_ns = now_us.checked_mul(1000).filter(|t| i64::try_from(*t).is_ok());
    let t_ns = t_ns.ok_or_else(|| format!("the time {now_us} is too large for microseconds"))?;
    Ok(Some(Event { t_ns, op, file, offset, len, ..Event::default() }))
}

/// Parses a line from both ends, because file names may contain blanks.
fn parse(text: &str, version: u32) -> Result<LogEntry<'_>, String> {
    let mut rest = text.trim();
    let mut time_us = 0;
    if version == 3 {
        let (time, tail) = rest.split_once(' ').ok_or("expected: timestamp file action [offset length]")?;
        time_us =
            time.parse().map_err(|_| format!("expected a timestamp in microseconds, found {time:?}"))?;
        rest = tail;
    }
    let (before, last) = rest.rsplit_once(' ').ok_or("expected: file action [offset length]")?;
    let managed = match last {
        "add" => Some(Action::Add),
        "open" => Some(Action::Open),
        "close" => Some(Action::Close),
        _ => None,
    };
    if let Some(action) = managed {
        return Ok(LogEntry { time_us, path: named(before)?, action, offset: 0, len: 0 });
    }
    let fields = before.rsplit_once(' ').and_then(|(head, offset)| {
        let (path, action) = head.rsplit_once(' ')?;
        Some((path, action, offset))
    });
    let Some((path, action, offset)) = fields else {
        return Err(format!("unknown action {last:?}, or offset and length are missing"));
    };
    let action = io_action(action, version)?;
    Ok(LogEntry {
        time_us,
        path: named(path)?,
        action,
        offset: number("offset", offset)?,
        len: number("length", last)?,
    })
}

fn io_action(name: &str, version: u32) -> Result<Action, String> {
    Ok(match name {
        "read" => Action::Io(Op::Read),
        "write" => Action::Io(Op::Write),
        "sync" => Action::Io(Op::Fsync),
        "datasync" => Action::Io(Op::Fdatasync),
        "trim" => Action::Io(Op::Punch),
        "wait" if version == 2 => Action::Wait,
        "wait" => return Err("\"wait\" is not allowed in version 3".to_owned()),
        other => {
            return Err(format!(
                "unknown action {other:?}: expected read, write, sync, datasync, trim, wait, add, open or close"
            ));
        }
    })
}

fn named(path: &str) -> Result<&str, String> {
    let path = path.trim();
    if path.is_empty() { Err("the file name is missing".to_owned()) } else { Ok(path) }
}

/// Parses a number below 2^63, the limit of offsets and lengths on Linux.
fn number(what: &str, text: &str) -> Result<u64, String> {
    let value = text.parse::<u64>().ok().filter(|value| i64::try_from(*value).is_ok());
    value.ok_or_else(|| format!("expected the {what} in bytes, found {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_are_understood() {
        let read =
            LogEntry { time_us: 12, path: "/d/a b", action: Action::Io(Op::Read), offset: 4096, len: 512 };
        assert_eq!(parse("12 /d/a b read 4096 512", 3), Ok(read));
        let close = LogEntry { time_us: 0, path: "/d/open", action: Action::Close, offset: 0, len: 0 };
        assert_eq!(parse("/d/open close", 2), Ok(close));
        let wait = LogEntry { time_us: 0, path: "/d", action: Action::Wait, offset: 500, len: 0 };
        assert_eq!(parse("/d wait 500 0", 2), Ok(wait));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("/d read 1 2", 3, "timestamp"),
            ("1 /d wait 500 0", 3, "not allowed"),
            ("/d eat 1 2", 2, "\"eat\""),
            ("/d read one 2", 2, "offset"),
            ("/d read 1 -2", 2, "length"),
            ("/d read 1 9223372036854775808", 2, "length"),
            ("/d read", 2, "missing"),
            ("read", 2, "expected"),
        ];
        for (text, version, part) in cases {
            let why = parse(text, version).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_understood_or_an_error(text in ".*", version in 2..4u32) {
            let _ = parse(&text, version);
        }

        #[test]
        fn nearly_right_lines_never_panic(text in "[0-9]{0,22} ?/?[a-z ]{0,8} (read|write|sync|wait|add|open|) ?-?[0-9]{0,22} ?[0-9]{0,22}", version in 2..4u32) {
            let _ = parse(&text, version);
        }
    }
}
