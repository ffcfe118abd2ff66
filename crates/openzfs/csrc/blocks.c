/* SPDX-License-Identifier: CDDL-1.0 */
/* The space of a file's blocks: a walk over its block tree. */

#include <sys/zfs_context.h>
#include <sys/spa.h>
#include <sys/dmu_traverse.h>
#include <sys/dsl_dataset.h>

#include "internal.h"

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
	/* The allocated size, as zdb counts it. On raidz it is more than the deflated size that `used` shows. */
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
