/* SPDX-License-Identifier: CDDL-1.0 */
/* The data of a file: read, write, truncate, punch, seek, sync. */

#include <sys/stat.h>
#include <sys/zfs_context.h>
#include <sys/dbuf.h>
#include <sys/zfs_znode.h>

#include "internal.h"
#include "kernel/cost.h"

int
pw_file_read(pw_node_t *node, uint64_t offset, void *buf, uint64_t len, int how, uint64_t *done)
{
	*done = 0;
	if (pw_node_is_dir(node))
		return (EISDIR);
	if (len == 0)
		return (0);
	zfs_locked_range_t *lock = zfs_rangelock_enter(&node->range, offset, len, RL_READER);
	uint64_t size = node->size;
	int error = 0;
	if (offset < size && (error = pw_direct_setup(node, 0, offset, len, &how)) == 0) {
		uint64_t n = MIN(len, size - offset);
		if (how & PW_VIA_DIRECT) {
			error = pw_direct_read(node, offset, buf, n, how);
		} else {
			error = dmu_read_by_dnode(node->dn, offset, n, buf, pw_dmu_flags(how));
			pw_cost_copy(n);
		}
		if (error == 0)
			*done = n;
		else if (error == ECKSUM)
			error = EIO;
	}
	zfs_rangelock_exit(lock);
	return (error);
}

/*
 * The block of a file with a single block grows with its content up to the recordsize; after that its block size is
 * fixed. A block that is larger than the recordsize, which was lowered since, may still grow to the next power of
 * two.
 */
static uint64_t
wanted_block_size(pw_node_t *node, uint64_t end)
{
	uint64_t record = node->ds->os->os_recordsize;
	uint64_t now = node->dn->dn_datablksz;
	if (node->size > now || end <= now || (ISP2(now) && now >= record))
		return (now);
	uint64_t most = now > record ? 1ULL << highbit64(now) : record;
	return (MIN(most, P2ROUNDUP_TYPED(end, SPA_MINBLOCKSIZE, uint64_t)));
}

static void
set_size_in_memory(pw_node_t *node, uint64_t size)
{
	mutex_enter(&node->lock);
	node->size = size;
	mutex_exit(&node->lock);
}

#ifdef PW_DMU_WRITE_HAS_FLAGS		/* 2.4; build.rs reads the header */
#define	WRITE_FLAGS , pw_dmu_flags(how)
#else
#define	WRITE_FLAGS
#endif

int
pw_write_cached(pw_node_t *node, uint64_t offset, const void *buf, uint64_t len, int how, dmu_tx_t *tx)
{
	pw_cost_copy(len);
	return (dmu_write_by_dnode(node->dn, offset, len, buf, tx WRITE_FLAGS));
}

/*
 * Writes one transaction's worth. `grow` is the block size to set first, or 0. `end`, if not 0, is the file's length
 * afterwards: a replayed record contains a whole block, and the bytes after the end belong to records that follow.
 */
static int
write_chunk(pw_node_t *node, uint64_t offset, const void *buf, uint64_t len, int how, uint64_t grow, uint64_t end)
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
		if (error == ENOTSUP)	/* already more than one block: the size is fixed */
			error = 0;
	}
	if (error == 0)
		error = how & PW_VIA_DIRECT ? pw_direct_write(node, offset, buf, len, how, tx) :
		    pw_write_cached(node, offset, buf, len, how, tx);
	if (error == 0) {
		if (end == 0)
			end = offset + len;
		mutex_enter(&node->lock);
		uint64_t size_before = node->size;
		int longer = end > size_before;
		if (longer)
			node->size = end;
		mutex_exit(&node->lock);
		error = pw_attr_touch(node, longer, tx);
		if (error == 0)
			pw_log_write(node, tx, offset, len, how, size_before);
		else if (longer)
			set_size_in_memory(node, size_before);
	}
	dmu_tx_commit(tx);
	return (error);
}

