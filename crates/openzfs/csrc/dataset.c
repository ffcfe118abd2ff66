/* SPDX-License-Identifier: CDDL-1.0 */
/* Datasets: create, open with log replay, properties, snapshots, space. */

#include <sys/zfs_context.h>
#include <sys/spa.h>
#include <sys/spa_impl.h>
#include <sys/zap.h>
#include <sys/dsl_dataset.h>
#include <sys/dsl_destroy.h>
#include <sys/dsl_dir.h>
#include <sys/dsl_pool.h>
#include <sys/dsl_prop.h>
#include <sys/u8_textprep.h>
#include <sys/zfs_znode.h>
#include <zfs_prop.h>

#include "internal.h"

static void
format_new(objset_t *os, void *arg, cred_t *cr, dmu_tx_t *tx)
{
	(void) arg;
	(void) cr;
	VERIFY0(pw_layout_format(os, tx));
}

/*
 * Owning a dataset without complete space accounting starts a task that completes it. A kernel cancels the task when
 * the dataset is disowned. Taskqs in user space cannot cancel a task, and its hold would outlive the dataset, so wait
 * for it.
 */
void
pw_objset_disown(objset_t *os, const void *tag)
{
	if (os->os_spa->spa_upgrade_taskq != NULL)
		taskq_wait(os->os_spa->spa_upgrade_taskq);
	dmu_objset_disown(os, B_TRUE, tag);
}

int
pw_dataset_create(const char *name)
{
	return (dmu_objset_create(name, DMU_OST_ZFS, 0, NULL, format_new, NULL));
}

int
pw_dataset_destroy(const char *name)
{
	return (dsl_destroy_head(name));
}

int
pw_dataset_snapshot(const char *const *names, size_t n, size_t *failed)
{
	nvlist_t *wanted = fnvlist_alloc(), *errors = fnvlist_alloc();
	for (size_t i = 0; i < n; i++)
		fnvlist_add_boolean(wanted, names[i]);
	int error = dsl_dataset_snapshot(wanted, NULL, errors);
	for (*failed = 0; error != 0 && *failed + 1 < n && !nvlist_exists(errors, names[*failed]); )
		(*failed)++;
	fnvlist_free(wanted);
	fnvlist_free(errors);
	return (error);
}

int
pw_snapshot_destroy(const char *full_name)
{
	return (dsl_destroy_snapshot(full_name, B_FALSE));
}

int
pw_dataset_latest(const char *name, char *out, size_t len)
{
	dsl_pool_t *dp;
	dsl_dataset_t *ds, *latest;

	int error = dsl_pool_hold(name, FTAG, &dp);
	if (error != 0)
		return (error);
	if ((error = dsl_dataset_hold(dp, name, FTAG, &ds)) == 0) {
		uint64_t object = dsl_dataset_phys(ds)->ds_prev_snap_obj;
		/*
		 * The latest snapshot of a clone without snapshots of its own is its origin, which belongs to another
		 * dataset.
		 */
		error = object == 0 ? ENOENT : dsl_dataset_hold_obj(dp, object, FTAG, &latest);
		if (error == 0) {
			char full[ZFS_MAX_DATASET_NAME_LEN];
			if (latest->ds_dir != ds->ds_dir)
				error = ENOENT;
			dsl_dataset_name(latest, full);
			(void) strlcpy(out, full, len);
			dsl_dataset_rele(latest, FTAG);
		}
		dsl_dataset_rele(ds, FTAG);
	}
	dsl_pool_rele(dp, FTAG);
	return (error);
}

int
pw_dataset_rollback(const char *name, const char *snapshot)
{
	nvlist_t *result = fnvlist_alloc();
	int error = dsl_dataset_rollback(name, snapshot, NULL, result);
	fnvlist_free(result);
	return (error);
}

int
pw_dataset_clone(const char *name, const char *origin)
{
#ifdef PW_HAS_DSL_DATASET_CLONE
	return (dsl_dataset_clone(name, origin));
#else
	return (dmu_objset_clone(name, origin));
#endif
}

