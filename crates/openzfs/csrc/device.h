/* SPDX-License-Identifier: CDDL-1.0 */
/* Devices that a vdev's file can behave like; see device.c. Plain C, no ZFS type. */
#ifndef POOLWRIGHT_DEVICE_H
#define POOLWRIGHT_DEVICE_H

#include <pthread.h>
#include <stdint.h>

#include "engine.h"

enum { PW_OP_READ, PW_OP_WRITE, PW_OP_FLUSH };
/* Of a failure: no request of one file, but the pool as a whole; and a log that names a txg of the far future. */
enum { PW_OP_POOL = 3, PW_OP_FUTURE = 4 };

/* One disk's clocks: `queue_depth` requests at once, and one pipe that all share. */
typedef struct pw_disk {
	uint64_t *lane_free;
	uint64_t pipe_free;
	uint64_t next_offset;
} pw_disk_t;

/* All zero: no device is played. */
typedef struct pw_played {
	pthread_mutex_t lock;		/* of the clocks, and of a change of the device */
	pw_device_t is;
	pw_disk_t disks[PW_MOST_DISKS];
} pw_played_t;

void pw_device_init(pw_played_t *, const pw_device_t *);
void pw_device_fini(pw_played_t *);
/* From now on it is another one, with all its clocks at rest. */
void pw_device_become(pw_played_t *, const pw_device_t *);
/* When the device has this request done, if it arrives at `began`; 0 if none is played. */
uint64_t pw_device_plan(pw_played_t *, int op, uint64_t offset, uint64_t bytes, uint64_t began);
/* Returns at that time. */
void pw_device_wait(pw_played_t *, int op, uint64_t offset, uint64_t bytes, uint64_t began);

uint64_t pw_now_ns(void);

#endif
