//! Space of pools and datasets, and snapshots.

use crate::family::*;

use super::rule;
use crate::alert::condition::AlertCondition::When;
use crate::alert::condition::RuleGuard::And;
use crate::alert::condition::{
    DAY, Expression, HOUR, Limit, MINUTE, Relation, above, all, compare, is_positive,
};
use crate::alert::example::{Example, constant, ramp};
use crate::alert::recording::CAPACITY;
use crate::alert::rule::AlertSeverity::Critical;
use crate::alert::rule::{AlertRule, Decision, ValueFormat};
use crate::alert::threshold::{
    CAPACITY_CRITICAL, CAPACITY_WARNING, FRAGMENTATION, LARGE_DATASET, QUOTA, SNAPSHOT_AGE, SNAPSHOT_PAUSE,
    SNAPSHOT_SCHEDULE, SNAPSHOT_SHARE,
};

const TANK: &[&str] = &["kernel", "tank"];
const DB: &[&str] = &["kernel", "tank", "tank/db"];
const GIB: f64 = 1_073_741_824.0;

pub static RULES: &[AlertRule] = &[
    rule! {
        name: "PoolNearlyFull",
        wait: 15 * MINUTE,
        condition: When(above(Expression::Recorded(&CAPACITY), &CAPACITY_WARNING), &[]),
        format: ValueFormat::Percentage,
        summary: "pool {pool} is {value} full",
        meaning: "As a pool fills, free space is in small pieces, and random writes become slower: our campaign measured 4.4k writes per second half full, 2.6k at 80 % (1.71 times fewer, 1.38 to 2.11) and 1.2k at 95 % (3.7 times fewer).",
        action: "Destroy old snapshots or data, or add a vdev. `zfs list -o space` shows what uses the space.",
        is_figure: true,
        example: Example::levels(&POOL_ALLOCATED, TANK, 85.0 * GIB, 79.0 * GIB).with(&[constant(&POOL_SIZE, TANK, 100.0 * GIB)]),
    },
    rule! {
        name: "PoolFull",
        severity: Critical,
        wait: 5 * MINUTE,
        condition: When(above(Expression::Recorded(&CAPACITY), &CAPACITY_CRITICAL), &[]),
        format: ValueFormat::Percentage,
        summary: "pool {pool} is {value} full",
        meaning: "Writes are several times slower (see PoolNearlyFull) and will soon fail. OpenZFS keeps a small reserve (`spa_slop_shift`) so that data can still be destroyed.",
        action: "Destroy snapshots first: removing files that snapshots hold frees nothing. Then add a vdev.",
        example: Example::levels(&POOL_ALLOCATED, TANK, 96.0 * GIB, 85.0 * GIB).with(&[constant(&POOL_SIZE, TANK, 100.0 * GIB)]),
    },
    rule! {
        name: "PoolFillingUp",
        wait: HOUR,
        condition: When(
            above(
                Expression::Quotient(
                    &Expression::Predicted(all(&POOL_ALLOCATED), 7 * DAY, 14 * DAY),
                    &Expression::Now(all(&POOL_SIZE)),
                ),
                &CAPACITY_WARNING,
            ),
            &[
                And(compare(Expression::Recorded(&CAPACITY), Relation::AtMost, Limit::Threshold(&CAPACITY_WARNING))),
                And(is_positive(Expression::Earlier(all(&POOL_SIZE), DAY))),
            ],
        ),
        format: ValueFormat::Percentage,
        summary: "pool {pool} will be {value} full in 14 days",
        meaning: "If the pool goes on growing as in the last 7 days (of which at least one is known), it exceeds the limit of PoolNearlyFull within 14 days. That alert says what the fullness costs.",
        action: "Plan for space now: destroy, move, or add vdevs.",
        decision: Decision::Prometheus("a trend needs days of history"),
        example: Example::Series {
            fires: &[
                ramp(&POOL_ALLOCATED, TANK, 40.02 * GIB, 0.005 * GIB),
                constant(&POOL_SIZE, TANK, 100.0 * GIB),
            ],
            quiet: &[
                ramp(&POOL_ALLOCATED, TANK, 40.0 * GIB, 0.000_1 * GIB),
                constant(&POOL_SIZE, TANK, 100.0 * GIB),
            ],
        },
    },
    rule! {
        name: "PoolFragmented",
        wait: HOUR,
        condition: When(above(Expression::Now(all(&POOL_FRAGMENTATION)), &FRAGMENTATION), &[]),
        format: ValueFormat::Percentage,
        summary: "the free space of pool {pool} is {value} fragmented",
        meaning: "Free space is in small segments, so that OpenZFS searches longer and writes in smaller pieces. It says nothing of how files are fragmented.",
        action: "Free space. Only copying the data to another pool (`zfs send`) defragments.",
        is_figure: true,
        example: Example::levels(&POOL_FRAGMENTATION, TANK, 0.7, 0.3),
    },
    rule! {
        name: "QuotaNearlyReached",
        wait: 15 * MINUTE,
        condition: When(
            above(
                Expression::Quotient(&Expression::Now(all(&DATASET_USED)), &Expression::Now(all(&DATASET_QUOTA))),
                &QUOTA,
            ),
            &[],
        ),
        format: ValueFormat::Percentage,
        summary: "dataset {dataset} uses {value} of its quota",
        meaning: "Writes fail with \"disk quota exceeded\" when the quota is reached. A database may stop.",
        action: "Raise `quota`, or free space. Snapshots count in `quota`, not in `refquota`.",
        example: Example::levels(&DATASET_USED, DB, 95.0 * GIB, 50.0 * GIB).with(&[constant(&DATASET_QUOTA, DB, 100.0 * GIB)]),
    },
    rule! {
        name: "SnapshotsLarge",
        wait: HOUR,
        condition: When(
            above(
                Expression::Quotient(
                    &Expression::Now(all(&DATASET_USED_BY_SNAPSHOTS)),
                    &Expression::Now(all(&DATASET_USED)),
                ),
                &SNAPSHOT_SHARE,
            ),
            &[And(above(Expression::Now(all(&DATASET_USED)), &LARGE_DATASET))],
        ),
        format: ValueFormat::Percentage,
        summary: "snapshots hold {value} of the space of dataset {dataset}",
        meaning: "Most of the dataset's space is data that was overwritten or removed since.",
        action: "`zfs list -t snapshot -o name,used,creation DATASET` shows the snapshots. Destroy old ones, or keep fewer.",
        example: Example::Series {
            fires: &[
                constant(&DATASET_USED_BY_SNAPSHOTS, DB, 60.0 * GIB),
                constant(&DATASET_USED, DB, 100.0 * GIB),
            ],
            quiet: &[
                constant(&DATASET_USED_BY_SNAPSHOTS, DB, 6.0 * GIB),
                constant(&DATASET_USED, DB, 9.0 * GIB),
            ],
        },
    },
    rule! {
        name: "SnapshotOld",
        condition: When(above(Expression::Age(all(&DATASET_OLDEST_SNAPSHOT)), &SNAPSHOT_AGE), &[]),
        format: ValueFormat::Duration,
        summary: "the oldest snapshot of dataset {dataset} is {value} old",
        meaning: "A forgotten snapshot holds all data that has changed since.",
        action: "Destroy it, or silence the alert if it is kept on purpose.",
        example: Example::levels(&DATASET_OLDEST_SNAPSHOT, DB, -40_000_000.0, -3_000_000.0),
    },
    rule! {
        name: "SnapshotsStopped",
        condition: When(
            above(Expression::Age(all(&DATASET_NEWEST_SNAPSHOT)), &SNAPSHOT_PAUSE),
            &[And(above(Expression::Now(all(&DATASET_SNAPSHOTS)), &SNAPSHOT_SCHEDULE))],
        ),
        format: ValueFormat::Duration,
        summary: "the newest snapshot of dataset {dataset} is {value} old",
        meaning: "The dataset has so many snapshots that something takes them regularly, and it has stopped.",
        action: "Check the timer or the job that takes snapshots, and its log.",
        example: Example::Series {
            fires: &[
                constant(&DATASET_NEWEST_SNAPSHOT, DB, -259_200.0),
                constant(&DATASET_SNAPSHOTS, DB, 30.0),
            ],
            quiet: &[
                constant(&DATASET_NEWEST_SNAPSHOT, DB, -259_200.0),
                constant(&DATASET_SNAPSHOTS, DB, 2.0),
            ],
        },
    },
];
