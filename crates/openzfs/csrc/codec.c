/* SPDX-License-Identifier: CDDL-1.0 */
/* The engine's codecs on a single record, by the rules of its write pipeline, without a pool. */

#include <sys/zfs_context.h>
#include <sys/abd.h>
#include <sys/spa.h>
#include <sys/zio.h>
#include <sys/zio_compress.h>
#include <sys/fs/zfs.h>
#include <zfs_prop.h>

#include "engine.h"

/* in libzpool, but declared only in libzfs.h */
extern const char *zfs_prop_values(zfs_prop_t);

int
pw_property_lookup(const char *property, const char *value, uint64_t *number)
{
	zfs_prop_t prop = zfs_name_to_prop(property);

	if (prop == ZPROP_INVAL || zfs_prop_get_type(prop) != PROP_TYPE_INDEX)
		return (ENOENT);
	return (zfs_prop_string_to_index(prop, value, number) == 0 ? 0 : EINVAL);
}

const char *
pw_property_values(const char *property)
{
	zfs_prop_t prop = zfs_name_to_prop(property);
	return (prop == ZPROP_INVAL ? NULL : zfs_prop_values(prop));
}

static enum zio_compress
algorithm(uint64_t property)
{
	enum zio_compress c = ZIO_COMPRESS_ALGO(property);
	return (c == ZIO_COMPRESS_ON ? ZIO_COMPRESS_LZ4 : c);
}

int
pw_codec_compress(uint64_t property, uint32_t gcd_alloc, uint32_t min_alloc, const void *record, size_t len, void *out,
    size_t *psize)
{
	enum zio_compress c = algorithm(property);
	/* `zstd` has no level in the property; a dataset uses the codec's default level, and so does this */
	uint8_t level = zio_complevel_select(NULL, c, ZIO_COMPRESS_LEVEL(property), ZIO_COMPLEVEL_DEFAULT);
	abd_t source, target, *to = &target;

	if (c >= ZIO_COMPRESS_FUNCTIONS)
		return (EINVAL);
	if (c == ZIO_COMPRESS_OFF) {
		*psize = len;		/* even zeros are stored: only a codec looks for holes */
		return (0);
	}
	abd_get_from_buf_struct(&source, (void *)record, len);
	abd_get_from_buf_struct(&target, out, len);
	if (abd_cmp_zero(&source, len) == 0)
		*psize = 0;
	else if (c == ZIO_COMPRESS_EMPTY)
		*psize = len;
	else
		*psize = zio_compress_data(c, &source, &to, len,
		    zio_get_compression_max_size(c, gcd_alloc, min_alloc, len), level);
	if (*psize > len)
		*psize = len;
	abd_free(&target);
	abd_free(&source);
	return (0);
}

int
pw_codec_decompress(uint64_t property, const void *in, size_t psize, void *record, size_t len)
{
	enum zio_compress c = algorithm(property);
	abd_t source, target;
	uint8_t level = 0;

	abd_get_from_buf_struct(&source, (void *)in, psize);
	abd_get_from_buf_struct(&target, record, len);
	int error = zio_decompress_data(c, &source, &target, psize, len, &level);
	abd_free(&target);
	abd_free(&source);
	return (error);
}
