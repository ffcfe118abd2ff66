//! How the program reports a library's error: its exit code and its hint.

/// How a run of the program ends, if not well. `crates/poolwright/src/manual/exit_code.rs` documents each code.
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

/// An error of a library, as the program ends with it. A library that wraps another one's error decides whether its exit code and its
/// hint still apply.
pub trait ReportedError: std::error::Error {
    /// How the program ends.
    fn exit(&self) -> Exit {
        Exit::Failed
    }

    /// What the user can do, also with the program's commands and flags; without `hint: `.
    fn hint(&self) -> Option<String> {
        None
    }

    /// The message, and the hint on a line of its own.
    fn text(&self) -> String {
        match self.hint() {
            Some(hint) => format!("{self}\nhint: {hint}"),
            None => self.to_string(),
        }
    }
}
