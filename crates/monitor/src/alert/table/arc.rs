//! The ARC and the L2ARC.

use crate::family::{
    self, ARC_ACCESSES, ARC_DIRECT_RECLAIMS, ARC_MAX, ARC_NO_GROW, ARC_SIZE, ARC_TARGET, ARC_THROTTLED,
    HOST_MEMORY, HOST_MEMORY_AVAILABLE, L2ARC_ERRORS, L2ARC_MISSES,
};

use super::rule;
use crate::alert::condition::AlertCondition::When;
use crate::alert::condition::RuleGuard::And;
use crate::alert::condition::{Expression, HOUR, MINUTE, above, all, below, holds, is, is_positive, only};
use crate::alert::example::{Example, ExampleSeries, constant, ramp};
use crate::alert::recording::{DEMAND_ACCESS_RATE, DEMAND_HITS, DEMAND_MISS_RATE};
use crate::alert::rule::{AlertRule, ValueFormat};
use crate::alert::threshold::{
    ARC_FILLED, ARC_HITS, ARC_MISSES, ARC_RECLAIMS, ARC_SHARE, ARC_TARGET_SHARE, BUSY_ACCESSES,
    L2ARC_HEADERS, L2ARC_HITS,
};

const ARC_LABELS: &[&str] = &["kernel", ""];
const HIT: &[&str] = &["kernel", "", "demand_data", "hit"];
const MISS: &[&str] = &["kernel", "", "demand_data", "miss"];
const GIB: f64 = 1_073_741_824.0;

/// Demand accesses: so many hits and misses per minute.
const fn accesses(hits: f64, misses: f64) -> [ExampleSeries; 2] {
    [ramp(&ARC_ACCESSES, HIT, 0.0, hits), ramp(&ARC_ACCESSES, MISS, 0.0, misses)]
}

/// An ARC that is a quarter full: so many misses per minute.
const fn below_target(misses: f64) -> [ExampleSeries; 4] {
    let [hits, misses] = accesses(60_000.0, misses);
    [constant(&ARC_SIZE, ARC_LABELS, 2.0 * GIB), constant(&ARC_TARGET, ARC_LABELS, 8.0 * GIB), hits, misses]
}

