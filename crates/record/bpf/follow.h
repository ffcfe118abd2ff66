/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Which files and processes are followed.
 */
#pragma once
#include "common.h"

u64 root_dentry = 0;
u64 root_sb = 0;
u32 roots_known = 0;
u32 next_file = 0;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 20);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct file_key);
	__type(value, u32);
} files SEC(".maps");

/* The followed directories: from the address of the entry, which the recorder keeps open, to its number. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_ROOTS);
	__type(key, u64);
	__type(value, u32);
} roots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 16);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, u8);
} tgids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct call);
} calls SEC(".maps");

/*
 * Space to assemble records with names. Each CPU has its own: the kernel runs a program to its end before
 * another one starts on that CPU, except in interrupts, where no program uses it.
 */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct rec_file);
} file_space SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct rec_name);
} name_space SEC(".maps");

#define S_IFMT 0170000
#define S_IFREG 0100000
#define S_IFBLK 0060000
#define S_IFDIR 0040000

/*
 * Whether the current thread is announcing files to this object. Other threads of the process may call statx()
 * too, such as another recorder's.
 */
static __always_inline bool announcing(void)
{
	struct control *c = controls();

	return c && c->announcer == (u32)bpf_get_current_pid_tgid();
}

/* Whether calls of the current process are recorded at all. */
static __always_inline bool followed(u32 tgid)
{
	if (tgid == config.own_tgid)
		return announcing();
	return !config.by_pid || bpf_map_lookup_elem(&tgids, &tgid);
}

/*
 * Whether the file system is a pseudo file system, whose files are left out: proc, sysfs, cgroup 1 and 2,
 * debugfs, tracefs, securityfs.
 */
static __always_inline bool pseudo(unsigned long magic)
{
	return magic == 0x9fa0 || magic == 0x62656572 || magic == 0x27e0eb || magic == 0x63677270 ||
	       magic == 0x64626720 || magic == 0x74726163 || magic == 0x73636673;
}

/* Keeps the records' types in the object's debug information, as `described_io` does. */
const struct rec_file *described_file;
const struct rec_name *described_name;
