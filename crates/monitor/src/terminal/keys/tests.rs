use std::time::Duration;

use super::*;
use crate::terminal::fixture;
use crate::terminal::tab::datasets::DatasetOrder;

fn state() -> ScreenState {
    ScreenState::new(Duration::from_secs(2))
}

fn press(state: &mut ScreenState, code: KeyCode) -> KeyEffect {
    on_key(state, KeyEvent::new(code, KeyModifiers::NONE))
}

fn typed(state: &mut ScreenState, text: &str) {
    text.chars().for_each(|letter| assert_eq!(press(state, KeyCode::Char(letter)), KeyEffect::Draw));
}

#[test]
fn tabs_are_chosen_by_digits_and_by_moving_around() {
    let mut state = state();
    let mut after = |code| {
        assert_eq!(press(&mut state, code), KeyEffect::Draw);
        state.tab
    };
    assert_eq!(after(KeyCode::Char('3')), Tab::Arc);
    assert_eq!(after(KeyCode::Tab), Tab::Plan);
    assert_eq!(after(KeyCode::Right), Tab::Sources);
    assert_eq!(after(KeyCode::Right), Tab::Pools);
    assert_eq!(after(KeyCode::BackTab), Tab::Sources);
    assert_eq!(after(KeyCode::Left), Tab::Plan);
    assert_eq!(press(&mut state, KeyCode::Char('6')), KeyEffect::Nothing);
}

#[test]
fn ways_to_end() {
    let mut state = state();
    assert_eq!(press(&mut state, KeyCode::Char('q')), KeyEffect::Quit);
    assert_eq!(press(&mut state, KeyCode::Esc), KeyEffect::Quit);
    let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
    assert_eq!(on_key(&mut state, control('c')), KeyEffect::Interrupt);
    assert_eq!(on_key(&mut state, control('z')), KeyEffect::Suspend);
    assert_eq!(on_key(&mut state, control('l')), KeyEffect::DrawAll);
    state.is_editing = true;
    assert_eq!(on_key(&mut state, control('c')), KeyEffect::Interrupt, "also while the filter is edited");
    let mut release = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
    release.kind = KeyEventKind::Release;
    assert_eq!(on_key(&mut state, release), KeyEffect::Nothing);
}

#[test]
fn the_filter_takes_letters_that_are_commands_elsewhere() {
    let mut state = state();
    assert_eq!(press(&mut state, KeyCode::Char('/')), KeyEffect::Nothing, "only datasets are filtered");
    typed(&mut state, "2/qp1");
    assert_eq!((state.choice.filter.as_str(), state.tab, state.is_paused()), ("qp1", Tab::Datasets, false));
    press(&mut state, KeyCode::Backspace);
    press(&mut state, KeyCode::Enter);
    assert_eq!((state.choice.filter.as_str(), state.is_editing), ("qp", false));
    assert_eq!(press(&mut state, KeyCode::Esc), KeyEffect::Draw, "the first Esc removes the filter");
    assert_eq!(state.choice.filter, "");
    assert_eq!(press(&mut state, KeyCode::Esc), KeyEffect::Quit);
    typed(&mut state, "/x");
    press(&mut state, KeyCode::Esc);
    assert_eq!((state.choice.filter.as_str(), state.is_editing), ("", false));
    typed(&mut state, "/");
    press(&mut state, KeyCode::Backspace);
    assert!(!state.is_editing, "Backspace leaves an empty filter");
}

#[test]
fn orders_and_the_selection() {
    let mut state = state();
    assert_eq!(press(&mut state, KeyCode::Char('s')), KeyEffect::Nothing, "only datasets are ordered");
    typed(&mut state, "2sr");
    assert_eq!((state.choice.order, state.choice.is_reversed), (DatasetOrder::Used, true));
    typed(&mut state, "sssssss");
    assert_eq!(state.choice.order, DatasetOrder::Name, "after the last one, the first");
    state.page = 10;
    let mut selected = |code| {
        press(&mut state, code);
        state.scroll().selected
    };
    assert_eq!([KeyCode::Up, KeyCode::Down, KeyCode::PageDown].map(&mut selected), [0, 1, 11]);
    assert_eq!([KeyCode::Char('j'), KeyCode::Char('k'), KeyCode::PageUp].map(&mut selected), [12, 11, 1]);
    assert_eq!([KeyCode::End, KeyCode::Down, KeyCode::Home].map(&mut selected), [usize::MAX, usize::MAX, 0]);
}

#[test]
fn help_closes_with_any_key() {
    let mut state = state();
    typed(&mut state, "?");
    assert!(state.has_help);
    typed(&mut state, "3");
    assert_eq!((state.has_help, state.tab), (false, Tab::Pools));
    typed(&mut state, "?");
    assert_eq!(press(&mut state, KeyCode::Char('q')), KeyEffect::Quit);
}

#[test]
fn a_pause_keeps_the_sample_and_ends_with_the_newest() {
    let mut state = state();
    let sources = |state: &ScreenState| state.sample().map(|sample| sample.sources.len());
    state.receive(fixture::samples(&[vec![fixture::plan()]]));
    typed(&mut state, "p");
    state.receive(fixture::full());
    assert_eq!((state.is_paused(), sources(&state)), (true, Some(1)));
    typed(&mut state, "p");
    assert_eq!((state.is_paused(), sources(&state)), (false, Some(6)));
}
