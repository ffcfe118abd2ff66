//! Transaction groups, the intent log, and synchronous writes.

use crate::family::*;

use super::rule;
use crate::alert::condition::AlertCondition::When;
use crate::alert::condition::RuleGuard::And;
use crate::alert::condition::{
    Expression, HOUR, Limit, MINUTE, Relation, above, all, below, compare, is, is_not, is_positive, only,
};
use crate::alert::example::{Example, buckets, constant, ramp};
use crate::alert::rule::{AlertRule, ValueFormat};
use crate::alert::threshold::{
    BUSY_WRITES, SLOG_LATENCY, SYNC_QUEUE, TX_DELAYED, TX_STOPPED, TXG_SYNC_TIME, WRITE_SHARE,
};

const TANK: &[&str] = &["kernel", "tank"];
const DB: &[&str] = &["kernel", "tank", "tank/db"];
const SYNC_QUEUE_OF_SDA: &[&str] = &["kernel", "tank", "sda", "normal", "sync_write"];
const SLOG_WRITES: &[&str] = &["kernel", "tank", "nvme0n1", "log", "total_write"];
/// Bounds of buckets of the examples, in seconds.
const BOUNDS: &[f64] = &[0.004194304, 0.016777216, 0.067108864, 0.268435456];
const FAST: &[f64] = &[600.0, 0.0, 0.0, 0.0, 0.0];
const SLOW: &[f64] = &[0.0, 0.0, 0.0, 600.0, 0.0];

