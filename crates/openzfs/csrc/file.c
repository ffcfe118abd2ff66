/* SPDX-License-Identifier: CDDL-1.0 */
/* Files of a dataset: create, remove, read, write, truncate, punch, sync, and what their blocks take on disk. */

#include <sys/stat.h>
#include <sys/zfs_context.h>
#include <sys/zap.h>
#include <sys/spa.h>
#include <sys/spa_impl.h>
#include <sys/dmu_traverse.h>
#include <sys/dbuf.h>
#include <sys/zfs_znode.h>

#include "internal.h"

/* Creates the object and its name in one transaction; a replayed record brings the object's number along. */
int
pw_create_object(pw_dataset_t *ds, const char *name, const lr_create_t *replayed, uint32_t mode, uint64_t *object)
{
	uint64_t now[2], gen, full = S_IFREG | (mode & 07777);
	uint64_t uid = getuid(), gid = getgid();

	if (strlen(name) == 0 || strlen(name) >= ZAP_MAXNAMELEN || strchr(name, '/') != NULL)
		return (EINVAL);
	dmu_tx_t *tx = dmu_tx_create(ds->os);
	dmu_tx_hold_sa_create(tx, 176 + 48 + 16);
	dmu_tx_hold_zap(tx, ds->root, B_TRUE, name);
	dmu_tx_hold_bonus(tx, ds->root);
	int error = dmu_tx_assign(tx, DMU_TX_WAIT);
	if (error != 0) {
		dmu_tx_abort(tx);
		return (error);
	}
	gen = dmu_tx_get_txg(tx);
	pw_node_now(now);
	if (replayed != NULL) {
		const _lr_create_t *lr = &replayed->lr_create;
		*object = LR_FOID_GET_OBJ(lr->lr_foid);
		gen = lr->lr_gen;
		full = lr->lr_mode;
		uid = lr->lr_uid;
		gid = lr->lr_gid;
		now[0] = lr->lr_crtime[0];
		now[1] = lr->lr_crtime[1];
		error = dmu_object_claim_dnsize(ds->os, *object, DMU_OT_PLAIN_FILE_CONTENTS, 0, DMU_OT_SA,
		    DN_BONUS_SIZE(DNODE_MIN_SIZE), DNODE_MIN_SIZE, tx);
	} else {
		*object = dmu_object_alloc_dnsize(ds->os, DMU_OT_PLAIN_FILE_CONTENTS, 0, DMU_OT_SA,
		    DN_BONUS_SIZE(DNODE_MIN_SIZE), DNODE_MIN_SIZE, tx);
	}
	if (error == 0)
		error = pw_node_init(ds->os, ds->attr, *object, ds->root, full, uid, gid, gen, now, tx);
	if (error == 0)
		error = pw_node_enter(ds, name, *object, tx);
	pw_log_create(ds, tx, name, *object, full, gen, now);
	dmu_tx_commit(tx);
	return (error);
}

int
pw_file_create(pw_dataset_t *ds, const char *name, uint32_t mode, pw_node_t **out)
{
	uint64_t object;
	if (ds->readonly)
		return (EROFS);
	mutex_enter(&ds->names);
	int error = pw_node_lookup(ds, name, &object) == 0 ? EEXIST : pw_create_object(ds, name, NULL, mode, &object);
	mutex_exit(&ds->names);
	return (error != 0 ? error : pw_node_get(ds, object, out));
}

int
pw_file_open(pw_dataset_t *ds, const char *name, pw_node_t **out)
{
	uint64_t object;
	int error = pw_node_lookup(ds, name, &object);
	return (error != 0 ? error : pw_node_get(ds, object, out));
}

void
pw_file_close(pw_node_t *node)
{
	pw_node_release(node);
}

