/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * The seam between vdevs and the host's files. The executable's definitions of zfs_file_* take the place of the
 * library's, so that every byte that a vdev moves passes here: it is counted, can be delayed like a device of
 * another kind or lost like one whose power fails (power.c), and a refusal of the host (a full disk) is seen before
 * the pool suspends on it.
 */

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <sys/zfs_context.h>
#include <sys/zfs_file.h>

#include "internal.h"
#include "power.h"

typedef struct counters {
	_Atomic uint64_t read_bytes, write_bytes, read_ops, write_ops, flushes, read_ns, write_ns, flush_ns;
} counters_t;

typedef struct seam_file {
	zfs_file_t base;		/* first: the library reads f_fd through it */
	char *path;
	int cached;			/* the host keeps its pages, so a write is a copy */
	counters_t count;
	pw_power_slot_t power;
	struct seam_file *next;
} seam_file_t;

enum { OP_READ, OP_WRITE, OP_FLUSH };
enum { MAX_LANES = 256 };

static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;
static seam_file_t *files;
static counters_t total;
static void (*host_error)(const char *path, int op, int err);

/* The emulated device: `lanes` requests at once, and one pipe that all share. */
static struct {
	pthread_mutex_t lock;
	pw_device_t is;
	uint64_t lane_free[MAX_LANES];
	uint64_t pipe_free;
	uint64_t next_offset;
	_Atomic uint64_t overshoot;	/* how late a sleeping thread wakes here, lately */
} device = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t
now_ns(void)
{
	struct timespec t;
	(void) clock_gettime(CLOCK_MONOTONIC, &t);
	return ((uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec);
}

static void
sleep_until(uint64_t when)
{
	struct timespec t = { .tv_sec = when / 1000000000ULL, .tv_nsec = when % 1000000000ULL };
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

/*
 * A sleeping thread wakes tens of microseconds late in a virtual machine, and later on a busy one. Spinning instead
 * would take the processor from the engine that is being measured. So each sleep aims early by what sleeps have lately
 * been late, which makes the mean right, and only a wait shorter than that, or its rest, is spent yielding.
 */
static void
wait_until(uint64_t when)
{
	static __thread int exact;
	if (!exact) {
		(void) prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
		exact = 1;
	}
	uint64_t late = atomic_load_explicit(&device.overshoot, memory_order_relaxed);
	uint64_t now = now_ns();
	if (now + late < when) {
		uint64_t aim = when - late;
		sleep_until(aim);
		now = now_ns();
		/* A moving average over about 32 sleeps; one that was descheduled for milliseconds counts as 200 us. */
		uint64_t this = MIN(now - aim, 200000);
		atomic_store_explicit(&device.overshoot, late + (this >> 5) - (late >> 5), memory_order_relaxed);
	}
	while (now_ns() < when)
		(void) sched_yield();
}

static int
compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x < y ? -1 : x > y);
}

