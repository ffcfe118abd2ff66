/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Probe set `syscall`: system call entry and exit, io_uring's and the page cache's tracepoints. For kernels that refuse
 * fentry (lockdown). Positions are read from the open file itself, so nothing has to follow lseek().
 */
#include "common.h"
#include "file.h"
#include "aio.h"
#include "uring.h"
#include "names.h"
#include "syscall_table.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define PAGE_SHIFT 12
#define TS_COMPAT 2
#define AT_EMPTY_PATH 0x1000
#define AT_REMOVEDIR 0x200
#define MAP_SHARED_MASK 3
#define MAP_ANONYMOUS 0x20
#define PROT_WRITE 2
#define MS_SYNC 4
#define SYNC_FILE_RANGE_WAIT 5
#define FMODE_PATH (1 << 14)
#define FMODE_CREATED (1 << 20)

static __always_inline bool closes(u32 nr)
{
	return nr == NR_CLOSE || nr == NR_DUP2 || nr == NR_DUP3;
}

/* Whether a close() now would be the last. */
static __always_inline bool last_reference(u64 file)
{
	if (bpf_core_field_exists(struct file, f_ref))
		return READ_AT(struct file, file, f_ref.refcnt.counter) == 0;
	return READ_AT(struct file___count, file, f_count.counter) == 1;
}

/* The recorder shows what it follows by statx() on descriptors of its own: a directory becomes a root, a file gets its
 * number. The kernel's own identities are so learnt without translating device numbers, which btrfs and overlayfs
 * report differently to user space. */
static __always_inline void introduce(struct call *call)
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
	inode = (u64)READ_AT(struct file, file, f_inode);
	if ((READ_AT(struct inode, inode, i_mode) & S_IFMT) != S_IFDIR) {
		file_id(file);
		return;
	}
	dentry = (u64)READ_AT(struct file, file, f_path.dentry);
	id = roots_known;
	if (config.by_pid || id >= NO_ROOT || bpf_map_update_elem(&roots, &dentry, &id, BPF_NOEXIST))
		return;
	if (!id)
		root_dentry = dentry;
	roots_known = id + 1;
}

struct vma_found {
	u64 addr;
	u64 off;
	u32 file;
};

static long vma_file(struct task_struct *task, struct vm_area_struct *vma, struct vma_found *found)
{
	u64 file = (u64)vma->vm_file;

	found->off = (vma->vm_pgoff << PAGE_SHIFT) + found->addr - vma->vm_start;
	if (file)
		found->file = file_id(file);
	return 0;
}

/* Finds the mapped file; `call->pos` takes the place in it. */
static __always_inline void start_msync(struct call *call)
{
	struct vma_found found = { .addr = call->arg[0] };

	if (!(call->arg[2] & MS_SYNC))
		return;
	if (bpf_find_vma(bpf_get_current_task_btf(), call->arg[0], vma_file, &found, 0))
		count(COUNT_MSYNC);
	call->pos = found.off;
	call->file = found.file;
	call->active = found.file != 0;
}

static __always_inline void start_file(struct call *call, u64 fd)
{
	u64 file = fd_file(fd);

	if (!file)
		return;
	call->file = file_id(file);
	if (!call->file || (closes(call->nr) && !last_reference(file)))
		return;
	call->file_ptr = file;
	call->pos = READ_AT(struct file, file, f_pos);
	call->f_flags = READ_AT(struct file, file, f_flags);
	call->active = 1;
}

