/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Mutexes, reader-writer locks and condition variables. On the real clock they are the C library's. On the virtual one, the
 * same memory holds the engine's own, which need no atomic operations, because one thread runs at a time.
 */

#include <errno.h>
#include <pthread.h>
#include <sys/zfs_context.h>

#include "clock.h"

void
pw_locks_link(void)
{
}

/* ---- mutexes ---- */

typedef struct vmutex {
	pw_thread_t *owner;
	pw_waiters_t waiters;
	uint64_t taken_at, free_at;
} vmutex_t;

_Static_assert(sizeof (vmutex_t) <= sizeof (pthread_mutex_t), "a virtual mutex needs the room of a real one");

static inline vmutex_t *
vmutex(kmutex_t *mutex)
{
	return ((vmutex_t *)&mutex->m_lock);
}

void
mutex_init(kmutex_t *mutex, char *name, int type, void *cookie)
{
	(void) name; (void) type; (void) cookie;
	if (pw_clock_is_virtual)
		*vmutex(mutex) = (vmutex_t) { 0 };
	else
		VERIFY0(pthread_mutex_init(&mutex->m_lock, NULL));
	mutex->m_owner = 0;
}

void
mutex_destroy(kmutex_t *mutex)
{
	if (!pw_clock_is_virtual)
		VERIFY0(pthread_mutex_destroy(&mutex->m_lock));
}

static void
vmutex_take(vmutex_t *v)
{
	uint64_t now = pw_clock_now();
	v->owner = pw_clock_self();
	/* This thread's clock may be behind that of the thread that has just released the mutex. */
	if (now >= v->taken_at && now < v->free_at)
		pw_clock_charge(v->free_at - now);
	v->taken_at = pw_clock_now();
}

static void
vmutex_enter(vmutex_t *v)
{
	pw_clock_call();
	if (v->owner == NULL) {
		vmutex_take(v);
		return;
	}
	/* The thread that releases it makes this one the owner. */
	(void) pw_clock_wait(&v->waiters, PW_CLOCK_NEVER);
	v->taken_at = pw_clock_now();
}

static void
vmutex_exit(vmutex_t *v)
{
	v->free_at = pw_clock_now();
	v->owner = pw_clock_wake_one(&v->waiters);
}

void
mutex_enter(kmutex_t *mutex)
{
	if (pw_clock_is_virtual)
		vmutex_enter(vmutex(mutex));
	else
		VERIFY0(pthread_mutex_lock(&mutex->m_lock));
	mutex->m_owner = pthread_self();
}

int
mutex_enter_check_return(kmutex_t *mutex)
{
	mutex_enter(mutex);
	return (0);
}

int
mutex_tryenter(kmutex_t *mutex)
{
	if (pw_clock_is_virtual) {
		pw_clock_call();
		if (vmutex(mutex)->owner != NULL)
			return (0);
		vmutex_take(vmutex(mutex));
	} else {
		int error = pthread_mutex_trylock(&mutex->m_lock);
		if (error == EBUSY)
			return (0);
		VERIFY0(error);
	}
	mutex->m_owner = pthread_self();
	return (1);
}

void
mutex_exit(kmutex_t *mutex)
{
	mutex->m_owner = 0;
	if (pw_clock_is_virtual)
		vmutex_exit(vmutex(mutex));
	else
		VERIFY0(pthread_mutex_unlock(&mutex->m_lock));
}

/* ---- reader-writer locks: a reader waits only for a writer that has the lock ---- */

typedef struct vrwlock {
	pw_thread_t *writer;
	uint64_t readers;
	pw_waiters_t waiters;
} vrwlock_t;

_Static_assert(sizeof (vrwlock_t) <= sizeof (pthread_rwlock_t), "a virtual lock needs the room of a real one");

static inline vrwlock_t *
vrwlock(krwlock_t *lock)
{
	return ((vrwlock_t *)&lock->rw_lock);
}

void
rw_init(krwlock_t *lock, char *name, int type, void *arg)
{
	(void) name; (void) type; (void) arg;
	if (pw_clock_is_virtual)
		*vrwlock(lock) = (vrwlock_t) { 0 };
	else
		VERIFY0(pthread_rwlock_init(&lock->rw_lock, NULL));
	lock->rw_readers = 0;
	lock->rw_owner = 0;
}

void
rw_destroy(krwlock_t *lock)
{
	if (!pw_clock_is_virtual)
		VERIFY0(pthread_rwlock_destroy(&lock->rw_lock));
}

static int
vrwlock_try(vrwlock_t *v, krw_t rw)
{
	if (v->writer != NULL || (rw == RW_WRITER && v->readers != 0))
		return (0);
	if (rw == RW_READER)
		v->readers++;
	else
		v->writer = pw_clock_self();
	return (1);
}

/* Notes the new holder where OpenZFS's macros look. */
static void
rw_note(krwlock_t *lock, krw_t rw)
{
	if (rw == RW_READER)
		(void) __atomic_add_fetch(&lock->rw_readers, 1, __ATOMIC_RELAXED);
	else
		lock->rw_owner = pthread_self();
}

void
rw_enter(krwlock_t *lock, krw_t rw)
{
	if (pw_clock_is_virtual) {
		pw_clock_call();
		while (!vrwlock_try(vrwlock(lock), rw))
			(void) pw_clock_wait(&vrwlock(lock)->waiters, PW_CLOCK_NEVER);
	} else if (rw == RW_READER) {
		VERIFY0(pthread_rwlock_rdlock(&lock->rw_lock));
	} else {
		VERIFY0(pthread_rwlock_wrlock(&lock->rw_lock));
	}
	rw_note(lock, rw);
}

