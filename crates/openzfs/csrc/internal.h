/* SPDX-License-Identifier: CDDL-1.0 */
/* Declarations that the C files of this directory share, with ZFS types. */
#ifndef POOLWRIGHT_INTERNAL_H
#define POOLWRIGHT_INTERNAL_H

#include <sys/zfs_context.h>
#include <sys/dmu.h>
#include <sys/dmu_objset.h>
#include <sys/dnode.h>
#include <sys/sa.h>
#include <sys/zap.h>
#include <sys/zfs_acl.h>
#include <sys/zfs_sa.h>
#include <sys/zfs_rlock.h>
#include <sys/zil.h>
#include <sys/zil_impl.h>
#include <sys/avl.h>

#include "engine.h"

/* A write of this many bytes or more goes to its final place, and the log gets a pointer. Kernel default: 32K. */
extern uint64_t pw_immediate_write_sz;

/* direct.c: zfs_dio_enabled and zfs_dio_strict. */
extern int pw_dio_enabled, pw_dio_strict;

/* kernel/taskq.c: number of threads for the vdevs' requests, if more than the library's. Set before the library starts. */
extern int pw_vdev_threads;

/* Nodes without references that are kept for the next lookup: about 2.5 KB each. */
enum { PW_IDLE_NODES = 8192, PW_BUCKETS = 4096 };

typedef struct pw_bucket {
	kmutex_t lock;
	avl_tree_t nodes;		/* pw_node by object */
} pw_bucket_t;

struct pw_dataset {
	char name[ZFS_MAX_DATASET_NAME_LEN];
	objset_t *os;
	zilog_t *zilog;
	zil_sums_t sums;
	sa_attr_type_t *attr;		/* attribute numbers are per dataset */
	uint64_t root, delete_queue;
	uint64_t normalization;		/* of names; with U8_TEXTPREP_TOUPPER, case is folded */
	int utf8only;
	int readonly;
	int ignore_acls;		/* serve nodes with ACLs that no mode can express */
	pw_log_trouble_t *trouble;	/* belongs to the caller that opens it: why its log cannot be replayed */
	uint64_t replayed;		/* log records replayed when it was opened */
	/*
	 * Order of locks: renames, a directory's names (of two directories only with `renames` held), a node's range, the
	 * assignment of a transaction, a node's lock. The locks of buckets and of the idle list are never held across any
	 * of these, because the log looks up nodes while it holds a transaction group open.
	 */
	kmutex_t renames;		/* serialises moves between directories and removals of directories */
	pw_bucket_t buckets[PW_BUCKETS];
	kmutex_t idle_lock;
	list_t idle;			/* nodes without references, least recently used first */
	uint64_t idle_count;
	taskq_t *reaper;		/* frees unlinked objects for threads that must not open a transaction */
	pw_node_t *volume;		/* the node of a volume; NULL in a file system. A volume uses no bucket and none of the lists */
};

struct pw_node {
	pw_dataset_t *ds;
	uint64_t object, gen;
	dnode_t *dn;
	sa_handle_t *sa;
	zfs_rangelock_t range;		/* of a file's data */
	kmutex_t names;			/* of a directory: its entries */
	kmutex_t lock;			/* protects the attributes and the fields below */
	uint64_t size;			/* of a file: changed only with the range lock held too; read without a lock */
	uint64_t mode, links, flags;
	nvlist_t *xattrs;		/* those in the attribute area, once they were read */
	_Atomic int unlinked;		/* has no name: freed with the last reference; the log reads this without a lock */
	int linkable;			/* never had a name, and may get one */
	uint64_t refs;			/* protected by the bucket's lock */
	avl_node_t link;
	list_node_t idle_link;
};

/* layout.c: the ZPL's layout of nodes on disk */
typedef struct pw_made {		/* the attributes of a new node, from the caller or from a replayed record */
	uint64_t object, gen, parent, dnode_size;
	uint64_t crtime[2];
	uint64_t mode, uid, gid, rdev, projid, flags;
	const char *target;
	int unnamed;
} pw_made_t;

