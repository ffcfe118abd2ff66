/* SPDX-License-Identifier: CDDL-1.0 */
/*
 * The engine's plain C interface, which bindgen translates to Rust. It uses no ZFS types, because the macros in ZFS headers
 * clash with other code. A function that returns an int returns 0 or an errno. Sizes are bytes, times nanoseconds.
 */
#ifndef POOLWRIGHT_ENGINE_H
#define POOLWRIGHT_ENGINE_H

#include <stddef.h>
#include <stdint.h>

/* ---- the engine as a whole (engine.c) ---- */

/* What the engine's work costs on the virtual clock (kernel/cost.c). */
typedef struct pw_costs {
	uint64_t call_ns;		/* a call of a lock or queue, with the code up to the next one */
	uint64_t switch_ns;		/* a processor's switch to another thread */
	uint64_t copy_ps;		/* picoseconds for a byte that is copied from or to the application */
	uint64_t checksum_ps;		/* picoseconds for a byte of a checksum */
	uint64_t codec_permille;	/* of the time that a codec is measured to take on this machine */
} pw_costs_t;

/* What a codec costs for a record. */
typedef struct pw_codec_cost {
	uint32_t codec;			/* enum zio_compress */
	uint32_t level;			/* of the codec; 0 when it decompresses */
	uint32_t shift;			/* number of bits of the record's size in bytes */
	uint32_t ratio;			/* number of halvings that lead from the record's size to its compressed size */
	uint32_t direction;		/* 0 compress, 1 decompress */
	uint64_t ns;
} pw_codec_cost_t;

/* Sets a cost, which is otherwise measured while the codec runs. Before the engine starts. Returns an errno. */
int pw_cost_set_codec(const pw_codec_cost_t *cost);
/* From now on, costs that are not known are measured. Until then, they are 0. */
void pw_cost_measure(void);
/* Writes the costs that were set, or measured often enough, to `out`. Returns their number. */
uint32_t pw_cost_codecs(pw_codec_cost_t *out, uint32_t room);

typedef struct pw_engine_config {
	const char *cache_path;		/* private spa config file; never that of the system */
	uint64_t arc_bytes;		/* both the minimum and the maximum of the ARC */
	uint64_t dirty_bytes;		/* zfs_dirty_data_max */
	uint32_t txg_timeout_s;		/* zfs_txg_timeout */
	uint32_t vdev_threads;		/* concurrent requests of all vdevs together; 0: the library's 16 */
	uint32_t processors;		/* the virtual clock's; 0: the real clock */
	uint64_t seed;			/* of the virtual clock's random numbers */
	pw_costs_t costs;		/* on the virtual clock */
} pw_engine_config_t;

typedef struct pw_arc_stats {
	uint64_t hits, iohits, misses;
	uint64_t demand_data_hits, demand_data_iohits, demand_data_misses;
	uint64_t demand_metadata_hits, demand_metadata_iohits, demand_metadata_misses;
	uint64_t prefetch_data_hits, prefetch_data_misses;
	uint64_t prefetch_metadata_hits, prefetch_metadata_misses;
	uint64_t mru_hits, mru_ghost_hits, mfu_hits, mfu_ghost_hits;
	uint64_t size, target, max, compressed_size, uncompressed_size;
	uint64_t l2_hits, l2_misses, l2_size;
} pw_arc_stats_t;

/* The ARC's bytes by state and type, ghosts at their uncompressed size, and its balance (meta, pd, pm) in units of 2^-32. */
typedef struct pw_arc_sizes {
	uint64_t anon_data, anon_metadata;
	uint64_t mru_data, mru_metadata, mru_evictable_data, mru_evictable_metadata;
	uint64_t mfu_data, mfu_metadata, mfu_evictable_data, mfu_evictable_metadata;
	uint64_t mru_ghost_data, mru_ghost_metadata, mfu_ghost_data, mfu_ghost_metadata;
	uint64_t uncached_data, uncached_metadata;
	uint64_t overhead_size, hdr_size, dbuf_size, dnode_size, bonus_size;
	uint64_t meta, pd, pm;
} pw_arc_sizes_t;

