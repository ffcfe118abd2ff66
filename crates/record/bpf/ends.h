/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The end of a system call that succeeded or was refused a lock: emits the events of the call.
 */
#pragma once
#include "file.h"
#include "aio.h"
#include "names.h"
#include "syscall_table.h"

#define AT_REMOVEDIR 0x200
#define FICLONE 0x40049409
#define FICLONERANGE 0x4020940d
#define MAP_SHARED_MASK 3
#define MAP_LOCKED 0x2000
#define MAP_POPULATE 0x8000
#define PROT_WRITE 2
#define FMODE_PATH (1 << 14)
#define FMODE_CREATED (1 << 20)
#define O_TMPFILE 020200000

/*
 * Returns the start of a transfer of `ret` bytes at the file's own position. Computed from the position after
 * the call, it is correct for appends and for positions set by lseek(). If the descriptor was closed in the
 * meantime, the position at the start of the call is used.
 */
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
	/* On a file opened with O_APPEND, Linux appends regardless of the offset of pwrite(). */
	file = fd_file((u32)call->arg[0]);
	if (file != call->file_ptr)
		return call->size;
	if (size_of(file) - ret != call->size)
		count(COUNT_APPENDS); /* others have appended meanwhile: before this call, or after it */
	return size_of(file) - ret;
}

static __always_inline void end_transfer(struct call *call, u8 op, s64 ret)
{
	bool v2 = call->nr == NR_PREADV2 || call->nr == NR_PWRITEV2;
	u16 flags = call_flags(call->f_flags, v2 ? call->arg[5] : 0);
	u64 off;

	if (op == OP_READ)
		flags &= ~FLAG_APPEND;
	switch (call->nr) {
	case NR_PREADV2:
	case NR_PWRITEV2:
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

/*
 * Emits one side of a copy. `at` is the address of the caller's position variable, which has advanced by now,
 * or null for the file's own position.
 */
static __always_inline void end_copy_side(struct call *call, u8 op, u32 fd, u64 at, s64 ret)
{
	u64 file = fd_file(fd);
	u32 id = file_id(file);
	u16 flags;
	s64 pos = 0;

	if (!id) {
		count_device(file);
		return;
	}
	if (!at || bpf_probe_read_user(&pos, sizeof(pos), (void *)at))
		pos = READ_AT(struct file, file, f_pos);
	flags = open_flags(READ_AT(struct file, file, f_flags));
	emit_call(call, op, op == OP_READ ? flags & ~FLAG_APPEND : flags, id, pos - ret, ret);
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
	bool created;
	u64 size;

	if (!call || !file)
		return 0;
	mode = READ_AT(struct file, file, f_mode);
	if (mode & FMODE_PATH)
		return 0;
	created = mode & FMODE_CREATED || (call->f_flags & O_TMPFILE) == O_TMPFILE;
	id = created ? new_file_id(file) : file_id(file);
	if (!id)
		return 0;
	flags = READ_AT(struct file, file, f_flags);
	size = size_of(file);
	emit_call(call, created ? OP_CREATE : OP_OPEN, open_flags(flags), id, 0, size);
	if (!created && call->f_flags & O_TRUNC)
		emit_call(call, OP_TRUNCATE, open_flags(flags), id, 0, 0);
	return 0;
}

/* Returns the flags passed to an open, because the open file does not keep O_TRUNC. */
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
	case NR_OPEN_BY_HANDLE_AT:
		return call->arg[2];
	default:
		return O_TRUNC;
	}
}

static __always_inline void end_fallocate(struct call *call)
{
	u32 mode = call->arg[1];

	if (mode & FALLOCATE_MOVES) {
		count(COUNT_COLLAPSE);
		return;
	}
	emit_call(call, mode & FALLOCATE_ZEROES ? OP_PUNCH : OP_ALLOCATE, open_flags(call->f_flags), call->file, call->arg[2],
		  call->arg[3]);
}

static long vma_alias(struct task_struct *task, struct vm_area_struct *vma, u32 *id)
{
	u64 file = (u64)vma->vm_file;

	if (regular(file))
		alias(file, *id);
	return 0;
}

#define TMPFS_MAGIC 0x01021994
#define HUGETLBFS_MAGIC 0x958458f6
#define S_DAX (1 << 13)

/* Prepares for the page faults of a new map at `address`. */
static __always_inline void end_mmap(struct call *call, u64 address)
{
	u64 inode = (u64)READ_AT(struct file, call->file_ptr, f_inode);
	unsigned long magic = magic_of(inode);
	u32 id = call->file;

	if (call->arg[2] & PROT_WRITE && (call->arg[3] & MAP_SHARED_MASK) != 2)
		count(COUNT_SHARED_MAPS);
	if (magic == TMPFS_MAGIC || magic == HUGETLBFS_MAGIC || READ_AT(struct inode, inode, i_flags) & S_DAX)
		count(COUNT_SHMEM_MAPS);
	/* The faults of a populated map were in this call, before the file below was known. */
	if (is_stacked(inode) && call->arg[3] & (MAP_POPULATE | MAP_LOCKED))
		count(COUNT_SHMEM_MAPS);
	if (is_stacked(inode) && bpf_find_vma(bpf_get_current_task_btf(), address, vma_alias, &id, 0))
		count(COUNT_BUSY_MAPS);
	emit_call(call, OP_MAP, 0, call->file, call->arg[5], call->arg[1]);
}

