/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Finds the file of a descriptor, decides whether it is followed, numbers it, and emits the record of an
 * operation.
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

/*
 * Decides whether to follow a file seen for the first time. If so, numbers it and sends its path to user
 * space; otherwise returns 0.
 */
static __noinline u32 first_sight(u64 file, u64 inode)
{
	u64 dentry = (u64)READ_AT(struct file, file, f_path.dentry);
	u64 sb = (u64)READ_AT(struct inode, inode, i_sb);
	struct rec_file *rec;
	struct file_key key = {};
	u32 id, *known;

	if (config.by_pid ? pseudo(READ_AT(struct super_block, sb, s_magic)) : root_above(dentry) == NO_ROOT)
		return 0;
	rec = bpf_ringbuf_reserve(&ring, sizeof(*rec), 0);
	if (!rec) {
		count(COUNT_LOST);
		return 0;
	}
	key_of(inode, &key);
	id = __sync_fetch_and_add(&next_file, 1) + 1;
	if (bpf_map_update_elem(&files, &key, &id, BPF_NOEXIST)) {
		bpf_ringbuf_discard(rec, BPF_RB_NO_WAKEUP);
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
	rec->path.dev = key.dev;
	put_path(dentry, &rec->path);
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
	return id;
}

/* Returns the number of a followed regular file, or 0 for anything else. */
static __always_inline u32 file_id(u64 file)
{
	struct file_key key = {};
	u64 inode;
	u32 *known;

	if (!regular(file))
		return 0;
	inode = (u64)READ_AT(struct file, file, f_inode);
	/* Files on another file system cannot be below the only followed directory. */
	if (roots_known == 1 && (u64)READ_AT(struct inode, inode, i_sb) != root_sb)
		return 0;
	key_of(inode, &key);
	known = bpf_map_lookup_elem(&files, &key);
	return known ? *known : first_sight(file, inode);
}

static __always_inline u16 open_flags(u32 f_flags)
{
	return (f_flags & O_DIRECT ? FLAG_DIRECT : 0) | (f_flags & O_DSYNC ? FLAG_SYNC : 0) |
	       (f_flags & O_APPEND ? FLAG_APPEND : 0);
}

static __always_inline u16 rwf_flags(u64 rwf)
{
	return (rwf & (RWF_DSYNC | RWF_SYNC) ? FLAG_SYNC : 0) | (rwf & RWF_APPEND ? FLAG_APPEND : 0);
}

struct io {
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

__noinline int emit(struct io *io)
{
	struct rec_io *rec;

	if (!io)
		return 0;
	rec = bpf_ringbuf_reserve(&ring, sizeof(*rec), 0);
	if (!rec) {
		count(COUNT_LOST);
		return 0;
	}
	rec->kind = KIND_IO;
	rec->op = io->op;
	rec->flags = io->flags;
	rec->file = io->file;
	rec->t = io->t;
	rec->dur = io->dur;
	rec->off = io->off;
	rec->len = io->len;
	rec->tgid = io->tgid;
	rec->pid = io->pid;
	rec->gap = io->gap;
	bpf_ringbuf_submit(rec, BPF_RB_NO_WAKEUP);
	return 0;
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
