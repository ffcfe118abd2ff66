//! Paths as text. A trace has its paths as UTF-8 (JSON, Parquet), but a file name on Linux is a sequence of bytes.
//!
//! A byte that is not part of valid UTF-8 is written as `\xHH` with two hexadecimal digits. A backslash that would begin such
//! an escape is written as `\x5c`. Every other name is its own text, and every name comes back from its text.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

/// Length of an escape.
const ESCAPE: usize = "\\xHH".len();

/// The text of a path or a name.
pub fn encode(path: impl AsRef<OsStr>) -> String {
    let bytes = path.as_ref().as_bytes();
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for (at, character) in chunk.valid().char_indices() {
            match character {
                '\\' if escaped(&chunk.valid().as_bytes()[at..]).is_some() => text.push_str("\\x5c"),
                _ => text.push(character),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// The path or the name that has this text.
pub fn decode(text: &str) -> PathBuf {
    let mut rest = text.as_bytes();
    let mut bytes = Vec::with_capacity(rest.len());
    while let [first, tail @ ..] = rest {
        match escaped(rest) {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[ESCAPE..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// The text with a mark instead of each number.
pub(crate) fn with_numbers_as(mark: char, text: &str) -> String {
    let mut marked = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '0'..='9' if marked.ends_with(mark) => {}
            '0'..='9' => marked.push(mark),
            c => marked.push(c),
        }
    }
    marked
}

/// The byte of the escape with which the text begins.
fn escaped(text: &[u8]) -> Option<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    match text {
        [b'\\', b'x', high, low, ..] => Some((digit(*high)? * 16 + digit(*low)?) as u8),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn most_paths_are_their_own_text() {
        for path in ["/db/t.ibd", "/päth/with \\ and \\x and \\xg0 and \u{fffd}"] {
            assert_eq!(encode(path), path);
            assert_eq!(decode(path), PathBuf::from(path));
        }
    }

    #[test]
    fn other_bytes_are_escaped() {
        let names: [(&[u8], &str); 4] = [
            (b"/db/\xff", "/db/\\xff"),
            (b"/db/\xfe\xc3", "/db/\\xfe\\xc3"),
            (b"/db/\\xff", "/db/\\x5cxff"),
            (b"\\\xff\\x\xff", "\\\\xff\\x\\xff"),
        ];
        for (bytes, text) in names {
            assert_eq!(encode(OsStr::from_bytes(bytes)), text);
            assert_eq!(decode(text), PathBuf::from(OsStr::from_bytes(bytes)));
        }
    }

    proptest! {
        #[test]
        fn every_name_comes_back(bytes in prop::collection::vec(prop::sample::select(&b"\\x5cfFa/\xc3\xa4\xff"[..]), 0..12)) {
            let path = decode(&encode(OsStr::from_bytes(&bytes)));
            prop_assert_eq!(path.as_os_str().as_bytes(), &bytes[..]);
        }
    }
}
