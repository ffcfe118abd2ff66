/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Reads an intent log before any of it is replayed. Every record must be of a kind that replay.c handles, its lengths
 * must lie within it, and the blocks that it points to must be readable. A log that cannot be replayed completely
 * contains acknowledged commits, so it is left unchanged, and its dataset is not opened for writing.
 *
 * An image may come from anywhere. replay.c relies on the checks in this file.
 */

#include <sys/stat.h>
#include <sys/zfs_context.h>
#include <sys/arc.h>
#include <sys/spa.h>
#include <sys/zfs_znode.h>

#include "internal.h"

/*
 * Bits that a record may also have: a kernel adds ATTR_CTIME and, for ftruncate(2), ATTR_FILE, which add no
 * information.
 */
enum { SETATTR_KNOWN = SETATTR_SETS | 1 << 6 | 1 << 13 };

int
pw_log_refuse(pw_dataset_t *ds, const lr_t *lr, int error, const char *what)
{
	pw_log_trouble_t *trouble = ds->trouble;
	if (trouble != NULL && trouble->error == 0) {
		trouble->error = error;
		trouble->what = what;
		if (lr != NULL) {
			trouble->seq = lr->lrc_seq;
			trouble->type = lr->lrc_txtype;
			trouble->object = lr->lrc_reclen >= sizeof (lr_ooo_t) ?
			    LR_FOID_GET_OBJ(((const lr_ooo_t *)lr)->lr_foid) : 0;
		}
	}
	return (error);
}

static int
refuse_block(pw_dataset_t *ds, const lr_t *lr, const blkptr_t *bp, int error, const char *what)
{
	if (ds->trouble != NULL && ds->trouble->error == 0 && !BP_IS_EMBEDDED(bp)) {
		ds->trouble->vdev = DVA_GET_VDEV(&bp->blk_dva[0]);
		ds->trouble->offset = DVA_GET_OFFSET(&bp->blk_dva[0]);
		ds->trouble->size = BP_GET_PSIZE(bp);
	}
	return (pw_log_refuse(ds, lr, error, what));
}

/* ---- records ---- */

/* Checks `n` consecutive strings with their NULs; `*rest` is the data after them. */
static int
has_names(const lr_t *lr, const void *from, int n, const char **rest)
{
	const char *at = from, *end = (const char *)lr + lr->lrc_reclen;
	for (; n > 0; n--) {
		const char *mark = at < end ? memchr(at, '\0', end - at) : NULL;
		if (mark == NULL || mark == at)
			return (0);
		at = mark + 1;
	}
	*rest = at;
	return (1);
}

static int
is_object(uint64_t object)
{
	return (object != 0 && object < DN_MAX_OBJECT);
}

static int
is_range(uint64_t offset, uint64_t len)
{
	return (offset <= INT64_MAX && len <= INT64_MAX - offset);
}

static int
is_new_node(uint64_t foid, uint64_t mode)
{
	uint64_t slots = LR_FOID_GET_SLOTS(foid), type = mode & S_IFMT;
	return (is_object(LR_FOID_GET_OBJ(foid)) && slots <= DNODE_MAX_SIZE >> DNODE_SHIFT && (type == S_IFREG ||
	    type == S_IFDIR || type == S_IFLNK || type == S_IFCHR || type == S_IFBLK || type == S_IFIFO ||
	    type == S_IFSOCK));
}

static int
check_create(const lr_t *lr)
{
	const lr_create_t *r = (const lr_create_t *)lr;
	int symlink = lr->lrc_txtype == TX_SYMLINK;
	uint64_t type = r->lr_create.lr_mode & S_IFMT;
	const char *rest;
	return (is_new_node(r->lr_create.lr_foid, r->lr_create.lr_mode) && (type == S_IFLNK) == symlink &&
	    (type == S_IFDIR) == (lr->lrc_txtype == TX_MKDIR) && has_names(lr, r->lr_data, symlink ? 2 : 1, &rest));
}

static int
check_remove(const lr_t *lr)
{
	const char *rest;
	return (has_names(lr, ((const lr_remove_t *)lr)->lr_data, 1, &rest));
}

static int
check_link(const lr_t *lr)
{
	const lr_link_t *r = (const lr_link_t *)lr;
	const char *rest;
	return (is_object(r->lr_link_obj) && has_names(lr, r->lr_data, 1, &rest));
}

static int
check_rename(const lr_t *lr)
{
	const lr_rename_t *r = (const lr_rename_t *)lr;
	const char *rest;
	return (is_object(r->lr_rename.lr_tdoid) && has_names(lr, r->lr_data, 2, &rest));
}

