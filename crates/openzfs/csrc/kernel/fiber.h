/* SPDX-License-Identifier: CDDL-1.0 */
/* Fibers: stacks on which one thread of the host runs in turn. Plain C without ZFS types. */
#ifndef POOLWRIGHT_FIBER_H
#define POOLWRIGHT_FIBER_H

#include <setjmp.h>
#include <stddef.h>

typedef struct pw_fiber {
	void (*entry)(void);		/* NULL once it runs */
	char *stack;			/* NULL: that of the host's thread */
	size_t stack_bytes, mapped_bytes;
	jmp_buf context;
	void *shadow;			/* AddressSanitizer's */
} pw_fiber_t;

/*
 * Allocates the fiber's stack. The first switch to the fiber calls `entry` there, which must not return. Aborts the process if the allocation
 * fails.
 */
void pw_fiber_make(pw_fiber_t *fiber, void (*entry)(void), size_t stack_bytes);
/* Continues another fiber. Returns when another one continues this, never if it `ends`. */
void pw_fiber_switch(pw_fiber_t *from, pw_fiber_t *to, int ends);
void pw_fiber_free(pw_fiber_t *fiber);

#endif
