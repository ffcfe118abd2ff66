//! The I/O event: one finished operation on one file, as every recorder, importer and replayer knows it.

use serde::{Deserialize, Serialize};

/// What was done to a file. The spelling of [`Op::name`] is the one in the trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Op {
    /// Bytes read at an offset.
    Read,
    /// Bytes written at an offset.
    Write,
    /// `fsync`: data and metadata made durable.
    Fsync,
    /// `fdatasync`, `sync_file_range` with waits, `msync`: data made durable.
    Fdatasync,
    /// The file's length set to `offset` bytes.
    Truncate,
    /// A range deallocated (`FALLOC_FL_PUNCH_HOLE`, `ZERO_RANGE`).
    Punch,
    /// A range allocated ahead (`fallocate` without a mode that frees).
    Allocate,
    /// The file opened; `len` is its size then.
    Open,
    /// The last descriptor seen was closed.
    Close,
    /// The file created.
    Create,
    /// The name removed.
    Unlink,
    /// The file took another file's name; `offset` is the id of the file that was there, if any.
    Rename,
    /// Pages faulted in or mapped (`mmap` region of `len` bytes at `offset`).
    Map,
    /// A range was locked (`fcntl`, `flock`) or, with [`Flags::FAILED`], refused because another process has it locked. A `len`
    /// of 0 reaches to the end of the file.
    Lock,
    /// The lock of a range given up.
    Unlock,
}

impl Op {
    /// Every operation, in the order of declaration.
    pub const ALL: [Op; 15] = [
        Op::Read,
        Op::Write,
        Op::Fsync,
        Op::Fdatasync,
        Op::Truncate,
        Op::Punch,
        Op::Allocate,
        Op::Open,
        Op::Close,
        Op::Create,
        Op::Unlink,
        Op::Rename,
        Op::Map,
        Op::Lock,
        Op::Unlock,
    ];

    /// The spelling in the trace file and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Fsync => "fsync",
            Op::Fdatasync => "fdatasync",
            Op::Truncate => "truncate",
            Op::Punch => "punch",
            Op::Allocate => "allocate",
            Op::Open => "open",
            Op::Close => "close",
            Op::Create => "create",
            Op::Unlink => "unlink",
            Op::Rename => "rename",
            Op::Map => "map",
            Op::Lock => "lock",
            Op::Unlock => "unlock",
        }
    }

    /// The operation of that name; `None` for a name this version does not know.
    pub fn from_name(name: &str) -> Option<Op> {
        Op::ALL.into_iter().find(|op| op.name() == name)
    }

    /// Whether data was made durable by this operation itself (`fsync` or `fdatasync`).
    pub fn is_sync(self) -> bool {
        matches!(self, Op::Fsync | Op::Fdatasync)
    }
}

/// One operation. Sizes are bytes, times nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Start of the operation, since the start of the recording.
    pub t_ns: u64,
    /// How long the caller waited; 0 where the source does not say.
    pub dur_ns: u64,
    /// What was done.
    pub op: Op,
    /// Index into the trace's file table.
    pub file: u32,
    /// First byte; 0 where an operation has none.
    pub offset: u64,
    /// Bytes really transferred (not asked for).
    pub len: u64,
    /// Process and thread, as the kernel numbers them.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// See [`Flags`].
    pub flags: Flags,
    /// What the thread did before, where the recorder saw it.
    pub gap: Option<Gap>,
}

/// What a thread did between the end of its previous recorded operation and the start of this one. The gap is as long as
/// the time between the two; what is neither CPU time nor waiting for a CPU is sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// CPU time that the thread used, in nanoseconds. A trace stores at most 2^63 − 1.
    pub cpu_ns: u64,
    /// Time that it was ready to run and waited for a CPU, in nanoseconds; at most 4.29 s.
    pub ready_ns: u32,
    /// From the wakeup that ended its last sleep to the start of the operation, in nanoseconds; at most 4.29 s. 0 if it did
    /// not sleep.
    pub wake_ns: u32,
    /// Who woke it from its last sleep: the id of a thread that does recorded I/O itself, [`Gap::OTHER`], [`Gap::TIMER`], or 0
    /// if it did not sleep.
    pub waker: u32,
}

impl Gap {
    /// [`Gap::waker`] of another process (a client, for example), or of a thread without recorded I/O.
    pub const OTHER: u32 = u32::MAX;
    /// [`Gap::waker`] of an interrupt: a timer, as a rule.
    pub const TIMER: u32 = u32::MAX - 1;
}

/// No call moves more bytes than this on Linux (`MAX_RW_COUNT` is a page less).
pub const LONGEST_CALL: u64 = 1 << 31;

impl Event {
    /// Whether it reads or writes `len` bytes: reads, writes and page faults; the call of `mmap` itself touches nothing.
    pub fn moves_bytes(&self) -> bool {
        matches!(self.op, Op::Read | Op::Write) || (self.op == Op::Map && self.dur_ns == 0)
    }
}

/// How the operation was issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// The descriptor was opened with `O_DIRECT`.
    pub const DIRECT: Flags = Flags(1);
    /// `O_SYNC`/`O_DSYNC` or `RWF_(D)SYNC`: durable when it returned.
    pub const SYNC: Flags = Flags(2);
    /// Appended (`O_APPEND`).
    pub const APPEND: Flags = Flags(4);
    /// Issued through libaio.
    pub const AIO: Flags = Flags(8);
    /// Issued through io_uring.
    pub const URING: Flags = Flags(16);
    /// Of a lock: others may hold it too.
    pub const SHARED: Flags = Flags(32);
    /// Of a lock: refused, because another process has the range locked.
    pub const FAILED: Flags = Flags(64);
    /// Of a page fault: the pages were in the page cache, and nothing was read.
    pub const CACHED: Flags = Flags(128);

    /// Whether every bit of `other` is set.
    pub fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// A file of the trace; its index in the table is what [`Event::file`] holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// Absolute path when the recording saw it last.
    pub path: String,
    /// Size in bytes at the end of the recording (or at its removal).
    pub size: u64,
    /// What the file is to its database: data, wal, binlog, temp, index, backup, archive, import, other.
    pub role: String,
    /// Device as `major:minor`, empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub device: String,
    /// Inode number, 0 if unknown.
    #[serde(default)]
    pub ino: u64,
}

/// What a trace says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// Who wrote it, e.g. `poolwright 0.1.0`.
    pub creator: String,
    /// How it was seen: `syscall`, `vfs`, `mount`, or an importer's name (`fio-iolog`).
    pub probe_set: String,
    /// What was followed: `dir:/path`, `pid:123`, `import:file`.
    pub subject: String,
    /// Length of the recording.
    pub duration_ns: u64,
    /// Events the kernel dropped because the buffer was full.
    pub lost_events: u64,
    /// What the probe set could not see, with a count where there is one: `[("io_uring on fixed files", 12)]`.
    pub unseen: Vec<(String, u64)>,
    /// Kernel release and machine, for the report.
    pub host: String,
    /// CPUs of the machine; 0 if unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cores: u32,
    /// CPU time in each second of the recording, in order; empty if it was not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu: Vec<CpuSecond>,
}

/// CPU time used in one second of a recording, the recorder's own share included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSecond {
    /// By everything on the machine, in nanoseconds over all its CPUs.
    pub host_ns: u64,
    /// By the processes of the recorded subject, in nanoseconds.
    pub subject_ns: u64,
    /// By other processes, in nanoseconds: neither the recorder nor threads of the kernel nor servers of FUSE.
    #[serde(default)]
    pub others_ns: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference
fn is_zero(n: &u32) -> bool {
    *n == 0
}
