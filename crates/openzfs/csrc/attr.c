/* SPDX-License-Identifier: CDDL-1.0 */
/* Attributes of nodes: reading them, changing them, and the times that other changes update. */

#include <sys/stat.h>
#include <sys/zfs_context.h>
#include <sys/zfs_znode.h>

#include "internal.h"

int
pw_node_attr(pw_node_t *node, pw_attr_t *out)
{
	sa_attr_type_t *attr = node->ds->attr;
	sa_bulk_attr_t bulk[7];
	uint32_t block_size;
	u_longlong_t blocks;
	int n = 0;

	memset(out, 0, sizeof (*out));
	out->object = node->object;
	out->gen = node->gen;
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_UID], NULL, &out->uid, 8);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_GID], NULL, &out->gid, 8);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_PARENT], NULL, &out->parent, 8);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_ATIME], NULL, out->atime, 16);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_MTIME], NULL, out->mtime, 16);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_CTIME], NULL, out->ctime, 16);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_CRTIME], NULL, out->crtime, 16);
	mutex_enter(&node->lock);
	int error = sa_bulk_lookup(node->sa, bulk, n);
	out->mode = node->mode;
	out->links = node->unlinked ? 0 : node->links;
	out->size = node->size;
	if (error == 0 && (S_ISBLK(node->mode) || S_ISCHR(node->mode)))
		error = sa_lookup(node->sa, attr[ZPL_RDEV], &out->rdev, 8);
	mutex_exit(&node->lock);
	sa_object_size(node->sa, &block_size, &blocks);
	out->blocks = blocks;
	out->block_size = block_size != 0 ? block_size : node->ds->os->os_recordsize;
	return (error);
}

int
pw_node_target(pw_node_t *node, char *out, size_t room, size_t *len)
{
	int size;
	if (!S_ISLNK(node->mode))
		return (EINVAL);
	int error = sa_size(node->sa, node->ds->attr[ZPL_SYMLINK], &size);
	if (error != 0)
		return (error);
	if ((size_t)size > room)
		return (ERANGE);
	*len = (size_t)size;
	return (sa_lookup(node->sa, node->ds->attr[ZPL_SYMLINK], out, (uint32_t)size));
}

/* The change time, and the flag that backup programs read. */
int
pw_attr_update(pw_node_t *node, sa_bulk_attr_t *bulk, int n, uint64_t now[2], dmu_tx_t *tx)
{
	node->flags |= ZFS_ARCHIVE;
	SA_ADD_BULK_ATTR(bulk, n, node->ds->attr[ZPL_CTIME], NULL, now, 16);
	SA_ADD_BULK_ATTR(bulk, n, node->ds->attr[ZPL_FLAGS], NULL, &node->flags, 8);
	return (sa_bulk_update(node->sa, bulk, n, tx));
}

/*
 * Records a change of content: the times, the flags that backup programs read and, if requested, the size. Called
 * without node->lock.
 */
int
pw_attr_touch(pw_node_t *node, int with_size, dmu_tx_t *tx)
{
	sa_bulk_attr_t bulk[4];
	uint64_t now[2];
	int n = 0;

	pw_now(now);
	mutex_enter(&node->lock);
	SA_ADD_BULK_ATTR(bulk, n, node->ds->attr[ZPL_MTIME], NULL, now, 16);
	SA_ADD_BULK_ATTR(bulk, n, node->ds->attr[ZPL_CTIME], NULL, now, 16);
	if ((node->flags & (ZFS_ARCHIVE | ZFS_AV_MODIFIED)) != (ZFS_ARCHIVE | ZFS_AV_MODIFIED)) {
		node->flags |= ZFS_ARCHIVE | ZFS_AV_MODIFIED;
		SA_ADD_BULK_ATTR(bulk, n, node->ds->attr[ZPL_FLAGS], NULL, &node->flags, 8);
	}
	if (with_size)
		SA_ADD_BULK_ATTR(bulk, n, node->ds->attr[ZPL_SIZE], NULL, &node->size, 8);
	int error = sa_bulk_update(node->sa, bulk, n, tx);
	mutex_exit(&node->lock);
	return (error);
}

