//! The screen: connects the samples, the keys and the terminal.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::Poller;
use crossterm::event::{self, Event};
use crossterm::execute;
use crossterm::terminal::{Clear, ClearType};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use signal_hook::consts::{SIGCONT, SIGTSTP};
use signal_hook::{flag, low_level};

use crate::terminal::draw::{Palette, draw};
use crate::terminal::keys::{KeyEffect, on_key};
use crate::terminal::reader::SampleReader;
use crate::terminal::state::ScreenState;
use crate::terminal::terminal_modes::TerminalModes;
use crate::{Error, Result};

/// How long to wait for keys before the loop checks for samples and signals.
const KEY_WAIT: Duration = Duration::from_millis(100);
/// How long the wait for a further key is. Without a wait, crossterm does not return keys that it has read already.
const NEXT_KEY_WAIT: Duration = Duration::from_millis(1);
/// Time after which the screen is drawn again, because the ages have changed.
const AGE_STEP: Duration = Duration::from_secs(1);

/// The contents of the screen and their presentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScreenOptions {
    /// The time between two samples.
    pub every: Duration,
    /// Whether the terminal has colours, and the user wants them.
    pub has_colours: bool,
}

/// Why the screen ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The user quit.
    Quit,
    /// A signal arrived, or Ctrl-C was pressed.
    Interrupted,
}

/// Shows the readings until the user quits or `stop` becomes true, and restores the terminal.
///
/// # Errors
/// [`Error::NotATerminal`], [`Error::NoCursorControl`], [`Error::Terminal`]; as [`SampleReader::start`].
pub fn run(poller: Poller, options: &ScreenOptions, stop: &AtomicBool) -> Result<Ended> {
    check_terminal()?;
    let reader = SampleReader::start(poller, options.every)?;
    let signals = JobSignals::watch().map_err(Error::Terminal)?;
    let modes = TerminalModes::enter().map_err(Error::Terminal)?;
    let palette = Palette { has_colours: options.has_colours };
    let terminal = Terminal::new(CrosstermBackend::new(io::stdout())).map_err(Error::Terminal)?;
    let mut screen = Screen { terminal, modes, state: ScreenState::new(options.every), palette, drawn: None };
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(Ended::Interrupted);
        }
        if signals.stop.swap(false, Ordering::Relaxed) {
            screen.suspend().map_err(Error::Terminal)?;
            signals.resume.store(false, Ordering::Relaxed);
        }
        if signals.resume.swap(false, Ordering::Relaxed) {
            screen.resume().map_err(Error::Terminal)?;
        }
        if let Some(sample) = reader.newest()? {
            screen.state.receive(sample);
            screen.drawn = None;
        }
        screen.draw_if_due().map_err(Error::Terminal)?;
        if let Some(ended) = screen.read_keys().map_err(Error::Terminal)? {
            return Ok(ended);
        }
    }
}

/// Checks that the terminal can show the screen.
fn check_terminal() -> Result<()> {
    if !io::stdin().is_terminal() {
        return Err(Error::NotATerminal("standard input"));
    }
    if !io::stdout().is_terminal() {
        return Err(Error::NotATerminal("standard output"));
    }
    let term = std::env::var("TERM").unwrap_or_default();
    if term.is_empty() || term == "dumb" {
        return Err(Error::NoCursorControl(term));
    }
    Ok(())
}

/// Signals of job control. The process's own handler of SIGTSTP runs at the next turn of the loop, which restores the terminal
/// first.
struct JobSignals {
    stop: Arc<AtomicBool>,
    resume: Arc<AtomicBool>,
}

impl JobSignals {
    fn watch() -> io::Result<JobSignals> {
        let signals = JobSignals { stop: Arc::default(), resume: Arc::default() };
        flag::register(SIGTSTP, Arc::clone(&signals.stop))?;
        flag::register(SIGCONT, Arc::clone(&signals.resume))?;
        Ok(signals)
    }
}

struct Screen {
    terminal: Terminal<CrosstermBackend<io::Stdout>>,
    modes: TerminalModes,
    state: ScreenState,
    palette: Palette,
    /// When it was last drawn; `None` if it has changed since.
    drawn: Option<Instant>,
}

impl Screen {
    fn draw_if_due(&mut self) -> io::Result<()> {
        if self.drawn.is_none_or(|drawn| drawn.elapsed() >= AGE_STEP) {
            let now = Instant::now();
            let (state, palette) = (&mut self.state, self.palette);
            self.terminal.draw(|frame| draw(frame, state, now, palette))?;
            self.drawn = Some(now);
        }
        Ok(())
    }

    /// Waits for keys for a short time, and applies them.
    fn read_keys(&mut self) -> io::Result<Option<Ended>> {
        let mut wait = KEY_WAIT;
        while event::poll(wait)? {
            wait = NEXT_KEY_WAIT;
            let effect = match event::read()? {
                Event::Key(key) => on_key(&mut self.state, key),
                Event::Resize(..) => KeyEffect::Draw,
                _ => KeyEffect::Nothing,
            };
            match effect {
                KeyEffect::Draw => self.drawn = None,
                KeyEffect::DrawAll => self.draw_all()?,
                KeyEffect::Nothing => {}
                KeyEffect::Quit => return Ok(Some(Ended::Quit)),
                KeyEffect::Interrupt => return Ok(Some(Ended::Interrupted)),
                KeyEffect::Suspend => self.suspend()?,
            }
        }
        Ok(None)
    }

    /// Restores the terminal, and stops the process until it is continued.
    fn suspend(&mut self) -> io::Result<()> {
        self.modes.suspend();
        low_level::emulate_default_handler(SIGTSTP)?;
        self.resume()
    }

    fn resume(&mut self) -> io::Result<()> {
        self.modes.resume()?;
        self.draw_all()
    }

    fn draw_all(&mut self) -> io::Result<()> {
        // `Terminal::clear` would ask the terminal where the cursor is, and wait for an answer that not every terminal gives.
        execute!(io::stdout(), Clear(ClearType::All))?;
        self.terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        self.drawn = None;
        Ok(())
    }
}