int
rw_tryenter(krwlock_t *lock, krw_t rw)
{
	if (pw_clock_is_virtual) {
		pw_clock_call();
		if (!vrwlock_try(vrwlock(lock), rw))
			return (0);
	} else {
		int error = rw == RW_READER ? pthread_rwlock_tryrdlock(&lock->rw_lock) : pthread_rwlock_trywrlock(&lock->rw_lock);
		if (error != 0) {
			VERIFY3S(error, ==, EBUSY);
			return (0);
		}
	}
	rw_note(lock, rw);
	return (1);
}

int
rw_tryupgrade(krwlock_t *lock)
{
	(void) lock;
	return (0);
}

void
rw_exit(krwlock_t *lock)
{
	/* Other readers change the number meanwhile; while this thread is one of them, it is not 0. */
	int reader = __atomic_load_n(&lock->rw_readers, __ATOMIC_RELAXED) != 0;

	if (reader)
		(void) __atomic_sub_fetch(&lock->rw_readers, 1, __ATOMIC_RELAXED);
	else
		lock->rw_owner = 0;
	if (!pw_clock_is_virtual) {
		VERIFY0(pthread_rwlock_unlock(&lock->rw_lock));
		return;
	}
	vrwlock_t *v = vrwlock(lock);
	if (reader)
		v->readers--;
	else
		v->writer = NULL;
	if (v->readers == 0)
		pw_clock_wake_all(&v->waiters);
}

/* ---- condition variables ---- */

_Static_assert(sizeof (pw_waiters_t) <= sizeof (pthread_cond_t), "a list of waiters needs the room of a condition variable");

static inline pw_waiters_t *
waiters(kcondvar_t *cv)
{
	return ((pw_waiters_t *)cv);
}

void
cv_init(kcondvar_t *cv, char *name, int type, void *arg)
{
	pthread_condattr_t attr;

	(void) name; (void) type; (void) arg;
	if (pw_clock_is_virtual) {
		*waiters(cv) = (pw_waiters_t) { NULL, NULL };
		return;
	}
	VERIFY0(pthread_condattr_init(&attr));
	VERIFY0(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
	VERIFY0(pthread_cond_init(cv, &attr));
	VERIFY0(pthread_condattr_destroy(&attr));
}

void
cv_destroy(kcondvar_t *cv)
{
	if (!pw_clock_is_virtual)
		VERIFY0(pthread_cond_destroy(cv));
}

static int
vcv_wait(kcondvar_t *cv, kmutex_t *mutex, uint64_t deadline)
{
	mutex_exit(mutex);
	int woken = pw_clock_wait(waiters(cv), deadline);
	mutex_enter(mutex);
	return (woken);
}

void
cv_wait(kcondvar_t *cv, kmutex_t *mutex)
{
	if (pw_clock_is_virtual) {
		(void) vcv_wait(cv, mutex, PW_CLOCK_NEVER);
		return;
	}
	mutex->m_owner = 0;
	VERIFY0(pthread_cond_wait(cv, &mutex->m_lock));
	mutex->m_owner = pthread_self();
}

int
cv_wait_sig(kcondvar_t *cv, kmutex_t *mutex)
{
	cv_wait(cv, mutex);
	return (1);
}

/* Returns -1 at the deadline, which is a time of pw_clock_now(), and otherwise 1. */
static int
wait_until(kcondvar_t *cv, kmutex_t *mutex, uint64_t deadline)
{
	struct timespec at = { .tv_sec = deadline / NANOSEC, .tv_nsec = deadline % NANOSEC };

	if (deadline <= pw_clock_now())
		return (-1);
	if (pw_clock_is_virtual)
		return (vcv_wait(cv, mutex, deadline) ? 1 : -1);
	mutex->m_owner = 0;
	int error = pthread_cond_timedwait(cv, &mutex->m_lock, &at);
	mutex->m_owner = pthread_self();
	VERIFY(error == 0 || error == ETIMEDOUT);
	return (error == ETIMEDOUT ? -1 : 1);
}

int
cv_timedwait(kcondvar_t *cv, kmutex_t *mutex, clock_t tick)
{
	/* ddi_get_lbolt() divides nanoseconds by 2^23. */
	return (wait_until(cv, mutex, (uint64_t)MAX(tick, 0) << 23));
}

int
cv_timedwait_hires(kcondvar_t *cv, kmutex_t *mutex, hrtime_t time, hrtime_t resolution, int flag)
{
	(void) resolution;
	uint64_t deadline = (flag & CALLOUT_FLAG_ABSOLUTE) ? (uint64_t)MAX(time, 0) : pw_clock_now() + (uint64_t)MAX(time, 0);
	return (wait_until(cv, mutex, deadline));
}

void
cv_signal(kcondvar_t *cv)
{
	if (pw_clock_is_virtual)
		(void) pw_clock_wake_one(waiters(cv));
	else
		VERIFY0(pthread_cond_signal(cv));
}

void
cv_broadcast(kcondvar_t *cv)
{
	if (pw_clock_is_virtual)
		pw_clock_wake_all(waiters(cv));
	else
		VERIFY0(pthread_cond_broadcast(cv));
}
