/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The probe set `syscall`: tracepoints of system call entry and exit, of io_uring and of the page cache. It
 * also works on kernels that refuse fentry (lockdown). Positions are read from the open file, so lseek() need
 * not be followed.
 */
#include "follow.h"
#include "file.h"
#include "aio.h"
#include "uring.h"
#include "names.h"
#include "syscall_table.h"
#include "ends.h"
#include "vma.h"
#include "gap.h"

#define TS_COMPAT 2
#define AT_EMPTY_PATH 0x1000
#define STATX_INO 0x100
#define MAP_ANONYMOUS 0x20
#define MS_SYNC 4

static __always_inline bool closes(u32 nr)
{
	return nr == NR_CLOSE || nr == NR_DUP2 || nr == NR_DUP3;
}

/* Whether a close() at this time would be the last. */
static __always_inline bool last_reference(u64 file)
{
	if (bpf_core_field_exists(struct file, f_ref))
		return READ_AT(struct file, file, f_ref.refcnt.counter) == 0;
	return READ_AT(struct file___count, file, f_count.counter) == 1;
}

/*
 * Handles the announcements of the recorder, which calls statx() on its own descriptors: what it asks only the
 * inode number of becomes a followed directory (or file), and a file gets its number. This identifies files as
 * the kernel does, without device numbers, which btrfs and overlayfs report differently to user space.
 */
static __always_inline void announce(struct call *call)
{
	struct control *c = controls();
	u64 file, dentry, inode;
	u32 id;

	if (!c || !(call->arg[2] & AT_EMPTY_PATH))
		return;
	if (!c->start_ns)
		c->start_ns = bpf_ktime_get_ns();
	file = fd_file(call->arg[0]);
	if (!file)
		return;
	if (call->arg[3] != STATX_INO) {
		file_id(file);
		return;
	}
	inode = (u64)READ_AT(struct file, file, f_inode);
	dentry = (u64)READ_AT(struct file, file, f_path.dentry);
	id = roots_known;
	if (config.by_pid || id >= NO_ROOT || bpf_map_update_elem(&roots, &dentry, &id, BPF_NOEXIST))
		return;
	if (!id) {
		root_dentry = dentry;
		root_sb = (u64)READ_AT(struct inode, inode, i_sb);
	}
	roots_known = id + 1;
	file_id(file);
}

struct closing {
	struct call *call;
	u32 first;
};

static long close_one(u32 i, struct closing *c)
{
	u64 file = fd_file(c->first + i);
	struct file_key key = {};
	u32 *known;

	if (!regular(file))
		return 0;
	key_of((u64)READ_AT(struct file, file, f_inode), &key);
	known = bpf_map_lookup_elem(&files, &key);
	if (known && last_reference(file))
		emit_call(c->call, OP_CLOSE, open_flags(READ_AT(struct file, file, f_flags)), *known, 0, 0);
	return 0;
}

/* Emits the closes of close_range() at its start, because the files are gone at its end. It does not fail. */
static __always_inline void start_close_range(struct call *call)
{
	struct closing c = { .call = call, .first = call->arg[0] };
	u32 last = call->arg[1], end = bpf_get_current_task_btf()->files->fdt->max_fds;

	call->gap.known = 0;
	if (last < end)
		end = last + 1;
	if (c.first < end)
		bpf_loop(end - c.first, close_one, &c, 0);
}

static __always_inline void start_file(struct call *call, u64 file, u32 id)
{
	call->file = id;
	if (!id || (closes(call->nr) && !last_reference(file)))
		return;
	call->touches = 1;
	call->file_ptr = file;
	call->pos = READ_AT(struct file, file, f_pos);
	call->f_flags = READ_AT(struct file, file, f_flags);
	if (call->f_flags & O_APPEND || call->nr == NR_PWRITEV2)
		call->size = size_of(file);
	call->active = 1;
}

/* Returns the file of a call that is known at its start, or 0 if the call is not recorded. */
static __always_inline u64 early_file(struct pt_regs *regs, u32 what)
{
	switch (what) {
	case START_FD0:
		return fd_file((u32)regs->di);
	case START_FD1:
		return (u32)regs->di == (u32)regs->si ? 0 : fd_file((u32)regs->si);
	case START_FCNTL:
		return sets_lock((u32)regs->si) ? fd_file((u32)regs->di) : 0;
	case START_FADVISE:
		return (u32)regs->r10 == POSIX_FADV_WILLNEED ? fd_file((u32)regs->di) : 0;
	case START_FD4:
		return regs->r10 & MAP_ANONYMOUS ? 0 : fd_file((u32)regs->r8);
	default:
		return 0;
	}
}