int pw_engine_start(const pw_engine_config_t *config);	/* ENOMEM */
void pw_engine_set_arc(uint64_t bytes);
void pw_engine_set_dirty(uint64_t bytes);
void pw_engine_set_txg_timeout(uint32_t seconds);
void pw_engine_arc_stats(pw_arc_stats_t *out);
void pw_engine_arc_sizes(pw_arc_sizes_t *out);
/* Bytes of the structures that count towards the ARC's size: a block's header, a handle on a block, a dbuf. */
void pw_engine_arc_structures(uint32_t *header, uint32_t *buffer, uint32_t *dbuf);
/* Sets a module parameter by name. ENOENT: it cannot be set. */
int pw_engine_set_tunable(const char *name, uint64_t value);
const char *pw_engine_tunable(uint64_t index);	/* their names; NULL after the last */

/* ---- vdevs that cannot be written (fault.c) ---- */

/*
 * Registers a hook, which any thread calls when a write (op 1) or flush (op 2) of a vdev's file fails. If `needed`, the pool
 * cannot continue without that vdev, and the hook must end the process; otherwise the vdev is being faulted. Op 3: all
 * copies of a block failed; op 4: a log names a txg of the far future. For these two, `path` is the pool's name, and
 * `needed` is set.
 */
void pw_fault_on_host_error(void (*hook)(const char *path, int op, int err, int needed));

/* ---- I/O between vdevs and the host's files (kernel/file.c) ---- */

typedef struct pw_device {		/* all zero: no emulation, real fsync */
	uint64_t read_latency_ns, write_latency_ns, flush_latency_ns;
	uint64_t seek_ns;		/* added to a request that does not continue the previous one */
	uint64_t cache_bytes;		/* read cache of the disk, in PW_SEGMENTS segments; 0: none */
	uint64_t read_bytes_s, write_bytes_s;
	uint64_t iops;			/* 0: no limit */
	uint32_t queue_depth;		/* requests served at the same time; 0: 1 */
	uint32_t emulate;		/* 0: pass through */
	uint32_t disks;			/* number of disks with these figures, striped by one controller; 0: 1 */
} pw_device_t;

enum { PW_MOST_DISKS = 24, PW_SEGMENTS = 16 };

typedef struct pw_vdev_stats {
	uint64_t read_bytes, write_bytes, read_ops, write_ops, flushes;
	uint64_t read_ns, write_ns, flush_ns;	/* total time of the requests, including emulation */
} pw_vdev_stats_t;

/* Sets the device of a vdev file, open or not, by its path in the pool. NULL: of all files. */
int pw_seam_set_device(const char *path, const pw_device_t *device);
/* Totals of all vdev files, including labels and uberblocks. */
void pw_seam_totals(pw_vdev_stats_t *out);
/* Totals of one vdev file, which a spare in use has open twice. ENOENT: it is not open. */
int pw_seam_file(const char *path, pw_vdev_stats_t *out);
#ifdef PW_FAULT_INJECTION
/* Sends a request to the device of all files, without a pool, for a test. Op 0: read, 1: write, 2: flush. */
void pw_seam_exercise(int op, uint64_t offset, uint64_t bytes);
#endif
/* Returns when the device would complete a request that arrives at `began`, by the caller's clock, without waiting. */
uint64_t pw_seam_plan(int op, uint64_t offset, uint64_t bytes, uint64_t began);

/* ---- pools (pool.c) ---- */

enum { PW_STRIPE = 0, PW_MIRROR = 1, PW_RAIDZ = 2 };
/* PW_OTHER: the use of a leaf of a special or dedup vdev. PW_SPARE_VDEV: in the pool's list of hot spares. */
enum { PW_DATA = 0, PW_LOG = 1, PW_CACHE = 2, PW_OTHER = 3, PW_SPARE_VDEV = 4 };

typedef struct pw_vdev_group {
	int layout, parity, use;
	size_t npaths;
	const char *const *paths;	/* absolute */
} pw_vdev_group_t;

typedef struct pw_pool_stats {
	uint64_t size, allocated, free, txg;
	uint64_t read_errors, write_errors, checksum_errors;
	uint64_t bclone_used, bclone_saved;	/* bytes that clones share and save, as in zpoolprops(7) */
	uint32_t gcd_alloc, min_alloc;	/* psize is rounded up to these */
	uint32_t state;
} pw_pool_stats_t;

/* Requests of data and metadata by way, each for one block unless stated: as in a kernel's kstat `iostats`. */
typedef struct pw_io_stats {
	uint64_t arc_read_count, arc_read_bytes;	/* that missed the ARC */
	uint64_t arc_write_count, arc_write_bytes;	/* whole or parts of blocks, into the ARC */
	uint64_t direct_read_count, direct_read_bytes;
	uint64_t direct_write_count, direct_write_bytes;
} pw_io_stats_t;

