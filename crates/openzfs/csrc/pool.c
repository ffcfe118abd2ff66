/* SPDX-License-Identifier: CDDL-1.0 */
/* Pools on files: create, import, export, space. */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/zfs_context.h>
#include <sys/spa.h>
#include <sys/spa_impl.h>
#include <sys/brt.h>
#include <sys/dsl_pool.h>
#include <sys/fs/zfs.h>
#include <sys/txg.h>
#include <sys/metaslab.h>
#include <sys/vdev_impl.h>
#include <sys/zfeature.h>
#include <zfeature_common.h>
#include <libzutil.h>

#include "engine.h"
#include "internal.h"

static int
format_root_dataset(const char *name)
{
	objset_t *os;
	int error = dmu_objset_own(name, DMU_OST_ZFS, B_FALSE, B_TRUE, FTAG, &os);
	if (error != 0)
		return (error);
	dmu_tx_t *tx = dmu_tx_create(os);
	dmu_tx_hold_bonus(tx, DMU_NEW_OBJECT);
	for (int i = 0; i < 6; i++)
		dmu_tx_hold_zap(tx, DMU_NEW_OBJECT, B_TRUE, NULL);
	error = dmu_tx_assign(tx, DMU_TX_WAIT);
	if (error != 0) {
		dmu_tx_abort(tx);
	} else {
		error = pw_layout_format(os, tx);
		dmu_tx_commit(tx);
	}
	pw_objset_disown(os, FTAG);
	return (error);
}

int
pw_pool_create(const char *name, const pw_vdev_group_t *groups, size_t ngroups, uint32_t ashift)
{
	nvlist_t *root = pw_root_vdev(groups, ngroups, ashift);
	nvlist_t *props = fnvlist_alloc();
	char feature[MAXPATHLEN];

	for (int i = 0; i < SPA_FEATURES; i++) {
		(void) snprintf(feature, sizeof (feature), "feature@%s", spa_feature_table[i].fi_uname);
		fnvlist_add_uint64(props, feature, 0);
	}
	int error = spa_create(name, root, props, NULL, NULL);
	fnvlist_free(props);
	fnvlist_free(root);
	if (error == 0)
		error = format_root_dataset(name);
	return (error);
}

