//! The table of alert rules.

mod arc;
mod backup;
mod exporter;
mod plan;
mod pool;
mod space;
mod vdev;
mod writes;

pub use exporter::UP;

use crate::alert::rule::AlertRule;

/// Rules about one subject.
#[derive(Debug)]
pub struct Group {
    /// The name in the rule file.
    pub name: &'static str,
    /// The title in the documentation.
    pub title: &'static str,
    /// The rules.
    pub rules: &'static [AlertRule],
}

/// All rules.
pub static GROUPS: &[Group] = &[
    Group { name: "pool", title: "Pools", rules: pool::RULES },
    Group { name: "vdev", title: "Vdevs", rules: vdev::RULES },
    Group { name: "space", title: "Space and snapshots", rules: space::RULES },
    Group { name: "arc", title: "ARC and L2ARC", rules: arc::RULES },
    Group { name: "writes", title: "Writes", rules: writes::RULES },
    Group { name: "plan", title: "The plan", rules: plan::RULES },
    Group { name: "backup", title: "Backups", rules: backup::RULES },
    Group { name: "exporter", title: "The exporter", rules: exporter::RULES },
];

/// All rules, in the order of the documentation.
pub fn rules() -> impl Iterator<Item = &'static AlertRule> {
    GROUPS.iter().flat_map(|group| group.rules)
}

/// The defaults of a rule: every program can decide it, and its value is a number that `check` prints only if the rule is named.
macro_rules! rule {
    ($($field:ident : $value:expr),+ $(,)?) => {
        $crate::alert::rule::AlertRule { $($field: $value,)+ ..$crate::alert::table::DEFAULT }
    };
}
use rule;

/// The fields that [`rule!`] does not set.
const DEFAULT: AlertRule = AlertRule {
    name: "",
    severity: crate::alert::rule::AlertSeverity::Warning,
    wait: 0,
    condition: crate::alert::condition::AlertCondition::Absent(crate::alert::condition::all(&UP)),
    format: crate::alert::rule::ValueFormat::Number,
    summary: "",
    meaning: "",
    action: "",
    decision: crate::alert::rule::Decision::Anywhere,
    is_figure: false,
    example: crate::alert::example::Example::Series { fires: &[], quiet: &[] },
};
