//! `csrc/engine.h`, declared by hand: plain structs and functions, no ZFS type.

use std::ffi::{c_char, c_int, c_void};

macro_rules! c_struct {
    ($name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct $name { $(pub $field: $type),* }
    };
}

macro_rules! c_counters {
    ($name:ident { $($field:ident),* $(,)? }) => {
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name { $(pub $field: u64),* }
    };
}

c_struct!(pw_engine_config {
    cache_path: *const c_char,
    arc_bytes: u64,
    dirty_bytes: u64,
    txg_timeout_s: u32,
    vdev_threads: u32,
});
c_counters!(pw_arc_stats {
    hits,
    iohits,
    misses,
    demand_data_hits,
    demand_data_iohits,
    demand_data_misses,
    demand_metadata_hits,
    demand_metadata_iohits,
    demand_metadata_misses,
    prefetch_data_hits,
    prefetch_data_misses,
    prefetch_metadata_hits,
    prefetch_metadata_misses,
    mru_hits,
    mru_ghost_hits,
    mfu_hits,
    mfu_ghost_hits,
    size,
    target,
    max,
    compressed_size,
    uncompressed_size,
    l2_hits,
    l2_misses,
    l2_size,
});
c_counters!(pw_arc_sizes {
    anon_data,
    anon_metadata,
    mru_data,
    mru_metadata,
    mru_evictable_data,
    mru_evictable_metadata,
    mfu_data,
    mfu_metadata,
    mfu_evictable_data,
    mfu_evictable_metadata,
    mru_ghost_data,
    mru_ghost_metadata,
    mfu_ghost_data,
    mfu_ghost_metadata,
    uncached_data,
    uncached_metadata,
    overhead_size,
    hdr_size,
    dbuf_size,
    dnode_size,
    bonus_size,
    meta,
    pd,
    pm,
});
c_struct!(pw_device {
    read_latency_ns: u64,
    write_latency_ns: u64,
    flush_latency_ns: u64,
    seek_ns: u64,
    read_bytes_s: u64,
    write_bytes_s: u64,
    iops: u64,
    queue_depth: u32,
    emulate: u32,
    disks: u32,
});
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct pw_attr {
    pub object: u64,
    pub gen_txg: u64,
    pub parent: u64,
    pub mode: u64,
    pub links: u64,
    pub uid: u64,
    pub gid: u64,
    pub rdev: u64,
    pub size: u64,
    pub blocks: u64,
    pub block_size: u64,
    pub atime: [u64; 2],
    pub mtime: [u64; 2],
    pub ctime: [u64; 2],
    pub crtime: [u64; 2],
}
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct pw_set {
    pub mask: u64,
    pub mode: u64,
    pub uid: u64,
    pub gid: u64,
    pub size: u64,
    pub atime: [u64; 2],
    pub mtime: [u64; 2],
}
c_struct!(pw_new { mode: u32, uid: u32, gid: u32, rdev: u32, target: *const c_char });
c_counters!(pw_space { referenced, available, objects_used, objects_free });
pub type EntryCallback =
    extern "C" fn(name: *const c_char, object: u64, kind: u32, next: u64, arg: *mut c_void) -> c_int;
c_counters!(pw_vdev_stats {
    read_bytes,
    write_bytes,
    read_ops,
    write_ops,
    flushes,
    read_ns,
    write_ns,
    flush_ns
});
c_struct!(pw_label { pool: [c_char; 256], host: [c_char; 65], guid: u64, active: u64, tops: u64 });

c_struct!(pw_log_trouble {
    error: c_int, what: *const c_char, seq: u64, kind: u64, object: u64, vdev: u64, offset: u64, size: u64
});

c_struct!(pw_vdev_group { layout: c_int, parity: c_int, usage: c_int, npaths: usize, paths: *const *const c_char });
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct pw_pool_stats {
    pub size: u64,
    pub allocated: u64,
    pub free: u64,
    pub txg: u64,
    pub read_errors: u64,
    pub write_errors: u64,
    pub checksum_errors: u64,
    pub bclone_used: u64,
    pub bclone_saved: u64,
    pub gcd_alloc: u32,
    pub min_alloc: u32,
    pub state: u32,
}
c_counters!(pw_scan {
    function,
    state,
    start,
    end,
    to_examine,
    skipped,
    examined,
    issued,
    repaired,
    errors,
    paused,
    data_errors,
});
c_counters!(pw_vdev_health { guid, allocated, size, read_errors, write_errors, checksum_errors });
pub type VdevCallback = extern "C" fn(vdev: *const pw_vdev_health, state: *const c_char, arg: *mut c_void);
c_counters!(pw_zil_stats {
    commits,
    itxs,
    indirect_count,
    indirect_bytes,
    copied_count,
    copied_bytes,
    needcopy_count,
    needcopy_bytes,
    normal_bytes,
    normal_write,
    normal_alloc,
    slog_bytes,
    slog_write,
    slog_alloc,
});
c_counters!(pw_dataset_stats {
    used,
    referenced,
    logicalused,
    logicalreferenced,
    compressratio_x100,
    refcompressratio_x100,
});
c_counters!(pw_blocks {
    l0_count,
    l0_lsize,
    l0_psize,
    l0_asize,
    l0_holes,
    l0_embedded,
    indirect_count,
    indirect_asize,
    block_size,
    size,
});

