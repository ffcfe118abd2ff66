/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * The clock of the engine's threads. Plain C without ZFS types.
 *
 * On the real clock, threads are the host's, and time is CLOCK_MONOTONIC. On the virtual clock, threads are fibers, of which one runs at a
 * time, and each has its own time, which its work moves (pw_clock_charge()). A thread that waits hands over to the one with the
 * earliest time for which a simulated processor is free. So a wait costs no time, and the same work takes the same time on
 * any machine.
 */
#ifndef POOLWRIGHT_CLOCK_H
#define POOLWRIGHT_CLOCK_H

#include <stddef.h>
#include <stdint.h>

/* Chosen once, before the library starts. */
extern int pw_clock_is_virtual;

/* A thread on the virtual clock. */
typedef struct pw_thread pw_thread_t;

/* Threads that wait for the same event, in the order in which they began to wait. All zero: none. */
typedef struct pw_waiters {
	pw_thread_t *first, *last;
} pw_waiters_t;

/*
 * Does nothing. The engine calls it so that the linker includes lock.c: libzpool has weak definitions of the same functions, and builds with
 * sanitizers were linked with those.
 */
void pw_locks_link(void);

/* What the layer keeps for each thread, on both clocks. */
enum { PW_MOST_KEYS = 16 };
typedef struct pw_locals {
	void *own_queue;		/* the queue that this thread belongs to (taskq.c) */
	void *acting_for;		/* the queue whose work it is doing, if not its own */
	void *created;			/* the block of the ZAP that it is creating (hash.c) */
	void *specific[PW_MOST_KEYS];	/* values of OpenZFS's keys (thread.c); only on the virtual clock */
	int depth;			/* of tasks that it does at once (taskq.c) */
} pw_locals_t;
pw_locals_t *pw_thread_locals(void);

/* Nanoseconds of this thread's clock. */
uint64_t pw_clock_now(void);
/* Waits until this time of pw_clock_now(). */
void pw_clock_sleep_until(uint64_t when);

/* ---- the virtual clock only ---- */

/*
 * Starts the virtual clock for this many processors (1 to 64). The calling thread is its first thread. `call_ns` and `switch_ns`
 * are the costs of one call of the layer and of a processor's switch to another thread.
 */
void pw_clock_start(uint32_t processors, uint64_t seed, uint64_t call_ns, uint64_t switch_ns);
/* The time that threads have charged, in nanoseconds: their work, calls of the layer, and switches. */
uint64_t pw_clock_charged(void);
/* Creates a thread that calls `func` on its own stack. Aborts the process if the stack cannot be allocated. */
pw_thread_t *pw_clock_new(void (*func)(void *), void *arg, size_t stack_bytes);
/* Ends this thread. The first thread must not. */
void pw_clock_end(void) __attribute__((noreturn));
/* The thread that runs now. */
pw_thread_t *pw_clock_self(void);
/* Moves this thread's time by the time of its work. */
void pw_clock_charge(uint64_t ns);
/* A call of the layer: charges it, and lets threads run whose time is earlier. */
void pw_clock_call(void);
/* Lets all threads run that are ready at this thread's time. */
void pw_clock_yield(void);
/* Waits until another thread calls pw_clock_wake_one() or pw_clock_wake_all(), or until `deadline`. Returns 0 at the deadline. */
int pw_clock_wait(pw_waiters_t *waiters, uint64_t deadline);
#define	PW_CLOCK_NEVER	UINT64_MAX
/* Returns the thread that was woken, or NULL. */
pw_thread_t *pw_clock_wake_one(pw_waiters_t *waiters);
void pw_clock_wake_all(pw_waiters_t *waiters);
/* A number of a deterministic sequence. */
uint64_t pw_clock_random(void);
uint32_t pw_clock_processors(void);

#endif
