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
	URING_OPENAT2 = 28,
	URING_SPLICE = 30,
	URING_RENAMEAT = 35,
	URING_UNLINKAT = 36,
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
		p->flags = rwf_flags(READ_AT(struct io_rw, req, flags));
		return true;
	case URING_WRITEV:
	case URING_WRITE_FIXED:
	case URING_WRITE:
	case URING_WRITEV_FIXED:
		p->op = OP_WRITE;
		p->off = READ_AT(struct io_rw, req, kiocb.ki_pos);
		p->flags = rwf_flags(READ_AT(struct io_rw, req, flags));
		return true;
	case URING_FSYNC:
		p->op = READ_AT(struct io_sync, req, flags) & IORING_FSYNC_DATASYNC ? OP_FDATASYNC : OP_FSYNC;
		return true;
	case URING_SYNC_FILE_RANGE:
		p->op = OP_FDATASYNC;
		p->off = READ_AT(struct io_sync, req, off);
		p->len = READ_AT(struct io_sync, req, len);
		return true;
	case URING_FALLOCATE:
		mode = READ_AT(struct io_sync, req, mode);
		p->op = mode & 0x12 ? OP_PUNCH : OP_ALLOCATE;
		p->off = READ_AT(struct io_sync, req, off);
		p->len = READ_AT(struct io_sync, req, len);
		return !(mode & 0x28);
	case URING_FTRUNCATE:
		p->op = OP_TRUNCATE;
		p->off = READ_AT(struct io_ftrunc, req, len);
		return true;
	case URING_OPENAT:
	case URING_OPENAT2:
	case URING_CLOSE:
	case URING_SPLICE:
	case URING_RENAMEAT:
	case URING_UNLINKAT:
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
		p.file = file_id(fd_file(READ_AT(struct io_kiocb, req, cqe.fd)));
		if (!p.file)
			return 0;
	}
	p.t = bpf_ktime_get_ns();
	p.tgid = id >> 32;
	p.pid = id;
	if (bpf_map_update_elem(&uring, &req, &p, BPF_ANY))
		count(COUNT_TABLE_FULL);
	return 0;
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
	if (res >= 0 && io.file) {
		io.op = p->op;
		io.flags = p->flags | open_flags(READ_AT(struct file, file, f_flags)) | FLAG_URING;
		io.t = p->t;
		io.dur = bpf_ktime_get_ns() - p->t;
		io.off = p->off;
		/* An offset of -1 means the file's own position, which has advanced by now. */
		if (p->off == -1)
			io.off = READ_AT(struct file, file, f_pos) - res;
		io.len = p->op <= OP_WRITE ? res : p->len;
		io.tgid = p->tgid;
		io.pid = p->pid;
		emit(&io);
	}
	bpf_map_delete_elem(&uring, &req);
	return 0;
}
