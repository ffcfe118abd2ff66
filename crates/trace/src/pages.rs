//! Checks the pages of a column before they are decoded, because the decoder allocates as much memory as a page's
//! header claims.
//!
//! A page header is a Thrift structure in the compact protocol. Only the fields that determine allocations are parsed;
//! the others are skipped.

/// The maximum uncompressed size of one column of one row group, in bytes.
pub(crate) const COLUMN_LIMIT: u64 = 64 << 20;

/// Encodings that the reader decodes (`Encoding` in `parquet.thrift`): plain, dictionaries, run lengths, deltas of
/// integers.
const ENCODINGS: [i64; 5] = [0, 2, 3, 5, 8];

/// The maximum depth of nested structures; more than any valid page header has.
const DEPTH: u32 = 16;

/// The claims of a page's header.
#[derive(Debug, Default, PartialEq)]
struct Page {
    unpacked: i64,
    packed: i64,
    values: i64,
    encoding: i64,
}

/// Checks that the pages fill the column chunk, that no page claims more values than `rows`, and that their total size
/// is at most [`COLUMN_LIMIT`].
pub(crate) fn check(chunk: &[u8], rows: u64) -> Result<(), String> {
    let mut rest = chunk;
    let mut unpacked = 0u64;
    while !rest.is_empty() {
        let mut input = Input(rest);
        let page = input.page().ok_or("a page's header cannot be read")?;
        let packed = usize::try_from(page.packed).ok().filter(|packed| *packed <= input.0.len());
        let packed =
            packed.ok_or_else(|| format!("a page of {} bytes reaches beyond its column", page.packed))?;
        unpacked = u64::try_from(page.unpacked)
            .ok()
            .and_then(|more| unpacked.checked_add(more))
            .filter(|sum| *sum <= COLUMN_LIMIT)
            .ok_or_else(|| format!("its pages claim more than {COLUMN_LIMIT} bytes"))?;
        if u64::try_from(page.values).map_or(true, |values| values > rows) {
            return Err(format!("a page claims {} values, of {rows} rows", page.values));
        }
        if !ENCODINGS.contains(&page.encoding) {
            return Err(format!("a page has the encoding {}, which traces do not use", page.encoding));
        }
        rest = &input.0[packed..];
    }
    Ok(())
}

