//! The rows of the table.

use super::{FamilyType, MetricFamily, ResourceType, Unit};

/// Defines the types of resources, and a list of all.
macro_rules! resources {
    ($($(#[doc = $help:literal])+ $id:ident = $name:literal [$($label:literal),*];)+) => {
        $($(#[doc = $help])+ pub static $id: ResourceType = ResourceType {
            name: $name,
            labels: &[$($label),*],
            help: trimmed(concat!($($help),+)),
        };)+
        /// All types of resources, in the order of the documentation.
        pub static RESOURCES: &[&ResourceType] = &[$(&$id),+];
    };
}

/// Defines the metric families, and a list of all.
macro_rules! families {
    ($($(#[doc = $help:literal])+ $id:ident = $kind:ident $unit:ident of $resource:ident $name:literal;)+) => {
        $($(#[doc = $help])+ pub static $id: MetricFamily = MetricFamily {
            name: $name,
            kind: FamilyType::$kind,
            unit: Unit::$unit,
            resource: &$resource,
            help: trimmed(concat!($($help),+)),
        };)+
        /// All metric families, in the order of the documentation and of the output.
        pub static FAMILIES: &[&MetricFamily] = &[$(&$id),+];
    };
}

/// A documentation comment without its leading space.
const fn trimmed(text: &'static str) -> &'static str {
    match text.as_bytes() {
        [b' ', ..] => text.split_at(1).1,
        _ => text,
    }
}

resources! {
    /// A pool. `engine` is `kernel`, or `user` for a pool of the user-space engine.
    POOL = "pool" ["engine", "pool"];
    /// A state that a pool may have.
    POOL_STATE = "pool state" ["engine", "pool", "state"];
    /// A vdev. `vdev` is its path or name; `class` is `root`, `normal`, `log`, `cache`, `spare`, `special` or `dedup`.
    VDEV = "vdev" ["engine", "pool", "vdev", "class"];
    /// A state that a vdev may have.
    VDEV_STATE = "vdev state" ["engine", "pool", "vdev", "class", "state"];
    /// The place of a vdev in its pool. `type` is `disk`, `file`, `mirror`, `raidz`, …; `parent` is the vdev above it.
    VDEV_PLACE = "vdev place" ["engine", "pool", "vdev", "class", "type", "parent"];
    /// Requests to a vdev by the part of their time. `queue` is `total_read`, `total_write` (from the request to its end), `disk_read`,
    /// `disk_write` (at the device), `sync_read`, `sync_write`, `async_read`, `async_write`, `scrub`, `trim` or `rebuild` (in that queue).
    VDEV_QUEUE = "vdev latency" ["engine", "pool", "vdev", "class", "queue"];
    /// Requests to a vdev by their operation. `op` is `sync_read`, `sync_write`, `async_read`, `async_write`, `scrub`, `trim` or `rebuild`.
    VDEV_OP = "vdev request size" ["engine", "pool", "vdev", "class", "op"];
    /// A dataset: a file system or a volume.
    DATASET = "dataset" ["engine", "pool", "dataset"];
    /// A property of a dataset with its value and the source of the value.
    PROPERTY = "property" ["engine", "pool", "dataset", "property", "value", "source"];
    /// A mount of the user-space engine. `op` is a FUSE request, such as `read`.
    MOUNT_OP = "mount operation" ["pool", "dataset", "dir", "op"];
    /// A mount of the user-space engine.
    MOUNT = "mount" ["pool", "dataset", "dir"];
    /// An ARC: that of the kernel (`pool` is empty), or that of the process that owns a user-space pool.
    ARC = "ARC" ["engine", "pool"];
    /// Accesses to an ARC. `type` is `demand_data`, `demand_metadata`, `prefetch_data` or `prefetch_metadata`; `result` is `hit`, `iohit`
    /// or `miss`.
    ARC_ACCESS = "ARC access" ["engine", "pool", "type", "result"];
    /// A state of an ARC. `state` is `anon`, `mru`, `mfu`, `mru_ghost`, `mfu_ghost` or `uncached`. Ghost states have no data: their size is
    /// that of the evicted blocks that the ARC remembers.
    ARC_STATE = "ARC state" ["engine", "pool", "state"];
    /// The prefetcher of files of the kernel module. `result` is `hit` or `miss`.
    PREFETCH = "prefetch" ["engine", "result"];
    /// Transactions of the kernel module that had to wait. `reason` is the name of a counter of `dmu_tx`, such as `dirty_delay`.
    TX_WAIT = "transaction wait" ["engine", "reason"];
    /// The kernel module.
    MODULE = "kernel module" ["engine"];
    /// The release of the kernel module and of its programs.
    MODULE_RELEASE = "kernel module release" ["engine", "kernel", "programs"];
    /// Events of the kernel module. `class` is the event's class, such as `ereport.fs.zfs.checksum`; `pool` is empty for events without a pool.
    EVENT = "event" ["engine", "pool", "class"];
    /// The host of the exporter.
    HOST = "host" [];
    /// A plan of `poolwright tune` that the exporter compares with the present. `plan` is the path of its file.
    PLAN = "plan" ["plan"];
    /// A role of a plan. `dataset` is the dataset that holds the role's files now, and empty if they are not on ZFS.
    PLAN_ROLE = "plan role" ["plan", "role", "path", "dataset"];
    /// A property that a plan recommends for a role.
    PLAN_PROPERTY = "plan property" ["plan", "role", "path", "dataset", "property", "planned", "present"];
    /// A figure of a plan's role, and its present value. `metric` is `space_ratio` (bytes of the files per allocated byte),
    /// `mean_read_bytes` or `mean_write_bytes` (size of a read or write by programs since the last reading).
    PLAN_PROMISE = "plan promise" ["plan", "role", "path", "dataset", "metric"];
    /// A figure that a plan promises, and that `poolwright verify` has measured in operation. `metric` is that of the plan. Changes are
    /// relative: -0.25 is a quarter less.
    PLAN_VERIFIED = "verified promise" ["plan", "metric"];
    /// The backups in one dataset. `tier` is `backup`, or `archive` for a dataset into which backups are copied; `database` is the kind of
    /// the database.
    BACKUPS = "backups" ["dataset", "tier", "database"];
    /// The replica of a dataset of backups or of a WAL archive on one target of `poolwright backup send`.
    REPLICA = "replica" ["dataset", "target"];
    /// A source that the exporter reads. `pool` is empty for a source that concerns all pools.
    SOURCE = "source" ["source", "pool"];
    /// The exporter itself.
    EXPORTER = "exporter" [];
    /// The exporter's release.
    EXPORTER_RELEASE = "exporter release" ["version"];
}

families! {
    /// Whether the pool is imported (1), or only known by its files (0).
    POOL_OPEN = Gauge None of POOL "poolwright_pool_open";
    /// 1 for the present state of the pool, 0 for the others.
    POOL_STATE_NOW = Gauge None of POOL_STATE "poolwright_pool_state";
    /// Capacity of the pool's vdevs, including redundancy.
    POOL_SIZE = Gauge Bytes of POOL "poolwright_pool_size_bytes";
    /// Allocated space, including redundancy.
    POOL_ALLOCATED = Gauge Bytes of POOL "poolwright_pool_allocated_bytes";
    /// Free space, including the reserve that only the pool itself can use.
    POOL_FREE = Gauge Bytes of POOL "poolwright_pool_free_bytes";
    /// Space of destroyed datasets that is not free yet.
    POOL_FREEING = Gauge Bytes of POOL "poolwright_pool_freeing_bytes";
    /// Space that the pool lost because of damaged metadata.
    POOL_LEAKED = Gauge Bytes of POOL "poolwright_pool_leaked_bytes";
    /// Fragmentation of the free space.
    POOL_FRAGMENTATION = Gauge Ratio of POOL "poolwright_pool_fragmentation_ratio";
    /// Deduplication ratio.
    POOL_DEDUP = Gauge Ratio of POOL "poolwright_pool_dedup_ratio";
    /// Bytes that cloned blocks save.
    POOL_CLONES_SAVED = Gauge Bytes of POOL "poolwright_pool_clones_saved_bytes";
    /// Whether the pool is imported read-only.
    POOL_READONLY = Gauge None of POOL "poolwright_pool_readonly";
    /// Space that only the checkpoint of the pool refers to; missing without a checkpoint.
    POOL_CHECKPOINT = Gauge Bytes of POOL "poolwright_pool_checkpoint_bytes";
    /// Space by which the pool could grow, because its devices have grown; missing if they have not.
    POOL_EXPANDABLE = Gauge Bytes of POOL "poolwright_pool_expandable_bytes";
    /// Time that writing the last committed transaction group took; missing if `zfs_txg_history` is 0.
    TXG_SYNC = Gauge Seconds of POOL "poolwright_pool_txg_sync_seconds";
    /// Longest time that writing one of the recent transaction groups took. The module keeps the last `zfs_txg_history` (100).
    TXG_SYNC_LONGEST = Gauge Seconds of POOL "poolwright_pool_txg_sync_longest_seconds";
    /// Time that the last committed transaction group was open.
    TXG_OPEN = Gauge Seconds of POOL "poolwright_pool_txg_open_seconds";
    /// Dirty bytes of the last committed transaction group when it was closed.
    TXG_DIRTY = Gauge Bytes of POOL "poolwright_pool_txg_dirty_bytes";
    /// Number of damaged blocks or files that cannot be repaired.
    POOL_DATA_ERRORS = Gauge None of POOL "poolwright_pool_data_errors";
    /// Number of the pool's files that were removed, replaced, truncated or moved while the pool is open.
    POOL_FILE_FAULTS = Gauge None of POOL "poolwright_pool_file_faults";
    /// Last transaction group on disk.
    POOL_TXG = Counter None of POOL "poolwright_pool_txg_total";
    /// The time at which the pool was imported.
    POOL_IMPORTED = Gauge Seconds of POOL "poolwright_pool_import_time_seconds";
    /// Whether a scrub is running.
    SCRUB_RUNNING = Gauge None of POOL "poolwright_pool_scrub_running";
    /// Whether a resilver is running.
    RESILVER_RUNNING = Gauge None of POOL "poolwright_pool_resilver_running";
    /// Whether the scrub is paused.
    SCAN_PAUSED = Gauge None of POOL "poolwright_pool_scan_paused";
    /// Bytes that the running or last scrub or resilver has to examine.
    SCAN_TO_EXAMINE = Gauge Bytes of POOL "poolwright_pool_scan_to_examine_bytes";
    /// Bytes that the running or last scrub or resilver has examined.
    SCAN_EXAMINED = Gauge Bytes of POOL "poolwright_pool_scan_examined_bytes";
    /// Number of errors that the running or last scrub or resilver has found and could not repair.
    SCAN_ERRORS = Gauge None of POOL "poolwright_pool_scan_errors";
    /// Bytes that the running or last scrub or resilver has repaired or copied.
    SCAN_REPAIRED = Gauge Bytes of POOL "poolwright_pool_scan_repaired_bytes";
    /// The time at which the running or last scrub or resilver started.
    SCAN_START = Gauge Seconds of POOL "poolwright_pool_scan_start_time_seconds";
    /// Whether the last scrub was canceled before its end.
    SCRUB_CANCELED = Gauge None of POOL "poolwright_pool_scrub_canceled";
    /// The time at which the last scrub finished; missing if the last scan was not a finished scrub.
    SCRUB_END = Gauge Seconds of POOL "poolwright_pool_scrub_end_time_seconds";

    /// 1 for the present state of the vdev, 0 for the others.
    VDEV_STATE_NOW = Gauge None of VDEV_STATE "poolwright_vdev_state";
    /// Always 1. The labels have the type of the vdev and the vdev above it.
    VDEV_INFO = Gauge None of VDEV_PLACE "poolwright_vdev_info";
    /// Number of reads that failed.
    VDEV_READ_ERRORS = Counter None of VDEV "poolwright_vdev_read_errors_total";
    /// Number of writes that failed.
    VDEV_WRITE_ERRORS = Counter None of VDEV "poolwright_vdev_write_errors_total";
    /// Number of blocks with a wrong checksum.
    VDEV_CHECKSUM_ERRORS = Counter None of VDEV "poolwright_vdev_checksum_errors_total";
    /// Number of requests that took longer than `zio_slow_io_ms` (30 seconds).
    VDEV_SLOW_IOS = Counter None of VDEV "poolwright_vdev_slow_ios_total";
    /// Capacity of a top-level or cache vdev.
    VDEV_SIZE = Gauge Bytes of VDEV "poolwright_vdev_size_bytes";
    /// Allocated space of a top-level or cache vdev.
    VDEV_ALLOCATED = Gauge Bytes of VDEV "poolwright_vdev_allocated_bytes";
    /// Sector size that the pool uses for the vdev (2 to the power of `ashift`).
    VDEV_SECTOR = Gauge Bytes of VDEV "poolwright_vdev_sector_bytes";
    /// Bytes read.
    VDEV_READ_BYTES = Counter Bytes of VDEV "poolwright_vdev_read_bytes_total";
    /// Bytes written.
    VDEV_WRITE_BYTES = Counter Bytes of VDEV "poolwright_vdev_written_bytes_total";
    /// Number of read requests.
    VDEV_READS = Counter None of VDEV "poolwright_vdev_reads_total";
    /// Number of write requests.
    VDEV_WRITES = Counter None of VDEV "poolwright_vdev_writes_total";
    /// Number of cache flushes.
    VDEV_FLUSHES = Counter None of VDEV "poolwright_vdev_flushes_total";
    /// Time in read requests, summed over requests that overlap.
    VDEV_READ_TIME = Counter Seconds of VDEV "poolwright_vdev_read_time_seconds_total";
    /// Time in write requests, summed over requests that overlap.
    VDEV_WRITE_TIME = Counter Seconds of VDEV "poolwright_vdev_write_time_seconds_total";
    /// Time in cache flushes, summed over requests that overlap.
    VDEV_FLUSH_TIME = Counter Seconds of VDEV "poolwright_vdev_flush_time_seconds_total";
    /// Bytes that were trimmed.
    VDEV_TRIM_BYTES = Counter Bytes of VDEV "poolwright_vdev_trimmed_bytes_total";
    /// Number of trim requests.
    VDEV_TRIMS = Counter None of VDEV "poolwright_vdev_trims_total";
    /// Times of requests since the pool was imported, in buckets whose bounds are powers of 4.
    VDEV_LATENCY = Histogram Seconds of VDEV_QUEUE "poolwright_vdev_latency_seconds";
    /// Sizes of the requests that reached the vdev, after aggregation, since the pool was imported. The bounds are one less than powers of 2.
    VDEV_REQUEST_SIZE = Histogram Bytes of VDEV_OP "poolwright_vdev_request_size_bytes";

    /// Space that the dataset, its children and their snapshots use.
    DATASET_USED = Gauge Bytes of DATASET "poolwright_dataset_used_bytes";
    /// Space that can still be written to the dataset.
    DATASET_AVAILABLE = Gauge Bytes of DATASET "poolwright_dataset_available_bytes";
    /// Space that the dataset refers to.
    DATASET_REFERENCED = Gauge Bytes of DATASET "poolwright_dataset_referenced_bytes";
    /// `used` before compression.
    DATASET_LOGICAL_USED = Gauge Bytes of DATASET "poolwright_dataset_logical_used_bytes";
    /// `referenced` before compression.
    DATASET_LOGICAL_REFERENCED = Gauge Bytes of DATASET "poolwright_dataset_logical_referenced_bytes";
    /// Compression ratio of `used`.
    DATASET_COMPRESSION = Gauge Ratio of DATASET "poolwright_dataset_compression_ratio";
    /// Space that would be free if all snapshots of the dataset were destroyed.
    DATASET_USED_BY_SNAPSHOTS = Gauge Bytes of DATASET "poolwright_dataset_used_by_snapshots_bytes";
    /// The part of `used` that destroying the dataset alone would free.
    DATASET_USED_BY_DATASET = Gauge Bytes of DATASET "poolwright_dataset_used_by_dataset_bytes";
    /// The part of `used` of the descendants.
    DATASET_USED_BY_CHILDREN = Gauge Bytes of DATASET "poolwright_dataset_used_by_children_bytes";
    /// The part of `used` that `refreservation` holds.
    DATASET_USED_BY_RESERVATION = Gauge Bytes of DATASET "poolwright_dataset_used_by_reservation_bytes";
    /// Space written since the last snapshot.
    DATASET_WRITTEN = Gauge Bytes of DATASET "poolwright_dataset_written_since_snapshot_bytes";
    /// Limit for the dataset and its descendants; missing without a limit.
    DATASET_QUOTA = Gauge Bytes of DATASET "poolwright_dataset_quota_bytes";
    /// The property `recordsize`, or `volblocksize` of a volume.
    DATASET_RECORDSIZE = Gauge Bytes of DATASET "poolwright_dataset_recordsize_bytes";
    /// Number of snapshots; missing for a dataset of the kernel that has none.
    DATASET_SNAPSHOTS = Gauge None of DATASET "poolwright_dataset_snapshots";
    /// The time of the oldest snapshot.
    DATASET_OLDEST_SNAPSHOT = Gauge Seconds of DATASET "poolwright_dataset_oldest_snapshot_time_seconds";
    /// The time of the newest snapshot.
    DATASET_NEWEST_SNAPSHOT = Gauge Seconds of DATASET "poolwright_dataset_newest_snapshot_time_seconds";
    /// Bytes that programs read from the dataset.
    DATASET_READ_BYTES = Counter Bytes of DATASET "poolwright_dataset_read_bytes_total";
    /// Bytes that programs wrote to the dataset.
    DATASET_WRITE_BYTES = Counter Bytes of DATASET "poolwright_dataset_written_bytes_total";
    /// Number of reads by programs.
    DATASET_READS = Counter None of DATASET "poolwright_dataset_reads_total";
    /// Number of writes by programs.
    DATASET_WRITES = Counter None of DATASET "poolwright_dataset_writes_total";
    /// Commits of the intent log.
    ZIL_COMMITS = Counter None of DATASET "poolwright_dataset_zil_commits_total";
    /// Records that reached the intent log.
    ZIL_RECORDS = Counter None of DATASET "poolwright_dataset_zil_records_total";
    /// Log bytes written to the main pool.
    ZIL_NORMAL_BYTES = Counter Bytes of DATASET "poolwright_dataset_zil_normal_written_bytes_total";
    /// Log bytes written to separate log devices.
    ZIL_SLOG_BYTES = Counter Bytes of DATASET "poolwright_dataset_zil_slog_written_bytes_total";
    /// Commits of the intent log that failed. Each waits for its transaction group instead.
    ZIL_ERRORS = Counter None of DATASET "poolwright_dataset_zil_commit_errors_total";
    /// Commits of the intent log that had to wait for a transaction group, because no log block could be allocated.
    ZIL_STALLS = Counter None of DATASET "poolwright_dataset_zil_commit_stalls_total";
    /// Log records that were replayed when the dataset was opened; more than 0 after a crash.
    ZIL_REPLAYED = Gauge None of DATASET "poolwright_dataset_zil_replayed";
    /// Always 1. The labels have the value of a property and its source. Properties at their default are omitted.
    PROPERTY_INFO = Gauge None of PROPERTY "poolwright_dataset_property";

    /// Number of requests of the kernel to a mount.
    MOUNT_REQUESTS = Counter None of MOUNT_OP "poolwright_mount_requests_total";
    /// Bytes returned to programs that read.
    MOUNT_READ_BYTES = Counter Bytes of MOUNT "poolwright_mount_read_bytes_total";
    /// Bytes accepted from programs that write.
    MOUNT_WRITE_BYTES = Counter Bytes of MOUNT "poolwright_mount_written_bytes_total";

    /// Bytes in use.
    ARC_SIZE = Gauge Bytes of ARC "poolwright_arc_size_bytes";
    /// Target size (`c`).
    ARC_TARGET = Gauge Bytes of ARC "poolwright_arc_target_bytes";
    /// Maximum size (`c_max`).
    ARC_MAX = Gauge Bytes of ARC "poolwright_arc_max_bytes";
    /// Minimum size (`c_min`).
    ARC_MIN = Gauge Bytes of ARC "poolwright_arc_min_bytes";
    /// Bytes of buffers at their compressed size.
    ARC_COMPRESSED = Gauge Bytes of ARC "poolwright_arc_compressed_bytes";
    /// Bytes of the same buffers at their uncompressed size.
    ARC_UNCOMPRESSED = Gauge Bytes of ARC "poolwright_arc_uncompressed_bytes";
    /// Bytes of the buffers of one state.
    ARC_STATE_SIZE = Gauge Bytes of ARC_STATE "poolwright_arc_state_size_bytes";
    /// Bytes of metadata.
    ARC_METADATA = Gauge Bytes of ARC "poolwright_arc_metadata_bytes";
    /// Bytes of headers, dnodes and other structures.
    ARC_OVERHEAD = Gauge Bytes of ARC "poolwright_arc_overhead_bytes";
    /// Whether the ARC may not grow, because memory was short.
    ARC_NO_GROW = Gauge None of ARC "poolwright_arc_no_grow";
    /// Number of times that a writer had to wait because memory was short.
    ARC_THROTTLED = Counter None of ARC "poolwright_arc_memory_throttles_total";
    /// Number of times that the kernel took memory from the ARC at once, because an allocation waited for it.
    ARC_DIRECT_RECLAIMS = Counter None of ARC "poolwright_arc_direct_reclaims_total";
    /// Number of times that the kernel took memory from the ARC in the background.
    ARC_BACKGROUND_RECLAIMS = Counter None of ARC "poolwright_arc_background_reclaims_total";
    /// Number of accesses.
    ARC_ACCESSES = Counter None of ARC_ACCESS "poolwright_arc_accesses_total";
    /// Accesses to blocks that were evicted from the recently used state: hits of a larger ARC.
    ARC_MRU_GHOST_HITS = Counter None of ARC "poolwright_arc_mru_ghost_hits_total";
    /// Accesses to blocks that were evicted from the frequently used state: hits of a larger ARC.
    ARC_MFU_GHOST_HITS = Counter None of ARC "poolwright_arc_mfu_ghost_hits_total";
    /// Reads that a cache vdev answered.
    L2ARC_HITS = Counter None of ARC "poolwright_l2arc_hits_total";
    /// Reads that no cache vdev answered.
    L2ARC_MISSES = Counter None of ARC "poolwright_l2arc_misses_total";
    /// Bytes on cache vdevs.
    L2ARC_SIZE = Gauge Bytes of ARC "poolwright_l2arc_size_bytes";
    /// Bytes that cached blocks occupy on cache vdevs, after compression.
    L2ARC_ALLOCATED = Gauge Bytes of ARC "poolwright_l2arc_allocated_bytes";
    /// Bytes of memory for the headers of blocks on cache vdevs.
    L2ARC_HEADERS = Gauge Bytes of ARC "poolwright_l2arc_headers_bytes";
    /// Bytes read from cache vdevs.
    L2ARC_READ_BYTES = Counter Bytes of ARC "poolwright_l2arc_read_bytes_total";
    /// Bytes written to cache vdevs.
    L2ARC_WRITE_BYTES = Counter Bytes of ARC "poolwright_l2arc_written_bytes_total";
    /// Reads from cache vdevs that failed or had a wrong checksum.
    L2ARC_ERRORS = Counter None of ARC "poolwright_l2arc_errors_total";

    /// Always 1. The labels have the releases of the kernel module and of `zfs`.
    MODULE_INFO = Gauge None of MODULE_RELEASE "poolwright_module_info";
    /// Bytes of decompressed blocks in the dbuf cache.
    DBUF_CACHE = Gauge Bytes of MODULE "poolwright_module_dbuf_cache_bytes";
    /// Target size of the dbuf cache.
    DBUF_CACHE_TARGET = Gauge Bytes of MODULE "poolwright_module_dbuf_cache_target_bytes";
    /// Transactions that could start.
    TX_ASSIGNED = Counter None of MODULE "poolwright_module_transactions_total";
    /// Error reports that were lost because too many arrived.
    EVENTS_DROPPED = Counter None of MODULE "poolwright_module_dropped_events_total";
    /// Transactions that had to wait, or were refused, for this reason.
    TX_WAITS = Counter None of TX_WAIT "poolwright_transaction_waits_total";
    /// Accesses that the prefetcher examined: hits continue a stream that it knows.
    PREFETCH_ACCESSES = Counter None of PREFETCH "poolwright_prefetch_accesses_total";
    /// Number of events since the exporter was started, including those in the module's log at that time. Only root may read them.
    EVENTS = Counter None of EVENT "poolwright_events_total";

    /// Memory of the host.
    HOST_MEMORY = Gauge Bytes of HOST "poolwright_host_memory_bytes";
    /// Memory that programs can use without swapping. It does not include the ARC.
    HOST_MEMORY_AVAILABLE = Gauge Bytes of HOST "poolwright_host_memory_available_bytes";

    /// The time at which the plan was made.
    PLAN_CREATED = Gauge Seconds of PLAN "poolwright_plan_created_time_seconds";
    /// The time at which the last recording of `poolwright verify` ended; missing if the plan was not verified since it was applied.
    PLAN_VERIFIED_AT = Gauge Seconds of PLAN "poolwright_plan_verified_time_seconds";
    /// Whether the last verification has found a broken promise of the plan's goal (1), or none (0); missing if the plan was not verified
    /// since it was applied.
    PLAN_BROKEN = Gauge None of PLAN "poolwright_plan_broken";
    /// The promised change.
    VERIFIED_PROMISED = Gauge None of PLAN_VERIFIED "poolwright_plan_verified_promised_change";
    /// The measured change; missing if it could not be measured.
    VERIFIED_CHANGE = Gauge None of PLAN_VERIFIED "poolwright_plan_verified_change";
    /// Lower end of its 95 % interval.
    VERIFIED_LOW = Gauge None of PLAN_VERIFIED "poolwright_plan_verified_change_low";
    /// Upper end of its 95 % interval.
    VERIFIED_HIGH = Gauge None of PLAN_VERIFIED "poolwright_plan_verified_change_high";
    /// Whether the dataset has the planned value of the property (1), or another (0). Sizes are compared as numbers.
    PLAN_PROPERTY_KEPT = Gauge None of PLAN_PROPERTY "poolwright_plan_property_kept";
    /// Number of examined files of the role that are larger than their dataset's recordsize. At most 10,000 files of a role are examined.
    PLAN_FILES = Gauge None of PLAN_ROLE "poolwright_plan_examined_files";
    /// Number of these files whose block size is not the dataset's recordsize. Only writing a file again changes its block size.
    PLAN_FILES_OTHER_SIZE = Gauge None of PLAN_ROLE "poolwright_plan_files_with_other_block_size";
    /// The value in the plan: the promise for `space_ratio`, the recording's value for sizes.
    PROMISE_VALUE = Gauge None of PLAN_PROMISE "poolwright_plan_promised_value";
    /// Lower end of the promise's interval, as the plan has it; missing for sizes.
    PROMISE_LOW = Gauge None of PLAN_PROMISE "poolwright_plan_promised_low";
    /// Upper end of the promise's interval, as the plan has it; missing for sizes.
    PROMISE_HIGH = Gauge None of PLAN_PROMISE "poolwright_plan_promised_high";
    /// The present value.
    PROMISE_PRESENT = Gauge None of PLAN_PROMISE "poolwright_plan_present_value";

    /// Number of backups. All are complete: an interrupted run leaves none.
    BACKUPS_KEPT = Gauge None of BACKUPS "poolwright_backups_kept";
    /// The time at which `poolwright backup run` took the snapshot of the database for the oldest backup; missing if there is no backup.
    BACKUPS_OLDEST = Gauge Seconds of BACKUPS "poolwright_backups_oldest_time_seconds";
    /// The time at which `poolwright backup run` took the snapshot of the database for the newest backup; missing if there is no backup.
    BACKUPS_NEWEST = Gauge Seconds of BACKUPS "poolwright_backups_newest_time_seconds";
    /// Sum of the lengths of the newest backup's files, before compression.
    BACKUPS_NEWEST_SIZE = Gauge Bytes of BACKUPS "poolwright_backups_newest_size_bytes";
    /// The time at which `poolwright backup run` took the snapshot of the database for the newest backup that passed `poolwright backup
    /// verify`; missing if none has passed.
    BACKUPS_NEWEST_GOOD = Gauge Seconds of BACKUPS "poolwright_backups_newest_good_time_seconds";
    /// The time of the last restore of any of the backups by `poolwright backup verify`; missing if there was none.
    BACKUPS_RESTORE = Gauge Seconds of BACKUPS "poolwright_backups_last_restore_time_seconds";
    /// Whether the last restore passed all checks (1), or failed one (0).
    BACKUPS_RESTORE_PASSED = Gauge None of BACKUPS "poolwright_backups_last_restore_passed";
    /// The time of the last restore that passed all checks; missing if none has.
    BACKUPS_GOOD_RESTORE = Gauge Seconds of BACKUPS "poolwright_backups_last_good_restore_time_seconds";
    /// Whether the last restore could not test its backup, because the host lacked memory, space or a program; missing if there was none.
    BACKUPS_UNTESTED = Gauge None of BACKUPS "poolwright_backups_last_restore_untested";
    /// The latest of the times of all backups and restores. It lies in the future if the clock was ahead at one of them.
    BACKUPS_LATEST = Gauge Seconds of BACKUPS "poolwright_backups_latest_time_seconds";
    /// The time at which `poolwright backup send` last brought the target up to date.
    REPLICA_SENT = Gauge Seconds of REPLICA "poolwright_replica_sent_time_seconds";

    /// Whether the last read of the source succeeded, and no read has exceeded its time limit.
    SOURCE_UP = Gauge None of SOURCE "poolwright_source_up";
    /// Age of the source's readings; missing before the first successful read.
    SOURCE_AGE = Gauge Seconds of SOURCE "poolwright_source_age_seconds";
    /// Duration of the last finished read.
    SOURCE_DURATION = Gauge Seconds of SOURCE "poolwright_source_read_duration_seconds";
    /// Number of finished reads.
    SOURCE_READS = Counter None of SOURCE "poolwright_source_reads_total";
    /// Number of reads that failed.
    SOURCE_FAILURES = Counter None of SOURCE "poolwright_source_read_failures_total";
    /// Always 1. The label has the version of the exporter.
    EXPORTER_INFO = Gauge None of EXPORTER_RELEASE "poolwright_exporter_info";
    /// Number of answered scrapes.
    EXPORTER_SCRAPES = Counter None of EXPORTER "poolwright_exporter_scrapes_total";
    /// Number of connections that were closed because too many were open.
    EXPORTER_REJECTED = Counter None of EXPORTER "poolwright_exporter_rejected_connections_total";
    /// Resident memory of the exporter's process.
    EXPORTER_MEMORY = Gauge Bytes of EXPORTER "poolwright_exporter_resident_memory_bytes";
    /// CPU time of the exporter's process.
    EXPORTER_CPU = Counter Seconds of EXPORTER "poolwright_exporter_cpu_seconds_total";
}
