//! `.lis`: the block traces of the ARC paper (Megiddo and Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache",
//! FAST '03). Each line is one request: first block, number of blocks, an ignored number, number of the request. A
//! block is a page of 512 bytes in one address space. There are no times, and reads and writes are not distinguished.

use super::source::{Source, malformed};
use super::{CHUNK, Input, LONGEST, Skipped, Unit};
use crate::{END, Extent, Kind, Result};

/// Bytes of a block.
pub const BLOCK: u64 = 512;

/// The longest line in bytes; a valid one has four numbers of at most 20 digits.
const MAX_LINE: usize = 1 << 10;

/// A `.lis` file being read.
pub(super) struct Lis {
    source: Source,
    /// The last line, and its number.
    text: Vec<u8>,
    line: u64,
    skipped: Skipped,
}

impl Lis {
    pub(super) fn new(source: Source) -> Lis {
        Lis { source, text: Vec::new(), line: 0, skipped: Skipped::default() }
    }

    /// Whether a file that begins with `head` may be of this format.
    pub(super) fn recognises(head: &[u8]) -> bool {
        let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
        parse(first).is_ok_and(|numbers| numbers.is_some())
    }

    fn error(&self, why: impl Into<String>) -> crate::Error {
        malformed(self.source.path(), format!("line {}", self.line), why)
    }

    fn extent(&mut self, [first, blocks, ..]: [u64; 4]) -> Option<Extent> {
        let (offset, len) = (first.saturating_mul(BLOCK), blocks.saturating_mul(BLOCK));
        let counter = match () {
            () if blocks == 0 => &mut self.skipped.zero_length,
            () if len > LONGEST => &mut self.skipped.too_long,
            () if offset.saturating_add(len) > END => &mut self.skipped.too_far,
            () => return Some(Extent { t_ns: 0, file: 0, offset, len, kind: Kind::Read }),
        };
        *counter += 1;
        None
    }
}

impl Input for Lis {
    fn format(&self) -> &'static str {
        "lis"
    }

    fn unit(&self) -> Unit {
        Unit::Bytes { recordsize: BLOCK }
    }

    fn read(&mut self, extents: &mut Vec<Extent>) -> Result<()> {
        extents.clear();
        while extents.len() < CHUNK {
            self.source.line(MAX_LINE as u64 + 1, &mut self.text)?;
            if self.text.is_empty() {
                break;
            }
            self.line += 1;
            if self.text.len() > MAX_LINE && !self.text.ends_with(b"\n") {
                return Err(self.error("the line is longer than four numbers"));
            }
            match parse(&self.text) {
                Ok(Some(numbers)) => extents.extend(self.extent(numbers)),
                Ok(None) => {}
                Err(why) => return Err(self.error(why)),
            }
        }
        Ok(())
    }

    fn skipped(&self) -> Skipped {
        self.skipped
    }

    fn duration_ns(&self) -> u64 {
        0
    }

    fn progress(&self) -> Option<f64> {
        Some(self.source.progress())
    }
}

/// The four numbers of a line, limited to 2^64 - 1; `None` for an empty line.
fn parse(line: &[u8]) -> std::result::Result<Option<[u64; 4]>, String> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    let mut numbers = [0; 4];
    let mut found = 0;
    for word in line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
        if found < 4 {
            numbers[found] = number(word)?;
        }
        found += 1;
    }
    if found == 4 {
        return Ok(Some(numbers));
    }
    let numbers = if found == 1 { "1 field".to_owned() } else { format!("{found} fields") };
    Err(format!("{numbers}, expected 4: first block, number of blocks, ignored, number of the request"))
}

fn number(word: &[u8]) -> std::result::Result<u64, String> {
    let mut value = 0u64;
    for byte in word {
        if !byte.is_ascii_digit() {
            return Err(format!("{:?} is not a number", String::from_utf8_lossy(word)));
        }
        value = value.saturating_mul(10).saturating_add(u64::from(byte - b'0'));
    }
    Ok(value)
}
