/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Playing the intent log back when a dataset is opened after a crash. Records come in their order; each is one
 * transaction, which ticks it off, even where nothing is left to do.
 *
 * Replay stops at the first record that fails, and the rest of the log is thrown away then. So the whole log is read
 * first, and a dataset whose log holds a kind of record that is not played back here is refused with its log left as
 * it is: a kernel can still play it back.
 */

#include <sys/stat.h>
#include <sys/zfs_context.h>
#include <sys/dmu_tx.h>
#include <sys/spa.h>
#include <sys/zfs_znode.h>

#include "internal.h"

/* What a record may ask for; a kernel adds ATTR_CTIME and, for ftruncate(2), ATTR_FILE, which say nothing new. */
enum { SETATTR_SETS = PW_SET_MODE | PW_SET_UID | PW_SET_GID | PW_SET_SIZE | PW_SET_ATIME | PW_SET_MTIME };
enum { SETATTR_KNOWN = SETATTR_SETS | 1 << 6 | 1 << 13 };

/* ---- reading it first ---- */

static int
known_block(zilog_t *zilog, const blkptr_t *bp, void *arg, uint64_t txg)
{
	(void) zilog; (void) bp; (void) arg; (void) txg;
	return (0);
}

static int
known_record(zilog_t *zilog, const lr_t *lr, void *arg, uint64_t txg)
{
	(void) zilog; (void) txg;
	switch (lr->lrc_txtype) {
	case TX_CREATE: case TX_MKDIR: case TX_SYMLINK: case TX_REMOVE: case TX_RMDIR: case TX_LINK: case TX_RENAME:
	case TX_RENAME_EXCHANGE: case TX_RENAME_WHITEOUT: case TX_WRITE: case TX_WRITE2: case TX_TRUNCATE:
	case TX_SETSAXATTR: case TX_CLONE_RANGE:
		return (0);
	case TX_SETATTR:
		if ((((const lr_setattr_t *)lr)->lr_mask & ~(uint64_t)SETATTR_KNOWN) == 0)
			return (0);
		break;
	}
	*(int *)arg = ENOTSUP;
	return (0);
}

int
pw_replay_check(pw_dataset_t *ds)
{
	zilog_t *zilog = dmu_objset_zil(ds->os);
	int unknown = 0;
	if (!(zilog->zl_header->zh_flags & ZIL_REPLAY_NEEDED))
		return (0);
	(void) zil_parse(zilog, known_block, known_record, &unknown, zilog->zl_header->zh_claim_txg, B_FALSE);
	return (unknown);
}

/* ---- playing it back ---- */

/* Ticks a record off that changes nothing: what it concerns is gone by a later record, or was done already. */
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

/* The result of an operation that may find its work done or its object gone. */
static int
done(pw_dataset_t *ds, int error)
{
	return (error == ENOENT || error == ESTALE || error == EEXIST ? tick_off(ds) : error);
}

static pw_made_t
made_of(const _lr_create_t *lr)
{
	return ((pw_made_t) {
		.object = LR_FOID_GET_OBJ(lr->lr_foid),
		.dnode_size = LR_FOID_GET_SLOTS(lr->lr_foid) << DNODE_SHIFT,
		.gen = lr->lr_gen, .mode = lr->lr_mode, .uid = lr->lr_uid, .gid = lr->lr_gid, .rdev = lr->lr_rdev,
		.crtime = { lr->lr_crtime[0], lr->lr_crtime[1] },
	});
}

static int
replay_create(void *arg1, void *arg2, boolean_t byteswap)
{
	pw_dataset_t *ds = arg1;
	lr_create_t *lr = arg2;
	const char *name = (char *)lr->lr_data;
	pw_made_t made = made_of(&lr->lr_create);
	pw_node_t *dir;

	if (byteswap)
		return (ENOTSUP);
	ds->replayed++;
	if (lr->lr_create.lr_common.lrc_txtype == TX_SYMLINK)
		made.target = name + strlen(name) + 1;
	int error = pw_node_get(ds, lr->lr_create.lr_doid, &dir);
	if (error != 0)
		return (done(ds, error));
	uint64_t there;
	if (pw_dir_find(dir, name, &there) == 0) {
		error = tick_off(ds);
	} else {
		/* A number that was freed in this txg cannot be claimed yet: the log waits for the txg and tries again. */
		error = dnode_try_claim(ds->os, made.object, (int)(made.dnode_size >> DNODE_SHIFT));
		if (error == 0)
			error = pw_dir_make_as(dir, name, &made);
	}
	pw_node_release(dir);
	return (error);
}

