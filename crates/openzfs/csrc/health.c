/* SPDX-License-Identifier: CDDL-1.0 */
/* The health of a pool: its scrubs, and the state and errors of its vdevs. */

#include <sys/zfs_context.h>
#include <sys/spa.h>
#include <sys/spa_impl.h>
#include <sys/dsl_pool.h>
#include <sys/dsl_scan.h>
#include <sys/fs/zfs.h>
#include <sys/txg.h>
#include <sys/vdev_impl.h>

#include "engine.h"
#include "internal.h"

/* A scan runs in the pool's own transaction groups, which start without delay while a scan is active. */
int
pw_pool_scrub(const char *name, int wait)
{
	spa_t *spa;
	int error = spa_open(name, &spa, FTAG);
	if (error != 0)
		return (error);
	error = spa_scan(spa, POOL_SCAN_SCRUB);
	if (error == EBUSY && wait && dsl_scan_scrubbing(spa_get_dsl(spa)))
		error = 0;		/* a scrub is running: wait for its end */
	while (error == 0 && wait && dsl_scan_scrubbing(spa_get_dsl(spa)))
		txg_wait_synced(spa_get_dsl(spa), 0);
	spa_close(spa, FTAG);
	return (error);
}

int
pw_pool_scrub_stop(const char *name)
{
	spa_t *spa;
	int error = spa_open(name, &spa, FTAG);
	if (error == 0) {
		error = spa_scan_stop(spa);
		spa_close(spa, FTAG);
	}
	return (error);
}

int
pw_pool_scan(const char *name, pw_scan_t *out)
{
	spa_t *spa;
	pool_scan_stat_t s;
	int error = spa_open(name, &spa, FTAG);
	if (error != 0)
		return (error);
	memset(out, 0, sizeof (*out));
	memset(&s, 0, sizeof (s));
	if (spa_scan_get_stats(spa, &s) == 0 && s.pss_func != POOL_SCAN_NONE) {
		*out = (pw_scan_t) {
			.function = s.pss_func, .state = s.pss_state, .start = s.pss_start_time, .end = s.pss_end_time,
			.to_examine = s.pss_to_examine, .skipped = s.pss_skipped, .examined = s.pss_examined,
			.issued = s.pss_issued, .repaired = s.pss_processed, .errors = s.pss_errors,
			.paused = s.pss_pass_scrub_pause,
		};
	}
	out->data_errors = spa_approx_errlog_size(spa);
	spa_close(spa, FTAG);
	return (0);
}

/* The words of `zpool status`. */
static const char *
state_name(const vdev_stat_t *vs)
{
	switch (vs->vs_state) {
	case VDEV_STATE_CLOSED: case VDEV_STATE_OFFLINE:
		return ("OFFLINE");
	case VDEV_STATE_REMOVED:
		return ("REMOVED");
	case VDEV_STATE_CANT_OPEN:
		return (vs->vs_aux == VDEV_AUX_CORRUPT_DATA || vs->vs_aux == VDEV_AUX_BAD_LOG ? "FAULTED" :
		    vs->vs_aux == VDEV_AUX_SPLIT_POOL ? "SPLIT" : "UNAVAIL");
	case VDEV_STATE_FAULTED:
		return ("FAULTED");
	case VDEV_STATE_DEGRADED:
		return ("DEGRADED");
	case VDEV_STATE_HEALTHY:
		return ("ONLINE");
	}
	return ("UNKNOWN");
}

static void
tell(vdev_t *vd, pw_vdev_cb *each, void *arg)
{
	vdev_stat_t vs;
	if (vd->vdev_ops == &vdev_hole_ops || vd->vdev_ops == &vdev_indirect_ops)
		return;		/* the place of a removed vdev */
	vdev_get_stats(vd, &vs);
	pw_vdev_health_t health = {
		.guid = vd->vdev_guid, .allocated = vs.vs_alloc, .size = vs.vs_space, .read_errors = vs.vs_read_errors,
		.write_errors = vs.vs_write_errors, .checksum_errors = vs.vs_checksum_errors,
	};
	each(&health, state_name(&vs), arg);
	for (uint64_t i = 0; i < vd->vdev_children; i++)
		tell(vd->vdev_child[i], each, arg);
}