/* The name goes and the object enters the delete queue in one transaction; its blocks are freed when nobody has it open. */
int
pw_file_remove(pw_dataset_t *ds, const char *name)
{
	uint64_t object, links = 0;
	pw_node_t *node;

	if (ds->readonly)
		return (EROFS);
	int error = pw_file_open(ds, name, &node);
	if (error != 0)
		return (error);
	object = node->object;
	mutex_enter(&ds->names);
	dmu_tx_t *tx = dmu_tx_create(ds->os);
	dmu_tx_hold_zap(tx, ds->root, B_FALSE, name);
	dmu_tx_hold_bonus(tx, ds->root);
	dmu_tx_hold_sa(tx, node->sa, B_FALSE);
	dmu_tx_hold_zap(tx, ds->delete_queue, B_TRUE, NULL);
	dmu_tx_mark_netfree(tx);
	if ((error = dmu_tx_assign(tx, DMU_TX_WAIT)) != 0) {
		dmu_tx_abort(tx);
	} else {
		error = pw_node_leave(ds, name, tx);
		if (error == 0)
			error = sa_update(node->sa, ds->attr[ZPL_LINKS], &links, sizeof (links), tx);
		if (error == 0)
			error = zap_add_int(ds->os, ds->delete_queue, object, tx);
		node->unlinked = error == 0;
		pw_log_remove(ds, tx, name, object);
		dmu_tx_commit(tx);
	}
	mutex_exit(&ds->names);
	pw_node_release(node);
	return (error);
}

int
pw_file_list(pw_dataset_t *ds, void (*each)(const char *name, uint64_t object, void *arg), void *arg)
{
	zap_cursor_t cursor;
	zap_attribute_t *entry = zap_attribute_alloc();
	int error;

	for (zap_cursor_init(&cursor, ds->os, ds->root); (error = zap_cursor_retrieve(&cursor, entry)) == 0;
	    zap_cursor_advance(&cursor))
		each(entry->za_name, ZFS_DIRENT_OBJ(entry->za_first_integer), arg);
	zap_cursor_fini(&cursor);
	zap_attribute_free(entry);
	return (error == ENOENT ? 0 : error);
}

/* ---- data ---- */

int
pw_file_read(pw_node_t *node, uint64_t offset, void *buf, uint64_t len, uint64_t *done)
{
	*done = 0;
	zfs_locked_range_t *lock = zfs_rangelock_enter(&node->range, offset, len, RL_READER);
	uint64_t size = node->size;
	int error = 0;
	if (offset < size) {
		uint64_t n = MIN(len, size - offset);
		error = dmu_read_by_dnode(node->dn, offset, n, buf, DMU_READ_PREFETCH);
		if (error == 0)
			*done = n;
		else if (error == ECKSUM)
			error = EIO;
	}
	zfs_rangelock_exit(lock);
	return (error);
}

static uint64_t
wanted_block_size(pw_node_t *node, uint64_t end)
{
	uint64_t record = node->ds->os->os_recordsize;
	uint64_t now = node->dn->dn_datablksz;
	/* A file of one block grows with its content up to the recordsize; after that its size is fixed for good. */
	if (node->size > now || end <= now || (ISP2(now) && now >= record))
		return (now);
	return (MIN(record, P2ROUNDUP_TYPED(end, SPA_MINBLOCKSIZE, uint64_t)));
}

static int
update_times(pw_node_t *node, int with_size, dmu_tx_t *tx)
{
	sa_bulk_attr_t bulk[3];
	uint64_t now[2];
	int n = 0;
	pw_node_now(now);
	SA_ADD_BULK_ATTR(bulk, n, node->ds->attr[ZPL_MTIME], NULL, now, 16);
	SA_ADD_BULK_ATTR(bulk, n, node->ds->attr[ZPL_CTIME], NULL, now, 16);
	if (with_size)
		SA_ADD_BULK_ATTR(bulk, n, node->ds->attr[ZPL_SIZE], NULL, &node->size, 8);
	return (sa_bulk_update(node->sa, bulk, n, tx));
}

