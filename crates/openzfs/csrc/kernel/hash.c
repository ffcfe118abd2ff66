/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * Hashes of dnodes, dbufs and names. OpenZFS derives them from addresses, which differ between two runs. On the virtual clock, these
 * functions derive them from the numbers of the dataset and the object instead. The build directs the calls in dbuf.c, dmu_objset.c
 * and zap_micro.c here (scripts/openzfs.sh).
 */

#include <sys/zfs_context.h>
#include <sys/dmu_objset.h>
#include <sys/dsl_dataset.h>
#include <sys/dbuf.h>
#include <sys/dnode.h>
#include <sys/zap_impl.h>
#include <cityhash.h>

#include "clock.h"

uint64_t pw_cityhash2(uint64_t os, uint64_t object);
uint64_t pw_cityhash4(uint64_t os, uint64_t object, uint64_t level, uint64_t block);

void pw_dmu_buf_will_dirty(dmu_buf_t *db, dmu_tx_t *tx);
void pw_dmu_buf_rele(dmu_buf_t *db, const void *tag);
boolean_t pw_dnode_add_ref(dnode_t *dn, const void *tag);

/* ---- dnodes, whose hash decides in which order they are synced, and dbufs, whose hash decides in which order they are evicted ---- */

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

/*
 * ---- names in a ZAP ----
 *
 * A ZAP stores a salt when it is created (mzap_create_impl()), made of the addresses of its dbuf and its transaction. Entries are in
 * the order of their salted hashes. So the salt decides how many entries zap_value_search() compares, and in which leaf of a large
 * ZAP a name is. OpenZFS calls dmu_buf_will_dirty() on the empty block, writes the salt, and then calls dmu_buf_rele(), or
 * dnode_add_ref() if it converts the ZAP at once.
 */

static void
salt_created(void)
{
	pw_locals_t *my = pw_thread_locals();
	dmu_buf_t *created = my->created;
	mzap_phys_t *zap;

	if (created == NULL)
		return;
	zap = created->db_data;
	if (zap->mz_block_type == ZBT_MICRO)
		zap->mz_salt = cityhash2(number_of((uintptr_t)((dmu_buf_impl_t *)created)->db_objset), created->db_object) | 1;
	my->created = NULL;
}

void
pw_dmu_buf_will_dirty(dmu_buf_t *db, dmu_tx_t *tx)
{
	dmu_buf_will_dirty(db, tx);
	if (pw_clock_is_virtual && ((mzap_phys_t *)db->db_data)->mz_block_type == 0)
		pw_thread_locals()->created = db;
}

void
pw_dmu_buf_rele(dmu_buf_t *db, const void *tag)
{
	salt_created();
	dmu_buf_rele(db, tag);
}

boolean_t
pw_dnode_add_ref(dnode_t *dn, const void *tag)
{
	salt_created();
	return (dnode_add_ref(dn, tag));
}
