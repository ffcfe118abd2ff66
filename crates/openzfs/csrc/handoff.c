/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Fewer hand-offs between threads for each write.
 *
 * The library passes a write through up to seven threads before it wakes the waiting thread: the taskq that issues
 * it, the vdev's, the one for completed writes, the vdev's again for the flush, the one for completed flushes, and
 * the one for their parent. A kernel needs these steps because interrupts must not do such work and stacks are small.
 * In user space the current thread can do the next step itself. Each wake-up saved is about 20 us on a machine that
 * sleeps when idle. The executable's definitions of the dispatch functions replace those of the library and pass
 * everything else to them.
 *
 * The dispatching thread does the following at once. In none of these cases does it hold a lock that the work could
 * need:
 *
 * - a block of the log, in the committing thread, which would only wait for it (is_log);
 * - a write to the host's page cache, in the thread that compressed it, because it is a copy (is_quick_write);
 * - the steps after a completed write or flush, in the thread that made the system call (at_once);
 * - the flush that a completed write requests, if there is only one vdev to flush (is_only_flush).
 *
 * While a thread does a taskq's work it reports that it belongs to that taskq, because the pipeline asks. It
 * dispatches work that could wait for a thread of that kind.
 */

#include <dlfcn.h>
#include <sys/zfs_context.h>
#include <sys/spa_impl.h>
#include <sys/vdev_file.h>
#include <sys/vdev_impl.h>
#include <sys/zil.h>
#include <sys/zio.h>

#include "internal.h"

static __thread taskq_t *acting_for;	/* the taskq whose work this thread is doing */
static __thread int depth;

/* Log block, vdev write, its completion, flush, its completion, completion of the parent: no cycle is possible. */
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

/*
 * Looks up the library's own version of a function that this file overrides. Several threads may do so at once; they
 * find the same address.
 */
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
 * In a kernel, four fifths of the processors compress and write a txg, because the kernel needs the rest: one thread
 * on two processors. In user space a scheduler shares the processors, so all are used.
 *
 * A request to a vdev occupies a thread that waits, and the library has sixteen of them. These are too few for an
 * emulated device with more requests in progress, or for several devices, of which a slow one would make the others
 * wait.
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

/* The step that this thread is doing. */
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

/* A larger log block is one of many: while other threads write it, the committing thread can fill the next one. */
enum { MOST_OF_LOG = 64 << 10 };

/* Whether this is a log block dispatched by a thread of no taskq, which is the committing thread. */
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
 * Whether this is a flush requested by a write that has just completed, in the thread that completed it. Not if there
 * are several vdevs, which should flush at the same time. Never a read or write: it would delay the completion of the
 * write.
 */
static int
is_only_flush(const zio_t *zio)
{
	const vdev_t *root = zio->io_spa->spa_root_vdev;
	return (zio->io_type == ZIO_TYPE_FLUSH && acting_for != NULL && root->vdev_children == 1 &&
	    zio->io_vd->vdev_parent == root);
}

/*
 * Whether this is a write by an issuing thread to a file whose pages the host caches: it does not wait for a device.
 */
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