int pw_pool_create(const char *name, const pw_vdev_group_t *groups, size_t ngroups, uint32_t ashift);
int pw_pool_import(const char *name, const char *const *paths, size_t npaths, int readonly);
int pw_pool_export(const char *name);
int pw_pool_destroy(const char *name);	/* exports it and marks it as destroyed in its labels */
int pw_pool_sync(const char *name);	/* waits until all writes so far are on disk in a txg */
int pw_pool_kick(const char *name);	/* starts a txg without waiting for it */
int pw_pool_stats(const char *name, pw_pool_stats_t *out);
int pw_pool_io_stats(const char *name, pw_io_stats_t *out);	/* since it was imported (direct.c) */
enum { PW_NAME_BYTES = 256, PW_HOST_BYTES = 65 };

typedef struct pw_label {		/* the contents of a file's best label */
	char pool[PW_NAME_BYTES];
	char host[PW_HOST_BYTES];	/* the last host that had the pool open */
	uint64_t guid;			/* of the pool */
	uint64_t active;		/* whether it was not exported */
	uint64_t tops;			/* number of top-level vdevs, or the index of this one if that is higher */
} pw_label_t;

int pw_pool_label(const char *path, pw_label_t *out);	/* ENOENT: the file contains no pool */
/* The host name that this engine, on this host, writes to labels. */
const char *pw_engine_host(void);

/* ---- the health of a pool (health.c) ---- */

enum { PW_SCAN_NONE = 0, PW_SCAN_SCRUB = 1, PW_SCAN_RESILVER = 2 };
enum { PW_SCAN_RUNNING = 1, PW_SCAN_FINISHED = 2, PW_SCAN_CANCELED = 3 };

typedef struct pw_scan {		/* the last scan, as the pool records it; times in seconds since 1970 */
	uint64_t function, state, start, end;
	uint64_t to_examine, skipped, examined, issued, repaired;	/* bytes */
	uint64_t errors, paused;
	uint64_t data_errors;		/* blocks in the pool's error log */
} pw_scan_t;

typedef struct pw_vdev_health {
	uint64_t guid;
	uint64_t allocated, size;	/* bytes; of the root, top-level and cache vdevs, otherwise 0 */
	uint64_t read_errors, write_errors, checksum_errors;
	int spare;			/* an entry of the list of hot spares; one in use is a leaf of the tree too */
} pw_vdev_health_t;

typedef void pw_vdev_cb(const pw_vdev_health_t *vdev, const char *state, void *arg);

/* Starts a scrub. `wait`: returns when it has ended, also if it was running already. Otherwise EBUSY: one is running. */
int pw_pool_scrub(const char *name, int wait);
int pw_pool_scrub_stop(const char *name);	/* ENOENT: no scrub is running */
int pw_pool_scan(const char *name, pw_scan_t *out);
/* Calls `each` for all vdevs: the root first, each before its children, then the cache vdevs, then the hot spares. */
int pw_pool_vdevs(const char *name, pw_vdev_cb *each, void *arg);
/* Faults the vdev of a file. *needed: the pool needs it, and nothing was done. ENODEV: the pool has no such file. */
int pw_pool_fault(const char *name, const char *path, int *needed);

/* ---- the vdevs of an imported pool (vdev.c) ---- */

enum { PW_REPLACING = 1, PW_SPARE = 2 };

typedef struct pw_leaf {
	uint64_t guid;
	uint64_t top;			/* the GUID of its top-level vdev */
	uint64_t children;		/* of that vdev; 1 if it is this leaf */
	uint64_t size;			/* bytes of its file, or of a similar one if it is not open; at least `least` */
	uint64_t least;			/* the least bytes of a file that can replace it, or mirror it */
	int layout, parity, use;	/* of the top-level vdev */
	int substitution;		/* whether it is substituted, or substitutes another leaf: PW_REPLACING, PW_SPARE */
	int spare;			/* whether it is a hot spare, in use or not */
	int readable;			/* whether its file is open and has the label of this vdev */
} pw_leaf_t;

typedef void pw_leaf_cb(const pw_leaf_t *leaf, const char *path, void *arg);