static __always_inline void start(struct call *call, u32 what)
{
	switch (what) {
	case START_FD0:
		start_file(call, (u32)call->arg[0]);
		break;
	case START_FD1:
		if ((u32)call->arg[0] != (u32)call->arg[1])
			start_file(call, (u32)call->arg[1]);
		break;
	case START_FD4:
		if (!(call->arg[3] & MAP_ANONYMOUS))
			start_file(call, (u32)call->arg[4]);
		break;
	case START_MSYNC:
		start_msync(call);
		break;
	case START_AIO:
		aio_submit(call);
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
	u32 what, tgid;

	if ((u64)nr >= NR_MAX)
		return 0;
	what = starts[nr];
	if (!what)
		return 0;
	tgid = bpf_get_current_pid_tgid() >> 32;
	if (!followed(tgid) || (what == START_INTRODUCE) != (tgid == config.own_tgid))
		return 0;
	if (task->thread_info.status & TS_COMPAT) {
		count(COUNT_COMPAT);
		return 0;
	}
	call = bpf_task_storage_get(&calls, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!call) {
		count(COUNT_TABLE_FULL);
		return 0;
	}
	call->active = 0;
	call->nr = nr;
	call->file = 0;
	call->arg[0] = regs->di;
	call->arg[1] = regs->si;
	call->arg[2] = regs->dx;
	call->arg[3] = regs->r10;
	call->arg[4] = regs->r8;
	call->arg[5] = regs->r9;
	if (what == START_INTRODUCE) {
		introduce(call);
		return 0;
	}
	call->t = bpf_ktime_get_ns();
	start(call, what);
	return 0;
}

/* Where a transfer of `ret` bytes through the file's own position began. Read after the fact it is right for appends
 * and for a position moved by lseek(); if the descriptor was closed meanwhile, the position at the start must do. */
static __always_inline u64 transfer_start(struct call *call, s64 ret)
{
	u64 file = fd_file((u32)call->arg[0]);

	if (file != call->file_ptr)
		return call->pos;
	return READ_AT(struct file, file, f_pos) - ret;
}

static __always_inline u64 positional(struct call *call, s64 ret, u16 flags)
{
	u64 file;

	if (!(flags & FLAG_APPEND))
		return call->arg[3];
	/* Linux appends whatever position pwrite() names. */
	file = fd_file((u32)call->arg[0]);
	if (file != call->file_ptr)
		return call->arg[3];
	return READ_AT(struct inode, (u64)READ_AT(struct file, file, f_inode), i_size) - ret;
}

static __always_inline void end_transfer(struct call *call, u8 op, s64 ret)
{
	u16 flags = open_flags(call->f_flags);
	u64 off;

	if (op == OP_READ)
		flags &= ~FLAG_APPEND;
	switch (call->nr) {
	case NR_PREADV2:
	case NR_PWRITEV2:
		flags |= rwf_flags(call->arg[5]);
		off = (s64)call->arg[3] == -1 ? transfer_start(call, ret) : positional(call, ret, flags);
		break;
	case NR_PREAD64:
	case NR_PWRITE64:
	case NR_PREADV:
	case NR_PWRITEV:
		off = positional(call, ret, flags);
		break;
	default:
		off = transfer_start(call, ret);
	}
	emit_call(call, op, flags, call->file, off, ret);
}

/* One end of a copy: `at` is the caller's position variable, moved on by now, or null for the file's own. */
static __always_inline void end_copy_side(struct call *call, u8 op, u32 fd, u64 at, s64 ret)
{
	u64 file = fd_file(fd);
	u32 id = file_id(file);
	s64 pos = 0;

	if (!id)
		return;
	if (call->nr == NR_SPLICE) {
		count(COUNT_SPLICE);
		return;
	}
	if (!at || bpf_probe_read_user(&pos, sizeof(pos), (void *)at))
		pos = READ_AT(struct file, file, f_pos);
	emit_call(call, op, open_flags(READ_AT(struct file, file, f_flags)), id, pos - ret, ret);
}

__noinline int end_copy(struct call *call, s64 ret)
{
	if (!call)
		return 0;
	if (call->nr == NR_SENDFILE) {
		end_copy_side(call, OP_READ, call->arg[1], call->arg[2], ret);
		end_copy_side(call, OP_WRITE, call->arg[0], 0, ret);
	} else {
		end_copy_side(call, OP_READ, call->arg[0], call->arg[1], ret);
		end_copy_side(call, OP_WRITE, call->arg[2], call->arg[3], ret);
	}
	return 0;
}

__noinline int end_open(struct call *call, s64 ret)
{
	u64 file = fd_file(ret);
	u32 id, mode, flags;
	u64 size;

	if (!call || !file)
		return 0;
	mode = READ_AT(struct file, file, f_mode);
	if (mode & FMODE_PATH)
		return 0;
	id = file_id(file);
	if (!id)
		return 0;
	flags = READ_AT(struct file, file, f_flags);
	size = READ_AT(struct inode, (u64)READ_AT(struct file, file, f_inode), i_size);
	emit_call(call, mode & FMODE_CREATED ? OP_CREATE : OP_OPEN, open_flags(flags), id, 0, size);
	if (!(mode & FMODE_CREATED) && call->f_flags & O_TRUNC)
		emit_call(call, OP_TRUNCATE, open_flags(flags), id, 0, 0);
	return 0;
}

/* The flags given to an open: the open file forgets O_TRUNC. */
static __always_inline u32 asked_flags(struct call *call)
{
	u64 how = 0;

	switch (call->nr) {
	case NR_OPEN:
		return call->arg[1];
	case NR_OPENAT:
		return call->arg[2];
	case NR_OPENAT2:
		bpf_probe_read_user(&how, sizeof(how), (void *)call->arg[2]);
		return how;
	default:
		return O_TRUNC;
	}
}

static __always_inline void end_fallocate(struct call *call)
{
	u32 mode = call->arg[1];

	if (mode & 0x28) { /* COLLAPSE_RANGE, INSERT_RANGE: no event says this */
		count(COUNT_COLLAPSE);
		return;
	}
	emit_call(call, mode & 0x12 ? OP_PUNCH : OP_ALLOCATE, open_flags(call->f_flags), call->file, call->arg[2],
		  call->arg[3]);
}

static __always_inline void end_mmap(struct call *call)
{
	if (call->arg[2] & PROT_WRITE && (call->arg[3] & MAP_SHARED_MASK) != 2)
		count(COUNT_SHARED_MAPS);
	emit_call(call, OP_MAP, 0, call->file, call->arg[5], call->arg[1]);
}

__noinline int end_name(struct call *call)
{
	struct naming n = { .from_fd = AT_FDCWD, .to_fd = AT_FDCWD };

	if (!call)
		return 0;
	switch (call->nr) {
	case NR_UNLINKAT:
		if (call->arg[2] & AT_REMOVEDIR)
			return 0;
		n.op = OP_UNLINK;
		n.from_fd = call->arg[0];
		n.from = call->arg[1];
		break;
	case NR_UNLINK:
		n.op = OP_UNLINK;
		n.from = call->arg[0];
		break;
	case NR_TRUNCATE:
		n.op = OP_TRUNCATE;
		n.from = call->arg[0];
		n.arg = call->arg[1];
		break;
	case NR_RENAME:
		n.op = OP_RENAME;
		n.from = call->arg[0];
		n.to = call->arg[1];
		break;
	default:
		n.op = OP_RENAME;
		n.from_fd = call->arg[0];
		n.from = call->arg[1];
		n.to_fd = call->arg[2];
		n.to = call->arg[3];
		n.arg = call->nr == NR_RENAMEAT2 ? call->arg[4] : 0;
	}
	return emit_name(call, &n);
}

static __always_inline void end(struct call *call, s64 ret)
{
	u16 flags = open_flags(call->f_flags);

	switch (call->nr) {
	case NR_READ:
	case NR_PREAD64:
	case NR_READV:
	case NR_PREADV:
	case NR_PREADV2:
		end_transfer(call, OP_READ, ret);
		break;
	case NR_WRITE:
	case NR_PWRITE64:
	case NR_WRITEV:
	case NR_PWRITEV:
	case NR_PWRITEV2:
		end_transfer(call, OP_WRITE, ret);
		break;
	case NR_FSYNC:
		emit_call(call, OP_FSYNC, flags, call->file, 0, 0);
		break;
	case NR_FDATASYNC:
		emit_call(call, OP_FDATASYNC, flags, call->file, 0, 0);
		break;
	case NR_SYNC_FILE_RANGE:
		if (call->arg[3] & SYNC_FILE_RANGE_WAIT)
			emit_call(call, OP_FDATASYNC, flags, call->file, call->arg[1], call->arg[2]);
		break;
	case NR_MSYNC:
		emit_call(call, OP_FDATASYNC, 0, call->file, call->pos, call->arg[1]);
		break;
	case NR_FTRUNCATE:
		emit_call(call, OP_TRUNCATE, flags, call->file, call->arg[1], 0);
		break;
	case NR_FALLOCATE:
		end_fallocate(call);
		break;
	case NR_CLOSE:
	case NR_DUP2:
	case NR_DUP3:
		emit_call(call, OP_CLOSE, flags, call->file, 0, 0);
		break;
	case NR_MMAP:
		end_mmap(call);
		break;
	case NR_OPEN:
	case NR_OPENAT:
	case NR_OPENAT2:
	case NR_CREAT:
		call->f_flags = asked_flags(call);
		end_open(call, ret);
		break;
	case NR_SENDFILE:
	case NR_COPY_FILE_RANGE:
	case NR_SPLICE:
		end_copy(call, ret);
		break;
	case NR_IO_GETEVENTS:
	case NR_IO_PGETEVENTS:
		aio_ended(call, ret);
		break;
	case NR_IO_SUBMIT:
		break;
	default:
		end_name(call);
	}
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_sys_exit, struct pt_regs *regs, long ret)
{
	u64 nr = regs->orig_ax;
	struct call *call;

	if (nr >= NR_MAX || !starts[nr])
		return 0;
	call = bpf_task_storage_get(&calls, bpf_get_current_task_btf(), 0, 0);
	if (!call || !call->active || call->nr != nr)
		return 0;
	call->active = 0;
	if (nr == NR_IO_SUBMIT)
		aio_submitted(call, ret);
	else if (ret >= 0 || (nr == NR_MMAP && (u64)ret < -4095UL))
		end(call, ret);
	return 0;
}

SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(on_uring_submit, struct io_kiocb *req)
{
	return uring_submitted((u64)req);
}

/* The same tracepoint's name before 6.4. */
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

/* Page faults on a followed file. They carry no duration. */
static __always_inline void mapped(u64 mapping, u64 first, u64 last)
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
	if (!file)
		return;
	io.op = OP_MAP;
	io.file = *file;
	io.t = bpf_ktime_get_ns();
	io.off = first << PAGE_SHIFT;
	io.len = (last - first + 1) << PAGE_SHIFT;
	io.tgid = id >> 32;
	io.pid = id;
	emit(&io);
}

SEC("tp_btf/mm_filemap_fault")
int BPF_PROG(on_fault, struct address_space *mapping, unsigned long index)
{
	mapped((u64)mapping, index, index);
	return 0;
}

SEC("tp_btf/mm_filemap_map_pages")
int BPF_PROG(on_map_pages, struct address_space *mapping, unsigned long first, unsigned long last)
{
	mapped((u64)mapping, first, last);
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	u32 from = parent->tgid, to = child->tgid;
	u8 one = 1;

	if (from != to && bpf_map_lookup_elem(&tgids, &from) && bpf_map_update_elem(&tgids, &to, &one, BPF_ANY))
		count(COUNT_TABLE_FULL);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	u32 tgid = task->tgid;

	/* The last thread of the process: numbers are reused. */
	if (task->signal->live.counter == 0)
		bpf_map_delete_elem(&tgids, &tgid);
	return 0;
}
