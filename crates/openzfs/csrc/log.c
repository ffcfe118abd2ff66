/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * The intent log: records of the ZPL's own types, built while a transaction is open, and their data, which is fetched
 * when they are written.
 *
 * Writes are logged by the documented rules: with their data in the record or, from zfs_immediate_write_sz on without
 * a separate log device and always with logbias=throughput or after direct I/O, with a pointer to their block.
 */

#include <sys/stat.h>
#include <sys/zfs_context.h>
#include <sys/spa.h>
#include <sys/spa_impl.h>
#include <sys/dbuf.h>
#include <sys/dsl_pool.h>
#include <sys/zfeature.h>
#include <sys/zfs_znode.h>

#include "internal.h"

uint64_t pw_immediate_write_sz = 32768;
/* zvol_immediate_write_sz in module/zfs/zvol.c, which is not a module parameter. */
enum { VOLUME_IMMEDIATE_WRITE_SZ = 32768 };

#ifdef PW_HAS_UNCACHED_IO
#define	LOG_READ	(DMU_READ_NO_PREFETCH | DMU_KEEP_CACHING)
#else
#define	LOG_READ	DMU_READ_NO_PREFETCH
#endif

static char *
put_name(char *at, const char *name)
{
	size_t n = strlen(name) + 1;
	memcpy(at, name, n);
	return (at + n);
}

/*
 * Names in a directory of extended attributes are not logged, because the file may be removed before they are
 * replayed. Such a change is durable with its txg.
 */
static int
skip(pw_node_t *dir, dmu_tx_t *tx)
{
	return (zil_replaying(dir->ds->zilog, tx) || dir->flags & ZFS_XATTR);
}

void
pw_log_create(pw_node_t *dir, dmu_tx_t *tx, const char *name, const pw_made_t *made)
{
	if (skip(dir, tx))
		return;
	size_t target = made->target != NULL ? strlen(made->target) + 1 : 0;
	uint64_t type = S_ISDIR(made->mode) ? TX_MKDIR : made->target != NULL ? TX_SYMLINK : TX_CREATE;
	itx_t *itx = zil_itx_create(type, sizeof (lr_create_t) + strlen(name) + 1 + target);
	lr_create_t *record = (lr_create_t *)&itx->itx_lr;
	_lr_create_t *lr = &record->lr_create;
	lr->lr_doid = dir->object;
	lr->lr_foid = made->object;
	LR_FOID_SET_SLOTS(lr->lr_foid, made->dnode_size >> DNODE_SHIFT);
	lr->lr_mode = made->mode;
	lr->lr_uid = made->uid;
	lr->lr_gid = made->gid;
	lr->lr_gen = made->gen;
	lr->lr_crtime[0] = made->crtime[0];
	lr->lr_crtime[1] = made->crtime[1];
	lr->lr_rdev = made->rdev;
	char *at = put_name((char *)record->lr_data, name);
	if (made->target != NULL)
		(void) put_name(at, made->target);
	zil_itx_assign(dir->ds->zilog, itx, tx);
}

void
pw_log_remove(pw_node_t *dir, dmu_tx_t *tx, const char *name, uint64_t object, int directory, int last)
{
	if (skip(dir, tx))
		return;
	itx_t *itx = zil_itx_create(directory ? TX_RMDIR : TX_REMOVE, sizeof (lr_remove_t) + strlen(name) + 1);
	lr_remove_t *lr = (lr_remove_t *)&itx->itx_lr;
	lr->lr_doid = dir->object;
	(void) put_name((char *)lr->lr_data, name);
	itx->itx_oid = object;
	/*
	 * The number may be reused in the next txg: pending writes of the old owner must not be logged for the new
	 * one.
	 */
	if (last && !directory)
		zil_remove_async(dir->ds->zilog, object);
	zil_itx_assign(dir->ds->zilog, itx, tx);
}

void
pw_log_link(pw_node_t *dir, dmu_tx_t *tx, const char *name, uint64_t object)
{
	if (skip(dir, tx))
		return;
	itx_t *itx = zil_itx_create(TX_LINK, sizeof (lr_link_t) + strlen(name) + 1);
	lr_link_t *lr = (lr_link_t *)&itx->itx_lr;
	lr->lr_doid = dir->object;
	lr->lr_link_obj = object;
	(void) put_name((char *)lr->lr_data, name);
	zil_itx_assign(dir->ds->zilog, itx, tx);
}

