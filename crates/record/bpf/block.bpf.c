/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The probe set `block`: the requests (bios) that reach one block device, at the tracepoints where the kernel
 * queues and ends them. Like the set `syscall`, it uses only plain loads, so that a kernel in lockdown permits it.
 *
 * Each bio that a file system or program submits is queued once, with its whole length. If the device takes only
 * less at once, bio_split() cuts parts off its front after that. BIO_TRACE_COMPLETION, a flag that each part
 * inherits, keeps the rest from being queued again. So a recorded request is one queued bio. It is recognized at its
 * end by the address of that bio, which no other bio has meanwhile. Its offset and length are taken when it is
 * queued, because bi_iter advances later.
 *
 * The end depends on the driver:
 *
 * - A driver of bios, such as that of volumes (by default), md and device mapper, ends the bio with bio_endio(),
 *   which runs on_end() once, after all parts.
 * - A driver of requests, such as loop, NVMe, and that of volumes with zvol_use_blk_mq=1, ends requests, to which
 *   bios were merged; blk_update_request() clears BIO_TRACE_COMPLETION, so that on_end() does not run. A bio has
 *   ended when all of its bytes have, those of its parts included: bi_private of a part is the bio from which it
 *   was cut. Parts end in any order. A write with REQ_PREFLUSH or REQ_FUA that the block layer divides into flush,
 *   write and flush (RQF_FLUSH_SEQ) ends twice, first when the data is written and then without data.
 *
 * An event without a duration is recorded, and counted, for requests whose end was not seen: those in flight at the
 * end of the recording; where the kernel skipped a program because it interrupted itself; and for a driver of bios
 * on kernels that report no end of a bio that is chained to another one by bio_chain(), such as all but the last one
 * of a large discard. Their entries stay in the table until the address is used again, or to the end.
 *
 * The sector is that of the whole device: partitions are remapped before a bio is queued, and bi_bdev remains the
 * partition. At the end, bi_bdev may be another device: md passes a bio on without queueing it again. So a volume
 * that is a member of an md array of level 0 has no requests here. Device mapper queues clones.
 */
#include "common.h"

#define SECTOR_SHIFT 9

/* enum req_op and enum req_flag_bits: unchanged from 5.15 to 6.18, as far as used here. */
#define REQ_OP_MASK 0xff
#define REQ_OP_READ 0
#define REQ_OP_WRITE 1
#define REQ_OP_DISCARD 3
#define REQ_OP_SECURE_ERASE 5
#define REQ_OP_WRITE_ZEROES 9
#define REQ_FUA (1 << 17)
#define REQ_PREFLUSH (1 << 18)

/* The number of the device in the records. */
#define DEVICE_FILE 1

/* `opcode` of a write that is preceded by a flush. */
#define FLUSHES 1

/* The maximum number of bios in a request; the ends of excess ones are not seen. */
#define MAX_BIOS 4096

struct request_in_flight {
	/* `file` becomes 0 when the event is emitted, and when the request fails. */
	struct pending p;
	/* The bytes that have not ended. */
	u64 left;
};

/* By the address of the bio. Allocated in advance, because requests also end in interrupts. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1 << 16);
	__type(key, u64);
	__type(value, struct request_in_flight);
} bios SEC(".maps");

static __always_inline bool is_followed(struct bio *bio)
{
	struct gendisk *disk = bio->bi_bdev->bd_disk;

	return ((u32)disk->major << 20 | (u32)disk->first_minor) == config.device;
}

/* Returns the operation of a bio with data, or -1. */
static __always_inline int op_of(u32 opf)
{
	switch (opf & REQ_OP_MASK) {
	case REQ_OP_READ:
		return OP_READ;
	case REQ_OP_WRITE:
		return OP_WRITE;
	case REQ_OP_DISCARD:
	case REQ_OP_SECURE_ERASE:
	case REQ_OP_WRITE_ZEROES:
		return OP_PUNCH;
	default:
		return -1;
	}
}

/* Describes a bio that is being queued. Returns false if there is nothing to record. */
static __always_inline bool describe(struct bio *bio, struct pending *p)
{
	u64 id = bpf_get_current_pid_tgid();
	u32 opf = bio->bi_opf;
	int op = op_of(opf);

	if (op < 0) {
		count(COUNT_OTHER_REQUESTS);
		return false;
	}
	p->len = bio->bi_iter.bi_size;
	if (p->len) {
		p->op = op;
		p->off = bio->bi_iter.bi_sector << SECTOR_SHIFT;
		p->opcode = opf & REQ_PREFLUSH ? FLUSHES : 0;
		p->flags = opf & REQ_FUA ? FLAG_SYNC : 0;
	} else if (opf & REQ_PREFLUSH) {
		p->op = OP_FSYNC;
	} else {
		return false;
	}
	p->file = DEVICE_FILE;
	p->tgid = id >> 32;
	p->pid = id;
	p->t = bpf_ktime_get_ns();
	return true;
}

