/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * The two clocks. On the virtual clock, this file decides which thread runs. It needs no lock: all threads are fibers of one thread of
 * the host.
 */

#include <stdio.h>
#include <stdlib.h>
#include <errno.h>
#include <time.h>

#include "clock.h"
#include "fiber.h"
#include "number.h"

#undef clock_gettime

int pw_clock_is_virtual;

/* A thread may be ahead of a ready thread by this much before it lets it run. */
enum { SLACK_NS = 5000 };
/* A thread keeps its processor for this long if others wait for one, as under the kernel's scheduler. */
enum { SLICE_NS = 3000000 };
enum { MOST_PROCESSORS = 64 };
/* The virtual clock begins here, because OpenZFS treats a time of 0 as "never". */
#define	BEGIN_NS	1000000000000ULL

struct pw_thread {
	uint64_t time;			/* of its clock; if it is ready: the earliest time at which it can run */
	uint64_t order;			/* for threads with the same time: the order in which they became ready */
	uint64_t began;			/* when it began to wait */
	uint64_t slice_end;
	int32_t processor;		/* -1: none */
	int32_t at;			/* index in the heap; -1: not in it */
	int woken;
	pw_waiters_t *waits_for;
	pw_thread_t *next, *previous;	/* in the list of waiters */
	pw_locals_t locals;
	void (*func)(void *);
	void *arg;
	pw_fiber_t fiber;
};

/* Threads that can run, now or at a later time, as a binary heap by time. */
typedef struct heap {
	pw_thread_t **items;
	int32_t n, room;
} heap_t;

/* NULL in threads of the host that the virtual clock does not know. */
static __thread pw_thread_t *self;
static pw_thread_t *ended;		/* its stack is freed by the thread that runs next */
static heap_t waiting;			/* need a processor */
static heap_t paused;			/* have one, and let others run whose time is earlier */
static uint64_t orders, random_state, next_start, last_time;
static uint64_t call_cost, switch_cost, charged, calls, switches;
static struct { uint64_t free_at; int taken; } processors[MOST_PROCESSORS];
static uint32_t nprocessors;

static int
is_before(const pw_thread_t *a, const pw_thread_t *b)
{
	return (a->time != b->time ? a->time < b->time : a->order < b->order);
}

static void
place(heap_t *heap, int32_t at, pw_thread_t *thread)
{
	heap->items[at] = thread;
	thread->at = at;
}