static int
check_whiteout(const lr_t *lr)
{
	const lr_rename_whiteout_t *r = (const lr_rename_whiteout_t *)lr;
	const char *rest;
	return (is_object(r->lr_rename.lr_tdoid) && is_new_node(r->lr_wfoid, r->lr_wmode) &&
	    has_names(lr, r->lr_data, 2, &rest));
}

/* Either with its bytes or, exactly as long as its fields, with a pointer to their block. */
static int
check_write(const lr_t *lr)
{
	const lr_write_t *r = (const lr_write_t *)lr;
	uint64_t room = lr->lrc_reclen - sizeof (*r);
	if (room == 0) {
		uint64_t block = BP_GET_LSIZE(&r->lr_blkptr);
		if (block > SPA_MAXBLOCKSIZE)
			return (0);
		room = BP_IS_HOLE(&r->lr_blkptr) ? SPA_MAXBLOCKSIZE : block;
	}
	return (is_range(r->lr_offset, r->lr_length) && r->lr_length <= room);
}

static int
check_range(const lr_t *lr)
{
	const lr_truncate_t *r = (const lr_truncate_t *)lr;
	return (is_range(r->lr_offset, r->lr_length));
}

static int
check_write2(const lr_t *lr)
{
	const lr_write_t *r = (const lr_write_t *)lr;
	return (is_range(r->lr_offset, r->lr_length));
}

static int
check_setattr(const lr_t *lr)
{
	const lr_setattr_t *r = (const lr_setattr_t *)lr;
	return (!(r->lr_mask & PW_SET_SIZE) || r->lr_size <= INT64_MAX);
}

static int
check_xattr(const lr_t *lr)
{
	const lr_setsaxattr_t *r = (const lr_setsaxattr_t *)lr;
	const char *value;
	return (has_names(lr, r->lr_data, 1, &value) && r->lr_size <= (size_t)((const char *)lr + lr->lrc_reclen - value));
}

static int
check_clone(const lr_t *lr)
{
	const lr_clone_range_t *r = (const lr_clone_range_t *)lr;
	uint64_t block = r->lr_blksz;
	return (r->lr_nbps <= (lr->lrc_reclen - sizeof (*r)) / sizeof (blkptr_t) && block != 0 &&
	    block <= SPA_MAXBLOCKSIZE && block % SPA_MINBLOCKSIZE == 0 && is_range(r->lr_offset, r->lr_length) &&
	    r->lr_offset % block == 0 && r->lr_length <= r->lr_nbps * block &&
	    r->lr_length + block > r->lr_nbps * block);
}

/* The kinds of record that are replayed: the minimum length, and the check of each. */
static const struct kind { size_t least; int (*check)(const lr_t *lr); } kinds[TX_MAX_TYPE] = {
	[TX_CREATE] = { sizeof (lr_create_t), check_create },
	[TX_MKDIR] = { sizeof (lr_create_t), check_create },
	[TX_SYMLINK] = { sizeof (lr_create_t), check_create },
	[TX_REMOVE] = { sizeof (lr_remove_t), check_remove },
	[TX_RMDIR] = { sizeof (lr_remove_t), check_remove },
	[TX_LINK] = { sizeof (lr_link_t), check_link },
	[TX_RENAME] = { sizeof (lr_rename_t), check_rename },
	[TX_RENAME_EXCHANGE] = { sizeof (lr_rename_t), check_rename },
	[TX_RENAME_WHITEOUT] = { sizeof (lr_rename_whiteout_t), check_whiteout },
	[TX_WRITE] = { sizeof (lr_write_t), check_write },
	[TX_WRITE2] = { sizeof (lr_write_t), check_write2 },
	[TX_TRUNCATE] = { sizeof (lr_truncate_t), check_range },
	[TX_SETATTR] = { sizeof (lr_setattr_t), check_setattr },
	[TX_SETSAXATTR] = { sizeof (lr_setsaxattr_t), check_xattr },
	[TX_CLONE_RANGE] = { sizeof (lr_clone_range_t), check_clone },
};

/* ---- blocks ---- */