/* Emits the events of a request, unless that has been done. */
static __always_inline void emit_bio(struct pending *p, u64 dur)
{
	struct io io = {
		.file = DEVICE_FILE,
		.t = p->t,
		.dur = dur,
		.tgid = p->tgid,
		.pid = p->pid,
	};

	if (!__sync_lock_test_and_set(&p->file, 0))
		return;
	if (p->opcode == FLUSHES) {
		/* One after the other: the device flushes before it writes. How the time divides is not known: half for each. */
		io.op = OP_FSYNC;
		io.dur = dur / 2;
		emit(&io);
		io.t += io.dur;
		io.dur = dur - io.dur;
	}
	io.op = p->op;
	io.flags = p->flags;
	io.off = p->off;
	io.len = p->len;
	emit(&io);
}

/* Emits a request that has ended unseen: another one has the address of its bio now. */
static __always_inline void end_unseen(u64 bio)
{
	struct request_in_flight *r = bpf_map_lookup_elem(&bios, &bio);

	if (!r)
		return;
	if (r->p.file)
		count(COUNT_UNENDED);
	emit_bio(&r->p, 0);
	bpf_map_delete_elem(&bios, &bio);
}

static __always_inline void end_bio(u64 bio, struct request_in_flight *r)
{
	emit_bio(&r->p, bpf_ktime_get_ns() - r->p.t);
	bpf_map_delete_elem(&bios, &bio);
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(on_queue, struct bio *bio)
{
	struct request_in_flight r = {};
	struct control *c = controls();
	u64 key = (u64)bio;

	end_unseen(key);
	if (!c || !c->start_ns || !is_followed(bio) || !describe(bio, &r.p))
		return 0;
	r.left = r.p.len;
	if (bpf_map_update_elem(&bios, &key, &r, BPF_ANY))
		count(COUNT_TABLE_FULL);
	return 0;
}

SEC("tp_btf/block_bio_complete")
int BPF_PROG(on_end, void *queue, struct bio *bio)
{
	u64 key = (u64)bio;
	struct request_in_flight *r = bpf_map_lookup_elem(&bios, &key);

	if (!r)
		return 0;
	if (bio->bi_status)
		r->p.file = 0;
	end_bio(key, r);
	return 0;
}

/* The end of a request of the driver: the next of its bios, and how many bytes have ended. */
struct request_end {
	u64 bio;
	u64 bytes;
	bool failed;
	bool in_flush_sequence;
};

/* Ends bytes of a bio. Returns 1 after the last one of the request. */
static long end_bytes(u32 i, struct request_end *end)
{
	u64 bio = end->bio, size, bytes;
	struct request_in_flight *r;

	if (!bio)
		return 1;
	size = READ_AT(struct bio, bio, bi_iter.bi_size);
	bytes = size < end->bytes ? size : end->bytes;
	end->bytes -= bytes;
	end->bio = (u64)READ_AT(struct bio, bio, bi_next);
	r = bpf_map_lookup_elem(&bios, &bio);
	if (!r) {
		bio = (u64)READ_AT(struct bio, bio, bi_private);
		r = bpf_map_lookup_elem(&bios, &bio);
	}
	if (r) {
		if (end->failed)
			r->p.file = 0;
		if (__sync_fetch_and_sub(&r->left, bytes) == bytes && !(end->in_flush_sequence && size))
			end_bio(bio, r);
	}
	return !end->bytes;
}

static __always_inline u32 flush_sequence_flag(void)
{
	if (bpf_core_enum_value_exists(enum rqf_flags, __RQF_FLUSH_SEQ))
		return 1 << bpf_core_enum_value(enum rqf_flags, __RQF_FLUSH_SEQ);
	return 1 << 4;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(on_request_end, struct request *request, int error, unsigned int bytes)
{
	struct request_end end = {
		.bio = (u64)request->bio,
		.bytes = bytes,
		.failed = error != 0,
		.in_flush_sequence = request->rq_flags & flush_sequence_flag(),
	};

	bpf_loop(MAX_BIOS, end_bytes, &end, 0);
	return 0;
}
