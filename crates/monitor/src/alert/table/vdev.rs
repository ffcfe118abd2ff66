//! States, errors and latencies of vdevs.

use crate::family::*;

use super::rule;
use crate::alert::condition::AlertCondition::When;
use crate::alert::condition::RuleGuard::And;
use crate::alert::condition::{
    Expression, HOUR, MINUTE, Match, above, all, holds, is, is_not, is_positive, only,
};
use crate::alert::example::{Example, ExampleSeries, buckets, constant, ramp};
use crate::alert::recording::DEVICE_P50;
use crate::alert::rule::AlertRule;
use crate::alert::rule::AlertSeverity::Critical;
use crate::alert::threshold::{PEER_FACTOR, SERIOUS_LATENCY};

const SDA: &[&str] = &["kernel", "tank", "sda", "normal"];
const QUEUE_A: &[&str] = &["kernel", "tank", "sda", "normal", "disk_write"];
const QUEUE_B: &[&str] = &["kernel", "tank", "sdb", "normal", "disk_write"];
const QUEUE_LOG: &[&str] = &["kernel", "tank", "nvme0n1", "log", "disk_write"];
const FILE_A: &[&str] = &["user", "tank", "/srv/a.img", "normal"];
const FILE_B: &[&str] = &["user", "tank", "/srv/b.img", "normal"];
const ROOT: &[&str] = &["kernel", "tank", "tank", "root"];
/// States in which a vdev does no I/O.
const GONE: &[&str] = &["FAULTED", "UNAVAIL", "REMOVED"];
const DATA: Match = is("class", &["normal", "special", "dedup"]);
/// The class of the whole pool: its errors are those of its vdevs.
const NOT_ROOT: Match = is_not("class", &["root"]);
/// Mean time of the requests to a file of a user-space pool.
const FILE_TIME: Expression = Expression::Quotient(
    &Expression::Plus(
        &Expression::Rate(all(&VDEV_READ_TIME), 15 * MINUTE),
        &Expression::Rate(all(&VDEV_WRITE_TIME), 15 * MINUTE),
    ),
    &Expression::Plus(
        &Expression::Rate(all(&VDEV_READS), 15 * MINUTE),
        &Expression::Rate(all(&VDEV_WRITES), 15 * MINUTE),
    ),
);
/// Bounds of buckets of the examples, in seconds.
const BOUNDS: &[f64] = &[0.004194304, 0.016777216, 0.067108864, 0.268435456];
const FAST: &[f64] = &[600.0, 0.0, 0.0, 0.0, 0.0];
const SLOW: &[f64] = &[0.0, 0.0, 0.0, 600.0, 0.0];

/// Two files with as many requests, which take so many seconds per minute.
const fn files(seconds_a: f64, seconds_b: f64) -> [ExampleSeries; 8] {
    [
        ramp(&VDEV_READ_TIME, FILE_A, 0.0, seconds_a),
        ramp(&VDEV_WRITE_TIME, FILE_A, 0.0, seconds_a),
        ramp(&VDEV_READS, FILE_A, 0.0, 600.0),
        ramp(&VDEV_WRITES, FILE_A, 0.0, 600.0),
        ramp(&VDEV_READ_TIME, FILE_B, 0.0, seconds_b),
        ramp(&VDEV_WRITE_TIME, FILE_B, 0.0, seconds_b),
        ramp(&VDEV_READS, FILE_B, 0.0, 600.0),
        ramp(&VDEV_WRITES, FILE_B, 0.0, 600.0),
    ]
}

