/* SPDX-License-Identifier: CDDL-1.0 */
/* Starting and stopping the engine, its limits and its ARC counters. */

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/zfs_context.h>
#include <sys/zfs_debug.h>
#include <sys/spa.h>
#include <sys/spa_impl.h>
#include <sys/abd.h>
#include <sys/arc.h>
#include <sys/arc_impl.h>
#include <sys/dbuf.h>
#include <sys/dmu.h>
#include <sys/dmu_objset.h>
#include <sys/txg.h>

#include "engine.h"
#include "internal.h"
#include "kernel/clock.h"
#include "kernel/cost.h"

extern uint64_t zfs_arc_max, zfs_arc_min, zfs_dirty_data_max, zfs_dirty_data_max_max;
extern uint_t zfs_txg_timeout;
extern char *spa_config_path;
extern void arc_tuning_update(boolean_t verbose);
extern arc_state_t ARC_anon, ARC_mru_ghost, ARC_mfu_ghost, ARC_uncached;	/* in the library, not in its headers */

/*
 * Options of jemalloc, which reads them when the process starts, if the program uses it. The library allocates every
 * cached block and every buffer of its hundred threads with malloc. Each arena keeps its own free pages, so there are few
 * arenas. Free pages are returned after 1.5 seconds: otherwise the memory of a burst of writes would stay resident,
 * far beyond the ARC limit. They are not returned at once, because faulting in a new page costs more than filling it.
 * Each thread keeps only small blocks for itself (tcache_max): a program with many threads, such as the exporter, would keep
 * several megabytes more, and a replay is not faster with them.
 * Large blocks start at a page boundary (no cache_oblivious), because the library requests page alignment anyway.
 */
const char *malloc_conf = "narenas:4,tcache_max:4096,background_thread:true,dirty_decay_ms:1500,muzzy_decay_ms:0,cache_oblivious:false";

/* The free memory that the library is told of; see arc_available_memory(). */
#define PW_ASSUMED_FREE (1LL << 30)

/*
 * The library's version simulates memory pressure on one call in a hundred, for stress tests. This engine bounds its
 * memory by the ARC limit, so there is never pressure.
 */
int64_t
arc_available_memory(void)
{
	return (PW_ASSUMED_FREE);
}

/*
 * The library's version returns a random number below a fifth of arc_all_memory(), truncated to 32 bits, and aborts if that
 * bound is 0: at every limit that is a multiple of 10G. The library calls it when a pool is closed.
 */
uint64_t
arc_free_memory(void)
{
	return (PW_ASSUMED_FREE);
}

/*
 * Makes all buffers contiguous. A kernel builds them from pages, because larger contiguous allocations may fail. The
 * library does the same to exercise that code, and then copies each buffer to contiguous memory before it decompresses,
 * reads or writes it.
 */
boolean_t
abd_size_alloc_linear(size_t size)
{
	(void) size;
	return (B_TRUE);
}

/*
 * The library sizes the ARC by the host's memory: its default maximum is five eighths of it, its minimum half of the
 * maximum, and it ignores a limit below the minimum. So it sees twice the requested limit as the host's memory.
 */
uint64_t
arc_all_memory(void)
{
	return (__atomic_load_n(&zfs_arc_max, __ATOMIC_RELAXED) * 2);
}

/* Held while a limit is set: the ARC's limits are set in steps, and two threads must not interleave theirs. */
static pthread_mutex_t limits = PTHREAD_MUTEX_INITIALIZER;
#define	LIMIT(name, value)	__atomic_store_n(&(name), value, __ATOMIC_RELAXED)

/* dbuf_cache_max_bytes, which the library does not export. */
static uint64_t dbuf_cache_max = UINT64_MAX;
/* The dbuf cache's share of the ARC: the default of dbuf_cache_shift, which the library does not export either. */
enum { DBUF_CACHE_SHIFT = 5 };

/*
 * Called by the dbuf cache, which takes a 32nd of it, for each buffer that it receives; by the dbuf metadata cache (a
 * 64th); and once during an import, by a check that waits for ever below 16 bytes.
 */
uint64_t
arc_target_bytes(void)
{
	if (dbuf_cache_max >= arc_c >> DBUF_CACHE_SHIFT)
		return (arc_c);
	return (MAX(dbuf_cache_max, 1) << DBUF_CACHE_SHIFT);
}

/*
 * The host's name in labels. Its suffix distinguishes a pool that a killed process of this engine left open from a pool
 * that a kernel or another host may have open.
 */