static int
replay_remove(void *arg1, void *arg2, boolean_t byteswap)
{
	pw_dataset_t *ds = arg1;
	lr_remove_t *lr = arg2;
	pw_node_t *dir;
	uint64_t gone;

	if (byteswap)
		return (ENOTSUP);
	ds->replayed++;
	int error = pw_node_get(ds, lr->lr_doid, &dir);
	if (error != 0)
		return (done(ds, error));
	error = pw_name_remove(dir, (char *)lr->lr_data, lr->lr_common.lrc_txtype == TX_RMDIR, &gone);
	pw_node_release(dir);
	return (done(ds, error));
}

static int
replay_link(void *arg1, void *arg2, boolean_t byteswap)
{
	pw_dataset_t *ds = arg1;
	lr_link_t *lr = arg2;
	pw_node_t *dir, *node;

	if (byteswap)
		return (ENOTSUP);
	ds->replayed++;
	int error = pw_node_get(ds, lr->lr_doid, &dir);
	if (error != 0)
		return (done(ds, error));
	if ((error = pw_node_get(ds, lr->lr_link_obj, &node)) == 0) {
		error = pw_name_link(dir, (char *)lr->lr_data, node);
		pw_node_release(node);
	}
	pw_node_release(dir);
	return (done(ds, error));
}

static int
rename_by(pw_dataset_t *ds, const _lr_rename_t *lr, const char *names, uint32_t flags, pw_made_t *whiteout)
{
	pw_node_t *from, *to;
	uint64_t gone;

	ds->replayed++;
	int error = pw_node_get(ds, lr->lr_sdoid, &from);
	if (error != 0)
		return (done(ds, error));
	if ((error = pw_node_get(ds, lr->lr_tdoid, &to)) == 0) {
		error = pw_name_rename_as(from, names, to, names + strlen(names) + 1, flags, whiteout, &gone);
		pw_node_release(to);
	}
	pw_node_release(from);
	return (done(ds, error));
}

static int
replay_rename(void *arg1, void *arg2, boolean_t byteswap)
{
	lr_rename_t *lr = arg2;
	int exchange = lr->lr_rename.lr_common.lrc_txtype == TX_RENAME_EXCHANGE;
	return (byteswap ? ENOTSUP :
	    rename_by(arg1, &lr->lr_rename, (char *)lr->lr_data, exchange ? PW_RENAME_EXCHANGE : 0, NULL));
}

static int
replay_rename_whiteout(void *arg1, void *arg2, boolean_t byteswap)
{
	lr_rename_whiteout_t *lr = arg2;
	pw_made_t made = {
		.object = LR_FOID_GET_OBJ(lr->lr_wfoid),
		.dnode_size = LR_FOID_GET_SLOTS(lr->lr_wfoid) << DNODE_SHIFT,
		.gen = lr->lr_wgen, .mode = lr->lr_wmode, .uid = lr->lr_wuid, .gid = lr->lr_wgid, .rdev = lr->lr_wrdev,
		.crtime = { lr->lr_wcrtime[0], lr->lr_wcrtime[1] },
	};
	return (byteswap ? ENOTSUP :
	    rename_by(arg1, &lr->lr_rename, (char *)lr->lr_data, PW_RENAME_WHITEOUT, &made));
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
		/*
		 * An indirect record brings its whole block, and all of it is wanted, even what lies behind the file's
		 * end: a later write to the same block may be in the log as a mere TX_WRITE2, with its bytes only here.
		 */
		uint64_t block = BP_GET_LSIZE(&lr->lr_blkptr);
		if (len < block) {
			offset -= offset % block;
			len = block;
		}
	}
	end = MAX(end, node->size);
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
	    pw_set_size(node, lr->lr_offset + lr->lr_length, 1) : tick_off(ds);
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
	/* Length 0: everything behind the offset, and the file ends there. */
	int error = lr->lr_length == 0 ? pw_set_size(node, lr->lr_offset, 1) :
	    pw_free_range(node, lr->lr_offset, lr->lr_length);
	pw_node_release(node);
	return (error);
}

