//! Page faults: how long a thread sleeps for one, and how much of the following CPU time is the fault's.

use std::collections::HashMap;

use poolwright_trace::Event;

/// A sleep after a page fault belongs to the fault up to this multiple of the median sleep between two faults.
const FAULTS: u64 = 4;
/// The kernel maps the pages in an aligned part of a file of this many bytes at one fault (`fault_around_bytes` of Linux).
const FAULT_AROUND: u64 = 64 << 10;
/// The least number of page faults of each kind for which their CPU times are compared.
const MIN_FAULTS: usize = 100;

/// Whether the event is a page fault that reads. The recorder does not see the end of a fault: the event has no
/// duration, and the following gap includes the time that the fault took.
pub(super) fn is_fault(event: &Event) -> bool {
    event.is_page_fault() && event.is_read()
}

/// Returns the longest sleep attributed to a page fault, in nanoseconds.
pub(super) fn longest_fault(events: &[Event]) -> u64 {
    let mut last: HashMap<u32, u64> = HashMap::new();
    let mut sleeps = Vec::new();
    for event in events {
        let (before, maps) = (last.remove(&event.tid), event.is_page_fault());
        if let (Some(before), Some(gap)) = (before.filter(|_| maps), event.gap) {
            sleeps.extend(Some(gap.sleep_ns(event.t_ns.saturating_sub(before))).filter(|ns| *ns > 0));
        }
        if is_fault(event) {
            last.insert(event.tid, event.t_ns);
        }
    }
    if sleeps.is_empty() {
        return 0;
    }
    let middle = sleeps.len() / 2;
    FAULTS * *sleeps.select_nth_unstable(middle).1
}

/// Returns the application's share, 0 to 1, of the CPU time in the gap after a page fault that reads and in which the thread did not
/// sleep. The rest is the fault's: the file system decompresses the cached record. After a fault whose page was in the page
/// cache, all is the application's; it is assumed to compute for as long after either.
pub(super) fn share_after_fault(events: &[Event]) -> f64 {
    let mut last: HashMap<u32, &Event> = HashMap::new();
    // CPU time and number of gaps: after faults that read, and after others.
    let (mut cpu, mut count) = ([0.0; 2], [0; 2]);
    for event in events {
        // One fault may be two events: the kernel maps the pages around it that are cached, and then reads the missing one.
        let is_same_fault = |before: &Event| {
            let after = event.offset.wrapping_sub(before.offset);
            is_fault(event) && !is_fault(before) && event.file == before.file && after < FAULT_AROUND
        };
        let before = last.insert(event.tid, event);
        let before = before.filter(|before| before.is_page_fault() && !is_same_fault(before));
        if let (Some(before), Some(gap)) = (before, event.gap.filter(|gap| gap.waker == 0)) {
            let kind = usize::from(!is_fault(before));
            cpu[kind] += gap.cpu_ns as f64;
            count[kind] += 1;
        }
    }
    if count.iter().any(|n| *n < MIN_FAULTS) || cpu[0] == 0.0 {
        return 1.0;
    }
    (cpu[1] / count[1] as f64 / (cpu[0] / count[0] as f64)).min(1.0)
}
