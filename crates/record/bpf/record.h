/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The data exchanged between the kernel and `src/wire.rs`. Both sides define the layout; a test there
 * compares the sizes.
 */
#pragma once

/* In the order of `Op` in crates/trace/src/event.rs. */
enum op {
	OP_READ,
	OP_WRITE,
	OP_FSYNC,
	OP_FDATASYNC,
	OP_TRUNCATE,
	OP_PUNCH,
	OP_ALLOCATE,
	OP_OPEN,
	OP_CLOSE,
	OP_CREATE,
	OP_UNLINK,
	OP_RENAME,
	OP_MAP,
	OP_LOCK,
	OP_UNLOCK,
	/* Not operations of a trace: a name was added to a file, or a symbolic link was made. */
	OP_LINK = 200,
	OP_SYMLINK,
};

/* The bits of `Flags` in crates/trace/src/event.rs. */
enum flag {
	FLAG_DIRECT = 1,
	FLAG_SYNC = 2,
	FLAG_APPEND = 4,
	FLAG_AIO = 8,
	FLAG_URING = 16,
	FLAG_SHARED = 32,
	FLAG_FAILED = 64,
	FLAG_CACHED = 128,
};

enum kind { KIND_IO = 1, KIND_FILE = 2, KIND_NAME = 3 };

/*
 * What a thread did between its previous recorded operation and this one: `Gap` in crates/trace/src/event.rs. `known`: whether the
 * other fields are.
 */
struct gap {
	u64 cpu;
	u32 ready;
	u32 wake;
	u32 waker;
	u32 served;
	u32 known;
	u32 pad;
};

/* `gap.waker` if the waker was not a thread with recorded operations: another process or the network, an interrupt, a thread of the same process. */
#define WAKER_OTHER (~0u)
#define WAKER_TIMER (~0u - 1)
#define WAKER_SIBLING (~0u - 2)

/* A finished operation. */
struct rec_io {
	u8 kind;
	u8 op;
	u16 flags;
	u32 file;
	u64 t;
	u64 dur;
	u64 off;
	u64 len;
	u32 tgid;
	u32 pid;
	struct gap gap;
};

/* The space for the names of a record, of which only the used part is sent. */
#define NAMES_BYTES 16384
#define NAME_SLOT 256
#define NO_ROOT 0xffff
#define MAX_ROOTS 4096

/*
 * `count` names from an entry up to the followed directory (`root`), or to the root of its file system
 * (`NO_ROOT`): innermost first, in the `names` of the record. Each is a word with its length, and the name
 * padded to eight bytes.
 */
struct rec_path {
	u16 root;
	u16 truncated;
	u32 dev;
	u32 count;
};

/* A file seen for the first time; `file` is its number in events. */
struct rec_file {
	u8 kind;
	u8 pad[3];
	u32 file;
	u64 ino;
	u64 size;
	u32 tgid;
	u32 links;
	struct rec_path path;
	u32 pad2;
	u8 names[NAMES_BYTES];
};

#define USER_PATH 4096

/*
 * A call with names as arguments: rename, unlink, truncate, link, symlink. Relative names start at `from_dir`
 * and `to_dir`, whose names are in `names`, followed by the arguments of the call with their final zeros.
 */
struct rec_name {
	u8 kind;
	u8 op;
	u16 flags;
	u32 tgid;
	u32 pid;
	u32 pad;
	u64 t;
	u64 dur;
	u64 arg;
	struct gap gap;
	struct rec_path from_dir;
	struct rec_path to_dir;
	u32 from_len;
	u32 to_len;
	u8 names[NAMES_BYTES];
};

/* Counters per CPU; `src/probes.rs` has a description of each. */
enum counter {
	COUNT_LOST,
	COUNT_FILES_FULL,
	COUNT_AIO_REAPED,
	COUNT_AIO_LONG,
	COUNT_URING_NAMES,
	COUNT_URING_SILENT,
	COUNT_COLLAPSE,
	COUNT_SHARED_MAPS,
	COUNT_BUSY_MAPS,
	COUNT_COMPAT,
	COUNT_TABLE_FULL,
	COUNT_APPENDS,
	COUNT_SYNCS,
	COUNT_FLUSHES,
	COUNT_CLONES,
	COUNT_READAHEAD,
	COUNT_DEVICES,
	COUNT_SHMEM_MAPS,
	COUNT_UNKNOWN_FAULTS,
	COUNT_DEEP,
	COUNT_RECORDERS,
	COUNT_UNENDED,
	COUNT_OTHER_REQUESTS,
	COUNTERS,
};

#define ROOT_PATH 256

struct config {
	u32 own_tgid;
	u32 by_pid;
	/* Length of the followed directory's path; 0 if the path is longer than ROOT_PATH. */
	u32 root_len;
	/* The followed block device: the kernel's dev_t, with the major number in the upper 12 bits. */
	u32 device;
	u8 root_path[ROOT_PATH];
};

/* Shared with the recorder while it runs. */
struct control {
	/* The recorder's thread that announces files now; 0 if none. */
	u32 announcer;
	u32 pad;
	/*
	 * The clock at the start of the recording (the first announcement, if there is one); all records use this
	 * clock. In nanoseconds.
	 */
	u64 start_ns;
};

/*
 * The current call of a thread, kept from its start to its end, and the thread's state at the end of its
 * previous recorded operation.
 */
struct call {
	u64 t;
	u64 arg[6];
	u64 file_ptr;
	s64 pos;
	u32 nr;
	u32 file;
	u32 f_flags;
	u32 active;
	/* Whether the thread has used a followed file before. */
	u32 touches;
	/* Whether the call has emitted an event. */
	u32 emitted;
	/* The gap that ends with this call, if it emits an event. */
	struct gap gap;
	/* The end of the previous recorded operation in nanoseconds; 0 if there was none. See gap.h. */
	u64 t_end;
	u64 idle_end;
	u64 run_delay_end;
	/* The last wakeup since then, in nanoseconds; 0 if there was none. */
	u64 t_wake;
	/* The time before wakeups by WAKER_OTHER and WAKER_SIBLING since then, in nanoseconds. */
	u64 served;
	u32 waker;
	u32 pad;
	/* The file's size before the call, or after it for io_submit(); only for appends. */
	u64 size;
};

struct file_key {
	u64 ino;
	u32 dev;
	u32 gen;
};

struct aio_key {
	u64 iocb;
	u64 tgid;
};

/* An asynchronous request, or one of a block device, between submission and completion. */
struct pending {
	u64 t;
	s64 off;
	u64 len;
	u32 file;
	u32 tgid;
	u32 pid;
	u8 op;
	u8 opcode;
	u16 flags;
};