/// The remaining input. Every method returns `None` if the input ends too early.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn skip(&mut self, len: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(len).ok()?..)?;
        Some(())
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn integer(&mut self) -> Option<i64> {
        let zigzag = self.varint()?;
        Some((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
    }

    /// Returns the type and number of a structure's next field; type 0 ends the structure.
    fn field(&mut self, last: i64) -> Option<(u8, i64)> {
        let head = self.byte()?;
        let number = match head >> 4 {
            0 if head == 0 => 0,
            0 => self.integer()?,
            step => last.checked_add(i64::from(step))?,
        };
        Some((head & 15, number))
    }

    /// Calls `each` with the type and number of every field; `each` must read or skip the value.
    fn structure(&mut self, mut each: impl FnMut(&mut Self, u8, i64) -> Option<()>) -> Option<()> {
        let mut last = 0;
        loop {
            let (kind, number) = self.field(last)?;
            if kind == 0 {
                return Some(());
            }
            each(self, kind, number)?;
            last = number;
        }
    }

    fn page(&mut self) -> Option<Page> {
        let mut page = Page::default();
        self.structure(|input, kind, number| {
            match (number, kind) {
                (2, 5) => page.unpacked = input.integer()?,
                (3, 5) => page.packed = input.integer()?,
                // The encoding's field in the headers of data pages, dictionary pages and data pages of version 2.
                (5 | 7, 12) => input.values(&mut page, 2)?,
                (8, 12) => input.values(&mut page, 4)?,
                _ => input.skip_value(kind, DEPTH)?,
            }
            Some(())
        })?;
        Some(page)
    }

    fn values(&mut self, page: &mut Page, encoding: i64) -> Option<()> {
        self.structure(|input, kind, number| {
            match (number, kind) {
                (1, 5) => page.values = input.integer()?,
                (n, 5) if n == encoding => page.encoding = input.integer()?,
                _ => input.skip_value(kind, DEPTH)?,
            }
            Some(())
        })
    }

    fn skip_value(&mut self, kind: u8, depth: u32) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            1 | 2 => Some(()), // a boolean's value is in its type
            3 => self.skip(1),
            4..=6 => self.varint().map(drop),
            7 => self.skip(8),
            8 => {
                let len = self.varint()?;
                self.skip(len)
            }
            9 | 10 => {
                let head = self.byte()?;
                let len = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
                (0..len).try_for_each(|_| self.skip_element(head & 15, depth))
            }
            11 => {
                let len = self.varint()?;
                let kinds = if len == 0 { 0 } else { self.byte()? };
                (0..len).try_for_each(|_| {
                    self.skip_element(kinds >> 4, depth)?;
                    self.skip_element(kinds & 15, depth)
                })
            }
            12 => self.structure(|input, kind, _| input.skip_value(kind, depth)),
            _ => None,
        }
    }

    /// Skips an element of a list or map. Unlike in a structure, a boolean takes a byte here. Every element takes at
    /// least one byte, so a false length ends with the input.
    fn skip_element(&mut self, kind: u8, depth: u32) -> Option<()> {
        if matches!(kind, 1 | 2) { self.skip(1) } else { self.skip_value(kind, depth) }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn varint(mut value: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while value >= 0x80 {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    }

    fn integer(value: i64) -> Vec<u8> {
        varint(((value << 1) ^ (value >> 63)) as u64)
    }

    /// Returns a page header: sizes, then the header of a data page, which begins with the number of values and their
    /// encoding.
    fn page(unpacked: i64, packed: i64, values: i64, encoding: i64) -> Vec<u8> {
        header(false, unpacked, packed, values, encoding)
    }

    /// Returns the header of a dictionary page (field 7) or of a data page of version 1 (field 5).
    pub fn header(dictionary: bool, unpacked: i64, packed: i64, values: i64, encoding: i64) -> Vec<u8> {
        let fields = [vec![0x15], integer(values), vec![0x15], integer(encoding)].concat();
        let (kind, number, levels) = match dictionary {
            true => (2, 0x4c, vec![0]),
            false => (0, 0x2c, vec![0x15, 6, 0x15, 6, 0]),
        };
        let sizes =
            [vec![0x15], integer(kind), vec![0x15], integer(unpacked), vec![0x15], integer(packed)].concat();
        [sizes, vec![number], fields, levels, vec![0]].concat()
    }

    #[test]
    fn honest_pages_pass_and_claims_do_not() {
        let body = vec![7; 40];
        let chunk = |header: Vec<u8>| [header, body.clone()].concat();
        assert_eq!(check(&chunk(page(400, 40, 100, 0)), 100), Ok(()));
        assert_eq!(check(&[chunk(page(400, 40, 50, 0)), chunk(page(8, 40, 50, 8))].concat(), 100), Ok(()));
        for (header, word) in [
            (page(i64::from(i32::MAX), 40, 100, 0), "more than"),
            (page(-1, 40, 100, 0), "more than"),
            (page(400, 41, 100, 0), "beyond"),
            (page(400, -1, 100, 0), "beyond"),
            (page(400, 40, 1 << 30, 0), "values"),
            (page(400, 40, -1, 0), "values"),
            (page(400, 40, 100, 6), "encoding"),
            (vec![0x15], "cannot be read"),
            // A binary value that claims more bytes than the input has.
            ([vec![0x18], varint(u64::MAX)].concat(), "cannot be read"),
            // Nested lists.
            (vec![0x19; 100], "cannot be read"),
        ] {
            let why = check(&chunk(header), 100).unwrap_err();
            assert!(why.contains(word), "{word}: {why}");
        }
        let half = COLUMN_LIMIT as i64 / 2 + 1;
        let two = [chunk(page(half, 40, 1, 0)), chunk(page(half, 40, 1, 0))].concat();
        assert!(check(&two, 100).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_pages_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = check(&bytes, 1000);
        }
    }
}
