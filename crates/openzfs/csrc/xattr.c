/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Extended attributes. New ones are written to the node's attribute area as a packed list (xattr=sa). Existing ones
 * are also read from the directory of files that xattr=dir makes.
 */

#include <sys/stat.h>
#include <sys/zfs_context.h>
#include <sys/spa.h>
#include <sys/dsl_pool.h>
#include <sys/txg.h>
#include <sys/zfeature.h>
#include <sys/zfs_znode.h>

#include "internal.h"

/*
 * The kernel's limits for the attribute area: a single value, and the packed list before another attribute is added.
 */
enum { VALUE_MAX = 32768, LIST_MAX = SPA_OLD_MAXBLOCKSIZE >> 1, AREA_MAX = 65535 };
enum { SET_CREATE = 1, SET_REPLACE = 2 };

/* Reads the list into the node. Called with node->lock held. */
static int
load_list(pw_node_t *node)
{
	int size, error;
	if (node->xattrs != NULL)
		return (0);
	error = sa_size(node->sa, node->ds->attr[ZPL_DXATTR], &size);
	if (error == ENOENT)
		return (nvlist_alloc(&node->xattrs, NV_UNIQUE_NAME, KM_SLEEP));
	if (error != 0)
		return (error);
	char *packed = umem_alloc(size, UMEM_NOFAIL);
	error = sa_lookup(node->sa, node->ds->attr[ZPL_DXATTR], packed, (uint32_t)size);
	if (error == 0)
		error = nvlist_unpack(packed, size, &node->xattrs, KM_SLEEP);
	umem_free(packed, size);
	return (error);
}

static int
open_dir(pw_node_t *node, pw_node_t **dir)
{
	uint64_t object;
	int error = sa_lookup(node->sa, node->ds->attr[ZPL_XATTR], &object, sizeof (object));
	if (error == 0 && object == 0)
		error = ENOENT;
	return (error != 0 ? error : pw_node_get(node->ds, object, dir));
}

static int
get_from_dir(pw_node_t *node, const char *name, void *out, size_t room, size_t *len)
{
	pw_node_t *dir, *file;
	uint64_t done;
	int error = open_dir(node, &dir);
	if (error != 0)
		return (ENODATA);
	error = pw_dir_lookup(dir, name, &file);
	pw_node_release(dir);
	if (error != 0)
		return (ENODATA);
	*len = file->size;
	error = room == 0 ? 0 : *len > room ? ERANGE : pw_file_read(file, 0, out, *len, 0, &done);
	pw_node_release(file);
	return (error);
}

int
pw_xattr_get(pw_node_t *node, const char *name, void *out, size_t room, size_t *len)
{
	uchar_t *value;
	uint_t n;

	mutex_enter(&node->lock);
	int error = load_list(node);
	if (error == 0)
		error = nvlist_lookup_byte_array(node->xattrs, name, &value, &n);
	if (error == 0) {
		*len = n;
		if (room != 0 && n > room)
			error = ERANGE;
		else if (room != 0)
			memcpy(out, value, n);
	}
	mutex_exit(&node->lock);
	return (error == ENOENT ? get_from_dir(node, name, out, room, len) : error);
}

typedef struct { char *out; size_t room, len; } names_t;

static void
add_name(names_t *names, const char *name)
{
	size_t n = strlen(name) + 1;
	if (names->len + n <= names->room)
		memcpy(names->out + names->len, name, n);
	names->len += n;
}

static int
name_in_dir(const char *name, uint64_t object, uint32_t type, uint64_t next, void *arg)
{
	(void) object; (void) type; (void) next;
	if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
		add_name(arg, name);
	return (0);
}

int
pw_xattr_list(pw_node_t *node, char *out, size_t room, size_t *len)
{
	names_t names = { out, room, 0 };
	pw_node_t *dir;

	mutex_enter(&node->lock);
	int error = load_list(node);
	if (error == 0) {
		for (nvpair_t *pair = nvlist_next_nvpair(node->xattrs, NULL); pair != NULL;
		    pair = nvlist_next_nvpair(node->xattrs, pair))
			add_name(&names, nvpair_name(pair));
	}
	mutex_exit(&node->lock);
	if (error == 0 && open_dir(node, &dir) == 0) {
		error = pw_dir_read(dir, 0, name_in_dir, &names);
		pw_node_release(dir);
	}
	*len = names.len;
	return (error != 0 ? error : room != 0 && names.len > room ? ERANGE : 0);
}

/* ---- changing ---- */

