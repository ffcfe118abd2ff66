//! Draws the state of the screen.

mod arc_detail;
mod table;

use std::time::Instant;

use poolwright_report::text::age;
use poolwright_report::{Tone, Unit};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

use crate::terminal::keys::HELP;
use crate::terminal::rows::Rows;
use crate::terminal::sample::MonitorSample;
use crate::terminal::state::ScreenState;
use crate::terminal::tab::datasets::DatasetOrder;
use crate::terminal::tab::{Tab, arc, datasets, plan, pools, sources};

/// Most rows of the table of ARCs, below which the selected ARC is shown in detail.
const ARC_ROWS: u16 = 6;
/// Width of the keys in the help.
const HELP_KEYS: usize = 18;

/// Whether colours may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Palette {
    /// Whether the terminal has colours, and the user wants them.
    pub has_colours: bool,
}

impl Palette {
    /// The style of an emphasis. The text has the same information.
    pub fn style(self, tone: Tone) -> Style {
        let (colour, modifier) = match tone {
            Tone::Plain => return Style::new(),
            Tone::Good => (Some(Color::Green), Modifier::empty()),
            Tone::Bad => (Some(Color::Red), Modifier::BOLD),
            Tone::Muted => (None, Modifier::DIM),
            Tone::Strong => (None, Modifier::BOLD),
        };
        let style = Style::new().add_modifier(modifier);
        colour.filter(|_| self.has_colours).map_or(style, |colour| style.fg(colour))
    }
}

/// Draws the screen for the time `now`.
pub fn draw(frame: &mut Frame, state: &mut ScreenState, now: Instant, palette: Palette) {
    let rows = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ]);
    let [tabs, notice, body, keys] = rows.areas(frame.area());
    frame.render_widget(tab_line(state, tabs.width), tabs);
    frame.render_widget(key_line(state, palette), keys);
    let Some(sample) = state.sample() else {
        frame.render_widget(Line::from("reading the sources …"), notice);
        return;
    };
    let count = match state.tab {
        Tab::Pools => list(frame, body, &pools::rows(&sample, now), state, palette),
        Tab::Datasets => list(frame, body, &datasets::rows(&sample, &state.choice), state, palette),
        Tab::Arc => arcs(frame, body, &sample, state, palette),
        Tab::Plan => list(frame, body, &plan::rows(&sample), state, palette),
        Tab::Sources => list(frame, body, &sources::rows(&sample, now), state, palette),
    };
    notices(frame, notice, state, &sample, count, now, palette);
    if state.has_help {
        help(frame);
    }
}

/// The tabs; the shown one is in brackets.
fn tab_line(state: &ScreenState, width: u16) -> Line<'static> {
    let mut spans = Vec::new();
    for (index, tab) in Tab::ALL.into_iter().enumerate() {
        let title = format!("{} {}", index + 1, tab.title());
        spans.push(match tab == state.tab {
            true => Span::styled(format!("[{title}]"), Modifier::BOLD | Modifier::REVERSED),
            false => Span::raw(format!(" {title} ")),
        });
    }
    let name = format!("poolwright, every {}", Unit::Seconds.format(state.every.as_secs_f64()));
    let used: usize = spans.iter().map(Span::width).sum();
    if let Some(gap) = usize::from(width).checked_sub(used + name.chars().count()) {
        spans.push(Span::styled(format!("{}{name}", " ".repeat(gap)), Modifier::DIM));
    }
    Line::from(spans)
}

fn key_line(state: &ScreenState, palette: Palette) -> Line<'static> {
    let text = match (state.is_editing, state.tab) {
        (true, _) => "type a part of the name   Enter keep   Esc show all",
        (_, Tab::Datasets) => "1–5 tab  / filter  s order  r reverse  ? help  q quit",
        _ => "1–5 tab   ↑↓ move   p pause   ? help   q quit",
    };
    Line::styled(text, palette.style(Tone::Muted))
}

