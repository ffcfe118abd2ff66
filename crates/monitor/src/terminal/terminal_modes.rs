//! The modes of the terminal, which are restored however the program ends.

use std::io::{self, Write as _};
use std::panic::{self, PanicHookInfo};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crossterm::cursor::{Hide, Show};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};

/// Whether the process's terminal has the modes.
static IS_ENTERED: AtomicBool = AtomicBool::new(false);

type PanicHook = dyn Fn(&PanicHookInfo<'_>) + Sync + Send;

/// Raw mode and the alternate screen of the process's terminal. Dropping restores the terminal.
pub struct TerminalModes {
    /// The panic hook of the program.
    hook: Arc<PanicHook>,
}

impl std::fmt::Debug for TerminalModes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TerminalModes").finish_non_exhaustive()
    }
}

impl TerminalModes {
    /// Enters the modes. A panic of this thread restores the terminal before the program's hook reports it. A panic of
    /// another thread is not reported, because the message would damage the screen: the poller turns a panic of a source into
    /// an error of that source.
    ///
    /// # Errors
    /// If the terminal cannot be configured.
    pub fn enter() -> io::Result<TerminalModes> {
        let hook: Arc<PanicHook> = Arc::from(panic::take_hook());
        let modes = TerminalModes { hook: Arc::clone(&hook) };
        let screen = thread::current().id();
        panic::set_hook(Box::new(move |info| {
            if thread::current().id() == screen {
                restore();
                hook(info);
            }
        }));
        modes.resume()?;
        Ok(modes)
    }

    /// Enters the modes again, after [`TerminalModes::suspend`], or after another program has used the terminal.
    ///
    /// # Errors
    /// If the terminal cannot be configured.
    pub fn resume(&self) -> io::Result<()> {
        disable_raw_mode()?; // otherwise crossterm keeps the modes that another program has set
        IS_ENTERED.store(true, Ordering::SeqCst);
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen, Hide)
    }

    /// Restores the terminal until [`TerminalModes::resume`].
    pub fn suspend(&self) {
        restore();
    }
}

impl Drop for TerminalModes {
    fn drop(&mut self) {
        restore();
        if !thread::panicking() {
            let hook = Arc::clone(&self.hook);
            panic::set_hook(Box::new(move |info| hook(info)));
        }
    }
}

/// Restores the terminal, once: leaving the alternate screen again would move the cursor over a message. Failures are ignored:
/// the terminal may be gone.
fn restore() {
    if !IS_ENTERED.swap(false, Ordering::SeqCst) {
        return;
    }
    let _ = execute!(io::stdout(), Show, LeaveAlternateScreen);
    let _ = io::stdout().flush();
    let _ = disable_raw_mode();
}
