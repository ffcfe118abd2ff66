/* SPDX-License-Identifier: CDDL-1.0 */
/* The vdevs of a pool: their configuration, and adding, attaching, detaching, removing and replacing them. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>
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

static nvlist_t *
file_vdev(const char *path, uint32_t ashift)
{
	nvlist_t *nv = fnvlist_alloc();
	fnvlist_add_string(nv, ZPOOL_CONFIG_TYPE, VDEV_TYPE_FILE);
	fnvlist_add_string(nv, ZPOOL_CONFIG_PATH, path);
	if (ashift != 0)
		fnvlist_add_uint64(nv, ZPOOL_CONFIG_ASHIFT, ashift);
	return (nv);
}

/* Builds a mirror or raidz of a group's files. */
static nvlist_t *
grouped_vdev(const pw_vdev_group_t *g, uint32_t ashift)
{
	nvlist_t *nv = fnvlist_alloc();
	nvlist_t **children = calloc(g->npaths, sizeof (nvlist_t *));
	for (size_t i = 0; i < g->npaths; i++)
		children[i] = file_vdev(g->paths[i], ashift);
	fnvlist_add_string(nv, ZPOOL_CONFIG_TYPE, g->layout == PW_MIRROR ? VDEV_TYPE_MIRROR : VDEV_TYPE_RAIDZ);
	if (g->layout == PW_RAIDZ)
		fnvlist_add_uint64(nv, ZPOOL_CONFIG_NPARITY, g->parity);
	fnvlist_add_nvlist_array(nv, ZPOOL_CONFIG_CHILDREN, (const nvlist_t **)children, g->npaths);
	for (size_t i = 0; i < g->npaths; i++)
		fnvlist_free(children[i]);
	free(children);
	return (nv);
}

static void
add_top(nvlist_t **list, uint_t *n, nvlist_t *top, int use)
{
	if (use == PW_LOG) {
		fnvlist_add_uint64(top, ZPOOL_CONFIG_IS_LOG, 1);
		fnvlist_add_string(top, ZPOOL_CONFIG_ALLOCATION_BIAS, VDEV_ALLOC_BIAS_LOG);
	}
	list[(*n)++] = top;
}

static void
free_list(nvlist_t **list, uint_t n)
{
	for (uint_t i = 0; i < n; i++)
		fnvlist_free(list[i]);
	free(list);
}

nvlist_t *
pw_root_vdev(const pw_vdev_group_t *groups, size_t ngroups, uint32_t ashift)
{
	size_t most = 0;
	for (size_t i = 0; i < ngroups; i++)
		most += groups[i].npaths;
	nvlist_t **tops = calloc(most, sizeof (nvlist_t *));
	nvlist_t **cache = calloc(most, sizeof (nvlist_t *));
	nvlist_t **spares = calloc(most, sizeof (nvlist_t *));
	uint_t ntops = 0, ncache = 0, nspares = 0;

	for (size_t i = 0; i < ngroups; i++) {
		const pw_vdev_group_t *g = &groups[i];
		if (g->use != PW_CACHE && g->use != PW_SPARE_VDEV && g->layout != PW_STRIPE) {
			add_top(tops, &ntops, grouped_vdev(g, ashift), g->use);
			continue;
		}
		for (size_t j = 0; j < g->npaths; j++) {
			nvlist_t *nv = file_vdev(g->paths[j], ashift);
			if (g->use == PW_CACHE)
				cache[ncache++] = nv;
			else if (g->use == PW_SPARE_VDEV)
				spares[nspares++] = nv;
			else
				add_top(tops, &ntops, nv, g->use);
		}
	}

	nvlist_t *root = fnvlist_alloc();
	fnvlist_add_string(root, ZPOOL_CONFIG_TYPE, VDEV_TYPE_ROOT);
	fnvlist_add_nvlist_array(root, ZPOOL_CONFIG_CHILDREN, (const nvlist_t **)tops, ntops);
	if (ncache != 0)
		fnvlist_add_nvlist_array(root, ZPOOL_CONFIG_L2CACHE, (const nvlist_t **)cache, ncache);
	if (nspares != 0)
		fnvlist_add_nvlist_array(root, ZPOOL_CONFIG_SPARES, (const nvlist_t **)spares, nspares);
	free_list(tops, ntops);
	free_list(cache, ncache);
	free_list(spares, nspares);
	return (root);
}

/* ---- changes of an imported pool ---- */

