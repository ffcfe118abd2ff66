/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Included first by each file of OpenZFS (scripts/openzfs.sh). The functions of the C library that read a clock, sleep, or
 * identify or end the calling thread are replaced by those of the engine's layer (kernel/thread.c), because the engine can run on a virtual
 * clock, where threads are fibers.
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
pthread_t pw_thread_self(void);
void pw_thread_exit(void *result) __attribute__((noreturn));
int pw_key_create(pthread_key_t *key, void (*destructor)(void *));
void *pw_get_specific(pthread_key_t key);
int pw_set_specific(pthread_key_t key, const void *value);
long pw_sysconf(int name);

#define	clock_gettime(clock, out)	pw_clock_gettime(clock, out)
#define	gettimeofday(out, zone)		pw_gettimeofday(out, zone)
#define	nanosleep(time, left)		pw_nanosleep(time, left)
#define	sched_yield()			pw_yield()
#define	pthread_self()			pw_thread_self()
#define	pthread_exit(result)		pw_thread_exit(result)
#define	pthread_key_create(key, func)	pw_key_create(key, func)
#define	pthread_getspecific(key)	pw_get_specific(key)
#define	pthread_setspecific(key, value)	pw_set_specific(key, value)
#define	sysconf(name)			pw_sysconf(name)
#endif

#endif
