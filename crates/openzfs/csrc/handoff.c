/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Fewer hand-offs between threads at the end of a write.
 *
 * A write that has reached its file goes through up to four more threads before whoever waits for it is woken: the
 * taskq for finished writes, the vdev's again for the flush, that for finished flushes, that for their parent. In a
 * kernel the first step is needed, because interrupts may not do such work; here the thread that made the system call
 * may as well go on, and each wake-up saved is about twenty microseconds on a machine that sleeps when idle. The
 * executable's definitions of the dispatch functions take the place of the library's and pass everything else on.
 *
 * Nothing is held by a vdev's thread when it hands over. While it does an interrupt taskq's work it says that it
 * belongs to that taskq, because the pipeline asks, and moves on what could wait for a thread of that kind.
 */

#include <dlfcn.h>
#include <sys/zfs_context.h>
#include <sys/spa_impl.h>
#include <sys/vdev_impl.h>
#include <sys/zio.h>

#include "internal.h"

static __thread taskq_t *acting_for;	/* the taskq whose work this thread does instead */
static __thread int depth;

enum { MOST_DEEP = 4 };

static int
is_finishing(const taskq_t *tq)
{
	const char *name = tq->tq_name;
	return (strcmp(name, "z_wr_int") == 0 || strcmp(name, "z_wr_int_h") == 0 || strcmp(name, "z_flush_int") == 0 ||
	    strcmp(name, "z_null_int") == 0);
}

typedef taskq_t *current_fn(void);

static taskq_t *
library_current(void)
{
	static current_fn *next;
	if (next == NULL)
		next = (current_fn *)dlsym(RTLD_NEXT, "taskq_of_curthread");
	return (next());
}

static int
on_vdev_thread(void)
{
	if (acting_for != NULL)
		return (1);
	taskq_t *own = library_current();
	return (own != NULL && strcmp(own->tq_name, "z_vdev_file") == 0);
}

taskq_t *
taskq_of_curthread(void)
{
	return (acting_for != NULL ? acting_for : library_current());
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

void
taskq_dispatch_ent(taskq_t *tq, task_func_t func, void *arg, uint_t flags, taskq_ent_t *t)
{
	typedef void fn(taskq_t *, task_func_t, void *, uint_t, taskq_ent_t *);
	static fn *next;
	if (next == NULL)
		next = (fn *)dlsym(RTLD_NEXT, "taskq_dispatch_ent");
	if (depth < MOST_DEEP && is_finishing(tq) && on_vdev_thread())
		act_for(tq, func, arg);
	else
		next(tq, func, arg, flags, t);
}

/*
 * A flush asked for by a write that has just ended, in the thread that ended it. Not where there are several vdevs: they
 * are to flush at the same time. And never a read or write: the one that ended would be kept from ending by it.
 */
static int
is_only_flush(const taskq_t *tq, const void *arg)
{
	if (acting_for == NULL || strcmp(tq->tq_name, "z_vdev_file") != 0)
		return (0);
	const zio_t *zio = arg;
	const vdev_t *root = zio->io_spa->spa_root_vdev;
	return (zio->io_type == ZIO_TYPE_FLUSH && root->vdev_children == 1 && zio->io_vd->vdev_parent == root);
}

taskqid_t
taskq_dispatch(taskq_t *tq, task_func_t func, void *arg, uint_t flags)
{
	typedef taskqid_t fn(taskq_t *, task_func_t, void *, uint_t);
	static fn *next;
	if (next == NULL)
		next = (fn *)dlsym(RTLD_NEXT, "taskq_dispatch");
	if (depth < MOST_DEEP && is_only_flush(tq, arg)) {
		act_for(tq, func, arg);
		return (1);
	}
	return (next(tq, func, arg, flags));
}
