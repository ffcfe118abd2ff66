/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * The I/O between vdevs and the host's files. OpenZFS calls the zfs_file_* functions of this file, so
 * that all I/O of the vdevs passes through it. It counts the I/O. It can be delayed as a device
 * would (device.c), or lost as in a power failure (power.c). Errors of the host are returned to the library, whose
 * events arrive in fault.c.
 */

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <sys/zfs_context.h>
#include <sys/zfs_file.h>

#include "../device.h"
#include "../inject.h"
#include "../internal.h"
#include "../power.h"
#include "clock.h"

typedef struct counters {
	_Atomic uint64_t read_bytes, write_bytes, read_ops, write_ops, flushes, read_ns, write_ns, flush_ns;
} counters_t;

typedef struct seam_file {
	zfs_file_t base;		/* must be first: the library reads f_fd through it */
	char *path;
	int cached;			/* the host caches the file's pages, so a write is a copy */
	counters_t count;
	pw_played_t device;
	pw_power_slot_t power;
	struct seam_file *next;
} seam_file_t;

static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;
static seam_file_t *files;
static counters_t total;

/*
 * The device of a file that will be opened: the same for all files except those with a rule. Protected by files_lock.
 */
typedef struct rule {
	char *path;
	pw_device_t is;
	struct rule *next;
} rule_t;
static pw_device_t everyone;
static rule_t *rules;
static pw_played_t alone = { .lock = PTHREAD_MUTEX_INITIALIZER };	/* for pw_seam_exercise() and pw_seam_plan() */

static const pw_device_t *
rule_for(const char *path)
{
	for (const rule_t *r = rules; r != NULL; r = r->next)
		if (strcmp(r->path, path) == 0)
			return (&r->is);
	return (&everyone);
}

static void
forget_rules(void)
{
	while (rules != NULL) {
		rule_t *r = rules;
		rules = r->next;
		free(r->path);
		free(r);
	}
}

static int
add_rule(const char *path, const pw_device_t *is)
{
	rule_t *r = calloc(1, sizeof (*r));
	if (r == NULL || (r->path = strdup(path)) == NULL) {
		free(r);
		return (ENOMEM);
	}
	r->is = *is;
	r->next = rules;	/* before an older rule of the same file */
	rules = r;
	return (0);
}

int
pw_seam_set_device(const char *path, const pw_device_t *is)
{
	int error = 0;
	pthread_mutex_lock(&files_lock);
	if (path == NULL) {
		forget_rules();
		everyone = *is;
		pw_device_become(&alone, is);
	} else {
		error = add_rule(path, is);
	}
	for (seam_file_t *f = files; f != NULL && error == 0; f = f->next)
		if (path == NULL || strcmp(f->path, path) == 0)
			pw_device_become(&f->device, is);
	pthread_mutex_unlock(&files_lock);
	return (error);
}

#ifdef PW_FAULT_INJECTION
void
pw_seam_exercise(int op, uint64_t offset, uint64_t bytes)
{
	pw_device_wait(&alone, op, offset, bytes, pw_clock_now());
}
#endif

uint64_t
pw_seam_plan(int op, uint64_t offset, uint64_t bytes, uint64_t began)
{
	return (pw_device_plan(&alone, op, offset, bytes, began));
}

static void
count_one(counters_t *c, int op, uint64_t bytes, uint64_t ns)
{
	_Atomic uint64_t *ops = op == PW_OP_READ ? &c->read_ops : op == PW_OP_WRITE ? &c->write_ops : &c->flushes;
	_Atomic uint64_t *sum = op == PW_OP_READ ? &c->read_ns : op == PW_OP_WRITE ? &c->write_ns : &c->flush_ns;
	atomic_fetch_add_explicit(ops, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(sum, ns, memory_order_relaxed);
	if (op == PW_OP_READ)
		atomic_fetch_add_explicit(&c->read_bytes, bytes, memory_order_relaxed);
	else if (op == PW_OP_WRITE)
		atomic_fetch_add_explicit(&c->write_bytes, bytes, memory_order_relaxed);
}

static void
finish(zfs_file_t *fp, int op, uint64_t offset, uint64_t bytes, uint64_t began)
{
	seam_file_t *f = (seam_file_t *)fp;
	pw_device_wait(&f->device, op, offset, bytes, began);
	uint64_t ns = pw_clock_now() - began;
	count_one(&total, op, bytes, ns);
	count_one(&f->count, op, bytes, ns);
}

static void
add_counts(counters_t *c, pw_vdev_stats_t *out)
{
	out->read_bytes += atomic_load(&c->read_bytes);
	out->write_bytes += atomic_load(&c->write_bytes);
	out->read_ops += atomic_load(&c->read_ops);
	out->write_ops += atomic_load(&c->write_ops);
	out->flushes += atomic_load(&c->flushes);
	out->read_ns += atomic_load(&c->read_ns);
	out->write_ns += atomic_load(&c->write_ns);
	out->flush_ns += atomic_load(&c->flush_ns);
}

void
pw_seam_totals(pw_vdev_stats_t *out)
{
	memset(out, 0, sizeof (*out));
	add_counts(&total, out);
}

int
pw_seam_file(const char *path, pw_vdev_stats_t *out)
{
	int error = ENOENT;
	memset(out, 0, sizeof (*out));
	pthread_mutex_lock(&files_lock);
	for (seam_file_t *f = files; f != NULL; f = f->next) {
		if (strcmp(f->path, path) == 0) {
			add_counts(&f->count, out);
			error = 0;
		}
	}
	pthread_mutex_unlock(&files_lock);
	return (error);
}

int
pw_seam_is_quick(const struct zfs_file *fp)
{
	const seam_file_t *f = (const seam_file_t *)fp;
	return (f->cached && !f->device.is.emulate);
}

/* ---- what OpenZFS calls ---- */

#ifdef PW_FILE_OPEN_HAS_CRED		/* 2.3.9; build.rs reads the header */
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
	pw_device_init(&f->device, rule_for(path));
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
	pw_device_fini(&f->device);
	(void) close(fp->f_fd);
	free(f->path);
	free(f);
}

