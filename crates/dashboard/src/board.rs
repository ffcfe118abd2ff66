//! Dashboards: variables, and rows of panels.

use poolwright_monitor::MetricFamily;

use crate::metric::{ForeignMetric, QueryMetric};
use crate::panel::Panel;
use crate::query::Scope;

/// The tag of all dashboards, by which they link each other.
pub const TAG: &str = "poolwright";

/// Where the values of a variable come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum VariableValues {
    /// All data sources of Prometheus's type.
    Datasource,
    /// The values of a label of a metric.
    Label {
        /// The metric.
        metric: QueryMetric,
        /// The label.
        label: &'static str,
        /// Whether several values, or all, can be chosen.
        is_multiple: bool,
    },
    /// Fixed values; the first is the default.
    List(&'static [&'static str]),
    /// A regular expression that the user enters.
    Pattern,
}

/// A variable at the top of a dashboard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Variable {
    /// The name in queries.
    pub name: &'static str,
    /// The name that the dashboard shows.
    pub title: &'static str,
    /// The explanation.
    pub help: &'static str,
    /// Its values.
    pub choice: VariableValues,
    /// The label that the variable selects in all metrics of Poolwright.
    pub scope: Option<&'static str>,
}

impl Variable {
    /// A variable of the values of a label, which selects them in all metrics of Poolwright; several can be chosen.
    pub const fn label(
        title: &'static str,
        metric: &'static MetricFamily,
        label: &'static str,
        help: &'static str,
    ) -> Variable {
        let choice = VariableValues::Label { metric: QueryMetric::Own(metric), label, is_multiple: true };
        Variable { name: label, title, help, choice, scope: Some(label) }
    }

    /// As [`Variable::label`], but one value is chosen.
    pub const fn one(
        title: &'static str,
        metric: &'static MetricFamily,
        label: &'static str,
        help: &'static str,
    ) -> Variable {
        let choice = VariableValues::Label { metric: QueryMetric::Own(metric), label, is_multiple: false };
        Variable { name: label, title, help, choice, scope: Some(label) }
    }

    /// A variable of the values of a label of another exporter's metric.
    pub const fn foreign(
        name: &'static str,
        title: &'static str,
        metric: &'static ForeignMetric,
        label: &'static str,
        is_multiple: bool,
        help: &'static str,
    ) -> Variable {
        let choice = VariableValues::Label { metric: QueryMetric::Foreign(metric), label, is_multiple };
        Variable { name, title, help, choice, scope: None }
    }

    /// A regular expression for a label, for labels with too many values for a list.
    pub const fn pattern(title: &'static str, label: &'static str, help: &'static str) -> Variable {
        Variable { name: label, title, help, choice: VariableValues::Pattern, scope: Some(label) }
    }

    /// A list of fixed values, which queries name.
    pub const fn list(
        name: &'static str,
        title: &'static str,
        values: &'static [&'static str],
        help: &'static str,
    ) -> Variable {
        Variable { name, title, help, choice: VariableValues::List(values), scope: None }
    }

    /// The matcher that selects the chosen values. Grafana escapes a single value for `=`, and several for `=~`.
    fn matcher(&self) -> String {
        match self.choice {
            VariableValues::Label { is_multiple: false, .. } => format!("=\"${}\"", self.name),
            _ => format!("=~\"${}\"", self.name),
        }
    }
}

/// A row of panels, with a heading.
#[derive(Clone, Debug)]
pub struct PanelRow {
    /// The heading.
    pub title: &'static str,
    /// The panels.
    pub panels: Vec<Panel>,
}

/// A dashboard.
#[derive(Clone, Debug)]
pub struct Board {
    /// The id in Grafana, which never changes. The file has the same name.
    pub uid: &'static str,
    /// The title.
    pub title: &'static str,
    /// The question that it answers.
    pub help: &'static str,
    /// The variables, after that of the data source.
    pub variables: Vec<Variable>,
    /// The rows.
    pub rows: Vec<PanelRow>,
}

impl Board {
    /// The matchers of the first `count` variables.
    pub fn scope(&self, count: usize) -> Scope {
        let scoped = self.variables.iter().take(count);
        Scope(scoped.filter_map(|variable| Some((variable.scope?, variable.matcher()))).collect())
    }

    /// All panels.
    pub fn panels(&self) -> impl Iterator<Item = &Panel> {
        self.rows.iter().flat_map(|row| &row.panels)
    }
}
