/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * A simulated volatile write cache between the engine and the host's files, and the power cut that loses it.
 *
 * A write is appended to the log of its file; a flush of that file writes the log to the file in order; a read sees
 * the file with the log laid over it. At a cut, a random subset of all logs is written in random order, and a write
 * may be torn at a sector. The process then ends with the lock held, so that it acknowledges nothing more. Flushed
 * data counts as durable: the host keeps its power.
 *
 * This file prints: pw_power_cut() reports the cut before it ends the process, and pw_power_from_environment() a
 * value that it cannot read. Programs that ship are built without this file.
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backlog.h"
#include "power.h"

#define	DEFAULT_LIMIT	(256ULL << 20)

struct pw_power_file {
	dev_t dev;
	ino_t ino;
	int fd;			/* a descriptor of the cache's own, so that the log outlives the handles */
	int writable;
	uint32_t handles;
	size_t sector;		/* the host's smallest unit of a write; a write tears between sectors */
	pw_backlog_t log;
	pw_power_file_t *next;
};

_Atomic int pw_power_on;

/* Readers share the lock; a thread that changes a log holds it exclusively, and a cut never releases it. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static pw_power_file_t *files;
static pw_power_options_t is;
static uint64_t ops;		/* since the cut was scheduled */
static uint64_t cached_bytes;

/* ---- files ---- */

static int
apply_oldest(pw_power_file_t *f)
{
	size_t len = f->log.oldest->len;
	int error = pw_backlog_apply_oldest(&f->log, f->fd);
	if (error == 0)
		cached_bytes -= len;
	return (error);
}

static int
apply_all(pw_power_file_t *f)
{
	int error = 0;
	while (error == 0 && f->log.oldest != NULL)
		error = apply_oldest(f);
	return (error);
}

static void
forget_if_idle(pw_power_file_t *f)
{
	if (f->handles != 0 || f->log.oldest != NULL)
		return;
	for (pw_power_file_t **at = &files; *at != NULL; at = &(*at)->next) {
		if (*at == f) {
			*at = f->next;
			break;
		}
	}
	(void) close(f->fd);
	free(f);
}

static pw_power_file_t *
file_new(int fd, const struct stat64 *st, dev_t dev, ino_t ino)
{
	pw_power_file_t *f = calloc(1, sizeof (*f));
	if (f == NULL)
		return (NULL);
	f->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (f->fd < 0) {
		free(f);
		return (NULL);
	}
	int sector = 512;
	if (S_ISBLK(st->st_mode) && ioctl(fd, BLKSSZGET, &sector) != 0)
		sector = 512;
	f->sector = (size_t)sector;
	f->dev = dev;
	f->ino = ino;
	f->next = files;
	files = f;
	return (f);
}

/* Called with the lock held exclusively. Returns NULL and sets errno if the host refuses. */
static pw_power_file_t *
attach(pw_power_slot_t *slot, int fd)
{
	struct stat64 st;
	pw_power_file_t *f = atomic_load(slot);

	if (f != NULL)
		return (f);
	if (fstat64(fd, &st) != 0)
		return (NULL);
	dev_t dev = S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev;
	ino_t ino = S_ISBLK(st.st_mode) ? 0 : st.st_ino;
	for (f = files; f != NULL; f = f->next)
		if (f->dev == dev && f->ino == ino)
			break;
	if (f == NULL && (f = file_new(fd, &st, dev, ino)) == NULL)
		return (NULL);
	int writable = (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY;
	if (writable && !f->writable) {
		int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (own < 0)
			return (NULL);
		(void) close(f->fd);
		f->fd = own;
		f->writable = 1;
	}
	f->handles++;
	atomic_store(slot, f);
	return (f);
}

void
pw_power_detach(pw_power_slot_t *slot)
{
	pthread_rwlock_wrlock(&lock);
	pw_power_file_t *f = atomic_exchange(slot, NULL);
	if (f != NULL) {
		f->handles--;
		forget_if_idle(f);
	}
	pthread_rwlock_unlock(&lock);
}

/* ---- the cut ---- */

static uint64_t
next_random(uint64_t *state)	/* splitmix64 */
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return (z ^ (z >> 31));
}

typedef struct survivor {
	const pw_power_file_t *file;
	const pw_unflushed_t *write;
} survivor_t;

