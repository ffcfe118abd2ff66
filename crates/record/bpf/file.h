/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Finds the file of a descriptor, decides whether it is followed, numbers it, and emits the operations of
 * calls.
 */
#pragma once
#include "path.h"

#define O_TRUNC 01000
#define O_APPEND 02000
#define O_DSYNC 010000
#define O_DIRECT 040000
#define RWF_DSYNC 2
#define RWF_SYNC 4
#define RWF_APPEND 0x10
#define RWF_NOAPPEND 0x20
#define FMODE_BACKING (1 << 24 | 1 << 25)
#define OVERLAYFS_MAGIC 0x794c7630
#define FUSE_MAGIC 0x65735546
#define SYNC_FILE_RANGE_WAIT 5
#define POSIX_FADV_WILLNEED 3
#define MADV_WILLNEED 3
#define MADV_REMOVE 9
/* fallocate(2): COLLAPSE_RANGE, INSERT_RANGE, UNSHARE_RANGE have no event. */
#define FALLOCATE_MOVES 0x68
/* PUNCH_HOLE, ZERO_RANGE, WRITE_ZEROES. */
#define FALLOCATE_ZEROES 0x92

/*
 * Returns the open file of descriptor `fd` of the current process, or 0 if there is none. `fd` is an array of
 * pointers, which plain BTF loads do not follow; so the slot is accessed as a struct whose first member is
 * such a pointer.
 */
static __always_inline u64 fd_file(u64 fd)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct fdtable *table = task->files->fdt;

	if (fd >= table->max_fds)
		return 0;
	return (u64)READ_AT(struct kiocb, (u64)table->fd + fd * sizeof(void *), ki_filp);
}

static __always_inline bool regular(u64 file)
{
	u64 inode;

	if (!file)
		return false;
	inode = (u64)READ_AT(struct file, file, f_inode);
	return (READ_AT(struct inode, inode, i_mode) & S_IFMT) == S_IFREG;
}

static __always_inline void key_of(u64 inode, struct file_key *key)
{
	u64 sb = (u64)READ_AT(struct inode, inode, i_sb);

	key->ino = READ_AT(struct inode, inode, i_ino);
	key->gen = READ_AT(struct inode, inode, i_generation);
	key->dev = READ_AT(struct super_block, sb, s_dev);
}

/* The addresses of a file's directory entry and inode. */
struct entry {
	u64 dentry;
	u64 inode;
};

/*
 * Decides whether to follow a file seen for the first time. If so, numbers it and sends its path to user
 * space; otherwise returns 0. A global function, which the verifier checks once, not for each of its callers.
 */
__noinline int first_sight(struct entry *entry)
{
	if (!entry)
		return 0;

	u64 dentry = entry->dentry, inode = entry->inode;
	u64 sb = (u64)READ_AT(struct inode, inode, i_sb);
	struct rec_file *rec;
	struct file_key key = {};
	u32 id, end, zero = 0, *known;

	if (config.by_pid ? pseudo(READ_AT(struct super_block, sb, s_magic)) : root_above(dentry) == NO_ROOT)
		return 0;
	rec = bpf_map_lookup_elem(&file_space, &zero);
	if (!rec)
		return 0;
	key_of(inode, &key);
	id = __sync_fetch_and_add(&next_file, 1) + 1;
	if (bpf_map_update_elem(&files, &key, &id, BPF_NOEXIST)) {
		known = bpf_map_lookup_elem(&files, &key);
		if (!known)
			count(COUNT_FILES_FULL);
		return known ? *known : 0;
	}
	rec->kind = KIND_FILE;
	rec->file = id;
	rec->ino = key.ino;
	rec->size = READ_AT(struct inode, inode, i_size);
	rec->tgid = bpf_get_current_pid_tgid() >> 32;
	rec->links = READ_AT(struct inode, inode, i_nlink);
	rec->path.dev = key.dev;
	end = put_path(dentry, &rec->path, rec->names, 0);
	if (end > NAMES_BYTES)
		end = NAMES_BYTES;
	if (bpf_ringbuf_output(&ring, rec, __builtin_offsetof(struct rec_file, names) + end, BPF_RB_NO_WAKEUP)) {
		count(COUNT_LOST);
		bpf_map_delete_elem(&files, &key);
		return 0;
	}
	return id;
}

/* Returns the number of a followed file, or 0. */
static __always_inline u32 entry_id(u64 dentry, u64 inode)
{
	struct file_key key = {};
	u32 *known;

	/* Files on another file system cannot be below the only followed directory. */
	if (roots_known == 1 && (u64)READ_AT(struct inode, inode, i_sb) != root_sb)
		return 0;
	key_of(inode, &key);
	known = bpf_map_lookup_elem(&files, &key);
	if (known)
		return *known;

	struct entry entry = { dentry, inode };

	return first_sight(&entry);
}

