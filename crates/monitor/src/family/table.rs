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
    /// Accesses to an ARC. `type` is `demand_data`, `demand_metadata`, `prefetch_data` or `prefetch_metadata`; `result` is `hit`, `iohit` or `miss`.
    ARC_ACCESS = "ARC access" ["engine", "pool", "type", "result"];
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
    /// The time at which the last scrub finished; missing if the last scan was not a finished scrub.
    SCRUB_END = Gauge Seconds of POOL "poolwright_pool_scrub_end_time_seconds";

    /// 1 for the present state of the vdev, 0 for the others.
    VDEV_STATE_NOW = Gauge None of VDEV_STATE "poolwright_vdev_state";
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
    /// Number of snapshots.
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
