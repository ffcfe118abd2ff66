//! What is attached where, as one table: programs, their tracepoints and what is lost without each.

/// A program of a set and the tracepoint it runs at.
pub(crate) struct Point {
    /// Function in the BPF object.
    pub program: &'static str,
    /// Tracepoint; the kernel has it if its BTF has `btf_trace_<name>`.
    pub tracepoint: &'static str,
    /// When it is attached.
    pub when: When,
    /// What a trace misses without it; `None` if the set is useless then.
    pub unseen_without: Option<&'static str>,
}

/// Which recordings a program takes part in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// All.
    Always,
    /// Only those that follow processes.
    ByPid,
    /// Only where the tracepoint it stands in for has not got its newer name.
    Instead(&'static str),
}

/// A way to see file operations.
pub(crate) struct ProbeSet {
    /// As written to the trace.
    pub name: &'static str,
    /// The compiled programs.
    pub object: &'static [u8],
    /// Its programs.
    pub points: &'static [Point],
}

/// Aligned as an ELF reader wants it.
#[repr(align(8))]
struct Aligned<T: ?Sized>(T);

static SYSCALL_OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/syscall.bpf.o")));

const fn point(
    program: &'static str,
    tracepoint: &'static str,
    when: When,
    unseen_without: Option<&'static str>,
) -> Point {
    Point { program, tracepoint, when, unseen_without }
}

/// Every probe set, the best first. The recorder takes the first that the kernel permits.
pub(crate) static PROBE_SETS: &[ProbeSet] = &[ProbeSet {
    name: "syscall",
    object: &SYSCALL_OBJECT.0,
    points: &[
        point("on_sys_enter", "sys_enter", When::Always, None),
        point("on_sys_exit", "sys_exit", When::Always, None),
        point("on_uring_submit", "io_uring_submit_req", When::Always, Some(URING)),
        point(
            "on_uring_submit_old",
            "io_uring_submit_sqe",
            When::Instead("io_uring_submit_req"),
            Some(URING),
        ),
        point("on_uring_complete", "io_uring_complete", When::Always, Some(URING)),
        point("on_fault", "mm_filemap_fault", When::Always, Some(FAULTS)),
        point("on_map_pages", "mm_filemap_map_pages", When::Always, Some(FAULTS)),
        point("on_waking", "sched_waking", When::Always, Some(WAKINGS)),
        point("on_hrtimer", "hrtimer_expire_entry", When::Always, Some(INTERRUPTS)),
        point("on_hrtimer_end", "hrtimer_expire_exit", When::Always, Some(INTERRUPTS)),
        point("on_timer", "timer_expire_entry", When::Always, Some(INTERRUPTS)),
        point("on_timer_end", "timer_expire_exit", When::Always, Some(INTERRUPTS)),
        point("on_irq", "irq_handler_entry", When::Always, Some(INTERRUPTS)),
        point("on_irq_end", "irq_handler_exit", When::Always, Some(INTERRUPTS)),
        point("on_fork", "sched_process_fork", When::ByPid, None),
        point("on_exit", "sched_process_exit", When::ByPid, None),
    ],
}];

const URING: &str = "io_uring (this kernel lacks the tracepoints)";
const WAKINGS: &str = "which thread woke another (this kernel lacks the tracepoint)";
const INTERRUPTS: &str = "wakeups by a timer or a device (this kernel lacks tracepoints)";
const FAULTS: &str = "page faults on mapped files (this kernel lacks the tracepoints)";

/// The words for each counter that the programs keep, in the order of `enum counter` in `bpf/record.h`. The first is
/// the number of events lost.
pub(crate) const COUNTERS: &[&str] = &[
    "lost",
    "events on files beyond the table's 1048576",
    "libaio requests still in flight at the end, or whose end was taken in user space (recorded without a duration)",
    "libaio batches or requests not readable in full",
    "io_uring requests that open, close, rename, unlink or splice, of any process if a directory is followed",
    "io_uring requests still in flight at the end, or ended without a completion entry",
    "fallocate calls that collapse or insert a range",
    "splice calls",
    "shared writable maps (what was written through them later)",
    "msync calls whose map was busy",
    "calls of 32-bit programs",
    "requests in flight beyond the tables",
];

/// Index of the counter of requests reaped in user space.
pub(crate) const COUNTER_REAPED: usize = 2;
/// Index of the counter of io_uring requests that never completed visibly.
pub(crate) const COUNTER_SILENT: usize = 5;
