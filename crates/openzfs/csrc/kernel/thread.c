/* SPDX-License-Identifier: CDDL-1.0 */
/* The threads that OpenZFS makes, and the time that it reads. */

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/zfs_context.h>

#undef clock_gettime
#undef gettimeofday
#undef nanosleep
#undef sched_yield
#undef pthread_self
#undef pthread_exit
#undef pthread_key_create
#undef pthread_getspecific
#undef pthread_setspecific
#undef sysconf

#include "clock.h"
#include "number.h"

/* OpenZFS's calls nest deeply, and there are more than a hundred threads. */
enum { STACK_BYTES = 256 << 10 };

typedef struct start {
	void (*func)(void *);
	void *arg;
} start_t;

static void *
run_thread(void *arg)
{
	start_t start = *(start_t *)arg;
	free(arg);
	start.func(start.arg);
	return (NULL);
}

kthread_t *
zk_thread_create(const char *name, void (*func)(void *), void *arg, size_t stack, int state)
{
	pthread_attr_t attr;
	pthread_t thread;
	char short_name[16];

	stack = P2ROUNDUP(MAX(stack != 0 ? stack : STACK_BYTES, PTHREAD_STACK_MIN), PAGESIZE);
	if (pw_clock_is_virtual)
		return ((void *)pw_clock_new(func, arg, stack));
	start_t *start = malloc(sizeof (*start));
	VERIFY(start != NULL);
	*start = (start_t) { func, arg };
	VERIFY0(pthread_attr_init(&attr));
	VERIFY0(pthread_attr_setdetachstate(&attr, state & TS_JOINABLE ? PTHREAD_CREATE_JOINABLE : PTHREAD_CREATE_DETACHED));
	VERIFY0(pthread_attr_setstacksize(&attr, stack));
	VERIFY0(pthread_create(&thread, &attr, run_thread, start));
	VERIFY0(pthread_attr_destroy(&attr));
	(void) strlcpy(short_name, name, sizeof (short_name));
	(void) pthread_setname_np(thread, short_name);
	return ((void *)(uintptr_t)thread);
}

/* ---- what interpose.h names: OpenZFS calls these instead of the C library ---- */

/* On the virtual clock, the calendar begins at this date, in seconds since 1970. */
enum { CALENDAR_BEGINS = 1700000000 };

int
pw_clock_gettime(clockid_t clock, struct timespec *out)
{
	if (!pw_clock_is_virtual)
		return (clock_gettime(clock, out));
	uint64_t now = pw_clock_now();
	out->tv_sec = now / NANOSEC + (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE ? CALENDAR_BEGINS : 0);
	out->tv_nsec = now % NANOSEC;
	return (0);
}

int
pw_gettimeofday(struct timeval *out, void *zone)
{
	struct timespec now;
	(void) zone;
	(void) pw_clock_gettime(CLOCK_REALTIME, &now);
	out->tv_sec = now.tv_sec;
	out->tv_usec = now.tv_nsec / 1000;
	return (0);
}

int
pw_nanosleep(const struct timespec *time, struct timespec *left)
{
	if (!pw_clock_is_virtual)
		return (nanosleep(time, left));
	if (time->tv_sec >= 0)
		pw_clock_sleep_until(pw_clock_now() + time->tv_sec * NANOSEC + time->tv_nsec);
	return (0);
}

void
delay(clock_t ticks)
{
	if (ticks > 0)
		pw_clock_sleep_until(pw_clock_now() + (uint64_t)ticks * (NANOSEC / hz));
}

/*
 * OpenZFS yields the processor after every ten buffers that it evicts, as a kernel's thread should. On a busy host each
 * yield costs a time slice, two hundred of them for an eviction of 16M in blocks of 8K, and meanwhile the ARC stays above
 * its limit. A thread in user space is preempted, so no thread yields.
 */
int
pw_yield(void)
{
	if (pw_clock_is_virtual)
		pw_clock_yield();
	return (0);
}

pthread_t
pw_thread_self(void)
{
	pw_thread_t *thread = pw_clock_self();
	return (thread != NULL ? (pthread_t)thread : pthread_self());
}

void
pw_thread_exit(void *result)
{
	if (pw_clock_self() != NULL)
		pw_clock_end();
	pthread_exit(result);
}

/*
 * Values of a key for each fiber. OpenZFS's threads set them to NULL before they end, so destructors are not called.
 */
static pthread_key_t keys;

int
pw_key_create(pthread_key_t *key, void (*destructor)(void *))
{
	if (!pw_clock_is_virtual)
		return (pthread_key_create(key, destructor));
	VERIFY3U(keys, <, PW_MOST_KEYS);
	*key = keys++;
	return (0);
}

void *
pw_get_specific(pthread_key_t key)
{
	return (pw_clock_is_virtual ? pw_thread_locals()->specific[key] : pthread_getspecific(key));
}

int
pw_set_specific(pthread_key_t key, const void *value)
{
	if (!pw_clock_is_virtual)
		return (pthread_setspecific(key, value));
	pw_thread_locals()->specific[key] = (void *)(uintptr_t)value;
	return (0);
}

long
pw_sysconf(int name)
{
	if (pw_clock_is_virtual && name == _SC_NPROCESSORS_ONLN)
		return (pw_clock_processors());
	return (sysconf(name));
}

/*
 * Only keys, on the real clock, need unpredictable numbers. On the virtual clock, two runs have the same numbers.
 */
int
random_get_bytes(uint8_t *out, size_t len)
{
	if (!pw_clock_is_virtual) {
		for (size_t done = 0; done < len; ) {
			ssize_t n = getrandom(out + done, len - done, 0);
			VERIFY(n > 0 || errno == EINTR);
			done += n > 0 ? n : 0;
		}
		return (0);
	}
	return (random_get_pseudo_bytes(out, len));
}

/*
 * OpenZFS needs a random number whenever it chooses a list of buffers. A generator for each thread is sufficient: numbers that
 * must be unpredictable come from random_get_bytes().
 */
int
random_get_pseudo_bytes(uint8_t *out, size_t len)
{
	static __thread uint64_t state;
	while (state == 0 && !pw_clock_is_virtual)
		(void) random_get_bytes((uint8_t *)&state, sizeof (state));
	for (size_t done = 0; done < len; ) {
		uint64_t number;
		if (pw_clock_is_virtual) {
			number = pw_clock_random();
		} else {
			number = pw_random_next(&state);
		}
		size_t n = MIN(len - done, sizeof (number));
		memcpy(out + done, &number, n);
		done += n;
	}
	return (0);
}

void
random_init(void)
{
}

void
random_fini(void)
{
}