int
pw_log_read_block(pw_dataset_t *ds, const lr_write_t *lr, void *out)
{
	const blkptr_t *bp = &lr->lr_blkptr;
	arc_flags_t flags = ARC_FLAG_WAIT;
	arc_buf_t *block = NULL;
	zbookmark_phys_t where;

	if (BP_IS_HOLE(bp)) {
		if (out != NULL)
			memset(out, 0, MAX(BP_GET_LSIZE(bp), lr->lr_length));
		return (0);
	}
	SET_BOOKMARK(&where, dmu_objset_id(ds->os), lr->lr_foid, ZB_ZIL_LEVEL, lr->lr_offset / BP_GET_LSIZE(bp));
	int error = arc_read(NULL, ds->os->os_spa, bp, arc_getbuf_func, &block, ZIO_PRIORITY_SYNC_READ,
	    ZIO_FLAG_CANFAIL, &flags, &where);
	if (error != 0)
		return (refuse_block(ds, &lr->lr_common, bp, error, "the data of a write cannot be read"));
	if (out != NULL)
		memcpy(out, block->b_data, arc_buf_size(block));
	arc_buf_destroy(block, &block);
	return (0);
}

typedef struct { pw_dataset_t *ds; blkptr_t last; } parse_t;

static int
remember_block(zilog_t *zilog, const blkptr_t *bp, void *arg, uint64_t txg)
{
	parse_t *p = arg;
	(void) zilog; (void) txg;
	p->last = *bp;
	return (0);
}

static int
check_record(zilog_t *zilog, const lr_t *lr, void *arg, uint64_t claim_txg)
{
	pw_dataset_t *ds = ((parse_t *)arg)->ds;
	uint64_t type = lr->lrc_txtype;

	if (pw_log_is_done(zilog, lr, claim_txg))
		return (0);
	if (type >= TX_MAX_TYPE || kinds[type].check == NULL)
		return (pw_log_refuse(ds, lr, ENOTSUP, "unsupported type of record"));
	if (lr->lrc_reclen < kinds[type].least || !is_object(LR_FOID_GET_OBJ(((const lr_ooo_t *)lr)->lr_foid)) ||
	    !kinds[type].check(lr))
		return (pw_log_refuse(ds, lr, EINVAL, "invalid lengths or numbers in a record"));
	if (type == TX_SETATTR && (((const lr_setattr_t *)lr)->lr_mask & ~(uint64_t)SETATTR_KNOWN) != 0)
		return (pw_log_refuse(ds, lr, ENOTSUP, "a record sets unsupported attributes"));
	if (type == TX_WRITE && lr->lrc_reclen == sizeof (lr_write_t))
		return (pw_log_read_block(ds, (const lr_write_t *)lr, NULL));
	return (0);
}

/* ---- the log as a whole ---- */

int
pw_log_any_block(zilog_t *zilog, const blkptr_t *bp, void *arg, uint64_t txg)
{
	(void) zilog; (void) bp; (void) arg; (void) txg;
	return (0);
}

static int
count_record(zilog_t *zilog, const lr_t *lr, void *arg, uint64_t txg)
{
	uint64_t *records = arg;
	*records += !pw_log_is_done(zilog, lr, txg);
	return (0);
}

uint64_t
pw_log_pending(pw_dataset_t *ds)
{
	zilog_t *zilog = dmu_objset_zil(ds->os);
	uint64_t claim_txg = zilog->zl_header->zh_claim_txg, records = 0;
	if (claim_txg == 0)
		claim_txg = spa_last_synced_txg(ds->os->os_spa) + 1;
	(void) zil_parse(zilog, pw_log_any_block, count_record, &records, claim_txg, B_FALSE);
	return (records);
}

int
pw_log_check(pw_dataset_t *ds)
{
	zilog_t *zilog = dmu_objset_zil(ds->os);
	const zil_header_t *header = zilog->zl_header;
	parse_t parse = { .ds = ds };

	if (!(header->zh_flags & ZIL_REPLAY_NEEDED))
		return (0);
	if (BP_SHOULD_BYTESWAP(&header->zh_log))
		return (pw_log_refuse(ds, NULL, ENOTSUP, "the log was written by a machine with another byte order"));
	int error = zil_parse(zilog, remember_block, check_record, &parse, header->zh_claim_txg, B_TRUE);
	/*
	 * The import claimed these blocks, so they were readable then: a chain that ends earlier has been damaged
	 * since.
	 */
	if (error == 0 && (header->zh_flags & ZIL_CLAIM_LR_SEQ_VALID) &&
	    zilog->zl_parse_lr_seq < header->zh_claim_lr_seq)
		error = EIO;
	return (error == 0 ? 0 : refuse_block(ds, NULL, &parse.last, error, "a block of the log cannot be read"));
}