/* Collects all cached writes in an array that is never freed, because the process is about to end. */
static survivor_t *
collect(size_t *count)
{
	size_t n = 0;
	for (const pw_power_file_t *f = files; f != NULL; f = f->next)
		for (const pw_unflushed_t *w = f->log.oldest; w != NULL; w = w->next)
			n++;
	survivor_t *all = malloc((n + 1) * sizeof (*all));
	*count = all == NULL ? 0 : n;
	n = 0;
	for (const pw_power_file_t *f = files; f != NULL && all != NULL; f = f->next)
		for (const pw_unflushed_t *w = f->log.oldest; w != NULL; w = w->next)
			all[n++] = (survivor_t) { f, w };
	return (all);
}

/* Of a torn write, either the front or the back reaches the file. A write of a single sector cannot tear. */
static int
write_torn(const survivor_t *s, uint64_t *random, int *torn)
{
	size_t len = s->write->len, sectors = len / s->file->sector;
	if (sectors < 2)
		return (pw_write_out(s->file->fd, s->write->bytes, len, s->write->offset));
	size_t at = s->file->sector * (1 + next_random(random) % (sectors - 1));
	*torn = 1;
	if (next_random(random) & 1)
		return (pw_write_out(s->file->fd, s->write->bytes, at, s->write->offset));
	return (pw_write_out(s->file->fd, s->write->bytes + at, len - at, s->write->offset + at));
}

/* Called with the lock held exclusively, and never releases it. */
static void __attribute__((noreturn))
cut(uint64_t seed)
{
	/*
	 * The surviving writes per thousand. None and all are possible: then only the order and the torn write vary.
	 */
	static const uint64_t share[] = { 0, 100, 500, 900, 1000 };
	uint64_t random = seed;
	size_t n, reached = 0;
	int torn = 0, error = 0;

	survivor_t *all = collect(&n);
	uint64_t keep = share[next_random(&random) % (sizeof (share) / sizeof (share[0]))];
	int tear = next_random(&random) & 1;
	for (size_t i = n; i > 1; i--) {
		size_t j = next_random(&random) % i;
		survivor_t swap = all[i - 1];
		all[i - 1] = all[j];
		all[j] = swap;
	}
	for (size_t i = 0; i < n; i++) {
		if (next_random(&random) % 1000 >= keep)
			continue;
		const pw_unflushed_t *w = all[i].write;
		int refused = tear && !torn ? write_torn(&all[i], &random, &torn) :
		    pw_write_out(all[i].file->fd, w->bytes, w->len, w->offset);
		if (refused != 0)
			error = refused;
		else
			reached++;
	}
	/* A single write, so that no other output gets between. */
	(void) dprintf(STDERR_FILENO, "\npoolwright: power cut at operation %llu, seed %llu: %zu of %zu unflushed writes "
	    "(%llu bytes) reached the files, %d of them torn%s%s\n", (unsigned long long)ops, (unsigned long long)seed,
	    reached, n, (unsigned long long)cached_bytes, torn, error != 0 ? "; some writes failed: " : "",
	    error != 0 ? strerror(error) : "");
	_exit(PW_POWER_EXIT);
}

/* Counts a write or flush. */
static void
tick(void)
{
	if (++ops == is.after_ops)
		cut(is.seed);
}

void
pw_power_cut(uint64_t seed)
{
	pthread_rwlock_wrlock(&lock);
	cut(seed);
}

/* ---- what the seam calls ---- */

int
pw_power_write(pw_power_slot_t *slot, int fd, const void *buf, size_t count, uint64_t offset)
{
	int error = 0;
	if (count == 0)
		return (0);
	pw_unflushed_t *w = pw_unflushed_new(buf, count, offset);	/* before the lock, because copying takes time */
	if (w == NULL)
		return (ENOMEM);
	pthread_rwlock_wrlock(&lock);
	pw_power_file_t *f = NULL;
	if (!pw_power_is_on())
		error = PW_POWER_OFF;
	else if ((f = attach(slot, fd)) == NULL)
		error = errno != 0 ? errno : ENOMEM;
	if (error != 0) {
		pw_unflushed_free(w);
	} else {
		pw_backlog_append(&f->log, w);
		cached_bytes += w->len;
		tick();
		/*
		 * If the cache is full, the oldest writes of this file make room for the new one, so the sum never
		 * grows.
		 */
		while (error == 0 && cached_bytes > is.limit_bytes && f->log.oldest != NULL)
			error = apply_oldest(f);
	}
	pthread_rwlock_unlock(&lock);
	return (error);
}

