/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Calls with names as arguments: rename, unlink, truncate, link, symlink. The names are sent to user space, which knows the
 * names of files.
 */
#pragma once
#include "file.h"

#define AT_FDCWD ((u32)-100)

static __always_inline u64 dir_of(u32 fd)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (fd == AT_FDCWD)
		return (u64)task->fs->pwd.dentry;
	return (u64)READ_AT(struct file, fd_file(fd), f_path.dentry);
}

static __always_inline u32 dev_of(u64 dentry)
{
	u64 inode = (u64)READ_AT(struct dentry, dentry, d_inode);
	u64 sb = (u64)READ_AT(struct inode, inode, i_sb);

	return READ_AT(struct super_block, sb, s_dev);
}

struct prefix {
	u64 name;
	bool differs;
};

static long compare_word(u32 i, struct prefix *p)
{
	u32 at = i * 8, left = config.root_len - at;
	u64 word = 0, expected = 0;

	if (at >= config.root_len || at > ROOT_PATH - 8)
		return 1;
	if (left > 8)
		left = 8;
	__builtin_memcpy(&expected, (const void *)config.root_path + at, 8);
	p->differs = bpf_probe_read_user(&word, left, (void *)(p->name + at)) || word != expected;
	return p->differs;
}

/*
 * Whether an absolute name may be below the followed directory, as far as can be seen without following
 * links. For a thread that uses followed files, the answer is yes, because the name may contain a link.
 */
static __noinline bool may_concern_absolute(struct call *call, u64 name)
{
	struct prefix p = { .name = name };

	if (call->touches || !config.root_len)
		return true;
	bpf_loop(ROOT_PATH / 8, compare_word, &p, 0);
	return !p.differs;
}

/* Whether a name relative to `dir` may be below a followed directory. */
static __always_inline bool may_concern(struct call *call, u64 dir, u64 name)
{
	char first = 0;

	if (config.by_pid)
		return true;
	bpf_probe_read_user(&first, 1, (void *)name);
	if (first == '/')
		return may_concern_absolute(call, name);
	return root_above(dir) != NO_ROOT || above_root(dir);
}

struct naming {
	u8 op;
	u32 from_fd, to_fd;
	u64 from, to, arg;
};

/* Copies an argument of a call to the record. Returns its length with the final zero; USER_PATH if it is cut. */
static __always_inline u32 put_argument(struct rec_name *rec, u32 pos, u64 from)
{
	s64 len;

	if (!from || pos > NAMES_BYTES - USER_PATH)
		return 0;
	len = bpf_probe_read_user_str(rec->names + pos, USER_PATH, (void *)from);
	return len < 0 ? 0 : len;
}

__noinline int emit_name(struct call *call, struct naming *n)
{
	struct rec_name *rec;
	u64 id = bpf_get_current_pid_tgid();
	u64 from_dir, to_dir;
	u32 zero = 0, pos;

	if (!call || !n)
		return 0;
	from_dir = dir_of(n->from_fd);
	to_dir = n->to ? dir_of(n->to_fd) : 0;
	if (!may_concern(call, from_dir, n->from) && !(n->to && may_concern(call, to_dir, n->to)))
		return 0;
	rec = bpf_map_lookup_elem(&name_space, &zero);
	if (!rec)
		return 0;
	rec->kind = KIND_NAME;
	rec->op = n->op;
	rec->flags = 0;
	rec->tgid = id >> 32;
	rec->pid = id;
	rec->t = call->t;
	rec->dur = bpf_ktime_get_ns() - call->t;
	rec->arg = n->arg;
	rec->gap = call->gap;
	rec->from_dir.dev = dev_of(from_dir);
	pos = put_path(from_dir, &rec->from_dir, rec->names, 0);
	if (n->to) {
		rec->to_dir.dev = dev_of(to_dir);
		pos = put_path(to_dir, &rec->to_dir, rec->names, pos);
	} else {
		rec->to_dir = (struct rec_path){ .root = NO_ROOT };
	}
	rec->from_len = put_argument(rec, pos, n->from);
	pos += rec->from_len;
	rec->to_len = put_argument(rec, pos, n->to);
	pos += rec->to_len;
	if (pos > NAMES_BYTES)
		pos = NAMES_BYTES;
	if (bpf_ringbuf_output(&ring, rec, __builtin_offsetof(struct rec_name, names) + pos, BPF_RB_NO_WAKEUP)) {
		count(COUNT_LOST);
		return 0;
	}
	call->emitted = 1;
	return 0;
}
