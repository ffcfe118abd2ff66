/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * What the engine's work costs on the virtual clock: copies and checksums by their bytes, and each codec by its direction and
 * the record's size. The functions that do this work in OpenZFS are renamed (scripts/openzfs.sh), and these call them.
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
#include "cost.h"

#undef clock_gettime

extern size_t openzfs_zio_compress_data(enum zio_compress c, abd_t *src, abd_t **dst, size_t s_len, size_t d_len, uint8_t level);
extern int openzfs_zio_decompress_data(enum zio_compress c, abd_t *src, abd_t *dst, size_t s_len, size_t d_len, uint8_t *level);
extern void openzfs_zio_checksum_compute(zio_t *zio, enum zio_checksum checksum, abd_t *abd, uint64_t size);
extern int openzfs_zio_checksum_error(zio_t *zio, zio_bad_cksum_t *out);

/* A codec's cost is the median of this many runs on the database's own records. */
enum { SAMPLES = 31 };
enum { LEVELS = 256, SHIFTS = 26, DIRECTIONS = 2 };

typedef struct codec_cost {
	uint64_t samples[SAMPLES];	/* nanoseconds */
	uint32_t n;
	uint64_t known;			/* nanoseconds; 0: not yet */
} codec_cost_t;

static pw_costs_t costs;
/* By codec, level, logarithm of the record's size, and direction. */
static codec_cost_t *codecs[ZIO_COMPRESS_FUNCTIONS][LEVELS][SHIFTS][DIRECTIONS];

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

static int
compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x < y ? -1 : x > y);
}

static codec_cost_t *
cost_of(enum zio_compress c, uint8_t level, size_t bytes, int direction)
{
	int shift = MIN(highbit64(bytes), SHIFTS - 1);
	codec_cost_t **at = &codecs[c][level][shift][direction];
	if (*at == NULL)
		*at = umem_zalloc(sizeof (codec_cost_t), UMEM_NOFAIL);
	return (*at);
}

static void
charge_codec(codec_cost_t *cost, uint64_t took)
{
	if (cost->known == 0 && cost->n < SAMPLES)
		cost->samples[cost->n++] = took;
	if (cost->known == 0 && cost->n == SAMPLES) {
		qsort(cost->samples, SAMPLES, sizeof (uint64_t), compare_u64);
		cost->known = MAX(cost->samples[SAMPLES / 2], 1);
	}
	pw_clock_charge(cost->known != 0 ? cost->known : took);
}

/* Charges a codec's fixed cost for these bytes, if it has one. */
static int
charged_by_bytes(uint64_t bytes)
{
	if (pw_clock_is_virtual && costs.codec_ps != 0)
		pw_clock_charge(bytes * costs.codec_ps / 1000);
	return (!pw_clock_is_virtual || costs.codec_ps != 0);
}

size_t
zio_compress_data(enum zio_compress c, abd_t *src, abd_t **dst, size_t s_len, size_t d_len, uint8_t level)
{
	if (c <= ZIO_COMPRESS_OFF || charged_by_bytes(s_len))
		return (openzfs_zio_compress_data(c, src, dst, s_len, d_len, level));
	codec_cost_t *cost = cost_of(c, level, s_len, 0);
	uint64_t began = cost->known != 0 ? 0 : thread_ns();
	size_t size = openzfs_zio_compress_data(c, src, dst, s_len, d_len, level);
	charge_codec(cost, cost->known != 0 ? 0 : thread_ns() - began);
	return (size);
}

int
zio_decompress_data(enum zio_compress c, abd_t *src, abd_t *dst, size_t s_len, size_t d_len, uint8_t *level)
{
	if (c <= ZIO_COMPRESS_OFF || charged_by_bytes(d_len))
		return (openzfs_zio_decompress_data(c, src, dst, s_len, d_len, level));
	codec_cost_t *cost = cost_of(c, 0, d_len, 1);
	uint64_t began = cost->known != 0 ? 0 : thread_ns();
	int error = openzfs_zio_decompress_data(c, src, dst, s_len, d_len, level);
	charge_codec(cost, cost->known != 0 ? 0 : thread_ns() - began);
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
