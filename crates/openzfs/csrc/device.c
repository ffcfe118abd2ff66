/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Emulated devices: each request waits as long as the device would take. A device is a single disk, or several disks
 * that a RAID controller stripes and presents as one (RAID 0). Each disk has its own lanes and its own channel; a
 * request is done when its last part is done. The controller takes no time and has no cache.
 */

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/prctl.h>

#include "device.h"
#include "kernel/clock.h"
#include "kernel/number.h"

#undef sched_yield	/* of interpose.h: the threads here do yield the processor */

enum { MAX_LANES = 256 };

/* Bytes on a disk before the stripe continues on the next disk; a common default of controllers. */
enum { CHUNK = 64 << 10 };

static _Atomic uint64_t overshoot;	/* moving average of how late a sleeping thread wakes */

/*
 * In a virtual machine, a sleeping thread wakes tens of microseconds late, and later on a busy host. Spinning instead
 * would take the processor from the engine that is being measured. So each sleep is shortened by the recent average
 * lateness, which makes the mean correct. Only a wait shorter than that average, or the rest of a wait, is spent in
 * sched_yield().
 */
static void
wait_until(uint64_t when)
{
	static __thread int exact;
	if (pw_clock_is_virtual) {
		pw_clock_sleep_until(when);
		return;
	}
	if (!exact) {
		(void) prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
		exact = 1;
	}
	uint64_t late = atomic_load_explicit(&overshoot, memory_order_relaxed);
	uint64_t now = pw_clock_now();
	if (now + late < when) {
		uint64_t aim = when - late;
		pw_clock_sleep_until(aim);
		now = pw_clock_now();
		/*
		 * A moving average over about 32 sleeps. The sample of a thread that was descheduled for milliseconds
		 * counts as 200 us.
		 */
		uint64_t this = MIN(now - aim, 200000);
		atomic_store_explicit(&overshoot, late + (this >> 5) - (late >> 5), memory_order_relaxed);
	}
	while (pw_clock_now() < when)
		(void) sched_yield();
}

static uint64_t
measure_overshoot(void)
{
	uint64_t late[31];
	(void) prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
	for (int i = 0; i < 31; i++) {
		uint64_t when = pw_clock_now() + 100000;
		pw_clock_sleep_until(when);
		late[i] = pw_clock_now() - when;
	}
	qsort(late, 31, sizeof (late[0]), pw_compare_u64);
	return (MIN(late[15], 200000));
}

void
pw_device_init(pw_played_t *p, const pw_device_t *is)
{
	memset(p, 0, sizeof (*p));
	(void) pthread_mutex_init(&p->lock, NULL);
	pw_device_become(p, is);
}

static void
free_lanes(pw_played_t *p)
{
	for (int i = 0; i < PW_MOST_DISKS; i++)
		free(p->disks[i].lane_free);
	memset(p->disks, 0, sizeof (p->disks));
}

void
pw_device_fini(pw_played_t *p)
{
	free_lanes(p);
	(void) pthread_mutex_destroy(&p->lock);
}

void
pw_device_become(pw_played_t *p, const pw_device_t *is)
{
	if (is->emulate && !pw_clock_is_virtual && atomic_load(&overshoot) == 0)
		atomic_store(&overshoot, measure_overshoot());
	pthread_mutex_lock(&p->lock);
	free_lanes(p);
	p->is = *is;
	p->is.queue_depth = MAX(1, MIN(is->queue_depth, MAX_LANES));
	p->is.disks = MAX(1, MIN(is->disks, PW_MOST_DISKS));
	for (uint32_t i = 0; is->emulate && i < p->is.disks; i++) {
		p->disks[i].lane_free = calloc(p->is.queue_depth, sizeof (uint64_t));
		if (p->disks[i].lane_free == NULL)
			abort();
	}
	pthread_mutex_unlock(&p->lock);
}

/* Returns by how much the disk has read ahead at `now`: at its rate, until the segment is full or the medium is accessed. */
static uint64_t
read_ahead(const pw_segment_t *segment, const pw_device_t *d, uint64_t now)
{
	uint64_t most = d->cache_bytes / PW_SEGMENTS;
	if (now <= segment->read_at)
		return (0);
	double bytes = (double)(now - segment->read_at) * (double)d->read_bytes_s / 1e9;
	return (bytes < (double)most ? (uint64_t)bytes : most);
}

/* Whether the disk's cache has all bytes of a read. */
static int
is_cached(const pw_disk_t *disk, const pw_device_t *d, uint64_t offset, uint64_t end, uint64_t now)
{
	for (int i = 0; d->cache_bytes != 0 && i < PW_SEGMENTS; i++) {
		const pw_segment_t *segment = &disk->segments[i];
		uint64_t ahead = segment == disk->ahead ? read_ahead(segment, d, now) : 0;
		if (segment->start < segment->end && offset >= segment->start && end <= segment->end + ahead)
			return (1);
	}
	return (0);
}

/* Stops reading ahead, because the heads are needed. */
static void
stop_ahead(pw_disk_t *disk, const pw_device_t *d, uint64_t now)
{
	if (disk->ahead != NULL)
		disk->ahead->end += read_ahead(disk->ahead, d, now);
	disk->ahead = NULL;
}

