//! How well the start of a recording, which the trials replay, represents the whole recording.

use std::collections::HashMap;

use poolwright_trace::{Op, Trace};

/// Kind of operation, role, and the base-2 logarithm of the length.
type Class<'a> = (Op, &'a str, u32);

/// Returns the total variation distance between the operations of the first `seconds` and those of the whole
/// recording, by kind, role and size: the share of operations that would have to differ to make the mixtures equal.
/// 0 means the same mixture, 1 that they have nothing in common.
pub(crate) fn distance(trace: &Trace, seconds: f64) -> f64 {
    let until = (seconds * 1e9) as u64;
    let (mut slice, mut whole): (HashMap<Class<'_>, u64>, HashMap<Class<'_>, u64>) = Default::default();
    let moves = |op: Op| matches!(op, Op::Read | Op::Write) || op.is_sync();
    for event in trace.events.iter().filter(|e| moves(e.op)) {
        let role = trace.files[event.file as usize].role.as_str();
        let class = (event.op, role, event.len.checked_ilog2().unwrap_or(0));
        *whole.entry(class).or_default() += 1;
        if event.t_ns < until {
            *slice.entry(class).or_default() += 1;
        }
    }
    let (all, some) = (whole.values().sum::<u64>() as f64, slice.values().sum::<u64>() as f64);
    if some == 0.0 {
        return if all == 0.0 { 0.0 } else { 1.0 };
    }
    let share = |class: &Class<'_>| slice.get(class).map_or(0.0, |n| *n as f64 / some);
    whole.iter().map(|(class, n)| (*n as f64 / all - share(class)).abs()).sum::<f64>() / 2.0
}

/// Returns the bytes written per second in the first `seconds`, relative to those of the whole recording of
/// `recorded` seconds; 1 if nothing is written. A database that merges tables writes in bursts, which are hardly
/// visible in a count of operations.
pub(crate) fn written(trace: &Trace, seconds: f64, recorded: f64) -> f64 {
    let until = (seconds * 1e9) as u64;
    let writes = || trace.events.iter().filter(|e| e.op == Op::Write);
    let whole: u64 = writes().map(|e| e.len).sum();
    let some: u64 = writes().filter(|e| e.t_ns < until).map(|e| e.len).sum();
    if whole == 0 || seconds <= 0.0 { 1.0 } else { (some as f64 / seconds) / (whole as f64 / recorded) }
}

#[cfg(test)]
mod tests {
    use poolwright_trace::{Event, File, Flags};

    use super::*;

    fn trace(ops: &[(u64, Op, u64)]) -> Trace {
        let event = |&(t_s, op, len): &(u64, Op, u64)| Event {
            t_ns: t_s * 1_000_000_000,
            dur_ns: 1,
            op,
            file: 0,
            offset: 0,
            len,
            pid: 1,
            tid: 1,
            flags: Flags::default(),
            gap: None,
        };
        Trace {
            files: vec![File { path: "/d".into(), role: "data".into(), ..File::default() }],
            events: ops.iter().map(event).collect(),
            ..Trace::default()
        }
    }

    #[test]
    fn the_distance_is_the_share_of_other_operations() {
        let same =
            trace(&[(0, Op::Read, 4096), (0, Op::Write, 100), (9, Op::Write, 127), (9, Op::Read, 5000)]);
        assert!(distance(&same, 5.0) < 1e-9);
        let half = trace(&[(0, Op::Read, 4096), (9, Op::Write, 4096)]);
        assert!((distance(&half, 5.0) - 0.5).abs() < 1e-9);
        let later = trace(&[(9, Op::Read, 4096)]);
        assert_eq!((distance(&later, 5.0), distance(&later, 20.0)), (1.0, 0.0));
        assert_eq!(distance(&trace(&[]), 5.0), 0.0);
    }

    #[test]
    fn a_burst_behind_the_slice_is_seen_in_the_bytes_written() {
        let burst =
            trace(&[(0, Op::Write, 1000), (2, Op::Write, 1000), (7, Op::Write, 8000), (1, Op::Read, 9000)]);
        assert!((written(&burst, 5.0, 10.0) - 0.4).abs() < 1e-9);
        assert!((written(&burst, 8.0, 10.0) - 1.25).abs() < 1e-9);
        assert_eq!(written(&trace(&[(0, Op::Read, 4096)]), 5.0, 10.0), 1.0);
    }
}
