/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Calls whose argument is the address of a map: msync, madvise, mprotect.
 */
#pragma once
#include "file.h"

#define PAGE_SHIFT 12
#define VM_WRITE 2
#define VM_SHARED 8

struct vma_found {
	u64 addr;
	u64 off;
	u32 file;
	u32 flags;
};

static long vma_file(struct task_struct *task, struct vm_area_struct *vma, struct vma_found *found)
{
	u64 file = (u64)vma->vm_file;

	found->off = (vma->vm_pgoff << PAGE_SHIFT) + found->addr - vma->vm_start;
	found->flags = vma->vm_flags;
	if (file)
		found->file = mapped_id(file);
	return 0;
}

#define EBUSY 16

/* Finds the file of the map at an address. Most maps have none, so only threads that use followed files count. */
static __always_inline void find_map(struct vma_found *found)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct call *call;

	if (bpf_find_vma(task, found->addr, vma_file, found, 0) != -EBUSY)
		return;
	call = bpf_task_storage_get(&calls, task, 0, 0);
	if (call && call->touches)
		count(COUNT_BUSY_MAPS);
}

/* For msync() and madvise(): `call->pos` receives the offset in the mapped file. */
static __always_inline void start_mapped(struct call *call)
{
	struct vma_found found = { .addr = call->arg[0] };

	find_map(&found);
	call->pos = found.off;
	call->file = found.file;
	call->active = found.file != 0;
}

/* A shared map that becomes writable. */
static __always_inline void start_mprotect(u64 address)
{
	struct vma_found found = { .addr = address };

	find_map(&found);
	if (found.file && (found.flags & (VM_SHARED | VM_WRITE)) == VM_SHARED)
		count(COUNT_SHARED_MAPS);
}
