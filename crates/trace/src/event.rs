//! The I/O event: one finished operation on one file. Recorders, importers and the replay share this type.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::layout::Role;
use crate::{CodecTime, Processor, path_text};

/// The kind of an operation on a file. [`Op::name`] returns its spelling in the trace file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Op {
    /// Reads bytes at an offset.
    #[default]
    Read,
    /// Writes bytes at an offset.
    Write,
    /// Makes data and metadata durable (`fsync`).
    Fsync,
    /// Makes data durable: `fdatasync`, `sync_file_range` with waits, `msync`.
    Fdatasync,
    /// Sets the file's length to `offset` bytes.
    Truncate,
    /// Deallocates a range (`FALLOC_FL_PUNCH_HOLE`, `ZERO_RANGE`).
    Punch,
    /// Preallocates a range (`fallocate` without a mode that frees).
    Allocate,
    /// Opens the file; `len` is its size at that time.
    Open,
    /// Closes the last known descriptor.
    Close,
    /// Creates the file.
    Create,
    /// Removes the name.
    Unlink,
    /// Renames the file; `offset` is the id of the file that had the new name, if any.
    Rename,
    /// Maps or faults in pages (`len` bytes at `offset` of an `mmap`).
    Map,
    /// Locks a range (`fcntl`, `flock`). With [`Flags::FAILED`], the lock was refused because another process holds it.
    /// A `len` of 0 reaches to the end of the file.
    Lock,
    /// Releases the lock of a range.
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

    /// Returns the spelling in the trace file and in JSON.
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

    /// Returns the operation with the given name, or `None` if this version does not know it.
    pub fn from_name(name: &str) -> Option<Op> {
        Op::ALL.into_iter().find(|op| op.name() == name)
    }

    /// Whether the operation makes earlier writes durable (`fsync` or `fdatasync`).
    pub fn is_sync(self) -> bool {
        matches!(self, Op::Fsync | Op::Fdatasync)
    }

    /// Whether data is durable when the operation returns: a sync, or a synchronous write.
    pub fn is_commit(self, flags: Flags) -> bool {
        self.is_sync() || self == Op::Write && flags.contains(Flags::SYNC)
    }
}

/// One operation. Sizes are in bytes, times in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// Start of the operation, in nanoseconds since the start of the recording.
    pub t_ns: u64,
    /// Time that the caller waited, in nanoseconds; 0 if unknown.
    pub dur_ns: u64,
    /// The kind of operation.
    pub op: Op,
    /// Index into the trace's file table.
    pub file: u32,
    /// Offset of the first byte; 0 for operations without an offset.
    pub offset: u64,
    /// Bytes transferred, which can be fewer than requested.
    pub len: u64,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// How the operation was issued.
    pub flags: Flags,
    /// What the thread did before the operation, if the recorder saw it.
    pub gap: Option<Gap>,
}

/// What a thread did between the end of its previous recorded operation and the start of this one. The time in between
/// consists of CPU time, waiting for a CPU, and sleep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gap {
    /// CPU time that the thread used, in nanoseconds. A trace stores at most 2^63 − 1.
    pub cpu_ns: u64,
    /// Time that the thread was ready to run and waited for a CPU, in nanoseconds; at most 4.29 s.
    pub ready_ns: u32,
    /// Time from the wakeup that ended the thread's last sleep to the start of the operation, in nanoseconds; at most
    /// 4.29 s. 0 if the thread did not sleep.
    pub wake_ns: u32,
    /// The origin of the wakeup that ended the thread's last sleep: the id of a thread with recorded I/O,
    /// [`Gap::OTHER`], [`Gap::TIMER`], [`Gap::SIBLING`], or 0 if the thread did not sleep.
    pub waker: u32,
    /// Time before wakeups by [`Gap::OTHER`] and [`Gap::SIBLING`], each from the wakeup before it or the beginning of the gap, in
    /// nanoseconds; at most 4.29 s. 0 in traces of earlier releases.
    pub served_ns: u32,
}

impl Gap {
    /// [`Gap::waker`] for another process (a client, for example) or a packet from the network. In traces of earlier releases, and of other
    /// recorders, also for a thread of the same process without recorded I/O.
    pub const OTHER: u32 = u32::MAX;
    /// [`Gap::waker`] for an interrupt, usually of a timer.
    pub const TIMER: u32 = u32::MAX - 1;
    /// [`Gap::waker`] for a thread of the same process without recorded I/O, which hands out a server's requests, for example.
    pub const SIBLING: u32 = u32::MAX - 2;

    /// Time that the thread slept in this gap, in nanoseconds. `length_ns` is the length of the gap.
    ///
    /// This is what remains without the CPU time and the time ready, but at most the time until the last wakeup. After it, the thread
    /// ran or could run: what remains of that time was taken from the CPU by interrupts or by a hypervisor.
    pub fn sleep_ns(&self, length_ns: u64) -> u64 {
        if self.waker == 0 {
            return 0;
        }
        let off_cpu = length_ns.saturating_sub(self.cpu_ns).saturating_sub(u64::from(self.ready_ns));
        off_cpu.min(length_ns.saturating_sub(u64::from(self.wake_ns)))
    }

    /// The part of [`Gap::sleep_ns`] in which the thread waited for a request: until a wakeup by [`Gap::OTHER`] or [`Gap::SIBLING`], in
    /// nanoseconds. `length_ns` is the length of the gap.
    ///
    /// If another thread ended the last sleep, the thread had got a request before and then waited for that thread. How its CPU time divides
    /// between these two parts is not known, so that before the last wakeup, and the time ready, are left out: it may have waited longer.
    pub fn idle_ns(&self, length_ns: u64) -> u64 {
        let sleep = self.sleep_ns(length_ns);
        match self.waker {
            Gap::OTHER | Gap::SIBLING => sleep,
            Gap::TIMER => 0,
            _ => {
                let busy = self.cpu_ns.saturating_sub(u64::from(self.wake_ns)) + u64::from(self.ready_ns);
                sleep.min(u64::from(self.served_ns).saturating_sub(busy))
            }
        }
    }
}