const char *
pw_engine_host(void)
{
	return (utsname()->nodename);
}

utsname_t *
utsname(void)
{
	static __thread utsname_t host;
	struct utsname found;
	if (host.nodename[0] == '\0' && uname(&found) == 0) {
		host = found;
		(void) snprintf(host.nodename, sizeof (host.nodename), "%.50s (poolwright)", found.nodename);
	}
	return (&host);
}

int
pw_engine_start(const pw_engine_config_t *config)
{
	pw_locks_link();
	if (config->processors != 0) {
		pw_cost_set(&config->costs);
		pw_clock_start(config->processors, config->seed, config->costs.call_ns, config->costs.switch_ns);
	}
	if ((spa_config_path = strdup(config->cache_path)) == NULL)
		return (ENOMEM);
	(void) unlink(config->cache_path);	/* with a stale one, an import fails with EEXIST */

	/*
	 * With assertions, all checks are enabled at first, among them a checksum of every cached buffer at each use. Packaged
	 * kernel modules run without them.
	 */
	zfs_flags = 0;

	/* Read by arc_all_memory(); the minimum is set once the ARC exists. */
	zfs_arc_max = config->arc_bytes;
	if (config->dirty_bytes != 0) {
		zfs_dirty_data_max_max = config->dirty_bytes;
		zfs_dirty_data_max = config->dirty_bytes;
	}
	if (config->txg_timeout_s != 0)
		zfs_txg_timeout = config->txg_timeout_s;

	pw_vdev_threads = (int)config->vdev_threads;
	pw_layout_register();
	kernel_init(SPA_MODE_READ | SPA_MODE_WRITE);
	if (config->dirty_bytes != 0)
		pw_engine_set_dirty(config->dirty_bytes);
	pw_engine_set_arc(config->arc_bytes);
	return (0);
}

void
pw_engine_set_arc(uint64_t bytes)
{
	/* In steps: a maximum must be above the minimum when it is set, and a minimum must not be above the maximum. */
	(void) pthread_mutex_lock(&limits);
	LIMIT(zfs_arc_min, MAX(bytes / 2, 2ULL << SPA_MAXBLOCKSHIFT));
	arc_tuning_update(B_FALSE);
	LIMIT(zfs_arc_max, bytes);
	arc_tuning_update(B_FALSE);
	LIMIT(zfs_arc_min, bytes);
	arc_tuning_update(B_FALSE);
	(void) pthread_mutex_unlock(&limits);
}

void
pw_engine_set_dirty(uint64_t bytes)
{
	LIMIT(zfs_dirty_data_max, bytes);
}

void
pw_engine_set_txg_timeout(uint32_t seconds)
{
	LIMIT(zfs_txg_timeout, seconds);
}

/*
 * The module parameters that can be set: variables of 64 or of 32 bits.
 */
extern int l2arc_noprefetch, zfs_compressed_arc_enabled;
extern uint_t zfs_vdev_async_write_max_active;
extern uint64_t l2arc_write_max;
static const struct tunable { const char *name; uint64_t *wide; void *narrow; } tunables[] = {
	{ "dbuf_cache_max_bytes", &dbuf_cache_max, NULL },
	{ "l2arc_noprefetch", NULL, &l2arc_noprefetch },
	{ "l2arc_write_max", &l2arc_write_max, NULL },
	{ "zfs_compressed_arc_enabled", NULL, &zfs_compressed_arc_enabled },
	{ "zfs_dio_enabled", NULL, &pw_dio_enabled },
#ifdef PW_HAS_UNCACHED_IO
	{ "zfs_dio_strict", NULL, &pw_dio_strict },
#endif
	{ "zfs_dirty_data_max", &zfs_dirty_data_max, NULL },
	{ "zfs_immediate_write_sz", &pw_immediate_write_sz, NULL },
	{ "zfs_max_recordsize", NULL, &zfs_max_recordsize },
	{ "zfs_txg_timeout", NULL, &zfs_txg_timeout },
	{ "zfs_vdev_async_write_max_active", NULL, &zfs_vdev_async_write_max_active },
};

const char *
pw_engine_tunable(uint64_t index)
{
	return (index < sizeof (tunables) / sizeof (tunables[0]) ? tunables[index].name : NULL);
}

