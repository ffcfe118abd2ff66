/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Fewer hand-offs between threads on the way of a write.
 *
 * A write goes through up to seven threads before whoever waits for it is woken: the taskq that issues it, the vdev's,
 * that for finished writes, the vdev's again for the flush, that for finished flushes, that for their parent. In a
 * kernel these steps are needed: interrupts may not do such work, and stacks are small. Here the thread that is there
 * may as well go on, and each wake-up saved is about twenty microseconds on a machine that sleeps when idle. The
 * executable's definitions of the dispatch functions take the place of the library's and pass everything else on.
 *
 * What is done at once, by whoever hands over, who in none of these places holds a lock that the work could want:
 *  - a block of the log, by the thread that commits: it would only wait for it (is_log);
 *  - a write into the host's page cache, by the thread that has compressed it: it is a copy (is_quick_write);
 *  - what follows a finished write or flush, by the thread that made the system call (at_once);
 *  - the flush that a finished write asks for, where there is only one vdev to flush (is_only_flush).
 * While a thread does a taskq's work it says that it belongs to that taskq, because the pipeline asks, and moves on what
 * could wait for a thread of that kind.
 */

#include <dlfcn.h>
#include <sys/zfs_context.h>
#include <sys/spa_impl.h>
#include <sys/vdev_file.h>
#include <sys/vdev_impl.h>
#include <sys/zil.h>
#include <sys/zio.h>

#include "internal.h"

static __thread taskq_t *acting_for;	/* the taskq whose work this thread does instead */
static __thread int depth;

/* Log block, vdev write, its end, flush, its end, the end of the parent; no circle can come of it. */
enum { MOST_DEEP = 8 };

typedef enum kind { OTHER, ISSUING, VDEV, FINISHING } kind_t;

int pw_vdev_threads;

static kind_t
kind_of_name(const char *name)
{
	if (name[0] != 'z' || name[1] != '_')
		return (OTHER);
	name += 2;
	if (strcmp(name, "vdev_file") == 0)
		return (VDEV);
	if (strcmp(name, "wr_iss") == 0 || strcmp(name, "wr_iss_h") == 0)
		return (ISSUING);
	if (strcmp(name, "wr_int") == 0 || strcmp(name, "wr_int_h") == 0 || strcmp(name, "flush_int") == 0 ||
	    strcmp(name, "null_int") == 0)
		return (FINISHING);
	return (OTHER);
}

static kind_t
kind_of(const taskq_t *tq)
{
	return (kind_of_name(tq->tq_name));
}

/* The library's own version of a function of ours, looked for once. Several threads may do so, and find the same. */
static void *
library_own(void **own, const char *name)
{
	void *next = __atomic_load_n(own, __ATOMIC_RELAXED);
	if (next == NULL) {
		next = dlsym(RTLD_NEXT, name);
		__atomic_store_n(own, next, __ATOMIC_RELAXED);
	}
	return (next);
}

typedef taskq_t *current_fn(void);

static taskq_t *
library_current(void)
{
	static void *own;
	return (((current_fn *)library_own(&own, "taskq_of_curthread"))());
}

taskq_t *
taskq_of_curthread(void)
{
	return (acting_for != NULL ? acting_for : library_current());
}

/*
 * Compressing and writing a txg has four fifths of the processors in a kernel, which needs the rest for itself: one thread
 * where there are two processors. Here there is a scheduler to share them.
 *
 * A request to a vdev is a thread that waits, and the library has sixteen: too few where a device is played that has more
 * under way, or several, of which a slow one would keep the others waiting.
 */
taskq_t *
taskq_create(const char *name, int threads, pri_t priority, int least, int most, uint_t flags)
{
	typedef taskq_t *fn(const char *, int, pri_t, int, int, uint_t);
	fn *next = (fn *)dlsym(RTLD_NEXT, "taskq_create");
	if ((flags & TASKQ_THREADS_CPU_PCT) != 0 && strncmp(name, "z_wr_iss", 8) == 0)
		threads = MIN(threads * 5 / 4, 100);
	if (pw_vdev_threads != 0 && kind_of_name(name) == VDEV)
		threads = MAX(threads, pw_vdev_threads);
	return (next(name, threads, priority, least, most, flags));
}

/* What this thread is doing now. */
static kind_t
now_doing(void)
{
	taskq_t *tq = taskq_of_curthread();
	return (tq != NULL ? kind_of(tq) : OTHER);
}

static void
act_for(taskq_t *tq, task_func_t *func, void *arg)
{
	taskq_t *before = acting_for;
	acting_for = tq;
	depth++;
	func(arg);
	depth--;
	acting_for = before;
}

/* A log block of more bytes is one of many: while others write it, the thread that commits can fill the next. */
enum { MOST_OF_LOG = 64 << 10 };

/* A block of the log, handed over by a thread of no taskq: the one that commits. */
static int
is_log(const zio_t *zio)
{
	return (zio->io_type == ZIO_TYPE_WRITE && zio->io_bookmark.zb_level == ZB_ZIL_LEVEL &&
	    zio->io_bookmark.zb_object == ZB_ZIL_OBJECT && zio->io_size <= MOST_OF_LOG && taskq_of_curthread() == NULL);
}

static int
at_once(kind_t kind, const void *arg)
{
	if (depth >= MOST_DEEP)
		return (0);
	if (kind == ISSUING)
		return (is_log(arg));
	if (kind != FINISHING)
		return (0);
	kind_t doing = now_doing();
	return (doing == VDEV || doing == FINISHING);
}

void
taskq_dispatch_ent(taskq_t *tq, task_func_t func, void *arg, uint_t flags, taskq_ent_t *t)
{
	typedef void fn(taskq_t *, task_func_t, void *, uint_t, taskq_ent_t *);
	static void *own;
	fn *next = (fn *)library_own(&own, "taskq_dispatch_ent");
	if (at_once(kind_of(tq), arg))
		act_for(tq, func, arg);
	else
		next(tq, func, arg, flags, t);
}

/*
 * A flush asked for by a write that has just ended, in the thread that ended it. Not where there are several vdevs: they
 * are to flush at the same time. Never a read or write: the one that ended would be kept from ending by it.
 */
static int
is_only_flush(const zio_t *zio)
{
	const vdev_t *root = zio->io_spa->spa_root_vdev;
	return (zio->io_type == ZIO_TYPE_FLUSH && acting_for != NULL && root->vdev_children == 1 &&
	    zio->io_vd->vdev_parent == root);
}

/* A write from a thread that issues, into a file of which the host has the pages: nothing to wait for. */
static int
is_quick_write(const zio_t *zio)
{
	const vdev_file_t *file = zio->io_vd->vdev_tsd;
	return (zio->io_type == ZIO_TYPE_WRITE && now_doing() == ISSUING && pw_seam_is_quick(file->vf_file));
}

taskqid_t
taskq_dispatch(taskq_t *tq, task_func_t func, void *arg, uint_t flags)
{
	typedef taskqid_t fn(taskq_t *, task_func_t, void *, uint_t);
	static void *own;
	fn *next = (fn *)library_own(&own, "taskq_dispatch");
	if (depth < MOST_DEEP && kind_of(tq) == VDEV && (is_quick_write(arg) || is_only_flush(arg))) {
		act_for(tq, func, arg);
		return (1);
	}
	return (next(tq, func, arg, flags));
}