/* Calls `each` for all leaves: those of the tree, the list of hot spares, the cache vdevs. A spare in use is in the first two. */
int pw_pool_leaves(const char *name, pw_leaf_cb *each, void *arg);
/* Each returns when the change is on disk. The pool must be writable. */
int pw_pool_add(const char *name, const pw_vdev_group_t *groups, size_t ngroups);
/*
 * Starts a resilver. `replacing`: with an available hot spare of the pool, this makes a vdev of type `spare`, from which no
 * vdev is detached automatically. ENODEV: no such vdev; EOVERFLOW: the file is too small; ENOTSUP: the vdev cannot be mirrored.
 */
int pw_pool_attach(const char *name, uint64_t guid, const char *path, int replacing);
/*
 * A spare in use returns to the list of hot spares; the spare of a detached vdev leaves it. EBUSY: no other vdev has all of its
 * data; ENOTSUP: it is not mirrored.
 */
int pw_pool_detach(const char *name, uint64_t guid);
/*
 * Removes an available hot spare, a cache vdev, or a log (a top-level vdev) with all vdevs of its mirror. The contents of a log are
 * written to the pool first. EBUSY: a spare in use, or a log with changes that were not replayed; EACCES: a log, and an encrypted
 * dataset without a key; EIO: another error of a dataset's log; ENOTSUP: a vdev of another kind.
 */
int pw_pool_remove(const char *name, uint64_t guid);
/* Syncs a transaction group, which continues a resilver. *running: whether that has not ended. */
int pw_pool_resilver_step(const char *name, int *running);

/* ---- datasets (dataset.c) ---- */

typedef struct pw_dataset pw_dataset_t;

typedef struct pw_zil_stats {
	uint64_t commits, itxs;
	uint64_t indirect_count, indirect_bytes;
	uint64_t copied_count, copied_bytes;
	uint64_t needcopy_count, needcopy_bytes;
	uint64_t normal_bytes, normal_write, normal_alloc;	/* to the main pool */
	uint64_t slog_bytes, slog_write, slog_alloc;		/* to a separate log device */
} pw_zil_stats_t;

typedef struct pw_dataset_stats {
	uint64_t used, referenced, logicalused, logicalreferenced;
	uint64_t compressratio_x100, refcompressratio_x100;
} pw_dataset_stats_t;

typedef struct pw_space {		/* for statfs */
	uint64_t referenced, available, objects_used, objects_free;
} pw_space_t;

int pw_dataset_create(const char *name);
int pw_dataset_destroy(const char *name);
/* `value` as for `zfs set`, numbers in decimal bytes. EINVAL: invalid value; ENOENT: unknown property. */
int pw_dataset_set(const char *name, const char *property, const char *value);
/* Clears the property, which is then inherited from the parent or has its default. EINVAL: it cannot be inherited. */
int pw_dataset_inherit(const char *name, const char *property);
/*
 * Writes the value as `zfs get -p` prints it, and to `source`, which has room for PW_NAME_BYTES, the dataset that sets it:
 * empty for a default, `$recvd` if it was received.
 */
int pw_dataset_get(const char *name, const char *property, char *value, size_t len, char *source);
/* Takes snapshots by their full names, all in one transaction group. *failed: the index of the one that was refused. */
int pw_dataset_snapshot(const char *const *names, size_t n, size_t *failed);
int pw_snapshot_destroy(const char *full_name);
/* Writes the full name of the latest snapshot. ENOENT: there is none. */
int pw_dataset_latest(const char *name, char *out, size_t len);
/* Rolls back to the latest snapshot, by its full name. EEXIST: there are later ones; EBUSY: the dataset is open. */
int pw_dataset_rollback(const char *name, const char *snapshot);
/* EXDEV: the origin is in another pool; EEXIST: the name is taken. */
int pw_dataset_clone(const char *name, const char *origin);
/* Writes the full name of the snapshot that a dataset is a clone of. ENOENT: it is not a clone. */
int pw_dataset_origin(const char *name, char *out, size_t len);
/*
 * Exchanges the roles of a clone and the dataset of its origin, whose snapshots up to the origin it takes. EINVAL: it is not a
 * clone; EEXIST: both have the snapshot whose name is written to `conflict`, which has room for PW_NAME_BYTES.
 */
int pw_dataset_promote(const char *name, char *conflict);
int pw_dataset_list(const char *root, void (*each)(const char *name, void *arg), void *arg);

/* Why an intent log cannot be replayed. Unknown fields are 0. */
typedef struct pw_log_trouble {
	int error;			/* 0: the log is not the cause */
	const char *what;
	uint64_t seq, type, object;	/* the record */
	uint64_t vdev, offset, size;	/* the block that cannot be read: its first copy, in bytes */
} pw_log_trouble_t;