int
pw_engine_set_tunable(const char *name, uint64_t value)
{
	for (size_t i = 0; i < sizeof (tunables) / sizeof (tunables[0]); i++) {
		const struct tunable *it = &tunables[i];
		if (strcmp(it->name, name) != 0)
			continue;
		if (it->wide != NULL)
			LIMIT(*it->wide, value);
		else
			__atomic_store_n((uint32_t *)it->narrow, (uint32_t)MIN(value, UINT32_MAX), __ATOMIC_RELAXED);
		return (0);
	}
	return (ENOENT);
}

#define	SUM(name)	wmsum_value(&arc_sums.arcstat_##name)

void
pw_engine_arc_stats(pw_arc_stats_t *out)
{
	*out = (pw_arc_stats_t) {
		.hits = SUM(hits),
		.iohits = SUM(iohits),
		.misses = SUM(misses),
		.demand_data_hits = SUM(demand_data_hits),
		.demand_data_iohits = SUM(demand_data_iohits),
		.demand_data_misses = SUM(demand_data_misses),
		.demand_metadata_hits = SUM(demand_metadata_hits),
		.demand_metadata_iohits = SUM(demand_metadata_iohits),
		.demand_metadata_misses = SUM(demand_metadata_misses),
		.prefetch_data_hits = SUM(prefetch_data_hits),
		.prefetch_data_misses = SUM(prefetch_data_misses),
		.prefetch_metadata_hits = SUM(prefetch_metadata_hits),
		.prefetch_metadata_misses = SUM(prefetch_metadata_misses),
		.mru_hits = SUM(mru_hits),
		.mru_ghost_hits = SUM(mru_ghost_hits),
		.mfu_hits = SUM(mfu_hits),
		.mfu_ghost_hits = SUM(mfu_ghost_hits),
		.size = aggsum_value(&arc_sums.arcstat_size),
		.target = arc_c,
		.max = arc_c_max,
		.compressed_size = SUM(compressed_size),
		.uncompressed_size = SUM(uncompressed_size),
		.l2_hits = SUM(l2_hits),
		.l2_misses = SUM(l2_misses),
		.l2_size = SUM(l2_psize),
	};
}

#define	HELD(state, type)	zfs_refcount_count(&(state).arcs_size[type])
#define	EVICTABLE(state, type)	zfs_refcount_count(&(state).arcs_esize[type])

void
pw_engine_arc_structures(uint32_t *header, uint32_t *buffer, uint32_t *dbuf)
{
	*header = sizeof (arc_buf_hdr_t);
	*buffer = sizeof (arc_buf_t);
	*dbuf = sizeof (dmu_buf_impl_t);
}

void
pw_engine_arc_sizes(pw_arc_sizes_t *out)
{
	*out = (pw_arc_sizes_t) {
		.anon_data = HELD(ARC_anon, ARC_BUFC_DATA),
		.anon_metadata = HELD(ARC_anon, ARC_BUFC_METADATA),
		.mru_data = HELD(ARC_mru, ARC_BUFC_DATA),
		.mru_metadata = HELD(ARC_mru, ARC_BUFC_METADATA),
		.mru_evictable_data = EVICTABLE(ARC_mru, ARC_BUFC_DATA),
		.mru_evictable_metadata = EVICTABLE(ARC_mru, ARC_BUFC_METADATA),
		.mfu_data = HELD(ARC_mfu, ARC_BUFC_DATA),
		.mfu_metadata = HELD(ARC_mfu, ARC_BUFC_METADATA),
		.mfu_evictable_data = EVICTABLE(ARC_mfu, ARC_BUFC_DATA),
		.mfu_evictable_metadata = EVICTABLE(ARC_mfu, ARC_BUFC_METADATA),
		.mru_ghost_data = HELD(ARC_mru_ghost, ARC_BUFC_DATA),
		.mru_ghost_metadata = HELD(ARC_mru_ghost, ARC_BUFC_METADATA),
		.mfu_ghost_data = HELD(ARC_mfu_ghost, ARC_BUFC_DATA),
		.mfu_ghost_metadata = HELD(ARC_mfu_ghost, ARC_BUFC_METADATA),
		.uncached_data = HELD(ARC_uncached, ARC_BUFC_DATA),
		.uncached_metadata = HELD(ARC_uncached, ARC_BUFC_METADATA),
		.overhead_size = SUM(overhead_size),
		.hdr_size = SUM(hdr_size),
		.dbuf_size = SUM(dbuf_size),
		.dnode_size = SUM(dnode_size),
		.bonus_size = SUM(bonus_size),
		.meta = arc_meta,
		.pd = arc_pd,
		.pm = arc_pm,
	};
}