#[repr(C)]
pub struct pw_dataset {
    _opaque: [u8; 0],
}
#[repr(C)]
pub struct pw_node {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    pub fn pw_engine_start(config: *const pw_engine_config) -> c_int;
    pub fn pw_engine_set_arc(bytes: u64);
    pub fn pw_engine_set_dirty(bytes: u64);
    pub fn pw_engine_set_txg_timeout(seconds: u32);
    pub fn pw_engine_arc_stats(out: *mut pw_arc_stats);
    pub fn pw_engine_arc_sizes(out: *mut pw_arc_sizes);
    pub fn pw_engine_set_tunable(name: *const c_char, value: u64) -> c_int;
    pub fn pw_engine_tunable(index: u64) -> *const c_char;
    pub fn pw_engine_host() -> *const c_char;

    pub fn pw_library_build_id(out: *mut c_char, room: usize) -> c_int;
    pub fn pw_library_built_for() -> *const c_char;
    pub fn pw_library_version() -> *const c_char;

    pub fn pw_fault_on_host_error(
        hook: Option<extern "C" fn(path: *const c_char, op: c_int, err: c_int, needed: c_int)>,
    );

    pub fn pw_seam_set_device(path: *const c_char, device: *const pw_device) -> c_int;
    pub fn pw_seam_totals(out: *mut pw_vdev_stats);
    pub fn pw_seam_file(path: *const c_char, out: *mut pw_vdev_stats) -> c_int;
    #[cfg(feature = "fault-injection")]
    pub fn pw_seam_exercise(op: c_int, offset: u64, bytes: u64);
    pub fn pw_seam_plan(op: c_int, offset: u64, bytes: u64, began: u64) -> u64;

    pub fn pw_pool_create(
        name: *const c_char,
        groups: *const pw_vdev_group,
        ngroups: usize,
        ashift: u32,
    ) -> c_int;
    pub fn pw_pool_import(
        name: *const c_char,
        paths: *const *const c_char,
        npaths: usize,
        readonly: c_int,
    ) -> c_int;
    pub fn pw_pool_export(name: *const c_char) -> c_int;
    pub fn pw_pool_destroy(name: *const c_char) -> c_int;
    pub fn pw_pool_sync(name: *const c_char) -> c_int;
    pub fn pw_pool_kick(name: *const c_char) -> c_int;
    pub fn pw_pool_stats(name: *const c_char, out: *mut pw_pool_stats) -> c_int;
    pub fn pw_pool_scrub(name: *const c_char, wait: c_int) -> c_int;
    pub fn pw_pool_scrub_stop(name: *const c_char) -> c_int;
    pub fn pw_pool_scan(name: *const c_char, out: *mut pw_scan) -> c_int;
    pub fn pw_pool_vdevs(name: *const c_char, each: VdevCallback, arg: *mut c_void) -> c_int;
    pub fn pw_pool_fault(name: *const c_char, path: *const c_char, needed: *mut c_int) -> c_int;
    pub fn pw_pool_label(path: *const c_char, out: *mut pw_label) -> c_int;

    pub fn pw_dataset_create(name: *const c_char) -> c_int;
    pub fn pw_dataset_destroy(name: *const c_char) -> c_int;
    pub fn pw_dataset_set(name: *const c_char, property: *const c_char, value: *const c_char) -> c_int;
    pub fn pw_dataset_inherit(name: *const c_char, property: *const c_char) -> c_int;
    pub fn pw_dataset_get(
        name: *const c_char,
        property: *const c_char,
        value: *mut c_char,
        len: usize,
        source: *mut c_char,
    ) -> c_int;
    pub fn pw_dataset_snapshot(names: *const *const c_char, n: usize, failed: *mut usize) -> c_int;
    pub fn pw_snapshot_destroy(full_name: *const c_char) -> c_int;
    pub fn pw_dataset_list(
        root: *const c_char,
        each: extern "C" fn(name: *const c_char, arg: *mut c_void),
        arg: *mut c_void,
    ) -> c_int;
    pub fn pw_dataset_open(
        name: *const c_char,
        how: c_int,
        out: *mut *mut pw_dataset,
        trouble: *mut pw_log_trouble,
    ) -> c_int;
    pub fn pw_dataset_log_pending(ds: *mut pw_dataset) -> u64;
    pub fn pw_dataset_close(ds: *mut pw_dataset);
    pub fn pw_dataset_stats(ds: *mut pw_dataset, out: *mut pw_dataset_stats) -> c_int;
    pub fn pw_dataset_zil_stats(ds: *mut pw_dataset, out: *mut pw_zil_stats);
    pub fn pw_dataset_replayed(ds: *mut pw_dataset, records: *mut u64) -> c_int;