/* Returns the number of a followed regular file, or 0 for anything else. */
static __always_inline u32 file_id(u64 file)
{
	if (!regular(file))
		return 0;
	return entry_id((u64)READ_AT(struct file, file, f_path.dentry), (u64)READ_AT(struct file, file, f_inode));
}

/*
 * As file_id(), for a file that a call has just created. Where inodes have no generation, its number may be
 * that of a removed file.
 */
static __always_inline u32 new_file_id(u64 file)
{
	struct file_key key = {};

	if (!regular(file))
		return 0;
	key_of((u64)READ_AT(struct file, file, f_inode), &key);
	if (!key.gen)
		bpf_map_delete_elem(&files, &key);
	return file_id(file);
}

static __always_inline unsigned long magic_of(u64 inode)
{
	return READ_AT(struct super_block, (u64)READ_AT(struct inode, inode, i_sb), s_magic);
}

static __always_inline bool is_stacked(u64 inode)
{
	unsigned long magic = magic_of(inode);

	return magic == OVERLAYFS_MAGIC || magic == FUSE_MAGIC;
}

/*
 * A map of a stacked file system (overlayfs, FUSE with passthrough) is one of the file below, whose page
 * faults show only that file. Gives it the number `id`.
 */
static __always_inline void alias(u64 below, u32 id)
{
	struct file_key key = {};
	u32 *known;

	key_of((u64)READ_AT(struct file, below, f_inode), &key);
	known = bpf_map_lookup_elem(&files, &key);
	if ((!known || *known != id) && bpf_map_update_elem(&files, &key, &id, BPF_ANY))
		count(COUNT_FILES_FULL);
}

/*
 * Returns the number of the stacked file of a map's file, or 0. The flag differs between kernels, and may mean
 * something else; then the memory after the open file contains no file of a stacked file system.
 */
static __always_inline u32 stacked_id(u64 below)
{
	u64 dentry, inode;
	u32 id;

	if (!bpf_core_type_exists(struct backing_file) || !(READ_AT(struct file, below, f_mode) & FMODE_BACKING))
		return 0;
	dentry = (u64)READ_AT(struct backing_file, below, user_path.dentry);
	inode = (u64)READ_AT(struct dentry, dentry, d_inode);
	if (!inode || !is_stacked(inode) || (READ_AT(struct inode, inode, i_mode) & S_IFMT) != S_IFREG)
		return 0;
	id = entry_id(dentry, inode);
	if (id)
		alias(below, id);
	return id;
}

/* Returns the number of the file of a map, or 0. */
static __always_inline u32 mapped_id(u64 file)
{
	struct file_key key = {};
	u32 *known, id;

	if (!regular(file))
		return 0;
	key_of((u64)READ_AT(struct file, file, f_inode), &key);
	known = bpf_map_lookup_elem(&files, &key);
	if (known)
		return *known;
	id = stacked_id(file);
	return id ? id : file_id(file);
}

/* Counts an operation on a block device by a followed process. */
static __always_inline void count_device(u64 file)
{
	u64 inode;

	if (!config.by_pid || !file)
		return;
	inode = (u64)READ_AT(struct file, file, f_inode);
	if ((READ_AT(struct inode, inode, i_mode) & S_IFMT) == S_IFBLK)
		count(COUNT_DEVICES);
}

static __always_inline u16 open_flags(u32 f_flags)
{
	return (f_flags & O_DIRECT ? FLAG_DIRECT : 0) | (f_flags & O_DSYNC ? FLAG_SYNC : 0) |
	       (f_flags & O_APPEND ? FLAG_APPEND : 0);
}

/* Returns the flags of an open file with those of one call, which may also revoke O_APPEND. */
static __always_inline u16 call_flags(u32 f_flags, u64 rwf)
{
	u16 flags = open_flags(f_flags);

	if (rwf & RWF_NOAPPEND)
		flags &= ~FLAG_APPEND;
	return flags | (rwf & (RWF_DSYNC | RWF_SYNC) ? FLAG_SYNC : 0) | (rwf & RWF_APPEND ? FLAG_APPEND : 0);
}

static __always_inline u64 size_of(u64 file)
{
	return READ_AT(struct inode, (u64)READ_AT(struct file, file, f_inode), i_size);
}

/*
 * Emits an operation of the current thread that began with `call` and ends now. The second operation of one
 * call, such as the write of a sendfile(), has no gap.
 */
static __always_inline void emit_call(struct call *call, u8 op, u16 flags, u32 file, u64 off, u64 len)
{
	u64 id = bpf_get_current_pid_tgid();
	struct io io = {
		.op = op,
		.flags = flags,
		.file = file,
		.t = call->t,
		.dur = bpf_ktime_get_ns() - call->t,
		.off = off,
		.len = len,
		.tgid = id >> 32,
		.pid = id,
		.gap = call->gap,
	};

	emit(&io);
	call->gap.known = 0;
	call->emitted = 1;
}
