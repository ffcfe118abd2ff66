/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Queues of tasks and the threads that run them, with fewer hand-offs between threads for each write.
 *
 * OpenZFS passes a write through up to seven threads before it wakes the waiting thread: the queue that issues it, the
 * vdev's, the one for completed writes, the vdev's again for the flush, the one for completed flushes, and the one for
 * their parent. A kernel needs these steps because interrupts must not do such work and stacks are small. In user space
 * the current thread can do the next step itself. Each wake-up saved is about 20 us on a machine that sleeps when idle.
 *
 * The dispatching thread does the following at once. In none of these cases does it hold a lock that the work could
 * need:
 *
 * - a block of the log, in the committing thread, which would only wait for it (is_log);
 * - a write to the host's page cache, in the thread that compressed it, because it is a copy (is_quick_write);
 * - the steps after a completed write or flush, in the thread that made the system call (at_once);
 * - the flush that a completed write requests, if there is only one vdev to flush (is_only_flush).
 *
 * While a thread does a queue's work it reports that it belongs to that queue, because the pipeline asks. It dispatches
 * work that could wait for a thread of that kind.
 */

#include <sys/zfs_context.h>
#include <sys/spa_impl.h>
#include <sys/vdev_file.h>
#include <sys/vdev_impl.h>
#include <sys/zil.h>
#include <sys/zio.h>

#include "clock.h"
#include "../internal.h"

/* In tq_flags: the threads run. OpenZFS's own flags are below. */
enum { ACTIVE = 0x10000 };

taskq_t *system_taskq, *system_delay_taskq;

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

