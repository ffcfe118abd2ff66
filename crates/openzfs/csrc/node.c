/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Nodes as the ZPL lays them out on disk: master node, attribute registry, delete queue, directory, file. A dataset
 * made here has one directory, its root; the layout is the one a kernel mounts.
 */

#include <sys/stat.h>
#include <sys/zfs_context.h>
#include <sys/zap.h>
#include <sys/sa.h>
#include <sys/sa_impl.h>
#include <sys/zfs_znode.h>

#include "internal.h"

/* Where the accounting reads an attribute area: fixed offsets behind the SA header. */
enum { AREA_GEN = 16, AREA_UID = 24, AREA_GID = 32, AREA_FLAGS = 48, AREA_PROJID = 128 };

/* Owner, group and project of a node, for the space accounting that the library does itself. */
static int
accounting(dmu_object_type_t bonus, const void *data, zfs_file_info_t *info)
{
	if (bonus != DMU_OT_SA && bonus != DMU_OT_ZNODE)
		return (ENOENT);
	info->zfi_project = 0;
	if (data == NULL)
		return (EEXIST);
	if (bonus == DMU_OT_ZNODE)
		return (ENOTSUP);	/* ZPL below version 5: refused when a dataset is opened */

	const sa_hdr_phys_t *header = data;
	if (header->sa_magic == 0) {
		info->zfi_user = info->zfi_group = info->zfi_generation = 0;
		return (0);
	}
	const char *area = (const char *)data + SA_HDR_SIZE(header);
	info->zfi_generation = *(const uint64_t *)(area + AREA_GEN);
	info->zfi_user = *(const uint64_t *)(area + AREA_UID);
	info->zfi_group = *(const uint64_t *)(area + AREA_GID);
	if (*(const uint64_t *)(area + AREA_FLAGS) & ZFS_PROJID)
		info->zfi_project = *(const uint64_t *)(area + AREA_PROJID);
	return (0);
}

void
pw_node_register_type(void)
{
	dmu_objset_register_type(DMU_OST_ZFS, accounting);
}

void
pw_node_now(uint64_t time[2])
{
	struct timespec now;
	(void) clock_gettime(CLOCK_REALTIME, &now);
	time[0] = now.tv_sec;
	time[1] = now.tv_nsec;
}

/* The six entries that say what the mode's bits say: owner, owner, group's denials, then owner@, group@, everyone@. */
typedef struct { uint16_t type, flags; uint32_t mask; } ace_t_min;

static uint32_t
mask_of(uint64_t bits, int dir)
{
	uint32_t mask = 0;
	if (bits & 4)
		mask |= ACE_READ_DATA;
	if (bits & 2)
		mask |= ACE_WRITE_DATA | ACE_APPEND_DATA | (dir ? ACE_DELETE_CHILD : 0);
	if (bits & 1)
		mask |= ACE_EXECUTE;
	return (mask);
}

static uint64_t
trivial_acl(uint64_t mode, ace_t_min *aces)
{
	int dir = S_ISDIR(mode);
	uint64_t u = (mode >> 6) & 7, g = (mode >> 3) & 7, o = mode & 7;
	uint64_t n = 0;
	uint64_t deny_owner = ~u & (g | o) & 7, deny_group = ~g & o & 7, allow_first = u & ~g & o & 7;
	uint32_t always = ACE_READ_ACL | ACE_READ_ATTRIBUTES | ACE_READ_NAMED_ATTRS | ACE_SYNCHRONIZE;
	uint32_t owners = always | ACE_WRITE_ACL | ACE_WRITE_OWNER | ACE_WRITE_ATTRIBUTES | ACE_WRITE_NAMED_ATTRS;

	if (allow_first)
		aces[n++] = (ace_t_min) { ACE_ACCESS_ALLOWED_ACE_TYPE, ACE_OWNER, mask_of(allow_first, dir) };
	if (deny_owner)
		aces[n++] = (ace_t_min) { ACE_ACCESS_DENIED_ACE_TYPE, ACE_OWNER, mask_of(deny_owner, dir) };
	if (deny_group)
		aces[n++] = (ace_t_min) { ACE_ACCESS_DENIED_ACE_TYPE, ACE_GROUP | ACE_IDENTIFIER_GROUP,
		    mask_of(deny_group, dir) };
	aces[n++] = (ace_t_min) { ACE_ACCESS_ALLOWED_ACE_TYPE, ACE_OWNER, mask_of(u, dir) | owners };
	aces[n++] = (ace_t_min) { ACE_ACCESS_ALLOWED_ACE_TYPE, ACE_GROUP | ACE_IDENTIFIER_GROUP, mask_of(g, dir) | always };
	aces[n++] = (ace_t_min) { ACE_ACCESS_ALLOWED_ACE_TYPE, ACE_EVERYONE, mask_of(o, dir) | always };
	return (n);
}