int
pw_power_flush(pw_power_slot_t *slot, int fd)
{
	int error = 0;
	pthread_rwlock_wrlock(&lock);
	pw_power_file_t *f;
	if (!pw_power_is_on()) {
		error = PW_POWER_OFF;
	} else if ((f = attach(slot, fd)) == NULL) {
		error = errno != 0 ? errno : ENOMEM;
	} else {
		tick();
		if (!is.lie)
			error = apply_all(f);
	}
	pthread_rwlock_unlock(&lock);
	return (error);
}

int
pw_power_read(pw_power_slot_t *slot, int fd, void *buf, size_t count, uint64_t offset, size_t *done)
{
	int error = 0;
	if (atomic_load(slot) == NULL) {
		pthread_rwlock_wrlock(&lock);
		if (attach(slot, fd) == NULL)
			error = errno != 0 ? errno : ENOMEM;
		pthread_rwlock_unlock(&lock);
		if (error != 0)
			return (error);
	}
	/*
	 * The whole read holds the lock: a flush during the read would move bytes from the log to a part of the file
	 * that was read before.
	 */
	pthread_rwlock_rdlock(&lock);
	const pw_power_file_t *f = atomic_load(slot);
	ssize_t n = pread64(fd, buf, count, (off64_t)offset);
	if (n < 0) {
		error = errno;
	} else {
		*done = (size_t)n;
		if (f->log.oldest != NULL && count > 0) {
			memset((char *)buf + n, 0, count - (size_t)n);
			uint64_t end = pw_backlog_overlay(&f->log, buf, offset, offset + count) - offset;
			*done = end > (uint64_t)n ? (size_t)end : (size_t)n;
		}
	}
	pthread_rwlock_unlock(&lock);
	return (error);
}

/* ---- on and off ---- */

void
pw_power_start(const pw_power_options_t *options)
{
	pthread_rwlock_wrlock(&lock);
	is = *options;
	if (is.limit_bytes == 0)
		is.limit_bytes = DEFAULT_LIMIT;
	ops = 0;
	atomic_store(&pw_power_on, 1);
	pthread_rwlock_unlock(&lock);
}

int
pw_power_stop(void)
{
	int error = 0;
	pthread_rwlock_wrlock(&lock);
	for (pw_power_file_t *f = files, *next; f != NULL; f = next) {
		next = f->next;
		int one = apply_all(f);
		error = error != 0 ? error : one;
		forget_if_idle(f);
	}
	if (error == 0)
		atomic_store(&pw_power_on, 0);
	pthread_rwlock_unlock(&lock);
	return (error);
}

/* Parses one `key=number` of the variable; the number may end in K, M or G. Returns 0 if it is invalid. */
static int
parse_part(const char *part, pw_power_options_t *out)
{
	static const struct { const char *key; size_t at; } keys[] = {
		{ "after=", offsetof(pw_power_options_t, after_ops) },
		{ "seed=", offsetof(pw_power_options_t, seed) },
		{ "limit=", offsetof(pw_power_options_t, limit_bytes) },
	};
	if (strcmp(part, "lie") == 0) {
		out->lie = 1;
		return (1);
	}
	for (size_t i = 0; i < sizeof (keys) / sizeof (keys[0]); i++) {
		const char *digits = part + strlen(keys[i].key);
		char *end;
		if (strncmp(part, keys[i].key, strlen(keys[i].key)) != 0 || *digits < '0' || *digits > '9')
			continue;
		errno = 0;
		uint64_t value = strtoull(digits, &end, 10);
		int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
		end += shift != 0;
		if (errno != 0 || *end != '\0' || value << shift >> shift != value)
			return (0);
		*(uint64_t *)((char *)out + keys[i].at) = value << shift;
		return (1);
	}
	return (0);
}

static void
read_environment(void)
{
	pw_power_options_t options = { 0 };
	const char *text = getenv("POOLWRIGHT_POWER");
	char *copy, *rest, *part;

	if (text == NULL || *text == '\0' || (copy = strdup(text)) == NULL)
		return;
	for (part = strtok_r(copy, ",", &rest); part != NULL; part = strtok_r(NULL, ",", &rest)) {
		if (!parse_part(part, &options)) {
			(void) dprintf(STDERR_FILENO, "poolwright: POOLWRIGHT_POWER=%s: invalid option %s\nhint: use "
			    "after=OPERATIONS,seed=NUMBER,limit=BYTES,lie; each is optional\n", text, part);
			_exit(2);
		}
	}
	free(copy);
	pw_power_start(&options);
}

void
pw_power_from_environment(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	(void) pthread_once(&once, read_environment);
}
