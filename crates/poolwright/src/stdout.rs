//! Standard output and standard error of each verb. If a write to standard output fails (full disk, closed pipe), the verb
//! unwinds, so that an open pool is exported, and the program ends with a message instead of a panic. Failed writes to standard
//! error are ignored.
//!
//! The macros replace those of the standard library, which panic.

use std::any::Any;
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use poolwright_base::Exit;
use poolwright_report::Terminal;

macro_rules! print {
    ($($words:tt)*) => { $crate::stdout::print(format_args!($($words)*)) };
}

macro_rules! println {
    () => { $crate::stdout::print(format_args!("\n")) };
    ($($words:tt)*) => { $crate::stdout::print(format_args!("{}\n", format_args!($($words)*))) };
}

macro_rules! eprintln {
    ($($words:tt)*) => { $crate::stdout::tell(format_args!("{}\n", format_args!($($words)*))) };
}

/// The exit code if the reader has closed the pipe (`| head`).
const CLOSED: u8 = 0;

/// Standard output as a [`Write`]. A failed write does not return; it unwinds.
pub struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stdout().write(bytes).or_else(unwind)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush().or_else(unwind)
    }
}

/// Properties of standard output as a terminal. An exported `COLUMNS` overrides the terminal's width.
pub fn terminal() -> Terminal {
    let terminal = Terminal::stdout();
    let stated = std::env::var("COLUMNS").is_ok_and(|columns| columns.parse::<usize>().is_ok());
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_col > 0);
    match (terminal.width, size) {
        (Some(_), Some(size)) if !stated => Terminal { width: Some(size.ws_col.into()), ..terminal },
        _ => terminal,
    }
}

/// The payload with which a failed write unwinds.
struct Unwritable(io::Error);

fn unwind<T>(why: io::Error) -> io::Result<T> {
    match why.kind() {
        ErrorKind::Interrupted => Err(why),            // the caller retries
        _ if std::thread::panicking() => Err(why),     // another failure is unwinding
        _ => resume_unwind(Box::new(Unwritable(why))), // does not call the panic hook
    }
}

/// Prints to standard output and flushes.
pub fn print(text: fmt::Arguments<'_>) {
    let _ = Stdout.write_fmt(text).and_then(|()| Stdout.flush());
}

/// Prints to standard error and ignores failures.
pub fn tell(text: fmt::Arguments<'_>) {
    let _ = io::stderr().write_fmt(text);
}

/// Runs a verb and returns its exit code, also if standard output failed.
pub fn guard(verb: impl FnOnce() -> u8) -> u8 {
    catch_unwind(AssertUnwindSafe(verb)).unwrap_or_else(code_of)
}

fn code_of(payload: Box<dyn Any + Send>) -> u8 {
    match payload.downcast::<Unwritable>() {
        Ok(failed) => report(&failed.0),
        Err(other) => resume_unwind(other),
    }
}

/// Reports a failed write to standard output; returns the exit code.
pub fn report(why: &io::Error) -> u8 {
    if why.kind() == ErrorKind::BrokenPipe {
        return CLOSED;
    }
    eprintln!("poolwright: cannot write to standard output: {why}");
    Exit::Failed.code()
}
