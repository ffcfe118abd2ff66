/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Replays the intent log when a dataset is opened after a crash. Records are replayed in order. Each is one
 * transaction, which marks the record as replayed even if nothing was left to do. log_check.c has read the whole log
 * before.
 *
 * The library's zil_replay() discards the log at the first record that fails. This engine keeps it, with the replayed
 * records marked, so that the next import, or a kernel, continues where this one stopped.
 */

#include <sys/stat.h>
#include <sys/zfs_context.h>
#include <sys/dmu_tx.h>
#include <sys/dsl_pool.h>
#include <sys/spa.h>
#include <sys/zfs_znode.h>

#include "internal.h"

/*
 * Marks a record that changes nothing as replayed: a later record removed its object, or the change was made already.
 */
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

/* The result of an operation whose object a later record of the same log may have removed. */
static int
done(pw_dataset_t *ds, int error)
{
	return (error == ENOENT || error == ESTALE ? tick_off(ds) : error);
}

/* ---- what a name became: the first node is the directory ---- */

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

/* The fields of a whiteout are those of a creation, from its number to its device. */
static pw_made_t
whiteout_of(const lr_rename_whiteout_t *lr)
{
	_lr_create_t create;
	_Static_assert(offsetof(lr_rename_whiteout_t, lr_data) - offsetof(lr_rename_whiteout_t, lr_wfoid) ==
	    sizeof (create) - offsetof(_lr_create_t, lr_foid), "a whiteout has the fields of a creation");
	memcpy(&create.lr_foid, &lr->lr_wfoid, sizeof (create) - offsetof(_lr_create_t, lr_foid));
	return (made_of(&create));
}

static int
play_create(pw_node_t *dir, void *record)
{
	lr_create_t *lr = record;
	const char *name = (char *)lr->lr_data;
	pw_made_t made = made_of(&lr->lr_create);
	uint64_t there;

	if (lr->lr_create.lr_common.lrc_txtype == TX_SYMLINK)
		made.target = name + strlen(name) + 1;
	int error = pw_dir_find(dir, name, &there);
	if (error == 0)
		return (there == made.object ? tick_off(dir->ds) : EEXIST);
	if (error != ENOENT)
		return (error);
	/* A number that was freed in this txg cannot be claimed yet: see replay_record(). */
	error = dnode_try_claim(dir->ds->os, made.object, (int)(made.dnode_size >> DNODE_SHIFT));
	return (error != 0 ? error : pw_dir_make_as(dir, name, &made));
}

static int
play_remove(pw_node_t *dir, void *record)
{
	lr_remove_t *lr = record;
	uint64_t gone;
	return (done(dir->ds,
	    pw_name_remove(dir, (char *)lr->lr_data, lr->lr_common.lrc_txtype == TX_RMDIR, &gone)));
}

static int
play_link(pw_node_t *dir, void *record)
{
	lr_link_t *lr = record;
	pw_node_t *node;
	int error = pw_node_get(dir->ds, lr->lr_link_obj, &node);
	if (error == 0) {
		error = pw_name_link(dir, (char *)lr->lr_data, node);
		pw_node_release(node);
	}
	return (done(dir->ds, error));
}

static int
rename_by(pw_node_t *from, const _lr_rename_t *lr, const char *names, uint32_t flags, pw_made_t *whiteout)
{
	pw_node_t *to;
	uint64_t gone;
	int error = pw_node_get(from->ds, lr->lr_tdoid, &to);
	if (error == 0) {
		error = pw_name_rename_as(from, names, to, names + strlen(names) + 1, flags, whiteout, &gone);
		pw_node_release(to);
	}
	return (done(from->ds, error));
}

static int
play_rename(pw_node_t *from, void *record)
{
	lr_rename_t *lr = record;
	int exchange = lr->lr_rename.lr_common.lrc_txtype == TX_RENAME_EXCHANGE;
	return (rename_by(from, &lr->lr_rename, (char *)lr->lr_data, exchange ? PW_RENAME_EXCHANGE : 0, NULL));
}

static int
play_rename_whiteout(pw_node_t *from, void *record)
{
	lr_rename_whiteout_t *lr = record;
	pw_made_t made = whiteout_of(lr);
	return (rename_by(from, &lr->lr_rename, (char *)lr->lr_data, PW_RENAME_WHITEOUT, &made));
}

/* ---- what became of a node ---- */

static int
play_write(pw_node_t *node, void *record)
{
	lr_write_t *lr = record;
	uint64_t offset = lr->lr_offset, len = lr->lr_length, end = offset + len;

	if (lr->lr_common.lrc_reclen == sizeof (lr_write_t)) {
		/*
		 * An indirect record contains its whole block, and all of it is needed, even the part after the
		 * file's end: a later write to the same block may be in the log as a TX_WRITE2, whose bytes are only
		 * in this block.
		 */
		uint64_t block = BP_GET_LSIZE(&lr->lr_blkptr);	/* 0 in some holes */
		if (len < block) {
			offset -= offset % block;
			len = block;
		}
	}
	return (pw_write_range(node, offset, lr->lr_data, len, 0, MAX(end, node->size)));
}

static int
play_write2(pw_node_t *node, void *record)
{
	lr_write_t *lr = record;
	uint64_t end = lr->lr_offset + lr->lr_length;
	return (end > node->size ? pw_set_size(node, end, 1) : tick_off(node->ds));
}

/* Length 0: free everything from the offset, where the file then ends. */
static int
play_truncate(pw_node_t *node, void *record)
{
	lr_truncate_t *lr = record;
	return (lr->lr_length == 0 ? pw_set_size(node, lr->lr_offset, 1) :
	    pw_free_range(node, lr->lr_offset, lr->lr_length));
}