static void
rise(heap_t *heap, pw_thread_t *thread)
{
	int32_t at = thread->at;
	while (at > 0 && is_before(thread, heap->items[(at - 1) / 2])) {
		place(heap, at, heap->items[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	place(heap, at, thread);
}

static void
sink(heap_t *heap, pw_thread_t *thread)
{
	int32_t at = thread->at, child;
	while ((child = 2 * at + 1) < heap->n) {
		if (child + 1 < heap->n && is_before(heap->items[child + 1], heap->items[child]))
			child++;
		if (!is_before(heap->items[child], thread))
			break;
		place(heap, at, heap->items[child]);
		at = child;
	}
	place(heap, at, thread);
}

static void
add(heap_t *heap, pw_thread_t *thread)
{
	if (heap->n == heap->room) {
		heap->room = heap->room == 0 ? 256 : heap->room * 2;
		heap->items = realloc(heap->items, (size_t)heap->room * sizeof (heap->items[0]));
		if (heap->items == NULL)
			abort();
	}
	thread->order = ++orders;
	place(heap, heap->n++, thread);
	rise(heap, thread);
}

static void
take(heap_t *heap, pw_thread_t *thread)
{
	pw_thread_t *last = heap->items[--heap->n];
	if (last != thread) {
		place(heap, thread->at, last);
		rise(heap, last);
		sink(heap, last);
	}
	thread->at = -1;
}

/* Returns the free processor that is free first, or -1. */
static int32_t
free_processor(void)
{
	int32_t found = -1;
	for (uint32_t i = 0; i < nprocessors; i++)
		if (!processors[i].taken && (found < 0 || processors[i].free_at < processors[found].free_at))
			found = (int32_t)i;
	return (found);
}

/* Returns when the first of the waiting threads can run. */
static uint64_t
first_start(int32_t processor)
{
	if (waiting.n == 0 || processor < 0)
		return (PW_CLOCK_NEVER);
	uint64_t ready = waiting.items[0]->time, is_free = processors[processor].free_at;
	return (ready > is_free ? ready : is_free);
}

/* Sets when the next thread can run: a running thread compares its own time with this. */
static void
look_ahead(void)
{
	next_start = first_start(free_processor());
	if (paused.n > 0 && paused.items[0]->time < next_start)
		next_start = paused.items[0]->time;
}

/* Takes the thread that runs next. NULL: all threads wait for each other. */
static pw_thread_t *
choose(void)
{
	int32_t processor = free_processor();
	uint64_t start = first_start(processor);
	pw_thread_t *thread;

	if (paused.n > 0 && paused.items[0]->time <= start) {
		thread = paused.items[0];
		take(&paused, thread);
	} else if (start != PW_CLOCK_NEVER) {
		thread = waiting.items[0];
		take(&waiting, thread);
		thread->time = start + switch_cost;
		switches++;
		thread->processor = processor;
		thread->slice_end = start + SLICE_NS;
		processors[processor].taken = 1;
	} else {
		return (NULL);
	}
	look_ahead();
	return (thread);
}

static void
free_ended(void)
{
	if (ended == NULL)
		return;
	pw_fiber_free(&ended->fiber);
	free(ended);
	ended = NULL;
}

/* Runs the next thread. Returns when this one runs again. */
static void
hand_over(void)
{
	pw_thread_t *me = self, *next = choose();
	if (next == NULL) {
		(void) fprintf(stderr, "poolwright: the virtual clock cannot go on: all threads wait for each other\n");
		abort();
	}
	if (next == me)
		return;
	self = next;
	pw_fiber_switch(&me->fiber, &next->fiber, me == ended);
	free_ended();
}

static void
release_processor(pw_thread_t *thread)
{
	processors[thread->processor].taken = 0;
	processors[thread->processor].free_at = thread->time;
	thread->processor = -1;
}

/* ---- threads ---- */

/* OpenZFS takes the lowest bits of a thread's address as the number of its processor. */
enum { ALIGNMENT = MOST_PROCESSORS };

static pw_thread_t *
allocate(uint64_t time)
{
	void *memory;
	if (posix_memalign(&memory, ALIGNMENT, sizeof (pw_thread_t)) != 0)
		abort();
	pw_thread_t *thread = memory;
	*thread = (pw_thread_t) { .processor = -1, .at = -1, .time = time };
	return (thread);
}

static void
begin(void)
{
	free_ended();
	self->func(self->arg);
	pw_clock_end();
}

pw_thread_t *
pw_clock_new(void (*func)(void *), void *arg, size_t stack_bytes)
{
	pw_thread_t *thread = allocate(self->time);
	thread->func = func;
	thread->arg = arg;
	pw_fiber_make(&thread->fiber, begin, stack_bytes);
	add(&waiting, thread);
	look_ahead();
	return (thread);
}

void
pw_clock_start(uint32_t count, uint64_t seed, uint64_t call_ns, uint64_t switch_ns)
{
	nprocessors = count < 1 ? 1 : count > MOST_PROCESSORS ? MOST_PROCESSORS : count;
	random_state = seed * 2 + 1;
	call_cost = call_ns;
	switch_cost = switch_ns;
	for (uint32_t i = 0; i < nprocessors; i++)
		processors[i].free_at = BEGIN_NS;
	self = allocate(BEGIN_NS);
	self->processor = 0;
	self->slice_end = self->time + SLICE_NS;
	processors[0].taken = 1;
	next_start = PW_CLOCK_NEVER;
	pw_clock_is_virtual = 1;
}

void
pw_clock_end(void)
{
	last_time = self->time;
	release_processor(self);
	ended = self;
	hand_over();
	abort();
}

pw_locals_t *
pw_thread_locals(void)
{
	static __thread pw_locals_t of_host;
	return (self != NULL ? &self->locals : &of_host);
}

pw_thread_t *
pw_clock_self(void)
{
	return (self);
}

uint32_t
pw_clock_processors(void)
{
	return (nprocessors);
}

/* ---- time ---- */

void
pw_clock_charge(uint64_t ns)
{
	if (self == NULL)
		return;
	self->time += ns;
	charged += ns;
}

uint64_t
pw_clock_charged(void)
{
	return (charged + calls * call_cost + switches * switch_cost);
}

/* Whether the thread's slice has ended and another thread waits for a processor. */
static int
is_slice_over(void)
{
	return (self->time >= self->slice_end && waiting.n > 0 && waiting.items[0]->time <= self->time);
}

/* Lets others run first. The thread keeps its processor unless its slice is over. */
static void
pause_running(void)
{
	if (is_slice_over()) {
		release_processor(self);
		add(&waiting, self);
	} else {
		add(&paused, self);
	}
	look_ahead();
	hand_over();
}

void
pw_clock_call(void)
{
	if (self == NULL)
		return;
	self->time += call_cost;
	calls++;
	if ((next_start < PW_CLOCK_NEVER && self->time > next_start + SLACK_NS) || is_slice_over())
		pause_running();
}

void
pw_clock_yield(void)
{
	if (self == NULL || (waiting.n == 0 && paused.n == 0))
		return;
	self->time += call_cost;
	calls++;
	release_processor(self);
	add(&waiting, self);
	look_ahead();
	hand_over();
}

static uint64_t
real_now(void)
{
	struct timespec t;
	(void) clock_gettime(CLOCK_MONOTONIC, &t);
	return ((uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec);
}

uint64_t
pw_clock_now(void)
{
	if (!pw_clock_is_virtual)
		return (real_now());
	return (self != NULL ? self->time : last_time);
}

void
pw_clock_sleep_until(uint64_t when)
{
	if (!pw_clock_is_virtual) {
		struct timespec t = { .tv_sec = when / 1000000000ULL, .tv_nsec = when % 1000000000ULL };
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
			;
		return;
	}
	pw_waiters_t none = { NULL, NULL };
	if (self != NULL && when > self->time)
		(void) pw_clock_wait(&none, when);
}

/* ---- events ---- */

static void
leave(pw_thread_t *thread)
{
	pw_waiters_t *waiters = thread->waits_for;
	if (thread->previous != NULL)
		thread->previous->next = thread->next;
	else
		waiters->first = thread->next;
	if (thread->next != NULL)
		thread->next->previous = thread->previous;
	else
		waiters->last = thread->previous;
	thread->next = thread->previous = NULL;
	thread->waits_for = NULL;
}

int
pw_clock_wait(pw_waiters_t *waiters, uint64_t deadline)
{
	pw_thread_t *me = self;

	me->woken = 0;
	me->began = me->time;
	me->waits_for = waiters;
	me->previous = waiters->last;
	if (waiters->last != NULL)
		waiters->last->next = me;
	else
		waiters->first = me;
	waiters->last = me;
	release_processor(me);
	if (deadline != PW_CLOCK_NEVER) {
		if (deadline > me->time)
			me->time = deadline;
		add(&waiting, me);
	}
	hand_over();
	if (me->waits_for != NULL)
		leave(me);
	return (me->woken);
}

pw_thread_t *
pw_clock_wake_one(pw_waiters_t *waiters)
{
	pw_thread_t *thread = waiters->first;
	if (thread == NULL)
		return (NULL);
	leave(thread);
	if (thread->at >= 0)
		take(&waiting, thread);
	uint64_t now = pw_clock_now();
	/* The caller's clock may be behind by the slack. */
	thread->time = now > thread->began ? now : thread->began;
	thread->woken = 1;
	add(&waiting, thread);
	look_ahead();
	return (thread);
}

void
pw_clock_wake_all(pw_waiters_t *waiters)
{
	while (pw_clock_wake_one(waiters) != NULL)
		;
}

uint64_t
pw_clock_random(void)
{
	return (pw_random_next(&random_state));
}
