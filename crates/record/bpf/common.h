/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Maps and functions of every probe set: how the record of an operation is sent to user space.
 */
#pragma once
#include "vmlinux_min.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "record.h"

/*
 * The kernel permits its tracing helpers only to programs with a GPL-compatible licence. MIT is one; this is
 * the kernel's spelling of it.
 */
char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Set before loading: what is followed, and the process whose calls are left out. */
const volatile struct config config SEC(".rodata.config");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 32 << 20);
} ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct control);
} control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, u32);
	__type(value, u64);
} counters SEC(".maps");

extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym __weak;

/*
 * Accesses kernel memory at `addr` as a `type`, so that its members can be read by plain loads. A kernel in
 * lockdown permits this but refuses bpf_probe_read_kernel(); a kernel before 6.2 has only the latter.
 */
#define READ_AT(type, addr, member)                                                                     \
	({                                                                                              \
		u64 __at = (u64)(addr);                                                                 \
		typeof(((type *)0)->member) __v = 0;                                                    \
		if (bpf_ksym_exists(bpf_rdonly_cast))                                                   \
			__v = ((type *)bpf_rdonly_cast((void *)__at, bpf_core_type_id_kernel(type)))    \
				      ->member;                                                         \
		else                                                                                    \
			bpf_core_read(&__v, sizeof(__v), &((type *)__at)->member);                      \
		__v;                                                                                    \
	})

/* Atomic, because a request of a block device may end in an interrupt of a program that counts. */
static __always_inline void count(u32 which)
{
	u64 *n = bpf_map_lookup_elem(&counters, &which);

	if (n)
		__sync_fetch_and_add(n, 1);
}

static __always_inline struct control *controls(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&control, &zero);
}

/* Keeps the record's type in the object's debug information. A test compares it with the Rust side. */
const struct rec_io *described_io;

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
