/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Direct I/O: which requests bypass the ARC, as zfs_vnops.c of the release decides it; reads and writes between the
 * caller's memory and the pool; the counters that a kernel has in its kstat `iostats`.
 */

#include <stdatomic.h>
#include <sys/zfs_context.h>
#include <sys/dmu_impl.h>
#include <sys/spa_impl.h>
#include <sys/zfs_racct.h>

#include "internal.h"
#include "kernel/cost.h"

/* Module parameters of a kernel, which zfs_vnops.c defines there. The second one exists since 2.4. */
int pw_dio_enabled = 1;
#ifdef PW_HAS_UNCACHED_IO
int pw_dio_strict = 0;
#endif

/* ---- the decision ---- */

/*
 * Memory of any alignment is accepted: a caller from a mount has none, and a trace does not state it. A copy replaces what a
 * kernel refuses, or does through the ARC.
 */
static int
is_page_aligned(uint64_t offset, uint64_t len)
{
	return (zfs_dio_aligned(offset, len, PAGESIZE));
}

#ifdef PW_HAS_UNCACHED_IO
int
pw_direct_setup(pw_node_t *node, int writes, uint64_t offset, uint64_t len, int *how)
{
	zfs_direct_t property = node->ds->os->os_direct;
	int asked = *how & PW_IO_DIRECT;

	if (!asked && property != ZFS_DIRECT_ALWAYS)
		return (0);
	*how |= PW_VIA_UNCACHED;
	if (!pw_dio_enabled || property == ZFS_DIRECT_DISABLED)
		return (0);
	if (!is_page_aligned(offset, len))
		return (asked && pw_dio_strict ? EINVAL : 0);
	if (!writes || len >= node->dn->dn_datablksz)
		*how |= PW_VIA_DIRECT;
	return (0);
}
#else
int
pw_direct_setup(pw_node_t *node, int writes, uint64_t offset, uint64_t len, int *how)
{
	zfs_direct_t property = node->ds->os->os_direct;
	int direct = *how & PW_IO_DIRECT, aligned = is_page_aligned(offset, len);

	if (!pw_dio_enabled || property == ZFS_DIRECT_DISABLED)
		return (0);
	if (property == ZFS_DIRECT_ALWAYS && !aligned)
		return (0);
	if (property == ZFS_DIRECT_ALWAYS && (!writes || len >= node->dn->dn_datablksz))
		direct = 1;
	if (direct && !aligned)
		return (EINVAL);
	if (direct)
		*how |= PW_VIA_DIRECT;
	return (0);
}
#endif

/* ---- the transfer ---- */

static uint64_t
block_number(pw_node_t *node, uint64_t offset)
{
	return (node->dn->dn_datablkshift != 0 ? offset >> node->dn->dn_datablkshift : 0);
}

/*
 * Whether a truncation or hole has freed the block, and no txg has done so on disk yet. The library's direct I/O does not know
 * such frees: it reads the old block, a later read through the ARC finds zeros where it wrote, and a write of the same
 * content may keep the block that is being freed. So these blocks are left to the ARC until the txg is on disk.
 */
static int
is_freed(pw_node_t *node, uint64_t block)
{
	return (dnode_block_freed(node->dn, block));
}

static int
has_freed(pw_node_t *node, uint64_t offset, uint64_t len)
{
	uint64_t last = block_number(node, offset + len - 1);
	for (uint64_t block = block_number(node, offset); block <= last; block++)
		if (is_freed(node, block))
			return (1);
	return (0);
}

/* Devices that the engine opens with O_DIRECT need aligned memory, too. */
static void *
aligned_memory(uint64_t len)
{
	void *memory;
	return (posix_memalign(&memory, PAGESIZE, len) == 0 ? memory : NULL);
}

/* The most that one ABD describes: whole blocks of the file, and the rest of one before them. */
static uint64_t
most_at(pw_node_t *node, uint64_t offset, uint64_t len)
{
	uint64_t block = node->dn->dn_datablksz;
	if (len <= SPA_MAXBLOCKSIZE)
		return (len);
	uint64_t most = SPA_MAXBLOCKSIZE - SPA_MAXBLOCKSIZE % block;
	return (most - (ISP2(block) ? P2PHASE(offset, block) & ~(uint64_t)(PAGESIZE - 1) : 0));
}

static int
read_blocks(pw_node_t *node, uint64_t offset, char *buf, uint64_t len, int how)
{
	char *to = zfs_dio_page_aligned(buf) ? buf : aligned_memory(len);
	if (to == NULL)
		return (ENOMEM);
	abd_t *abd = abd_get_from_buf(to, len);
	int error = dmu_read_abd(node->dn, offset, len, abd, pw_dmu_flags(how) | DMU_DIRECTIO);
	abd_free(abd);
	if (to != buf) {
		if (error == 0)
			memcpy(buf, to, len);
		free(to);
	}
	return (error);
}

static int
read_cached(pw_node_t *node, uint64_t offset, char *buf, uint64_t len, int how)
{
	pw_cost_copy(len);
	return (dmu_read_by_dnode(node->dn, offset, len, buf, pw_dmu_flags(how)));
}

int
pw_direct_read(pw_node_t *node, uint64_t offset, char *buf, uint64_t len, int how)
{
	uint64_t tail = P2PHASE(len, PAGESIZE);		/* at the end of the file */
	int error = 0;

	if (has_freed(node, offset, len))
		return (read_cached(node, offset, buf, len, how));
	len -= tail;
	while (len != 0 && error == 0) {
		uint64_t n = most_at(node, offset, len);
		error = read_blocks(node, offset, buf, n, how);
		if (error == ECKSUM)			/* in a kernel, the program may have changed the memory meanwhile */
			return (read_cached(node, offset, buf, len + tail, how));
		offset += n;
		buf += n;
		len -= n;
	}
	if (error == 0 && tail != 0)
		error = read_cached(node, offset, buf, tail, how);
	return (error);
}

