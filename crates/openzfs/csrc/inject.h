/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Injected I/O errors of the host, for tests. Programs that ship are built without them. No ZFS types.
 */
#ifndef POOLWRIGHT_INJECT_H
#define POOLWRIGHT_INJECT_H

#include <stddef.h>
#include <stdint.h>

enum { PW_INJECT_ERROR = 0, PW_INJECT_SHORT = 1, PW_INJECT_DAMAGE = 2 };

typedef struct pw_injection {
	const char *path;	/* of one vdev file; NULL: of all files */
	uint64_t after;		/* the first call that fails, counted from now; 1 is the next */
	uint64_t times;		/* how many calls fail; 0: all from `after` on */
	int op;			/* 0 read, 1 write, 2 flush */
	int how;		/* an error, a short read of half the bytes, or a flipped bit in the data read */
	int error;		/* the errno */
} pw_injection_t;

#ifdef PW_FAULT_INJECTION

/* Replaces the current injection and resets its count. */
int pw_inject(const pw_injection_t *injection);
void pw_inject_stop(void);
/* The number of matching calls since the injection was set. */
uint64_t pw_inject_calls(void);
/* Called before the request: returns the errno to fail with, or 0. May reduce `*count`. */
int pw_inject_before(const char *path, int op, size_t *count, int *damage);

#else

static inline int
pw_inject_before(const char *path, int op, size_t *count, int *damage)
{
	(void) path; (void) op; (void) count; (void) damage;
	return (0);
}

#endif
#endif
