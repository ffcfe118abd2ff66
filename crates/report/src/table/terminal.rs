//! What the terminal can show.

use std::io::IsTerminal;

/// The capabilities of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Width in columns; `None` for unlimited lines (a pipe, a file).
    pub width: Option<usize>,
    /// Whether to use colours.
    pub ansi: bool,
}

impl Terminal {
    /// No colours and unlimited width, for pipes and files.
    pub const PLAIN: Terminal = Terminal { width: None, ansi: false };

    /// Returns the capabilities of standard output. Colours need a terminal, `TERM` other than `dumb`, and `NO_COLOR`
    /// unset or empty (no-color.org). The width is `COLUMNS` if that is exported, otherwise 100; a caller that knows
    /// the width sets [`Terminal::width`].
    pub fn stdout() -> Terminal {
        Terminal::detect(std::io::stdout().is_terminal(), |name| std::env::var(name).ok())
    }

    fn detect(terminal: bool, env: impl Fn(&str) -> Option<String>) -> Terminal {
        if !terminal {
            return Terminal::PLAIN;
        }
        let set = |name| env(name).filter(|v| !v.is_empty());
        let columns = set("COLUMNS").and_then(|v| v.parse().ok()).unwrap_or(100);
        let ansi = set("NO_COLOR").is_none() && set("TERM").is_some_and(|t| t != "dumb");
        Terminal { width: Some(columns), ansi }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_that_want_them() {
        let ansi = |terminal, vars: &[(&str, &str)]| {
            let get = |name: &str| vars.iter().find(|v| v.0 == name).map(|v| v.1.to_owned());
            let to = Terminal::detect(terminal, get);
            (to.ansi, to.width)
        };
        assert_eq!(ansi(true, &[("TERM", "xterm")]), (true, Some(100)));
        assert_eq!(ansi(true, &[("TERM", "xterm"), ("NO_COLOR", "")]), (true, Some(100)));
        assert_eq!(ansi(true, &[("TERM", "xterm"), ("NO_COLOR", "1"), ("COLUMNS", "72")]), (false, Some(72)));
        assert_eq!(ansi(true, &[("TERM", "dumb")]), (false, Some(100)));
        assert_eq!(ansi(false, &[("TERM", "xterm"), ("COLUMNS", "72")]), (false, None));
    }
}
