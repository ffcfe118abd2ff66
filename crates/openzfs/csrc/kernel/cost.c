/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * What the engine's work costs on the virtual clock: copies and checksums by their bytes, and each codec by its direction, the record's
 * size and how far it compresses it: lz4 takes a sixth of the time for a record of metadata, which is mostly zeros. The functions that do
 * this work in OpenZFS are renamed (scripts/openzfs.sh), and these call them.
 */

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/zfs_context.h>
#include <sys/abd.h>
#include <sys/zio.h>
#include <sys/zio_checksum.h>
#include <sys/zio_compress.h>

#include "clock.h"
#include "compressed.h"
#include "cost.h"
#include "number.h"

#undef clock_gettime

extern size_t openzfs_zio_compress_data(enum zio_compress c, abd_t *src, abd_t **dst, size_t s_len, size_t d_len, uint8_t level);
extern int openzfs_zio_decompress_data(enum zio_compress c, abd_t *src, abd_t *dst, size_t s_len, size_t d_len, uint8_t *level);
extern void openzfs_zio_checksum_compute(zio_t *zio, enum zio_checksum checksum, abd_t *abd, uint64_t size);
extern int openzfs_zio_checksum_error(zio_t *zio, zio_bad_cksum_t *out);

/*
 * A codec's cost is the mean of this many runs on the database's own records, without the slowest tenth, which neighbours on the machine
 * delay. The first runs are measured, then one in INTERVAL, so that the samples come from many parts of the database. Nothing is measured
 * before pw_cost_measure(), because a codec that does nothing but fill a pool finds its data in the processor's caches. A cost is passed on
 * to other trials if it has enough samples: a few may all be of metadata, where other trials have data.
 */
enum { SAMPLES = 200, FIRST = 8, INTERVAL = 32, ENOUGH = 32 };
enum { LEVELS = 256, SHIFTS = 26, RATIOS = 8, DIRECTIONS = 2 };

typedef struct codec_cost {
	uint64_t samples[SAMPLES];	/* nanoseconds */
	uint64_t sum;			/* of the samples */
	uint32_t n, runs;
	uint64_t known;			/* nanoseconds; 0: not yet */
} codec_cost_t;

/* The costs of a codec for records of a size, by the compression ratio's logarithm. */
typedef struct codec_costs {
	codec_cost_t of_ratio[RATIOS];
	uint32_t last;			/* ratio of the last run */
} codec_costs_t;

static pw_costs_t costs;
static int measuring;
/* By codec, level, logarithm of the record's size, and direction. */
static codec_costs_t *codecs[ZIO_COMPRESS_FUNCTIONS][LEVELS][SHIFTS][DIRECTIONS];

void
pw_cost_set(const pw_costs_t *its)
{
	costs = *its;
}

void
pw_cost_copy(uint64_t bytes)
{
	if (pw_clock_is_virtual)
		pw_clock_charge(bytes * costs.copy_ps / 1000);
}

void
pw_cost_measure(void)
{
	measuring = 1;
}

static void
charge_checksum(uint64_t bytes)
{
	pw_clock_charge(bytes * costs.checksum_ps / 1000);
}

