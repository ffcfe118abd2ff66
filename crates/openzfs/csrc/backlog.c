/* SPDX-License-Identifier: CDDL-1.0 */
/* The unflushed writes of one file; see backlog.h. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backlog.h"

enum { REGION_SHIFT = 17, DIRECT_IO_ALIGN = 4096 };

int
pw_write_out(int fd, const char *bytes, size_t len, uint64_t offset)
{
	while (len > 0) {
		ssize_t n = pwrite64(fd, bytes, len, (off64_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return (n < 0 ? errno : ENOSPC);
		bytes += n;
		offset += (uint64_t)n;
		len -= (size_t)n;
	}
	return (0);
}

pw_unflushed_t *
pw_unflushed_new(const void *buf, size_t len, uint64_t offset)
{
	uint64_t first = offset >> REGION_SHIFT, last = (offset + len - 1) >> REGION_SHIFT;
	size_t nspots = (size_t)(last - first + 1);
	void *bytes;

	pw_unflushed_t *w = malloc(sizeof (*w) + nspots * sizeof (pw_spot_t));
	if (w == NULL)
		return (NULL);
	if (posix_memalign(&bytes, DIRECT_IO_ALIGN, len) != 0) {
		free(w);
		return (NULL);
	}
	memcpy(bytes, buf, len);
	*w = (pw_unflushed_t) { .offset = offset, .len = len, .bytes = bytes, .nspots = nspots };
	for (size_t i = 0; i < nspots; i++)
		w->spots[i] = (pw_spot_t) { .write = w, .region = first + i };
	return (w);
}

void
pw_unflushed_free(pw_unflushed_t *w)
{
	free(w->bytes);
	free(w);
}

static size_t
bucket(uint64_t region)
{
	return ((size_t)((region * 0x9e3779b97f4a7c15ULL) >> 40) % PW_BACKLOG_BUCKETS);
}

void
pw_backlog_append(pw_backlog_t *log, pw_unflushed_t *w)
{
	if (log->newest == NULL)
		log->oldest = w;
	else
		log->newest->next = w;
	log->newest = w;
	for (size_t i = 0; i < w->nspots; i++) {
		size_t b = bucket(w->spots[i].region);
		if (log->last[b] == NULL)
			log->first[b] = &w->spots[i];
		else
			log->last[b]->next = &w->spots[i];
		log->last[b] = &w->spots[i];
	}
}

int
pw_backlog_apply_oldest(pw_backlog_t *log, int fd)
{
	pw_unflushed_t *w = log->oldest;
	int error = pw_write_out(fd, w->bytes, w->len, w->offset);
	if (error != 0)
		return (error);
	/* Every list is in order of arrival, so the entries of the oldest write are at the front of each. */
	for (size_t i = 0; i < w->nspots; i++) {
		size_t b = bucket(w->spots[i].region);
		log->first[b] = log->first[b]->next;
		if (log->first[b] == NULL)
			log->last[b] = NULL;
	}
	log->oldest = w->next;
	if (log->oldest == NULL)
		log->newest = NULL;
	pw_unflushed_free(w);
	return (0);
}

uint64_t
pw_backlog_overlay(const pw_backlog_t *log, char *buf, uint64_t from, uint64_t to)
{
	uint64_t covered = from;
	for (uint64_t region = from >> REGION_SHIFT; region <= (to - 1) >> REGION_SHIFT; region++) {
		uint64_t begin = region << REGION_SHIFT, end = (region + 1) << REGION_SHIFT;
		begin = begin > from ? begin : from;
		end = end < to ? end : to;
		for (const pw_spot_t *s = log->first[bucket(region)]; s != NULL; s = s->next) {
			const pw_unflushed_t *w = s->write;
			uint64_t a = begin > w->offset ? begin : w->offset;
			uint64_t z = end < w->offset + w->len ? end : w->offset + w->len;
			if (s->region != region || a >= z)
				continue;
			memcpy(buf + (a - from), w->bytes + (a - w->offset), (size_t)(z - a));
			covered = covered > z ? covered : z;
		}
	}
	return (covered);
}
