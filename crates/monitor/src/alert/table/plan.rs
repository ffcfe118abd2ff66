//! The present state compared with a plan.

use poolwright_plan::MetricName;

use crate::family::*;

use super::rule;
use crate::alert::condition::AlertCondition::When;
use crate::alert::condition::RuleGuard::And;
use crate::alert::condition::{
    Comparison, Expression, HOUR, Limit, MINUTE, Match, Relation, above, all, below, compare, is, is_not,
    is_positive, only,
};
use crate::alert::example::{Example, constant};
use crate::alert::rule::{AlertRule, ValueFormat};
use crate::alert::threshold::{BLOCK_SIZES, PLAN_AGE, REQUEST_SIZE_FACTOR, REQUEST_SIZE_SHARE};

const ROLE: &[&str] = &["plan.json", "data", "/var/lib/mysql", "tank/db"];
const SPACE: &[&str] = &["plan.json", "data", "/var/lib/mysql", "tank/db", MetricName::SpaceRatio.name()];
const WRITES: &[&str] = &["plan.json", "data", "/var/lib/mysql", "tank/db", "mean_write_bytes"];
const RECORDSIZE: &[&str] = &["plan.json", "data", "/var/lib/mysql", "tank/db", "recordsize", "16K", "128K"];
const SIZES: Match = is("metric", &["mean_read_bytes", "mean_write_bytes"]);
/// Size of present requests in parts of those that were recorded.
const SIZE_CHANGE: Expression = Expression::Quotient(
    &Expression::Now(only(&PROMISE_PRESENT, &[SIZES])),
    &Expression::Now(all(&PROMISE_VALUE)),
);
/// There are requests at all.
const HAS_REQUESTS: Comparison = is_positive(Expression::Now(all(&PROMISE_PRESENT)));

pub static RULES: &[AlertRule] = &[
    rule! {
        name: "PlanPropertyDrifted",
        wait: 15 * MINUTE,
        condition: When(
            compare(
                Expression::Now(only(&PLAN_PROPERTY_KEPT, &[is_not("dataset", &[""])])),
                Relation::Equal,
                Limit::Number(0.0),
            ),
            &[],
        ),
        summary: "{property} of dataset {dataset} is {present} instead of {planned}",
        meaning: "The property was changed after the plan was applied, or the plan was not applied.",
        action: "Set the planned value again, or make a new plan with `poolwright tune`.",
        example: Example::levels(&PLAN_PROPERTY_KEPT, RECORDSIZE, 0.0, 1.0),
    },
    rule! {
        name: "PlanBroken",
        condition: When(compare(Expression::Now(all(&PLAN_BROKEN)), Relation::Equal, Limit::Number(1.0)), &[]),
        summary: "plan {plan} does not keep what it promised",
        meaning: "`poolwright verify` has measured the database in operation: a figure of the plan's goal is not better beyond noise, or worse than promised.",
        action: "`poolwright verify` shows the figures; `poolwright undo` restores the previous state.",
        example: Example::levels(&PLAN_BROKEN, &["plan.json"], 1.0, 0.0),
    },
    rule! {
        name: "PlanSpaceNotKept",
        wait: HOUR,
        condition: When(
            compare(
                Expression::Now(only(&PROMISE_PRESENT, &[is("metric", &[MetricName::SpaceRatio.name()])])),
                Relation::Below,
                Limit::Expression(&Expression::Now(all(&PROMISE_LOW))),
            ),
            &[],
        ),
        summary: "the {role} files in {path} have {value} bytes per allocated byte, less than the plan's interval allows",
        meaning: "The files take more space than the plan promised: the data has changed, or files were not written again since the properties were set.",
        action: "See PlanFilesOfOtherBlockSize first. Then `poolwright estimate` on the present files.",
        example: Example::levels(&PROMISE_PRESENT, SPACE, 1.5, 2.5).with(&[constant(&PROMISE_LOW, SPACE, 1.9)]),
    },
    rule! {
        name: "PlanRequestsLarger",
        wait: HOUR,
        condition: When(above(SIZE_CHANGE, &REQUEST_SIZE_FACTOR), &[]),
        summary: "requests to the {role} files in {path} are {value} times as large as in the recording ({metric})",
        meaning: "The load differs from the one for which the plan was made.",
        action: "Record and tune again: `poolwright tune`.",
        example: Example::levels(&PROMISE_PRESENT, WRITES, 65536.0, 17000.0).with(&[constant(&PROMISE_VALUE, WRITES, 16384.0)]),
    },
    rule! {
        name: "PlanRequestsSmaller",
        wait: HOUR,
        condition: When(below(SIZE_CHANGE, &REQUEST_SIZE_SHARE), &[And(HAS_REQUESTS)]),
        format: ValueFormat::Percentage,
        summary: "requests to the {role} files in {path} are {value} of the size in the recording ({metric})",
        meaning: "The load differs from the one for which the plan was made. Smaller writes than the record are expensive.",
        action: "Record and tune again: `poolwright tune`.",
        example: Example::levels(&PROMISE_PRESENT, WRITES, 4096.0, 0.0).with(&[constant(&PROMISE_VALUE, WRITES, 16384.0)]),
    },
    rule! {
        name: "PlanFilesOfOtherBlockSize",
        wait: HOUR,
        condition: When(
            above(
                Expression::Quotient(&Expression::Now(all(&PLAN_FILES_OTHER_SIZE)), &Expression::Now(all(&PLAN_FILES))),
                &BLOCK_SIZES,
            ),
            &[],
        ),
        format: ValueFormat::Percentage,
        summary: "{value} of the {role} files in {path} do not have the block size of dataset {dataset}",
        meaning: "A file keeps the block size with which it was first written. These files do not have what the plan measured.",
        action: "Write them again: dump and restore, `OPTIMIZE TABLE`, or copy them while the database is stopped.",
        example: Example::levels(&PLAN_FILES_OTHER_SIZE, ROLE, 5.0, 0.0).with(&[constant(&PLAN_FILES, ROLE, 10.0)]),
    },
    rule! {
        name: "PlanOld",
        condition: When(above(Expression::Age(all(&PLAN_CREATED)), &PLAN_AGE), &[]),
        format: ValueFormat::Duration,
        summary: "plan {plan} is {value} old",
        meaning: "Data and load change; the plan's measurements may no longer hold.",
        action: "Repeat the run of `poolwright tune`; it says whether it still recommends the same.",
        example: Example::levels(&PLAN_CREATED, &["plan.json"], -20_000_000.0, -2_000_000.0),
    },
];
