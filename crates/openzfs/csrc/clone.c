/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Copies a range of one file to another inside the engine: by block cloning wherever a kernel would clone, otherwise
 * by reading and writing.
 */

#include <sys/stat.h>
#include <sys/zfs_context.h>
#include <sys/spa.h>
#include <sys/brt.h>
#include <sys/dsl_pool.h>
#include <sys/txg.h>
#include <sys/zfeature.h>

#include "internal.h"

enum {
	PIECE = 1 << 20,		/* bytes read and written at once, unless a record is larger */
	MOST_COPIED = 16 << 20,		/* bytes per call: the caller repeats the call, and can be interrupted in between */
	MOST_CLONED = 64 << 20,		/* bytes per transaction */
	WORTH_A_TXG = 4 << 20,		/* from this length on, wait for a dirty source; shorter ranges are copied faster */
};

/* ---- cloning ---- */

/*
 * Adds block pointers to a file in one transaction: for a clone, or for a replayed record of one. The caller holds
 * the range lock, of the whole file if its block must grow to `block`.
 */
int
pw_clone_blocks(pw_node_t *node, uint64_t offset, uint64_t len, uint64_t block, const blkptr_t *bps, size_t nbps)
{
	objset_t *os = node->ds->os;
	int grow = node->dn->dn_datablksz < block;
	dmu_tx_t *tx = dmu_tx_create(os);
	dmu_tx_hold_sa(tx, node->sa, B_FALSE);
	if (grow)	/* the first block is rewritten in its new size */
		dmu_tx_hold_write_by_dnode(tx, node->dn, 0, 1);
#ifdef PW_HOLD_CLONE_HAS_BLKSZ
	dmu_tx_hold_clone_by_dnode(tx, node->dn, offset, len, (uint_t)block);
#else
	dmu_tx_hold_clone_by_dnode(tx, node->dn, offset, (int)len);
#endif
	int error = dmu_tx_assign(tx, DMU_TX_WAIT);
	if (error != 0) {
		dmu_tx_abort(tx);
		return (error);
	}
	if (grow)
		error = dmu_object_set_blocksize(os, node->object, block, 0, tx);
	if (error == 0)
		error = dmu_brt_clone(os, node->object, offset, len, tx, bps, nbps);
	if (error == 0) {
		mutex_enter(&node->lock);
		node->size = MAX(node->size, offset + len);
		mutex_exit(&node->lock);
		error = pw_attr_touch(node, 1, tx);
		pw_log_clone(node, tx, offset, len, block, bps, nbps);
	}
	dmu_tx_commit(tx);
	return (error);
}

/*
 * Returns how many bytes can be cloned from here, by the rules of a kernel's zfs_clone_range(); 0 if none. Block
 * sizes must be equal, unless the target's can still grow to the source's. Everything is aligned to blocks, except
 * the end of both files. A single small block must not fix the block size of a file that continues after it.
 */
static uint64_t
cloneable(pw_node_t *in, uint64_t in_off, pw_node_t *out, uint64_t out_off, uint64_t len)
{
	uint64_t block = in->dn->dn_datablksz, own = out->dn->dn_datablksz;
	spa_t *spa = out->ds->os->os_spa;

	if (in->ds->os->os_spa != spa || !spa_feature_is_enabled(spa, SPA_FEATURE_BLOCK_CLONING))
		return (0);
	if (own != block && (own > block || out->size > own))
		return (0);
	if (in_off % block != 0 || out_off % block != 0 || (out_off != 0 && !ISP2(block)))
		return (0);
	if (in_off >= in->size)
		return (0);
	len = MIN(len, in->size - in_off);
	if (in_off + len < in->size || out_off + len < out->size)
		len -= len % block;
	if (len <= block && block < out->ds->os->os_recordsize && out->size <= block && out_off + len > block)
		return (0);
	return (len);
}

typedef struct { zfs_locked_range_t *in, *out; int whole; } both_t;

/*
 * Locks in the order of object numbers. A target of one block is locked whole, because that block may have to grow.
 */
static both_t
lock_both(pw_node_t *in, uint64_t in_off, pw_node_t *out, uint64_t out_off, uint64_t len)
{
	uint64_t block = in->dn->dn_datablksz;
	both_t b = { .whole = in == out || out->size <= out->dn->dn_datablksz };
	uint64_t from = b.whole ? 0 : out_off;
	uint64_t to = b.whole ? UINT64_MAX : roundup(len, block);

	if (in != out && in->object < out->object)
		b.in = zfs_rangelock_enter(&in->range, in_off, len, RL_READER);
	b.out = zfs_rangelock_enter(&out->range, from, to, RL_WRITER);
	if (in != out && in->object >= out->object)
		b.in = zfs_rangelock_enter(&in->range, in_off, len, RL_READER);
	return (b);
}

/*
 * A block that is not yet on disk has no pointer: EAGAIN. A large range waits for the transaction group, as a kernel
 * does by default; the source stays locked, so that it cannot become dirty again.
 */
