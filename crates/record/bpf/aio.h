/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * libaio: requests are read from the caller's memory at io_submit(), and matched to their completions by the
 * address of the control block.
 */
#pragma once
#include "file.h"

/*
 * The maximum number of control blocks examined per io_submit() and of events per io_getevents(); excess ones
 * are counted.
 */
#define AIO_BATCH 1024

struct iocb {
	u64 data;
	u32 key;
	u32 rw_flags;
	u16 opcode;
	s16 reqprio;
	u32 fildes;
	u64 buf;
	u64 nbytes;
	s64 offset;
	u64 reserved2;
	u32 flags;
	u32 resfd;
};

struct io_event {
	u64 data;
	u64 obj;
	s64 res;
	s64 res2;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 16);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct aio_key);
	__type(value, struct pending);
} aio SEC(".maps");

struct aio_walk {
	u64 array;
	u64 t;
	u64 id;
	u64 left;
	/* The file of the last append of the batch, where its first append starts, and where the last one ends. */
	u64 append_file;
	u64 append_start;
	u64 append_end;
	u32 nr;
	bool unsure;
};

struct aio_vector {
	u64 array;
	u64 bytes;
	u32 nr;
};

static long aio_add_buffer(u32 i, struct aio_vector *v)
{
	u64 len = 0;

	/* The length is the second member of struct iovec. */
	if (i >= v->nr || bpf_probe_read_user(&len, sizeof(len), (void *)(v->array + i * 16 + 8)))
		return 1;
	v->bytes += len;
	return 0;
}

/* Returns the number of bytes of a request, whose `nbytes` is the number of buffers if it is vectored. */
static __always_inline u64 aio_bytes(struct iocb *cb)
{
	struct aio_vector v = { .array = cb->buf, .nr = cb->nbytes };

	if (cb->opcode < 2)
		return cb->nbytes;
	if (cb->opcode < 7)
		return 0;
	bpf_loop(AIO_BATCH, aio_add_buffer, &v, 0);
	return v.bytes;
}

/*
 * Returns where an append will start. The kernel takes the file's size when it starts the request: in the
 * call of io_submit(), after the earlier requests of the batch.
 */
static __always_inline u64 aio_append(struct aio_walk *w, u64 file, u64 len)
{
	u64 start = w->append_end;

	if (w->append_file != file) {
		w->unsure |= w->append_file != 0;
		w->append_file = file;
		start = size_of(file);
		w->append_start = start;
	}
	w->append_end = start + len;
	return start;
}

static __always_inline u32 aio_op(u16 opcode)
{
	switch (opcode) {
	case 0: /* IOCB_CMD_PREAD */
	case 7: /* IOCB_CMD_PREADV */
		return OP_READ;
	case 1: /* IOCB_CMD_PWRITE */
	case 8: /* IOCB_CMD_PWRITEV */
		return OP_WRITE;
	case 2:
		return OP_FSYNC;
	case 3:
		return OP_FDATASYNC;
	default:
		return ~0u;
	}
}

static __always_inline void emit_aio(struct pending *p, u64 dur, u64 len)
{
	struct io io = {
		.op = p->op,
		.flags = p->flags,
		.file = p->file,
		.t = p->t,
		.dur = dur,
		.off = p->off,
		.len = p->op <= OP_WRITE ? len : 0,
		.tgid = p->tgid,
		.pid = p->pid,
	};

	emit(&io);
}

/*
 * Keeps a request until its completion. Not inlined: aio_submit_one() calls the functions that name a file, and before Linux 6.13 the
 * frames of a program and of all that it calls must fit into 512 bytes.
 */
static __noinline int aio_keep(struct aio_walk *w, u64 iocb, u64 file, u32 id)
{
	struct aio_key key = { .tgid = w->id >> 32, .iocb = iocb };
	struct pending p = {}, *old;
	struct iocb cb;
	u32 op;

	if (bpf_probe_read_user(&cb, sizeof(cb), (void *)iocb)) {
		count(COUNT_AIO_LONG);
		return 0;
	}
	op = aio_op(cb.opcode);
	p.op = op;
	p.file = id;
	p.t = w->t;
	p.off = op <= OP_WRITE ? cb.offset : 0;
	p.len = aio_bytes(&cb);
	p.tgid = w->id >> 32;
	p.pid = w->id;
	p.flags = call_flags(READ_AT(struct file, file, f_flags), cb.rw_flags) | FLAG_AIO;
	if (op == OP_READ)
		p.flags &= ~FLAG_APPEND;
	if (op == OP_WRITE && p.flags & FLAG_APPEND)
		p.off = aio_append(w, file, p.len);
	old = bpf_map_lookup_elem(&aio, &key);
	if (old) {
		/*
		 * The control block was reused before its completion was seen: the program took it from the ring in its own
		 * memory.
		 */
		emit_aio(old, 0, old->len);
		count(COUNT_AIO_REAPED);
	}
	if (bpf_map_update_elem(&aio, &key, &p, BPF_ANY))
		count(COUNT_TABLE_FULL);
	return 0;
}

