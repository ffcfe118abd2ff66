//! The columns and cells of a table.

use poolwright_base::units::{MISSING, Unit};

/// A column's heading and alignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub(super) title: String,
    pub(super) right: bool,
}

impl Column {
    /// Creates a column of text, which is shortened if the terminal is too narrow.
    pub fn left(title: impl Into<String>) -> Self {
        Column { title: title.into(), right: false }
    }

    /// Creates a column of numbers, which are never shortened.
    pub fn right(title: impl Into<String>) -> Self {
        Column { title: title.into(), right: true }
    }
}

/// The meaning of a cell's colour. The text always expresses the same meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// No emphasis.
    #[default]
    Plain,
    /// Better, or succeeded.
    Good,
    /// Worse, or failed.
    Bad,
    /// Unimportant, such as a change within the noise.
    Muted,
    /// Important.
    Strong,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    Number(f64, Unit),
    Missing,
}

/// A cell: text, or a number with its unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    pub(super) value: Value,
    pub(super) tone: Tone,
    pub(super) note: String,
}

impl Cell {
    /// Creates a cell of untrusted text.
    pub fn text(text: impl Into<String>) -> Self {
        Cell { value: Value::Text(text.into()), tone: Tone::Plain, note: String::new() }
    }

    /// Creates a cell with a number in the base unit of `unit`. `None` and a number that is not finite are missing.
    pub fn num(value: impl Into<Option<f64>>, unit: Unit) -> Self {
        let number = value.into().filter(|v| v.is_finite());
        let value = number.map_or(Value::Missing, |v| Value::Number(v, unit));
        Cell { value, tone: Tone::Plain, note: String::new() }
    }

    /// Creates a cell with a size in bytes.
    pub fn bytes(bytes: u64) -> Self {
        Cell::num(bytes as f64, Unit::Bytes)
    }

    /// Creates a cell with a count.
    pub fn count(count: u64) -> Self {
        Cell::num(count as f64, Unit::Count)
    }

    /// Creates a cell without a measurement.
    pub fn missing() -> Self {
        Cell { value: Value::Missing, tone: Tone::Plain, note: String::new() }
    }

    /// Returns the cell with another tone.
    pub fn tone(mut self, tone: Tone) -> Self {
        self.tone = tone;
        self
    }

    /// Adds a remark on the figure, such as its interval: on a separate line in HTML, in brackets elsewhere, omitted in
    /// CSV.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    pub(super) fn figure(&self) -> String {
        match &self.value {
            Value::Text(text) => text.clone(),
            Value::Number(v, unit) => unit.format(*v),
            Value::Missing => MISSING.to_owned(),
        }
    }

    pub(super) fn shown(&self) -> String {
        if self.note.is_empty() { self.figure() } else { format!("{} ({})", self.figure(), self.note) }
    }

    /// Returns the number with every digit and no unit; empty if there is no number.
    pub(super) fn raw(&self) -> String {
        match &self.value {
            Value::Text(text) => text.clone(),
            Value::Number(v, _) => v.to_string(),
            Value::Missing => String::new(),
        }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::text(text)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::text(text)
    }
}

/// `None` is a missing cell.
impl<C: Into<Cell>> From<Option<C>> for Cell {
    fn from(cell: Option<C>) -> Cell {
        cell.map_or_else(Cell::missing, Into::into)
    }
}

/// Returns the CSS class of a tone.
pub(crate) fn tone_class(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "",
        Tone::Good => "good",
        Tone::Bad => "bad",
        Tone::Muted => "muted",
        Tone::Strong => "strong",
    }
}

/// Returns the escape sequence that begins a tone on a terminal.
pub(super) fn ansi(tone: Tone) -> &'static str {
    match tone {
        Tone::Plain => "",
        Tone::Good => "\x1b[32m",
        Tone::Bad => "\x1b[31m",
        Tone::Muted => "\x1b[2m",
        Tone::Strong => "\x1b[1m",
    }
}