static int
write_blocks(pw_node_t *node, uint64_t offset, const char *buf, uint64_t len, int how, dmu_tx_t *tx)
{
	char *copy = zfs_dio_page_aligned((void *)buf) ? NULL : aligned_memory(MIN(len, SPA_MAXBLOCKSIZE));
	int error = 0;

	if (copy == NULL && !zfs_dio_page_aligned((void *)buf))
		return (ENOMEM);
	while (len != 0 && error == 0) {
		uint64_t n = most_at(node, offset, len);
		if (copy != NULL)
			memcpy(copy, buf, n);
		abd_t *abd = abd_get_from_buf(copy != NULL ? copy : (char *)buf, n);
		error = dmu_write_abd(node->dn, offset, n, abd, pw_dmu_flags(how) | DMU_DIRECTIO, tx);
		abd_free(abd);
		offset += n;
		buf += n;
		len -= n;
	}
	free(copy);
	return (error);
}

/* The whole blocks from `offset` on that are written the same way. */
static uint64_t
alike(pw_node_t *node, uint64_t offset, uint64_t len, int *cached)
{
	uint64_t block = node->dn->dn_datablksz, n = block;

	*cached = is_freed(node, block_number(node, offset));
	while (n + block <= len && is_freed(node, block_number(node, offset + n)) == *cached)
		n += block;
	return (n);
}

/* Divides the range as dmu_write_uio_dnode() does: whole blocks are written directly, parts of one go through the ARC. */
int
pw_direct_write(pw_node_t *node, uint64_t offset, const char *buf, uint64_t len, int how, dmu_tx_t *tx)
{
	uint64_t block = node->dn->dn_datablksz;
	int error = 0;

	while (len != 0 && error == 0) {
		uint64_t n = len;
		int cached = 1;
		if (len >= block && zfs_dio_offset_aligned(offset, block))
			n = alike(node, offset, len, &cached);
		else if (len >= block)
			n = P2PHASE(offset, block);
		error = cached ? pw_write_cached(node, offset, buf, n, how, tx) :
		    write_blocks(node, offset, buf, n, how, tx);
		offset += n;
		buf += n;
		len -= n;
	}
	return (error);
}

/* ---- counters ---- */

enum { READ = 0, WRITE = 1 };

/* Of one pool, found by its address. Another pool at this address has another load_guid. Never freed. */
typedef struct counters {
	struct counters *next;
	const spa_t *spa;
	_Atomic uint64_t load_guid;
	_Atomic uint64_t count[2][2], bytes[2][2];	/* by kind, and whether direct */
} counters_t;

static counters_t *_Atomic all_counters;
static pthread_mutex_t counters_lock = PTHREAD_MUTEX_INITIALIZER;

static counters_t *
find_counters(const spa_t *spa)
{
	counters_t *c = all_counters;
	while (c != NULL && c->spa != spa)
		c = c->next;
	return (c);
}

static counters_t *
counters_of(spa_t *spa)
{
	uint64_t load_guid = spa_load_guid(spa);
	counters_t *c = find_counters(spa);
	if (c != NULL && c->load_guid == load_guid)
		return (c);
	(void) pthread_mutex_lock(&counters_lock);
	if ((c = find_counters(spa)) == NULL) {
		c = umem_zalloc(sizeof (*c), UMEM_NOFAIL);
		c->spa = spa;
		c->load_guid = load_guid;
		c->next = all_counters;
		all_counters = c;
	} else if (c->load_guid != load_guid) {
		for (int kind = READ; kind <= WRITE; kind++)
			for (int direct = 0; direct <= 1; direct++)
				c->count[kind][direct] = c->bytes[kind][direct] = 0;
		c->load_guid = load_guid;
	}
	(void) pthread_mutex_unlock(&counters_lock);
	return (c);
}

static void
count(spa_t *spa, int kind, uint64_t bytes, uint64_t requests, int direct)
{
	counters_t *c = counters_of(spa);
	atomic_fetch_add_explicit(&c->count[kind][direct], requests, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->bytes[kind][direct], bytes, memory_order_relaxed);
}

/* The library's versions of these two do nothing. It calls them where a kernel counts. */
void
zfs_racct_read(spa_t *spa, uint64_t size, uint64_t iops, pw_dmu_flags_t flags)
{
	count(spa, READ, size, iops, (flags & DMU_DIRECTIO) != 0);
}

void
zfs_racct_write(spa_t *spa, uint64_t size, uint64_t iops, pw_dmu_flags_t flags)
{
	count(spa, WRITE, size, iops, (flags & DMU_DIRECTIO) != 0);
}

int
pw_pool_io_stats(const char *name, pw_io_stats_t *out)
{
	spa_t *spa;
	int error = spa_open(name, &spa, FTAG);
	if (error != 0)
		return (error);
	counters_t *c = counters_of(spa);
	*out = (pw_io_stats_t) {
		.arc_read_count = c->count[READ][0], .arc_read_bytes = c->bytes[READ][0],
		.arc_write_count = c->count[WRITE][0], .arc_write_bytes = c->bytes[WRITE][0],
		.direct_read_count = c->count[READ][1], .direct_read_bytes = c->bytes[READ][1],
		.direct_write_count = c->count[WRITE][1], .direct_write_bytes = c->bytes[WRITE][1],
	};
	spa_close(spa, FTAG);
	return (0);
}