/* The members of struct iocb that say what a request does, and with which file. */
struct iocb_target {
	u16 opcode;
	s16 reqprio;
	u32 fildes;
};

static long aio_submit_one(u32 i, struct aio_walk *w)
{
	struct iocb_target target;
	u64 iocb, file;
	u32 id;

	if (i >= w->nr)
		return 1;
	if (bpf_probe_read_user(&iocb, sizeof(iocb), (void *)(w->array + i * 8)) ||
	    bpf_probe_read_user(&target, sizeof(target), (void *)(iocb + __builtin_offsetof(struct iocb, opcode)))) {
		count(COUNT_AIO_LONG);
		return 0;
	}
	if (aio_op(target.opcode) == ~0u)
		return 0;
	file = fd_file(target.fildes);
	id = file_id(file);
	if (id)
		aio_keep(w, iocb, file, id);
	else
		count_device(file);
	return 0;
}

static __always_inline void aio_submit(struct call *call)
{
	struct aio_walk w = {
		.array = call->arg[2],
		.t = call->t,
		.id = bpf_get_current_pid_tgid(),
		.nr = call->arg[1],
	};

	if (call->arg[1] > AIO_BATCH)
		count(COUNT_AIO_LONG);
	bpf_loop(AIO_BATCH, aio_submit_one, &w, 0);
	call->file_ptr = w.append_file;
	call->size = w.append_end;
	call->pos = w.append_start;
	if (w.unsure)
		count(COUNT_APPENDS);
}

/* Forgets a request that io_submit() did not accept. */
static long aio_forget_one(u32 i, struct aio_walk *w)
{
	struct aio_key key = { .tgid = w->id >> 32 };

	if (i >= w->nr)
		return 1;
	if (!bpf_probe_read_user(&key.iocb, sizeof(key.iocb), (void *)(w->array + i * 8)))
		bpf_map_delete_elem(&aio, &key);
	return 0;
}

/* Moves an append to where the first one of the batch started. */
static long aio_move_one(u32 i, struct aio_walk *w)
{
	struct aio_key key = { .tgid = w->id >> 32 };
	struct pending *p;

	if (i >= w->nr || bpf_probe_read_user(&key.iocb, sizeof(key.iocb), (void *)(w->array + i * 8)))
		return 1;
	p = bpf_map_lookup_elem(&aio, &key);
	if (p && p->op == OP_WRITE && p->flags & FLAG_APPEND)
		p->off = w->append_start;
	return 0;
}

/*
 * Compares the file's size with what the appends of a batch make. If it has not grown, the kernel has started
 * all of them at the same place (XFS does with O_DIRECT). Otherwise, others have appended, or some requests
 * still run.
 */
static __always_inline void aio_appended(struct call *call)
{
	struct aio_walk w = {
		.array = call->arg[2],
		.id = bpf_get_current_pid_tgid(),
		.append_start = call->pos,
		.nr = call->arg[1],
	};
	u64 size = size_of(call->file_ptr);

	if (size == w.append_start)
		bpf_loop(AIO_BATCH, aio_move_one, &w, 0);
	else if (size != call->size)
		count(COUNT_APPENDS);
}

static __always_inline void aio_submitted(struct call *call, s64 ret)
{
	u64 taken = ret < 0 ? 0 : ret;
	struct aio_walk w = {
		.array = call->arg[2] + taken * 8,
		.id = bpf_get_current_pid_tgid(),
		.nr = call->arg[1] - taken,
	};

	if (call->arg[1] > taken)
		bpf_loop(AIO_BATCH, aio_forget_one, &w, 0);
	if (call->file_ptr)
		aio_appended(call);
}

static long aio_end_one(u32 i, struct aio_walk *w)
{
	struct aio_key key = { .tgid = w->id >> 32 };
	struct pending *p;
	struct io_event ev;

	if (i >= w->nr)
		return 1;
	if (bpf_probe_read_user(&ev, sizeof(ev), (void *)(w->array + i * sizeof(ev))))
		return 0;
	key.iocb = ev.obj;
	p = bpf_map_lookup_elem(&aio, &key);
	if (!p)
		return 0;
	if (ev.res >= 0)
		emit_aio(p, w->t - p->t, ev.res);
	bpf_map_delete_elem(&aio, &key);
	return 0;
}

/* `ret` requests have completed; their events are in the caller's array. */
static __always_inline void aio_ended(struct call *call, s64 ret)
{
	struct aio_walk w = {
		.array = call->arg[3],
		.t = bpf_ktime_get_ns(),
		.id = bpf_get_current_pid_tgid(),
		.nr = ret,
	};

	if (ret > AIO_BATCH)
		count(COUNT_AIO_LONG);
	bpf_loop(AIO_BATCH, aio_end_one, &w, 0);
}