pub static RULES: &[AlertRule] = &[
    rule! {
        name: "VdevFault",
        severity: Critical,
        wait: MINUTE,
        condition: When(holds(only(&VDEV_STATE_NOW, &[is("state", GONE), DATA])), &[]),
        summary: "vdev {vdev} of pool {pool} is {state}",
        meaning: "The pool does not use the vdev. Data that was written since is not on it.",
        action: "Check the device (cable, `smartctl -a`). `zpool replace`, or `zpool online` and `zpool clear` if it is well again.",
        example: Example::Series {
            fires: &[constant(&VDEV_STATE_NOW, &["kernel", "tank", "sda", "normal", "FAULTED"], 1.0)],
            quiet: &[
                constant(&VDEV_STATE_NOW, &["kernel", "tank", "sda", "normal", "FAULTED"], 0.0),
                constant(&VDEV_STATE_NOW, &["kernel", "tank", "sdc", "cache", "FAULTED"], 1.0),
            ],
        },
    },
    rule! {
        name: "VdevDegraded",
        wait: MINUTE,
        condition: When(holds(only(&VDEV_STATE_NOW, &[is("state", &["DEGRADED"]), DATA])), &[]),
        summary: "vdev {vdev} of pool {pool} is degraded",
        meaning: "A group has lost a member, or a device has had so many checksum errors that ZFS reads it only if it has no other copy.",
        action: "`zpool status` shows the member. Replace it.",
        example: Example::levels(&VDEV_STATE_NOW, &["kernel", "tank", "mirror-0", "normal", "DEGRADED"], 1.0, 0.0),
    },
    rule! {
        name: "VdevOffline",
        wait: HOUR,
        condition: When(holds(only(&VDEV_STATE_NOW, &[is("state", &["OFFLINE"])])), &[]),
        summary: "vdev {vdev} of pool {pool} has been offline for an hour",
        meaning: "An administrator took the device offline, and it was not brought back.",
        action: "`zpool online POOL DEVICE`. It is then resilvered.",
        example: Example::levels(&VDEV_STATE_NOW, &["kernel", "tank", "sda", "normal", "OFFLINE"], 1.0, 0.0),
    },
    rule! {
        name: "SlogFault",
        severity: Critical,
        wait: MINUTE,
        condition: When(
            holds(only(
                &VDEV_STATE_NOW,
                &[is("state", &["FAULTED", "UNAVAIL", "REMOVED", "DEGRADED"]), is("class", &["log"])],
            )),
            &[],
        ),
        summary: "log vdev {vdev} of pool {pool} is {state}",
        meaning: "Synchronous writes go to the main pool, and are slower. Without a second log device, a crash now may lose acknowledged writes of the last seconds that are only on this device.",
        action: "Replace the device, or `zpool remove` it.",
        example: Example::levels(&VDEV_STATE_NOW, &["kernel", "tank", "nvme0n1", "log", "REMOVED"], 1.0, 0.0),
    },
    rule! {
        name: "CacheVdevFault",
        wait: 5 * MINUTE,
        condition: When(holds(only(&VDEV_STATE_NOW, &[is("state", GONE), is("class", &["cache"])])), &[]),
        summary: "cache vdev {vdev} of pool {pool} is {state}",
        meaning: "The L2ARC lacks the device. No data is lost; reads come from the pool.",
        action: "Replace the device, or `zpool remove` it.",
        example: Example::levels(&VDEV_STATE_NOW, &["kernel", "tank", "sdc", "cache", "UNAVAIL"], 1.0, 0.0),
    },
    rule! {
        name: "SpareUnavailable",
        wait: 5 * MINUTE,
        condition: When(holds(only(&VDEV_STATE_NOW, &[is("state", GONE), is("class", &["spare"])])), &[]),
        summary: "spare {vdev} of pool {pool} is {state}",
        meaning: "The spare could not replace a device that fails.",
        action: "Replace the spare: `zpool remove`, `zpool add POOL spare DEVICE`.",
        example: Example::Series {
            fires: &[constant(&VDEV_STATE_NOW, &["kernel", "tank", "sdd", "spare", "UNAVAIL"], 1.0)],
            quiet: &[
                constant(&VDEV_STATE_NOW, &["kernel", "tank", "sdd", "spare", "UNAVAIL"], 0.0),
                constant(&VDEV_STATE_NOW, &["kernel", "tank", "sdd", "spare", "INUSE"], 1.0),
            ],
        },
    },
    rule! {
        name: "VdevReadErrors",
        condition: When(is_positive(Expression::Increase(only(&VDEV_READ_ERRORS, &[NOT_ROOT]), HOUR)), &[]),
        summary: "{value} reads from vdev {vdev} of pool {pool} failed within an hour",
        meaning: "The device reported errors. With redundancy, the data was read from elsewhere and repaired.",
        action: "Check the device (`smartctl -a`, the kernel's log). Replace it if errors continue.",
        example: Example::Series {
            fires: &[ramp(&VDEV_READ_ERRORS, SDA, 7.0, 1.0)],
            quiet: &[constant(&VDEV_READ_ERRORS, SDA, 7.0), ramp(&VDEV_READ_ERRORS, ROOT, 7.0, 1.0)],
        },
    },
    rule! {
        name: "VdevWriteErrors",
        condition: When(is_positive(Expression::Increase(only(&VDEV_WRITE_ERRORS, &[NOT_ROOT]), HOUR)), &[]),
        summary: "{value} writes to vdev {vdev} of pool {pool} failed within an hour",
        meaning: "The device did not accept data. OpenZFS faults a device whose errors continue.",
        action: "Check the device and its connection. Replace it if errors continue.",
        example: Example::grows(&VDEV_WRITE_ERRORS, SDA, 1.0, 2.0),
    },
    rule! {
        name: "VdevChecksumErrors",
        condition: When(is_positive(Expression::Increase(only(&VDEV_CHECKSUM_ERRORS, &[NOT_ROOT]), HOUR)), &[]),
        summary: "{value} blocks with a wrong checksum on vdev {vdev} of pool {pool} within an hour",
        meaning: "The device returned other data than was written, without an error. With redundancy, it was repaired.",
        action: "Suspect cables, controller and memory, above all if several devices are affected. Scrub, and see whether the count grows.",
        example: Example::grows(&VDEV_CHECKSUM_ERRORS, SDA, 2.0, 12.0),
    },
    rule! {
        name: "VdevSlowRequests",
        condition: When(is_positive(Expression::Increase(only(&VDEV_SLOW_IOS, &[NOT_ROOT]), HOUR)), &[]),
        summary: "{value} requests to vdev {vdev} of pool {pool} took longer than 30 s within an hour",
        meaning: "The device exceeded `zio_slow_io_ms`. It may retry reads internally, or hang.",
        action: "Check the device (`smartctl -a`), and whether a controller resets it (the kernel's log).",
        example: Example::grows(&VDEV_SLOW_IOS, SDA, 1.0, 5.0),
    },
    rule! {
        name: "VdevSlowAmongPeers",
        wait: 15 * MINUTE,
        condition: When(
            above(Expression::PeerRatio(&Expression::Recorded(&DEVICE_P50), "vdev"), &PEER_FACTOR),
            &[And(above(Expression::Recorded(&DEVICE_P50), &SERIOUS_LATENCY))],
        ),
        summary: "vdev {vdev} of pool {pool} takes {value} times the time of its peers ({queue})",
        meaning: "The median time of its requests is far above the mean of the other vdevs of its class in the pool. A group is as slow as its slowest member.",
        action: "Check the device (`smartctl -a`, temperature, firmware), its place in the enclosure, and its load by others. Replace it if nothing helps.",
        example: Example::Series {
            fires: &[
                buckets(&VDEV_LATENCY, QUEUE_A, BOUNDS, SLOW),
                buckets(&VDEV_LATENCY, QUEUE_B, BOUNDS, FAST),
                buckets(&VDEV_LATENCY, QUEUE_LOG, BOUNDS, SLOW),
            ],
            quiet: &[
                buckets(&VDEV_LATENCY, QUEUE_A, BOUNDS, SLOW),
                buckets(&VDEV_LATENCY, QUEUE_B, BOUNDS, SLOW),
                buckets(&VDEV_LATENCY, QUEUE_LOG, BOUNDS, FAST),
            ],
        },
    },
    rule! {
        name: "VdevFileSlowAmongPeers",
        wait: 15 * MINUTE,
        condition: When(
            above(Expression::PeerRatio(&FILE_TIME, "vdev"), &PEER_FACTOR),
            &[And(above(FILE_TIME, &SERIOUS_LATENCY))],
        ),
        summary: "file {vdev} of pool {pool} takes {value} times the time of its peers",
        meaning: "The mean time of its requests is far above that of the other files of the user-space pool. A group is as slow as its slowest member.",
        action: "Look at the device that holds the file (`iostat -x`), and what else uses it. Move the file: `poolwright pool status` shows its path.",
        example: Example::Series {
            fires: &files(60.0, 3.0),
            quiet: &files(3.0, 0.3),
        },
    },
    rule! {
        name: "EventsDropped",
        condition: When(is_positive(Expression::Increase(all(&EVENTS_DROPPED), HOUR)), &[]),
        summary: "the kernel module dropped {value} error reports within an hour",
        meaning: "More errors happened than the module's log holds (`zfs_zevent_len_max`), so that the event daemon may not have seen some.",
        action: "Find the vdev whose errors increase. Raise `zfs_zevent_len_max` if this happens often.",
        example: Example::grows(&EVENTS_DROPPED, &["kernel"], 1.0, 3.0),
    },
];