/* Removes the segments that a write changes. */
static void
uncache(pw_disk_t *disk, uint64_t offset, uint64_t end)
{
	for (int i = 0; i < PW_SEGMENTS; i++)
		if (disk->segments[i].start < end && disk->segments[i].end > offset)
			disk->segments[i].end = disk->segments[i].start;
}

/* Adds what was read from the medium to the segment that it continues, or replaces the oldest one. */
static void
cache(pw_disk_t *disk, const pw_device_t *d, uint64_t offset, uint64_t end, uint64_t done)
{
	uint64_t most = d->cache_bytes / PW_SEGMENTS;
	pw_segment_t *segment = &disk->segments[0];

	for (int i = 0; i < PW_SEGMENTS; i++) {
		pw_segment_t *it = &disk->segments[i];
		if (it->start < it->end && offset >= it->start && offset <= it->end) {
			segment = it;
			break;
		}
		if (it->read_at < segment->read_at)
			segment = it;
	}
	if (segment->start == segment->end || offset < segment->start || offset > segment->end)
		segment->start = offset;
	segment->end = end;
	segment->start = MAX(segment->start, end - MIN(end, most));
	segment->read_at = done;
	disk->ahead = segment;
}

/* Returns when a disk would complete this request if it arrived at `now`. */
static uint64_t
schedule(pw_disk_t *disk, const pw_device_t *d, int op, uint64_t offset, uint64_t bytes, uint64_t now)
{
	uint64_t rate = op == PW_OP_READ ? d->read_bytes_s : d->write_bytes_s;
	uint64_t latency = op == PW_OP_READ ? d->read_latency_ns :
	    op == PW_OP_WRITE ? d->write_latency_ns : d->flush_latency_ns;
	uint64_t transfer = rate == 0 ? 0 : (uint64_t)((double)bytes * 1e9 / (double)rate);
	uint64_t slot = d->iops == 0 || op == PW_OP_FLUSH ? 0 : 1000000000ULL / d->iops;
	uint32_t lane = 0;

	for (uint32_t i = 1; i < d->queue_depth; i++)
		if (disk->lane_free[i] < disk->lane_free[lane])
			lane = i;
	uint64_t begin = MAX(now, disk->lane_free[lane]);
	int cached = op == PW_OP_READ && is_cached(disk, d, offset, offset + bytes, begin);
	if (op != PW_OP_FLUSH && !cached) {
		if (offset != disk->next_offset)
			latency += d->seek_ns;
		disk->next_offset = offset + bytes;
	}
	disk->pipe_free = MAX(disk->pipe_free, begin) + MAX(transfer, slot);
	uint64_t done = MAX(begin + latency + transfer, disk->pipe_free);
	disk->lane_free[lane] = done;
	if (d->cache_bytes != 0 && op != PW_OP_FLUSH && !cached) {
		stop_ahead(disk, d, begin);
		if (op == PW_OP_WRITE)
			uncache(disk, offset, offset + bytes);
		else
			cache(disk, d, offset, offset + bytes, done);
	}
	return (done);
}

/*
 * Does the same for the disks of a stripe. The chunks of one request that belong to one disk are adjacent on it, so
 * they are one request to that disk, which starts at the first chunk.
 */
static uint64_t
schedule_stripe(pw_played_t *p, int op, uint64_t offset, uint64_t bytes, uint64_t now)
{
	const pw_device_t *d = &p->is;
	uint64_t start[PW_MOST_DISKS], length[PW_MOST_DISKS] = { 0 }, done = now;
	uint64_t end = offset + bytes;

	for (uint64_t at = offset; at < end; ) {
		uint64_t chunk = at / CHUNK, part = MIN(end, (chunk + 1) * CHUNK) - at;
		uint32_t i = chunk % d->disks;
		if (length[i] == 0)
			start[i] = chunk / d->disks * CHUNK + at % CHUNK;
		length[i] += part;
		at += part;
	}
	for (uint32_t i = 0; i < d->disks; i++) {
		if (length[i] == 0 && op != PW_OP_FLUSH)
			continue;
		uint64_t its = schedule(&p->disks[i], d, op, op == PW_OP_FLUSH ? 0 : start[i], length[i], now);
		done = MAX(done, its);
	}
	return (done);
}

uint64_t
pw_device_plan(pw_played_t *p, int op, uint64_t offset, uint64_t bytes, uint64_t began)
{
	if (!p->is.emulate)
		return (0);
	pthread_mutex_lock(&p->lock);
	/* Another thread may have turned the emulation off meanwhile. */
	uint64_t done = !p->is.emulate ? 0 : p->is.disks == 1 ?
	    schedule(&p->disks[0], &p->is, op, offset, bytes, began) : schedule_stripe(p, op, offset, bytes, began);
	pthread_mutex_unlock(&p->lock);
	return (done);
}

void
pw_device_wait(pw_played_t *p, int op, uint64_t offset, uint64_t bytes, uint64_t began)
{
	uint64_t done = pw_device_plan(p, op, offset, bytes, began);
	if (done != 0)
		wait_until(done);
}
