/* SPDX-License-Identifier: CDDL-1.0 */
/* See compressed.h. */

#include <string.h>
#include <sys/mman.h>
#include <sys/zfs_context.h>
#include <zfs_fletcher.h>

#include "compressed.h"

/* The contents are in a ring of this many bytes, where the newest replace the oldest. The memory is used as the ring fills. */
#define	RING	(512ULL << 20)
/* Slots of the hash table, and how many of them may hold a key: 40 MiB, used where keys are. */
#define	SLOTS	(1U << 20)
enum { PROBES = 8 };

typedef struct slot {
	pw_record_key_t key;
	uint64_t at;			/* bytes written to the ring before this content */
	uint32_t size;			/* of the compressed record */
	uint32_t stored;		/* bytes of the content; 0 if the record does not compress */
	uint64_t used;			/* 0: empty */
} slot_t;

static slot_t *slots;
static uint8_t *ring;
static uint64_t written;		/* bytes ever written to the ring, gaps at its end included */

static void *
reserve(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return (at == MAP_FAILED ? NULL : at);
}

static int
is_ready(void)
{
	if (ring == NULL) {
		slots = reserve(SLOTS * sizeof (slot_t));
		ring = slots != NULL ? reserve(RING) : NULL;
	}
	return (ring != NULL);
}

/* The ring still has the content. */
static int
is_kept(const slot_t *slot)
{
	return (slot->used && (slot->stored == 0 || slot->at + RING >= written));
}

pw_record_key_t
pw_compressed_key(abd_t *record, uint64_t bytes, uint64_t limit, uint32_t codec, uint32_t level)
{
	zio_cksum_t sum;
	fletcher_init(&sum);
	(void) abd_iterate_func(record, 0, bytes, fletcher_4_incremental_native, &sum);
	uint64_t with = (bytes << 40) ^ (limit << 16) ^ (codec << 8) ^ level;
	return ((pw_record_key_t) { .words = {
		sum.zc_word[0] ^ (sum.zc_word[2] * 0x9e3779b97f4a7c15ULL) ^ with,
		sum.zc_word[1] ^ (sum.zc_word[3] * 0xc2b2ae3d27d4eb4fULL) ^ with,
	} });
}

/* Returns the key's slot; if there is none, the one to use for it if `add`, or NULL. */
static slot_t *
slot_of(const pw_record_key_t *key, int add)
{
	uint64_t first = (key->words[0] ^ (key->words[1] * 0x9e3779b97f4a7c15ULL)) >> 32;
	slot_t *oldest = NULL;
	for (uint32_t probe = 0; probe < PROBES; probe++) {
		slot_t *slot = &slots[(first + probe) % SLOTS];
		if (slot->used && memcmp(&slot->key, key, sizeof (*key)) == 0)
			return (slot);
		if (!slot->used)
			return (add ? slot : NULL);
		if (oldest == NULL || slot->at < oldest->at)
			oldest = slot;
	}
	return (add ? oldest : NULL);
}

int64_t
pw_compressed_find(const pw_record_key_t *key, const void **content)
{
	slot_t *slot = is_ready() ? slot_of(key, 0) : NULL;
	if (slot == NULL || !is_kept(slot))
		return (-1);
	*content = slot->stored != 0 ? ring + slot->at % RING : NULL;
	return (slot->size);
}

void
pw_compressed_add(const pw_record_key_t *key, uint64_t size, abd_t *content)
{
	if (!is_ready())
		return;
	uint64_t bytes = content != NULL ? size : 0;
	/* A content is not divided at the ring's end. */
	if (written % RING + bytes > RING)
		written += RING - written % RING;
	if (bytes != 0)
		abd_copy_to_buf(ring + written % RING, content, bytes);
	*slot_of(key, 1) = (slot_t) { .key = *key, .at = written, .size = size, .stored = bytes, .used = 1 };
	written += bytes;
}
