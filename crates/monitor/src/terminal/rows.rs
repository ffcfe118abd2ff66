//! Rows of text, made on demand, and the formats of their fields.

use std::time::Duration;

use poolwright_report::{Tone, Unit, text};

/// The text of a figure that does not exist.
pub const NONE: &str = "–";

/// A column of a table on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowColumn {
    /// The title.
    pub title: &'static str,
    /// Width in terminal columns; 0 for a column of text that takes the width that is left.
    pub width: u16,
    /// Whether it has figures, which are aligned to the right.
    pub is_figure: bool,
    /// The order in which columns are left out if the screen is too narrow: the highest rank first, all columns of a
    /// rank together, and rank 0 never.
    pub rank: u8,
}

impl RowColumn {
    /// A column of text that takes the width that is left.
    pub const fn text(title: &'static str, rank: u8) -> RowColumn {
        RowColumn::word(title, 0, rank)
    }

    /// A column of short text.
    pub const fn word(title: &'static str, width: u16, rank: u8) -> RowColumn {
        RowColumn { title, width, is_figure: false, rank }
    }

    /// A column of figures.
    pub const fn figure(title: &'static str, width: u16, rank: u8) -> RowColumn {
        RowColumn { title, width, is_figure: true, rank }
    }
}

/// The text of one field, and its emphasis. The text alone has the whole meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowField {
    /// The text, without control characters.
    pub text: String,
    /// The emphasis.
    pub tone: Tone,
}

impl RowField {
    /// A field of untrusted text.
    pub fn text(text: &str) -> RowField {
        RowField { text: poolwright_report::escape::line(text), tone: Tone::Plain }
    }

    /// A figure that has been formatted; [`NONE`] if it does not exist.
    pub fn figure(text: Option<String>) -> RowField {
        RowField { text: text.unwrap_or_else(|| NONE.to_owned()), tone: Tone::Plain }
    }

    /// The same field with another emphasis.
    pub fn tone(mut self, tone: Tone) -> RowField {
        self.tone = tone;
        self
    }

    /// The same field, emphasized as bad if `is_bad`.
    pub fn bad_if(self, is_bad: bool) -> RowField {
        if is_bad { self.tone(Tone::Bad) } else { self }
    }
}

/// A table whose rows are formatted on demand.
pub struct Rows<'a> {
    /// The title, for output without a screen.
    pub title: &'static str,
    /// The columns.
    pub columns: &'static [RowColumn],
    /// Number of rows.
    pub count: usize,
    /// The text if there are no rows.
    pub nothing: &'static str,
    /// Makes one row: a field for each column.
    pub row: Box<dyn Fn(usize) -> Vec<RowField> + 'a>,
}

impl std::fmt::Debug for Rows<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("title", &self.title).field("count", &self.count).finish_non_exhaustive()
    }
}

/// A size or a number of bytes per second, with the suffixes of ZFS.
pub fn size(bytes: Option<f64>) -> RowField {
    RowField::figure(bytes.map(|bytes| Unit::Bytes.format(bytes.round())))
}

/// A number of things per second.
pub fn per_second(rate: Option<f64>) -> RowField {
    let number = |rate: f64| if rate == 0.0 { "0".to_owned() } else { Unit::None.format(rate) };
    RowField::figure(rate.map(number))
}

/// A number of things.
pub fn count(number: Option<f64>) -> RowField {
    RowField::figure(number.map(|number| Unit::Count.format(number)))
}

/// A share in per cent.
pub fn share(part: Option<f64>) -> RowField {
    RowField::figure(part.map(|part| Unit::Fraction.format(part)))
}

/// A factor, such as a compression ratio.
pub fn factor(ratio: Option<f64>) -> RowField {
    RowField::figure(ratio.map(|ratio| Unit::Ratio.format(ratio)))
}

/// A time that a request takes.
pub fn wait(seconds: Option<f64>) -> RowField {
    RowField::figure(seconds.map(|seconds| Unit::Seconds.format(seconds)))
}

/// How long ago something was.
pub fn age(time: Option<Duration>) -> RowField {
    RowField::figure(time.map(|time| text::age(time.as_secs())))
}

/// `part` of `whole`, if both exist and `whole` is not 0.
pub fn ratio(part: Option<f64>, whole: Option<f64>) -> Option<f64> {
    let (part, whole) = part.zip(whole)?;
    (whole > 0.0).then_some(part / whole)
}

/// The sum of the figures that exist; `None` if none does.
pub fn sum(figures: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    figures.into_iter().flatten().reduce(|a, b| a + b)
}
