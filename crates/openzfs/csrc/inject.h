/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Faults of the host, injected at the seam, for tests: in a program that is shipped none of this is compiled. No ZFS type
 * appears here.
 */
#ifndef POOLWRIGHT_INJECT_H
#define POOLWRIGHT_INJECT_H

#include <stddef.h>
#include <stdint.h>

enum { PW_INJECT_ERROR = 0, PW_INJECT_SHORT = 1, PW_INJECT_DAMAGE = 2 };

typedef struct pw_injection {
	const char *path;	/* of one vdev file; NULL: of all */
	uint64_t after;		/* the first call that it strikes, counted from now; 1 is the next */
	uint64_t times;		/* how many calls it strikes; 0: all from there on */
	int op;			/* 0 read, 1 write, 2 flush */
	int how;		/* an error, a read of half the bytes, or a bit that is wrong in what was read */
	int error;		/* the errno */
} pw_injection_t;

#ifdef PW_FAULT_INJECTION

/* Replaces the injection that there was; counts from 0. */
int pw_inject(const pw_injection_t *injection);
void pw_inject_stop(void);
/* Calls of that kind, to the files of the injection, since it was set. */
uint64_t pw_inject_calls(void);
/* Before the call: an errno to fail with, or 0. `*count` may become less. */
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