static void
fill_rename(_lr_rename_t *lr, char *names, pw_node_t *from, const char *name, pw_node_t *to, const char *new_name)
{
	lr->lr_sdoid = from->object;
	lr->lr_tdoid = to->object;
	(void) put_name(put_name(names, name), new_name);
}

void
pw_log_rename(pw_node_t *from, dmu_tx_t *tx, const char *name, pw_node_t *to, const char *new_name, uint64_t object,
    uint32_t flags, const pw_made_t *whiteout)
{
	size_t names = strlen(name) + strlen(new_name) + 2;
	itx_t *itx;
	if (skip(from, tx))
		return;
	if (whiteout != NULL) {
		itx = zil_itx_create(TX_RENAME_WHITEOUT, sizeof (lr_rename_whiteout_t) + names);
		lr_rename_whiteout_t *lr = (lr_rename_whiteout_t *)&itx->itx_lr;
		fill_rename(&lr->lr_rename, (char *)lr->lr_data, from, name, to, new_name);
		lr->lr_wfoid = whiteout->object;
		LR_FOID_SET_SLOTS(lr->lr_wfoid, whiteout->dnode_size >> DNODE_SHIFT);
		lr->lr_wmode = whiteout->mode;
		lr->lr_wuid = whiteout->uid;
		lr->lr_wgid = whiteout->gid;
		lr->lr_wgen = whiteout->gen;
		lr->lr_wcrtime[0] = whiteout->crtime[0];
		lr->lr_wcrtime[1] = whiteout->crtime[1];
		lr->lr_wrdev = whiteout->rdev;
	} else {
		uint64_t type = flags & PW_RENAME_EXCHANGE ? TX_RENAME_EXCHANGE : TX_RENAME;
		itx = zil_itx_create(type, sizeof (lr_rename_t) + names);
		lr_rename_t *lr = (lr_rename_t *)&itx->itx_lr;
		fill_rename(&lr->lr_rename, (char *)lr->lr_data, from, name, to, new_name);
	}
	itx->itx_oid = object;
	zil_itx_assign(from->ds->zilog, itx, tx);
}

void
pw_log_set(pw_node_t *node, dmu_tx_t *tx, const pw_set_t *set)
{
	if (zil_replaying(node->ds->zilog, tx) || node->unlinked)
		return;
	itx_t *itx = zil_itx_create(TX_SETATTR, sizeof (lr_setattr_t));
	lr_setattr_t *lr = (lr_setattr_t *)&itx->itx_lr;
	lr->lr_foid = node->object;
	lr->lr_mask = set->mask;
	lr->lr_mode = (node->mode & S_IFMT) | set->mode;
	lr->lr_uid = set->uid;
	lr->lr_gid = set->gid;
	lr->lr_size = set->size;
	memcpy(lr->lr_atime, set->atime, sizeof (lr->lr_atime));
	memcpy(lr->lr_mtime, set->mtime, sizeof (lr->lr_mtime));
	itx->itx_sync = B_FALSE;
	zil_itx_assign(node->ds->zilog, itx, tx);
}

/*
 * Logged only if the pool has the feature; otherwise the change is durable with its txg, as in a kernel. A record of
 * length 0 means removal, so an empty value cannot be logged; pw_xattr_set() waits for its txg.
 */
void
pw_log_xattr(pw_node_t *node, dmu_tx_t *tx, const char *name, const void *value, size_t len)
{
	if (zil_replaying(node->ds->zilog, tx) || node->unlinked ||
	    !spa_feature_is_enabled(node->ds->os->os_spa, SPA_FEATURE_ZILSAXATTR) || (value != NULL && len == 0))
		return;
	itx_t *itx = zil_itx_create(TX_SETSAXATTR, sizeof (lr_setsaxattr_t) + strlen(name) + 1 + len);
	lr_setsaxattr_t *lr = (lr_setsaxattr_t *)&itx->itx_lr;
	lr->lr_foid = node->object;
	lr->lr_size = value != NULL ? len : 0;
	char *at = put_name((char *)lr->lr_data, name);
	if (value != NULL)
		memcpy(at, value, len);
	itx->itx_sync = B_FALSE;
	zil_itx_assign(node->ds->zilog, itx, tx);
}

