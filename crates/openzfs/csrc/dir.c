/* SPDX-License-Identifier: CDDL-1.0 */
/* Directories: looking up names, listing them, and making nodes in them. */

#include <sys/stat.h>
#include <sys/u8_textprep.h>
#include <sys/zfs_context.h>
#include <sys/zfs_znode.h>

#include "internal.h"

int
pw_dir_check_name(pw_dataset_t *ds, const char *name)
{
	size_t len = strlen(name);
	int error;
	if (len == 0 || strchr(name, '/') != NULL)
		return (EINVAL);
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return (EEXIST);
	if (len >= ZAP_MAXNAMELEN)
		return (ENAMETOOLONG);
	if (ds->utf8only && u8_validate(name, len, NULL, U8_VALIDATE_ENTIRE, &error) < 0)
		return (EILSEQ);
	return (0);
}

int
pw_dir_find(pw_node_t *dir, const char *name, uint64_t *object)
{
	pw_dataset_t *ds = dir->ds;
	uint64_t entry;
	int error;

	if (strlen(name) >= ZAP_MAXNAMELEN)
		return (ENAMETOOLONG);
	if (ds->normalization != 0)
		error = zap_lookup_norm(ds->os, dir->object, name, 8, 1, &entry, MT_NORMALIZE, NULL, 0, NULL);
	else
		error = zap_lookup(ds->os, dir->object, name, 8, 1, &entry);
	if (error == 0)
		*object = ZFS_DIRENT_OBJ(entry);
	return (error);
}

int
pw_dir_lookup(pw_node_t *dir, const char *name, pw_node_t **out)
{
	uint64_t object = dir->object;
	int error = 0;

	if (!pw_node_is_dir(dir))
		return (ENOTDIR);
	if (dir->unlinked)
		return (ENOENT);
	if (strcmp(name, "..") == 0)
		error = sa_lookup(dir->sa, dir->ds->attr[ZPL_PARENT], &object, sizeof (object));
	else if (strcmp(name, ".") != 0)
		error = pw_dir_find(dir, name, &object);
	if (error == 0)
		error = pw_node_get(dir->ds, object, out);
	/* Another thread removed the node after the lookup, so its name is gone too. */
	return (error == ESTALE ? ENOENT : error);
}

/*
 * A directory's size is its number of entries, including "." and ".."; its link count is that of its subdirectories.
 */
static int
count_entry(pw_node_t *dir, int by, int subdirectory, dmu_tx_t *tx)
{
	sa_attr_type_t *attr = dir->ds->attr;
	sa_bulk_attr_t bulk[5];
	uint64_t now[2];
	int n = 0;

	pw_now(now);
	mutex_enter(&dir->lock);
	dir->size += by;
	if (subdirectory)
		dir->links += by;
	dir->flags |= ZFS_AV_MODIFIED;
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_SIZE], NULL, &dir->size, 8);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_LINKS], NULL, &dir->links, 8);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_MTIME], NULL, now, 16);
	int error = pw_attr_update(dir, bulk, n, now, tx);
	if (error != 0) {
		dir->size -= by;
		if (subdirectory)
			dir->links -= by;
	}
	mutex_exit(&dir->lock);
	return (error);
}

static int
remove_entry(pw_node_t *dir, const char *name, dmu_tx_t *tx)
{
	objset_t *os = dir->ds->os;
	return (dir->ds->normalization != 0 ? zap_remove_norm(os, dir->object, name, MT_NORMALIZE, tx) :
	    zap_remove(os, dir->object, name, tx));
}

/*
 * If this function or the next one fails, the directory is unchanged. If undoing the change fails too, VERIFY0 ends
 * the process before the transaction commits.
 */
int
pw_dir_enter(pw_node_t *dir, const char *name, uint64_t object, uint64_t mode, dmu_tx_t *tx)
{
	uint64_t entry = object | (uint64_t)IFTODT(mode) << 60;
	int error = zap_add(dir->ds->os, dir->object, name, 8, 1, &entry, tx);
	if (error == 0 && (error = count_entry(dir, 1, S_ISDIR(mode), tx)) != 0)
		VERIFY0(remove_entry(dir, name, tx));
	return (error);
}

int
pw_dir_leave(pw_node_t *dir, const char *name, const pw_node_t *node, dmu_tx_t *tx)
{
	uint64_t entry = node->object | (uint64_t)IFTODT(node->mode) << 60;
	int error = remove_entry(dir, name, tx);
	if (error == 0 && (error = count_entry(dir, -1, S_ISDIR(node->mode), tx)) != 0)
		VERIFY0(zap_add(dir->ds->os, dir->object, name, 8, 1, &entry, tx));
	return (error);
}