void pw_layout_register(void);
/* Formats a new objset: master node, attribute registry, delete queue, root directory. */
int pw_layout_format(objset_t *os, dmu_tx_t *tx);
/* Writes the attributes of a new node in the order that the on-disk format requires. */
int pw_layout_make(objset_t *os, sa_attr_type_t *attr, const pw_made_t *made, dmu_tx_t *tx);
/* Writes the entries of the trivial ACL of a mode, at most PW_ACES. Returns their number. */
enum { PW_ACES = 6, PW_ACE_BYTES = 8, PW_BASE_ATTR_BYTES = 176 };
uint64_t pw_layout_acl(uint64_t mode, void *aces);
void pw_now(uint64_t time[2]);

/* node.c: nodes in memory */
void pw_nodes_init(pw_dataset_t *ds);
void pw_nodes_fini(pw_dataset_t *ds);
int pw_node_get(pw_dataset_t *ds, uint64_t object, pw_node_t **out);
void pw_node_release(pw_node_t *node);
/* For log threads, which must not open a transaction. */
void pw_node_release_later(pw_node_t *node);
int pw_node_drain_queue(pw_dataset_t *ds);
static inline int pw_node_is_dir(const pw_node_t *node) { return ((node->mode & S_IFMT) == S_IFDIR); }

/* attr.c; within `tx`; the caller holds node->lock where stated */
int pw_attr_set(pw_node_t *node, const pw_set_t *set);
int pw_attr_touch(pw_node_t *node, int with_size, dmu_tx_t *tx);
/* Writes `bulk`, which has room for two more, and the attributes that every change updates. node->lock held. */
int pw_attr_update(pw_node_t *node, sa_bulk_attr_t *bulk, int n, uint64_t now[2], dmu_tx_t *tx);

/* dir.c: entries; within `tx`, with the directory's names lock held */
int pw_dir_find(pw_node_t *dir, const char *name, uint64_t *object);
int pw_dir_enter(pw_node_t *dir, const char *name, uint64_t object, uint64_t mode, dmu_tx_t *tx);
int pw_dir_leave(pw_node_t *dir, const char *name, const pw_node_t *node, dmu_tx_t *tx);
int pw_dir_check_name(pw_dataset_t *ds, const char *name);
/* Holds for making a node in a directory, and making it. made->object: 0 for a new number. */
void pw_dir_hold_create(dmu_tx_t *tx, pw_node_t *dir, const char *name, const pw_made_t *made);
int pw_dir_create_object(pw_node_t *dir, pw_made_t *made, dmu_tx_t *tx);
/* Makes the node and its entry, for a call or for a replayed record. */
int pw_dir_make_as(pw_node_t *dir, const char *name, pw_made_t *made);

/* name.c */
int pw_name_rename_as(pw_node_t *from, const char *name, pw_node_t *to, const char *new_name, uint32_t flags,
    pw_made_t *whiteout, uint64_t *gone);
enum { PW_RENAME_NOREPLACE = 1, PW_RENAME_EXCHANGE = 2, PW_RENAME_WHITEOUT = 4 };

/* file.c; `how` has the bits of pw_file_read() and those of pw_direct_setup() */
int pw_write_range(pw_node_t *node, uint64_t offset, const void *buf, uint64_t len, int how, uint64_t end);
/* Writes through the ARC, within `tx`. */
int pw_write_cached(pw_node_t *node, uint64_t offset, const void *buf, uint64_t len, int how, dmu_tx_t *tx);
int pw_set_size(pw_node_t *node, uint64_t size, int log);
int pw_free_range(pw_node_t *node, uint64_t offset, uint64_t len);
int pw_may_write(pw_node_t *node, uint64_t offset, uint64_t len);

/* direct.c: direct I/O. The caller has locked the range, except for the first one. */
enum { PW_VIA_DIRECT = 256, PW_VIA_UNCACHED = 512 };
/* Adds to `how` what the release decides about this request. EINVAL: O_DIRECT, and the request is not aligned to pages. */
int pw_direct_setup(pw_node_t *node, int writes, uint64_t offset, uint64_t len, int *how);
int pw_direct_read(pw_node_t *node, uint64_t offset, char *buf, uint64_t len, int how);
int pw_direct_write(pw_node_t *node, uint64_t offset, const char *buf, uint64_t len, int how, dmu_tx_t *tx);

