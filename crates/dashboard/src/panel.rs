//! Panels: what a dashboard shows of one or more queries.

use crate::metric::QueryMetric;
use crate::query::{Dimension, Query};

/// The unit in which a panel shows values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PanelUnit {
    /// A number of things.
    Count,
    /// A share; 1 is 100 %.
    Percent,
    /// A factor.
    Multiple,
    /// Bytes, with binary prefixes.
    Bytes,
    /// Bytes per second, with binary prefixes.
    BytesPerSecond,
    /// A duration.
    Seconds,
    /// Operations per second.
    PerSecond,
}

impl PanelUnit {
    /// Grafana's id of the unit.
    pub fn id(self) -> &'static str {
        match self {
            PanelUnit::Count => "short",
            PanelUnit::Percent => "percentunit",
            PanelUnit::Multiple => "suffix: ×",
            PanelUnit::Bytes => "bytes",
            PanelUnit::BytesPerSecond => "binBps",
            PanelUnit::Seconds => "s",
            PanelUnit::PerSecond => "ops",
        }
    }

    /// The dimension that a query must have.
    pub fn dimension(self) -> Dimension {
        let (bytes, seconds) = match self {
            PanelUnit::Count | PanelUnit::Percent | PanelUnit::Multiple => (0, 0),
            PanelUnit::Bytes => (1, 0),
            PanelUnit::BytesPerSecond => (1, -1),
            PanelUnit::Seconds => (0, 1),
            PanelUnit::PerSecond => (0, -1),
        };
        Dimension { bytes, seconds }
    }
}

/// What a panel draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PanelKind {
    /// One number.
    Stat,
    /// Lines over time.
    Graph,
    /// One row for each resource, and one column for each query.
    Table,
    /// Numbers of observations by time and value.
    Heatmap,
    /// States over time.
    StateTimeline,
    /// One bar for each resource.
    Bars,
}

impl PanelKind {
    /// Whether the panel shows the end of the time range only.
    pub fn is_instant(self) -> bool {
        matches!(self, PanelKind::Stat | PanelKind::Table | PanelKind::Bars)
    }

    /// Columns (of 24) and rows of the panel.
    fn size(self) -> (u32, u32) {
        match self {
            PanelKind::Stat => (4, 4),
            PanelKind::Graph | PanelKind::Bars | PanelKind::Heatmap => (12, 9),
            PanelKind::Table => (24, 10),
            PanelKind::StateTimeline => (24, 8),
        }
    }
}

/// The colour of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateColor {
    /// As it should be.
    Good,
    /// Should be looked at.
    Warning,
    /// Needs action.
    Critical,
    /// Neither good nor bad.
    Neutral,
}

impl StateColor {
    /// Grafana's name of the colour.
    pub fn color(self) -> &'static str {
        match self {
            StateColor::Good => "green",
            StateColor::Warning => "orange",
            StateColor::Critical => "red",
            StateColor::Neutral => "blue",
        }
    }
}

/// Where the colour of values changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PanelThresholds {
    /// All values have the same colour.
    Same(StateColor),
    /// Values from the first number on are a warning, from the second on critical.
    Above(f64, f64),
    /// Values below the second number are a warning, below the first critical.
    Below(f64, f64),
    /// Values from this number on are a warning.
    WarningFrom(f64),
    /// Values from this number on are critical.
    CriticalFrom(f64),
    /// Values below this number are a warning.
    WarningBelow(f64),
}

/// A state that a number stands for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CodedState {
    /// The number.
    pub code: u32,
    /// Its name.
    pub name: &'static str,
    /// Its colour.
    pub severity: StateColor,
}