int
pw_node_init(objset_t *os, sa_attr_type_t *attr, uint64_t object, uint64_t parent, uint64_t mode, uint64_t uid,
    uint64_t gid, uint64_t gen, const uint64_t crtime[2], dmu_tx_t *tx)
{
	sa_handle_t *sa;
	sa_bulk_attr_t bulk[ZPL_END];
	int n = 0, dir = S_ISDIR(mode);
	ace_t_min aces[6];
	uint64_t size = dir ? 2 : 0, links = dir ? 2 : 1, count = trivial_acl(mode, aces);
	uint64_t flags = ZFS_ARCHIVE | ZFS_AV_MODIFIED | ZFS_ACL_TRIVIAL;
	uint64_t time[2] = { crtime[0], crtime[1] };

	if (dir)
		flags |= ZFS_ACL_AUTO_INHERIT;
	if ((mode & 0111) == 0111)
		flags |= ZFS_NO_EXECS_DENIED;

	int error = sa_handle_get(os, object, NULL, SA_HDL_PRIVATE, &sa);
	if (error != 0)
		return (error);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_MODE], NULL, &mode, 8);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_SIZE], NULL, &size, 8);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_GEN], NULL, &gen, 8);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_UID], NULL, &uid, 8);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_GID], NULL, &gid, 8);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_PARENT], NULL, &parent, 8);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_FLAGS], NULL, &flags, 8);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_ATIME], NULL, time, 16);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_MTIME], NULL, time, 16);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_CTIME], NULL, time, 16);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_CRTIME], NULL, time, 16);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_LINKS], NULL, &links, 8);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_DACL_COUNT], NULL, &count, 8);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_DACL_ACES], NULL, aces, (uint16_t)(count * sizeof (aces[0])));
	error = sa_replace_all_by_template(sa, bulk, n, tx);
	sa_handle_destroy(sa);
	return (error);
}

int
pw_node_format(objset_t *os, dmu_tx_t *tx)
{
	const struct { const char *name; uint64_t value; } fixed[] = {
		{ "normalization", 0 }, { "utf8only", 0 }, { "casesensitivity", 0 }, { ZPL_VERSION_STR, ZPL_VERSION },
	};
	sa_attr_type_t *attr;
	uint64_t now[2];

	VERIFY0(zap_create_claim(os, MASTER_NODE_OBJ, DMU_OT_MASTER_NODE, DMU_OT_NONE, 0, tx));
	for (size_t i = 0; i < sizeof (fixed) / sizeof (fixed[0]); i++)
		VERIFY0(zap_update(os, MASTER_NODE_OBJ, fixed[i].name, 8, 1, &fixed[i].value, tx));
	uint64_t registry = zap_create(os, DMU_OT_SA_MASTER_NODE, DMU_OT_NONE, 0, tx);
	VERIFY0(zap_add(os, MASTER_NODE_OBJ, ZFS_SA_ATTRS, 8, 1, &registry, tx));
	uint64_t queue = zap_create(os, DMU_OT_UNLINKED_SET, DMU_OT_NONE, 0, tx);
	VERIFY0(zap_add(os, MASTER_NODE_OBJ, ZFS_UNLINKED_SET, 8, 1, &queue, tx));
	int error = sa_setup(os, registry, zfs_attr_table, ZPL_END, &attr);
	if (error != 0)
		return (error);
	uint64_t root = zap_create_norm(os, 0, DMU_OT_DIRECTORY_CONTENTS, DMU_OT_SA, DN_BONUS_SIZE(DNODE_MIN_SIZE), tx);
	pw_node_now(now);
	error = pw_node_init(os, attr, root, root, S_IFDIR | 0755, getuid(), getgid(), dmu_tx_get_txg(tx), now, tx);
	if (error != 0)
		return (error);
	return (zap_add(os, MASTER_NODE_OBJ, ZFS_ROOT_OBJ, 8, 1, &root, tx));
}

int
pw_node_lookup(pw_dataset_t *ds, const char *name, uint64_t *object)
{
	uint64_t entry;
	int error = zap_lookup(ds->os, ds->root, name, 8, 1, &entry);
	if (error == 0)
		*object = ZFS_DIRENT_OBJ(entry);
	return (error);
}

/* The directory's size is its number of entries, 2 of them implied. */
static int
touch_directory(pw_dataset_t *ds, int by, dmu_tx_t *tx)
{
	sa_handle_t *sa;
	sa_bulk_attr_t bulk[3];
	uint64_t size, now[2];
	int n = 0;

	int error = sa_handle_get(ds->os, ds->root, NULL, SA_HDL_PRIVATE, &sa);
	if (error != 0)
		return (error);
	error = sa_lookup(sa, ds->attr[ZPL_SIZE], &size, sizeof (size));
	if (error == 0) {
		size += by;
		pw_node_now(now);
		SA_ADD_BULK_ATTR(bulk, n, ds->attr[ZPL_SIZE], NULL, &size, 8);
		SA_ADD_BULK_ATTR(bulk, n, ds->attr[ZPL_MTIME], NULL, now, 16);
		SA_ADD_BULK_ATTR(bulk, n, ds->attr[ZPL_CTIME], NULL, now, 16);
		error = sa_bulk_update(sa, bulk, n, tx);
	}
	sa_handle_destroy(sa);
	return (error);
}

