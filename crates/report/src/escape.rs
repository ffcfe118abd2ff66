//! Escapes untrusted text for each output format.

use std::fmt::Write;

/// Escapes text for HTML and SVG, in content and in quoted attributes.
///
/// Characters that XML forbids (control characters) and bidirectional overrides, which reorder the text around them,
/// become visible as `\u{…}`, so that a file name cannot hide its real spelling.
pub fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if hidden(c) => show(&mut out, c),
            c => out.push(c),
        }
    }
    out
}

/// Escapes text for one line on a terminal, so that it cannot move the cursor, change colours or set a title.
pub fn line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if hidden(c) => show(&mut out, c),
            c => out.push(c),
        }
    }
    out
}

/// Escapes text for a cell of a Markdown table. An underscore inside a word is not mark-up and stays unescaped.
pub fn markdown(text: &str) -> String {
    let text = line(text);
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let inside = before.is_alphanumeric() && rest.peek().is_some_and(|n| n.is_alphanumeric());
        match c {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '[' | ']' | '|' | '~' => out.extend(['\\', c]),
            '_' if !inside => out.push_str("\\_"),
            c => out.push(c),
        }
        before = c;
    }
    out
}

/// Formats a field of a CSV file, quoted where RFC 4180 requires it.
pub fn csv(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
        || matches!(c, '\u{fffe}' | '\u{ffff}')
}

fn show(out: &mut String, c: char) {
    let _ = write!(out, "\\u{{{:x}}}", c as u32); // writing to a String cannot fail
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "/db/<script>alert('1')</script>&\"x\"|\u{1b}]0;owned\u{7}\u{202e}gpj.exe\n`rm`";

    #[test]
    fn html_keeps_no_mark_up() {
        let out = html(HOSTILE);
        assert!(!out.contains(['<', '>', '"', '\'', '\u{1b}', '\u{7}', '\u{202e}']), "{out}");
        assert!(out.contains("&lt;script&gt;") && out.contains("\\u{202e}"), "{out}");
    }

    #[test]
    fn a_line_stays_one_line_without_control_characters() {
        assert!(!line(HOSTILE).chars().any(|c| c.is_control() || c == '\u{202e}'));
        assert_eq!(line("größe/ø 日本"), "größe/ø 日本");
    }

    #[test]
    fn markdown_cannot_leave_its_cell() {
        assert_eq!(markdown("a|b"), "a\\|b");
        assert_eq!(markdown("innodb_page_size _x_"), "innodb_page_size \\_x\\_");
        assert_eq!(markdown("<b>\n"), "&lt;b>\\\\n");
    }

    #[test]
    fn csv_quotes_only_where_needed() {
        assert_eq!(csv("16K"), "16K");
        assert_eq!(csv("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
    }
}
