/* SPDX-License-Identifier: CDDL-1.0 */
/* Emulated devices of vdev files; see device.c. Plain C without ZFS types. */
#ifndef POOLWRIGHT_DEVICE_H
#define POOLWRIGHT_DEVICE_H

#include <pthread.h>
#include <stdint.h>

#include "engine.h"

enum { PW_OP_READ, PW_OP_WRITE, PW_OP_FLUSH };
/* Failures of the whole pool, and of a log that names a txg of the far future. */
enum { PW_OP_POOL = 3, PW_OP_FUTURE = 4 };

/*
 * A segment of a disk's read cache: the bytes from `start` to `end`, and what the disk has read ahead since `read_at`. An
 * empty segment has start == end.
 */
typedef struct pw_segment {
	uint64_t start, end;
	uint64_t read_at;
} pw_segment_t;

/* The clocks of a disk: a lane for each of its `queue_depth` concurrent requests, and a channel that they share. */
typedef struct pw_disk {
	uint64_t *lane_free;
	uint64_t pipe_free;
	uint64_t next_offset;
	pw_segment_t segments[PW_SEGMENTS];
	pw_segment_t *ahead;		/* the segment that grows until the next access to the medium */
} pw_disk_t;

/* All zero: no device is emulated. */
typedef struct pw_played {
	pthread_mutex_t lock;		/* protects the clocks and the choice of the device */
	pw_device_t is;
	pw_disk_t disks[PW_MOST_DISKS];
} pw_played_t;

void pw_device_init(pw_played_t *, const pw_device_t *);
void pw_device_fini(pw_played_t *);
/* Changes the device and resets its clocks. */
void pw_device_become(pw_played_t *, const pw_device_t *);
/* Returns when the device completes a request that arrives at `began`, or 0 if no device is emulated. */
uint64_t pw_device_plan(pw_played_t *, int op, uint64_t offset, uint64_t bytes, uint64_t began);
/* Waits until then. */
void pw_device_wait(pw_played_t *, int op, uint64_t offset, uint64_t bytes, uint64_t began);

#endif
