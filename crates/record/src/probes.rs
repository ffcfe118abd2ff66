//! The probe sets: their programs, the tracepoints of these, and the kinds of I/O that are lost without each.

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

/// A set of programs that are loaded together.
pub(crate) struct ProbeSet {
    /// The name in the trace.
    pub name: &'static str,
    /// The compiled programs.
    pub object: &'static [u8],
    /// The programs of the set.
    pub points: &'static [Point],
    /// The starts of the names of the programs that see I/O. The others only see wakeups, interrupts and the ends of requests.
    pub sees_io: &'static [&'static str],
}

/// Aligns the bytes as the ELF reader requires.
#[repr(align(8))]
struct Aligned<T: ?Sized>(T);

static SYSCALL_OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/syscall.bpf.o")));
static BLOCK_OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/block.bpf.o")));

/// Records files.
pub(crate) static SYSCALL: ProbeSet = ProbeSet {
    name: "syscall",
    object: &SYSCALL_OBJECT.0,
    points: SYSCALL_POINTS,
    sees_io: &["on_sys_", "on_uring_", "on_fault", "on_map_"],
};

/// Records a block device.
pub(crate) static BLOCK: ProbeSet =
    ProbeSet { name: "block", object: &BLOCK_OBJECT.0, points: BLOCK_POINTS, sees_io: &["on_queue"] };

const fn point(
    program: &'static str,
    tracepoint: &'static str,
    when: When,
    unseen_without: Option<&'static str>,
) -> Point {
    Point { program, tracepoint, when, unseen_without }
}

static BLOCK_POINTS: &[Point] = &[
    point("on_queue", "block_bio_queue", When::Always, None),
    point("on_end", "block_bio_complete", When::Always, None),
    point("on_request_end", "block_rq_complete", When::Always, None),
];

static SYSCALL_POINTS: &[Point] = &[
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
    "requests of the device still in flight at the end, or whose end the kernel did not report (recorded without a duration)",
    "requests of the device that neither read, write, flush nor discard",
];

/// Index of the counter of requests reaped in user space.
pub(crate) const COUNTER_REAPED: usize = 2;
/// Index of the counter of io_uring requests without a visible completion.
pub(crate) const COUNTER_SILENT: usize = 5;
/// Index of the counter of a device's requests without a visible end.
pub(crate) const COUNTER_UNENDED: usize = 21;