taskq_t *
taskq_of_curthread(void)
{
	const pw_locals_t *my = pw_thread_locals();
	return (my->acting_for != NULL ? my->acting_for : my->own_queue);
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
	pw_locals_t *my = pw_thread_locals();
	void *before = my->acting_for;
	my->acting_for = tq;
	my->depth++;
	func(arg);
	my->depth--;
	my->acting_for = before;
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
	if (pw_thread_locals()->depth >= MOST_DEEP)
		return (0);
	if (kind == ISSUING)
		return (is_log(arg));
	if (kind != FINISHING)
		return (0);
	kind_t doing = now_doing();
	return (doing == VDEV || doing == FINISHING);
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
	return (zio->io_type == ZIO_TYPE_FLUSH && pw_thread_locals()->acting_for != NULL && root->vdev_children == 1 &&
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

/* ---- queues ---- */

/* Adds a task. Locked. */
static void
enqueue(taskq_t *tq, taskq_ent_t *t, task_func_t func, void *arg, uint_t flags)
{
	taskq_ent_t *ends = &tq->tq_task;
	taskq_ent_t *before = (flags & TQ_FRONT) ? ends : ends->tqent_prev;

	t->tqent_func = func;
	t->tqent_arg = arg;
	t->tqent_prev = before;
	t->tqent_next = before->tqent_next;
	before->tqent_next->tqent_prev = t;
	before->tqent_next = t;
	cv_signal(&tq->tq_dispatch_cv);
}

static taskq_ent_t *
dequeue(taskq_t *tq)
{
	taskq_ent_t *t = tq->tq_task.tqent_next;
	if (t == &tq->tq_task)
		return (NULL);
	t->tqent_prev->tqent_next = t->tqent_next;
	t->tqent_next->tqent_prev = t->tqent_prev;
	t->tqent_next = t->tqent_prev = NULL;
	return (t);
}

void
taskq_dispatch_ent(taskq_t *tq, task_func_t func, void *arg, uint_t flags, taskq_ent_t *t)
{
	if (at_once(kind_of(tq), arg)) {
		act_for(tq, func, arg);
		return;
	}
	t->tqent_flags |= TQENT_FLAG_PREALLOC;
	mutex_enter(&tq->tq_lock);
	enqueue(tq, t, func, arg, flags);
	mutex_exit(&tq->tq_lock);
}

taskqid_t
taskq_dispatch(taskq_t *tq, task_func_t func, void *arg, uint_t flags)
{
	if (pw_thread_locals()->depth < MOST_DEEP && kind_of(tq) == VDEV && (is_quick_write(arg) || is_only_flush(arg))) {
		act_for(tq, func, arg);
		return (1);
	}
	taskq_ent_t *t = kmem_zalloc(sizeof (*t), KM_SLEEP);
	mutex_enter(&tq->tq_lock);
	enqueue(tq, t, func, arg, flags);
	mutex_exit(&tq->tq_lock);
	return (1);
}

/* OpenZFS's library does not support this either; its callers go on without the task. */
taskqid_t
taskq_dispatch_delay(taskq_t *tq, task_func_t func, void *arg, uint_t flags, clock_t when)
{
	(void) tq; (void) func; (void) arg; (void) flags; (void) when;
	return (TASKQID_INVALID);
}

void
taskq_init_ent(taskq_ent_t *t)
{
	*t = (taskq_ent_t) { 0 };
}

int
taskq_empty_ent(taskq_ent_t *t)
{
	return (t->tqent_next == NULL);
}

int
#ifdef PW_TASKQ_CANCEL_WAITS
taskq_cancel_id(taskq_t *tq, taskqid_t id, boolean_t wait)
{
	(void) wait;
#else
taskq_cancel_id(taskq_t *tq, taskqid_t id)
{
#endif
	(void) tq; (void) id;
	return (ENOENT);
}

/* ---- threads ---- */

static void
run_tasks(void *arg)
{
	taskq_t *tq = arg;

	pw_thread_locals()->own_queue = tq;
	mutex_enter(&tq->tq_lock);
	while (tq->tq_flags & ACTIVE) {
		taskq_ent_t *t = dequeue(tq);
		if (t == NULL) {
			if (--tq->tq_active == 0)
				cv_broadcast(&tq->tq_wait_cv);
			cv_wait(&tq->tq_dispatch_cv, &tq->tq_lock);
			tq->tq_active++;
			continue;
		}
		/* The task may free a preallocated entry, or use it again. */
		int allocated = !(t->tqent_flags & TQENT_FLAG_PREALLOC);
		mutex_exit(&tq->tq_lock);
		t->tqent_func(t->tqent_arg);
		if (allocated)
			kmem_free(t, sizeof (*t));
		mutex_enter(&tq->tq_lock);
	}
	tq->tq_nthreads--;
	cv_broadcast(&tq->tq_wait_cv);
	mutex_exit(&tq->tq_lock);
}

/*
 * The number of threads of a queue. In a kernel, four fifths of the processors compress and write a txg, because the
 * kernel needs the rest: one thread on two processors. In user space a scheduler shares the processors, so all are used.
 *
 * A request to a vdev occupies a thread that waits, and OpenZFS has sixteen of them. These are too few for an emulated
 * device with more requests in progress, or for several devices, of which a slow one would make the others wait.
 */
static int
thread_count(const char *name, int threads, uint_t flags)
{
	if (flags & TASKQ_THREADS_CPU_PCT) {
		int percent = strncmp(name, "z_wr_iss", 8) == 0 ? MIN(threads * 5 / 4, 100) : MIN(threads, 100);
		return (MAX((int)boot_ncpus * percent / 100, 1));
	}
	return (kind_of_name(name) == VDEV ? MAX(threads, pw_vdev_threads) : threads);
}

/*
 * vdev_validate() creates a queue to validate the children of a vdev in parallel; without one, it validates them in the
 * calling thread. A queue's thread does not hold the configuration lock, so vdev_validate() would accept labels of any
 * txg there, instead of those up to the last synced one. If a process was killed after a txg wrote half of the labels
 * and before it wrote its uberblock, the newest label of a vdev that a detachment makes top-level has a GUID that the
 * pool's configuration does not contain: OpenZFS would fault this vdev and go on with the one that was being detached.
 */
static int
is_serial(const char *name)
{
	return (strcmp(name, "vdev_validate") == 0);
}

/* Returns NULL if the calling thread is to do the tasks. */
taskq_t *
taskq_create(const char *name, int threads, pri_t priority, int least, int most, uint_t flags)
{
	(void) priority; (void) least; (void) most;
	if (is_serial(name))
		return (NULL);
	taskq_t *tq = kmem_zalloc(sizeof (*tq), KM_SLEEP);
	int n = thread_count(name, threads, flags);

	mutex_init(&tq->tq_lock, NULL, MUTEX_DEFAULT, NULL);
	cv_init(&tq->tq_dispatch_cv, NULL, CV_DEFAULT, NULL);
	cv_init(&tq->tq_wait_cv, NULL, CV_DEFAULT, NULL);
	(void) strlcpy(tq->tq_name, name, sizeof (tq->tq_name));
	tq->tq_flags = flags | ACTIVE;
	tq->tq_active = tq->tq_nthreads = tq->tq_nalloc = n;
	tq->tq_task.tqent_next = tq->tq_task.tqent_prev = &tq->tq_task;
	tq->tq_threadlist = kmem_zalloc(n * sizeof (kthread_t *), KM_SLEEP);
	for (int i = 0; i < n; i++)
		tq->tq_threadlist[i] = thread_create_named(tq->tq_name, NULL, 0, run_tasks, tq, 0, &p0, TS_RUN, priority);
	return (tq);
}

taskq_t *
taskq_create_synced(const char *name, int threads, pri_t priority, int least, int most, uint_t flags, kthread_t ***list)
{
	flags &= ~(TASKQ_DYNAMIC | TASKQ_THREADS_CPU_PCT | TASKQ_DC_BATCH);
	taskq_t *tq = taskq_create(name, threads, priority, least, most, flags);
	*list = kmem_alloc(threads * sizeof (kthread_t *), KM_SLEEP);
	memcpy(*list, tq->tq_threadlist, threads * sizeof (kthread_t *));
	return (tq);
}

void
taskq_wait(taskq_t *tq)
{
	mutex_enter(&tq->tq_lock);
	while (tq->tq_task.tqent_next != &tq->tq_task || tq->tq_active != 0)
		cv_wait(&tq->tq_wait_cv, &tq->tq_lock);
	mutex_exit(&tq->tq_lock);
}

void
taskq_wait_id(taskq_t *tq, taskqid_t id)
{
	(void) id;
	taskq_wait(tq);
}

void
taskq_wait_outstanding(taskq_t *tq, taskqid_t id)
{
	(void) id;
	taskq_wait(tq);
}

void
taskq_destroy(taskq_t *tq)
{
	taskq_wait(tq);
	mutex_enter(&tq->tq_lock);
	tq->tq_flags &= ~ACTIVE;
	cv_broadcast(&tq->tq_dispatch_cv);
	while (tq->tq_nthreads != 0)
		cv_wait(&tq->tq_wait_cv, &tq->tq_lock);
	mutex_exit(&tq->tq_lock);
	kmem_free(tq->tq_threadlist, tq->tq_nalloc * sizeof (kthread_t *));
	mutex_destroy(&tq->tq_lock);
	cv_destroy(&tq->tq_dispatch_cv);
	cv_destroy(&tq->tq_wait_cv);
	kmem_free(tq, sizeof (*tq));
}

int
taskq_member(taskq_t *tq, kthread_t *thread)
{
	for (int i = 0; i < tq->tq_nalloc; i++)
		if (tq->tq_threadlist[i] == thread)
			return (1);
	return (0);
}

void
system_taskq_init(void)
{
	system_taskq = taskq_create("system_taskq", 64, maxclsyspri, 4, 512, TASKQ_DYNAMIC);
	system_delay_taskq = taskq_create("delay_taskq", 4, maxclsyspri, 4, 512, TASKQ_DYNAMIC);
}

void
system_taskq_fini(void)
{
	taskq_destroy(system_taskq);
	taskq_destroy(system_delay_taskq);
	system_taskq = system_delay_taskq = NULL;
}
