/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * The intent log: records of the ZPL's own types, built when a transaction is open, and played back when a dataset is
 * opened after a crash. How a write is logged follows the documented rules: its data in the record, or, from
 * zfs_immediate_write_sz on without a separate log and always with logbias=throughput, a pointer to its block.
 */

#include <sys/stat.h>
#include <sys/zfs_context.h>
#include <sys/spa.h>
#include <sys/spa_impl.h>
#include <sys/dbuf.h>
#include <sys/zap.h>
#include <sys/dsl_pool.h>
#include <sys/zfs_znode.h>

#include "internal.h"

uint64_t pw_immediate_write_sz = 32768;

enum { SETATTR_SIZE = 8 };	/* Linux's ATTR_SIZE, as the kernel logs truncate(2) */

void
pw_log_create(pw_dataset_t *ds, dmu_tx_t *tx, const char *name, uint64_t object, uint64_t mode, uint64_t gen,
    const uint64_t crtime[2])
{
	if (zil_replaying(ds->zilog, tx))
		return;
	itx_t *itx = zil_itx_create(TX_CREATE, sizeof (lr_create_t) + strlen(name) + 1);
	lr_create_t *record = (lr_create_t *)&itx->itx_lr;
	_lr_create_t *lr = &record->lr_create;
	lr->lr_doid = ds->root;
	lr->lr_foid = object;
	LR_FOID_SET_SLOTS(lr->lr_foid, 1);
	lr->lr_mode = mode;
	lr->lr_uid = getuid();
	lr->lr_gid = getgid();
	lr->lr_gen = gen;
	lr->lr_crtime[0] = crtime[0];
	lr->lr_crtime[1] = crtime[1];
	lr->lr_rdev = 0;
	(void) strcpy((char *)record->lr_data, name);
	zil_itx_assign(ds->zilog, itx, tx);
}

void
pw_log_remove(pw_dataset_t *ds, dmu_tx_t *tx, const char *name, uint64_t object)
{
	if (zil_replaying(ds->zilog, tx))
		return;
	itx_t *itx = zil_itx_create(TX_REMOVE, sizeof (lr_remove_t) + strlen(name) + 1);
	lr_remove_t *lr = (lr_remove_t *)&itx->itx_lr;
	lr->lr_doid = ds->root;
	(void) strcpy((char *)lr->lr_data, name);
	itx->itx_oid = object;
	/* The number may be taken again in the next txg: its waiting writes must not be logged for the new owner. */
	zil_remove_async(ds->zilog, object);
	zil_itx_assign(ds->zilog, itx, tx);
}

static itx_wr_state_t
how_to_log(pw_node_t *node, uint64_t len, int sync)
{
	zilog_t *zilog = node->ds->zilog;
	if (zilog->zl_logbias == ZFS_LOGBIAS_THROUGHPUT)
		return (WR_INDIRECT);
	if (!spa_has_slogs(zilog->zl_spa) && len >= pw_immediate_write_sz)
		return (WR_INDIRECT);
	return (sync ? WR_COPIED : WR_NEED_COPY);
}

