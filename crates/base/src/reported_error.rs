//! How the program reports a library's error: its exit code and its hint.

/// The ways in which the program ends, other than success. `crates/poolwright/src/manual/exit_code.rs` documents each code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The work failed, or a check found a problem.
    Failed = 1,
    /// The arguments are wrong.
    Usage = 2,
    /// The program refused for safety.
    Refused = 3,
    /// There is nothing to change: the result recommends nothing, or must not be followed.
    NothingToChange = 4,
    /// The user interrupted the program.
    Interrupted = 130,
}

impl Exit {
    /// The exit code.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// A library's error as the program reports it. A library that wraps another library's error decides whether the exit code and the hint
/// still apply.
pub trait ReportedError: std::error::Error {
    /// How the program ends.
    fn exit(&self) -> Exit {
        Exit::Failed
    }

    /// Advice to the user, which may name commands and options of the program; without `hint: `.
    fn hint(&self) -> Option<String> {
        None
    }

    /// The message, and the hint on a separate line.
    fn text(&self) -> String {
        match self.hint() {
            Some(hint) => format!("{self}\nhint: {hint}"),
            None => self.to_string(),
        }
    }
}