/* Growing the block locks the whole file; other writes lock only their own range. */
static zfs_locked_range_t *
lock_for_write(pw_node_t *node, uint64_t offset, uint64_t len)
{
	for (int whole = 0; ; whole = 1) {
		zfs_locked_range_t *lock = zfs_rangelock_enter(&node->range, whole ? 0 : offset,
		    whole ? UINT64_MAX : len, RL_WRITER);
		if (whole || wanted_block_size(node, offset + len) == node->dn->dn_datablksz)
			return (lock);
		zfs_rangelock_exit(lock);
	}
}

/*
 * The bytes of a direct write that go through the ARC, because it makes the file's block grow. A kernel writes the first
 * block only, if it can take a buffer of the ARC for it.
 */
static uint64_t
grown_by(pw_node_t *node, uint64_t offset, uint64_t len, uint64_t block)
{
	int whole = len >= block && offset >= node->size && P2PHASE(offset, block) == 0;
	return (whole && (block >= SPA_OLD_MAXBLOCKSIZE || len < 4 * block) ? block : len);
}

static int
write_locked(pw_node_t *node, uint64_t offset, const char *from, uint64_t len, int how, uint64_t end)
{
	int error = 0;
	while (len != 0 && error == 0) {
		uint64_t n = MIN(len, DMU_MAX_ACCESS >> 1);
		uint64_t block = wanted_block_size(node, offset + n);
		int grows = block != node->dn->dn_datablksz;
		if (grows && how & PW_VIA_DIRECT)
			n = grown_by(node, offset, n, block);
		error = write_chunk(node, offset, from, n, grows ? how & ~PW_VIA_DIRECT : how, grows ? block : 0, end);
		offset += n;
		from += n;
		len -= n;
	}
	return (error);
}

int
pw_write_range(pw_node_t *node, uint64_t offset, const void *buf, uint64_t len, int how, uint64_t end)
{
	zfs_locked_range_t *lock = lock_for_write(node, offset, len);
	int error = write_locked(node, offset, buf, len, how, end);
	zfs_rangelock_exit(lock);
	return (error);
}

int
pw_may_write(pw_node_t *node, uint64_t offset, uint64_t len)
{
	if (node->ds->readonly)
		return (EROFS);
	if (!S_ISREG(node->mode))
		return (pw_node_is_dir(node) ? EISDIR : EINVAL);
	return (offset > INT64_MAX || len > INT64_MAX - offset ? EFBIG : 0);
}

static int
settle(pw_node_t *node, int error, int sync)
{
	return (pw_log_settle(node->ds, node->object, error, sync));
}

int
pw_file_write(pw_node_t *node, uint64_t offset, const void *buf, uint64_t len, int how)
{
	int error = pw_may_write(node, offset, len);
	if (node->ds->os->os_sync == ZFS_SYNC_ALWAYS)
		how |= PW_IO_SYNC;
	if (error == 0 && len != 0 && (error = pw_direct_setup(node, 1, offset, len, &how)) == 0)
		error = settle(node, pw_write_range(node, offset, buf, len, how, 0), how & PW_IO_SYNC);
	return (error);
}

int
pw_file_append(pw_node_t *node, const void *buf, uint64_t len, int how, uint64_t *offset)
{
	int error = pw_may_write(node, 0, len);
	if (node->ds->os->os_sync == ZFS_SYNC_ALWAYS)
		how |= PW_IO_SYNC;
	if (error != 0)
		return (error);
	zfs_locked_range_t *lock = zfs_rangelock_enter(&node->range, 0, UINT64_MAX, RL_WRITER);
	*offset = node->size;
	error = len == 0 ? 0 : pw_direct_setup(node, 1, *offset, len, &how);
	if (error == 0)
		error = write_locked(node, *offset, buf, len, how, 0);
	zfs_rangelock_exit(lock);
	return (settle(node, error, how & PW_IO_SYNC));
}

/*
 * Frees the data after the new end, then sets the size. A crash between the two leaves the old length, and the tail
 * is sparse.
 */
