//! Snapshots of the screen.

use std::sync::Arc;
use std::time::Duration;

use crate::Readings;
use crate::family::{DATASET, DATASET_USED};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

use super::*;
use crate::terminal::fixture::{self, EVERY};
use crate::terminal::state::Scroll;

fn state(sample: MonitorSample, tab: Tab) -> ScreenState {
    let mut state = ScreenState::new(EVERY);
    state.tab = tab;
    state.receive(sample);
    state
}

/// The screen, drawn 1 s after its sample was taken.
fn buffer(state: &mut ScreenState, width: u16, height: u16, palette: Palette) -> Buffer {
    let now = state.sample().map_or_else(Instant::now, |sample| sample.taken + Duration::from_secs(1));
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state, now, palette)).unwrap();
    terminal.backend().buffer().clone()
}

const PLAIN: Palette = Palette { has_colours: false };

fn screen(state: &mut ScreenState, width: u16, height: u16) -> String {
    let buffer = buffer(state, width, height, PLAIN);
    let lines = buffer.content.chunks(usize::from(width));
    let line = |cells: &[ratatui::buffer::Cell]| cells.iter().map(|cell| cell.symbol()).collect::<String>();
    lines.map(|cells| line(cells).trim_end().to_owned() + "\n").collect()
}

#[test]
fn pools() {
    let mut state = state(fixture::full(), Tab::Pools);
    insta::assert_snapshot!(screen(&mut state, 150, 10));
    insta::assert_snapshot!(screen(&mut state, 60, 15));
}

#[test]
fn datasets() {
    let mut state = state(fixture::full(), Tab::Datasets);
    state.choice.order = DatasetOrder::Used;
    insta::assert_snapshot!(screen(&mut state, 120, 9));
    insta::assert_snapshot!(screen(&mut state, 60, 15));
    state.choice.filter = "tank/".to_owned();
    state.is_editing = true;
    insta::assert_snapshot!(screen(&mut state, 80, 7));
}

#[test]
fn arc() {
    let mut state = state(fixture::full(), Tab::Arc);
    insta::assert_snapshot!(screen(&mut state, 100, 20));
    insta::assert_snapshot!(screen(&mut state, 60, 15));
}

#[test]
fn plan_and_sources() {
    insta::assert_snapshot!(screen(&mut state(fixture::full(), Tab::Plan), 100, 9));
    insta::assert_snapshot!(screen(&mut state(fixture::full(), Tab::Plan), 60, 15));
    insta::assert_snapshot!(screen(&mut state(fixture::full(), Tab::Sources), 100, 11));
}

#[test]
fn help_covers_the_smallest_screen() {
    let mut state = state(fixture::full(), Tab::Pools);
    state.has_help = true;
    insta::assert_snapshot!(screen(&mut state, 60, 15));
}

#[test]
fn a_source_that_hangs_is_on_every_tab_with_the_age_of_its_values() {
    let mut hung = fixture::user_pool(1);
    hung.age = Some(Duration::from_secs(9));
    hung.overdue = Some(Duration::from_secs(7));
    let sample = || fixture::samples(&[vec![fixture::user_pool(0)], vec![hung.clone()]]);
    for tab in Tab::ALL {
        let shown = screen(&mut state(sample(), tab), 100, 15);
        let notice = "! 1 of 1 source down: user-pool db: its values are 10 s old: no answer for 8 s";
        assert!(shown.contains(notice), "{shown}");
    }
    insta::assert_snapshot!(screen(&mut state(sample(), Tab::Pools), 100, 6));
}

#[test]
fn nothing_to_show() {
    let mut empty = ScreenState::new(EVERY);
    assert!(screen(&mut empty, 60, 15).contains("reading the sources …"));
    for (tab, text) in
        Tab::ALL.into_iter().zip(["no pools", "no datasets", "no ARC", "no plan", "no sources"])
    {
        assert!(screen(&mut state(fixture::samples(&[vec![]]), tab), 60, 15).contains(text));
    }
}

#[test]
fn every_size_can_be_drawn() {
    for tab in Tab::ALL {
        let mut state = state(fixture::full(), tab);
        state.has_help = true;
        for (width, height) in [(1, 1), (3, 2), (10, 3), (40, 5), (59, 14), (300, 100)] {
            screen(&mut state, width, height);
        }
    }
}

#[test]
fn colours_only_where_they_are_wanted() {
    let colours = |palette| {
        let buffer = buffer(&mut state(fixture::full(), Tab::Pools), 100, 15, palette);
        buffer.content.iter().any(|cell| (cell.fg, cell.bg) != (Color::Reset, Color::Reset))
    };
    assert!(!colours(PLAIN));
    assert!(colours(Palette { has_colours: true }));
}

#[test]
fn names_cannot_change_the_terminal() {
    let mut readings = Readings::default();
    readings.add(&DATASET, ["kernel", "p", "p/\u{1b}[31m\u{202e}x"]).count(&DATASET_USED, 1);
    let sample = fixture::samples(&[vec![fixture::source("kernel-datasets", "p", readings)]]);
    let shown = screen(&mut state(sample, Tab::Datasets), 100, 6);
    assert!(shown.contains("p/\\u{1b}[31m\\u{202e}x"), "{shown}");
}

/// The rows of 10,000 datasets are ordered for each drawing, but only the visible ones are formatted.
#[test]
fn only_visible_rows_are_formatted() {
    let mut readings = Readings::default();
    for n in 0..10_000 {
        readings.add(&DATASET, ["kernel", "p", &format!("p/{n:05}")]).count(&DATASET_USED, n);
    }
    let sample = fixture::samples(&[vec![fixture::source("kernel-datasets", "p", readings)]]);
    let mut state = state(sample, Tab::Datasets);
    state.scroll().selected = usize::MAX;
    let shown = screen(&mut state, 80, 15);
    assert!(shown.contains("p/09999") && shown.contains("10,000 of 10,000"), "{shown}");
    assert_eq!(*state.scroll(), Scroll { selected: 9_999, top: 9_989 });

    let sample = Arc::clone(&state.sample().unwrap());
    let rows = datasets::rows(&sample, &state.choice);
    let formatted = std::cell::Cell::new(0);
    let row = |index| {
        formatted.set(formatted.get() + 1);
        (rows.row)(index)
    };
    let counted = Rows { row: Box::new(row), ..datasets::rows(&sample, &state.choice) };
    let mut terminal = Terminal::new(TestBackend::new(80, 15)).unwrap();
    terminal.draw(|frame| table::draw(frame, frame.area(), &counted, *state.scroll(), PLAIN)).unwrap();
    assert_eq!(formatted.get(), 11, "those from the first visible one to the last dataset");
}
