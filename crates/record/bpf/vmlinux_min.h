/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The kernel types that the programs read, with only the members that they read. Offsets are relocated at
 * load time with the running kernel's BTF (CO-RE), so the programs do not depend on one kernel's layout.
 */
#pragma once

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s16 s16;
typedef __s32 s32;
typedef __s64 s64;
typedef _Bool bool;

#define NULL ((void *)0)
#define true 1
#define false 0

/* From the kernel's user-space headers; these numbers are stable. */
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1, BPF_EXIST = 2 };
enum { BPF_F_NO_PREALLOC = 1 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };
enum { BPF_RB_NO_WAKEUP = 1 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
	unsigned long r10, r9, r8, ax, dx, si, di, orig_ax;
};

/* Used as "eight bytes in kernel memory". */
struct timespec64 {
	s64 tv_sec;
};

struct super_block {
	u32 s_dev;
	unsigned long s_magic;
};

struct inode {
	u16 i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	s64 i_size;
	u32 i_generation;
	u32 i_nlink;
	u32 i_flags;
};

struct qstr {
	union {
		struct {
			u32 hash;
			u32 len;
		};
	};
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
};

struct path {
	struct dentry *dentry;
};

typedef struct {
	s64 counter;
} atomic64_t;

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	atomic64_t refcnt;
} file_ref_t;

struct file {
	u32 f_mode;
	struct inode *f_inode;
	u32 f_flags;
	struct path f_path;
	s64 f_pos;
	file_ref_t f_ref;
};

/* The open file of the file system below a stacked one, since 6.5. `user_path` is that of the stacked file. */
struct backing_file {
	struct file file;
	struct path user_path;
};

/* `struct file` before 6.13, with a plain reference count. */
struct file___count {
	atomic64_t f_count;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct fs_struct {
	struct path pwd;
};

struct thread_info {
	u32 status;
};

struct signal_struct {
	atomic_t live;
};

/* The run queue of a CPU. */
struct rq {
	u64 clock;
	u64 clock_task;
};

/*
 * The part of the run queue that belongs to a group. Only with CONFIG_FAIR_GROUP_SCHED does it have a pointer
 * to the run queue.
 */
struct cfs_rq {
	struct rq *rq;
};

struct sched_entity {
	u64 exec_start;
	u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};

/* Empty without CONFIG_SCHED_INFO. */
struct sched_info {
	u64 run_delay;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int flags;
	int pid;
	int tgid;
	struct files_struct *files;
	struct fs_struct *fs;
	struct signal_struct *signal;
	struct sched_entity se;
	struct sched_info sched_info;
	char comm[16];
};

struct address_space {
	struct inode *host;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	unsigned long vm_pgoff;
	unsigned long vm_flags;
	struct file *vm_file;
};

struct kiocb {
	struct file *ki_filp;
	s64 ki_pos;
	int ki_flags;
};

struct io_rw {
	struct kiocb kiocb;
	u32 flags;
};

struct io_sync {
	s64 len;
	s64 off;
	int flags;
	int mode;
};

struct io_ftrunc {
	s64 len;
};

struct io_fadvise {
	u32 advice;
};

struct io_madvise {
	u32 advice;
};

struct io_cqe {
	s32 res;
	int fd;
};

struct io_ring_ctx;

struct io_kiocb {
	struct file *file;
	u8 opcode;
	u64 flags;
	struct io_cqe cqe;
};

struct gendisk {
	int major;
	int first_minor;
};

/* A block device or a partition of it. */
struct block_device {
	struct gendisk *bd_disk;
};

struct bvec_iter {
	u64 bi_sector;
	unsigned int bi_size;
};

struct bio {
	struct bio *bi_next;
	void *bi_private;
	struct block_device *bi_bdev;
	unsigned int bi_opf;
	u8 bi_status;
	struct bvec_iter bi_iter;
};

struct request {
	unsigned int rq_flags;
	struct bio *bio;
};

/* Since 6.11; before, the flags were macros. */
enum rqf_flags {
	__RQF_FLUSH_SEQ = 1,
};

#pragma clang attribute pop
