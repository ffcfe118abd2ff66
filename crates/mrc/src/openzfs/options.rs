//! The parameters of a modelled ARC: its size, and those of the engine and the host.

/// Bytes of the smallest ARC for which a sample is modelled. Only few indirect blocks fit into a smaller one, and
/// whether they stay differs from the whole ARC: the errors of the miss ratio exceeded the differences between samples.
pub const MIN_SAMPLED: u64 = 16 << 20;

/// How much the space for records in a sample's ARC may deviate, in bytes: two indirect blocks, compressed and with
/// their dbufs. A reader of neighbouring records holds the indirect blocks of the dbuf cache's records. Their number
/// shrinks with the records, but is at least one, and two at a border.
pub const GRAIN: u64 = 2 * ((44 << 10) + (128 << 10));

/// The contents that the property `primarycache` admits to the ARC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrimaryCache {
    /// Data and metadata.
    All,
    /// Indirect blocks only.
    Metadata,
    /// Nothing.
    None,
}

/// Bytes of the structures that count towards the ARC's size, in addition to the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structures {
    /// The header of a block or a ghost (`arc_buf_hdr_t`).
    pub header: u32,
    /// A handle on a block (`arc_buf_t`).
    pub buffer: u32,
    /// A dbuf (`dmu_buf_impl_t`).
    pub dbuf: u32,
}

impl Structures {
    /// The structures of OpenZFS 2.3 in a shipped build.
    pub const KERNEL: Structures = Structures { header: 240, buffer: 32, dbuf: 368 };
}

/// A modelled ARC. Sizes are bytes, times milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The target size (`arc_c`), which is fixed here.
    pub cache_bytes: u64,
    /// The recordsize: the uncompressed size of a record.
    pub record_bytes: u32,
    /// The contents that the ARC caches.
    pub primarycache: PrimaryCache,
    /// The size of the cache vdev (L2ARC); 0 for none.
    pub l2arc_bytes: u64,
    /// Whether to prefetch for sequential readers; needs `offsets`.
    pub prefetch: bool,
    /// Whether reads are for parts of records. Matters if records are not to be cached: their dbufs are then kept.
    pub partial_reads: bool,
    /// Requests per second of a trace without times; 0 to use the times of the accesses.
    pub requests_per_s: u32,
    /// Whether keys are a file and an index in it; otherwise there are no indirect blocks.
    pub offsets: bool,
    /// Records per pointer of an indirect block: 1, or more in a sample.
    pub span: f64,
    /// Share of the records that the model receives.
    pub share: f64,
    /// The compressed size of a full indirect block of 1024 pointers.
    pub indirect_bytes: u32,
    /// Its uncompressed size.
    pub indirect_lsize: u32,
    /// Bytes of the ARC that the pool itself uses.
    pub pool_bytes: u64,
    /// The sizes of structures.
    pub structures: Structures,
    /// How far the ARC exceeds its size before eviction starts: `zfs_max_recordsize`.
    pub slack_bytes: u64,
    /// Buffers evicted from a list before eviction continues with the next (`zfs_arc_evict_batch_limit`).
    pub batch: u32,
    /// A second use within this time does not count (`ARC_MINTIME`, a sixteenth of a second in ticks).
    pub mintime_ms: u32,
    /// The amount of dirty data that triggers a sync (a fifth of `zfs_dirty_data_max`).
    pub txg_bytes: u64,
    /// The mean length of a partial write.
    pub update_bytes: u32,
}

impl Options {
    /// The engine's defaults for an ARC and records of these sizes.
    pub fn new(cache_bytes: u64, record_bytes: u32) -> Options {
        Options {
            cache_bytes,
            record_bytes,
            primarycache: PrimaryCache::All,
            l2arc_bytes: 0,
            prefetch: false,
            partial_reads: false,
            requests_per_s: 0,
            offsets: true,
            span: 1.0,
            share: 1.0,
            indirect_bytes: 44 << 10,
            indirect_lsize: 128 << 10,
            pool_bytes: 5 << 18,
            structures: Structures::KERNEL,
            slack_bytes: 16 << 20,
            batch: 10,
            mintime_ms: 62,
            txg_bytes: (4 << 30) / 5,
            update_bytes: 16 << 10,
        }
    }

    /// The options for a sample of this share of the records, in an ARC of this share (`cache_bytes` and the values
    /// derived from it already have that size, at least [`MIN_SAMPLED`]).
    ///
    /// Memory that belongs neither to a record nor to an indirect block shrinks with the share, and so do the steps in
    /// which memory is counted and freed: the two megabytes that an indirect block's dbuf borrows in advance would be a
    /// fortieth of an ARC of 80M. An indirect block points to as many sampled records as it would to all records, so
    /// that their number shrinks with the share. Nothing is prefetched, because sampled records form no sequence.
    pub fn sampled(self, share: f64) -> Options {
        if share >= 1.0 {
            return self;
        }
        let of = |bytes: u64| (bytes as f64 * share).ceil() as u64;
        Options {
            l2arc_bytes: of(self.l2arc_bytes),
            prefetch: false,
            requests_per_s: of(self.requests_per_s.into()) as u32,
            span: self.span / share,
            share: self.share * share,
            batch: (f64::from(self.batch) * share).ceil() as u32,
            pool_bytes: of(self.pool_bytes),
            slack_bytes: of(self.slack_bytes),
            txg_bytes: of(self.txg_bytes),
            ..self
        }
    }
}
