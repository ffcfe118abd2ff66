/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * A cache of compressed records: a trial compresses the same record again and again, when it fills its pool and whenever the
 * application writes the record, and only the cost of the codec matters on the virtual clock. One thread runs at a time there, so the cache
 * has no lock.
 */
#ifndef POOLWRIGHT_COMPRESSED_H
#define POOLWRIGHT_COMPRESSED_H

#include <stdint.h>

#include <sys/abd.h>

/* A record's content and everything else on which its compression depends. */
typedef struct pw_record_key {
	uint64_t words[2];
} pw_record_key_t;

pw_record_key_t pw_compressed_key(abd_t *record, uint64_t bytes, uint64_t limit, uint32_t codec, uint32_t level);
/*
 * Returns the record's compressed size, and its bytes in `*content`, which are valid until the thread waits; -1 if the record is not in the
 * cache. A record that does not compress has the size `bytes` of its key and no content.
 */
int64_t pw_compressed_find(const pw_record_key_t *key, const void **content);
/* Adds a record; `content` is NULL if it does not compress. */
void pw_compressed_add(const pw_record_key_t *key, uint64_t size, abd_t *content);

#endif
