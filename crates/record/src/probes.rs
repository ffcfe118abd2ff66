//! The probe set: its programs, their tracepoints, and the kinds of I/O that are lost without each.

/// A program of the set and its tracepoint.
pub(crate) struct Point {
    /// The function in the BPF object.
    pub program: &'static str,
    /// The tracepoint. The kernel has it if its BTF contains `btf_trace_<name>`.
    pub tracepoint: &'static str,
    /// The recordings that attach the program.
    pub when: When,
    /// The entry of `unseen` if the program cannot be attached; `None` if the set cannot work without it.
    pub unseen_without: Option<&'static str>,
}

/// The recordings that attach a program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// All recordings.
    Always,
    /// Recordings of processes.
    ByPid,
    /// Recordings on kernels that have only this older name of a tracepoint.
    Instead(&'static str),
}

/// The name of the probe set in the trace.
pub(crate) const SET: &str = "syscall";

/// Aligns the bytes as the ELF reader requires.
#[repr(align(8))]
struct Aligned<T: ?Sized>(T);

static ALIGNED: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/syscall.bpf.o")));

/// The compiled programs.
pub(crate) static OBJECT: &[u8] = &ALIGNED.0;

const fn point(
    program: &'static str,
    tracepoint: &'static str,
    when: When,
    unseen_without: Option<&'static str>,
) -> Point {
    Point { program, tracepoint, when, unseen_without }
}

/// The programs of the set.
pub(crate) static POINTS: &[Point] = &[
    point("on_sys_enter", "sys_enter", When::Always, None),
    point("on_sys_exit", "sys_exit", When::Always, None),
    point("on_uring_submit", "io_uring_submit_req", When::Always, Some(URING)),
    point("on_uring_submit_old", "io_uring_submit_sqe", When::Instead("io_uring_submit_req"), Some(URING)),
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
    point("on_softirq", "softirq_entry", When::Always, Some(NETWORK)),
    point("on_softirq_end", "softirq_exit", When::Always, Some(NETWORK)),
    point("on_fork", "sched_process_fork", When::ByPid, None),
    point("on_exit", "sched_process_exit", When::ByPid, None),
];

const URING: &str = "io_uring (this kernel lacks the tracepoints)";
const WAKINGS: &str = "which thread woke another (this kernel lacks the tracepoint)";
const INTERRUPTS: &str = "wakeups by a timer or a device (this kernel lacks tracepoints)";
const NETWORK: &str = "wakeups by packets from the network (this kernel lacks the tracepoints)";
const FAULTS: &str = "page faults on mapped files (this kernel lacks the tracepoints)";

/// The entry of `unseen` for each counter of the programs, in the order of `enum counter` in `bpf/record.h`. The first
/// counts lost events.
pub(crate) const COUNTERS: &[&str] = &[
    "lost",
    "events on files beyond the table's 1048576",
    "libaio requests still in flight at the end, or whose end was taken in user space (recorded without a duration)",
    "libaio batches or requests not readable in full",
    "io_uring requests that open, close, rename, link, unlink, splice or remove pages, of any process if a directory is followed",
    "io_uring requests still in flight at the end, or ended without a completion entry",
    "fallocate calls that collapse or insert a range, or unshare it",
    "shared writable maps (what was written through them later)",
    "maps that were busy when their file was looked up",
    "calls of 32-bit programs, of any process if a directory is followed",
    "requests in flight beyond the tables",
    "appends whose position may be another one, because others appended to the file or the requests still ran",
    "calls of sync and syncfs, which also sync the recorded files",
    "calls of sync_file_range that do not wait",
    "clones by ioctl, and other ioctl calls that change a file's extents",
    "calls that read ahead (readahead, fadvise, madvise)",
    "operations on block devices",
    "maps of files in shared memory, on DAX, or populated by mmap on a stacked file system (their page faults)",
    "page faults on files that were mapped without a call of mmap, such as programs",
    "files below more than 4096 directories",
    "operations of other recorders (left out)",
];

/// Index of the counter of requests reaped in user space.
pub(crate) const COUNTER_REAPED: usize = 2;
/// Index of the counter of io_uring requests without a visible completion.
pub(crate) const COUNTER_SILENT: usize = 5;