static uint64_t
thread_ns(void)
{
	struct timespec t;
	(void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return ((uint64_t)t.tv_sec * NANOSEC + t.tv_nsec);
}

static codec_costs_t *
costs_at(uint32_t codec, uint32_t level, uint32_t shift, uint32_t direction)
{
	codec_costs_t **at = &codecs[codec][level][shift][direction];
	if (*at == NULL && (*at = calloc(1, sizeof (codec_costs_t))) == NULL)
		abort();
	return (*at);
}

/* The level of zstd where a dataset names none (ZIO_ZSTD_LEVEL_DEFAULT), and that of all codecs without levels. */
enum { ZSTD_DEFAULT = 3, NO_LEVEL = 0 };

/* OpenZFS passes 0 or ZIO_COMPLEVEL_DEFAULT for codecs without levels. */
static uint32_t
level_of(uint32_t codec, uint32_t level)
{
	if (codec != ZIO_COMPRESS_ZSTD)
		return (NO_LEVEL);
	return (level == ZIO_COMPLEVEL_DEFAULT ? ZSTD_DEFAULT : level);
}

static codec_costs_t *
costs_of(enum zio_compress c, uint8_t level, size_t bytes, int direction)
{
	return (costs_at(c, level_of(c, level), MIN(highbit64(bytes), SHIFTS - 1), direction));
}

static uint32_t
ratio_of(size_t bytes, size_t compressed)
{
	uint32_t halvings = highbit64(bytes / MAX(compressed, 1));
	return (MIN(halvings > 0 ? halvings - 1 : 0, RATIOS - 1));
}

/* Returns the mean of the samples without the slowest tenth. */
static uint64_t
mean_of(codec_cost_t *cost)
{
	uint64_t sum = 0;
	uint32_t n = cost->n - cost->n / 10;
	qsort(cost->samples, cost->n, sizeof (uint64_t), pw_compare_u64);
	for (uint32_t i = 0; i < n; i++)
		sum += cost->samples[i];
	return (MAX(sum / MAX(n, 1), 1));
}

/* Returns when a run began, or 0 if its cost, which that of `ratio` probably is, is known. */
static uint64_t
begin_run(codec_costs_t *codec, uint32_t ratio)
{
	return (measuring && codec->of_ratio[ratio].known == 0 ? thread_ns() : 0);
}

/* Whether the next run of a codec for records of this ratio is a sample, if it is measured. */
static int
is_sample(const codec_cost_t *cost)
{
	return (cost->known == 0 && (cost->runs < FIRST || cost->runs % INTERVAL == 0));
}

/* The cost of the nearest ratio that has one, or 0. */
static uint64_t
nearest(codec_costs_t *codec, uint32_t ratio)
{
	for (uint32_t distance = 0; distance < RATIOS; distance++) {
		for (int sign = -1; sign <= 1; sign += 2) {
			uint32_t at = ratio + sign * distance;
			codec_cost_t *cost = at < RATIOS ? &codec->of_ratio[at] : NULL;
			if (cost != NULL && (cost->known != 0 || cost->n > 0))
				return (cost->known != 0 ? cost->known : cost->sum / cost->n);
		}
	}
	return (0);
}

static void
charge_run(codec_costs_t *codec, uint32_t ratio, uint64_t began)
{
	uint64_t took = began != 0 ? (thread_ns() - began) * costs.codec_permille / 1000 : 0;
	codec_cost_t *cost = &codec->of_ratio[ratio];
	codec->last = ratio;
	/* Another thread may have taken the last sample while the codec waited for a lock. */
	if (took != 0 && is_sample(cost)) {
		cost->samples[cost->n++] = took;
		cost->sum += took;
		if (cost->n == SAMPLES)
			cost->known = mean_of(cost);
	}
	cost->runs += measuring;
	pw_clock_charge(nearest(codec, ratio));
}

int
pw_cost_set_codec(const pw_codec_cost_t *its)
{
	if (its->codec >= ZIO_COMPRESS_FUNCTIONS || its->level >= LEVELS || its->shift >= SHIFTS || its->ratio >= RATIOS ||
	    its->direction >= DIRECTIONS)
		return (EINVAL);
	costs_at(its->codec, level_of(its->codec, its->level), its->shift, its->direction)->of_ratio[its->ratio].known = its->ns;
	return (0);
}

uint32_t
pw_cost_codecs(pw_codec_cost_t *out, uint32_t room)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < ZIO_COMPRESS_FUNCTIONS * LEVELS * SHIFTS * DIRECTIONS; i++) {
		uint32_t direction = i % DIRECTIONS, shift = i / DIRECTIONS % SHIFTS;
		uint32_t level = i / (DIRECTIONS * SHIFTS) % LEVELS, codec = i / (DIRECTIONS * SHIFTS * LEVELS);
		codec_costs_t *costs_of_size = codecs[codec][level][shift][direction];
		for (uint32_t ratio = 0; costs_of_size != NULL && ratio < RATIOS && n < room; ratio++) {
			codec_cost_t *cost = &costs_of_size->of_ratio[ratio];
			if (cost->known == 0 && cost->n < ENOUGH)
				continue;
			out[n++] = (pw_codec_cost_t) {
				.codec = codec, .level = level, .shift = shift, .ratio = ratio, .direction = direction,
				.ns = cost->known != 0 ? cost->known : mean_of(cost),
			};
		}
	}
	return (n);
}

size_t
zio_compress_data(enum zio_compress c, abd_t *src, abd_t **dst, size_t s_len, size_t d_len, uint8_t level)
{
	if (c <= ZIO_COMPRESS_OFF || !pw_clock_is_virtual)
		return (openzfs_zio_compress_data(c, src, dst, s_len, d_len, level));
	codec_costs_t *codec = costs_of(c, level, s_len, 0);
	pw_record_key_t key = pw_compressed_key(src, s_len, d_len, c, level);
	/* Before the search, because it may wait. */
	if (*dst == NULL)
		*dst = abd_alloc_sametype(src, s_len);
	const void *content = NULL;
	int64_t known = pw_compressed_find(&key, &content);
	if (known >= 0 && !(measuring && is_sample(&codec->of_ratio[ratio_of(s_len, known)]))) {
		if (content != NULL)
			abd_copy_from_buf(*dst, content, known);
		charge_run(codec, ratio_of(s_len, known), 0);
		return (known);
	}
	uint64_t began = begin_run(codec, codec->last);
	size_t size = openzfs_zio_compress_data(c, src, dst, s_len, d_len, level);
	if (known < 0)
		pw_compressed_add(&key, size, size < s_len ? *dst : NULL);
	charge_run(codec, ratio_of(s_len, size), began);
	return (size);
}

int
zio_decompress_data(enum zio_compress c, abd_t *src, abd_t *dst, size_t s_len, size_t d_len, uint8_t *level)
{
	if (c <= ZIO_COMPRESS_OFF || !pw_clock_is_virtual)
		return (openzfs_zio_decompress_data(c, src, dst, s_len, d_len, level));
	codec_costs_t *codec = costs_of(c, 0, d_len, 1);
	uint32_t ratio = ratio_of(d_len, s_len);
	uint64_t began = begin_run(codec, ratio);
	int error = openzfs_zio_decompress_data(c, src, dst, s_len, d_len, level);
	charge_run(codec, ratio, began);
	return (error);
}

void
zio_checksum_compute(zio_t *zio, enum zio_checksum checksum, abd_t *abd, uint64_t size)
{
	openzfs_zio_checksum_compute(zio, checksum, abd, size);
	if (pw_clock_is_virtual)
		charge_checksum(size);
}

int
zio_checksum_error(zio_t *zio, zio_bad_cksum_t *out)
{
	if (pw_clock_is_virtual)
		charge_checksum(zio->io_size);
	return (openzfs_zio_checksum_error(zio, out));
}
