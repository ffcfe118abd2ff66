/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Included first by each file of OpenZFS (scripts/openzfs.sh). The functions of the C library that read a clock, sleep or wait
 * for a thread are replaced by those of the engine's layer (kernel/time.c, kernel/thread.c), because the engine can run on a
 * virtual clock.
 */
#ifndef POOLWRIGHT_INTERPOSE_H
#define POOLWRIGHT_INTERPOSE_H

#ifndef __ASSEMBLER__
/* Not sys/time.h: OpenZFS's own defines functions that call clock_gettime(), and must follow the macros. */
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

struct timeval;

int pw_clock_gettime(clockid_t clock, struct timespec *out);
int pw_gettimeofday(struct timeval *out, void *zone);
int pw_nanosleep(const struct timespec *time, struct timespec *left);
int pw_yield(void);
int pw_thread_join(pthread_t thread, void **result);
long pw_sysconf(int name);

#define	clock_gettime(clock, out)	pw_clock_gettime(clock, out)
#define	gettimeofday(out, zone)		pw_gettimeofday(out, zone)
#define	nanosleep(time, left)		pw_nanosleep(time, left)
#define	sched_yield()			pw_yield()
#define	pthread_join(thread, result)	pw_thread_join(thread, result)
#define	sysconf(name)			pw_sysconf(name)
#endif

#endif