static int
set_size_locked(pw_node_t *node, uint64_t size, int log)
{
	int error = 0;
	if (size < node->size)
		error = dmu_free_long_range(node->ds->os, node->object, size, DMU_OBJECT_END);
	uint64_t grow = size > node->size ? wanted_block_size(node, size) : node->dn->dn_datablksz;
	dmu_tx_t *tx = dmu_tx_create(node->ds->os);
	dmu_tx_hold_sa(tx, node->sa, B_FALSE);
	if (grow != node->dn->dn_datablksz)
		dmu_tx_hold_write_by_dnode(tx, node->dn, 0, 1);
	if (size < node->size)
		dmu_tx_mark_netfree(tx);
	if (error == 0)
		error = dmu_tx_assign(tx, DMU_TX_WAIT);
	if (error != 0) {
		dmu_tx_abort(tx);
		return (error);
	}
	if (grow != node->dn->dn_datablksz)
		(void) dmu_object_set_blocksize(node->ds->os, node->object, grow, 0, tx);
	uint64_t size_before = node->size;
	set_size_in_memory(node, size);
	error = pw_attr_touch(node, 1, tx);
	if (error != 0)
		set_size_in_memory(node, size_before);
	else if (log)
		pw_log_set(node, tx, &(pw_set_t) { .mask = PW_SET_SIZE, .size = size });
	dmu_tx_commit(tx);
	return (error);
}

int
pw_set_size(pw_node_t *node, uint64_t size, int log)
{
	zfs_locked_range_t *lock = zfs_rangelock_enter(&node->range, 0, UINT64_MAX, RL_WRITER);
	int error = set_size_locked(node, size, log);
	zfs_rangelock_exit(lock);
	return (error);
}

/* The comparison is made under the lock: otherwise it could cut off what another thread writes after `size`. */
int
pw_file_extend(pw_node_t *node, uint64_t size)
{
	int error = pw_may_write(node, size, 0);
	if (error != 0)
		return (error);
	zfs_locked_range_t *lock = zfs_rangelock_enter(&node->range, 0, UINT64_MAX, RL_WRITER);
	if (size > node->size)
		error = set_size_locked(node, size, 1);
	zfs_rangelock_exit(lock);
	return (settle(node, error, 0));
}

int
pw_file_truncate(pw_node_t *node, uint64_t size)
{
	int error = pw_may_write(node, size, 0);
	return (error != 0 ? error : settle(node, pw_set_size(node, size, 1), 0));
}

int
pw_free_range(pw_node_t *node, uint64_t offset, uint64_t len)
{
	zfs_locked_range_t *lock = zfs_rangelock_enter(&node->range, offset, len, RL_WRITER);
	int error = dmu_free_long_range(node->ds->os, node->object, offset, len);
	if (error == 0) {
		dmu_tx_t *tx = dmu_tx_create(node->ds->os);
		dmu_tx_hold_sa(tx, node->sa, B_FALSE);
		dmu_tx_mark_netfree(tx);
		if ((error = dmu_tx_assign(tx, DMU_TX_WAIT)) != 0) {
			dmu_tx_abort(tx);
		} else {
			error = pw_attr_touch(node, 0, tx);
			if (error == 0)
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
	int error = pw_may_write(node, offset, len);
	if (error != 0 || len == 0 || offset >= node->size)
		return (error);
	return (settle(node, pw_free_range(node, offset, MIN(len, node->size - offset)), 0));
}

/* With dirty data, the engine waits for its txg, because only then does it know where the holes are. */
int
pw_file_seek(pw_node_t *node, uint64_t offset, int hole, uint64_t *out)
{
	uint64_t at = offset;
	int error;

	if (!S_ISREG(node->mode))
		return (EINVAL);
	if (offset >= node->size)
		return (ENXIO);
	zfs_locked_range_t *lock = zfs_rangelock_enter(&node->range, 0, UINT64_MAX, RL_READER);
	error = dmu_offset_next(node->ds->os, node->object, hole ? B_TRUE : B_FALSE, &at);
	uint64_t size = node->size;
	zfs_rangelock_exit(lock);
	if (error == EBUSY) {		/* still dirty after the wait: all of it counts as data */
		at = hole ? size : offset;
		error = 0;
	}
	if (error == ESRCH) {		/* none found: the end of the file is a hole */
		if (!hole)
			return (ENXIO);
		at = size;
		error = 0;
	}
	if (error == 0 && !hole && at >= size)
		return (ENXIO);
	*out = MIN(at, size);
	return (error);
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
pw_file_block_size(pw_node_t *node)
{
	return (node->dn->dn_datablksz);
}

