//! An error in a campaign's file, with its position.

use std::fmt::Display;
use std::path::Path;

use toml::Spanned;

use crate::Error;

/// A fault, and its byte offset in the file.
pub(super) struct Fault {
    pub at: usize,
    pub why: String,
}

pub(super) type Result<T> = std::result::Result<T, Fault>;

/// Returns the fault of an element.
pub(super) fn fault<T>(at: &Spanned<T>, why: impl Display) -> Fault {
    Fault { at: at.span().start, why: why.to_string() }
}

impl Fault {
    /// Returns the error with the line and the column, in characters.
    pub fn in_file(self, path: &Path, text: &str) -> Error {
        let before = String::from_utf8_lossy(&text.as_bytes()[..self.at.min(text.len())]);
        let line = before.split('\n').count();
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Error::Campaign { path: path.to_owned(), line, column, why: self.why }
    }
}

impl From<toml::de::Error> for Fault {
    fn from(error: toml::de::Error) -> Fault {
        Fault { at: error.span().map_or(0, |span| span.start), why: error.message().to_owned() }
    }
}
