/* SPDX-License-Identifier: CDDL-1.0 */
/* What the C files of this folder share with one another, ZFS types included. */
#ifndef POOLWRIGHT_INTERNAL_H
#define POOLWRIGHT_INTERNAL_H

#include <sys/zfs_context.h>
#include <sys/dmu.h>
#include <sys/dmu_objset.h>
#include <sys/dnode.h>
#include <sys/sa.h>
#include <sys/zfs_acl.h>
#include <sys/zfs_sa.h>
#include <sys/zfs_rlock.h>
#include <sys/zil.h>
#include <sys/zil_impl.h>
#include <sys/avl.h>

#include "engine.h"

/* A write of this many bytes or more goes to its place and into the log as a pointer; kernel default 32K. */
extern uint64_t pw_immediate_write_sz;

struct pw_dataset {
	char name[ZFS_MAX_DATASET_NAME_LEN];
	objset_t *os;
	zilog_t *zilog;
	zil_sums_t sums;
	sa_attr_type_t *attr;		/* attribute numbers are per dataset */
	uint64_t root, delete_queue;
	int readonly;
	uint64_t replayed;		/* log records replayed when it was opened */
	/*
	 * Two locks, because the log asks for nodes while it holds a transaction group open: the table of nodes is
	 * never locked across dmu_tx_assign, the names are.
	 */
	kmutex_t names;			/* the root directory and the delete queue */
	kmutex_t lock;			/* nodes */
	avl_tree_t nodes;		/* open pw_node by object */
};

struct pw_node {
	pw_dataset_t *ds;
	uint64_t object, gen;
	uint64_t size;			/* changed under the range lock, read anywhere */
	dnode_t *dn;
	sa_handle_t *sa;
	zfs_rangelock_t range;
	uint64_t refs;			/* under ds->lock */
	int unlinked;
	avl_node_t link;
};

/* dataset.c */
void pw_objset_disown(objset_t *os, const void *tag);

/* node.c: the ZPL's layout of nodes */
void pw_node_register_type(void);
/* Fills a fresh objset: master node, attribute registry, delete queue, root directory. */
int pw_node_format(objset_t *os, dmu_tx_t *tx);
/* Writes the attributes of a new node, in the order that is the on-disk contract. */
int pw_node_init(objset_t *os, sa_attr_type_t *attr, uint64_t object, uint64_t parent, uint64_t mode, uint64_t uid,
    uint64_t gid, uint64_t gen, const uint64_t crtime[2], dmu_tx_t *tx);
int pw_node_get(pw_dataset_t *ds, uint64_t object, pw_node_t **out);
void pw_node_release(pw_node_t *node);
void pw_node_now(uint64_t time[2]);
/* Adds or removes a name in the root directory, with its size and times; in `tx`, ds->names held. */
int pw_node_enter(pw_dataset_t *ds, const char *name, uint64_t object, dmu_tx_t *tx);
int pw_node_leave(pw_dataset_t *ds, const char *name, dmu_tx_t *tx);
int pw_node_lookup(pw_dataset_t *ds, const char *name, uint64_t *object);
int pw_node_drain_queue(pw_dataset_t *ds);

/* file.c */
int pw_write_range(pw_node_t *node, uint64_t offset, const void *buf, uint64_t len, int sync, uint64_t at_least);
int pw_set_size(pw_node_t *node, uint64_t size);
int pw_free_range(pw_node_t *node, uint64_t offset, uint64_t len);
int pw_create_object(pw_dataset_t *ds, const char *name, const lr_create_t *replayed, uint32_t mode, uint64_t *object);

/* log.c: the intent log */
void pw_log_create(pw_dataset_t *ds, dmu_tx_t *tx, const char *name, uint64_t object, uint64_t mode, uint64_t gen,
    const uint64_t crtime[2]);
void pw_log_remove(pw_dataset_t *ds, dmu_tx_t *tx, const char *name, uint64_t object);
void pw_log_write(pw_node_t *node, dmu_tx_t *tx, uint64_t offset, uint64_t len, int sync);
void pw_log_punch(pw_node_t *node, dmu_tx_t *tx, uint64_t offset, uint64_t len);
void pw_log_size(pw_node_t *node, dmu_tx_t *tx, uint64_t size);
zil_get_data_t pw_log_get_data;
extern zil_replay_func_t *const pw_log_replay[TX_MAX_TYPE];

#endif
