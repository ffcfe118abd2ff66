/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * io_uring: a request is read at its submission, but its file is certain only at its completion: a fixed file
 * has no descriptor, and its place in the ring's table differs between kernels.
 */
#pragma once
#include "file.h"

enum {
	URING_READV = 1,
	URING_WRITEV = 2,
	URING_FSYNC = 3,
	URING_READ_FIXED = 4,
	URING_WRITE_FIXED = 5,
	URING_SYNC_FILE_RANGE = 8,
	URING_FALLOCATE = 17,
	URING_OPENAT = 18,
	URING_CLOSE = 19,
	URING_READ = 22,
	URING_WRITE = 23,
	URING_FADVISE = 24,
	URING_MADVISE = 25,
	URING_OPENAT2 = 28,
	URING_SPLICE = 30,
	URING_RENAMEAT = 35,
	URING_UNLINKAT = 36,
	URING_LINKAT = 39,
	URING_FTRUNCATE = 55,
	URING_READV_FIXED = 60,
	URING_WRITEV_FIXED = 61,
};

#define IORING_FSYNC_DATASYNC 1
#define REQ_F_FIXED_FILE 1

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 16);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u64);
	__type(value, struct pending);
} uring SEC(".maps");

/* Fills in operation, offset and flags. Returns false if the request is not recorded. */
static __always_inline bool uring_request(u64 req, struct pending *p)
{
	int mode;

	p->opcode = READ_AT(struct io_kiocb, req, opcode);
	switch (p->opcode) {
	case URING_READV:
	case URING_READ_FIXED:
	case URING_READ:
	case URING_READV_FIXED:
		p->op = OP_READ;
		p->off = READ_AT(struct io_rw, req, kiocb.ki_pos);
		return true;
	case URING_WRITEV:
	case URING_WRITE_FIXED:
	case URING_WRITE:
	case URING_WRITEV_FIXED:
		p->op = OP_WRITE;
		p->off = READ_AT(struct io_rw, req, kiocb.ki_pos);
		return true;
	case URING_FSYNC:
		p->op = READ_AT(struct io_sync, req, flags) & IORING_FSYNC_DATASYNC ? OP_FDATASYNC : OP_FSYNC;
		return true;
	case URING_SYNC_FILE_RANGE:
		if (!(READ_AT(struct io_sync, req, flags) & SYNC_FILE_RANGE_WAIT)) {
			count(COUNT_FLUSHES);
			return false;
		}
		p->op = OP_FDATASYNC;
		p->off = READ_AT(struct io_sync, req, off);
		p->len = READ_AT(struct io_sync, req, len);
		return true;
	case URING_FALLOCATE:
		mode = READ_AT(struct io_sync, req, mode);
		if (mode & FALLOCATE_MOVES) {
			count(COUNT_COLLAPSE);
			return false;
		}
		p->op = mode & FALLOCATE_ZEROES ? OP_PUNCH : OP_ALLOCATE;
		p->off = READ_AT(struct io_sync, req, off);
		p->len = READ_AT(struct io_sync, req, len);
		return true;
	case URING_FTRUNCATE:
		/* Since 6.9. */
		if (!bpf_core_type_exists(struct io_ftrunc))
			return false;
		p->op = OP_TRUNCATE;
		p->off = READ_AT(struct io_ftrunc, req, len);
		return true;
	case URING_OPENAT:
	case URING_OPENAT2:
	case URING_CLOSE:
	case URING_SPLICE:
	case URING_RENAMEAT:
	case URING_UNLINKAT:
	case URING_LINKAT:
		count(COUNT_URING_NAMES);
		return false;
	case URING_FADVISE:
		if (bpf_core_type_exists(struct io_fadvise) &&
		    READ_AT(struct io_fadvise, req, advice) == POSIX_FADV_WILLNEED)
			count(COUNT_READAHEAD);
		return false;
	case URING_MADVISE:
		if (bpf_core_type_exists(struct io_madvise) &&
		    READ_AT(struct io_madvise, req, advice) == MADV_REMOVE)
			count(COUNT_URING_NAMES);
		return false;
	default:
		return false;
	}
}

static __always_inline int uring_submitted(u64 req)
{
	u64 id = bpf_get_current_pid_tgid();
	struct pending p = {};

	if (!followed(id >> 32) || !uring_request(req, &p))
		return 0;
	if (!(READ_AT(struct io_kiocb, req, flags) & REQ_F_FIXED_FILE)) {
		u64 file = fd_file(READ_AT(struct io_kiocb, req, cqe.fd));

		p.file = file_id(file);
		if (!p.file) {
			count_device(file);
			return 0;
		}
	}
	p.t = bpf_ktime_get_ns();
	p.tgid = id >> 32;
	p.pid = id;
	if (!bpf_map_update_elem(&uring, &req, &p, BPF_NOEXIST))
		return 0;
	/* The kernel has reused the request: it ended without a completion entry. */
	if (bpf_map_update_elem(&uring, &req, &p, BPF_EXIST))
		count(COUNT_TABLE_FULL);
	else
		count(COUNT_URING_SILENT);
	return 0;
}

/*
 * Returns the start of a finished transfer of `res` bytes. The request's offset is not used for an append,
 * nor for a transfer at the file's own position (-1). In both cases, the kernel sets the request's position,
 * and has advanced it by now.
 */
static __always_inline u64 uring_start(u64 req, struct pending *p, s64 res)
{
	bool append = p->op == OP_WRITE && READ_AT(struct io_rw, req, kiocb.ki_flags) & RWF_APPEND;

	if (!append && p->off != -1)
		return p->off;
	return READ_AT(struct io_rw, req, kiocb.ki_pos) - res;
}

static __always_inline int uring_completed(u64 req)
{
	struct pending *p = bpf_map_lookup_elem(&uring, &req);
	struct io io = {};
	u64 file;
	s64 res;

	if (!p)
		return 0;
	res = READ_AT(struct io_kiocb, req, cqe.res);
	file = (u64)READ_AT(struct io_kiocb, req, file);
	io.file = file_id(file);
	if (p->opcode != READ_AT(struct io_kiocb, req, opcode) || (p->file && p->file != io.file)) {
		/* Another request, which is not recorded: that of `p` ended without a completion entry. */
		count(COUNT_URING_SILENT);
	} else if (res >= 0 && io.file) {
		io.op = p->op;
		io.flags = FLAG_URING;
		if (p->op <= OP_WRITE)
			io.flags |= call_flags(READ_AT(struct file, file, f_flags), READ_AT(struct io_rw, req, flags));
		else
			io.flags |= open_flags(READ_AT(struct file, file, f_flags));
		if (p->op == OP_READ)
			io.flags &= ~FLAG_APPEND;
		io.t = p->t;
		io.dur = bpf_ktime_get_ns() - p->t;
		io.off = p->op <= OP_WRITE ? uring_start(req, p, res) : p->off;
		io.len = p->op <= OP_WRITE ? res : p->len;
		io.tgid = p->tgid;
		io.pid = p->pid;
		emit(&io);
	} else if (!io.file) {
		count_device(file);
	}
	bpf_map_delete_elem(&uring, &req);
	return 0;
}
