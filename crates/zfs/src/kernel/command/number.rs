//! Fields and numbers in the output of `zpool` and `zfs`.

use super::error::MalformedOutput;

/// The fields of one line of `-H` output, which separates them with tabs.
pub(super) struct Row<'a> {
    line: usize,
    fields: Vec<&'a str>,
}

impl<'a> Row<'a> {
    /// Splits the lines of a text into rows of `width` fields. Empty lines are skipped.
    pub(super) fn all(text: &'a str, width: usize) -> impl Iterator<Item = Result<Row<'a>, MalformedOutput>> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty());
        lines.map(move |(at, line)| Row::parse(line, at + 1, width))
    }

    /// Splits line number `line` into `width` fields.
    pub(super) fn parse(text: &'a str, line: usize, width: usize) -> Result<Row<'a>, MalformedOutput> {
        let fields: Vec<&str> = text.split('\t').collect();
        if fields.len() == width {
            return Ok(Row { line, fields });
        }
        Err(MalformedOutput::new(line, format!("{} fields instead of {width}", fields.len())))
    }

    /// The field at a position below the row's width.
    pub(super) fn text(&self, at: usize) -> &'a str {
        self.fields.get(at).copied().unwrap_or_default()
    }

    /// The field as a number. `-` and `none` are `None`. Percentages and ratios of some versions end with `%` or `x`.
    pub(super) fn number(&self, at: usize) -> Result<Option<u64>, MalformedOutput> {
        self.parsed(at, "a number")
    }

    /// The field as a ratio. `-` is `None`.
    pub(super) fn ratio(&self, at: usize) -> Result<Option<f64>, MalformedOutput> {
        let ratio: Option<f64> = self.parsed(at, "a ratio")?;
        Ok(ratio.filter(|ratio| ratio.is_finite()))
    }

    fn parsed<T: std::str::FromStr>(&self, at: usize, what: &str) -> Result<Option<T>, MalformedOutput> {
        let text = self.text(at);
        if is_absent(text) {
            return Ok(None);
        }
        let digits = text.strip_suffix(['%', 'x']).unwrap_or(text);
        digits.parse().map(Some).map_err(|_| self.malformed(format!("{text:?} is not {what}")))
    }

    /// The error that this row is malformed.
    pub(super) fn malformed(&self, cause: impl Into<String>) -> MalformedOutput {
        MalformedOutput::new(self.line, cause)
    }
}

/// Whether a field has no value.
pub(super) fn is_absent(text: &str) -> bool {
    matches!(text, "-" | "none" | "")
}

/// Parses a number with a binary suffix, which is rounded to three digits: `1.45G`, `512B`, `0B`, `300K`.
pub(super) fn parse_rounded(text: &str) -> Option<u64> {
    let text = text.strip_suffix('B').unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let shift = match suffix {
        "" => 0,
        _ => 10 * (1 + "KMGTPEZ".find(suffix).filter(|_| suffix.len() == 1)?),
    };
    if let Ok(whole) = digits.parse::<u64>() {
        return whole.checked_mul(1_u64.checked_shl(shift as u32)?);
    }
    let value = digits.parse::<f64>().ok()? * (shift as f64).exp2();
    (value < u64::MAX as f64).then_some(value.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounded_numbers() {
        assert_eq!(parse_rounded("0B"), Some(0));
        assert_eq!(parse_rounded("512B"), Some(512));
        assert_eq!(parse_rounded("300K"), Some(300 << 10));
        assert_eq!(parse_rounded("1.50G"), Some(3 << 29));
        assert_eq!(parse_rounded("17"), Some(17));
        for text in ["", "B", "K", "1.2.3G", "1KM", "x", "-1", "99999999999999999999Z", "16E", "1é"] {
            assert_eq!(parse_rounded(text), None, "{text}");
        }
    }

    #[test]
    fn fields() {
        let rows: Vec<_> = Row::all("a\t12%\t1.50x\n\nb\t-\t-\n", 3).collect::<Result<_, _>>().unwrap();
        assert_eq!(rows[0].number(1), Ok(Some(12)));
        assert_eq!(rows[0].ratio(2), Ok(Some(1.5)));
        assert_eq!(rows[1].malformed("x").to_string(), "line 3: x");
        assert_eq!((rows[1].number(1), rows[1].ratio(2)), (Ok(None), Ok(None)));
        assert_eq!(rows[0].number(0), Err(MalformedOutput::new(1, "\"a\" is not a number")));
        assert_eq!(
            Row::all("a\tb\n", 3).next().unwrap().err().unwrap().to_string(),
            "line 1: 2 fields instead of 3"
        );
    }
}