int
pw_dataset_origin(const char *name, char *out, size_t len)
{
	dsl_pool_t *dp;
	dsl_dataset_t *ds, *origin;
	char full[ZFS_MAX_DATASET_NAME_LEN];

	int error = dsl_pool_hold(name, FTAG, &dp);
	if (error != 0)
		return (error);
	if ((error = dsl_dataset_hold(dp, name, FTAG, &ds)) == 0) {
		if (!dsl_dir_is_clone(ds->ds_dir)) {
			error = ENOENT;
		} else if ((error = dsl_dataset_hold_obj(dp, dsl_dir_phys(ds->ds_dir)->dd_origin_obj, FTAG, &origin)) == 0) {
			dsl_dataset_name(origin, full);
			(void) strlcpy(out, full, len);
			dsl_dataset_rele(origin, FTAG);
		}
		dsl_dataset_rele(ds, FTAG);
	}
	dsl_pool_rele(dp, FTAG);
	return (error);
}

int
pw_dataset_promote(const char *name, char *conflict)
{
	return (dsl_dataset_promote(name, conflict));
}

/* ---- properties ---- */

static int
find_property(const char *property, zfs_prop_t *prop)
{
	*prop = zfs_name_to_prop(property);
	return (*prop == ZPROP_INVAL || zfs_prop_readonly(*prop) ? ENOENT : 0);
}

/* The rules that `zfs set` checks itself, because the library does not. */
static int
check_value(const char *name, zfs_prop_t prop, uint64_t value)
{
	if (prop == ZFS_PROP_RECORDSIZE) {
		spa_t *spa;
		int error = spa_open(name, &spa, FTAG);
		if (error != 0)
			return (error);
		uint64_t most = MIN(spa_maxblocksize(spa), zfs_max_recordsize);
		spa_close(spa, FTAG);
		if (value < SPA_MINBLOCKSIZE || value > most || !ISP2(value))
			return (EINVAL);
	}
	if (prop == ZFS_PROP_COPIES && (value < 1 || value > 3))
		return (EINVAL);
	return (0);
}

int
pw_dataset_set(const char *name, const char *property, const char *value)
{
	zfs_prop_t prop;
	uint64_t number;
	char *end;
	int error = find_property(property, &prop);

	if (error != 0)
		return (error);
	if (zfs_prop_get_type(prop) == PROP_TYPE_STRING)
		return (dsl_prop_set_string(name, property, ZPROP_SRC_LOCAL, value));
	if (zfs_prop_get_type(prop) == PROP_TYPE_INDEX) {
		if (zfs_prop_string_to_index(prop, value, &number) != 0)
			return (EINVAL);
	} else {
		errno = 0;
		number = strtoull(value, &end, 10);
		if (errno != 0 || end == value || *end != '\0')
			return (EINVAL);
	}
	if ((error = check_value(name, prop, number)) != 0)
		return (error);
	if (prop == ZFS_PROP_QUOTA)
		return (dsl_dir_set_quota(name, ZPROP_SRC_LOCAL, number));
	if (prop == ZFS_PROP_REFQUOTA)
		return (dsl_dataset_set_refquota(name, ZPROP_SRC_LOCAL, number));
	return (dsl_prop_set_int(name, zfs_prop_to_name(prop), ZPROP_SRC_LOCAL, number));
}

int
pw_dataset_inherit(const char *name, const char *property)
{
	zfs_prop_t prop;
	int error = find_property(property, &prop);

	if (error != 0)
		return (error);
	if (!zfs_prop_inheritable(prop))
		return (EINVAL);
	return (dsl_prop_inherit(name, zfs_prop_to_name(prop), ZPROP_SRC_INHERITED));
}

int
pw_dataset_get(const char *name, const char *property, char *value, size_t len, char *source)
{
	zfs_prop_t prop = zfs_name_to_prop(property);
	_Static_assert(PW_NAME_BYTES >= ZFS_MAX_DATASET_NAME_LEN, "");
	uint64_t number;
	const char *text;

	if (prop == ZPROP_INVAL)
		return (ENOENT);
	if (zfs_prop_get_type(prop) == PROP_TYPE_STRING)
		return (dsl_prop_get(name, property, 1, (int)len, value, source));
	int error = dsl_prop_get_integer(name, zfs_prop_to_name(prop), &number, source);
	if (error != 0)
		return (error);
	if (zfs_prop_get_type(prop) == PROP_TYPE_INDEX && zfs_prop_index_to_string(prop, number, &text) == 0)
		(void) snprintf(value, len, "%s", text);
	else
		(void) snprintf(value, len, "%llu", (u_longlong_t)number);
	return (0);
}