/* ---- making ---- */

void
pw_dir_hold_create(dmu_tx_t *tx, pw_node_t *dir, const char *name, const pw_made_t *made)
{
	int target = made->target != NULL ? (int)strlen(made->target) : 0;
	dmu_tx_hold_sa_create(tx, PW_BASE_ATTR_BYTES + PW_ACES * PW_ACE_BYTES + 16 + target);
	if (name != NULL) {
		dmu_tx_hold_zap(tx, dir->object, B_TRUE, name);
		dmu_tx_hold_sa(tx, dir->sa, B_FALSE);
	} else {
		dmu_tx_hold_zap(tx, dir->ds->delete_queue, B_TRUE, NULL);
	}
	if (S_ISDIR(made->mode))
		dmu_tx_hold_zap(tx, DMU_NEW_OBJECT, B_TRUE, NULL);
	if (target != 0)
		dmu_tx_hold_write(tx, DMU_NEW_OBJECT, 0, target);
}

static int
allocate(pw_dataset_t *ds, pw_made_t *made, dmu_tx_t *tx)
{
	int size = (int)made->dnode_size, bonus = DN_BONUS_SIZE(size);
	int claim = made->object != 0;

	if (S_ISDIR(made->mode)) {
		if (claim)
			return (zap_create_claim_norm_dnsize(ds->os, made->object, (int)ds->normalization,
			    DMU_OT_DIRECTORY_CONTENTS, DMU_OT_SA, bonus, size, tx));
		made->object = zap_create_norm_dnsize(ds->os, (int)ds->normalization, DMU_OT_DIRECTORY_CONTENTS,
		    DMU_OT_SA, bonus, size, tx);
		return (0);
	}
	if (claim)
		return (dmu_object_claim_dnsize(ds->os, made->object, DMU_OT_PLAIN_FILE_CONTENTS, 0, DMU_OT_SA, bonus,
		    size, tx));
	made->object = dmu_object_alloc_dnsize(ds->os, DMU_OT_PLAIN_FILE_CONTENTS, 0, DMU_OT_SA, bonus, size, tx);
	return (0);
}

/* Makes a node. A replayed record provides number, generation and time. */
int
pw_dir_create_object(pw_node_t *dir, pw_made_t *made, dmu_tx_t *tx)
{
	made->parent = dir->object;
	if (made->dnode_size == 0)
		made->dnode_size = DNODE_MIN_SIZE;
	if (made->object == 0) {
		made->gen = dmu_tx_get_txg(tx);
		pw_now(made->crtime);
	}
	int error = allocate(dir->ds, made, tx);
	if (error == 0 && (error = pw_layout_make(dir->ds->os, dir->ds->attr, made, tx)) != 0)
		VERIFY0(dmu_object_free(dir->ds->os, made->object, tx));
	return (error);
}

int
pw_dir_make_as(pw_node_t *dir, const char *name, pw_made_t *made)
{
	pw_dataset_t *ds = dir->ds;
	uint64_t there;
	int error = 0;

	mutex_enter(&dir->names);
	if (dir->unlinked)
		error = ENOENT;
	else if (name != NULL && (error = pw_dir_find(dir, name, &there)) == 0)
		error = EEXIST;
	else if (error == ENOENT)
		error = 0;
	if (error != 0) {
		mutex_exit(&dir->names);
		return (error);
	}
	dmu_tx_t *tx = dmu_tx_create(ds->os);
	pw_dir_hold_create(tx, dir, name, made);
	if ((error = dmu_tx_assign(tx, DMU_TX_WAIT)) != 0) {
		dmu_tx_abort(tx);
		mutex_exit(&dir->names);
		return (error);
	}
	error = pw_dir_create_object(dir, made, tx);
	if (error == 0) {
		error = name != NULL ? pw_dir_enter(dir, name, made->object, made->mode, tx) :
		    zap_add_int(ds->os, ds->delete_queue, made->object, tx);
		if (error != 0)
			(void) dmu_object_free(ds->os, made->object, tx);
	}
	if (error == 0 && name != NULL)
		pw_log_create(dir, tx, name, made);
	dmu_tx_commit(tx);
	mutex_exit(&dir->names);
	return (error);
}