/* Bits of `how`. Without IGNORE_ACLS, opening a node with an ACL that no mode can express fails with EOPNOTSUPP. */
enum { PW_OPEN_READONLY = 1, PW_OPEN_IGNORE_ACLS = 2 };
/* If the log cannot be replayed completely, it is left unchanged, the open fails, and `trouble` contains the reason. */
int pw_dataset_open(const char *name, int how, pw_dataset_t **out, pw_log_trouble_t *trouble);
/* The number of log records of a dataset that is open read-only: acknowledged changes that it does not show. */
uint64_t pw_dataset_log_pending(pw_dataset_t *ds);
void pw_dataset_close(pw_dataset_t *ds);
int pw_dataset_stats(pw_dataset_t *ds, pw_dataset_stats_t *out);
int pw_dataset_space(pw_dataset_t *ds, pw_space_t *out);
int pw_dataset_commit(pw_dataset_t *ds);	/* makes all acknowledged changes durable */
void pw_dataset_zil_stats(pw_dataset_t *ds, pw_zil_stats_t *out);
int pw_dataset_replayed(pw_dataset_t *ds, uint64_t *records);

/* ---- volumes (volume.c) ---- */

/* EINVAL: `block` (volblocksize) is not a power of two from 512 to 16M, or `size` is not a multiple of it. */
int pw_volume_create(const char *name, uint64_t size, uint64_t block);
/* The functions for open datasets above apply to a volume, too. ENOTSUP: its log was not replayed. */
int pw_volume_open(const char *name, pw_dataset_t **out);
/* EIO: the range is not inside the volume. A discard frees whole blocks only. `how`: PW_IO_SYNC (a write with FUA). */
int pw_volume_read(pw_dataset_t *volume, uint64_t offset, void *buf, uint64_t len);
int pw_volume_write(pw_dataset_t *volume, uint64_t offset, const void *buf, uint64_t len, int how);
int pw_volume_discard(pw_dataset_t *volume, uint64_t offset, uint64_t len);
int pw_volume_flush(pw_dataset_t *volume);

/* ---- nodes: files, directories, links, devices (node.c, attr.c, dir.c, name.c, xattr.c, file.c, clone.c, blocks.c) ---- */

typedef struct pw_node pw_node_t;

/* Bits of pw_set.mask and of the log's SETATTR records: Linux's ATTR_*. */
enum { PW_SET_MODE = 1, PW_SET_UID = 2, PW_SET_GID = 4, PW_SET_SIZE = 8, PW_SET_ATIME = 16, PW_SET_MTIME = 32 };

typedef struct pw_attr {
	uint64_t object, gen, parent;
	uint64_t mode, links, uid, gid, rdev;	/* mode includes the type; rdev: major << 20 | minor */
	uint64_t size, blocks, block_size;	/* blocks: allocated, of 512 bytes */
	uint64_t atime[2], mtime[2], ctime[2], crtime[2];	/* seconds, nanoseconds */
} pw_attr_t;

typedef struct pw_set {
	uint64_t mask, mode, uid, gid, size;
	uint64_t atime[2], mtime[2];
} pw_set_t;

typedef struct pw_new {
	uint32_t mode;			/* type and permissions, umask applied */
	uint32_t uid, gid;
	uint32_t rdev;
	const char *target;		/* of a symbolic link */
} pw_new_t;

/* Receives a directory entry. `next`: the position from which to continue after it. A non-zero result ends the listing. */
typedef int pw_entry_cb(const char *name, uint64_t object, uint32_t type, uint64_t next, void *arg);

/* Object 0 is the dataset's root directory. ESTALE: the object was freed or is not a node. */
int pw_node_open(pw_dataset_t *ds, uint64_t object, pw_node_t **out);
void pw_node_close(pw_node_t *node);
uint64_t pw_node_object(pw_node_t *node);
uint64_t pw_node_gen(pw_node_t *node);
uint32_t pw_node_mode(pw_node_t *node);
int pw_node_attr(pw_node_t *node, pw_attr_t *out);
int pw_node_set(pw_node_t *node, const pw_set_t *set, pw_attr_t *out);
/* Writes the target of a symbolic link without a NUL; *len is its length. */
int pw_node_target(pw_node_t *node, char *out, size_t room, size_t *len);

