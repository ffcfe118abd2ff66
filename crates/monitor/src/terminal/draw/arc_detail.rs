//! Draws one ARC in detail: its size against target and maximum, its states and its history.

use crate::family::{ARC_MAX, ARC_SIZE, ARC_TARGET};
use poolwright_report::Unit;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::Line;
use ratatui::widgets::{RenderDirection, Sparkline, SparklineBar};

use crate::terminal::rows;
use crate::terminal::sample::{MonitorSample, SampledResource};
use crate::terminal::state::{ArcPoint, ScreenState};
use crate::terminal::tab::arc;

/// Width of the names and sizes beside a bar.
const LABELS: u16 = 20;
/// Most columns of a bar.
const MAX_BAR: u16 = 50;

/// Draws the ARC.
pub fn draw(
    frame: &mut Frame,
    area: Rect,
    sample: &MonitorSample,
    one: &SampledResource,
    state: &ScreenState,
) {
    let bars = bars(sample, one);
    let height = u16::try_from(bars.len()).unwrap_or(u16::MAX);
    // The history has at least a third of the area.
    let [top, _, below] = Layout::vertical([
        Constraint::Length(height.min(area.height * 2 / 3)),
        Constraint::Length(1),
        Constraint::Fill(1),
    ])
    .areas(area);
    let largest = bars.iter().map(|(_, bytes)| *bytes).fold(0.0, f64::max);
    let longest = MAX_BAR.min(top.width.saturating_sub(LABELS));
    for (y, (label, bytes)) in (0..top.height).zip(&bars) {
        let filled = (rows::ratio(Some(*bytes), Some(largest)).unwrap_or(0.0) * f64::from(longest)).round();
        let text = format!("{label:<12} {:>6} {}", Unit::Bytes.format(*bytes), "█".repeat(filled as usize));
        frame.render_widget(Line::from(text), Rect { y: top.y + y, height: 1, ..top });
    }
    history(frame, below, one, state);
}

/// Sizes to compare: of the ARC, then of its states.
fn bars<'a>(sample: &'a MonitorSample, one: &SampledResource) -> Vec<(&'a str, f64)> {
    let own = [("size", &ARC_SIZE), ("target", &ARC_TARGET), ("maximum", &ARC_MAX)];
    let own = own.into_iter().filter_map(|(label, family)| Some((label, one.value(family)?)));
    own.chain(arc::states(sample, one)).collect()
}

/// Draws the size and the hit ratio over time, the present on the right.
fn history(frame: &mut Frame, area: Rect, one: &SampledResource, state: &ScreenState) {
    // Two charts need two lines each.
    let lower = if area.height < 4 { 0 } else { area.height / 2 };
    let [size, hits] = Layout::vertical([Constraint::Fill(1), Constraint::Length(lower)]).areas(area);
    let points = state.history.last(one, usize::from(area.width));
    let largest = points.iter().filter_map(|point| point.size).fold(0.0, f64::max);
    let ratio = points.last().and_then(|point| point.hit_ratio);
    let seconds = state.every.as_secs_f64() * points.len().saturating_sub(1) as f64;
    let time = poolwright_report::text::age(seconds.round() as u64);
    let title = format!("size in the last {time}, at most {}", Unit::Bytes.format(largest));
    chart(frame, size, &title, largest, &points, |point| point.size);
    let title = format!("hits in the last {time}, now {}", rows::share(ratio).text);
    chart(frame, hits, &title, 1.0, &points, |point| point.hit_ratio);
}

/// Draws one value of the points below a title; `full` is the value of a full column.
fn chart(
    frame: &mut Frame,
    area: Rect,
    title: &str,
    full: f64,
    points: &[ArcPoint],
    value: impl Fn(&ArcPoint) -> Option<f64>,
) {
    const STEPS: f64 = 1000.0;
    if area.height < 2 {
        return;
    }
    frame.render_widget(Line::from(title.to_owned()), Rect { height: 1, ..area });
    let bar = |point: &ArcPoint| {
        let part = value(point).and_then(|value| rows::ratio(Some(value), Some(full)));
        SparklineBar::from(part.map(|part| (part * STEPS).round() as u64))
    };
    let bars: Vec<SparklineBar> = points.iter().rev().map(bar).collect();
    let line = Sparkline::default()
        .data(bars)
        .max(STEPS as u64)
        .direction(RenderDirection::RightToLeft)
        .absent_value_symbol("·");
    frame.render_widget(line, Rect { y: area.y + 1, height: area.height - 1, ..area });
}