/* `zpool status` has words of its own for spares, and shows no errors of them. */
static void
tell_spare(const vdev_t *vd, pw_vdev_cb *each, void *arg)
{
	pw_vdev_health_t health = { .guid = vd->vdev_guid, .spare = 1 };
	vdev_stat_t vs = { .vs_state = vd->vdev_state, .vs_aux = vd->vdev_stat.vs_aux };
	uint64_t pool;
	if (spa_spare_exists(vd->vdev_guid, &pool, NULL) && pool != 0)
		each(&health, "INUSE", arg);
	else
		each(&health, vs.vs_state == VDEV_STATE_HEALTHY ? "AVAIL" : state_name(&vs), arg);
}

int
pw_pool_vdevs(const char *name, pw_vdev_cb *each, void *arg)
{
	spa_t *spa;
	int error = spa_open(name, &spa, FTAG);
	if (error != 0)
		return (error);
	spa_config_enter(spa, SCL_CONFIG, FTAG, RW_READER);
	tell(spa->spa_root_vdev, each, arg);
	for (int i = 0; i < spa->spa_l2cache.sav_count; i++)
		tell(spa->spa_l2cache.sav_vdevs[i], each, arg);
	for (int i = 0; i < spa->spa_spares.sav_count; i++)
		tell_spare(spa->spa_spares.sav_vdevs[i], each, arg);
	spa_config_exit(spa, SCL_CONFIG, FTAG);
	spa_close(spa, FTAG);
	return (0);
}

/* ---- a file that is lost ---- */

static vdev_t *
leaf_at(vdev_t *vd, const char *path)
{
	if (vd->vdev_ops->vdev_op_leaf)
		return (vd->vdev_path != NULL && strcmp(vd->vdev_path, path) == 0 ? vd : NULL);
	for (uint64_t i = 0; i < vd->vdev_children; i++) {
		vdev_t *found = leaf_at(vd->vdev_child[i], path);
		if (found != NULL)
			return (found);
	}
	return (NULL);
}

/* Returns the cache vdev or the available spare with this path, or NULL. */
static vdev_t *
aux_at(const spa_aux_vdev_t *sav, const char *path)
{
	vdev_t *vd = NULL;
	for (int i = 0; vd == NULL && i < sav->sav_count; i++)
		vd = leaf_at(sav->sav_vdevs[i], path);
	return (vd);
}

/*
 * A vdev that the pool needs keeps its descriptor: vdev_fault() would reopen the vdev by its path, and the data of
 * the old descriptor would be lost.
 */
int
pw_pool_fault(const char *name, const char *path, int *needed)
{
	spa_t *spa;
	uint64_t guid = 0;
	int error = spa_open(name, &spa, FTAG);
	if (error != 0)
		return (error);
	spa_vdev_state_enter(spa, SCL_NONE);
	vdev_t *vd = leaf_at(spa->spa_root_vdev, path);
	if (vd == NULL)
		vd = aux_at(&spa->spa_l2cache, path);
	if (vd == NULL)
		vd = aux_at(&spa->spa_spares, path);
	if (vd != NULL) {
		guid = vd->vdev_guid;
		*needed = vd->vdev_aux == NULL && vdev_dtl_required(vd);
	}
	(void) spa_vdev_state_exit(spa, NULL, 0);
	if (vd == NULL)
		error = ENODEV;
	else if (!*needed)
		error = vdev_fault(spa, guid, VDEV_AUX_EXTERNAL);
	spa_close(spa, FTAG);
	return (error);
}