/* One transaction's worth. `grow` is the block size to set first, or 0; `at_least` the size a replayed record asks for. */
static int
write_chunk(pw_node_t *node, uint64_t offset, const void *buf, uint64_t len, int sync, uint64_t grow, uint64_t at_least)
{
	dmu_tx_t *tx = dmu_tx_create(node->ds->os);
	dmu_tx_hold_sa(tx, node->sa, B_FALSE);
	dmu_tx_hold_write_by_dnode(tx, node->dn, offset, len);
	int error = dmu_tx_assign(tx, DMU_TX_WAIT);
	if (error != 0) {
		dmu_tx_abort(tx);
		return (error);
	}
	if (grow != 0) {
		error = dmu_object_set_blocksize(node->ds->os, node->object, grow, 0, tx);
		if (error == ENOTSUP)	/* more than one block already: it keeps its size */
			error = 0;
	}
	if (error == 0)
		error = dmu_write_by_dnode(node->dn, offset, len, buf, tx);
	if (error == 0) {
		uint64_t end = MAX(offset + len, at_least);
		int longer = end > node->size;
		if (longer)
			node->size = end;
		error = update_times(node, longer, tx);
		pw_log_write(node, tx, offset, len, sync);
	}
	dmu_tx_commit(tx);
	return (error);
}

int
pw_write_range(pw_node_t *node, uint64_t offset, const void *buf, uint64_t len, int sync, uint64_t at_least)
{
	const char *from = buf;
	int error = 0;
	/* Growing the block or the file concerns all of it; an overwrite only its own range. */
	int whole = offset + len > node->size || wanted_block_size(node, offset + len) != node->dn->dn_datablksz;
	zfs_locked_range_t *lock = zfs_rangelock_enter(&node->range, whole ? 0 : offset, whole ? UINT64_MAX : len,
	    RL_WRITER);

	if (!whole && offset + len > node->size) {	/* truncated while we waited */
		zfs_rangelock_exit(lock);
		lock = zfs_rangelock_enter(&node->range, 0, UINT64_MAX, RL_WRITER);
	}
	while (len != 0 && error == 0) {
		uint64_t n = MIN(len, DMU_MAX_ACCESS >> 1);
		uint64_t block = wanted_block_size(node, offset + n);
		error = write_chunk(node, offset, from, n, sync, block != node->dn->dn_datablksz ? block : 0, at_least);
		offset += n;
		from += n;
		len -= n;
	}
	zfs_rangelock_exit(lock);
	return (error);
}

int
pw_file_write(pw_node_t *node, uint64_t offset, const void *buf, uint64_t len, int sync)
{
	if (node->ds->readonly)
		return (EROFS);
	if (len == 0)
		return (0);
	int always = node->ds->os->os_sync == ZFS_SYNC_ALWAYS;
	int error = pw_write_range(node, offset, buf, len, sync || always, 0);
	if (error == 0 && (sync || always))
		error = pw_file_sync(node);
	return (error);
}

/* Frees what lies behind the new end, then says so; a crash between the two leaves the longer, sparse file. */
int
pw_set_size(pw_node_t *node, uint64_t size)
{
	zfs_locked_range_t *lock = zfs_rangelock_enter(&node->range, 0, UINT64_MAX, RL_WRITER);
	int error = 0;
	if (size < node->size)
		error = dmu_free_long_range(node->ds->os, node->object, size, DMU_OBJECT_END);
	uint64_t grow = size > node->size ? wanted_block_size(node, size) : node->dn->dn_datablksz;
	dmu_tx_t *tx = dmu_tx_create(node->ds->os);
	dmu_tx_hold_sa(tx, node->sa, B_FALSE);
	if (grow != node->dn->dn_datablksz)
		dmu_tx_hold_write_by_dnode(tx, node->dn, 0, 1);
	if (error == 0)
		error = dmu_tx_assign(tx, DMU_TX_WAIT);
	if (error != 0) {
		dmu_tx_abort(tx);
	} else {
		if (grow != node->dn->dn_datablksz)
			(void) dmu_object_set_blocksize(node->ds->os, node->object, grow, 0, tx);
		node->size = size;
		error = update_times(node, 1, tx);
		pw_log_size(node, tx, size);
		dmu_tx_commit(tx);
	}
	zfs_rangelock_exit(lock);
	return (error);
}

