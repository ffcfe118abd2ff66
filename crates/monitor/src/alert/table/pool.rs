//! State and scans of pools.

use crate::family::*;

use super::rule;
use crate::alert::condition::AlertCondition::When;
use crate::alert::condition::RuleGuard::{And, Unless};
use crate::alert::condition::{
    DAY, Expression, HOUR, Limit, MINUTE, Relation, above, all, compare, holds, is, is_positive, only,
};
use crate::alert::example::{Example, constant, ramp};
use crate::alert::rule::AlertSeverity::Critical;
use crate::alert::rule::{AlertRule, ValueFormat};
use crate::alert::threshold::SCRUB_AGE;

const TANK: &[&str] = &["kernel", "tank"];
const DEGRADED: &[&str] = &["kernel", "tank", "DEGRADED"];
const FAULTED: &[&str] = &["kernel", "tank", "FAULTED"];
const SUSPENDED: &[&str] = &["kernel", "tank", "SUSPENDED"];
const UNAVAIL: &[&str] = &["kernel", "tank", "UNAVAIL"];
/// A scrub or a resilver is running.
const SCANNING: Expression =
    Expression::Plus(&Expression::Now(all(&SCRUB_RUNNING)), &Expression::Now(all(&RESILVER_RUNNING)));

pub static RULES: &[AlertRule] = &[
    rule! {
        name: "PoolDegraded",
        wait: MINUTE,
        condition: When(holds(only(&POOL_STATE_NOW, &[is("state", &["DEGRADED"])])), &[]),
        summary: "pool {pool} is degraded",
        meaning: "A vdev of the pool is missing or faulted. The pool works, with less redundancy.",
        action: "`zpool status` (`poolwright pool status`) names the vdev. Replace it, or bring it back with `zpool online`.",
        example: Example::levels(&POOL_STATE_NOW, DEGRADED, 1.0, 0.0),
    },
    rule! {
        name: "PoolFaulted",
        severity: Critical,
        condition: When(holds(only(&POOL_STATE_NOW, &[is("state", &["FAULTED"])])), &[]),
        summary: "pool {pool} is faulted",
        meaning: "Too many vdevs are missing or faulted. The pool does not work.",
        action: "Reconnect the devices, then `zpool clear`. If they are lost, restore a backup.",
        example: Example::levels(&POOL_STATE_NOW, FAULTED, 1.0, 0.0),
    },
    rule! {
        name: "PoolSuspended",
        severity: Critical,
        condition: When(holds(only(&POOL_STATE_NOW, &[is("state", &["SUSPENDED"])])), &[]),
        summary: "pool {pool} is suspended",
        meaning: "I/O to the pool failed, and with `failmode=wait` every program that uses it waits.",
        action: "Reconnect the devices, then `zpool clear`. The writes that wait are then done.",
        example: Example::levels(&POOL_STATE_NOW, SUSPENDED, 1.0, 0.0),
    },
    rule! {
        name: "PoolUnavailable",
        severity: Critical,
        condition: When(holds(only(&POOL_STATE_NOW, &[is("state", &["UNAVAIL"])])), &[]),
        summary: "pool {pool} is unavailable",
        meaning: "The pool cannot be opened: devices are missing, or its metadata is damaged.",
        action: "`zpool status` says which. Reconnect the devices. Read zpool-import(8) on `-F` before you use it: it discards the last transactions.",
        example: Example::levels(&POOL_STATE_NOW, UNAVAIL, 1.0, 0.0),
    },
    rule! {
        name: "PoolDataErrors",
        severity: Critical,
        condition: When(is_positive(Expression::Now(all(&POOL_DATA_ERRORS))), &[]),
        summary: "pool {pool} has {value} damaged blocks or files",
        meaning: "Data is lost: no copy of these blocks is intact.",
        action: "`zpool status -v` names the files. Restore them from a backup, scrub, and find the cause (memory, cables, controller).",
        is_figure: true,
        example: Example::levels(&POOL_DATA_ERRORS, TANK, 3.0, 0.0),
    },
    rule! {
        name: "PoolFileFault",
        severity: Critical,
        condition: When(is_positive(Expression::Now(all(&POOL_FILE_FAULTS))), &[]),
        summary: "{value} files of pool {pool} were removed, replaced or truncated",
        meaning: "The file of a vdev of a user-space pool was removed, replaced, truncated or moved while the pool has it open.",
        action: "`poolwright pool status` says what happened to which file. Do not stop the process that has the pool open before the data is copied.",
        example: Example::levels(&POOL_FILE_FAULTS, &["user", "tank"], 1.0, 0.0),
    },
    rule! {
        name: "PoolSpaceLeaked",
        wait: HOUR,
        condition: When(is_positive(Expression::Now(all(&POOL_LEAKED))), &[]),
        format: ValueFormat::Bytes,
        summary: "pool {pool} has lost {value} because of damaged metadata",
        meaning: "The pool could not free blocks of a destroyed dataset. The space is lost for good; the data is not affected.",
        action: "Look for earlier checksum errors. Only making the pool again regains the space; silence the alert if the loss is small.",
        example: Example::levels(&POOL_LEAKED, TANK, 1048576.0, 0.0),
    },
    rule! {
        name: "PoolExpandable",
        wait: DAY,
        condition: When(is_positive(Expression::Now(all(&POOL_EXPANDABLE))), &[]),
        format: ValueFormat::Bytes,
        summary: "pool {pool} could grow by {value}",
        meaning: "A device is larger than the part of it that the pool uses. This is a remark, not a problem.",
        action: "`zpool online -e POOL DEVICE` uses the space. Silence the alert if the rest is kept on purpose.",
        example: Example::Series {
            fires: &[constant(&POOL_EXPANDABLE, TANK, 1073741824.0)],
            quiet: &[ramp(&POOL_ALLOCATED, TANK, 0.0, 1.0)],
        },
    },
    rule! {
        name: "ScrubOverdue",
        condition: When(
            above(Expression::Age(all(&SCRUB_END)), &SCRUB_AGE),
            &[Unless(holds(all(&SCRUB_RUNNING)))],
        ),
        format: ValueFormat::Duration,
        summary: "the last scrub of pool {pool} finished {value} ago",
        meaning: "Damage to data that no program reads stays undetected, and may affect the second copy too before it is noticed.",
        action: "`zpool scrub POOL` (`poolwright pool scrub`). Debian's package does this monthly (/etc/cron.d/zfsutils-linux).",
        is_figure: true,
        example: Example::Series {
            fires: &[constant(&SCRUB_END, TANK, -4_000_000.0), constant(&SCRUB_RUNNING, TANK, 0.0)],
            quiet: &[constant(&SCRUB_END, TANK, -4_000_000.0), constant(&SCRUB_RUNNING, TANK, 1.0)],
        },
    },
    rule! {
        name: "ScanErrors",
        severity: Critical,
        condition: When(is_positive(Expression::Now(all(&SCAN_ERRORS))), &[]),
        summary: "the last scrub or resilver of pool {pool} found {value} errors that it could not repair",
        meaning: "Blocks are damaged in all copies.",
        action: "`zpool status -v` names the files. Restore them, and scrub again.",
        example: Example::levels(&SCAN_ERRORS, TANK, 1.0, 0.0),
    },
    rule! {
        name: "ScrubCanceled",
        wait: HOUR,
        condition: When(holds(all(&SCRUB_CANCELED)), &[]),
        summary: "the last scrub of pool {pool} was canceled",
        meaning: "The scrub did not examine the whole pool. ZFS keeps only the last scrub, so the time of the last complete one is unknown.",
        action: "Scrub again, at a time with less load.",
        example: Example::levels(&SCRUB_CANCELED, TANK, 1.0, 0.0),
    },
    rule! {
        name: "ScrubPaused",
        wait: DAY,
        condition: When(holds(all(&SCAN_PAUSED)), &[]),
        summary: "the scrub of pool {pool} has been paused for a day",
        meaning: "A paused scrub finds nothing, and `zpool status` does not count it as overdue.",
        action: "`zpool scrub POOL` continues it.",
        example: Example::levels(&SCAN_PAUSED, TANK, 1.0, 0.0),
    },
    rule! {
        name: "ScanStalled",
        wait: 30 * MINUTE,
        condition: When(
            compare(Expression::Change(all(&SCAN_EXAMINED), 30 * MINUTE), Relation::AtMost, Limit::Number(0.0)),
            &[And(is_positive(SCANNING)), Unless(holds(all(&SCAN_PAUSED)))],
        ),
        format: ValueFormat::Bytes,
        summary: "the scrub or resilver of pool {pool} makes no progress",
        meaning: "A scan is running, and has examined nothing for half an hour. A device may hang, or the scan starts again and again.",
        action: "Look at `zpool iostat -v 5` and the kernel's log for a device that does not answer; `zpool events` shows restarts of resilvers.",
        example: Example::Series {
            fires: &[
                constant(&SCAN_EXAMINED, TANK, 1e9),
                constant(&SCRUB_RUNNING, TANK, 0.0),
                constant(&RESILVER_RUNNING, TANK, 1.0),
                constant(&SCAN_PAUSED, TANK, 0.0),
            ],
            quiet: &[
                ramp(&SCAN_EXAMINED, TANK, 1e9, 1e6),
                constant(&SCRUB_RUNNING, TANK, 0.0),
                constant(&RESILVER_RUNNING, TANK, 1.0),
                constant(&SCAN_PAUSED, TANK, 0.0),
            ],
        },
    },
];