void
pw_log_write(pw_node_t *node, dmu_tx_t *tx, uint64_t offset, uint64_t len, int sync)
{
	zilog_t *zilog = node->ds->zilog;
	if (zil_replaying(zilog, tx) || node->unlinked)
		return;
	itx_wr_state_t state = how_to_log(node, len, sync);
	uint64_t block = node->dn->dn_datablksz, left = len;

	while (left != 0) {
		itx_wr_state_t this = state;
		uint64_t n = left;
		if (this == WR_COPIED && n > zil_max_copied_data(zilog))
			this = WR_NEED_COPY;	/* the log splits it over several blocks by itself */
		else if (this == WR_INDIRECT)
			n = MIN(block - (ISP2(block) ? P2PHASE(offset, block) : offset), left);
		itx_t *itx = zil_itx_create(TX_WRITE, sizeof (lr_write_t) + (this == WR_COPIED ? n : 0));
		lr_write_t *lr = (lr_write_t *)&itx->itx_lr;
		if (this == WR_COPIED &&
		    dmu_read_by_dnode(node->dn, offset, n, lr->lr_data, DMU_READ_NO_PREFETCH) != 0) {
			zil_itx_destroy(itx);
			this = WR_NEED_COPY;
			itx = zil_itx_create(TX_WRITE, sizeof (lr_write_t));
			lr = (lr_write_t *)&itx->itx_lr;
		}
		itx->itx_wr_state = this;
		itx->itx_private = node->ds;
		itx->itx_sync = sync ? B_TRUE : B_FALSE;
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

void
pw_log_size(pw_node_t *node, dmu_tx_t *tx, uint64_t size)
{
	zilog_t *zilog = node->ds->zilog;
	if (zil_replaying(zilog, tx) || node->unlinked)
		return;
	itx_t *itx = zil_itx_create(TX_SETATTR, sizeof (lr_setattr_t));
	lr_setattr_t *lr = (lr_setattr_t *)&itx->itx_lr;
	lr->lr_foid = node->object;
	lr->lr_mask = SETATTR_SIZE;
	lr->lr_size = size;
	itx->itx_sync = B_FALSE;
	zil_itx_assign(zilog, itx, tx);
}

/* ---- what the log asks back ---- */

static void
got_data(zgd_t *zgd, int error)
{
	pw_node_t *node = zgd->zgd_private;
	(void) error;
	if (zgd->zgd_db != NULL)
		dmu_buf_rele(zgd->zgd_db, zgd);
	zfs_rangelock_exit(zgd->zgd_lr);
	/*
	 * The last reference of an unlinked node frees its object, and that opens a transaction, which a thread of
	 * the log must not do. pw_log_get_data refuses unlinked nodes, and one that is unlinked since stays in the
	 * delete queue until the next open.
	 */
	mutex_enter(&node->ds->lock);
	int last = node->refs == 1;
	if (last)
		node->unlinked = 0;
	mutex_exit(&node->ds->lock);
	pw_node_release(node);
	kmem_free(zgd, sizeof (zgd_t));
}

/* The block is locked whole, so that nobody changes it while it is written and its checksum taken. */
static int
get_indirect(pw_node_t *node, zgd_t *zgd, lr_write_t *lr, zio_t *zio)
{
	uint64_t size, offset;
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
	error = dmu_sync(zio, lr->lr_common.lrc_txg, got_data, zgd);
	if (error == 0)
		return (-1);		/* got_data is called when the block is on disk */
	if (error == EALREADY) {	/* it is on its way with its txg; the record relies on an earlier one's data */
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
	int error = pw_node_get(ds, lr->lr_foid, &node);
	if (error != 0)
		return (ENOENT);
	if (node->unlinked || node->gen != gen) {
		pw_node_release(node);
		return (ENOENT);
	}
	zgd_t *zgd = kmem_zalloc(sizeof (zgd_t), KM_SLEEP);
	zgd->zgd_lwb = lwb;
	zgd->zgd_private = node;
	if (buf != NULL) {
		zgd->zgd_lr = zfs_rangelock_enter(&node->range, lr->lr_offset, lr->lr_length, RL_READER);
		error = lr->lr_offset >= node->size ? ENOENT :
		    dmu_read_by_dnode(node->dn, lr->lr_offset, lr->lr_length, buf, DMU_READ_NO_PREFETCH);
	} else {
		error = get_indirect(node, zgd, lr, zio);
		if (error == -1)
			return (0);
	}
	got_data(zgd, error);
	return (error);
}

/* ---- playing back ---- */

/* Ticks a record off that changes nothing: the log counts one transaction for each. */
static int
tick_off(pw_dataset_t *ds)
{
	dmu_tx_t *tx = dmu_tx_create(ds->os);
	int error = dmu_tx_assign(tx, DMU_TX_WAIT);
	if (error != 0) {
		dmu_tx_abort(tx);
		return (error);
	}
	(void) zil_replaying(ds->zilog, tx);
	dmu_tx_commit(tx);
	return (0);
}

static int
replay_create(void *arg1, void *arg2, boolean_t byteswap)
{
	pw_dataset_t *ds = arg1;
	lr_create_t *record = arg2;
	uint64_t object;
	if (byteswap || record->lr_create.lr_doid != ds->root)
		return (ENOTSUP);
	ds->replayed++;
	if (pw_node_lookup(ds, (char *)record->lr_data, &object) == 0)
		return (tick_off(ds));
	return (pw_create_object(ds, (char *)record->lr_data, record, 0, &object));
}

static int
replay_remove(void *arg1, void *arg2, boolean_t byteswap)
{
	pw_dataset_t *ds = arg1;
	lr_remove_t *lr = arg2;
	if (byteswap || lr->lr_doid != ds->root)
		return (ENOTSUP);
	ds->replayed++;
	int error = pw_file_remove(ds, (char *)lr->lr_data);
	return (error == ENOENT ? tick_off(ds) : error);
}

static int
with_node(pw_dataset_t *ds, uint64_t object, pw_node_t **node)
{
	ds->replayed++;
	return (pw_node_get(ds, object, node));
}

static int
replay_write(void *arg1, void *arg2, boolean_t byteswap)
{
	pw_dataset_t *ds = arg1;
	lr_write_t *lr = arg2;
	pw_node_t *node;
	uint64_t offset = lr->lr_offset, len = lr->lr_length, end = offset + len;

	if (byteswap)
		return (ENOTSUP);
	if (with_node(ds, lr->lr_foid, &node) != 0)
		return (tick_off(ds));	/* removed later in the same log */
	if (lr->lr_common.lrc_reclen == sizeof (lr_write_t)) {
		/* An indirect record brings its whole block; the file may still end inside it. */
		uint64_t block = BP_GET_LSIZE(&lr->lr_blkptr);
		if (len < block) {
			offset -= offset % block;
			len = block;
		}
	}
	end = MAX(end, node->size);
	if (offset + len > end)
		len = end - offset;
	int error = pw_write_range(node, offset, lr->lr_data, len, 0, end);
	pw_node_release(node);
	return (error);
}

static int
replay_write2(void *arg1, void *arg2, boolean_t byteswap)
{
	pw_dataset_t *ds = arg1;
	lr_write_t *lr = arg2;
	pw_node_t *node;
	if (byteswap)
		return (ENOTSUP);
	if (with_node(ds, lr->lr_foid, &node) != 0)
		return (tick_off(ds));
	int error = lr->lr_offset + lr->lr_length > node->size ?
	    pw_set_size(node, lr->lr_offset + lr->lr_length) : tick_off(ds);
	pw_node_release(node);
	return (error);
}

static int
replay_truncate(void *arg1, void *arg2, boolean_t byteswap)
{
	pw_dataset_t *ds = arg1;
	lr_truncate_t *lr = arg2;
	pw_node_t *node;
	if (byteswap)
		return (ENOTSUP);
	if (with_node(ds, lr->lr_foid, &node) != 0)
		return (tick_off(ds));
	int error = pw_free_range(node, lr->lr_offset, lr->lr_length);
	pw_node_release(node);
	return (error);
}

static int
replay_setattr(void *arg1, void *arg2, boolean_t byteswap)
{
	pw_dataset_t *ds = arg1;
	lr_setattr_t *lr = arg2;
	pw_node_t *node;
	if (byteswap || lr->lr_mask != SETATTR_SIZE)
		return (ENOTSUP);
	if (with_node(ds, lr->lr_foid, &node) != 0)
		return (tick_off(ds));
	int error = pw_set_size(node, lr->lr_size);
	pw_node_release(node);
	return (error);
}

static int
refuse(void *arg1, void *arg2, boolean_t byteswap)
{
	(void) arg1;
	(void) arg2;
	(void) byteswap;
	return (ENOTSUP);
}

zil_replay_func_t *const pw_log_replay[TX_MAX_TYPE] = {
	[0 ... TX_MAX_TYPE - 1] = refuse,
	[TX_CREATE] = replay_create,
	[TX_REMOVE] = replay_remove,
	[TX_WRITE] = replay_write,
	[TX_WRITE2] = replay_write2,
	[TX_TRUNCATE] = replay_truncate,
	[TX_SETATTR] = replay_setattr,
};