/* Whether an ioctl command shares, swaps or allocates extents of files. */
static __always_inline bool is_extent_ioctl(u32 command)
{
	switch (command) {
	case FICLONE:
	case FICLONERANGE:
	case 0xc0189436: /* FIDEDUPERANGE */
	case 0x40305828: /* FS_IOC_RESVSP, _UNRESVSP, _RESVSP64, _UNRESVSP64, _ZERO_RANGE */
	case 0x40305829:
	case 0x4030582a:
	case 0x4030582b:
	case 0x40305839:
	case 0x40285881: /* XFS_IOC_EXCHANGE_RANGE */
	case 0xc028660f: /* EXT4_IOC_MOVE_EXT */
		return true;
	default:
		return false;
	}
}

/* Whether a call of START_MPROTECT and following may concern files. */
static __always_inline bool concerns_files(struct pt_regs *regs, u32 what)
{
	switch (what) {
	case START_MPROTECT:
		return regs->dx & PROT_WRITE;
	case START_MADVISE:
		return (u32)regs->dx == MADV_REMOVE || (u32)regs->dx == MADV_WILLNEED;
	case START_IOCTL:
		return is_extent_ioctl(regs->si);
	default: /* close_range without flags */
		return !(u32)regs->dx;
	}
}

/*
 * A descriptor that is not a regular file's. Calls of 32-bit programs also end up here: they have other
 * numbers and registers.
 */
static __noinline int not_regular(u64 file, u32 nr)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;

	if (!config.by_pid && !(bpf_get_current_task_btf()->thread_info.status & TS_COMPAT))
		return 0;
	if (!followed(tgid) || tgid == config.own_tgid)
		return 0;
	if (bpf_get_current_task_btf()->thread_info.status & TS_COMPAT)
		count(COUNT_COMPAT);
	else if (!closes(nr) && nr != NR_FCNTL && nr != NR_FLOCK)
		count_device(file);
	return 0;
}

/* Whether the thread is a recorder's (`THREAD_NAME` in src/recorder.rs), whose operations are left out. */
static __always_inline bool is_recorder(struct task_struct *task)
{
	const char name[16] = "pw-recorder";

	return *(u64 *)task->comm == *(u64 *)name && *(u32 *)(task->comm + 8) == *(u32 *)(name + 8);
}

static __always_inline void start(struct call *call, u32 what)
{
	switch (what) {
	case START_MSYNC:
		if (call->arg[2] & MS_SYNC)
			start_mapped(call);
		break;
	case START_MADVISE:
		start_mapped(call);
		break;
	case START_AIO:
		aio_submit(call);
		call->active = 1;
		break;
	case START_CLOSE_RANGE:
		start_close_range(call);
		call->active = 1;
		break;
	default:
		call->active = 1;
	}
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_sys_enter, struct pt_regs *regs, long nr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct call *call;
	u32 what, tgid, id = 0;
	u64 file = 0;

	if ((u64)nr >= NR_MAX)
		return 0;
	what = starts[nr];
	if (!what)
		return 0;
	/* Most calls of a server are on sockets and pipes: return before doing any other work for them. */
	if (what <= START_FADVISE) {
		file = early_file(regs, what);
		if (!regular(file))
			return not_regular(file, nr);
	} else if (what >= START_MPROTECT && !concerns_files(regs, what)) {
		return 0;
	}
	tgid = bpf_get_current_pid_tgid() >> 32;
	if (!followed(tgid) || (what == START_ANNOUNCE) != (tgid == config.own_tgid))
		return 0;
	if (task->thread_info.status & TS_COMPAT) {
		count(COUNT_COMPAT);
		return 0;
	}
	if (file) {
		id = file_id(file);
		if (!id)
			return 0;
	}
	if (what == START_MPROTECT) {
		start_mprotect(regs->di);
		return 0;
	}
	if (what != START_ANNOUNCE && is_recorder(task)) {
		if (id)
			count(COUNT_RECORDERS);
		return 0;
	}
	call = bpf_task_storage_get(&calls, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!call) {
		count(COUNT_TABLE_FULL);
		return 0;
	}
	call->active = 0;
	call->emitted = 0;
	call->nr = nr;
	call->file = 0;
	call->arg[0] = regs->di;
	call->arg[1] = regs->si;
	call->arg[2] = regs->dx;
	call->arg[3] = regs->r10;
	call->arg[4] = regs->r8;
	call->arg[5] = regs->r9;
	if (what == START_ANNOUNCE) {
		announce(call);
		return 0;
	}
	call->t = bpf_ktime_get_ns();
	if (file)
		start_file(call, file, id);
	else
		start(call, what);
	if (call->active)
		start_gap(call, task);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_sys_exit, struct pt_regs *regs, long ret)
{
	u64 nr = regs->orig_ax;
	struct task_struct *task = bpf_get_current_task_btf();
	struct call *call;

	if (nr >= NR_MAX || !starts[nr])
		return 0;
	call = bpf_task_storage_get(&calls, task, 0, 0);
	if (!call || !call->active || call->nr != nr)
		return 0;
	call->active = 0;
	if (nr == NR_IO_SUBMIT)
		aio_submitted(call, ret);
	else if (nr == NR_FCNTL || nr == NR_FLOCK)
		end_lock(call, ret);
	else if (ret >= 0 || (nr == NR_MMAP && (u64)ret < -4095UL))
		end(call, ret);
	if (call->emitted)
		end_gap(call, task);
	return 0;
}

SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(on_uring_submit, struct io_kiocb *req)
{
	return uring_submitted((u64)req);
}

/* The name of the same tracepoint before 6.4. */
SEC("tp_btf/io_uring_submit_sqe")
int BPF_PROG(on_uring_submit_old, struct io_kiocb *req)
{
	return uring_submitted((u64)req);
}

SEC("tp_btf/io_uring_complete")
int BPF_PROG(on_uring_complete, void *ctx_, void *req)
{
	return uring_completed((u64)req);
}

/*
 * Records the gap that ends with a page fault. The next gap begins at once and includes the duration of the
 * fault, because no tracepoint marks its end. A fault inside a recorded call is part of that call.
 */
static __always_inline void fault_gap(struct io *io)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct call *call = bpf_task_storage_get(&calls, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!call || call->active)
		return;
	call->t = io->t;
	start_gap(call, task);
	io->gap = call->gap;
	end_gap(call, task);
}

/* Emits page faults on a followed file. They have no duration. */
static __always_inline void mapped(u64 mapping, u64 first, u64 last, u16 flags)
{
	u64 id = bpf_get_current_pid_tgid(), inode;
	struct file_key key = {};
	struct io io = {};
	u32 *file;

	if (!followed(id >> 32) || id >> 32 == config.own_tgid)
		return;
	inode = (u64)READ_AT(struct address_space, mapping, host);
	key_of(inode, &key);
	file = bpf_map_lookup_elem(&files, &key);
	if (!file) {
		if (config.by_pid)
			count(COUNT_UNKNOWN_FAULTS);
		return;
	}
	io.op = OP_MAP;
	io.flags = flags;
	io.file = *file;
	io.t = bpf_ktime_get_ns();
	io.off = first << PAGE_SHIFT;
	io.len = (last - first + 1) << PAGE_SHIFT;
	io.tgid = id >> 32;
	io.pid = id;
	fault_gap(&io);
	emit(&io);
}

SEC("tp_btf/mm_filemap_fault")
int BPF_PROG(on_fault, struct address_space *mapping, unsigned long index)
{
	mapped((u64)mapping, index, index, 0);
	return 0;
}

SEC("tp_btf/mm_filemap_map_pages")
int BPF_PROG(on_map_pages, struct address_space *mapping, unsigned long first, unsigned long last)
{
	/* The pages around the fault that are in the page cache: nothing is read. */
	mapped((u64)mapping, first, last, FLAG_CACHED);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *task)
{
	woken(task);
	return 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(on_hrtimer)
{
	return set_interrupted(BY_DEVICE, 1);
}

SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(on_hrtimer_end)
{
	return set_interrupted(BY_DEVICE, 0);
}

SEC("tp_btf/timer_expire_entry")
int BPF_PROG(on_timer)
{
	return set_interrupted(BY_DEVICE, 1);
}

SEC("tp_btf/timer_expire_exit")
int BPF_PROG(on_timer_end)
{
	return set_interrupted(BY_DEVICE, 0);
}

SEC("tp_btf/irq_handler_entry")
int BPF_PROG(on_irq)
{
	return set_interrupted(BY_DEVICE, 1);
}

SEC("tp_btf/irq_handler_exit")
int BPF_PROG(on_irq_end)
{
	return set_interrupted(BY_DEVICE, 0);
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(on_softirq, unsigned int vector)
{
	return vector == NET_RX_SOFTIRQ ? set_interrupted(BY_NETWORK, 1) : 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(on_softirq_end, unsigned int vector)
{
	return vector == NET_RX_SOFTIRQ ? set_interrupted(BY_NETWORK, 0) : 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	u32 from = parent->tgid, to = child->tgid;
	u8 one = 1;

	if (from == to)
		return 0;
	if (!bpf_map_lookup_elem(&tgids, &from))
		/*
		 * Process ids are reused: an entry left by an ended process must not cause an unrelated process to be
		 * followed.
		 */
		bpf_map_delete_elem(&tgids, &to);
	else if (bpf_map_update_elem(&tgids, &to, &one, BPF_ANY))
		count(COUNT_TABLE_FULL);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	u32 tgid = task->tgid;

	/* The last thread of the process has ended. Its id may be reused. */
	if (task->signal->live.counter == 0)
		bpf_map_delete_elem(&tgids, &tgid);
	return 0;
}
