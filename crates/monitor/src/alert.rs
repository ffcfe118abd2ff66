//! Alert rules.
//!
//! [`table`] is the one table of rules. A rule's [`AlertCondition`] is data: [`rule_file`] converts it to PromQL for Prometheus, and
//! [`evaluation`] evaluates it on [`Readings`](crate::Readings) without Prometheus. [`documentation`] writes the page of the documentation,
//! and [`promtool`] the tests for Prometheus's own tool.
//!
//! ```text
//!          ┌─▶ rule_file ─▶ Prometheus, Alertmanager
//! table ───┼─▶ documentation, promtool
//!          └─▶ evaluation ─┬─▶ evaluator ─▶ /api/v1/alerts of `serve`
//!              ▲           └─▶ check ─▶ Nagios
//!              └ history (of the metrics whose increase matters) ◀─ Readings
//! ```

pub mod check;
pub mod condition;
pub mod documentation;
pub mod evaluation;
pub mod evaluator;
pub mod example;
pub mod history;
pub mod promql;
pub mod promtool;
pub mod recording;
pub mod rule;
pub mod rule_file;
pub mod state_file;
pub mod table;
pub mod template;
pub mod threshold;

pub use condition::{AlertCondition, Comparison, Expression};
pub use evaluator::{ApiAlert, ApiAlerts, Evaluator};
pub use history::History;
pub use rule::{AlertRule, AlertSeverity};
pub use threshold::{Threshold, Thresholds};