/* Since 2.4, a request with O_DIRECT that goes through the ARC is not kept there. */
#ifdef PW_HAS_UNCACHED_IO
typedef dmu_flags_t pw_dmu_flags_t;
static inline dmu_flags_t
pw_dmu_flags(int how)
{
	return (how & PW_VIA_UNCACHED ? DMU_READ_PREFETCH | DMU_UNCACHEDIO : DMU_READ_PREFETCH);
}
#else
typedef uint32_t pw_dmu_flags_t;
static inline uint32_t
pw_dmu_flags(int how)
{
	(void) how;
	return (DMU_READ_PREFETCH);
}
#endif

/* clone.c */
int pw_clone_blocks(pw_node_t *node, uint64_t offset, uint64_t len, uint64_t block, const blkptr_t *bps, size_t nbps);

/* log.c: records of the intent log */
void pw_log_create(pw_node_t *dir, dmu_tx_t *tx, const char *name, const pw_made_t *made);
void pw_log_remove(pw_node_t *dir, dmu_tx_t *tx, const char *name, uint64_t object, int directory, int last);
void pw_log_link(pw_node_t *dir, dmu_tx_t *tx, const char *name, uint64_t object);
void pw_log_rename(pw_node_t *from, dmu_tx_t *tx, const char *name, pw_node_t *to, const char *new_name,
    uint64_t object, uint32_t flags, const pw_made_t *whiteout);
void pw_log_write(pw_node_t *node, dmu_tx_t *tx, uint64_t offset, uint64_t len, int how, uint64_t size_before);
void pw_log_clone(pw_node_t *node, dmu_tx_t *tx, uint64_t offset, uint64_t len, uint64_t block, const blkptr_t *bps,
    size_t nbps);
void pw_log_punch(pw_node_t *node, dmu_tx_t *tx, uint64_t offset, uint64_t len);
void pw_log_set(pw_node_t *node, dmu_tx_t *tx, const pw_set_t *set);
void pw_log_xattr(pw_node_t *node, dmu_tx_t *tx, const char *name, const void *value, size_t len);
/* Commits the log records of a change to an object, or to names (0), if necessary. Returns `error`. */
int pw_log_settle(pw_dataset_t *ds, uint64_t object, int error, int sync);
zil_get_data_t pw_log_get_data;

/* The attributes that a SETATTR record of the log may set. */
enum { SETATTR_SETS = PW_SET_MODE | PW_SET_UID | PW_SET_GID | PW_SET_SIZE | PW_SET_ATIME | PW_SET_MTIME };

/* log_check.c: checks the log before it is replayed. Fills ds->trouble. */
int pw_log_check(pw_dataset_t *ds);
int pw_log_refuse(pw_dataset_t *ds, const lr_t *lr, int error, const char *what);
/* The number of records of a log that was not replayed. */
uint64_t pw_log_pending(pw_dataset_t *ds);
/* For zil_parse(): accepts every log block, because only its records matter. */
zil_parse_blk_func_t pw_log_any_block;
/* Whether the change of a record is on disk already, or was replayed before. */
static inline int
pw_log_is_done(const zilog_t *zilog, const lr_t *lr, uint64_t claim_txg)
{
	return (lr->lrc_seq <= zilog->zl_header->zh_replay_seq || lr->lrc_txg < claim_txg);
}
/* Reads the block with the data of an indirect write to `out`, which has room for it. NULL: only checks it. */
int pw_log_read_block(pw_dataset_t *ds, const lr_write_t *lr, void *out);

/* replay.c */
int pw_log_replay(pw_dataset_t *ds);

/* fault.c: waits until the failed vdevs are faulted */
void pw_fault_settle(void);

/* vdev.c: the configuration of a root vdev of these groups, for the library */
nvlist_t *pw_root_vdev(const pw_vdev_group_t *groups, size_t ngroups, uint32_t ashift);

/*
 * Detaches the replaced vdevs whose successors have all data. The library does so only after a scan: if the process was
 * killed between the end of a resilver and the detachment, both vdevs would remain until the next scrub.
 */
void pw_vdev_finish_replacements(spa_t *spa);

/* dataset.c */
void pw_objset_disown(objset_t *os, const void *tag);
/* What a file system and a volume have in common, once their objset is owned by `ds`. */
void pw_dataset_init(pw_dataset_t *ds);

/* volume.c */
void pw_volume_release(pw_dataset_t *ds);

/* ---- kernel/file.c ---- */

/* Whether a write to this vdev file completes without waiting for a device. */
int pw_seam_is_quick(const struct zfs_file *file);

#endif