static int
play_setattr(pw_node_t *node, void *record)
{
	lr_setattr_t *lr = record;
	pw_set_t set = {
		.mask = lr->lr_mask & SETATTR_SETS, .mode = lr->lr_mode, .uid = lr->lr_uid, .gid = lr->lr_gid,
		.size = lr->lr_size, .atime = { lr->lr_atime[0], lr->lr_atime[1] },
		.mtime = { lr->lr_mtime[0], lr->lr_mtime[1] },
	};
	return (pw_attr_set(node, &set));
}

static int
play_xattr(pw_node_t *node, void *record)
{
	lr_setsaxattr_t *lr = record;
	const char *name = (char *)lr->lr_data;
	int error = lr->lr_size == 0 ? pw_xattr_remove(node, name) :
	    pw_xattr_set(node, name, name + strlen(name) + 1, lr->lr_size, 0);
	return (error == ENODATA ? tick_off(node->ds) : error);
}

/* A block clone: the pointers in the record are entered unchanged, and counted in the clone table. */
static int
play_clone(pw_node_t *node, void *record)
{
	lr_clone_range_t *lr = record;
	zfs_locked_range_t *lock = zfs_rangelock_enter(&node->range, 0, UINT64_MAX, RL_WRITER);
	int error = pw_clone_blocks(node, lr->lr_offset, lr->lr_length, lr->lr_blksz, lr->lr_bps, lr->lr_nbps);
	zfs_rangelock_exit(lock);
	return (error);
}

/* ---- the table ---- */

typedef int play_t(pw_node_t *node, void *record);

static play_t *const plays[TX_MAX_TYPE] = {
	[TX_CREATE] = play_create,
	[TX_MKDIR] = play_create,
	[TX_SYMLINK] = play_create,
	[TX_REMOVE] = play_remove,
	[TX_RMDIR] = play_remove,
	[TX_LINK] = play_link,
	[TX_RENAME] = play_rename,
	[TX_RENAME_EXCHANGE] = play_rename,
	[TX_RENAME_WHITEOUT] = play_rename_whiteout,
	[TX_WRITE] = play_write,
	[TX_WRITE2] = play_write2,
	[TX_TRUNCATE] = play_truncate,
	[TX_SETATTR] = play_setattr,
	[TX_SETSAXATTR] = play_xattr,
	[TX_CLONE_RANGE] = play_clone,
};

/* ---- the log ---- */

typedef struct {
	pw_dataset_t *ds;
	char *record;			/* a copy, with room for the block that a write points to */
} replay_t;

/*
 * Every record starts with the number of a node. A missing node was removed later in the same log. Any other error
 * ends the replay.
 */
static int
play(pw_dataset_t *ds, void *record)
{
	const lr_ooo_t *lr = record;
	pw_node_t *node;

	int error = pw_node_get(ds, LR_FOID_GET_OBJ(lr->lr_foid), &node);
	if (error != 0)
		return (done(ds, error));
	error = plays[lr->lr_common.lrc_txtype](node, record);
	pw_node_release(node);
	return (error);
}

static int
replay_record(zilog_t *zilog, const lr_t *lr, void *arg, uint64_t claim_txg)
{
	replay_t *r = arg;
	pw_dataset_t *ds = r->ds;

	zilog->zl_replaying_seq = lr->lrc_seq;
	if (pw_log_is_done(zilog, lr, claim_txg))
		return (0);
	memcpy(r->record, lr, lr->lrc_reclen);
	if (lr->lrc_txtype == TX_WRITE && lr->lrc_reclen == sizeof (lr_write_t)) {
		int error = pw_log_read_block(ds, (const lr_write_t *)lr, r->record + lr->lrc_reclen);
		if (error != 0)
			return (error);
	}
	ds->replayed++;
	int error = play(ds, r->record);
	if (error != 0) {
		/* Objects freed in this txg can be claimed once it is on disk. */
		txg_wait_synced(dmu_objset_pool(ds->os), 0);
		memcpy(r->record, lr, lr->lrc_reclen);
		error = play(ds, r->record);
	}
	return (error == 0 ? 0 : pw_log_refuse(ds, lr, error, "a record cannot be replayed"));
}

int
pw_log_replay(pw_dataset_t *ds)
{
	zilog_t *zilog = ds->zilog;
	dsl_pool_t *dp = dmu_objset_pool(ds->os);
	replay_t replay = { .ds = ds };

	if (!(zilog->zl_header->zh_flags & ZIL_REPLAY_NEEDED)) {
		(void) zil_destroy(zilog, B_TRUE);
		return (0);
	}
	replay.record = vmem_alloc(2 * SPA_MAXBLOCKSIZE, KM_SLEEP);
	/* Removals of the delete queue first. */
	txg_wait_synced(dp, 0);
	zilog->zl_replay = B_TRUE;
	zilog->zl_replay_time = ddi_get_lbolt();
	int error = zil_parse(zilog, pw_log_any_block, replay_record, &replay, zilog->zl_header->zh_claim_txg, B_TRUE);
	vmem_free(replay.record, 2 * SPA_MAXBLOCKSIZE);
	if (error == 0)
		(void) zil_destroy(zilog, B_FALSE);
	txg_wait_synced(dp, 0);
	zilog->zl_replay = B_FALSE;
	return (error == 0 ? 0 : pw_log_refuse(ds, NULL, error, "a block of the log cannot be read"));
}
