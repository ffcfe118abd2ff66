//! Reproducible synthetic traces for the tests, with every operation and flag and several files.

use poolwright_trace::layout::Role;
use poolwright_trace::{Event, File, Flags, Gap, Meta, Op, Trace};

pub fn meta() -> Meta {
    Meta {
        creator: "test".to_owned(),
        probe_set: "syscall".to_owned(),
        subject: "dir:/db".to_owned(),
        unseen: vec![("io_uring on fixed files".to_owned(), 12)],
        lost_events: 3,
        ..Meta::default()
    }
}

pub fn file(path: &str, role: &str, size: u64) -> File {
    File { path: path.to_owned(), role: Role::from_name(role), size, device: "8:1".to_owned(), ino: 42 }
}

/// A linear congruential generator with the constants of Knuth's MMIX.
pub struct Lcg(pub u64);

impl Lcg {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % bound
    }
}

pub fn event(t_ns: u64, op: Op, file: u32, offset: u64, len: u64) -> Event {
    Event { t_ns, dur_ns: 1000, op, file, offset, len, pid: 10, tid: 11, flags: Flags::default(), gap: None }
}

/// Returns no gap for one event in four; otherwise a gap ended by a sleep, and in half of these by another thread's
/// wakeup.
fn gap(lcg: &mut Lcg) -> Option<Gap> {
    let waker = [0, 0, Gap::OTHER, 100 + lcg.below(4) as u32][lcg.below(4) as usize];
    let wake_ns = if waker == 0 { 0 } else { lcg.below(1 << 16) as u32 };
    let (cpu_ns, ready_ns) = (lcg.below(1 << 20), lcg.below(1 << 12) as u32);
    let gap = Gap { cpu_ns, ready_ns, wake_ns, waker, served_ns: wake_ns / 2 };
    (lcg.below(4) > 0).then_some(gap)
}

/// Returns `n` events over three files, sorted by time.
pub fn trace(n: u64, seed: u64) -> Trace {
    let (mut lcg, mut gaps) = (Lcg(seed), Lcg(!seed));
    let files = vec![
        file("/db/t.ibd", "data", 1 << 30),
        file("/db/ib_logfile0", "wal", 96 << 20),
        file("/db/tmp file \"x\".MAD", "temp", 0),
    ];
    let events = (0..n)
        .map(|i| Event {
            t_ns: i * 1000 + lcg.below(1000),
            dur_ns: lcg.below(1 << 20),
            op: Op::ALL[lcg.below(Op::ALL.len() as u64) as usize],
            file: lcg.below(3) as u32,
            offset: lcg.below(1 << 16) * 16384,
            len: 16384 << lcg.below(3),
            pid: 100,
            tid: 100 + lcg.below(4) as u32,
            flags: Flags(lcg.below(256) as u16),
            gap: gap(&mut gaps),
        })
        .collect();
    Trace { meta: Meta { duration_ns: n * 1000, ..meta() }, files, events }
}