/* ---- listing ---- */

typedef struct { void (*each)(const char *name, void *arg); void *arg; } list_arg_t;

static int
list_one(const char *name, void *arg)
{
	list_arg_t *l = arg;
	l->each(name, l->arg);
	return (0);
}

int
pw_dataset_list(const char *root, void (*each)(const char *name, void *arg), void *arg)
{
	list_arg_t l = { each, arg };
	return (dmu_objset_find(root, list_one, &l, DS_FIND_CHILDREN | DS_FIND_SNAPSHOTS));
}

/* ---- open and close ---- */

/* Values of casesensitivity on disk. */
enum { CASE_INSENSITIVE = 1, CASE_MIXED = 2 };

static int
read_master_node(pw_dataset_t *ds)
{
	uint64_t version, registry, fold = 0, utf8only = 0;
	int error = zap_lookup(ds->os, MASTER_NODE_OBJ, ZPL_VERSION_STR, 8, 1, &version);
	if (error != 0)
		return (error);
	(void) zap_lookup(ds->os, MASTER_NODE_OBJ, "casesensitivity", 8, 1, &fold);
	(void) zap_lookup(ds->os, MASTER_NODE_OBJ, "normalization", 8, 1, &ds->normalization);
	(void) zap_lookup(ds->os, MASTER_NODE_OBJ, "utf8only", 8, 1, &utf8only);
	ds->utf8only = utf8only != 0;
	if (fold == CASE_INSENSITIVE)
		ds->normalization |= U8_TEXTPREP_TOUPPER;
	/* Mixed sensitivity is for SMB servers: each of their lookups states which sensitivity it wants. */
	if (version != ZPL_VERSION || fold == CASE_MIXED)
		return (ENOTSUP);
	if ((error = zap_lookup(ds->os, MASTER_NODE_OBJ, ZFS_SA_ATTRS, 8, 1, &registry)) != 0 ||
	    (error = zap_lookup(ds->os, MASTER_NODE_OBJ, ZFS_UNLINKED_SET, 8, 1, &ds->delete_queue)) != 0 ||
	    (error = zap_lookup(ds->os, MASTER_NODE_OBJ, ZFS_ROOT_OBJ, 8, 1, &ds->root)) != 0)
		return (error);
	return (sa_setup(ds->os, registry, zfs_attr_table, ZPL_END, &ds->attr));
}

/*
 * The delete queue is drained before the log is replayed, because no record of the log refers to an object in the
 * queue.
 */
static int
start_log(pw_dataset_t *ds)
{
	int error = pw_log_check(ds);
	if (error != 0)
		return (error);
	ds->zilog = zil_open(ds->os, pw_log_get_data, &ds->sums);
	error = pw_node_drain_queue(ds);
	if (error == 0)
		error = pw_log_replay(ds);
	if (error != 0) {
		/* Not zil_close(), which would start a new log instead of keeping the existing one. */
		ds->zilog->zl_get_data = NULL;
		ds->zilog = NULL;
	}
	return (error);
}

static void
let_go(pw_dataset_t *ds)
{
	if (ds->zilog != NULL)
		zil_close(ds->zilog);	/* writes the rest of the log, and looks up nodes while it does */
	if (ds->volume != NULL)
		pw_volume_release(ds);
	else
		pw_nodes_fini(ds);
	if (!ds->readonly)
		txg_wait_synced(dmu_objset_pool(ds->os), 0);
	dmu_objset_evict_dbufs(ds->os);
	pw_objset_disown(ds->os, ds);
	mutex_destroy(&ds->renames);
	zil_sums_fini(&ds->sums);
	umem_free(ds, sizeof (*ds));
}

void
pw_dataset_init(pw_dataset_t *ds)
{
	mutex_init(&ds->renames, NULL, MUTEX_DEFAULT, NULL);
	zil_sums_init(&ds->sums);
}