int
pw_file_truncate(pw_node_t *node, uint64_t size)
{
	return (node->ds->readonly ? EROFS : pw_set_size(node, size));
}

int
pw_free_range(pw_node_t *node, uint64_t offset, uint64_t len)
{
	zfs_locked_range_t *lock = zfs_rangelock_enter(&node->range, offset, len, RL_WRITER);
	int error = dmu_free_long_range(node->ds->os, node->object, offset, len);
	if (error == 0) {
		dmu_tx_t *tx = dmu_tx_create(node->ds->os);
		dmu_tx_hold_sa(tx, node->sa, B_FALSE);
		if ((error = dmu_tx_assign(tx, DMU_TX_WAIT)) != 0) {
			dmu_tx_abort(tx);
		} else {
			error = update_times(node, 0, tx);
			pw_log_punch(node, tx, offset, len);
			dmu_tx_commit(tx);
		}
	}
	zfs_rangelock_exit(lock);
	return (error);
}

int
pw_file_punch(pw_node_t *node, uint64_t offset, uint64_t len)
{
	if (node->ds->readonly)
		return (EROFS);
	if (len == 0 || offset >= node->size)
		return (0);
	return (pw_free_range(node, offset, MIN(len, node->size - offset)));
}

int
pw_file_sync(pw_node_t *node)
{
	pw_dataset_t *ds = node->ds;
	if (ds->readonly || ds->os->os_sync == ZFS_SYNC_DISABLED)
		return (0);
	zil_commit(ds->zilog, node->object);
	return (0);
}

uint64_t
pw_file_size(pw_node_t *node)
{
	return (node->size);
}

uint64_t
pw_file_object(pw_node_t *node)
{
	return (node->object);
}

uint64_t
pw_file_block_size(pw_node_t *node)
{
	return (node->dn->dn_datablksz);
}

/* ---- blocks ---- */

typedef struct { uint64_t object; pw_blocks_t *out; } blocks_arg_t;

static int
count_block(spa_t *spa, zilog_t *zilog, const blkptr_t *bp, const zbookmark_phys_t *zb, const dnode_phys_t *dnp, void *arg)
{
	blocks_arg_t *a = arg;
	pw_blocks_t *b = a->out;
	(void) spa;
	(void) zilog;
	(void) dnp;

	if (zb->zb_object != a->object || bp == NULL || zb->zb_level < 0 || zb->zb_level == ZB_DNODE_LEVEL)
		return (0);
	if (BP_IS_HOLE(bp)) {
		if (zb->zb_level == 0)
			b->l0_holes++;
		return (0);
	}
	/* What was allocated, as zdb counts it; on raidz that is more than the deflated size that `used` shows. */
	uint64_t asize = BP_IS_EMBEDDED(bp) ? 0 : BP_GET_ASIZE(bp);
	if (zb->zb_level > 0) {
		b->indirect_count++;
		b->indirect_asize += asize;
		return (0);
	}
	b->l0_count++;
	b->l0_lsize += BP_GET_LSIZE(bp);
	b->l0_asize += asize;
	if (BP_IS_EMBEDDED(bp))
		b->l0_embedded++;
	else
		b->l0_psize += BP_GET_PSIZE(bp);
	return (0);
}

int
pw_file_blocks(pw_node_t *node, pw_blocks_t *out)
{
	memset(out, 0, sizeof (*out));
	blocks_arg_t arg = { node->object, out };
	out->size = node->size;
	out->block_size = node->dn->dn_datablksz;
	return (traverse_dataset(dmu_objset_ds(node->ds->os), 0, TRAVERSE_PRE | TRAVERSE_PREFETCH_METADATA, count_block,
	    &arg));
}