static int
clone_locked(pw_node_t *in, uint64_t in_off, pw_node_t *out, uint64_t out_off, uint64_t len, uint64_t *done)
{
	uint64_t block = in->dn->dn_datablksz;
	size_t most = zil_max_log_data(out->ds->zilog, sizeof (lr_clone_range_t)) / sizeof (blkptr_t);
	most = MIN(most, MOST_CLONED / block);
	blkptr_t *bps = umem_alloc(most * sizeof (blkptr_t), UMEM_NOFAIL);
	dsl_pool_t *dp = dmu_objset_pool(in->ds->os);
	int error = 0;

	while (*done != len && error == 0) {
		uint64_t n = MIN(len - *done, most * block);
		uint64_t synced = spa_last_synced_txg(dp->dp_spa);
		size_t nbps = most;
		error = dmu_read_l0_bps(in->ds->os, in->object, in_off + *done, n, bps, &nbps);
		if (error == EAGAIN && len - *done >= WORTH_A_TXG) {
			txg_wait_synced(dp, synced + 1);
			error = 0;
			continue;
		}
		if (error == 0)
			error = pw_clone_blocks(out, out_off + *done, n, block, bps, nbps);
		if (error == 0)
			*done += n;
	}
	umem_free(bps, most * sizeof (blkptr_t));
	return (error);
}

/* Clones as much as possible from here. *done is 0 if nothing can be cloned, and the caller copies the bytes. */
static int
clone_some(pw_node_t *in, uint64_t in_off, pw_node_t *out, uint64_t out_off, uint64_t len, uint64_t *done)
{
	*done = 0;
	if (cloneable(in, in_off, out, out_off, len) == 0)
		return (0);
	both_t locks = lock_both(in, in_off, out, out_off, len);
	uint64_t n = cloneable(in, in_off, out, out_off, len);	/* with the locks held, the answer cannot change */
	int error = 0;
	if (n != 0 && (locks.whole || out->dn->dn_datablksz == in->dn->dn_datablksz))
		error = clone_locked(in, in_off, out, out_off, n, done);
	if (locks.in != NULL)
		zfs_rangelock_exit(locks.in);
	zfs_rangelock_exit(locks.out);
	/*
	 * ENOSPC, EDQUOT and EIO are returned to the caller. After any other error the bytes are copied, as in a
	 * kernel.
	 */
	return (error == ENOSPC || error == EDQUOT || error == EIO ? error : 0);
}

/* ---- copying ---- */

/* Copies up to the next place where cloning may work, or a part that ends at a record boundary. */
static uint64_t
piece(pw_node_t *in, uint64_t in_off, uint64_t out_off, uint64_t len, uint64_t most)
{
	uint64_t block = in->dn->dn_datablksz, into = out_off % block;
	if (into != 0 && in_off % block == into)
		len = MIN(len, block - into);
	return (MIN(len, most - out_off % most));
}

static int
copy_piece(pw_node_t *in, uint64_t in_off, pw_node_t *out, uint64_t out_off, uint64_t *len)
{
	uint64_t room = *len;
	void *bytes = umem_alloc(room, UMEM_NOFAIL);
	int error = pw_file_read(in, in_off, bytes, room, 0, len);
	if (error == 0 && *len != 0)
		error = pw_write_range(out, out_off, bytes, *len, 0, 0);
	umem_free(bytes, room);
	return (error);
}

/* Overlapping ranges of one file are an error, as in copy_file_range(2). */
static int
may_copy(pw_node_t *in, uint64_t in_off, pw_node_t *out, uint64_t out_off, uint64_t len)
{
	int error = pw_may_write(out, out_off, len);
	if (error != 0)
		return (error);
	if (!S_ISREG(in->mode))
		return (pw_node_is_dir(in) ? EISDIR : EINVAL);
	return (in == out && in_off < out_off + len && out_off < in_off + len ? EINVAL : 0);
}

int
pw_file_copy(pw_node_t *in, uint64_t in_off, pw_node_t *out, uint64_t out_off, uint64_t len, int sync, uint64_t *done)
{
	uint64_t copied = 0;

	*done = 0;
	len = in_off >= in->size ? 0 : MIN(len, in->size - in_off);
	int error = may_copy(in, in_off, out, out_off, len);
	while (error == 0 && *done != len && copied < MOST_COPIED) {
		uint64_t from = in_off + *done, to = out_off + *done, n;
		error = clone_some(in, from, out, to, len - *done, &n);
		if (error == 0 && n == 0) {
			n = piece(in, from, to, len - *done, MAX(PIECE, out->dn->dn_datablksz));
			error = copy_piece(in, from, out, to, &n);
			if (error == 0 && n == 0)	/* another thread made the source shorter */
				break;
			copied += n;
		}
		if (error == 0)
			*done += n;
	}
	if (*done == 0)
		return (error);
	return (pw_log_settle(out->ds, out->object, 0, sync));	/* the next call for the rest returns the error */
}
