//! The exporter and its sources.

use crate::family::{EXPORTER_INFO, EXPORTER_MEMORY, EXPORTER_REJECTED, SOURCE_AGE, SOURCE_READS, SOURCE_UP};
use crate::{FamilyType, MetricFamily, ResourceType, Unit};

use super::rule;
use crate::alert::condition::AlertCondition::{Absent, When};
use crate::alert::condition::RuleGuard::And;
use crate::alert::condition::{
    Comparison, Expression, Limit, MINUTE, Relation, above, all, compare, is, is_positive, only,
};
use crate::alert::example::{Example, constant, ramp};
use crate::alert::rule::AlertSeverity::Critical;
use crate::alert::rule::{AlertRule, Decision, ValueFormat};
use crate::alert::threshold::{EXPORTER_MEMORY as EXPORTER_MEMORY_LIMIT, SOURCE_AGE as SOURCE_AGE_LIMIT};

static TARGET: ResourceType =
    ResourceType { name: "target", labels: &["job", "instance"], help: "A target that Prometheus scrapes." };

/// The metric that Prometheus itself makes for each target.
pub static UP: MetricFamily = MetricFamily {
    name: "up",
    kind: FamilyType::Gauge,
    unit: Unit::None,
    resource: &TARGET,
    help: "Whether the last scrape succeeded.",
};

const STATUS: &[&str] = &["kernel-status", "tank"];
const IS_DOWN: Comparison = compare(Expression::Now(all(&SOURCE_UP)), Relation::Equal, Limit::Number(0.0));

pub static RULES: &[AlertRule] = &[
    rule! {
        name: "SourceDown",
        severity: Critical,
        wait: 5 * MINUTE,
        condition: When(IS_DOWN, &[]),
        summary: "source {source}{pool| of pool } does not answer",
        meaning: "The exporter cannot read the source; its metrics are the last ones. The pool or its owner may hang, and other alerts on it do not fire.",
        action: "`/api/v1/readings` and `poolwright check` say why. Look at the pool with `zpool status`, or at the process that has it open.",
        example: Example::levels(&SOURCE_UP, STATUS, 0.0, 1.0),
    },
    rule! {
        name: "SourceStuck",
        severity: Critical,
        wait: 5 * MINUTE,
        condition: When(
            compare(
                Expression::Increase(all(&SOURCE_READS), 10 * MINUTE),
                Relation::AtMost,
                Limit::Number(0.0),
            ),
            &[And(IS_DOWN)],
        ),
        summary: "no read of source {source}{pool| of pool } has ended within 10 minutes",
        meaning: "A command or a system call does not return: usually a suspended pool, or a device that does not answer.",
        action: "Look for processes in state D (`ps -eo pid,stat,wchan:32,cmd`), and at the kernel's log.",
        example: Example::Series {
            fires: &[constant(&SOURCE_UP, STATUS, 0.0), constant(&SOURCE_READS, STATUS, 7.0)],
            quiet: &[constant(&SOURCE_UP, STATUS, 0.0), ramp(&SOURCE_READS, STATUS, 7.0, 1.0)],
        },
    },
    rule! {
        name: "SourceStale",
        wait: 5 * MINUTE,
        condition: When(above(Expression::Now(all(&SOURCE_AGE)), &SOURCE_AGE_LIMIT), &[]),
        format: ValueFormat::Duration,
        summary: "the readings of source {source}{pool| of pool } are {value} old",
        meaning: "Alerts and graphs of this source show the past.",
        action: "As for SourceDown.",
        example: Example::levels(&SOURCE_AGE, STATUS, 2000.0, 300.0),
    },
    rule! {
        name: "ExporterRejectsConnections",
        condition: When(is_positive(Expression::Increase(all(&EXPORTER_REJECTED), 15 * MINUTE)), &[]),
        summary: "the exporter closed {value} connections within 15 minutes, because too many were open",
        meaning: "More clients than the exporter serves: a client that does not close connections, or an attack.",
        action: "`ss -tnp` shows the clients.",
        example: Example::grows(&EXPORTER_REJECTED, &[], 1.0, 4.0),
    },
    rule! {
        name: "ExporterMemory",
        wait: 15 * MINUTE,
        condition: When(above(Expression::Now(all(&EXPORTER_MEMORY)), &EXPORTER_MEMORY_LIMIT), &[]),
        format: ValueFormat::Bytes,
        summary: "the exporter uses {value} of memory",
        meaning: "It should need far less; a host with very many datasets may need more.",
        action: "Restart it, and report a defect if the memory grows again.",
        example: Example::levels(&EXPORTER_MEMORY, &[], 4e8, 4e7),
    },
    rule! {
        name: "ExporterDown",
        severity: Critical,
        wait: 5 * MINUTE,
        condition: When(
            compare(Expression::Now(only(&UP, &[is("job", &["poolwright"])])), Relation::Equal, Limit::Number(0.0)),
            &[],
        ),
        summary: "Prometheus cannot scrape {instance}",
        meaning: "The exporter or its host does not answer. No other alert on the host can fire.",
        action: "`systemctl status poolwright` on the host; `curl` the address from Prometheus's host.",
        decision: Decision::Prometheus("only Prometheus knows its targets"),
        example: Example::Series {
            fires: &[constant(&UP, &["poolwright", "db1:9968"], 0.0)],
            quiet: &[constant(&UP, &["poolwright", "db1:9968"], 1.0), constant(&UP, &["node", "db1:9100"], 0.0)],
        },
    },
    rule! {
        name: "ExporterAbsent",
        severity: Critical,
        wait: 15 * MINUTE,
        condition: Absent(all(&EXPORTER_INFO)),
        summary: "Prometheus has no metrics of any Poolwright exporter",
        meaning: "No target is configured, or none answers.",
        action: "Check `scrape_configs`, and the page \"Targets\" of Prometheus.",
        decision: Decision::Prometheus("only Prometheus knows its targets"),
        example: Example::Series {
            fires: &[constant(&UP, &["node", "db1:9100"], 1.0)],
            quiet: &[constant(&EXPORTER_INFO, &["0.1.0"], 1.0)],
        },
    },
];