/// One query of a panel.
#[derive(Clone, Debug)]
pub struct PanelQuery {
    /// The query.
    pub query: Query,
    /// The name of a series, with labels as `{{label}}`; in a table the title of the column.
    pub legend: &'static str,
    /// In a table, the unit, the limits and the states of the column.
    pub column: Option<(PanelUnit, PanelThresholds, &'static [CodedState])>,
}

/// A panel.
#[derive(Clone, Debug)]
pub struct Panel {
    /// The title.
    pub title: &'static str,
    /// What it draws.
    pub kind: PanelKind,
    /// An explanation in addition to the meanings of the metrics.
    pub note: &'static str,
    /// The queries.
    pub queries: Vec<PanelQuery>,
    /// The unit of all values; in a table that of columns without one.
    pub unit: PanelUnit,
    /// The colours.
    pub limits: PanelThresholds,
    /// The names of values.
    pub states: &'static [CodedState],
    /// Whether lines are stacked.
    pub is_stacked: bool,
    /// The greatest value of the axis.
    pub max: Option<f64>,
    /// The variable for each value of which the panel is repeated.
    pub repeat: Option<&'static str>,
    /// The dashboard to which series and rows lead, by its uid, and the labels that select there.
    pub leads_to: Option<(&'static str, &'static [&'static str])>,
    /// Columns (of 24) and rows.
    pub size: (u32, u32),
}

impl Panel {
    fn new(kind: PanelKind, title: &'static str, unit: PanelUnit) -> Panel {
        Panel {
            title,
            kind,
            note: "",
            queries: Vec::new(),
            unit,
            limits: PanelThresholds::Same(StateColor::Neutral),
            states: &[],
            is_stacked: false,
            max: None,
            repeat: None,
            leads_to: None,
            size: kind.size(),
        }
    }

    /// A panel with one number.
    pub fn stat(title: &'static str, unit: PanelUnit, query: Query) -> Panel {
        Panel::new(PanelKind::Stat, title, unit).show(query, "")
    }

    /// A panel with lines over time.
    pub fn graph(title: &'static str, unit: PanelUnit) -> Panel {
        Panel::new(PanelKind::Graph, title, unit)
    }

    /// A table.
    pub fn table(title: &'static str) -> Panel {
        Panel::new(PanelKind::Table, title, PanelUnit::Count)
    }

    /// A heat map of the buckets of a histogram; `unit` is that of the bounds.
    pub fn heatmap(title: &'static str, unit: PanelUnit, query: Query) -> Panel {
        Panel::new(PanelKind::Heatmap, title, unit).show(query, "{{le}}")
    }

    /// States over time.
    pub fn timeline(title: &'static str, states: &'static [CodedState]) -> Panel {
        Panel { states, ..Panel::new(PanelKind::StateTimeline, title, PanelUnit::Count) }
    }

    /// One bar for each resource.
    pub fn bars(title: &'static str, unit: PanelUnit) -> Panel {
        Panel::new(PanelKind::Bars, title, unit)
    }

    /// Adds a query.
    pub fn show(mut self, query: Query, legend: &'static str) -> Panel {
        self.queries.push(PanelQuery { query, legend, column: None });
        self
    }

    /// Adds a column to a table.
    pub fn column(self, title: &'static str, unit: PanelUnit, query: Query) -> Panel {
        self.limited_column(title, unit, PanelThresholds::Same(StateColor::Neutral), query)
    }

    /// Adds a column to a table whose values have colours.
    pub fn limited_column(
        mut self,
        title: &'static str,
        unit: PanelUnit,
        limits: PanelThresholds,
        query: Query,
    ) -> Panel {
        self.queries.push(PanelQuery { query, legend: title, column: Some((unit, limits, &[])) });
        self
    }

    /// Adds a column with states to a table.
    pub fn state_column(mut self, title: &'static str, states: &'static [CodedState], query: Query) -> Panel {
        let column = Some((PanelUnit::Count, PanelThresholds::Same(StateColor::Neutral), states));
        self.queries.push(PanelQuery { query, legend: title, column });
        self
    }

    /// Explains the panel.
    pub fn note(self, note: &'static str) -> Panel {
        Panel { note, ..self }
    }

    /// Colours the values.
    pub fn limits(self, limits: PanelThresholds) -> Panel {
        Panel { limits, ..self }
    }

    /// Stacks the lines.
    pub fn stacked(self) -> Panel {
        Panel { is_stacked: true, ..self }
    }

    /// Sets the end of the axis.
    pub fn up_to(self, max: f64) -> Panel {
        Panel { max: Some(max), ..self }
    }

    /// Repeats the panel for each value of a variable.
    pub fn repeated(self, variable: &'static str) -> Panel {
        Panel { repeat: Some(variable), ..self }
    }

    /// Adds a link from each series or row to another dashboard, which selects these labels.
    pub fn leading_to(self, uid: &'static str, labels: &'static [&'static str]) -> Panel {
        Panel { leads_to: Some((uid, labels)), ..self }
    }

    /// Sets columns (of 24) and rows.
    pub fn sized(self, columns: u32, rows: u32) -> Panel {
        Panel { size: (columns, rows), ..self }
    }

    /// The note, and the meaning of each metric, in Markdown.
    pub fn description(&self) -> String {
        let mut metrics: Vec<QueryMetric> = Vec::new();
        for metric in self.queries.iter().flat_map(|shown| shown.query.metrics()) {
            if !metrics.contains(&metric) {
                metrics.push(metric);
            }
        }
        let note = (!self.note.is_empty()).then(|| format!("{}\n", self.note));
        let lines = metrics.into_iter().map(QueryMetric::described);
        note.into_iter().chain(lines).collect::<Vec<_>>().join("\n")
    }
}
