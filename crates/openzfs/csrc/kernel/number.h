/* SPDX-License-Identifier: CDDL-1.0 */
/* Numbers: an order for qsort(), and a random sequence. Plain C without ZFS types. */
#ifndef POOLWRIGHT_NUMBER_H
#define POOLWRIGHT_NUMBER_H

#include <stdint.h>

static inline int
pw_compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x < y ? -1 : x > y);
}

/* xorshift64* (Vigna 2016). The state must not be 0. */
static inline uint64_t
pw_random_next(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (*state * 0x2545f4914f6cdd1dULL);
}

#endif
