//! Text for a terminal: headings, wrapped paragraphs and tables.

use crate::escape;
use crate::table::{Table, Terminal, Tone};

/// A text under construction. Its methods escape control characters and wrap lines to the width of the terminal.
#[derive(Clone, Debug)]
pub struct TerminalText {
    out: String,
    to: Terminal,
}

impl TerminalText {
    /// Creates an empty text.
    pub fn new(to: Terminal) -> Self {
        TerminalText { out: String::new(), to }
    }

    /// Adds a heading below an empty line, with a remark, which may be empty.
    pub fn heading(&mut self, name: &str, remark: &str) {
        let remark = if remark.is_empty() { String::new() } else { format!("  {}", escape::line(remark)) };
        self.out += &format!("\n{}{remark}\n", self.styled(&escape::line(name), Tone::Strong));
    }

    /// Adds a paragraph that begins with `lead`. Its other lines begin below the text after the lead.
    pub fn paragraph(&mut self, lead: &str, text: &str) {
        self.labelled((lead, "", ""), Tone::Plain, text);
    }

    /// Adds a paragraph whose lead has a label in a tone between two plain texts.
    pub fn labelled(&mut self, (before, label, after): (&str, &str, &str), tone: Tone, text: &str) {
        let indent = [before, label, after].map(|part| part.chars().count()).iter().sum();
        let room = self.to.width.map_or(usize::MAX, |width| width.saturating_sub(indent).max(20));
        self.out += &format!("{before}{}{after}", self.styled(label, tone));
        self.out += &wrap(&escape::line(text), room).join(&format!("\n{:indent$}", ""));
        self.out.push('\n');
    }

    /// Adds a paragraph with a warning mark.
    pub fn warning(&mut self, indent: &str, text: &str) {
        self.labelled((indent, "!", " "), Tone::Bad, text);
    }

    /// Adds a line that is not wrapped, so that it can be copied.
    pub fn command(&mut self, indent: &str, line: &str) {
        self.out += &format!("{indent}{}\n", self.styled(&escape::line(line), Tone::Strong));
    }

    /// Adds an empty line.
    pub fn gap(&mut self) {
        self.out.push('\n');
    }

    /// Adds a table, indented by two columns.
    pub fn table(&mut self, table: &Table) {
        let inner = Terminal { width: self.to.width.map(|width| width.saturating_sub(2)), ..self.to };
        self.out.extend(table.terminal(inner).lines().map(|line| format!("  {line}\n")));
    }

    /// Returns the text.
    pub fn finish(self) -> String {
        self.out
    }

    fn styled(&self, text: &str, tone: Tone) -> String {
        let code = match tone {
            Tone::Good => "1;32",
            Tone::Bad => "1;31",
            Tone::Muted => "2",
            Tone::Strong => "1",
            Tone::Plain => return text.to_owned(),
        };
        if self.to.ansi { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Wraps text at spaces into lines of at most `room` characters; a longer word gets its own line.
fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split(' ') {
        let need = word.chars().count();
        let line = lines.len() - 1;
        if lines[line].is_empty() {
            lines[line].push_str(word);
            used = need;
        } else if used + 1 + need <= room {
            lines[line].push(' ');
            lines[line].push_str(word);
            used += 1 + need;
        } else {
            lines.push(word.to_owned());
            used = need;
        }
    }
    lines.iter_mut().for_each(|line| line.truncate(line.trim_end().len()));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_longer_than_the_line_stay_whole() {
        assert_eq!(wrap("a bb ccc", 4), ["a bb", "ccc"]);
        assert_eq!(wrap("a /very/long/path b", 6), ["a", "/very/long/path", "b"]);
        assert_eq!(wrap("", 6), [""]);
        assert_eq!(wrap("ab  cd", 3), ["ab", "cd"]);
    }

    #[test]
    fn lines_begin_below_the_text_of_the_first() {
        let mut text = TerminalText::new(Terminal { width: Some(24), ansi: true });
        text.labelled(("  ", "set", "   "), Tone::Good, "recordsize=16K compression=\u{1b}zstd");
        let first = "  \x1b[1;32mset\x1b[0m   recordsize=16K\n";
        assert_eq!(text.finish(), format!("{first}        compression=\\u{{1b}}zstd\n"));
    }
}
