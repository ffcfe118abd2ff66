/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * The unflushed writes of one file in the simulated write cache of power.c: in order of arrival, and findable by the
 * region of the file that they touch. The caller locks.
 */
#ifndef POOLWRIGHT_BACKLOG_H
#define POOLWRIGHT_BACKLOG_H

#include <stddef.h>
#include <stdint.h>

enum { PW_BACKLOG_BUCKETS = 1024 };

typedef struct pw_unflushed pw_unflushed_t;

/* One region that a write touches; in its bucket from the oldest to the newest. */
typedef struct pw_spot {
	pw_unflushed_t *write;
	uint64_t region;
	struct pw_spot *next;
} pw_spot_t;

struct pw_unflushed {
	pw_unflushed_t *next;
	uint64_t offset;
	size_t len;
	char *bytes;		/* aligned as direct I/O wants it */
	size_t nspots;
	pw_spot_t spots[];
};

typedef struct pw_backlog {	/* starts as zeros */
	pw_unflushed_t *oldest, *newest;
	pw_spot_t *first[PW_BACKLOG_BUCKETS], *last[PW_BACKLOG_BUCKETS];
} pw_backlog_t;

/* A copy of `len` > 0 bytes, in no backlog yet; NULL: no memory. */
pw_unflushed_t *pw_unflushed_new(const void *buf, size_t len, uint64_t offset);
void pw_unflushed_free(pw_unflushed_t *w);

void pw_backlog_append(pw_backlog_t *log, pw_unflushed_t *w);
/* Writes the oldest to the file and drops it; on an error it stays. There must be one. */
int pw_backlog_apply_oldest(pw_backlog_t *log, int fd);
/* Lays it over `buf`, what the file has from `from` to before `to`; returns the end of what it covered. */
uint64_t pw_backlog_overlay(const pw_backlog_t *log, char *buf, uint64_t from, uint64_t to);

/* All of it, or an errno. */
int pw_write_out(int fd, const char *bytes, size_t len, uint64_t offset);

#endif