/*
 * Whether a write goes to its final place at once. To a volume, only writes that are at least as long as a block do, and
 * only if the blocks are larger than zvol.c's constant.
 */
static int
is_long(const pw_node_t *node, uint64_t len)
{
	if (node->ds->volume == NULL)
		return (len >= pw_immediate_write_sz);
	uint64_t block = node->dn->dn_datablksz;
	return (len >= block && block > VOLUME_IMMEDIATE_WRITE_SZ);
}

static itx_wr_state_t
how_to_log(pw_node_t *node, uint64_t len, int how)
{
	zilog_t *zilog = node->ds->zilog;
	if (zilog->zl_logbias == ZFS_LOGBIAS_THROUGHPUT || how & PW_VIA_DIRECT)
		return (WR_INDIRECT);
	if (!spa_has_slogs(zilog->zl_spa) && is_long(node, len))
		return (WR_INDIRECT);
	return (how & PW_IO_SYNC ? WR_COPIED : WR_NEED_COPY);
}

/*
 * A kernel replays an indirect record by writing its whole block, and truncates the file to its length only if the
 * record's own bytes extended it. So an overwrite in the last block of a file is logged with its bytes.
 */
static int
in_last_block(pw_node_t *node, uint64_t offset, uint64_t len, uint64_t size_before)
{
	uint64_t block = node->dn->dn_datablksz;
	uint64_t end = ISP2(block) ? P2ROUNDUP_TYPED(offset + len, block, uint64_t) : block;
	return (offset + len <= size_before && end > node->size);
}

void
pw_log_write(pw_node_t *node, dmu_tx_t *tx, uint64_t offset, uint64_t len, int how, uint64_t size_before)
{
	zilog_t *zilog = node->ds->zilog;
	if (zil_replaying(zilog, tx) || node->unlinked)
		return;
	itx_wr_state_t state = how_to_log(node, len, how);
	uint64_t block = node->dn->dn_datablksz, left = len;

	while (left != 0) {
		itx_wr_state_t this = state;
		uint64_t n = left;
		if (this == WR_COPIED && n > zil_max_copied_data(zilog))
			this = WR_NEED_COPY;	/* the log splits it into several blocks */
		else if (this == WR_INDIRECT)
			n = MIN(block - (ISP2(block) ? P2PHASE(offset, block) : offset), left);
		if (this == WR_INDIRECT && in_last_block(node, offset, n, size_before))
			this = WR_NEED_COPY;
		itx_t *itx = zil_itx_create(TX_WRITE, sizeof (lr_write_t) + (this == WR_COPIED ? n : 0));
		lr_write_t *lr = (lr_write_t *)&itx->itx_lr;
		if (this == WR_COPIED &&
		    dmu_read_by_dnode(node->dn, offset, n, lr->lr_data, LOG_READ) != 0) {
#ifdef PW_ITX_DESTROY_HAS_ERROR
			zil_itx_destroy(itx, 0);
#else
			zil_itx_destroy(itx);
#endif
			this = WR_NEED_COPY;
			itx = zil_itx_create(TX_WRITE, sizeof (lr_write_t));
			lr = (lr_write_t *)&itx->itx_lr;
		}
		itx->itx_wr_state = this;
		itx->itx_private = node->ds;
		/*
		 * Never on the list of synchronous records: there it would overtake records of the same file on the
		 * other list.
		 */
		itx->itx_sync = B_FALSE;
		itx->itx_gen = node->gen;
		lr->lr_foid = node->object;
		lr->lr_offset = offset;
		lr->lr_length = n;
		lr->lr_blkoff = 0;
		BP_ZERO(&lr->lr_blkptr);
		zil_itx_assign(zilog, itx, tx);
		offset += n;
		left -= n;
	}
	if (state != WR_INDIRECT)
		dsl_pool_wrlog_count(zilog->zl_dmu_pool, len, dmu_tx_get_txg(tx));
}