/* New vdevs get the largest sector size of the pool's vdevs, as those of `zpool add` do by default. */
int
pw_pool_add(const char *name, const pw_vdev_group_t *groups, size_t ngroups)
{
	spa_t *spa;
	int error = spa_open(name, &spa, FTAG);
	if (error != 0)
		return (error);
	nvlist_t *root = pw_root_vdev(groups, ngroups, spa->spa_max_ashift);
	error = spa_vdev_add(spa, root, B_FALSE);
	fnvlist_free(root);
	spa_close(spa, FTAG);
	return (error);
}

int
pw_pool_attach(const char *name, uint64_t guid, const char *path, int replacing)
{
	spa_t *spa;
	uint32_t ashift = 0;
	int error = spa_open(name, &spa, FTAG);
	if (error != 0)
		return (error);
	spa_config_enter(spa, SCL_CONFIG, FTAG, RW_READER);
	vdev_t *vd = spa_lookup_by_guid(spa, guid, B_FALSE);
	if (vd != NULL)
		ashift = vd->vdev_top->vdev_ashift;
	spa_config_exit(spa, SCL_CONFIG, FTAG);
	const pw_vdev_group_t group = { .layout = PW_STRIPE, .use = PW_DATA, .npaths = 1, .paths = &path };
	nvlist_t *root = pw_root_vdev(&group, 1, ashift);
	error = spa_vdev_attach(spa, guid, root, replacing, B_FALSE);
	fnvlist_free(root);
	spa_close(spa, FTAG);
	return (error);
}

int
pw_pool_detach(const char *name, uint64_t guid)
{
	spa_t *spa;
	int error = spa_open(name, &spa, FTAG);
	if (error != 0)
		return (error);
	error = spa_vdev_detach(spa, guid, 0, B_FALSE);
	spa_close(spa, FTAG);
	return (error);
}

typedef struct removal {
	spa_t *spa;
	atomic_int ended;
} removal_t;

/* The removal of a log waits for a transaction group for each dataset, which otherwise begins only after zfs_txg_timeout. */
static void *
begin_txgs(void *arg)
{
	removal_t *removal = arg;
	while (!atomic_load(&removal->ended)) {
		txg_wait_open(spa_get_dsl(removal->spa), 0, B_TRUE);
		(void) usleep(10000);
	}
	return (NULL);
}

int
pw_pool_remove(const char *name, uint64_t guid)
{
	spa_t *spa;
	int error = spa_open(name, &spa, FTAG);
	if (error != 0)
		return (error);
	/* The library would begin to move the data of a data vdev. */
	spa_config_enter(spa, SCL_CONFIG, FTAG, RW_READER);
	const vdev_t *vd = spa_lookup_by_guid(spa, guid, B_TRUE);
	const int removable = vd != NULL && (vd->vdev_aux != NULL || (vd->vdev_islog && vd == vd->vdev_top));
	spa_config_exit(spa, SCL_CONFIG, FTAG);
	removal_t removal = { .spa = spa };
	pthread_t thread;
	if (!removable)
		error = ENOTSUP;
	else if ((error = pthread_create(&thread, NULL, begin_txgs, &removal)) == 0) {
		error = spa_vdev_remove(spa, guid, B_FALSE);
		atomic_store(&removal.ended, 1);
		(void) pthread_join(thread, NULL);
	}
	spa_close(spa, FTAG);
	return (error == EEXIST ? EIO : error);	/* EEXIST: a log could not be written to the pool */
}

/* Whether the library has still to start a resilver, or to finish one: it does both in a background thread. */
static int
is_resilver_pending(spa_t *spa)
{
	mutex_enter(&spa->spa_async_lock);
	int pending = (spa->spa_async_tasks & (SPA_ASYNC_RESILVER | SPA_ASYNC_RESILVER_DONE)) != 0 ||
	    spa->spa_async_thread != NULL;
	mutex_exit(&spa->spa_async_lock);
	return (pending || spa_get_dsl(spa)->dp_scan->scn_restart_txg != 0);
}

/* A scan runs in the pool's own transaction groups, which start without delay while a scan is active. */
int
pw_pool_resilver_step(const char *name, int *running)
{
	spa_t *spa;
	int error = spa_open(name, &spa, FTAG);
	if (error != 0)
		return (error);
	txg_wait_synced(spa_get_dsl(spa), 0);
	*running = is_resilver_pending(spa) || dsl_scan_resilvering(spa_get_dsl(spa)) ||
	    dsl_scan_resilver_scheduled(spa_get_dsl(spa));
	spa_close(spa, FTAG);
	return (0);
}

/* ---- the leaves ---- */

static int
is_type(const vdev_t *vd, const char *type)
{
	return (strcmp(vd->vdev_ops->vdev_op_type, type) == 0);
}

static int
substitution(const vdev_t *vd)
{
	return (is_type(vd, VDEV_TYPE_REPLACING) ? PW_REPLACING : is_type(vd, VDEV_TYPE_SPARE) ? PW_SPARE : 0);
}