int
pw_node_enter(pw_dataset_t *ds, const char *name, uint64_t object, dmu_tx_t *tx)
{
	uint64_t entry = object;
	BF64_SET(entry, 60, 4, IFTODT(S_IFREG));
	int error = zap_add(ds->os, ds->root, name, 8, 1, &entry, tx);
	return (error != 0 ? error : touch_directory(ds, 1, tx));
}

int
pw_node_leave(pw_dataset_t *ds, const char *name, dmu_tx_t *tx)
{
	int error = zap_remove(ds->os, ds->root, name, tx);
	return (error != 0 ? error : touch_directory(ds, -1, tx));
}

/* ---- open nodes ---- */

static int
load(pw_dataset_t *ds, uint64_t object, pw_node_t *node)
{
	dmu_object_info_t info;
	int error = dmu_object_info(ds->os, object, &info);
	if (error != 0)
		return (error);
	if (info.doi_bonus_type != DMU_OT_SA || info.doi_type != DMU_OT_PLAIN_FILE_CONTENTS)
		return (EINVAL);
	if ((error = dnode_hold(ds->os, object, node, &node->dn)) != 0)
		return (error);
	if ((error = sa_handle_get(ds->os, object, NULL, SA_HDL_PRIVATE, &node->sa)) == 0) {
		error = sa_lookup(node->sa, ds->attr[ZPL_SIZE], &node->size, 8);
		if (error == 0)
			error = sa_lookup(node->sa, ds->attr[ZPL_GEN], &node->gen, 8);
		if (error != 0)
			sa_handle_destroy(node->sa);
	}
	if (error != 0)
		dnode_rele(node->dn, node);
	return (error);
}

int
pw_node_get(pw_dataset_t *ds, uint64_t object, pw_node_t **out)
{
	pw_node_t key = { .object = object };
	int error = 0;

	mutex_enter(&ds->lock);
	pw_node_t *node = avl_find(&ds->nodes, &key, NULL);
	if (node == NULL) {
		node = umem_zalloc(sizeof (*node), UMEM_NOFAIL);
		node->ds = ds;
		node->object = object;
		if ((error = load(ds, object, node)) != 0) {
			umem_free(node, sizeof (*node));
			mutex_exit(&ds->lock);
			return (error);
		}
		zfs_rangelock_init(&node->range, NULL, NULL);
		avl_add(&ds->nodes, node);
	}
	node->refs++;
	mutex_exit(&ds->lock);
	*out = node;
	return (error);
}

/* Frees an unlinked object and takes it off the delete queue; left there by an error, the next open retries. */
static int
free_object(pw_dataset_t *ds, uint64_t object)
{
	int error = dmu_free_long_range(ds->os, object, 0, DMU_OBJECT_END);
	if (error != 0)
		return (error);
	dmu_tx_t *tx = dmu_tx_create(ds->os);
	dmu_tx_hold_free(tx, object, 0, DMU_OBJECT_END);
	dmu_tx_hold_zap(tx, ds->delete_queue, B_FALSE, NULL);
	if ((error = dmu_tx_assign(tx, DMU_TX_WAIT)) != 0) {
		dmu_tx_abort(tx);
		return (error);
	}
	error = zap_remove_int(ds->os, ds->delete_queue, object, tx);
	if (error == 0)
		error = dmu_object_free(ds->os, object, tx);
	dmu_tx_commit(tx);
	return (error);
}

void
pw_node_release(pw_node_t *node)
{
	pw_dataset_t *ds = node->ds;
	mutex_enter(&ds->lock);
	if (--node->refs != 0) {
		mutex_exit(&ds->lock);
		return;
	}
	avl_remove(&ds->nodes, node);
	sa_handle_destroy(node->sa);
	dnode_rele(node->dn, node);
	mutex_exit(&ds->lock);
	if (node->unlinked && !ds->readonly)
		(void) free_object(ds, node->object);
	zfs_rangelock_fini(&node->range);
	umem_free(node, sizeof (*node));
}

int
pw_node_drain_queue(pw_dataset_t *ds)
{
	zap_cursor_t cursor;
	zap_attribute_t *entry = zap_attribute_alloc();
	uint64_t *objects = NULL;
	size_t n = 0;

	for (zap_cursor_init(&cursor, ds->os, ds->delete_queue); zap_cursor_retrieve(&cursor, entry) == 0;
	    zap_cursor_advance(&cursor)) {
		objects = realloc(objects, (n + 1) * sizeof (objects[0]));
		objects[n++] = entry->za_first_integer;
	}
	zap_cursor_fini(&cursor);
	zap_attribute_free(entry);
	int error = 0;
	for (size_t i = 0; i < n && error == 0; i++)
		error = free_object(ds, objects[i]);
	free(objects);
	return (error);
}
