/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A log of what a program does to files. Each row of the table of ways to do I/O works in a directory of its own, named
 * after it, and prints a line for each effect: `ROW OP FILE OFFSET LENGTH`. Other lines:
 *
 *   ROW alias OLD=NEW - 0          the file's last name, for all lines of the row so far and later
 *   ROW touch FILE OFFSET LENGTH   a page fault must cover the range
 *   ROW count WORDS - N            `unseen` counts N of the entry with these words ('_' stands for a blank)
 *   ROW lacks ERRNO - 0            this file system or kernel does not have the call
 */
#pragma once
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/fs.h>
#include <linux/io_uring.h>
#include <linux/magic.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define APPEND 0x10 /* RWF_APPEND */
#define NOAPPEND 0x20 /* RWF_NOAPPEND */
#define FTRUNCATE 55 /* IORING_OP_FTRUNCATE */
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static const char *row;
static char *buffer; /* aligned for O_DIRECT */

static void say(const char *op, const char *file, long long offset, long long length)
{
	printf("%s %s %s %lld %lld\n", row, op, file, offset, length);
	fflush(stdout);
}

static void counted(const char *words, long long n)
{
	say("count", words, 0, n);
}

/* Ends the row: the kernel or the file system does not have the call. */
static void lacks(void)
{
	printf("%s lacks %s - 0\n", row, strerrorname_np(errno));
	fflush(stdout);
	_exit(0);
}

/* Returns the result of a call, or ends the row if it is not supported. */
static long ok(long result)
{
	if (result < 0)
		lacks();
	return result;
}

/* Ends the row with an error if the call had another effect than the log says. */
static void must(bool right)
{
	if (!right) {
		fprintf(stderr, "%s: unexpected result (%s)\n", row, strerror(errno));
		_exit(1);
	}
}

/* Opens a file, which must exist unless `flags` create it. */
static int opened(const char *file, int flags)
{
	struct stat st;
	bool there = stat(file, &st) == 0;
	int fd = ok(open(file, flags, 0600));

	say(there ? "open" : "create", file, 0, there && !(flags & O_TRUNC) ? st.st_size : 0);
	if (there && flags & O_TRUNC)
		say("truncate", file, 0, 0);
	return fd;
}

static void closed(int fd, const char *file)
{
	must(close(fd) == 0);
	say("close", file, 0, 0);
}

/* A new file of `pages` pages, open with `flags` besides O_RDWR. */
static int made(const char *file, int pages, int flags)
{
	int fd = opened(file, O_RDWR | O_CREAT);

	if (pages) {
		must(pwrite(fd, buffer, pages * PAGE, 0) == pages * PAGE);
		say("write", file, 0, pages * PAGE);
	}
	if (!flags)
		return fd;
	closed(fd, file);
	return opened(file, O_RDWR | flags);
}

static void moved(const char *op, const char *file, long long offset, long want, long got)
{
	if (got < 0)
		lacks();
	must(got == want);
	say(op, file, offset, got);
}

/* io_uring without a library: one request at a time, or a chain of them. */
struct ring {
	int fd;
	unsigned entries, *sq_tail, *sq_mask, *sq_array, *sq_flags, *cq_head, *cq_tail, *cq_mask;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
	bool polled;
};

static struct ring ring_of(unsigned flags)
{
	struct io_uring_params p = { .flags = flags, .sq_thread_idle = 1000 };
	struct ring r = { .polled = flags & IORING_SETUP_SQPOLL };
	char *sq, *cq;

	r.fd = ok(syscall(SYS_io_uring_setup, 16, &p));
	sq = mmap(0, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r.fd,
		  IORING_OFF_SQ_RING);
	cq = mmap(0, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_POPULATE, r.fd, IORING_OFF_CQ_RING);
	r.sqes = mmap(0, p.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_POPULATE, r.fd, IORING_OFF_SQES);
	must(sq != MAP_FAILED && cq != MAP_FAILED && r.sqes != MAP_FAILED);
	r.sq_tail = (unsigned *)(sq + p.sq_off.tail);
	r.sq_mask = (unsigned *)(sq + p.sq_off.ring_mask);
	r.sq_array = (unsigned *)(sq + p.sq_off.array);
	r.sq_flags = (unsigned *)(sq + p.sq_off.flags);
	r.cq_head = (unsigned *)(cq + p.cq_off.head);
	r.cq_tail = (unsigned *)(cq + p.cq_off.tail);
	r.cq_mask = (unsigned *)(cq + p.cq_off.ring_mask);
	r.cqes = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
	return r;
}

static struct io_uring_sqe *request(struct ring *r, int opcode, int fd, const void *addr, unsigned len, uint64_t off)
{
	unsigned tail = *r->sq_tail, index = tail & *r->sq_mask;
	struct io_uring_sqe *sqe = &r->sqes[index];

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = opcode;
	sqe->fd = fd;
	sqe->addr = (uint64_t)addr;
	sqe->len = len;
	sqe->off = off;
	r->sq_array[index] = index;
	__atomic_store_n(r->sq_tail, tail + 1, __ATOMIC_RELEASE);
	return sqe;
}

/* Submits `n` requests, and waits for `ends` completions. Returns the last result. */
static long submitted(struct ring *r, int n, int ends)
{
	long result = 0;

	if (r->polled && __atomic_load_n(r->sq_flags, __ATOMIC_ACQUIRE) & IORING_SQ_NEED_WAKEUP)
		must(syscall(SYS_io_uring_enter, r->fd, 0, 0, IORING_ENTER_SQ_WAKEUP, 0, 0) >= 0);
	must(syscall(SYS_io_uring_enter, r->fd, n, ends, IORING_ENTER_GETEVENTS, 0, 0) == n || r->polled);
	for (int i = 0; i < ends; i++) {
		unsigned head = *r->cq_head;

		must(__atomic_load_n(r->cq_tail, __ATOMIC_ACQUIRE) != head);
		result = r->cqes[head & *r->cq_mask].res;
		__atomic_store_n(r->cq_head, head + 1, __ATOMIC_RELEASE);
		if (result < 0) {
			errno = -result;
			return result;
		}
	}
	return result;
}

static long once(struct ring *r)
{
	return submitted(r, 1, 1);
}

/* libaio without a library. */
static aio_context_t aio_context(void)
{
	aio_context_t context = 0;

	ok(syscall(SYS_io_setup, 16, &context));
	return context;
}

static void aio_run(aio_context_t context, struct iocb *blocks, int n)
{
	struct iocb *list[16];
	struct io_event events[16];

	for (int i = 0; i < n; i++)
		list[i] = &blocks[i];
	ok(syscall(SYS_io_submit, context, n, list));
	must(syscall(SYS_io_getevents, context, n, n, events, 0) == n);
	for (int i = 0; i < n; i++) {
		errno = -events[i].res;
		if ((long)events[i].res < 0)
			lacks();
	}
}
