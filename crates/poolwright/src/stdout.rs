//! Standard output and standard error, for every verb. Where standard output fails (a full disk, a closed pipe), the verb
//! unwinds, so that a pool that it has open is exported, and the program ends with a message and not as a defect.
//! Standard error may fail: nothing is left that could say so.
//!
//! The macros take the place of the standard library's, which panic.

use std::any::Any;
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

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

/// The exit code after a failed write.
const FAILED: u8 = 1;
/// The exit code where the reader of a pipe has closed it (`| head`).
const CLOSED: u8 = 0;

/// Standard output for what takes a writer. A write that fails does not return.
pub struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stdout().write(bytes).or_else(unwind)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush().or_else(unwind)
    }
}

/// Standard output as a terminal: as wide as `COLUMNS` says, where that is exported, else as it is.
pub fn terminal() -> Terminal {
    let terminal = Terminal::stdout();
    let stated = std::env::var("COLUMNS").is_ok_and(|columns| columns.parse::<usize>().is_ok());
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_col > 0);
    match (terminal.width, size) {
        (Some(_), Some(size)) if !stated => Terminal { width: Some(size.ws_col.into()), ..terminal },
        _ => terminal,
    }
}

/// What a failed write unwinds with.
struct Unwritable(io::Error);

fn unwind<T>(why: io::Error) -> io::Result<T> {
    match why.kind() {
        ErrorKind::Interrupted => Err(why),            // the caller tries again
        _ if std::thread::panicking() => Err(why),     // while another failure is on its way up
        _ => resume_unwind(Box::new(Unwritable(why))), // past the panic hook
    }
}

/// Prints to standard output, at once.
pub fn print(text: fmt::Arguments<'_>) {
    let _ = Stdout.write_fmt(text).and_then(|()| Stdout.flush());
}

/// Prints to standard error, if that takes it.
pub fn tell(text: fmt::Arguments<'_>) {
    let _ = io::stderr().write_fmt(text);
}

/// Runs a verb; the exit code, also where standard output failed.
pub fn guard(verb: impl FnOnce() -> u8) -> u8 {
    catch_unwind(AssertUnwindSafe(verb)).unwrap_or_else(code_of)
}

fn code_of(payload: Box<dyn Any + Send>) -> u8 {
    match payload.downcast::<Unwritable>() {
        Ok(failed) => report(&failed.0),
        Err(other) => resume_unwind(other),
    }
}

/// Says that standard output failed; the exit code.
pub fn report(why: &io::Error) -> u8 {
    if why.kind() == ErrorKind::BrokenPipe {
        return CLOSED;
    }
    eprintln!("poolwright: cannot write to standard output: {why}");
    FAILED
}
