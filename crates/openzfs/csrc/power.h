/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Simulated power loss, for tests: between the seam and the host's files stands a volatile write cache, and a cut
 * ends the process with only some of it on the files. No ZFS type appears here. Calls return 0 or an errno.
 */
#ifndef POOLWRIGHT_POWER_H
#define POOLWRIGHT_POWER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { PW_POWER_EXIT = 75 };	/* how the process ends at a cut */
enum { PW_POWER_OFF = -1 };	/* the cache is not in use: go to the file */

typedef struct pw_power_options {
	uint64_t after_ops;	/* the cut comes at this write or flush, counted from now; 0: only when asked for */
	uint64_t seed;		/* chooses what survives that cut */
	uint64_t limit_bytes;	/* of unflushed writes, over all files; 0: 256 MiB */
	uint32_t lie;		/* flushes are acknowledged and do nothing */
} pw_power_options_t;

#ifdef PW_FAULT_INJECTION	/* a program that is shipped has none of this */

/* Turns the cache on, or gives the running one new options and counts from 0 again. */
void pw_power_start(const pw_power_options_t *options);
/* Writes what is cached to the files and turns the cache off. */
int pw_power_stop(void);
void pw_power_cut(uint64_t seed) __attribute__((noreturn));
/* POOLWRIGHT_POWER, looked at once in a process; a value that cannot be read ends it with code 2. */
void pw_power_from_environment(void);

/* ---- for the seam ---- */

typedef struct pw_power_file pw_power_file_t;		/* the cache of one vdev file, whoever has it open */
typedef _Atomic(pw_power_file_t *) pw_power_slot_t;	/* in a handle; starts as NULL */

extern _Atomic int pw_power_on;

static inline int
pw_power_is_on(void)
{
	return (__builtin_expect(__atomic_load_n((int *)&pw_power_on, __ATOMIC_RELAXED) != 0, 0));
}

/* PW_POWER_OFF from the last two: it was turned off meanwhile and has done nothing. */
int pw_power_read(pw_power_slot_t *slot, int fd, void *buf, size_t count, uint64_t offset, size_t *done);
int pw_power_write(pw_power_slot_t *slot, int fd, const void *buf, size_t count, uint64_t offset);
int pw_power_flush(pw_power_slot_t *slot, int fd);
/* The handle is being closed; what it wrote stays cached, as in a drive. */
void pw_power_detach(pw_power_slot_t *slot);

#else

typedef char pw_power_slot_t;

static inline void pw_power_from_environment(void) {}
static inline int pw_power_is_on(void) { return (0); }
static inline void pw_power_detach(pw_power_slot_t *slot) { (void) slot; }

static inline int
pw_power_read(pw_power_slot_t *slot, int fd, void *buf, size_t count, uint64_t offset, size_t *done)
{
	(void) slot; (void) fd; (void) buf; (void) count; (void) offset; (void) done;
	return (PW_POWER_OFF);
}

static inline int
pw_power_write(pw_power_slot_t *slot, int fd, const void *buf, size_t count, uint64_t offset)
{
	(void) slot; (void) fd; (void) buf; (void) count; (void) offset;
	return (PW_POWER_OFF);
}

static inline int
pw_power_flush(pw_power_slot_t *slot, int fd)
{
	(void) slot; (void) fd;
	return (PW_POWER_OFF);
}

#endif
#endif
