/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Volumes: datasets that contain one object, the data of a block device, and its size. A kernel serves them as /dev/zdN
 * (module/zfs/zvol.c); this file does for a caller what zvol_os.c does for a request of the block layer.
 *
 * In this engine, a volume is a dataset with a single node, which is in no table of nodes. It has neither attributes nor names.
 */

#include <sys/zfs_context.h>
#include <sys/spa.h>
#include <sys/zap.h>

#include "internal.h"
#include "kernel/cost.h"

/* The objects of a volume, and the entry of its size in the second one (include/sys/zvol.h, zvol_create_cb()). */
enum { DATA_OBJECT = 1, PROPERTIES_OBJECT = 2 };
static const char SIZE_ENTRY[] = "size";

typedef struct { uint64_t size, block; } new_volume_t;

static void
format_new(objset_t *os, void *arg, cred_t *cr, dmu_tx_t *tx)
{
	const new_volume_t *new = arg;
	(void) cr;
	VERIFY0(dmu_object_claim(os, DATA_OBJECT, DMU_OT_ZVOL, (int)new->block, DMU_OT_NONE, 0, tx));
	VERIFY0(zap_create_claim(os, PROPERTIES_OBJECT, DMU_OT_ZVOL_PROP, DMU_OT_NONE, 0, tx));
	VERIFY0(zap_update(os, PROPERTIES_OBJECT, SIZE_ENTRY, 8, 1, &new->size, tx));
}

int
pw_volume_create(const char *name, uint64_t size, uint64_t block)
{
	new_volume_t new = { size, block };
	uint64_t most = MIN(SPA_MAXBLOCKSIZE, zfs_max_recordsize);
	if (block < SPA_MINBLOCKSIZE || block > most || !ISP2(block) || size == 0 || size % block != 0 || size > INT64_MAX)
		return (EINVAL);
	return (dmu_objset_create(name, DMU_OST_ZVOL, 0, NULL, format_new, &new));
}

static int
open_node(pw_dataset_t *ds)
{
	pw_node_t *node = umem_zalloc(sizeof (*node), UMEM_NOFAIL);
	node->ds = ds;
	node->object = DATA_OBJECT;
	node->mode = S_IFBLK;
	zfs_rangelock_init(&node->range, NULL, NULL);
	ds->volume = node;
	int error = zap_lookup(ds->os, PROPERTIES_OBJECT, SIZE_ENTRY, 8, 1, &node->size);
	return (error != 0 ? error : dnode_hold(ds->os, DATA_OBJECT, ds, &node->dn));
}

void
pw_volume_release(pw_dataset_t *ds)
{
	if (ds->volume->dn != NULL)
		dnode_rele(ds->volume->dn, ds);
	zfs_rangelock_fini(&ds->volume->range);
	umem_free(ds->volume, sizeof (*ds->volume));
}

int
pw_volume_open(const char *name, pw_dataset_t **out)
{
	pw_dataset_t *ds = umem_zalloc(sizeof (*ds), UMEM_NOFAIL);
	(void) strlcpy(ds->name, name, sizeof (ds->name));
	int error = dmu_objset_own(name, DMU_OST_ZVOL, B_FALSE, B_TRUE, ds, &ds->os);
	if (error != 0) {
		umem_free(ds, sizeof (*ds));
		return (error);
	}
	pw_dataset_init(ds);
	error = open_node(ds);
	if (error == 0 && dmu_objset_zil(ds->os)->zl_header->zh_flags & ZIL_REPLAY_NEEDED)
		error = ENOTSUP;
	if (error != 0) {
		pw_dataset_close(ds);
		return (error);
	}
	ds->zilog = zil_open(ds->os, pw_log_get_data, &ds->sums);
	*out = ds;
	return (0);
}

/* The block layer refuses requests beyond the end of the device. */
static int
is_outside(const pw_node_t *node, uint64_t offset, uint64_t len)
{
	return (offset > node->size || len > node->size - offset);
}

int
pw_volume_read(pw_dataset_t *ds, uint64_t offset, void *buf, uint64_t len)
{
	pw_node_t *node = ds->volume;
	if (is_outside(node, offset, len))
		return (EIO);
	if (len == 0)
		return (0);
	zfs_locked_range_t *lock = zfs_rangelock_enter(&node->range, offset, len, RL_READER);
	int error = dmu_read_by_dnode(node->dn, offset, len, buf, pw_dmu_flags(0));
	zfs_rangelock_exit(lock);
	pw_cost_copy(len);
	return (error == ECKSUM ? EIO : error);
}

static int
write_chunk(pw_node_t *node, uint64_t offset, const char *buf, uint64_t len, int how)
{
	dmu_tx_t *tx = dmu_tx_create(node->ds->os);
	dmu_tx_hold_write_by_dnode(tx, node->dn, offset, len);
	int error = dmu_tx_assign(tx, DMU_TX_WAIT);
	if (error != 0) {
		dmu_tx_abort(tx);
		return (error);
	}
	error = pw_write_cached(node, offset, buf, len, how, tx);
	if (error == 0)
		pw_log_write(node, tx, offset, len, how, node->size);
	dmu_tx_commit(tx);
	return (error);
}

int
pw_volume_write(pw_dataset_t *ds, uint64_t offset, const void *buf, uint64_t len, int how)
{
	pw_node_t *node = ds->volume;
	const char *from = buf;
	int error = 0;
	if (is_outside(node, offset, len))
		return (EIO);
	if (len == 0)
		return (0);
	if (ds->os->os_sync == ZFS_SYNC_ALWAYS)
		how |= PW_IO_SYNC;
	zfs_locked_range_t *lock = zfs_rangelock_enter(&node->range, offset, len, RL_WRITER);
	for (uint64_t done = 0, n; done < len && error == 0; done += n) {
		n = MIN(len - done, DMU_MAX_ACCESS >> 1);
		error = write_chunk(node, offset + done, from + done, n, how);
	}
	zfs_rangelock_exit(lock);
	return (pw_log_settle(ds, DATA_OBJECT, error, how & PW_IO_SYNC));
}

/* Only whole blocks are freed: zeroing the rest would cost I/O and free no space. */
int
pw_volume_discard(pw_dataset_t *ds, uint64_t offset, uint64_t len)
{
	pw_node_t *node = ds->volume;
	uint64_t block = node->dn->dn_datablksz;
	if (is_outside(node, offset, len))
		return (EIO);
	uint64_t start = P2ROUNDUP_TYPED(offset, block, uint64_t), end = P2ALIGN_TYPED(offset + len, block, uint64_t);
	if (start >= end)
		return (0);
	zfs_locked_range_t *lock = zfs_rangelock_enter(&node->range, start, end - start, RL_WRITER);
	dmu_tx_t *tx = dmu_tx_create(ds->os);
	dmu_tx_mark_netfree(tx);
	int error = dmu_tx_assign(tx, DMU_TX_WAIT);
	if (error != 0) {
		dmu_tx_abort(tx);
	} else {
		pw_log_punch(node, tx, start, end - start);
		dmu_tx_commit(tx);
		error = dmu_free_long_range(ds->os, DATA_OBJECT, start, end - start);
	}
	zfs_rangelock_exit(lock);
	return (pw_log_settle(ds, DATA_OBJECT, error, 0));
}

int
pw_volume_flush(pw_dataset_t *ds)
{
	zil_commit(ds->zilog, DATA_OBJECT);	/* does nothing with sync=disabled */
	return (0);
}