/* Logs the block pointers of a clone. The caller keeps them within one record. */
void
pw_log_clone(pw_node_t *node, dmu_tx_t *tx, uint64_t offset, uint64_t len, uint64_t block, const blkptr_t *bps,
    size_t nbps)
{
	zilog_t *zilog = node->ds->zilog;
	if (zil_replaying(zilog, tx) || node->unlinked)
		return;
	itx_t *itx = zil_itx_create(TX_CLONE_RANGE, sizeof (lr_clone_range_t) + nbps * sizeof (blkptr_t));
	lr_clone_range_t *lr = (lr_clone_range_t *)&itx->itx_lr;
	lr->lr_foid = node->object;
	lr->lr_offset = offset;
	lr->lr_length = len;
	lr->lr_blksz = block;
	lr->lr_nbps = nbps;
	memcpy(lr->lr_bps, bps, nbps * sizeof (blkptr_t));
	itx->itx_sync = B_FALSE;
	zil_itx_assign(zilog, itx, tx);
}

void
pw_log_punch(pw_node_t *node, dmu_tx_t *tx, uint64_t offset, uint64_t len)
{
	zilog_t *zilog = node->ds->zilog;
	if (zil_replaying(zilog, tx) || node->unlinked)
		return;
	itx_t *itx = zil_itx_create(TX_TRUNCATE, sizeof (lr_truncate_t));
	lr_truncate_t *lr = (lr_truncate_t *)&itx->itx_lr;
	lr->lr_foid = node->object;
	lr->lr_offset = offset;
	lr->lr_length = len;
	itx->itx_sync = B_FALSE;
	zil_itx_assign(zilog, itx, tx);
}

/*
 * Completes a change: if it is synchronous, or all changes are, the log is on disk before the change is acknowledged.
 */
int
pw_log_settle(pw_dataset_t *ds, uint64_t object, int error, int sync)
{
	if (error == 0 && (sync || ds->os->os_sync == ZFS_SYNC_ALWAYS))
		zil_commit(ds->zilog, object);	/* does nothing with sync=disabled */
	return (error);
}

/* ---- what the log asks back ---- */

static int
hold_node(pw_dataset_t *ds, uint64_t object, pw_node_t **out)
{
	if (ds->volume == NULL)
		return (pw_node_get(ds, object, out));
	*out = ds->volume;
	return (0);
}

/* The last reference of an unlinked node frees its object in a transaction, which a log thread must not open. */
static void
release_node(pw_node_t *node)
{
	if (node != node->ds->volume)
		pw_node_release_later(node);
}

static void
got_data(zgd_t *zgd, int error)
{
	pw_node_t *node = zgd->zgd_private;
	(void) error;
	if (zgd->zgd_db != NULL)
		dmu_buf_rele(zgd->zgd_db, zgd);
	zfs_rangelock_exit(zgd->zgd_lr);
	release_node(node);
	kmem_free(zgd, sizeof (zgd_t));
}

/* Makes the record point to the block that was written for a dirty record. The dbuf is locked. */
static void
point_to(zgd_t *zgd, const dbuf_dirty_record_t *dirty)
{
	*zgd->zgd_bp = dirty->dt.dl.dr_overridden_by;
	if (BP_IS_HOLE(zgd->zgd_bp))
		BP_SET_LSIZE(zgd->zgd_bp, zgd->zgd_db->db_size);	/* replay needs it */
}

/*
 * A direct write is on its device before it is logged, though perhaps in the device's cache. Unlike a kernel's zfs_get_data(),
 * this has the log flush that device before the record counts.
 */
static int
point_to_direct(zgd_t *zgd, uint64_t txg)
{
	dmu_buf_impl_t *db = (dmu_buf_impl_t *)zgd->zgd_db;

	mutex_enter(&db->db_mtx);
	const dbuf_dirty_record_t *dirty = dbuf_find_dirty_eq(db, txg);
	int direct = dirty != NULL && dirty->dt.dl.dr_diowrite;
	if (direct)
		point_to(zgd, dirty);
	mutex_exit(&db->db_mtx);
	if (direct)
		zil_lwb_add_block(zgd->zgd_lwb, zgd->zgd_bp);
	return (direct);
}

/*
 * The block is being written, or was written, to its final place for another record of the same txg. For this case
 * the library uses TX_WRITE2, a record without bytes that relies on the other record. It cannot rely on it: a
 * truncation, a hole, or older bytes of the same range may lie between the two; and because several threads fill log
 * blocks at once, the other record may even follow this one, in a part of the log that a crash cuts off. So this
 * record points to the block as well. Returns 0 if it does, and EAGAIN if the block is no longer being written: the
 * caller asks again.
 */