static int
replay_setattr(void *arg1, void *arg2, boolean_t byteswap)
{
	pw_dataset_t *ds = arg1;
	lr_setattr_t *lr = arg2;
	pw_node_t *node;
	if (byteswap || (lr->lr_mask & ~(uint64_t)SETATTR_KNOWN) != 0)
		return (ENOTSUP);
	if (with_node(ds, lr->lr_foid, &node) != 0)
		return (tick_off(ds));
	pw_set_t set = {
		.mask = lr->lr_mask & SETATTR_SETS, .mode = lr->lr_mode, .uid = lr->lr_uid, .gid = lr->lr_gid,
		.size = lr->lr_size, .atime = { lr->lr_atime[0], lr->lr_atime[1] },
		.mtime = { lr->lr_mtime[0], lr->lr_mtime[1] },
	};
	int error = pw_attr_set(node, &set);
	pw_node_release(node);
	return (error);
}

static int
replay_xattr(void *arg1, void *arg2, boolean_t byteswap)
{
	pw_dataset_t *ds = arg1;
	lr_setsaxattr_t *lr = arg2;
	pw_node_t *node;
	if (byteswap)
		return (ENOTSUP);
	if (with_node(ds, lr->lr_foid, &node) != 0)
		return (tick_off(ds));
	const char *name = (char *)lr->lr_data;
	int error = lr->lr_size == 0 ? pw_xattr_remove(node, name) :
	    pw_xattr_set(node, name, name + strlen(name) + 1, lr->lr_size, 0);
	pw_node_release(node);
	return (error == ENODATA ? tick_off(ds) : error);
}

/* A kernel's block clone: the pointers in the record are entered as they are, and counted in the clone table. */
static int
replay_clone(void *arg1, void *arg2, boolean_t byteswap)
{
	pw_dataset_t *ds = arg1;
	lr_clone_range_t *lr = arg2;
	pw_node_t *node;
	if (byteswap)
		return (ENOTSUP);
	if (with_node(ds, lr->lr_foid, &node) != 0)
		return (tick_off(ds));
	uint64_t end = lr->lr_offset + lr->lr_length;
	zfs_locked_range_t *lock = zfs_rangelock_enter(&node->range, 0, UINT64_MAX, RL_WRITER);
	dmu_tx_t *tx = dmu_tx_create(ds->os);
	dmu_tx_hold_sa(tx, node->sa, B_FALSE);
#ifdef PW_HOLD_CLONE_HAS_BLKSZ
	dmu_tx_hold_clone_by_dnode(tx, node->dn, lr->lr_offset, lr->lr_length, (uint_t)lr->lr_blksz);
#else
	dmu_tx_hold_clone_by_dnode(tx, node->dn, lr->lr_offset, (int)lr->lr_length);
#endif
	int error = dmu_tx_assign(tx, DMU_TX_WAIT);
	if (error != 0) {
		dmu_tx_abort(tx);
	} else {
		if (node->dn->dn_datablksz < lr->lr_blksz)
			(void) dmu_object_set_blocksize(ds->os, node->object, lr->lr_blksz, 0, tx);
		error = dmu_brt_clone(ds->os, node->object, lr->lr_offset, lr->lr_length, tx, lr->lr_bps, lr->lr_nbps);
		if (error == 0) {
			mutex_enter(&node->lock);
			node->size = MAX(node->size, end);
			mutex_exit(&node->lock);
			error = pw_attr_touch(node, 1, tx);
		}
		(void) zil_replaying(ds->zilog, tx);
		dmu_tx_commit(tx);
	}
	zfs_rangelock_exit(lock);
	pw_node_release(node);
	return (error);
}

static int
refuse(void *arg1, void *arg2, boolean_t byteswap)
{
	(void) arg1; (void) arg2; (void) byteswap;
	return (ENOTSUP);
}

zil_replay_func_t *const pw_replay[TX_MAX_TYPE] = {
	[0 ... TX_MAX_TYPE - 1] = refuse,
	[TX_CREATE] = replay_create,
	[TX_MKDIR] = replay_create,
	[TX_SYMLINK] = replay_create,
	[TX_REMOVE] = replay_remove,
	[TX_RMDIR] = replay_remove,
	[TX_LINK] = replay_link,
	[TX_RENAME] = replay_rename,
	[TX_RENAME_EXCHANGE] = replay_rename,
	[TX_RENAME_WHITEOUT] = replay_rename_whiteout,
	[TX_WRITE] = replay_write,
	[TX_WRITE2] = replay_write2,
	[TX_TRUNCATE] = replay_truncate,
	[TX_SETATTR] = replay_setattr,
	[TX_SETSAXATTR] = replay_xattr,
	[TX_CLONE_RANGE] = replay_clone,
};