int pw_dir_lookup(pw_node_t *dir, const char *name, pw_node_t **out);
int pw_dir_make(pw_node_t *dir, const char *name, const pw_new_t *new, pw_node_t **out);
int pw_dir_make_unnamed(pw_node_t *dir, const pw_new_t *new, pw_node_t **out);	/* O_TMPFILE */
int pw_dir_read(pw_node_t *dir, uint64_t from, pw_entry_cb *each, void *arg);

/* `directory`: rmdir, otherwise unlink. *gone: the object if this was its last name, otherwise 0. */
int pw_name_remove(pw_node_t *dir, const char *name, int directory, uint64_t *gone);
int pw_name_link(pw_node_t *dir, const char *name, pw_node_t *node);
/* Flags of renameat2(2): NOREPLACE 1, EXCHANGE 2, WHITEOUT 4. *gone: as above, for a replaced target. */
int pw_name_rename(pw_node_t *from, const char *name, pw_node_t *to, const char *new_name, uint32_t flags,
    uint64_t *gone);

/* ENODATA: no such attribute. ERANGE: `room` is less than *len, the length. With a room of 0, only sets *len. */
int pw_xattr_get(pw_node_t *node, const char *name, void *out, size_t room, size_t *len);
/* Flags of setxattr(2): CREATE 1, REPLACE 2. */
int pw_xattr_set(pw_node_t *node, const char *name, const void *value, size_t len, uint32_t flags);
int pw_xattr_remove(pw_node_t *node, const char *name);
/* Writes the names, each with its NUL. */
int pw_xattr_list(pw_node_t *node, char *out, size_t room, size_t *len);

typedef struct pw_blocks {		/* the space of a file's blocks */
	uint64_t l0_count, l0_lsize, l0_psize, l0_asize;
	uint64_t l0_holes, l0_embedded;
	uint64_t indirect_count, indirect_asize;
	uint64_t block_size, size;
} pw_blocks_t;

/* Bits of `how`: O_DSYNC, O_DIRECT. EINVAL: O_DIRECT, and the offset or the length is not aligned to pages (direct.c). */
enum { PW_IO_SYNC = 1, PW_IO_DIRECT = 2 };
int pw_file_read(pw_node_t *node, uint64_t offset, void *buf, uint64_t len, int how, uint64_t *done);
int pw_file_write(pw_node_t *node, uint64_t offset, const void *buf, uint64_t len, int how);
/* Writes at the end of the file, as of that moment. *offset: the offset of the data. */
int pw_file_append(pw_node_t *node, const void *buf, uint64_t len, int how, uint64_t *offset);
int pw_file_truncate(pw_node_t *node, uint64_t size);
int pw_file_extend(pw_node_t *node, uint64_t size);	/* to at least this length */
int pw_file_punch(pw_node_t *node, uint64_t offset, uint64_t len);
/*
 * Copies between files of one pool, by cloning blocks where possible. *done may be less than `len`; it is 0 only at the end
 * of `in` or after an error. EINVAL: overlapping ranges of one file.
 */
int pw_file_copy(pw_node_t *in, uint64_t in_off, pw_node_t *out, uint64_t out_off, uint64_t len, int sync,
    uint64_t *done);
/* Finds the next hole if `hole`, otherwise the next data, from `offset`. ENXIO: there is none. */
int pw_file_seek(pw_node_t *node, uint64_t offset, int hole, uint64_t *out);
int pw_file_sync(pw_node_t *node);
uint64_t pw_file_size(pw_node_t *node);
uint64_t pw_file_block_size(pw_node_t *node);
int pw_file_blocks(pw_node_t *node, pw_blocks_t *out);	/* after a pool sync */

/* ---- codecs (codec.c) ---- */

/*
 * Looks up the number of a property's value, including a codec's level. EINVAL: invalid value; ENOENT: unknown property, or
 * one that takes a number or text.
 */
int pw_property_lookup(const char *property, const char *value, uint64_t *number);
/* A property's values as the library lists them, separated by `|`. NULL: unknown property. */
const char *pw_property_values(const char *property);
/*
 * Compresses a record as the write pipeline does. `out` has room for `len` bytes. *psize is 0 for a hole, `len` if the record
 * is stored raw, otherwise the size of the codec's output before rounding.
 */
int pw_codec_compress(uint64_t property, uint32_t gcd_alloc, uint32_t min_alloc, const void *record, size_t len,
    void *out, size_t *psize);
int pw_codec_decompress(uint64_t property, const void *in, size_t psize, void *record, size_t len);

#endif