pub static RULES: &[AlertRule] = &[
    rule! {
        name: "TxgSyncSlow",
        wait: 5 * MINUTE,
        condition: When(above(Expression::Now(all(&TXG_SYNC_LONGEST)), &TXG_SYNC_TIME), &[]),
        format: ValueFormat::Duration,
        summary: "pool {pool} needed {value} to write a transaction group",
        meaning: "The vdevs do not keep up with the writes. Programs that write or call fsync may wait as long.",
        action: "Look for a slow vdev (VdevSlowAmongPeers), a scrub, or `zfs destroy` of much data. Lower `zfs_dirty_data_max` if the groups are too large for the vdevs.",
        is_figure: true,
        example: Example::levels(&TXG_SYNC_LONGEST, TANK, 40.0, 4.0),
    },
    rule! {
        name: "WritesDelayed",
        wait: 15 * MINUTE,
        condition: When(
            above(
                Expression::Quotient(
                    &Expression::Rate(only(&TX_WAITS, &[is("reason", &["dirty_delay"])]), 15 * MINUTE),
                    &Expression::Rate(all(&TX_ASSIGNED), 15 * MINUTE),
                ),
                &TX_DELAYED,
            ),
            &[],
        ),
        format: ValueFormat::Percentage,
        summary: "{value} of the transactions are delayed because of dirty data",
        meaning: "Programs write faster than the vdevs accept, so that OpenZFS slows each write a little.",
        action: "Short bursts are normal. If it lasts, the vdevs are too slow for the load: find the pool with TxgSyncSlow or `zpool iostat 5`.",
        example: Example::rates(&TX_WAITS, &["kernel", "dirty_delay"], 6_000.0, 60.0)
            .with(&[ramp(&TX_ASSIGNED, &["kernel"], 0.0, 12_000.0)]),
    },
    rule! {
        name: "WritesStopped",
        wait: 5 * MINUTE,
        condition: When(
            above(
                Expression::Quotient(
                    &Expression::Rate(only(&TX_WAITS, &[is("reason", &["dirty_over_max"])]), 15 * MINUTE),
                    &Expression::Rate(all(&TX_ASSIGNED), 15 * MINUTE),
                ),
                &TX_STOPPED,
            ),
            &[],
        ),
        format: ValueFormat::Percentage,
        summary: "{value} of the transactions waited for a whole transaction group",
        meaning: "Dirty data reached its maximum (`zfs_dirty_data_max`): writers stand still until data is on the vdevs.",
        action: "As for WritesDelayed. A larger `zfs_dirty_data_max` helps only against bursts.",
        example: Example::rates(&TX_WAITS, &["kernel", "dirty_over_max"], 600.0, 0.0)
            .with(&[ramp(&TX_ASSIGNED, &["kernel"], 0.0, 12_000.0)]),
    },
    rule! {
        name: "ZilCommitErrors",
        condition: When(is_positive(Expression::Increase(all(&ZIL_ERRORS), 15 * MINUTE)), &[]),
        summary: "{value} commits of the intent log of dataset {dataset} failed within 15 minutes",
        meaning: "The log could not be written, so that fsync waited for the transaction group instead. No data is lost, and fsync is slow.",
        action: "Check the log device, or the vdevs if there is none.",
        example: Example::grows(&ZIL_ERRORS, DB, 1.0, 2.0),
    },
    rule! {
        name: "ZilCommitStalls",
        condition: When(is_positive(Expression::Increase(all(&ZIL_STALLS), 15 * MINUTE)), &[]),
        summary: "{value} commits of the intent log of dataset {dataset} waited for a transaction group within 15 minutes",
        meaning: "No block for the log could be allocated: the log device or the pool is full or very fragmented.",
        action: "Free space in the pool, or use a larger log device.",
        example: Example::grows(&ZIL_STALLS, DB, 1.0, 2.0),
    },
    rule! {
        name: "SyncWritesQueued",
        wait: 15 * MINUTE,
        condition: When(
            above(
                Expression::Quantile(
                    0.99,
                    only(&VDEV_LATENCY, &[is("queue", &["sync_write"]), is_not("class", &["root"])]),
                    15 * MINUTE,
                ),
                &SYNC_QUEUE,
            ),
            &[],
        ),
        format: ValueFormat::Duration,
        summary: "1 % of the synchronous writes wait longer than {value} for vdev {vdev} of pool {pool}",
        meaning: "Commits of databases wait in OpenZFS's queue, because the vdev is busy.",
        action: "Use a log device, move other load away, or raise `zfs_vdev_sync_write_min_active` if the device can do more at once.",
        example: Example::Series {
            fires: &[buckets(&VDEV_LATENCY, SYNC_QUEUE_OF_SDA, BOUNDS, SLOW)],
            quiet: &[buckets(&VDEV_LATENCY, SYNC_QUEUE_OF_SDA, BOUNDS, FAST)],
        },
    },
    rule! {
        name: "SlogSlow",
        wait: 15 * MINUTE,
        condition: When(
            above(
                Expression::Quantile(
                    0.99,
                    only(&VDEV_LATENCY, &[is("queue", &["total_write"]), is("class", &["log"])]),
                    15 * MINUTE,
                ),
                &SLOG_LATENCY,
            ),
            &[],
        ),
        format: ValueFormat::Duration,
        summary: "1 % of the writes to log vdev {vdev} of pool {pool} take longer than {value}",
        meaning: "The device that should make commits fast is slow: it may lack a write cache with power-loss protection, or be worn.",
        action: "Measure it (`poolwright tune` with `logbias` tries the database without it). Replace or remove it.",
        example: Example::Series {
            fires: &[buckets(&VDEV_LATENCY, SLOG_WRITES, BOUNDS, SLOW)],
            quiet: &[buckets(&VDEV_LATENCY, SLOG_WRITES, BOUNDS, FAST)],
        },
    },
    rule! {
        name: "IntentLogReplayed",
        condition: When(
            is_positive(Expression::Now(all(&ZIL_REPLAYED))),
            &[And(compare(
                Expression::Age(all(&POOL_IMPORTED)),
                Relation::Below,
                Limit::Number(3600.0),
            ))],
        ),
        summary: "{value} log records of dataset {dataset} were replayed",
        meaning: "The process that had the pool open ended without exporting it. The intent log has restored the acknowledged writes. The alert ends an hour after the import.",
        action: "Find out why it ended: `~/.local/state/poolwright/log` and the kernel's log (out of memory). Check that the database has recovered.",
        example: Example::Series {
            fires: &[
                constant(&ZIL_REPLAYED, &["user", "tank", "tank/db"], 12.0),
                constant(&POOL_IMPORTED, &["user", "tank"], 0.0),
            ],
            quiet: &[
                constant(&ZIL_REPLAYED, &["user", "tank", "tank/db"], 12.0),
                constant(&POOL_IMPORTED, &["user", "tank"], -7200.0),
            ],
        },
    },
    rule! {
        name: "WritesSmallerThanRecords",
        wait: HOUR,
        condition: When(
            below(
                Expression::Quotient(
                    &Expression::Quotient(
                        &Expression::Rate(all(&DATASET_WRITE_BYTES), HOUR),
                        &Expression::Rate(all(&DATASET_WRITES), HOUR),
                    ),
                    &Expression::Now(all(&DATASET_RECORDSIZE)),
                ),
                &WRITE_SHARE,
            ),
            &[And(above(Expression::Rate(all(&DATASET_WRITES), HOUR), &BUSY_WRITES))],
        ),
        format: ValueFormat::Percentage,
        summary: "writes to dataset {dataset} are {value} of its recordsize",
        meaning: "A random write that is smaller than the record makes OpenZFS read and write the whole record. Appending writes, which OpenZFS gathers, are not affected.",
        action: "`poolwright tune` says whether a smaller recordsize is better; only new files get it.",
        example: Example::Series {
            fires: &[
                ramp(&DATASET_WRITE_BYTES, DB, 0.0, 12_000.0 * 8192.0),
                ramp(&DATASET_WRITES, DB, 0.0, 12_000.0),
                constant(&DATASET_RECORDSIZE, DB, 131_072.0),
            ],
            quiet: &[
                ramp(&DATASET_WRITE_BYTES, DB, 0.0, 12_000.0 * 8192.0),
                ramp(&DATASET_WRITES, DB, 0.0, 12_000.0),
                constant(&DATASET_RECORDSIZE, DB, 16_384.0),
            ],
        },
    },
];
