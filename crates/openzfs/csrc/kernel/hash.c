/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Hashes of dnodes and dbufs. OpenZFS hashes the address of the object set, which differs between two runs and decides in which order
 * dnodes are synced and dbufs are evicted. On the virtual clock, these functions hash the number of its dataset instead. The build
 * directs the calls in dbuf.c and dmu_objset.c here (scripts/openzfs.sh).
 */

#include <sys/zfs_context.h>
#include <sys/dmu_objset.h>
#include <sys/dsl_dataset.h>
#include <cityhash.h>

#include "clock.h"

uint64_t pw_cityhash2(uint64_t os, uint64_t object);
uint64_t pw_cityhash4(uint64_t os, uint64_t object, uint64_t level, uint64_t block);

static uint64_t
number_of(uint64_t address)
{
	const objset_t *os = (const objset_t *)(uintptr_t)address;
	if (!pw_clock_is_virtual || os == NULL)
		return (address);
	return (os->os_dsl_dataset == NULL ? 0 : os->os_dsl_dataset->ds_object);
}

uint64_t
pw_cityhash2(uint64_t os, uint64_t object)
{
	return (cityhash2(number_of(os), object));
}

uint64_t
pw_cityhash4(uint64_t os, uint64_t object, uint64_t level, uint64_t block)
{
	return (cityhash4(number_of(os), object, level, block));
}