/// The maximum number of bytes that one call moves, rounded up. Linux's `MAX_RW_COUNT` is one page less.
pub const MAX_CALL: u64 = 1 << 31;

impl Event {
    /// Whether the operation reads or writes `len` bytes: reads, writes and page faults. The `mmap` call itself moves
    /// no data.
    pub fn moves_bytes(&self) -> bool {
        matches!(self.op, Op::Read | Op::Write) || self.is_page_fault()
    }

    /// Whether the operation is a page fault in a mapped file.
    pub fn is_page_fault(&self) -> bool {
        self.op == Op::Map && self.dur_ns == 0
    }

    /// Whether the operation reads from the file system: a read, or a page fault whose page was not in the page cache.
    /// OpenZFS keeps the pages of mapped files in the page cache, too.
    pub fn is_read(&self) -> bool {
        self.op == Op::Read || (self.is_page_fault() && !self.flags.contains(Flags::CACHED))
    }
}

/// How an operation was issued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// The descriptor was opened with `O_DIRECT`.
    pub const DIRECT: Flags = Flags(1);
    /// The write was durable when it returned: `O_SYNC`/`O_DSYNC` or `RWF_(D)SYNC`.
    pub const SYNC: Flags = Flags(2);
    /// The write appended (`O_APPEND`).
    pub const APPEND: Flags = Flags(4);
    /// The operation was issued through libaio.
    pub const AIO: Flags = Flags(8);
    /// The operation was issued through io_uring.
    pub const URING: Flags = Flags(16);
    /// The lock is shared.
    pub const SHARED: Flags = Flags(32);
    /// The lock was refused because another process holds it.
    pub const FAILED: Flags = Flags(64);
    /// The faulted pages were in the page cache, so nothing was read.
    pub const CACHED: Flags = Flags(128);

    /// Whether all bits of `other` are set.
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

/// A file of the trace. [`Event::file`] is its index in the file table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct File {
    /// The last known absolute path, as [`path_text`](crate::path_text) writes it.
    pub path: String,
    /// Size in bytes at the end of the recording, or when the file was removed.
    pub size: u64,
    /// The file's role in its database. `None` if no layout covers the file: readers then derive the role from its use. Stored as
    /// the role's name, or an empty text.
    #[serde(with = "role_text")]
    pub role: Option<Role>,
    /// The device as `major:minor`; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub device: String,
    /// Inode number; 0 if unknown.
    #[serde(default)]
    pub ino: u64,
}

/// The spelling of a [`File::role`]: the role's name, or an empty text.
mod role_text {
    use serde::{Deserialize as _, Deserializer, Serializer, de};

    use crate::layout::Role;

    pub fn serialize<S: Serializer>(role: &Option<Role>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(role.map_or("", Role::name))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Role>, D::Error> {
        let name = String::deserialize(from)?;
        match (name.as_str(), Role::from_name(&name)) {
            ("", _) => Ok(None),
            (_, None) => Err(de::Error::custom(format!("{name:?} is not a role"))),
            (_, role) => Ok(role),
        }
    }
}

impl File {
    /// The role, which is `other` for a file without one.
    pub fn known_role(&self) -> Role {
        self.role.unwrap_or_default()
    }

    /// The last known absolute path.
    pub fn host_path(&self) -> PathBuf {
        path_text::decode(&self.path)
    }
}

/// Metadata of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// The program that wrote the trace, e.g. `poolwright 0.1.0`.
    pub creator: String,
    /// The source of the events: `syscall` and `block` (the recorder), `mount`, or an importer's name (`fio-iolog`).
    pub probe_set: String,
    /// The recorded subject: `dir:/path`, `pid:123`, `zvol:/dev/zvol/pool/volume`, `import:file`.
    pub subject: String,
    /// Length of the recording in nanoseconds.
    pub duration_ns: u64,
    /// Events that the kernel dropped because the buffer was full.
    pub lost_events: u64,
    /// Kinds of I/O that the probe set could not see, with a count where known: `[("io_uring on fixed files", 12)]`.
    pub unseen: Vec<(String, u64)>,
    /// Kernel release and machine, for the report.
    pub host: String,
    /// The number of CPUs of the machine; 0 if unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cores: u32,
    /// The machine's processor; `None` if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<Processor>,
    /// How long codecs take there; empty if it was not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub codecs: Vec<CodecTime>,
    /// CPU time in each second of the recording, in order; empty if it was not measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu: Vec<CpuSecond>,
}

/// A kind of operation that the probe set cannot see, in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UnseenOperation {
    /// Description of the operations.
    pub what: String,
    /// How often they occurred; 0 if unknown.
    pub count: u64,
}

impl UnseenOperation {
    /// Converts an entry of [`Meta::unseen`].
    pub fn new((what, count): &(String, u64)) -> UnseenOperation {
        UnseenOperation { what: what.clone(), count: *count }
    }
}

/// CPU time used in one second of a recording, including the recorder's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSecond {
    /// CPU time of the whole machine, summed over its CPUs, in nanoseconds.
    pub host_ns: u64,
    /// CPU time of the recorded processes, in nanoseconds.
    pub subject_ns: u64,
    /// CPU time of other processes in nanoseconds, except the recorder, kernel threads and FUSE servers.
    #[serde(default)]
    pub others_ns: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde passes a reference
fn is_zero(n: &u32) -> bool {
    *n == 0
}
