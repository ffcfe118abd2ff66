/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Handling of a vdev whose file cannot be written. For a kernel, the module posts an event and a daemon faults the
 * vdev; in user space, this file receives the library's events and faults the vdev.
 *
 * A failed write or flush is not retried: the vdev is faulted, and a mirror, raidz or cache continues without it. If
 * the pool needs the vdev, the process ends instead: the library would suspend the pool for ever, and would treat a
 * failed flush as successful. Only writes that were never acknowledged are lost.
 */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/zfs_context.h>
#include <sys/spa.h>
#include <sys/spa_impl.h>
#include <sys/dsl_pool.h>
#include <sys/txg.h>
#include <sys/vdev_impl.h>
#include <sys/zio.h>
#include <sys/fm/fs/zfs.h>

#include "device.h"
#include "engine.h"
#include "internal.h"

typedef struct fault {
	char pool[ZFS_MAX_DATASET_NAME_LEN];
	uint64_t guid;
	struct fault *next;
} fault_t;

static void (*host_error)(const char *path, int op, int err, int needed);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t settled = PTHREAD_COND_INITIALIZER;
static fault_t *pending;	/* vdevs that are being faulted */

void
pw_fault_on_host_error(void (*hook)(const char *path, int op, int err, int needed))
{
	host_error = hook;
}

static int
is_pending(uint64_t guid)
{
	for (const fault_t *f = pending; f != NULL; f = f->next)
		if (f->guid == guid)
			return (1);
	return (0);
}

/* Whether a sibling of the failed vdev has all of the data and accepts writes. */
static int
is_whole(vdev_t *vd)
{
	return (!is_pending(vd->vdev_guid) && vdev_readable(vd) && vdev_writeable(vd) && vdev_dtl_empty(vd, DTL_MISSING));
}

/*
 * Whether the pool needs this vdev. The caller is a request to the vdev, so the tree of vdevs does not change. Called
 * with `lock` held.
 */
static int
is_needed(vdev_t *vd)
{
	if (vd->vdev_isl2cache || vd->vdev_aux != NULL)
		return (0);		/* a spare in use, unlike an available one, may have the only copy of some data */
	for (; vd != vd->vdev_top; vd = vd->vdev_parent) {
		vdev_t *group = vd->vdev_parent;
		uint64_t bear = group->vdev_ops->vdev_op_nparity != NULL ? vdev_get_nparity(group) : group->vdev_children - 1;
		uint64_t without = 1;
		for (uint64_t i = 0; i < group->vdev_children; i++)
			without += group->vdev_child[i] != vd && !is_whole(group->vdev_child[i]);
		if (without <= bear)
			return (0);
	}
	return (1);
}

static void *
take_out_of_use(void *arg)
{
	fault_t *fault = arg;
	spa_t *spa;

	if (spa_open(fault->pool, &spa, FTAG) == 0) {
		(void) vdev_fault(spa, fault->guid, VDEV_AUX_ERR_EXCEEDED);
		spa_close(spa, FTAG);
	}
	pthread_mutex_lock(&lock);
	for (fault_t **at = &pending; *at != NULL; at = &(*at)->next) {
		if (*at == fault) {
			*at = fault->next;
			break;
		}
	}
	pthread_cond_broadcast(&settled);
	pthread_mutex_unlock(&lock);
	free(fault);
	return (NULL);
}

/*
 * Faults the vdev in another thread, because the caller's request must complete before the vdev's state can change.
 */
static int
start_fault(spa_t *spa, vdev_t *vd)
{
	fault_t *fault = calloc(1, sizeof (*fault));
	pthread_t thread;

	if (fault == NULL)
		return (ENOMEM);
	(void) strlcpy(fault->pool, spa_name(spa), sizeof (fault->pool));
	fault->guid = vd->vdev_guid;
	fault->next = pending;
	pending = fault;
	if (pthread_create(&thread, NULL, take_out_of_use, fault) != 0) {
		pending = fault->next;
		free(fault);
		return (EAGAIN);
	}
	(void) pthread_detach(thread);
	return (0);
}

static void
vdev_failed(spa_t *spa, vdev_t *vd, int op, int error)
{
	pthread_mutex_lock(&lock);
	int known = is_pending(vd->vdev_guid) || vd->vdev_faulted;
	int needed = !known && (is_needed(vd) || start_fault(spa, vd) != 0);
	pthread_mutex_unlock(&lock);
	if (!known && host_error != NULL)
		host_error(vd->vdev_path, op, error, needed);
}

void
pw_fault_settle(void)
{
	pthread_mutex_lock(&lock);
	while (pending != NULL)
		pthread_cond_wait(&settled, &lock);
	pthread_mutex_unlock(&lock);
}

/* ---- what OpenZFS calls ---- */

/* No caller waits for a txg far ahead of the last one on disk; an intact log names only the last few. */
enum { FAR_TXGS = 1 << 16 };

/*
 * An import waits for the newest txg that a log block or a record in it names. In a damaged or malicious image, that
 * txg may be so far ahead that it is never reached.
 */
extern void openzfs_txg_wait_synced(dsl_pool_t *dp, uint64_t txg);	/* renamed by scripts/openzfs.sh */

void
txg_wait_synced(dsl_pool_t *dp, uint64_t txg)
{
	if (txg > FAR_TXGS && txg - FAR_TXGS > spa_last_synced_txg(dp->dp_spa) && host_error != NULL)
		host_error(spa_name(dp->dp_spa), PW_OP_FUTURE, EINVAL, 1);
	openzfs_txg_wait_synced(dp, txg);
}

int
zfs_ereport_post(const char *event, spa_t *spa, vdev_t *vd, const zbookmark_phys_t *bookmark, zio_t *zio, uint64_t state)
{
	(void) bookmark; (void) state;
	if (strcmp(event, FM_EREPORT_ZFS_IO_FAILURE) == 0) {
		/* All copies of a block failed, and the pool is about to suspend for ever. */
		if (host_error != NULL)
			host_error(spa_name(spa), PW_OP_POOL, EIO, 1);
	} else if (strcmp(event, FM_EREPORT_ZFS_PROBE_FAILURE) == 0 && vd != NULL && vd->vdev_cant_write) {
		vdev_failed(spa, vd, PW_OP_WRITE, EIO);
	} else if (strcmp(event, FM_EREPORT_ZFS_IO) == 0 && vd != NULL && zio != NULL && vd->vdev_ops->vdev_op_leaf) {
		if (zio->io_type == ZIO_TYPE_WRITE)
			vdev_failed(spa, vd, PW_OP_WRITE, zio->io_error);
		else if (zio->io_type == ZIO_TYPE_FLUSH)
			vdev_failed(spa, vd, PW_OP_FLUSH, zio->io_error);
	}
	return (0);
}