    pub fn pw_dataset_latest(name: *const c_char, out: *mut c_char, len: usize) -> c_int;
    pub fn pw_dataset_rollback(name: *const c_char, snapshot: *const c_char) -> c_int;
    pub fn pw_dataset_space(ds: *mut pw_dataset, out: *mut pw_space) -> c_int;
    pub fn pw_dataset_commit(ds: *mut pw_dataset) -> c_int;

    pub fn pw_node_open(ds: *mut pw_dataset, object: u64, out: *mut *mut pw_node) -> c_int;
    pub fn pw_node_close(node: *mut pw_node);
    pub fn pw_node_object(node: *mut pw_node) -> u64;
    pub fn pw_node_gen(node: *mut pw_node) -> u64;
    pub fn pw_node_mode(node: *mut pw_node) -> u32;
    pub fn pw_node_attr(node: *mut pw_node, out: *mut pw_attr) -> c_int;
    pub fn pw_node_set(node: *mut pw_node, set: *const pw_set, out: *mut pw_attr) -> c_int;
    pub fn pw_node_target(node: *mut pw_node, out: *mut c_char, room: usize, len: *mut usize) -> c_int;

    pub fn pw_dir_lookup(dir: *mut pw_node, name: *const c_char, out: *mut *mut pw_node) -> c_int;
    pub fn pw_dir_make(
        dir: *mut pw_node,
        name: *const c_char,
        new: *const pw_new,
        out: *mut *mut pw_node,
    ) -> c_int;
    pub fn pw_dir_make_unnamed(dir: *mut pw_node, new: *const pw_new, out: *mut *mut pw_node) -> c_int;
    pub fn pw_dir_read(dir: *mut pw_node, from: u64, each: EntryCallback, arg: *mut c_void) -> c_int;

    pub fn pw_name_remove(dir: *mut pw_node, name: *const c_char, directory: c_int, gone: *mut u64) -> c_int;
    pub fn pw_name_link(dir: *mut pw_node, name: *const c_char, node: *mut pw_node) -> c_int;
    pub fn pw_name_rename(
        from: *mut pw_node,
        name: *const c_char,
        to: *mut pw_node,
        new_name: *const c_char,
        flags: u32,
        gone: *mut u64,
    ) -> c_int;

    pub fn pw_xattr_get(
        node: *mut pw_node,
        name: *const c_char,
        out: *mut c_void,
        room: usize,
        len: *mut usize,
    ) -> c_int;
    pub fn pw_xattr_set(
        node: *mut pw_node,
        name: *const c_char,
        value: *const c_void,
        len: usize,
        flags: u32,
    ) -> c_int;
    pub fn pw_xattr_remove(node: *mut pw_node, name: *const c_char) -> c_int;
    pub fn pw_xattr_list(node: *mut pw_node, out: *mut c_char, room: usize, len: *mut usize) -> c_int;

    pub fn pw_file_read(node: *mut pw_node, offset: u64, buf: *mut c_void, len: u64, done: *mut u64)
    -> c_int;
    pub fn pw_file_write(node: *mut pw_node, offset: u64, buf: *const c_void, len: u64, sync: c_int)
    -> c_int;
    pub fn pw_file_append(
        node: *mut pw_node,
        buf: *const c_void,
        len: u64,
        sync: c_int,
        offset: *mut u64,
    ) -> c_int;
    pub fn pw_file_truncate(node: *mut pw_node, size: u64) -> c_int;
    pub fn pw_file_extend(node: *mut pw_node, size: u64) -> c_int;
    pub fn pw_file_punch(node: *mut pw_node, offset: u64, len: u64) -> c_int;
    pub fn pw_file_copy(
        from: *mut pw_node,
        from_offset: u64,
        to: *mut pw_node,
        to_offset: u64,
        len: u64,
        sync: c_int,
        done: *mut u64,
    ) -> c_int;
    pub fn pw_file_seek(node: *mut pw_node, offset: u64, hole: c_int, out: *mut u64) -> c_int;
    pub fn pw_file_sync(node: *mut pw_node) -> c_int;
    pub fn pw_file_size(node: *mut pw_node) -> u64;
    pub fn pw_file_block_size(node: *mut pw_node) -> u64;
    pub fn pw_file_blocks(node: *mut pw_node, out: *mut pw_blocks) -> c_int;

    pub fn pw_property_lookup(property: *const c_char, value: *const c_char, number: *mut u64) -> c_int;
    #[cfg(test)]
    pub fn pw_property_values(property: *const c_char) -> *const c_char;
    pub fn pw_codec_compress(
        property: u64,
        gcd_alloc: u32,
        min_alloc: u32,
        record: *const c_void,
        len: usize,
        out: *mut c_void,
        psize: *mut usize,
    ) -> c_int;
    pub fn pw_codec_decompress(
        property: u64,
        from: *const c_void,
        psize: usize,
        record: *mut c_void,
        len: usize,
    ) -> c_int;
}
