//! The text of a query.

use std::fmt::Write as _;

use poolwright_monitor::family::{ARC, ARC_ACCESS, ARC_STATE};

use super::{Node, Query, Selector, Window};
use crate::metric::QueryMetric;

/// The label matchers that the variables of a dashboard add to every selector whose metric has the label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope(pub Vec<(&'static str, String)>);

/// How a query is evaluated.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The variables of the dashboard.
    pub scope: &'a Scope,
    /// Whether the query is evaluated once, at the end of the time range.
    pub is_instant: bool,
    /// Whether the values are those at the end of the time range, at every step: means for rates.
    is_at_end: bool,
}

impl<'a> Context<'a> {
    /// The evaluation at each step of a graph, or once.
    pub fn new(scope: &'a Scope, is_instant: bool) -> Context<'a> {
        Context { scope, is_instant, is_at_end: false }
    }
}

impl Query {
    /// The text of the query.
    pub fn text(&self, context: Context) -> String {
        let mut text = String::new();
        self.write(&mut text, context);
        text
    }

    fn write(&self, to: &mut String, context: Context) {
        match &self.node {
            Node::Select(selector) => {
                selector.write(to, context);
                to.push_str(if context.is_at_end { " @ end()" } else { "" });
            }
            Node::OverTime { function, of, window } => {
                let factor = of.metric.factor();
                to.push_str(if factor == 1.0 { "" } else { "(" });
                let _ = write!(to, "{function}(");
                of.write(to, context);
                let range = match window {
                    Window::RateInterval if context.is_at_end => "$__range",
                    Window::RateInterval => "$__rate_interval",
                    Window::Fixed(time) => time,
                };
                let _ = write!(to, "[{range}]{})", if context.is_at_end { " @ end()" } else { "" });
                if factor != 1.0 {
                    let _ = write!(to, " * {factor})");
                }
            }
            Node::Quantile { q, of } => {
                let _ = write!(to, "histogram_quantile({q}, {})", of.text(context));
            }
            Node::Aggregate { operator, by, of } => {
                let by = if by.is_empty() { String::new() } else { format!(" by ({})", by.join(", ")) };
                let _ = write!(to, "{operator}{by} ({})", of.text(context));
            }
            Node::Binary { operator, matching, left, right } => {
                left.write_operand(to, context);
                let _ = write!(to, " {operator}{matching} ");
                right.write_operand(to, context);
            }
            Node::Number(value) => {
                let _ = write!(to, "{value}");
            }
            Node::Time => to.push_str("time()"),
            Node::OrZero(of) => {
                of.write_operand(to, context);
                to.push_str(" or vector(0)");
            }
            Node::Ranked { operator, of } if context.is_instant => {
                let _ = write!(to, "{operator}($top, {})", of.text(context));
            }
            Node::Ranked { operator, of } => {
                of.write_operand(to, context);
                let at_end = of.text(Context { is_at_end: true, ..context });
                let _ = write!(to, " and {operator}($top, {at_end})");
            }
        }
    }

    /// The text, in parentheses if an operator is its outermost element.
    fn write_operand(&self, to: &mut String, context: Context) {
        let is_operation = match &self.node {
            Node::Binary { .. } | Node::OrZero(_) => true,
            Node::Ranked { .. } => !context.is_instant,
            _ => false,
        };
        if is_operation {
            to.push('(');
        }
        self.write(to, context);
        if is_operation {
            to.push(')');
        }
    }
}

impl Selector {
    /// Whether the metric belongs to an ARC: that of the kernel serves all pools, and its label `pool` is empty.
    fn may_lack_pool(&self) -> bool {
        let arcs = [&ARC, &ARC_ACCESS, &ARC_STATE];
        matches!(self.metric, QueryMetric::Own(family) if arcs.iter().any(|arc| std::ptr::eq(*arc, family.resource)))
    }

    fn write(&self, to: &mut String, context: Context) {
        to.push_str(self.metric.name());
        to.push_str(if self.is_bucket { "_bucket" } else { "" });
        let labels: Vec<_> = self.metric.labels().collect();
        let scope = context.scope.0.iter();
        let scope = scope.filter(|(label, _)| self.metric.is_scoped() && labels.contains(label));
        let mut matchers: Vec<String> = scope
            .map(|(label, matcher)| match matcher.strip_prefix("=\"$pool") {
                Some(rest) if self.may_lack_pool() => format!("{label}=~\"$pool|{rest}"),
                _ => format!("{label}{matcher}"),
            })
            .collect();
        let own =
            self.matchers.iter().map(|(label, operator, value)| format!("{label}{operator}\"{value}\""));
        matchers.extend(own);
        if !matchers.is_empty() {
            let _ = write!(to, "{{{}}}", matchers.join(","));
        }
    }
}
