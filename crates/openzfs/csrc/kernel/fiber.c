/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Fibers. A fiber begins by setcontext(). Later switches are by _longjmp(), which, unlike swapcontext(), calls nothing of the kernel: a
 * trial switches hundreds of thousands of times.
 */

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "fiber.h"

#undef sysconf

/* With _FORTIFY_SOURCE, the C library's header replaces _longjmp() by a function that refuses to jump to another stack. */
extern void jump(jmp_buf context, int value) __asm__("_longjmp") __attribute__((noreturn));

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
static const void *host_stack;
static size_t host_stack_bytes;

/* Tells AddressSanitizer on which stack the thread will be; `shadow` is NULL if the present one ends. */
static void
before_switch(void **shadow, const pw_fiber_t *to)
{
	__sanitizer_start_switch_fiber(shadow, to->stack != NULL ? to->stack : host_stack,
	    to->stack != NULL ? to->stack_bytes : host_stack_bytes);
}

static void
after_switch(void *shadow)
{
	const void *stack;
	size_t bytes;
	__sanitizer_finish_switch_fiber(shadow, &stack, &bytes);
	/* The first switch comes from the host's stack. */
	if (host_stack == NULL) {
		host_stack = stack;
		host_stack_bytes = bytes;
	}
}
/* A thread that ended in a nested call left its frames marked, and a new stack may be at the same address. */
#define	forget_frames(stack, bytes)	__asan_unpoison_memory_region(stack, bytes)
#else
#define	before_switch(shadow, to)	((void) 0)
#define	after_switch(shadow)		((void) 0)
#define	forget_frames(stack, bytes)	((void) 0)
#endif

/* The entry of the fiber that begins now. */
static void (*next_entry)(void);

static void
enter(void)
{
	after_switch(NULL);
	next_entry();
	abort();
}

static void
fail(const char *what)
{
	perror(what);
	abort();
}

void
pw_fiber_make(pw_fiber_t *fiber, void (*entry)(void), size_t stack_bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	fiber->entry = entry;
	fiber->stack_bytes = (stack_bytes + page - 1) / page * page;
	fiber->mapped_bytes = fiber->stack_bytes + page;
	char *mapped = mmap(NULL, fiber->mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	/* The lowest page is a guard. */
	if (mapped == MAP_FAILED || mprotect(mapped, page, PROT_NONE) != 0)
		fail("poolwright: cannot allocate the stack of a simulated thread");
	fiber->stack = mapped + page;
	forget_frames(fiber->stack, fiber->stack_bytes);
}

/* Its frame is left without a return, so AddressSanitizer must not mark it. */
static void __attribute__((no_sanitize_address))
start(pw_fiber_t *fiber)
{
	ucontext_t context;
	if (getcontext(&context) != 0)
		fail("poolwright: getcontext");
	context.uc_stack.ss_sp = fiber->stack;
	context.uc_stack.ss_size = fiber->stack_bytes;
	context.uc_link = NULL;
	next_entry = fiber->entry;
	fiber->entry = NULL;
	makecontext(&context, enter, 0);
	(void) setcontext(&context);
	fail("poolwright: setcontext");
}

void
pw_fiber_switch(pw_fiber_t *from, pw_fiber_t *to, int ends)
{
	(void) ends;
	before_switch(ends ? NULL : &from->shadow, to);
	if (_setjmp(from->context) == 0) {
		if (to->entry != NULL)
			start(to);
		jump(to->context, 1);
	}
	after_switch(from->shadow);
}

void
pw_fiber_free(pw_fiber_t *fiber)
{
	if (munmap(fiber->stack - (fiber->mapped_bytes - fiber->stack_bytes), fiber->mapped_bytes) != 0)
		fail("poolwright: munmap");
}