/// The line above the rows: what is wrong, or what is shown; and the position.
fn notices(
    frame: &mut Frame,
    area: Rect,
    state: &ScreenState,
    sample: &MonitorSample,
    count: usize,
    now: Instant,
    palette: Palette,
) {
    let (text, tone) = match sources::notice(sample, now) {
        _ if state.is_editing => (format!("filter: {}▏", state.choice.filter), Tone::Strong),
        Some(down) => (format!("! {down}"), Tone::Bad),
        None => (summary(state, sample, now), Tone::Plain),
    };
    let paused = if state.is_paused() { "PAUSED  " } else { "" };
    let selected = state.scrolls[state.tab.index()].selected;
    let position = match count {
        0 => String::new(),
        _ => {
            format!(" {} of {}", Unit::Count.format(selected as f64 + 1.0), Unit::Count.format(count as f64))
        }
    };
    let width = u16::try_from(position.chars().count()).unwrap_or(u16::MAX);
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(width)]).areas(area);
    let spans = [Span::styled(paused, Modifier::BOLD), Span::styled(text, palette.style(tone))];
    frame.render_widget(Line::from_iter(spans), left);
    frame.render_widget(Line::from(position), right);
}

/// The status text when there are no problems.
fn summary(state: &ScreenState, sample: &MonitorSample, now: Instant) -> String {
    let read = age(now.saturating_duration_since(sample.taken).as_secs());
    if state.tab != Tab::Datasets {
        let count = sample.sources.len();
        return format!("{count} source{} read {read} ago", if count == 1 { "" } else { "s" });
    }
    let choice = &state.choice;
    let direction = match (choice.order == DatasetOrder::Name, choice.is_reversed) {
        (true, false) => "from A",
        (true, true) => "from Z",
        (false, false) => "largest first",
        (false, true) => "smallest first",
    };
    let filter = match choice.filter.as_str() {
        "" => String::new(),
        filter => format!("filter {filter:?}, "),
    };
    format!("{filter}order: {}, {direction}; read {read} ago", choice.order.title())
}

/// Draws the visible rows of a table; returns the number of all rows.
fn list(frame: &mut Frame, area: Rect, rows: &Rows, state: &mut ScreenState, palette: Palette) -> usize {
    state.page = usize::from(area.height.saturating_sub(1)).max(1);
    let page = state.page;
    let scroll = state.scroll();
    scroll.fit(rows.count, page);
    table::draw(frame, area, rows, *scroll, palette);
    rows.count
}

/// Draws the ARCs, and the selected one in detail.
fn arcs(
    frame: &mut Frame,
    area: Rect,
    sample: &MonitorSample,
    state: &mut ScreenState,
    palette: Palette,
) -> usize {
    let rows = arc::rows(sample);
    let height = ARC_ROWS.min(u16::try_from(rows.count).unwrap_or(ARC_ROWS)).max(1) + 1;
    let [top, _, below] =
        Layout::vertical([Constraint::Length(height), Constraint::Length(1), Constraint::Fill(1)])
            .areas(area);
    let count = list(frame, top, &rows, state, palette);
    let selected = state.scroll().selected;
    if let Some(one) = sample.of(&crate::family::ARC).get(selected) {
        arc_detail::draw(frame, below, sample, one, state);
    }
    count
}

/// Draws the help over the screen.
fn help(frame: &mut Frame) {
    let lines: Vec<Line> =
        (HELP.iter()).map(|(keys, what)| Line::from(format!("{keys:<HELP_KEYS$}  {what}"))).collect();
    let width = lines.iter().map(Line::width).max().unwrap_or(0) + 4;
    let (width, height) =
        (u16::try_from(width).unwrap_or(u16::MAX), u16::try_from(lines.len() + 2).unwrap_or(u16::MAX));
    let area = frame.area().centered(Constraint::Length(width), Constraint::Length(height));
    frame.render_widget(Clear, area);
    let block = Block::bordered().title(" Keys ").padding(ratatui::widgets::Padding::horizontal(1));
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

#[cfg(test)]
mod tests;