static int
point_to_same(zgd_t *zgd, uint64_t txg)
{
	dmu_buf_impl_t *db = (dmu_buf_impl_t *)zgd->zgd_db;
	dbuf_dirty_record_t *dirty;
	int error = EAGAIN;

	mutex_enter(&db->db_mtx);
	while ((dirty = dbuf_find_dirty_eq(db, txg)) != NULL && dirty->dt.dl.dr_override_state == DR_IN_DMU_SYNC)
		cv_wait(&db->db_changed, &db->db_mtx);
	if (dirty != NULL && dirty->dt.dl.dr_brtwrite) {
		error = ENOENT;		/* a clone has replaced it since, whose own record follows */
	} else if (dirty != NULL && dirty->dt.dl.dr_override_state == DR_OVERRIDDEN) {
		point_to(zgd, dirty);
		error = 0;
	}
	mutex_exit(&db->db_mtx);
	if (error == 0)
		zil_lwb_add_block(zgd->zgd_lwb, zgd->zgd_bp);	/* flushed before this record counts */
	return (error);
}

/* The whole block is locked, so that no thread changes it while it is written and its checksum is computed. */
static int
get_indirect(pw_node_t *node, zgd_t *zgd, lr_write_t *lr, zio_t *zio)
{
	uint64_t size, offset, txg = lr->lr_common.lrc_txg;
	dmu_buf_t *db;

	for (;;) {
		size = node->dn->dn_datablksz;
		offset = ISP2(size) ? P2ALIGN_TYPED(lr->lr_offset, size, uint64_t) : 0;
		zgd->zgd_lr = zfs_rangelock_enter(&node->range, offset, size, RL_READER);
		if (node->dn->dn_datablksz == size)
			break;
		zfs_rangelock_exit(zgd->zgd_lr);
	}
	if (lr->lr_offset >= node->size)
		return (ENOENT);
	int error = dmu_buf_hold_noread(node->ds->os, node->object, offset, zgd, &db);
	if (error != 0)
		return (error);
	zgd->zgd_db = db;
	zgd->zgd_bp = &lr->lr_blkptr;
	if (point_to_direct(zgd, txg))
		return (0);
	do {
		error = dmu_sync(zio, txg, got_data, zgd);
		if (error == 0)
			return (-1);		/* got_data() is called when the block is on disk */
		if (error == EALREADY)
			error = point_to_same(zgd, txg);
	} while (error == EAGAIN);
	/* A volume's length does not change, so nothing is left of a write whose block was freed; and zvol.c replays no TX_WRITE2. */
	if (error == ENOENT && node->ds->volume != NULL)
		return (ENOENT);
	if (error == ENOENT) {
		/* Freed or replaced by a later record, which may leave the file as long as this write made it. */
		lr->lr_common.lrc_txtype = TX_WRITE2;
		zgd->zgd_bp = NULL;
		BP_ZERO(&lr->lr_blkptr);
		error = 0;
	}
	return (error);
}

int
pw_log_get_data(void *arg, uint64_t gen, lr_write_t *lr, char *buf, struct lwb *lwb, zio_t *zio)
{
	pw_dataset_t *ds = arg;
	pw_node_t *node;
	int error = hold_node(ds, lr->lr_foid, &node);
	if (error != 0)
		return (ENOENT);
	if (node->unlinked || node->gen != gen) {
		release_node(node);
		return (ENOENT);
	}
	zgd_t *zgd = kmem_zalloc(sizeof (zgd_t), KM_SLEEP);
	zgd->zgd_lwb = lwb;
	zgd->zgd_private = node;
	if (buf != NULL) {
		zgd->zgd_lr = zfs_rangelock_enter(&node->range, lr->lr_offset, lr->lr_length, RL_READER);
		error = lr->lr_offset >= node->size ? ENOENT :
		    dmu_read_by_dnode(node->dn, lr->lr_offset, lr->lr_length, buf, LOG_READ);
	} else {
		error = get_indirect(node, zgd, lr, zio);
		if (error == -1)
			return (0);
	}
	got_data(zgd, error);
	return (error);
}
