/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Simulated power loss, for tests: a volatile write cache between the engine and the host's files. A cut writes only a part
 * of it to the files and ends the process. No ZFS types. Functions return 0 or an errno.
 */
#ifndef POOLWRIGHT_POWER_H
#define POOLWRIGHT_POWER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { PW_POWER_EXIT = 75 };	/* exit code of the process after a cut */
enum { PW_POWER_OFF = -1 };	/* the cache is off: use the file */

typedef struct pw_power_options {
	uint64_t after_ops;	/* cut at this write or flush, counted from now; 0: only by pw_power_cut() */
	uint64_t seed;		/* selects the writes that survive that cut */
	uint64_t limit_bytes;	/* of unflushed writes of all files; 0: 256 MiB */
	uint32_t lie;		/* acknowledge flushes without doing them */
} pw_power_options_t;

#ifdef PW_FAULT_INJECTION	/* not in programs that ship */

/* Turns the cache on, or changes its options and resets the count. */
void pw_power_start(const pw_power_options_t *options);
/* Writes the cache to the files and turns it off. */
int pw_power_stop(void);
void pw_power_cut(uint64_t seed) __attribute__((noreturn));
/* Reads POOLWRIGHT_POWER once for each process. An invalid value ends the process with code 2. */
void pw_power_from_environment(void);

/* ---- for seam.c ---- */

typedef struct pw_power_file pw_power_file_t;		/* the cache of one vdev file, shared by all of its handles */
typedef _Atomic(pw_power_file_t *) pw_power_slot_t;	/* in a handle; starts as NULL */

extern _Atomic int pw_power_on;

static inline int
pw_power_is_on(void)
{
	return (__builtin_expect(__atomic_load_n((int *)&pw_power_on, __ATOMIC_RELAXED) != 0, 0));
}

/* PW_POWER_OFF: the cache was turned off meanwhile, and nothing was done. */
int pw_power_read(pw_power_slot_t *slot, int fd, void *buf, size_t count, uint64_t offset, size_t *done);
int pw_power_write(pw_power_slot_t *slot, int fd, const void *buf, size_t count, uint64_t offset);
int pw_power_flush(pw_power_slot_t *slot, int fd);
/* Called when a handle is closed. Its writes stay cached, as in a drive. */
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
