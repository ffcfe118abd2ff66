//! What a modelled ARC is like: its size, and what the engine and its host make of that.

/// Bytes of the smallest ARC that a sample can be modelled in. In smaller ones few indirect blocks fit; they are then kept
/// or not as in no whole ARC, and the miss ratio was found to be off by more than samples differ.
pub const LEAST_SAMPLED: u64 = 16 << 20;

/// How far the room for records in a sample's ARC may be off: two indirect blocks, compressed and as its dbuf has them. A
/// reader of neighbours holds those of the dbuf cache's records, which are as many fewer as there are records, but one at
/// least, and another at the border of two.
pub const GRAIN: u64 = 2 * ((44 << 10) + (128 << 10));

/// What a dataset's `primarycache` lets into the ARC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrimaryCache {
    /// Data and metadata.
    All,
    /// Indirect blocks only.
    Metadata,
    /// Nothing.
    None,
}

/// Bytes of the structures that count towards the ARC's size, beside the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Structures {
    /// A block's header, of a ghost too (`arc_buf_hdr_t`).
    pub header: u32,
    /// A user's handle on a block (`arc_buf_t`).
    pub buffer: u32,
    /// A dbuf (`dmu_buf_impl_t`).
    pub dbuf: u32,
}

impl Structures {
    /// As OpenZFS 2.3 has them, compiled as it is shipped.
    pub const KERNEL: Structures = Structures { header: 240, buffer: 32, dbuf: 368 };
    /// As the debug build of libzpool has them, which checks more and so holds more.
    pub const LIBRARY: Structures = Structures { header: 416, buffer: 32, dbuf: 488 };
}

/// A modelled ARC. Sizes are bytes, times milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The size aimed at (`arc_c`), which does not move here.
    pub cache_bytes: u64,
    /// The recordsize: what a record takes uncompressed.
    pub record_bytes: u32,
    /// What may be cached.
    pub primarycache: PrimaryCache,
    /// The dbuf cache in front, uncompressed.
    pub dbuf_cache_bytes: u64,
    /// The cache vdev behind it (L2ARC); 0: there is none.
    pub l2arc_bytes: u64,
    /// Whether it reads ahead of sequential readers (`prefetch`); needs `offsets`.
    pub prefetch: bool,
    /// Whether reads are for parts of records. It matters where records are not to be cached: their dbufs are then kept.
    pub partial_reads: bool,
    /// For traces without times: requests in a second. 0: the times are those of the accesses.
    pub requests_per_s: u32,
    /// Whether keys are a file's number and the record's place in it; else there are no indirect blocks.
    pub offsets: bool,
    /// Records that a pointer of an indirect block stands for: 1, or more where a model is shown a sample.
    pub span: f64,
    /// Share of the records that the model is shown.
    pub share: f64,
    /// What a full indirect block of 1024 pointers takes compressed.
    pub indirect_bytes: u32,
    /// What it takes uncompressed.
    pub indirect_lsize: u32,
    /// What the pool itself keeps in the ARC.
    pub pool_bytes: u64,
    /// Structures that count.
    pub structures: Structures,
    /// How far the ARC grows over its size before it is cut back: `zfs_max_recordsize`.
    pub slack_bytes: u64,
    /// Lists that each state is spread over: the processors, but at least 4.
    pub sublists: u32,
    /// Buffers that are evicted from one of them before the next has its turn (`zfs_arc_evict_batch_limit`).
    pub batch: u32,
    /// A second use this soon after the first is no second use (`ARC_MINTIME`, a sixteenth of a second in ticks).
    pub mintime_ms: u32,
    /// An indirect block, or what was read ahead, is not evicted this soon after its use (`zfs_arc_min_prefetch_ms`).
    pub indirect_ms: u32,
    /// How often dirty data goes to disk (`zfs_txg_timeout`).
    pub txg_ms: u32,
    /// Or as soon as there is this much of it (a fifth of `zfs_dirty_data_max`).
    pub txg_bytes: u64,
    /// What a write of a part of a record writes, on average.
    pub update_bytes: u32,
}

impl Options {
    /// The engine's defaults for an ARC of this size and records of this size.
    pub fn new(cache_bytes: u64, record_bytes: u32) -> Options {
        Options {
            cache_bytes,
            record_bytes,
            primarycache: PrimaryCache::All,
            dbuf_cache_bytes: cache_bytes >> 5,
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
            sublists: 4,
            batch: 10,
            mintime_ms: 62,
            indirect_ms: 1000,
            txg_ms: 5000,
            txg_bytes: (4 << 30) / 5,
            update_bytes: 16 << 10,
        }
    }

    /// The same for a sample of so large a share of the records, in an ARC of that share (`cache_bytes` and what follows
    /// from it are that already, and at least [`LEAST_SAMPLED`]).
    ///
    /// What is neither a record's own nor an indirect block's shrinks with it, and so do the steps in which room is counted
    /// and made: two megabytes that an indirect block's dbuf borrows in advance would be a fortieth of an ARC of 80M. An indirect block points to as many of the
    /// sampled records as it would to all, so that there are fewer of them by the share. Nothing is read ahead: records
    /// that are spread show no sequence.
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