/* Replaces the list with the changed one. node->lock is taken only inside the transaction. */
static int
store_list(pw_node_t *node, const char *name, const void *value, size_t len, nvlist_t *list)
{
	pw_dataset_t *ds = node->ds;
	sa_bulk_attr_t bulk[2];
	uint64_t now[2];
	size_t size = 0;
	char *packed = NULL;
	int n = 0;

	int error = nvlist_size(list, &size, NV_ENCODE_XDR);
	if (error != 0 || size > AREA_MAX)
		return (error != 0 ? error : ENOSPC);
	if ((error = nvlist_pack(list, &packed, &size, NV_ENCODE_XDR, KM_SLEEP)) != 0)
		return (error);
	dmu_tx_t *tx = dmu_tx_create(ds->os);
	dmu_tx_hold_sa_create(tx, (int)size);
	dmu_tx_hold_sa(tx, node->sa, B_TRUE);
	if ((error = dmu_tx_assign(tx, DMU_TX_WAIT)) != 0) {
		dmu_tx_abort(tx);
	} else {
		pw_now(now);
		mutex_enter(&node->lock);
		SA_ADD_BULK_ATTR(bulk, n, ds->attr[ZPL_DXATTR], NULL, packed, (uint16_t)size);
		SA_ADD_BULK_ATTR(bulk, n, ds->attr[ZPL_CTIME], NULL, now, 16);
		error = sa_bulk_update(node->sa, bulk, n, tx);
		if (error == 0) {
			nvlist_free(node->xattrs);
			node->xattrs = list;
		}
		mutex_exit(&node->lock);
		if (error == 0)
			pw_log_xattr(node, tx, name, value, len);
		dmu_tx_commit(tx);
	}
	fnvlist_pack_free(packed, size);
	return (error);
}

/* Changes a copy of the list. The node's names lock serialises changes; files do not use it otherwise. */
static int
change(pw_node_t *node, const char *name, const void *value, size_t len)
{
	nvlist_t *list = NULL;
	size_t size;

	mutex_enter(&node->lock);
	int error = load_list(node);
	if (error == 0)
		error = nvlist_dup(node->xattrs, &list, KM_SLEEP);
	mutex_exit(&node->lock);
	if (error != 0)
		return (error);
	if (value == NULL)
		error = nvlist_remove(list, name, DATA_TYPE_BYTE_ARRAY);
	else if (len > VALUE_MAX)
		error = E2BIG;
	else if ((error = nvlist_size(list, &size, NV_ENCODE_XDR)) == 0)
		error = size > LIST_MAX ? ENOSPC : nvlist_add_byte_array(list, name, (uchar_t *)value, (uint_t)len);
	if (error == 0)
		error = store_list(node, name, value, len, list);
	if (error != 0)
		nvlist_free(list);
	return (error);
}

/* An attribute that a kernel made with xattr=dir is a file. */
static int
remove_from_dir(pw_node_t *node, const char *name)
{
	pw_node_t *dir;
	uint64_t gone;
	int error = open_dir(node, &dir);
	if (error != 0)
		return (ENODATA);
	error = pw_name_remove(dir, name, 0, &gone);
	pw_node_release(dir);
	return (error == ENOENT ? ENODATA : error);
}

int
pw_xattr_set(pw_node_t *node, const char *name, const void *value, size_t len, uint32_t flags)
{
	size_t there;
	if (node->ds->readonly)
		return (EROFS);
	mutex_enter(&node->names);
	int error = pw_xattr_get(node, name, NULL, 0, &there);
	if (error == 0 && flags & SET_CREATE)
		error = EEXIST;
	else if (error == ENODATA && !(flags & SET_REPLACE))
		error = 0;
	if (error == 0)
		error = change(node, name, value != NULL ? value : "", len);
	if (error == 0)
		(void) remove_from_dir(node, name);
	mutex_exit(&node->names);
	if (error == 0 && len == 0 && node->ds->os->os_sync != ZFS_SYNC_DISABLED)
		txg_wait_synced(dmu_objset_pool(node->ds->os), 0);	/* the log cannot express an empty value */
	return (pw_log_settle(node->ds, node->object, error, 0));
}

int
pw_xattr_remove(pw_node_t *node, const char *name)
{
	if (node->ds->readonly)
		return (EROFS);
	mutex_enter(&node->names);
	int error = change(node, name, NULL, 0);
	if (error == ENOENT)
		error = remove_from_dir(node, name);
	mutex_exit(&node->names);
	return (pw_log_settle(node->ds, node->object, error, 0));
}