static uint64_t
measure_overshoot(void)
{
	uint64_t late[31];
	(void) prctl(PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
	for (int i = 0; i < 31; i++) {
		uint64_t when = now_ns() + 100000;
		sleep_until(when);
		late[i] = now_ns() - when;
	}
	qsort(late, 31, sizeof (late[0]), compare_u64);
	return (MIN(late[15], 200000));
}

void
pw_seam_set_device(const pw_device_t *is)
{
	uint64_t overshoot = is->emulate ? measure_overshoot() : 0;
	pthread_mutex_lock(&device.lock);
	device.is = *is;
	device.is.queue_depth = MAX(1, MIN(is->queue_depth, MAX_LANES));
	memset(device.lane_free, 0, sizeof (device.lane_free));
	device.pipe_free = 0;
	device.overshoot = overshoot;
	pthread_mutex_unlock(&device.lock);
}

/* When the emulated device would have this request done, had it arrived at `now`. */
static uint64_t
schedule(int op, uint64_t offset, uint64_t bytes, uint64_t now)
{
	const pw_device_t *d = &device.is;
	uint64_t rate = op == OP_READ ? d->read_bytes_s : d->write_bytes_s;
	uint64_t latency = op == OP_READ ? d->read_latency_ns :
	    op == OP_WRITE ? d->write_latency_ns : d->flush_latency_ns;
	uint64_t transfer = rate == 0 ? 0 : (uint64_t)((double)bytes * 1e9 / (double)rate);
	uint64_t slot = d->iops == 0 || op == OP_FLUSH ? 0 : 1000000000ULL / d->iops;
	uint32_t lane = 0;

	for (uint32_t i = 1; i < d->queue_depth; i++)
		if (device.lane_free[i] < device.lane_free[lane])
			lane = i;
	uint64_t begin = MAX(now, device.lane_free[lane]);
	if (op != OP_FLUSH) {
		if (offset != device.next_offset)
			latency += d->seek_ns;
		device.next_offset = offset + bytes;
	}
	device.pipe_free = MAX(device.pipe_free, begin) + MAX(transfer, slot);
	uint64_t done = MAX(begin + latency + transfer, device.pipe_free);
	device.lane_free[lane] = done;
	return (done);
}

static void
emulate(int op, uint64_t offset, uint64_t bytes, uint64_t now)
{
	if (!device.is.emulate)
		return;
	pthread_mutex_lock(&device.lock);
	uint64_t done = schedule(op, offset, bytes, now);
	pthread_mutex_unlock(&device.lock);
	wait_until(done);
}

void
pw_seam_exercise(int op, uint64_t offset, uint64_t bytes)
{
	emulate(op, offset, bytes, now_ns());
}

static void
count_one(counters_t *c, int op, uint64_t bytes, uint64_t ns)
{
	_Atomic uint64_t *ops = op == OP_READ ? &c->read_ops : op == OP_WRITE ? &c->write_ops : &c->flushes;
	_Atomic uint64_t *sum = op == OP_READ ? &c->read_ns : op == OP_WRITE ? &c->write_ns : &c->flush_ns;
	atomic_fetch_add_explicit(ops, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(sum, ns, memory_order_relaxed);
	if (op == OP_READ)
		atomic_fetch_add_explicit(&c->read_bytes, bytes, memory_order_relaxed);
	else if (op == OP_WRITE)
		atomic_fetch_add_explicit(&c->write_bytes, bytes, memory_order_relaxed);
}

static void
finish(zfs_file_t *fp, int op, uint64_t offset, uint64_t bytes, uint64_t began)
{
	seam_file_t *f = (seam_file_t *)fp;
	emulate(op, offset, bytes, began);
	uint64_t ns = now_ns() - began;
	count_one(&total, op, bytes, ns);
	count_one(&f->count, op, bytes, ns);
}

static void
snapshot(counters_t *c, pw_vdev_stats_t *out)
{
	*out = (pw_vdev_stats_t) {
		.read_bytes = atomic_load(&c->read_bytes), .write_bytes = atomic_load(&c->write_bytes),
		.read_ops = atomic_load(&c->read_ops), .write_ops = atomic_load(&c->write_ops),
		.flushes = atomic_load(&c->flushes), .read_ns = atomic_load(&c->read_ns),
		.write_ns = atomic_load(&c->write_ns), .flush_ns = atomic_load(&c->flush_ns),
	};
}

void
pw_seam_totals(pw_vdev_stats_t *out)
{
	snapshot(&total, out);
}

int
pw_seam_file(const char *path, pw_vdev_stats_t *out)
{
	int error = ENOENT;
	pthread_mutex_lock(&files_lock);
	for (seam_file_t *f = files; f != NULL; f = f->next) {
		if (strcmp(f->path, path) == 0) {
			snapshot(&f->count, out);
			error = 0;
			break;
		}
	}
	pthread_mutex_unlock(&files_lock);
	return (error);
}

void
pw_seam_on_host_error(void (*hook)(const char *path, int op, int err))
{
	host_error = hook;
}

static int
refused(zfs_file_t *fp, int op, int err)
{
	if (host_error != NULL)
		host_error(((seam_file_t *)fp)->path, op, err);
	return (err);
}

int
pw_seam_is_quick(const struct zfs_file *fp)
{
	return (((const seam_file_t *)fp)->cached && !device.is.emulate);
}

/* ---- what the library calls ---- */

#ifdef PW_FILE_OPEN_HAS_CRED		/* 2.3.9; build.rs looks at the header */
#define	CRED_ARGUMENT cred_t *cr,
#else
#define	CRED_ARGUMENT
#endif
#ifdef PW_FILE_PWRITE_HAS_ASHIFT
#define	ASHIFT_ARGUMENT uint8_t ashift,
#else
#define	ASHIFT_ARGUMENT
#endif

int
zfs_file_open(const char *path, int flags, int mode, CRED_ARGUMENT zfs_file_t **fpp)
{
#ifdef PW_FILE_OPEN_HAS_CRED
	(void) cr;
#endif
	struct stat64 st;
	pw_power_from_environment();
	if (!(flags & O_CREAT)) {
		if (stat64(path, &st) == -1)
			return (errno);
		if (S_ISBLK(st.st_mode))
			flags |= O_DIRECT;
	}
	int fd = open64(path, flags | O_CLOEXEC, mode);
	if (fd == -1)
		return (errno);
	seam_file_t *f = calloc(1, sizeof (*f));
	if (f == NULL || (f->path = strdup(path)) == NULL) {
		free(f);
		(void) close(fd);
		return (ENOMEM);
	}
	f->cached = !(flags & O_DIRECT);
	f->base.f_fd = fd;
	f->base.f_dump_fd = -1;
	pthread_mutex_lock(&files_lock);
	f->next = files;
	files = f;
	pthread_mutex_unlock(&files_lock);
	*fpp = &f->base;
	return (0);
}

void
zfs_file_close(zfs_file_t *fp)
{
	seam_file_t *f = (seam_file_t *)fp;
	pthread_mutex_lock(&files_lock);
	for (seam_file_t **at = &files; *at != NULL; at = &(*at)->next) {
		if (*at == f) {
			*at = f->next;
			break;
		}
	}
	pthread_mutex_unlock(&files_lock);
	pw_power_detach(&f->power);
	(void) close(fp->f_fd);
	free(f->path);
	free(f);
}

static int
read_host(zfs_file_t *fp, void *buf, size_t count, loff_t off, size_t *done)
{
	if (pw_power_is_on())
		return (pw_power_read(&((seam_file_t *)fp)->power, fp->f_fd, buf, count, off, done));
	ssize_t n = pread64(fp->f_fd, buf, count, off);
	if (n < 0)
		return (errno);
	*done = n;
	return (0);
}

int
zfs_file_pread(zfs_file_t *fp, void *buf, size_t count, loff_t off, ssize_t *resid)
{
	uint64_t began = now_ns();
	size_t done = 0;
	int error = read_host(fp, buf, count, off, &done);
	if (error != 0)
		return (error);
	finish(fp, OP_READ, off, count, began);
	if (resid != NULL)
		*resid = (ssize_t)(count - done);
	else if (done != count)
		return (EIO);
	return (0);
}

static int
write_host(zfs_file_t *fp, const void *buf, size_t count, loff_t off)
{
	if (pw_power_is_on()) {
		int error = pw_power_write(&((seam_file_t *)fp)->power, fp->f_fd, buf, count, off);
		if (error != PW_POWER_OFF)
			return (error);
	}
	size_t done = 0;
	while (done < count) {
		ssize_t n = pwrite64(fp->f_fd, (const char *)buf + done, count - done, off + done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return (n < 0 ? errno : ENOSPC);
		done += n;
	}
	return (0);
}

int
zfs_file_pwrite(zfs_file_t *fp, const void *buf, size_t count, loff_t off, ASHIFT_ARGUMENT ssize_t *resid)
{
#ifdef PW_FILE_PWRITE_HAS_ASHIFT
	(void) ashift;
#endif
	uint64_t began = now_ns();
	int error = write_host(fp, buf, count, off);
	if (error != 0)
		return (refused(fp, OP_WRITE, error));
	finish(fp, OP_WRITE, off, count, began);
	if (resid != NULL)
		*resid = 0;
	return (0);
}

static int
flush_host(zfs_file_t *fp)
{
	if (pw_power_is_on()) {
		int error = pw_power_flush(&((seam_file_t *)fp)->power, fp->f_fd);
		if (error != PW_POWER_OFF)
			return (error);
	}
	/*
	 * An emulated device stands on a scratch file: its flush costs what the profile says, not what this disk does.
	 * fdatasync: bytes and where they are. fsync would have a journal write the time of the last write, each time.
	 */
	return (device.is.emulate || fdatasync(fp->f_fd) == 0 ? 0 : errno);
}

int
zfs_file_fsync(zfs_file_t *fp, int flags)
{
	(void) flags;
	uint64_t began = now_ns();
	int error = flush_host(fp);
	if (error != 0)
		return (refused(fp, OP_FLUSH, error));
	finish(fp, OP_FLUSH, 0, 0, began);
	return (0);
}

/* TRIM. It would pass the write cache by, and a device is free to ignore it: with the cache, this one does. */
int
zfs_file_deallocate(zfs_file_t *fp, loff_t offset, loff_t len)
{
	if (pw_power_is_on())
		return (0);
	return (fallocate64(fp->f_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, len) == 0 ? 0 : errno);
}