int
pw_pool_label(const char *path, pw_label_t *out)
{
	nvlist_t *label = NULL;
	nvlist_t *top;
	const char *text;
	uint64_t state = POOL_STATE_EXPORTED, id;
	int labels = 0, fd = open64(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	memset(out, 0, sizeof (*out));
	if (fd < 0)
		return (errno);
	int error = zpool_read_label(fd, &label, &labels);
	(void) close(fd);
	if (error != 0 || label == NULL)
		return (ENOENT);
	if (nvlist_lookup_string(label, ZPOOL_CONFIG_POOL_NAME, &text) == 0)
		(void) strlcpy(out->pool, text, sizeof (out->pool));
	if (nvlist_lookup_string(label, ZPOOL_CONFIG_HOSTNAME, &text) == 0)
		(void) strlcpy(out->host, text, sizeof (out->host));
	(void) nvlist_lookup_uint64(label, ZPOOL_CONFIG_POOL_GUID, &out->guid);
	(void) nvlist_lookup_uint64(label, ZPOOL_CONFIG_POOL_STATE, &state);
	(void) nvlist_lookup_uint64(label, ZPOOL_CONFIG_VDEV_CHILDREN, &out->tops);
	if (nvlist_lookup_nvlist(label, ZPOOL_CONFIG_VDEV_TREE, &top) == 0 &&
	    nvlist_lookup_uint64(top, ZPOOL_CONFIG_ID, &id) == 0)
		out->tops = MAX(out->tops, id);
	out->active = state == POOL_STATE_ACTIVE;
	nvlist_free(label);
	return (0);
}

/* A spare or cache vdev takes some hundred bytes in its list. */
enum { AUX_LIST_MAX = 16 << 20 };

/* Returns a list of spares or cache vdevs in the MOS, or NULL if there is none or it is malformed. */
static nvlist_t *
aux_list(spa_t *spa, uint64_t object)
{
	uint64_t size;
	nvlist_t *list = NULL;
	dmu_buf_t *db;

	if (object == 0 || dmu_bonus_hold(spa->spa_meta_objset, object, FTAG, &db) != 0)
		return (NULL);
	size = db->db_size < sizeof (size) ? 0 : *(uint64_t *)db->db_data;
	dmu_buf_rele(db, FTAG);
	if (size == 0 || size > AUX_LIST_MAX)
		return (NULL);
	char *packed = umem_alloc(size, UMEM_NOFAIL);
	if (dmu_read(spa->spa_meta_objset, object, 0, size, packed, DMU_READ_PREFETCH) != 0 ||
	    nvlist_unpack(packed, size, &list, 0) != 0)
		list = NULL;
	umem_free(packed, size);
	return (list);
}

/* The files may have been moved since. Their labels identify the vdevs. */
static void
find_aux_files(nvlist_t **vdevs, uint_t n, const char *const *paths, size_t npaths)
{
	nvlist_t *label;
	int labels, fd;
	uint64_t guid;

	for (size_t i = 0; i < npaths; i++) {
		label = NULL;
		if ((fd = open64(paths[i], O_RDONLY | O_CLOEXEC)) < 0)
			continue;
		if (zpool_read_label(fd, &label, &labels) == 0 && label != NULL &&
		    nvlist_lookup_uint64(label, ZPOOL_CONFIG_GUID, &guid) == 0) {
			for (uint_t v = 0; v < n; v++) {
				if (fnvlist_lookup_uint64(vdevs[v], ZPOOL_CONFIG_GUID) == guid)
					fnvlist_add_string(vdevs[v], ZPOOL_CONFIG_PATH, paths[i]);
			}
		}
		nvlist_free(label);
		(void) close(fd);
	}
}

typedef struct aux {
	const char *config;		/* the name of the list */
	void (*load)(spa_t *spa);
} aux_t;

/* Returns whether there is a list that was not loaded yet. */
static int
load_aux(spa_t *spa, spa_aux_vdev_t *sav, const aux_t *aux, const char *const *paths, size_t npaths)
{
	nvlist_t *list, **vdevs;
	uint_t n = 0;

	if (sav->sav_count != 0 || (list = aux_list(spa, sav->sav_object)) == NULL)
		return (0);
	if (nvlist_lookup_nvlist_array(list, aux->config, &vdevs, &n) != 0 || n == 0) {
		fnvlist_free(list);
		return (0);
	}
	find_aux_files(vdevs, n, paths, npaths);
	spa_config_enter(spa, SCL_ALL, FTAG, RW_WRITER);
	sav->sav_config = list;
	aux->load(spa);
	spa_config_exit(spa, SCL_ALL, FTAG);
	sav->sav_sync = B_TRUE;
	return (1);
}

/*
 * A kernel's import takes the spares and cache vdevs from the configuration that `zpool` passes. In user space, that
 * configuration comes from a read-only import, in which the library omits them, and the import itself drops those
 * that it has loaded. So they are read from the pool itself after the import. The labels of spares are not written
 * (sav_label_sync), because that would make the label of a spare in use one of an available spare.
 */
static void
add_aux_vdevs(spa_t *spa, const char *const *paths, size_t npaths)
{
	static const aux_t spares = { ZPOOL_CONFIG_SPARES, spa_load_spares };
	static const aux_t cache = { ZPOOL_CONFIG_L2CACHE, spa_load_l2cache };

	(void) load_aux(spa, &spa->spa_spares, &spares, paths, npaths);
	if (load_aux(spa, &spa->spa_l2cache, &cache, paths, npaths))
		spa_async_request(spa, SPA_ASYNC_L2CACHE_REBUILD);
}

static void
complete_import(const char *name, const char *const *paths, size_t npaths)
{
	spa_t *spa;

	if (spa_open(name, &spa, FTAG) != 0)
		return;
	if (spa_writeable(spa)) {
		add_aux_vdevs(spa, paths, npaths);
		pw_vdev_finish_replacements(spa);
	}
	spa_close(spa, FTAG);
}

int
pw_pool_import(const char *name, const char *const *paths, size_t npaths, int readonly)
{
	libpc_handle_t handle = { .lpc_ops = &libzpool_config_ops };
	importargs_t args = { .path = (char **)paths, .paths = npaths, .can_be_active = B_TRUE, .scan = B_TRUE };
	nvlist_t *config = NULL, *props = fnvlist_alloc();

	int error = zpool_find_config(&handle, name, &config, &args);
	if (error != 0) {
		fnvlist_free(props);
		return (error == ENOENT || error == EINVAL ? ENOENT : error);
	}
	if (readonly)
		fnvlist_add_uint64(props, zpool_prop_to_name(ZPOOL_PROP_READONLY), 1);
	error = spa_import((char *)name, config, props, ZFS_IMPORT_NORMAL);
	fnvlist_free(config);
	fnvlist_free(props);
	if (error == 0)
		complete_import(name, paths, npaths);
	return (error);
}

static void
wait_for_closed_datasets(const char *name)
{
	spa_t *spa;

	/*
	 * A closed dataset releases its remaining holds in the background. An export waits for that only if the pool
	 * is writable.
	 */
	if (spa_open(name, &spa, FTAG) == 0) {
		if (!spa_writeable(spa))
			spa_evicting_os_wait(spa);
		spa_close(spa, FTAG);
	}
}

int
pw_pool_export(const char *name)
{
	pw_fault_settle();
	wait_for_closed_datasets(name);
	return (spa_export(name, NULL, B_FALSE, B_FALSE));
}

int
pw_pool_destroy(const char *name)
{
	pw_fault_settle();
	wait_for_closed_datasets(name);
	return (spa_destroy(name));
}

int
pw_pool_sync(const char *name)
{
	spa_t *spa;
	int error = spa_open(name, &spa, FTAG);
	if (error == 0) {
		txg_wait_synced(spa_get_dsl(spa), 0);
		spa_close(spa, FTAG);
	}
	return (error);
}

int
pw_pool_kick(const char *name)
{
	spa_t *spa;
	int error = spa_open(name, &spa, FTAG);
	if (error == 0) {
		txg_wait_open(spa_get_dsl(spa), 0, B_TRUE);
		spa_close(spa, FTAG);
	}
	return (error);
}

/* Errors are counted at the leaf vdevs, which are the files. */
static void
add_errors(vdev_t *vd, uint64_t *reads, uint64_t *writes, uint64_t *checksums)
{
	if (vd->vdev_ops->vdev_op_leaf) {
		*reads += vd->vdev_stat.vs_read_errors;
		*writes += vd->vdev_stat.vs_write_errors;
		*checksums += vd->vdev_stat.vs_checksum_errors;
	}
	for (uint64_t i = 0; i < vd->vdev_children; i++)
		add_errors(vd->vdev_child[i], reads, writes, checksums);
}

int
pw_pool_stats(const char *name, pw_pool_stats_t *out)
{
	spa_t *spa;
	vdev_stat_t vs;
	int error = spa_open(name, &spa, FTAG);
	if (error != 0)
		return (error);
	spa_config_enter(spa, SCL_CONFIG, FTAG, RW_READER);
	vdev_get_stats(spa->spa_root_vdev, &vs);
	uint64_t reads = 0, writes = 0, checksums = 0;
	add_errors(spa->spa_root_vdev, &reads, &writes, &checksums);
	spa_config_exit(spa, SCL_CONFIG, FTAG);
	uint64_t allocated = metaslab_class_get_alloc(spa_normal_class(spa)) +
	    metaslab_class_get_alloc(spa_log_class(spa));
	*out = (pw_pool_stats_t) {
		.size = vs.vs_space, .allocated = allocated, .free = vs.vs_space - vs.vs_alloc,
		.txg = spa_last_synced_txg(spa), .read_errors = reads, .write_errors = writes,
		.checksum_errors = checksums, .gcd_alloc = spa->spa_gcd_alloc, .min_alloc = spa->spa_min_alloc,
		.bclone_used = brt_get_used(spa), .bclone_saved = brt_get_saved(spa),
		.state = spa_suspended(spa) ? 1 : 0,
	};
	spa_close(spa, FTAG);
	return (0);
}
