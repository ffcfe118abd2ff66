//! Grafana dashboards, made from the table of metrics.
//!
//! [`boards`] is the definition: dashboards with variables and rows of panels, whose queries are built from the metrics of
//! `poolwright-monitor`. [`files`] are the JSON files of `packaging/grafana`.
//!
//! ```text
//! definition ─▶ Board ─▶ PanelRow ─▶ Panel ─▶ Query ─▶ json ─▶ packaging/grafana/*.json
//! ```

pub mod board;
mod definition;
mod json;
pub mod metric;
pub mod panel;
pub mod query;

pub use board::{Board, PanelRow, Variable, VariableValues};
pub use definition::boards;
pub use metric::{FOREIGN, ForeignMetric, QueryMetric};
pub use panel::{Panel, PanelKind, PanelUnit};
pub use query::{Context, Query, Scope};

/// The name and the text of the file of each dashboard.
pub fn files() -> Vec<(String, String)> {
    let text = |board: &Board| format!("{:#}\n", json::dashboard(board));
    boards().iter().map(|board| (format!("{}.json", board.uid), text(board))).collect()
}