static int
read_bytes(zfs_file_t *fp, void *buf, size_t count, loff_t off, size_t *done)
{
	if (pw_power_is_on())
		return (pw_power_read(&((seam_file_t *)fp)->power, fp->f_fd, buf, count, off, done));
	ssize_t n = pread64(fp->f_fd, buf, count, off);
	if (n < 0)
		return (errno);
	*done = n;
	return (0);
}

static int
read_host(zfs_file_t *fp, void *buf, size_t count, loff_t off, size_t *done)
{
	int damage = 0;
	int error = pw_inject_before(((seam_file_t *)fp)->path, PW_OP_READ, &count, &damage);
	if (error == 0)
		error = read_bytes(fp, buf, count, off, done);
	if (error == 0 && damage && *done != 0)
		((char *)buf)[*done / 2] ^= 1;
	return (error);
}

int
zfs_file_pread(zfs_file_t *fp, void *buf, size_t count, loff_t off, ssize_t *resid)
{
	uint64_t began = pw_clock_now();
	size_t done = 0;
	int error = read_host(fp, buf, count, off, &done);
	if (error != 0)
		return (error);
	finish(fp, PW_OP_READ, off, count, began);
	if (resid != NULL)
		*resid = (ssize_t)(count - done);
	else if (done != count)
		return (EIO);
	return (0);
}

static int
write_host(zfs_file_t *fp, const void *buf, size_t count, loff_t off)
{
	size_t wanted = count;
	int damage = 0, injected = pw_inject_before(((seam_file_t *)fp)->path, PW_OP_WRITE, &wanted, &damage);
	if (injected != 0)
		return (injected);
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
	uint64_t began = pw_clock_now();
	int error = write_host(fp, buf, count, off);
	if (error != 0)
		return (error);
	finish(fp, PW_OP_WRITE, off, count, began);
	if (resid != NULL)
		*resid = 0;
	return (0);
}

static int
flush_host(zfs_file_t *fp)
{
	size_t none = 0;
	int damage = 0, injected = pw_inject_before(((seam_file_t *)fp)->path, PW_OP_FLUSH, &none, &damage);
	if (injected != 0)
		return (injected);
	if (pw_power_is_on()) {
		int error = pw_power_flush(&((seam_file_t *)fp)->power, fp->f_fd);
		if (error != PW_POWER_OFF)
			return (error);
	}
	/*
	 * A file with an emulated device is scratch data: its flush takes the time of the profile, and fsync is not
	 * called. Otherwise fdatasync writes the data and the block map. fsync would also make the host's journal
	 * write the modification time at each flush.
	 */
	return (((seam_file_t *)fp)->device.is.emulate || fdatasync(fp->f_fd) == 0 ? 0 : errno);
}

int
zfs_file_fsync(zfs_file_t *fp, int flags)
{
	(void) flags;
	uint64_t began = pw_clock_now();
	int error = flush_host(fp);
	if (error != 0)
		return (error);
	finish(fp, PW_OP_FLUSH, 0, 0, began);
	return (0);
}

/*
 * TRIM. It would bypass the simulated write cache. A device may ignore TRIM, so while the cache is on, it is ignored.
 */
int
zfs_file_deallocate(zfs_file_t *fp, loff_t offset, loff_t len)
{
	if (pw_power_is_on())
		return (0);
	return (fallocate64(fp->f_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, len) == 0 ? 0 : errno);
}
