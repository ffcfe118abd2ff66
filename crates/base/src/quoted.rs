//! Paths in messages.

use std::fmt::{self, Write as _};
use std::path::Path;

/// A path for a message: unchanged, or in double quotes if its end would be ambiguous in the surrounding text.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(&'a Path);

/// Returns the path for a message, in double quotes if it is empty or has whitespace or control characters.
pub fn quoted<P: AsRef<Path> + ?Sized>(path: &P) -> Quoted<'_> {
    Quoted(path.as_ref())
}

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string_lossy();
        if !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return f.write_str(&text);
        }
        f.write_char('"')?;
        for c in text.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                c if c.is_control() => write!(f, "{}", c.escape_default())?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn only_paths_with_unclear_ends_are_quoted() {
        for plain in ["/srv/db", "a", "it's", "\"x\"", "a\\b", "/größe/データ", "-o"] {
            assert_eq!(quoted(plain).to_string(), plain);
        }
        for (path, shown) in [
            ("", r#""""#),
            ("/my files/a", r#""/my files/a""#),
            ("a\nb\tc", r#""a\nb\tc""#),
            ("say \"x\\y\"", r#""say \"x\\y\"""#),
            ("\u{1b}[31m", r#""\u{1b}[31m""#),
            ("a\u{a0}b", "\"a\u{a0}b\""),
        ] {
            assert_eq!(quoted(path).to_string(), shown);
        }
        let invalid = std::ffi::OsStr::from_bytes(b"a\xff b");
        assert_eq!(quoted(invalid).to_string(), "\"a\u{fffd} b\"");
    }
}
