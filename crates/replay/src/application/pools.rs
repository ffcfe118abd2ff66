//! Thread pools: threads that serve requests which another thread of the process distributes.
//!
//! A connection's thread sleeps while its client thinks. A thread of a pool sleeps while other threads serve the clients, so its recorded
//! sleep is independent of any single client, and a replay of that sleep would not become shorter with faster storage, as the real sleep
//! would. However, the recording shows how many of the pool's threads were busy at each time. If each of `k` clients has a request in
//! progress for a share `p` of the time, independently of the others, the number of busy threads has the binomial distribution's mean `kp`
//! and variance `kp(1 − p)`, so `k = mean² / (mean − variance)`. Clients that think for most of the time have a variance as large as the
//! mean: then requests arrive independently of the storage, and the sleeps are replayed as recorded.

use std::collections::{HashMap, HashSet};

use poolwright_trace::{Event, Gap};

use super::faults::is_fault;

/// The clients are at least as many as the threads that are busy at once, except for this share of the time: a thread is busy a little
/// longer than its client, which may have sent the next request to another one by then.
const RARE: f64 = 0.05;

/// The clients of a process with a thread pool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pool {
    pub clients: u32,
    /// The mean time between a client's requests, in nanoseconds. A request is a thread's activity between two sleeps, if it contains
    /// recorded operations.
    pub think_ns: u64,
    /// The time between requests of all clients in the recording, in nanoseconds.
    pub total_ns: u64,
}

/// The activity of a process's foreground threads.
#[derive(Debug, Default)]
struct Process {
    threads: HashMap<u32, Thread>,
    /// Sleeps until a sibling gave the thread a request: beginning and end in nanoseconds.
    idle: Vec<[u64; 2]>,
    /// The number of requests, including those for which a thread did not sleep.
    requests: u64,
    /// The sum of those that ended the gap, in nanoseconds.
    handed_out_ns: u64,
    /// Time that the threads slept until another process woke them, in nanoseconds.
    served_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    /// The first and last instant, in nanoseconds.
    first: u64,
    last: u64,
    /// Whether the last event was a page fault that reads.
    faulted: bool,
}

/// Returns the pools by process id. `longest_fault`: see [`longest_fault`](super::faults::longest_fault).
pub(super) fn pools(events: &[Event], foreground: &HashSet<u32>, longest_fault: u64) -> HashMap<u32, Pool> {
    let mut processes: HashMap<u32, Process> = HashMap::new();
    for event in events.iter().filter(|event| foreground.contains(&event.tid)) {
        let process = processes.entry(event.pid).or_default();
        let start = Thread { first: event.t_ns, last: event.t_ns, faulted: false };
        let thread = process.threads.entry(event.tid).or_insert(start);
        if let Some(gap) = event.gap {
            let length = event.t_ns.saturating_sub(thread.last);
            let asleep = gap.sleep_ns(length);
            let woken = event.t_ns.saturating_sub(u64::from(gap.wake_ns));
            let waits_for_storage = thread.faulted && asleep <= longest_fault;
            match gap.waker {
                Gap::OTHER if !waits_for_storage => process.served_ns += asleep,
                Gap::OTHER | Gap::TIMER | 0 => {}
                // After it got a request, the thread may have waited for another one of the process.
                waker => {
                    let (since, idle) = (woken.saturating_sub(asleep), gap.idle_ns(length));
                    process.idle.extend(Some([since, since + idle]).filter(|_| idle > 0));
                    process.handed_out_ns += if waker == Gap::SIBLING { asleep } else { 0 };
                    process.requests += u64::from(waker == Gap::SIBLING || idle > 0);
                }
            }
        }
        thread.faulted = is_fault(event);
        thread.last = thread.last.max(event.t_ns + event.dur_ns);
    }
    processes.into_iter().filter_map(|(pid, process)| Some((pid, process.pool()?))).collect()
}

impl Process {
    /// Returns the clients if the threads form a pool whose clients can be counted.
    fn pool(self) -> Option<Pool> {
        if self.handed_out_ns <= self.served_ns {
            return None;
        }
        let threads = self.threads.values().map(|thread| (thread.first, thread.last, 1));
        let idle = self.idle.iter().map(|[from, to]| (*from, *to, -1));
        let mut changes: Vec<(u64, i32)> =
            threads.chain(idle).flat_map(|(from, to, by)| [(from, by), (to, -by)]).collect();
        changes.sort_unstable();
        // How long how many threads were busy.
        let mut busy_ns = vec![0.0; self.threads.len() + 1];
        let (mut busy, mut at) = (0i32, changes.first()?.0);
        for (t, by) in changes {
            busy_ns[(busy.max(0) as usize).min(self.threads.len())] += (t - at) as f64;
            (busy, at) = (busy + by, t);
        }
        let clients = clients(&busy_ns)?.min(self.threads.len() as u32);
        let span: f64 = busy_ns.iter().sum();
        let worked: f64 = busy_ns.iter().enumerate().map(|(n, ns)| n as f64 * ns).sum();
        let total_ns = (f64::from(clients) * span - worked).max(0.0) as u64;
        Some(Pool { clients, think_ns: total_ns / self.requests.max(1), total_ns })
    }
}

/// Returns the number of clients from the time in which 0, 1, 2, … threads were busy; `None` if they think for too long to be counted.
fn clients(busy_ns: &[f64]) -> Option<u32> {
    let span: f64 = busy_ns.iter().sum();
    let moment = |of: &dyn Fn(f64) -> f64| {
        busy_ns.iter().enumerate().map(|(n, ns)| of(n as f64) * ns).sum::<f64>() / span
    };
    let mean = moment(&|n| n);
    let variance = moment(&|n| (n - mean).powi(2));
    let mut rare = span * RARE;
    let most = busy_ns.iter().rposition(|ns| {
        rare -= ns;
        rare < 0.0
    })?;
    let binomial = mean.powi(2) / (mean - variance);
    (variance < mean && most > 0 && binomial < busy_ns.len() as f64 - 0.5)
        .then(|| binomial.round().max(most as f64) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_counted_by_the_spread_of_busy_threads() {
        // Four clients that are busy for three quarters of the time, in a pool of eight threads.
        assert_eq!(clients(&[0.4, 4.7, 21.1, 42.2, 31.6, 0.0, 0.0, 0.0, 0.0]), Some(4));
        // Always four.
        assert_eq!(clients(&[0.0, 0.0, 0.0, 0.5, 99.0, 0.5, 0.0]), Some(4));
        // Requests that arrive at random: a Poisson distribution with mean 2.
        assert_eq!(clients(&[13.5, 27.1, 27.1, 18.0, 9.0, 3.6, 1.2, 0.4, 0.1]), None);
    }
}
