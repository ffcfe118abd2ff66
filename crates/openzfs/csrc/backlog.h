/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * The unflushed writes of a file in the simulated write cache of power.c, in order of arrival and indexed by the regions of
 * the file that they touch. The caller locks.
 */
#ifndef POOLWRIGHT_BACKLOG_H
#define POOLWRIGHT_BACKLOG_H

#include <stddef.h>
#include <stdint.h>

enum { PW_BACKLOG_BUCKETS = 1024 };

typedef struct pw_unflushed pw_unflushed_t;

/* A region that a write touches, in its bucket from the oldest to the newest. */
typedef struct pw_spot {
	pw_unflushed_t *write;
	uint64_t region;
	struct pw_spot *next;
} pw_spot_t;

struct pw_unflushed {
	pw_unflushed_t *next;
	uint64_t offset;
	size_t len;
	char *bytes;		/* aligned for direct I/O */
	size_t nspots;
	pw_spot_t spots[];
};

typedef struct pw_backlog {	/* starts as zeros */
	pw_unflushed_t *oldest, *newest;
	pw_spot_t *first[PW_BACKLOG_BUCKETS], *last[PW_BACKLOG_BUCKETS];
} pw_backlog_t;

/* Makes a copy of `len` > 0 bytes, which is not yet in a backlog. NULL: no memory. */
pw_unflushed_t *pw_unflushed_new(const void *buf, size_t len, uint64_t offset);
void pw_unflushed_free(pw_unflushed_t *w);

void pw_backlog_append(pw_backlog_t *log, pw_unflushed_t *w);
/* Writes the oldest write to the file and removes it; after an error it stays. The backlog must not be empty. */
int pw_backlog_apply_oldest(pw_backlog_t *log, int fd);
/* Overlays the backlog on `buf`, the file's content from `from` up to `to`; returns the end of the covered part. */
uint64_t pw_backlog_overlay(const pw_backlog_t *log, char *buf, uint64_t from, uint64_t to);

/* Writes all bytes, or returns an errno. */
int pw_write_out(int fd, const char *bytes, size_t len, uint64_t offset);

#endif