static int
is_any_replaced(const vdev_t *vd)
{
	int found = is_type(vd, VDEV_TYPE_REPLACING);
	for (uint64_t i = 0; i < vd->vdev_children && !found; i++)
		found = is_any_replaced(vd->vdev_child[i]);
	return (found);
}

static int
is_detaching(spa_t *spa)
{
	mutex_enter(&spa->spa_async_lock);
	int detaching = (spa->spa_async_tasks & SPA_ASYNC_RESILVER_DONE) != 0 || spa->spa_async_thread != NULL;
	mutex_exit(&spa->spa_async_lock);
	return (detaching);
}

void
pw_vdev_finish_replacements(spa_t *spa)
{
	spa_config_enter(spa, SCL_VDEV, FTAG, RW_READER);
	int replaced = is_any_replaced(spa->spa_root_vdev);
	spa_config_exit(spa, SCL_VDEV, FTAG);
	if (!replaced)
		return;
	spa_async_request(spa, SPA_ASYNC_RESILVER_DONE);
	/* The library starts the thread that detaches them after a transaction group. */
	while (is_detaching(spa))
		txg_wait_synced(spa_get_dsl(spa), 0);
}

/* The size of a file that is not open is that of the smallest other file of its mirror or raidz. */
static uint64_t
size_of(const vdev_t *vd, uint64_t least)
{
	const vdev_t *parent = vd->vdev_parent;
	uint64_t size = vd->vdev_psize;
	if (size == 0 && parent != NULL && parent->vdev_parent != NULL) {
		for (uint64_t i = 0; i < parent->vdev_children; i++) {
			uint64_t other = parent->vdev_child[i]->vdev_psize;
			if (other != 0 && (size == 0 || other < size))
				size = other;
		}
	}
	return (MAX(size, least));
}

static void
tell_leaf(vdev_t *vd, int use, pw_leaf_cb *each, void *arg)
{
	vdev_t *top = vd->vdev_aux == NULL ? vd->vdev_top : vd, *parent = vd->vdev_parent;
	if (vd->vdev_path == NULL || top == NULL)
		return;		/* a hole, or a vdev whose configuration is missing */
	pw_leaf_t leaf = {
		.guid = vd->vdev_guid, .top = top->vdev_guid, .use = use, .layout = PW_STRIPE, .children = 1,
		.least = vd->vdev_min_asize + VDEV_LABEL_START_SIZE + VDEV_LABEL_END_SIZE,
		.substitution = parent == NULL ? 0 : substitution(parent),
		.spare = vd->vdev_isspare || vd->vdev_aux == &vd->vdev_spa->spa_spares, .readable = vdev_readable(vd),
	};
	leaf.size = size_of(vd, leaf.least);
	if (is_type(top, VDEV_TYPE_MIRROR)) {
		leaf.layout = PW_MIRROR;
		leaf.children = top->vdev_children;
	} else if (!top->vdev_ops->vdev_op_leaf && !substitution(top)) {
		leaf.layout = PW_RAIDZ;
		leaf.parity = vdev_get_nparity(top);
		leaf.children = top->vdev_children;
	}
	each(&leaf, vd->vdev_path, arg);
}

static void
tell_leaves(vdev_t *vd, pw_leaf_cb *each, void *arg)
{
	if (vd->vdev_ops->vdev_op_leaf) {
		const vdev_t *top = vd->vdev_top;
		int use = top == NULL || top->vdev_alloc_bias == VDEV_BIAS_NONE ? PW_DATA : PW_OTHER;
		tell_leaf(vd, top != NULL && top->vdev_islog ? PW_LOG : use, each, arg);
	}
	for (uint64_t i = 0; i < vd->vdev_children; i++)
		tell_leaves(vd->vdev_child[i], each, arg);
}

int
pw_pool_leaves(const char *name, pw_leaf_cb *each, void *arg)
{
	spa_t *spa;
	int error = spa_open(name, &spa, FTAG);
	if (error != 0)
		return (error);
	spa_config_enter(spa, SCL_CONFIG, FTAG, RW_READER);
	tell_leaves(spa->spa_root_vdev, each, arg);
	for (int i = 0; i < spa->spa_spares.sav_count; i++)
		tell_leaf(spa->spa_spares.sav_vdevs[i], PW_SPARE_VDEV, each, arg);
	for (int i = 0; i < spa->spa_l2cache.sav_count; i++)
		tell_leaf(spa->spa_l2cache.sav_vdevs[i], PW_CACHE, each, arg);
	spa_config_exit(spa, SCL_CONFIG, FTAG);
	spa_close(spa, FTAG);
	return (0);
}
