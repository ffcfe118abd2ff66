//! The engine's counters as serialisable values.

use crate::ffi;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

macro_rules! counters {
    ($(#[$doc:meta])* $name:ident from $raw:ident { $($(#[$fdoc:meta])* $field:ident $(: $kind:ident)?),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub struct $name { $($(#[$fdoc])* pub $field: u64),* }

        impl From<ffi::$raw> for $name {
            fn from(raw: ffi::$raw) -> Self { $name { $($field: raw.$field as u64),* } }
        }

        impl $name {
            /// Returns the change since `before`: the differences of counters, and the current levels (sizes, states).
            pub fn since(&self, before: &Self) -> Self {
                $name { $($field: counters!(@since $($kind)? self.$field, before.$field)),* }
            }

            /// Returns the values that `of` gives for the names of the fields.
            pub fn from_names(of: impl Fn(&str) -> u64) -> Self {
                $name { $($field: of(stringify!($field))),* }
            }

            /// Returns the sums of all fields, of two engines for example.
            pub fn plus(&self, other: &Self) -> Self {
                $name { $($field: self.$field.wrapping_add(other.$field)),* }
            }
        }
    };
    (@since level $now:expr, $before:expr) => {{
        let _ = $before;
        $now
    }};
    (@since $now:expr, $before:expr) => { $now.wrapping_sub($before) };
}

counters!(
    /// `arcstats`: accesses since the engine started, and sizes in bytes now.
    ArcStats from pw_arc_stats {
        /// Accesses found in the ARC.
        hits,
        /// Accesses that waited for a read in progress.
        iohits,
        /// Accesses that went to a vdev.
        misses,
        /// Hits of demand reads on data.
        demand_data_hits,
        /// Demand reads on data that waited for a read in progress.
        demand_data_iohits,
        /// Misses of demand reads on data.
        demand_data_misses,
        /// Hits of demand reads on metadata.
        demand_metadata_hits,
        /// Demand reads on metadata that waited for a read in progress.
        demand_metadata_iohits,
        /// Misses of demand reads on metadata.
        demand_metadata_misses,
        /// Prefetches of data found in the ARC.
        prefetch_data_hits,
        /// Prefetches of data that read from a vdev.
        prefetch_data_misses,
        /// Prefetches of metadata found in the ARC.
        prefetch_metadata_hits,
        /// Prefetches of metadata that read from a vdev.
        prefetch_metadata_misses,
        /// Hits in the recently used state.
        mru_hits,
        /// Accesses to blocks that were evicted from the recently used state.
        mru_ghost_hits,
        /// Hits in the frequently used state.
        mfu_hits,
        /// Accesses to blocks that were evicted from the frequently used state.
        mfu_ghost_hits,
        /// Bytes in use.
        size: level,
        /// Target size in bytes (`c`).
        target: level,
        /// Maximum size in bytes (`c_max`).
        max: level,
        /// Bytes of buffers at their compressed size.
        compressed_size: level,
        /// Bytes of the same buffers at their uncompressed size.
        uncompressed_size: level,
        /// Reads answered by a cache vdev.
        l2_hits,
        /// Reads that no cache vdev answered.
        l2_misses,
        /// Bytes on cache vdevs.
        l2_size: level,
    }
);

impl ArcStats {
    /// The part of the accesses that were found in the ARC; `None` without accesses.
    pub fn hit_ratio(&self) -> Option<f64> {
        let all = self.hits + self.iohits + self.misses;
        (all > 0).then(|| self.hits as f64 / all as f64)
    }
}

counters!(
    /// The current bytes of the ARC by state and type, and its balance.
    ArcSizes from pw_arc_sizes {
        /// Data not yet written, or being written.
        anon_data: level,
        /// The same of metadata.
        anon_metadata: level,
        /// Data used once recently, in buffers and their uncompressed copies.
        mru_data: level,
        /// The same of metadata.
        mru_metadata: level,
        /// The part of that data without references.
        mru_evictable_data: level,
        /// The same of metadata.
        mru_evictable_metadata: level,
        /// Data used more than once.
        mfu_data: level,
        /// The same of metadata.
        mfu_metadata: level,
        /// The part of that data without references.
        mfu_evictable_data: level,
        /// The same of metadata.
        mfu_evictable_metadata: level,
        /// Ghosts of evicted data that was used once, at its uncompressed size.
        mru_ghost_data: level,
        /// The same of metadata.
        mru_ghost_metadata: level,
        /// Ghosts of evicted data that was used more than once, at its uncompressed size.
        mfu_ghost_data: level,
        /// The same of metadata.
        mfu_ghost_metadata: level,
        /// Data that will not be kept.
        uncached_data: level,
        /// The same of metadata.
        uncached_metadata: level,
        /// Uncompressed copies for users of compressed buffers.
        overhead_size: level,
        /// Headers of all buffers, including ghosts.
        hdr_size: level,
        /// Dbufs.
        dbuf_size: level,
        /// Dnodes.
        dnode_size: level,
        /// Bonus buffers of dnodes.
        bonus_size: level,
        /// Target share of metadata, in units of 2^-32, as are the next two.
        meta: level,
        /// Target share of data used once among all data.
        pd: level,
        /// Target share of metadata used once among all metadata.
        pm: level,
    }
);

counters!(
    /// The I/O of vdev files, including labels and uberblocks. Times are totals of all requests.
    VdevStats from pw_vdev_stats {
        /// Bytes read.
        read_bytes,
        /// Bytes written.
        write_bytes,
        /// Read requests.
        read_ops,
        /// Write requests.
        write_ops,
        /// Cache flushes.
        flushes,
        /// Nanoseconds in reads.
        read_ns,
        /// Nanoseconds in writes.
        write_ns,
        /// Nanoseconds in flushes.
        flush_ns,
    }
);

counters!(
    /// A pool's space and errors.
    PoolStats from pw_pool_stats {
        /// Bytes of all vdevs.
        size: level,
        /// Bytes allocated in the normal and log classes.
        allocated: level,
        /// Bytes free.
        free: level,
        /// Last transaction group on disk.
        txg,
        /// Number of read errors of the vdevs.
        read_errors,
        /// Number of write errors of the vdevs.
        write_errors,
        /// Number of checksum errors of the vdevs.
        checksum_errors,
        /// `bcloneused`: bytes on disk that clones share.
        bclone_used: level,
        /// `bclonesaved`: bytes that clones save.
        bclone_saved: level,
        /// Sizes above `min_alloc` are rounded up to a multiple of this, in bytes.
        gcd_alloc: level,
        /// The smallest allocation in bytes.
        min_alloc: level,
        /// 0 active, 1 suspended.
        state: level,
    }
);

counters!(
    /// A pool's requests by way since it was imported, with the names of a kernel's kstat `iostats`.
    IoStats from pw_io_stats {
        /// Blocks read because they were not in the ARC.
        arc_read_count,
        /// Their bytes.
        arc_read_bytes,
        /// Blocks changed in the ARC.
        arc_write_count,
        /// The bytes of these changes.
        arc_write_bytes,
        /// Blocks read by direct I/O, each as a whole.
        direct_read_count,
        /// Their bytes.
        direct_read_bytes,
        /// Blocks written by direct I/O.
        direct_write_count,
        /// Their bytes.
        direct_write_bytes,
    }
);

counters!(
    /// Intent log traffic of one dataset since it was opened, by kind of record and by where the log blocks went.
    ZilStats from pw_zil_stats {
        /// Commits (`fsync`).
        commits,
        /// Records that reached the log.
        itxs,
        /// Write records that point to a block.
        indirect_count,
        /// Bytes of those writes.
        indirect_bytes,
        /// Write records with the data copied when the write was made.
        copied_count,
        /// Bytes of those writes.
        copied_bytes,
        /// Write records with the data copied when the log was committed.
        needcopy_count,
        /// Bytes of those writes.
        needcopy_bytes,
        /// Log bytes used in main-pool log blocks.
        normal_bytes,
        /// Log bytes written to the main pool.
        normal_write,
        /// Log bytes allocated in the main pool.
        normal_alloc,
        /// Log bytes used in blocks of a separate log device.
        slog_bytes,
        /// Log bytes written to a separate log device.
        slog_write,
        /// Log bytes allocated in a separate log device.
        slog_alloc,
    }
);

counters!(
    /// A dataset's space as `zfs get` shows it, in bytes, and its ratios times 100.
    DatasetStats from pw_dataset_stats {
        /// `used` in bytes.
        used: level,
        /// `referenced` in bytes.
        referenced: level,
        /// `logicalused` in bytes.
        logicalused: level,
        /// `logicalreferenced` in bytes.
        logicalreferenced: level,
        /// `compressratio` × 100, including indirect blocks.
        compressratio_x100: level,
        /// `refcompressratio` × 100.
        refcompressratio_x100: level,
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_levels_and_counters_differences() {
        let before = ArcStats { hits: 10, size: 900, target: 800, l2_size: 70, ..ArcStats::default() };
        let now = ArcStats { hits: 15, size: 300, target: 800, l2_size: 60, ..ArcStats::default() };
        let moved = now.since(&before);
        assert_eq!((moved.hits, moved.size, moved.target, moved.l2_size), (5, 300, 800, 60));
        let before = PoolStats { free: 9, read_errors: 1, ..PoolStats::default() };
        let now = PoolStats { free: 4, read_errors: 3, ..PoolStats::default() };
        assert_eq!((now.since(&before).free, now.since(&before).read_errors), (4, 2));
    }
}