pub static RULES: &[AlertRule] = &[
    rule! {
        name: "ArcBelowTarget",
        wait: 30 * MINUTE,
        condition: When(
            below(Expression::Quotient(&Expression::Now(all(&ARC_SIZE)), &Expression::Now(all(&ARC_TARGET))), &ARC_FILLED),
            &[And(above(Expression::Recorded(&DEMAND_MISS_RATE), &BUSY_ACCESSES))],
        ),
        format: ValueFormat::Percentage,
        summary: "the ARC{pool| of pool } has only {value} of its target size",
        meaning: "Programs miss blocks in the ARC, which nevertheless does not fill to its target: evictions are faster than insertions, or the blocks that are read are not cached.",
        action: "Check `primarycache` and `arc_no_grow`; watch `arcstat 1`. docs/arc.md explains the sizes.",
        example: Example::Series { fires: &below_target(120_000.0), quiet: &below_target(120.0) },
    },
    rule! {
        name: "ArcShrunk",
        wait: HOUR,
        condition: When(
            below(
                Expression::Quotient(
                    &Expression::Now(only(&ARC_TARGET, &[is("engine", &["kernel"])])),
                    &Expression::Now(all(&ARC_MAX)),
                ),
                &ARC_TARGET_SHARE,
            ),
            &[And(above(Expression::Recorded(&DEMAND_MISS_RATE), &BUSY_ACCESSES))],
        ),
        format: ValueFormat::Percentage,
        summary: "the ARC's target is only {value} of its maximum",
        meaning: "Other programs took the memory, and programs now miss blocks.",
        action: "Give the database less memory or the host more, or lower `zfs_arc_max` to what is really free. `poolwright mrc` shows what each size would give.",
        example: Example::levels(&ARC_TARGET, ARC_LABELS, 2.0 * GIB, 7.0 * GIB)
            .with(&[constant(&ARC_MAX, ARC_LABELS, 8.0 * GIB), accesses(60_000.0, 120_000.0)[0], accesses(60_000.0, 120_000.0)[1]]),
    },
    rule! {
        name: "ArcCannotGrow",
        wait: 15 * MINUTE,
        condition: When(holds(all(&ARC_NO_GROW)), &[]),
        summary: "the ARC is not allowed to grow",
        meaning: "The host is short of memory (`arc_no_grow`), so that the ARC only shrinks.",
        action: "Find the program that uses the memory. Lower the buffer pool of the database or `zfs_arc_max`, so that both fit.",
        example: Example::levels(&ARC_NO_GROW, ARC_LABELS, 1.0, 0.0),
    },
    rule! {
        name: "ArcMemoryShort",
        wait: 15 * MINUTE,
        condition: When(
            below(
                Expression::Quotient(
                    &Expression::Plus(
                        &Expression::Now(only(&ARC_SIZE, &[is("engine", &["kernel"])])),
                        &Expression::Now(all(&HOST_MEMORY_AVAILABLE)),
                    ),
                    &Expression::Now(all(&HOST_MEMORY)),
                ),
                &ARC_SHARE,
            ),
            &[],
        ),
        format: ValueFormat::Percentage,
        summary: "the ARC and free memory together are only {value} of the host's memory",
        meaning: "The database and other programs hold nearly all memory. The ARC cannot serve reads, and the kernel may kill a program.",
        action: "Lower the buffer pool or the number of connections of the database, or add memory.",
        is_figure: true,
        example: Example::levels(&ARC_SIZE, ARC_LABELS, GIB, 8.0 * GIB)
            .with(&[constant(&HOST_MEMORY_AVAILABLE, &[], GIB), constant(&HOST_MEMORY, &[], 64.0 * GIB)]),
    },
    rule! {
        name: "ArcReclaimed",
        wait: 15 * MINUTE,
        condition: When(above(Expression::Rate(all(&ARC_DIRECT_RECLAIMS), 15 * MINUTE), &ARC_RECLAIMS), &[]),
        summary: "the kernel takes memory from the ARC {value} times per second",
        meaning: "Programs wait for memory that the ARC must give back at once (direct reclaim).",
        action: "Lower `zfs_arc_max`, so that the memory is free before programs ask for it.",
        example: Example::rates(&ARC_DIRECT_RECLAIMS, ARC_LABELS, 600.0, 6.0),
    },
    rule! {
        name: "ArcThrottlesWriters",
        condition: When(is_positive(Expression::Increase(all(&ARC_THROTTLED), 15 * MINUTE)), &[]),
        summary: "writers had to wait for memory {value} times within 15 minutes",
        meaning: "Memory was so short that OpenZFS delayed writes (`memory_throttle_count`).",
        action: "See ArcMemoryShort.",
        example: Example::grows(&ARC_THROTTLED, ARC_LABELS, 1.0, 17.0),
    },
    rule! {
        name: "ArcHitsLow",
        wait: 30 * MINUTE,
        condition: When(
            below(Expression::Recorded(&DEMAND_HITS), &ARC_HITS),
            &[And(above(Expression::Recorded(&DEMAND_ACCESS_RATE), &BUSY_ACCESSES))],
        ),
        format: ValueFormat::Percentage,
        summary: "only {value} of the demand accesses hit the ARC{pool| of pool }",
        meaning: "The working set does not fit, or a scan replaces it.",
        action: "Compare with earlier weeks. `poolwright mrc` on a recording shows how much memory would help, and which datasets should not be cached.",
        is_figure: true,
        example: Example::Series {
            fires: &accesses(60_000.0, 120_000.0),
            quiet: &accesses(120_000.0, 6_000.0),
        },
    },
    rule! {
        name: "ArcDemandMisses",
        wait: 15 * MINUTE,
        condition: When(above(Expression::Recorded(&DEMAND_MISS_RATE), &ARC_MISSES), &[]),
        summary: "programs wait for {value} reads per second that miss the ARC{pool| of pool }",
        meaning: "Each demand miss is a read from a vdev that a program waits for.",
        action: "If the vdevs cannot answer so many, give the ARC more memory (`poolwright mrc` says how much helps), or reduce the load.",
        is_figure: true,
        example: Example::Series {
            fires: &accesses(6_000_000.0, 600_000.0),
            quiet: &accesses(6_000_000.0, 60_000.0),
        },
    },
    rule! {
        name: "L2arcUseless",
        wait: HOUR,
        condition: When(
            below(
                Expression::Quotient(
                    &Expression::Rate(all(&family::L2ARC_HITS), HOUR),
                    &Expression::Plus(&Expression::Rate(all(&family::L2ARC_HITS), HOUR), &Expression::Rate(all(&L2ARC_MISSES), HOUR)),
                ),
                &L2ARC_HITS,
            ),
            &[And(above(
                Expression::Quotient(&Expression::Now(all(&family::L2ARC_HEADERS)), &Expression::Now(all(&ARC_SIZE))),
                &L2ARC_HEADERS,
            ))],
        ),
        format: ValueFormat::Percentage,
        summary: "the L2ARC answers only {value} of the reads that reach it",
        meaning: "The cache vdevs hardly help, and their headers take memory from the ARC, which would.",
        action: "`zpool remove POOL DEVICE`. The memory of the headers returns to the ARC.",
        example: Example::Series {
            fires: &[
                ramp(&family::L2ARC_HITS, ARC_LABELS, 0.0, 60.0),
                ramp(&L2ARC_MISSES, ARC_LABELS, 0.0, 6_000.0),
                constant(&family::L2ARC_HEADERS, ARC_LABELS, GIB),
                constant(&ARC_SIZE, ARC_LABELS, 8.0 * GIB),
            ],
            quiet: &[
                ramp(&family::L2ARC_HITS, ARC_LABELS, 0.0, 3_000.0),
                ramp(&L2ARC_MISSES, ARC_LABELS, 0.0, 6_000.0),
                constant(&family::L2ARC_HEADERS, ARC_LABELS, GIB),
                constant(&ARC_SIZE, ARC_LABELS, 8.0 * GIB),
            ],
        },
    },
    rule! {
        name: "L2arcErrors",
        condition: When(is_positive(Expression::Increase(all(&L2ARC_ERRORS), HOUR)), &[]),
        summary: "{value} reads from cache vdevs failed within an hour",
        meaning: "A cache vdev returns errors or damaged blocks. The data was read from the pool instead.",
        action: "`zpool status` shows the device. Remove or replace it.",
        example: Example::grows(&L2ARC_ERRORS, ARC_LABELS, 1.0, 4.0),
    },
];