int
pw_dataset_open(const char *name, int how, pw_dataset_t **out, pw_log_trouble_t *trouble)
{
	pw_dataset_t *ds = umem_zalloc(sizeof (*ds), UMEM_NOFAIL);
	(void) strlcpy(ds->name, name, sizeof (ds->name));
	memset(trouble, 0, sizeof (*trouble));
	ds->trouble = trouble;
	ds->readonly = (how & PW_OPEN_READONLY) || strchr(name, '@') != NULL;
	ds->ignore_acls = (how & PW_OPEN_IGNORE_ACLS) != 0;
	int error = dmu_objset_own(name, DMU_OST_ZFS, ds->readonly ? B_TRUE : B_FALSE, B_TRUE, ds, &ds->os);
	if (error != 0) {
		umem_free(ds, sizeof (*ds));
		return (error);
	}
	ds->readonly |= !spa_writeable(ds->os->os_spa);
	pw_dataset_init(ds);
	pw_nodes_init(ds);
	error = read_master_node(ds);
	if (error == 0 && !ds->readonly)
		error = start_log(ds);
	ds->trouble = NULL;
	if (error != 0) {
		let_go(ds);
		return (error);
	}
	*out = ds;
	return (0);
}

uint64_t
pw_dataset_log_pending(pw_dataset_t *ds)
{
	return (ds->readonly && !dmu_objset_is_snapshot(ds->os) ? pw_log_pending(ds) : 0);
}

void
pw_dataset_close(pw_dataset_t *ds)
{
	let_go(ds);
}

int
pw_dataset_commit(pw_dataset_t *ds)
{
	if (!ds->readonly && ds->os->os_sync != ZFS_SYNC_DISABLED)
		zil_commit(ds->zilog, 0);
	return (0);
}

int
pw_dataset_space(pw_dataset_t *ds, pw_space_t *out)
{
	dmu_objset_space(ds->os, &out->referenced, &out->available, &out->objects_used, &out->objects_free);
	return (0);
}

int
pw_dataset_replayed(pw_dataset_t *ds, uint64_t *records)
{
	*records = ds->replayed;
	return (0);
}

/* ---- figures ---- */

int
pw_dataset_stats(pw_dataset_t *ds, pw_dataset_stats_t *out)
{
	dsl_dataset_t *dd = dmu_objset_ds(ds->os);
	dsl_pool_t *dp = dmu_objset_pool(ds->os);
	dsl_pool_config_enter(dp, FTAG);
	*out = (pw_dataset_stats_t) {
		.used = dsl_get_used(dd),
		.referenced = dsl_get_referenced(dd),
		.logicalused = dsl_dir_get_logicalused(dd->ds_dir),
		.logicalreferenced = dsl_get_logicalreferenced(dd),
		.compressratio_x100 = dsl_get_compressratio(dd),
		.refcompressratio_x100 = dsl_get_refratio(dd),
	};
	dsl_pool_config_exit(dp, FTAG);
	return (0);
}

#define	SUM(name)	wmsum_value(&ds->sums.zil_##name)

void
pw_dataset_zil_stats(pw_dataset_t *ds, pw_zil_stats_t *out)
{
	*out = (pw_zil_stats_t) {
		.commits = SUM(commit_count),
		.itxs = SUM(itx_count),
		.indirect_count = SUM(itx_indirect_count),
		.indirect_bytes = SUM(itx_indirect_bytes),
		.copied_count = SUM(itx_copied_count),
		.copied_bytes = SUM(itx_copied_bytes),
		.needcopy_count = SUM(itx_needcopy_count),
		.needcopy_bytes = SUM(itx_needcopy_bytes),
		.normal_bytes = SUM(itx_metaslab_normal_bytes),
		.normal_write = SUM(itx_metaslab_normal_write),
		.normal_alloc = SUM(itx_metaslab_normal_alloc),
		.slog_bytes = SUM(itx_metaslab_slog_bytes),
		.slog_write = SUM(itx_metaslab_slog_write),
		.slog_alloc = SUM(itx_metaslab_slog_alloc),
	};
}
