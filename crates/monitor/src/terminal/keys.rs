//! The actions of keys.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::terminal::state::ScreenState;
use crate::terminal::tab::Tab;

/// The caller's action after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEffect {
    /// Draw the screen.
    Draw,
    /// Draw the whole screen, whatever the terminal shows now.
    DrawAll,
    /// Nothing has changed.
    Nothing,
    /// End, as the user wants.
    Quit,
    /// End as if by SIGINT.
    Interrupt,
    /// Stop the process until it is continued.
    Suspend,
}

/// The keys and what they do, for the help.
pub const HELP: [(&str, &str); 9] = [
    ("1–5 Tab ← →", "another tab"),
    ("↑ ↓ j k PgUp PgDn", "move; Home and End: first and last"),
    ("/", "filter datasets by name; Esc: all"),
    ("s r", "datasets: next order; reverse it"),
    ("p", "pause; continue"),
    ("?", "this help; any key closes it"),
    ("Ctrl-L", "draw everything again"),
    ("Ctrl-Z", "suspend"),
    ("q Esc Ctrl-C", "quit"),
];

/// Changes the state according to a key.
pub fn on_key(state: &mut ScreenState, key: KeyEvent) -> KeyEffect {
    if key.kind == KeyEventKind::Release {
        return KeyEffect::Nothing;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char('c') => KeyEffect::Interrupt,
            KeyCode::Char('l') => KeyEffect::DrawAll,
            KeyCode::Char('z') => KeyEffect::Suspend,
            _ => KeyEffect::Nothing,
        };
    }
    if state.has_help {
        state.has_help = false;
        return if key.code == KeyCode::Char('q') { KeyEffect::Quit } else { KeyEffect::Draw };
    }
    if state.is_editing { edit(state, key.code) } else { command(state, key.code) }
}

/// A key while the filter is edited.
fn edit(state: &mut ScreenState, code: KeyCode) -> KeyEffect {
    match code {
        KeyCode::Char(letter) => state.choice.filter.push(letter),
        KeyCode::Backspace => {
            state.is_editing = state.choice.filter.pop().is_some();
        }
        KeyCode::Enter => state.is_editing = false,
        KeyCode::Esc => {
            state.is_editing = false;
            state.choice.filter.clear();
        }
        _ => return move_selection(state, code),
    }
    KeyEffect::Draw
}

fn command(state: &mut ScreenState, code: KeyCode) -> KeyEffect {
    let is_datasets = state.tab == Tab::Datasets;
    match code {
        KeyCode::Char('q') => return KeyEffect::Quit,
        KeyCode::Esc if is_datasets && !state.choice.filter.is_empty() => state.choice.filter.clear(),
        KeyCode::Esc => return KeyEffect::Quit,
        KeyCode::Char('?') => state.has_help = true,
        KeyCode::Char('p') => state.toggle_pause(),
        KeyCode::Char('/') if is_datasets => state.is_editing = true,
        KeyCode::Char('s') if is_datasets => state.choice.order = state.choice.order.next(),
        KeyCode::Char('r') if is_datasets => state.choice.is_reversed = !state.choice.is_reversed,
        KeyCode::Tab | KeyCode::Right => state.tab = state.tab.moved(1),
        KeyCode::BackTab | KeyCode::Left => state.tab = state.tab.moved(-1),
        KeyCode::Char(digit @ '1'..='5') => state.tab = Tab::ALL[digit as usize - '1' as usize],
        KeyCode::Char('j') => return move_selection(state, KeyCode::Down),
        KeyCode::Char('k') => return move_selection(state, KeyCode::Up),
        _ => return move_selection(state, code),
    }
    KeyEffect::Draw
}

/// Moves the selection. Drawing keeps it within the rows.
fn move_selection(state: &mut ScreenState, code: KeyCode) -> KeyEffect {
    let page = state.page.max(1);
    let selected = &mut state.scroll().selected;
    *selected = match code {
        KeyCode::Up => selected.saturating_sub(1),
        KeyCode::Down => selected.saturating_add(1),
        KeyCode::PageUp => selected.saturating_sub(page),
        KeyCode::PageDown => selected.saturating_add(page),
        KeyCode::Home => 0,
        KeyCode::End => usize::MAX,
        _ => return KeyEffect::Nothing,
    };
    KeyEffect::Draw
}

#[cfg(test)]
mod tests;