/*
 * A set-group-id directory passes on its group, and to directories also the bit; a directory with a project passes on
 * its project.
 */
static void
inherit(pw_node_t *dir, const pw_new_t *new, pw_made_t *made)
{
	sa_attr_type_t *attr = dir->ds->attr;
	*made = (pw_made_t) {
		.mode = new->mode, .uid = new->uid, .gid = new->gid, .rdev = new->rdev, .target = new->target,
		.dnode_size = dmu_objset_dnodesize(dir->ds->os),
	};
	/* Another thread may be adding or removing an entry, which changes the flags. */
	mutex_enter(&dir->lock);
	if (dir->mode & S_ISGID) {
		(void) sa_lookup(dir->sa, attr[ZPL_GID], &made->gid, sizeof (made->gid));
		if (S_ISDIR(made->mode))
			made->mode |= S_ISGID;
	}
	if (dir->flags & ZFS_PROJINHERIT && (S_ISDIR(made->mode) || S_ISREG(made->mode))) {
		made->flags |= ZFS_PROJINHERIT;
		(void) sa_lookup(dir->sa, attr[ZPL_PROJID], &made->projid, sizeof (made->projid));
	}
	made->flags |= dir->flags & ZFS_XATTR;
	mutex_exit(&dir->lock);
}

static int
make(pw_node_t *dir, const char *name, const pw_new_t *new, pw_node_t **out)
{
	pw_made_t made;
	int error = dir->ds->readonly ? EROFS : !pw_node_is_dir(dir) ? ENOTDIR : 0;
	if (error == 0 && name != NULL)
		error = pw_dir_check_name(dir->ds, name);
	if (error == 0 && S_ISLNK(new->mode) && (new->target == NULL || strlen(new->target) == 0))
		error = ENOENT;
	if (error == 0 && new->target != NULL && strlen(new->target) >= MAXPATHLEN)
		error = ENAMETOOLONG;
	if (error != 0)
		return (error);
	inherit(dir, new, &made);
	made.unnamed = name == NULL;
	if ((error = pw_dir_make_as(dir, name, &made)) != 0)
		return (error);
	(void) pw_log_settle(dir->ds, 0, 0, 0);
	error = pw_node_get(dir->ds, made.object, out);
	if (error == 0 && name == NULL)
		(*out)->linkable = 1;
	return (error);
}

int
pw_dir_make(pw_node_t *dir, const char *name, const pw_new_t *new, pw_node_t **out)
{
	return (make(dir, name, new, out));
}

int
pw_dir_make_unnamed(pw_node_t *dir, const pw_new_t *new, pw_node_t **out)
{
	return (S_ISREG(new->mode) ? make(dir, NULL, new, out) : EINVAL);
}

/* ---- listing ---- */

/* Positions: 0 and 1 are "." and "..", 2 is the first entry, and higher ones are cursors of the ZAP. */
enum { AT_SELF = 0, AT_PARENT = 1, AT_FIRST = 2 };

int
pw_dir_read(pw_node_t *dir, uint64_t from, pw_entry_cb *each, void *arg)
{
	pw_dataset_t *ds = dir->ds;
	zap_cursor_t cursor;
	uint64_t parent;
	int error;

	if (!pw_node_is_dir(dir))
		return (ENOTDIR);
	if (dir->unlinked)
		return (0);
	if (from == AT_SELF && each(".", dir->object, DT_DIR, AT_PARENT, arg) != 0)
		return (0);
	if (from <= AT_PARENT) {
		if ((error = sa_lookup(dir->sa, ds->attr[ZPL_PARENT], &parent, sizeof (parent))) != 0)
			return (error);
		if (each("..", parent, DT_DIR, AT_FIRST, arg) != 0)
			return (0);
	}
	if (from <= AT_FIRST)
		zap_cursor_init(&cursor, ds->os, dir->object);
	else
		zap_cursor_init_serialized(&cursor, ds->os, dir->object, from);
	zap_attribute_t *entry = zap_attribute_alloc();
	while ((error = zap_cursor_retrieve(&cursor, entry)) == 0) {
		uint64_t value = entry->za_first_integer;
		zap_cursor_advance(&cursor);
		if (each(entry->za_name, ZFS_DIRENT_OBJ(value), (uint32_t)ZFS_DIRENT_TYPE(value),
		    zap_cursor_serialize(&cursor), arg) != 0)
			break;
	}
	zap_cursor_fini(&cursor);
	zap_attribute_free(entry);
	return (error == ENOENT ? 0 : error);
}