/* Adds the new mode and its ACL. Called with node->lock held. Returns the number of attributes added. */
static int
add_mode(pw_node_t *node, uint64_t permissions, sa_bulk_attr_t *bulk, int n, uint64_t *count, char *aces)
{
	sa_attr_type_t *attr = node->ds->attr;
	node->mode = (node->mode & S_IFMT) | (permissions & 07777);
	*count = pw_layout_acl(node->mode, aces);
	node->flags |= ZFS_ACL_TRIVIAL;
	node->flags &= ~(uint64_t)ZFS_NO_EXECS_DENIED;
	if ((node->mode & 0111) == 0111)
		node->flags |= ZFS_NO_EXECS_DENIED;
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_MODE], NULL, &node->mode, 8);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_DACL_COUNT], NULL, count, 8);
	SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_DACL_ACES], NULL, aces, (uint16_t)(*count * PW_ACE_BYTES));
	return (n);
}

static int
update(pw_node_t *node, const pw_set_t *set, dmu_tx_t *tx)
{
	sa_attr_type_t *attr = node->ds->attr;
	sa_bulk_attr_t bulk[9];
	char aces[PW_ACES * PW_ACE_BYTES];
	uint64_t now[2], count;
	pw_set_t s = *set;
	int n = 0;

	pw_now(now);
	mutex_enter(&node->lock);
	const uint64_t old_mode = node->mode, old_flags = node->flags;
	if (s.mask & PW_SET_MODE)
		n = add_mode(node, s.mode, bulk, n, &count, aces);
	if (s.mask & PW_SET_UID)
		SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_UID], NULL, &s.uid, 8);
	if (s.mask & PW_SET_GID)
		SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_GID], NULL, &s.gid, 8);
	if (s.mask & PW_SET_ATIME)
		SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_ATIME], NULL, s.atime, 16);
	if (s.mask & PW_SET_MTIME)
		SA_ADD_BULK_ATTR(bulk, n, attr[ZPL_MTIME], NULL, s.mtime, 16);
	int error = pw_attr_update(node, bulk, n, now, tx);
	if (error != 0) {
		node->mode = old_mode;
		node->flags = old_flags;
	}
	mutex_exit(&node->lock);
	return (error);
}

/*
 * The length changes in a transaction and a log record of its own, so that a write after the change also follows it
 * in the log. The other attributes change after that. A replayed record contains both, and is marked as replayed with
 * the last transaction.
 */
int
pw_attr_set(pw_node_t *node, const pw_set_t *set)
{
	pw_set_t rest = *set;
	int error;

	if (set->mask & PW_SET_SIZE) {
		int replaying = node->ds->zilog->zl_replay;
		if (S_ISDIR(node->mode))
			return (EISDIR);
		if (!S_ISREG(node->mode))
			return (EINVAL);
		rest.mask &= ~PW_SET_SIZE;
		error = pw_set_size(node, set->size, !replaying || rest.mask == 0);
		if (error != 0 || rest.mask == 0)
			return (error);
	}
	dmu_tx_t *tx = dmu_tx_create(node->ds->os);
	dmu_tx_hold_sa(tx, node->sa, (rest.mask & PW_SET_MODE) ? B_TRUE : B_FALSE);
	if ((error = dmu_tx_assign(tx, DMU_TX_WAIT)) != 0) {
		dmu_tx_abort(tx);
		return (error);
	}
	error = update(node, &rest, tx);
	if (error == 0)
		pw_log_set(node, tx, &rest);
	dmu_tx_commit(tx);
	return (error);
}

int
pw_node_set(pw_node_t *node, const pw_set_t *set, pw_attr_t *out)
{
	int error = node->ds->readonly ? EROFS : 0;
	if (error == 0 && set->mask != 0)
		error = pw_attr_set(node, set);
	error = pw_log_settle(node->ds, node->object, error, 0);
	return (error != 0 ? error : pw_node_attr(node, out));
}