/*
 * Whether an fcntl(2) command sets a lock: F_SETLK, F_SETLKW, and their variants for open file descriptions.
 */
static __always_inline bool sets_lock(u32 command)
{
	return command == 6 || command == 7 || command == 37 || command == 38;
}

/* struct flock of fcntl(2). */
struct user_lock {
	s16 type;
	s16 whence;
	u32 pad;
	s64 start;
	s64 len;
};

#define F_RDLCK 0
#define F_UNLCK 2
#define LOCK_SH 1
#define LOCK_UN 8
#define EAGAIN 11
#define EACCES 13

/*
 * Emits an event if a lock was taken, released, or refused because another process holds it. After a refusal,
 * the caller may try again.
 */
__noinline int end_lock(struct call *call, s64 ret)
{
	struct user_lock lock = {};
	u16 flags = 0;

	if (!call || (ret < 0 && ret != -EAGAIN && ret != -EACCES))
		return 0;
	if (call->nr == NR_FLOCK) {
		lock.type = call->arg[1] & LOCK_UN ? F_UNLCK : call->arg[1] & LOCK_SH ? F_RDLCK : 1;
	} else if (bpf_probe_read_user(&lock, sizeof(lock), (void *)call->arg[2])) {
		return 0;
	} else if (lock.whence) {
		/* The range is relative to the position or the end of the file: treat it as the whole file. */
		lock.start = 0;
		lock.len = 0;
	} else if (lock.len < 0) {
		/* A negative length means the range before `start`. */
		lock.start += lock.len;
		lock.len = -lock.len;
	}
	if (lock.type == F_RDLCK)
		flags |= FLAG_SHARED;
	if (ret < 0)
		flags |= FLAG_FAILED;
	emit_call(call, lock.type == F_UNLCK ? OP_UNLOCK : OP_LOCK, flags, call->file, lock.start, lock.len);
	return 0;
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
	case NR_LINK:
		n.op = OP_LINK;
		n.from = call->arg[0];
		n.to = call->arg[1];
		break;
	case NR_LINKAT:
		n.op = OP_LINK;
		n.from_fd = call->arg[0];
		n.from = call->arg[1];
		n.to_fd = call->arg[2];
		n.to = call->arg[3];
		break;
	case NR_SYMLINK:
	case NR_SYMLINKAT:
		/* Only a directory has links that are followed. */
		if (config.by_pid)
			return 0;
		n.op = OP_SYMLINK;
		n.from_fd = call->nr == NR_SYMLINK ? AT_FDCWD : call->arg[1];
		n.from = call->nr == NR_SYMLINK ? call->arg[1] : call->arg[2];
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

/* Counts a call that also syncs the files of a followed directory or process. */
static __always_inline void end_sync(struct call *call)
{
	u64 file, inode;

	if (call->nr == NR_SYNCFS && roots_known == 1) {
		file = fd_file((u32)call->arg[0]);
		if (!file)
			return;
		inode = (u64)READ_AT(struct file, file, f_inode);
		if ((u64)READ_AT(struct inode, inode, i_sb) != root_sb)
			return;
	}
	count(COUNT_SYNCS);
}

/* Counts an ioctl on extents (see is_extent_ioctl()) if one of its files is followed. */
static __always_inline void end_ioctl(struct call *call)
{
	s64 source = -1;

	if ((u32)call->arg[1] == FICLONE)
		source = (u32)call->arg[2];
	else if ((u32)call->arg[1] == FICLONERANGE)
		bpf_probe_read_user(&source, sizeof(source), (void *)call->arg[2]);
	if (file_id(fd_file((u32)call->arg[0])) || (source >= 0 && file_id(fd_file(source))))
		count(COUNT_CLONES);
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
		else
			count(COUNT_FLUSHES);
		break;
	case NR_SYNC:
	case NR_SYNCFS:
		end_sync(call);
		break;
	case NR_READAHEAD:
	case NR_FADVISE64:
		count(COUNT_READAHEAD);
		break;
	case NR_IOCTL:
		end_ioctl(call);
		break;
	case NR_MADVISE:
		if (call->arg[2] == MADV_REMOVE)
			emit_call(call, OP_PUNCH, 0, call->file, call->pos, call->arg[1]);
		else
			count(COUNT_READAHEAD);
		break;
	case NR_CLOSE_RANGE:
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
		end_mmap(call, ret);
		break;
	case NR_OPEN:
	case NR_OPENAT:
	case NR_OPENAT2:
	case NR_CREAT:
	case NR_OPEN_BY_HANDLE_AT:
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
