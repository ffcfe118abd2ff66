//! The names of the files of PostgreSQL's log.

/// A file of PostgreSQL's log, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalFile {
    /// A segment.
    Segment(SegmentPlace),
    /// The last segment of a timeline that ended in it.
    Partial(SegmentPlace),
    /// The description of an online backup that began in this segment.
    BackupLabel(SegmentPlace),
    /// How a timeline began.
    TimelineHistory,
}

/// The position of a segment in the log. The order is by timeline, then by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentPlace {
    /// The timeline.
    pub timeline: u32,
    /// The upper and the lower 32 bits of this are the second and the third part of the name.
    pub position: u64,
}

impl WalFile {
    /// The file with this name; `None` for another name.
    pub fn parse(name: &str) -> Option<WalFile> {
        let place = SegmentPlace::parse;
        match name.split_once('.') {
            None => place(name).map(WalFile::Segment),
            Some((segment, "partial")) => place(segment).map(WalFile::Partial),
            Some((timeline, "history")) => hexadecimal(timeline, 8).map(|_| WalFile::TimelineHistory),
            Some((segment, rest)) => {
                let offset = rest.strip_suffix(".backup")?;
                hexadecimal(offset, 8).and_then(|_| place(segment)).map(WalFile::BackupLabel)
            }
        }
    }

    /// The segment that the file has or belongs to.
    pub fn place(self) -> Option<SegmentPlace> {
        match self {
            WalFile::Segment(place) | WalFile::Partial(place) | WalFile::BackupLabel(place) => Some(place),
            WalFile::TimelineHistory => None,
        }
    }
}

impl SegmentPlace {
    fn parse(name: &str) -> Option<SegmentPlace> {
        if name.len() != 24 {
            return None;
        }
        let timeline = hexadecimal(name.get(..8)?, 8)?;
        let (upper, lower) = (hexadecimal(name.get(8..16)?, 8)?, hexadecimal(name.get(16..)?, 8)?);
        Some(SegmentPlace { timeline, position: (u64::from(upper) << 32) | u64::from(lower) })
    }

    /// The segment with this byte of the log.
    pub fn of_byte(timeline: u32, byte: u64, segment_size: u32) -> SegmentPlace {
        let (upper, lower) = (byte >> 32 << 32, byte & u64::from(u32::MAX));
        let position = upper | (lower / u64::from(segment_size.max(1)));
        SegmentPlace { timeline, position }
    }

    /// The first byte of the segment in the log.
    pub fn first_byte(self, segment_size: u32) -> u64 {
        (self.position >> 32 << 32) + (self.position & u64::from(u32::MAX)) * u64::from(segment_size)
    }

    /// The next segment of the timeline.
    pub fn next(self, segment_size: u32) -> SegmentPlace {
        let byte = self.first_byte(segment_size).saturating_add(u64::from(segment_size));
        SegmentPlace::of_byte(self.timeline, byte, segment_size)
    }
}

impl std::fmt::Display for SegmentPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:08X}{:08X}{:08X}",
            self.timeline,
            self.position >> 32,
            self.position & u64::from(u32::MAX)
        )
    }
}

/// A number of this many hexadecimal digits, as PostgreSQL writes it.
fn hexadecimal(text: &str, digits: usize) -> Option<u32> {
    let is_digit = |c: u8| c.is_ascii_digit() || (b'A'..=b'F').contains(&c);
    (text.len() == digits && text.bytes().all(is_digit)).then(|| u32::from_str_radix(text, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_log() {
        let place = SegmentPlace { timeline: 1, position: 0xA_0000_00FE };
        let name = "000000010000000A000000FE";
        assert_eq!(place.to_string(), name);
        assert_eq!(WalFile::parse(name), Some(WalFile::Segment(place)));
        assert_eq!(WalFile::parse("000000010000000A000000FE.partial"), Some(WalFile::Partial(place)));
        assert_eq!(
            WalFile::parse("000000010000000A000000FE.00000028.backup"),
            Some(WalFile::BackupLabel(place))
        );
        assert_eq!(WalFile::parse("00000002.history"), Some(WalFile::TimelineHistory));
        for other in [
            "",
            "archive_status",
            "00000001",
            "000000010000000a000000fe",
            "000000010000000A000000FE.history",
            "000000010000000A000000FE.gz",
            "00000002.history.tmp",
            "../010000000A000000FE0000",
            "000000010000000A000000FE0",
            "000000010000000A000000FE.backup",
            "+00000010000000A000000FE",
            "00000001é000000A000000F",
        ] {
            assert_eq!(WalFile::parse(other), None, "{other:?}");
        }
    }

    #[test]
    fn segments_follow_each_other() {
        const MIB: u32 = 1 << 20;
        let last = SegmentPlace { timeline: 3, position: 0x1_0000_00FF };
        assert_eq!(last.next(16 * MIB), SegmentPlace { timeline: 3, position: 0x2_0000_0000 });
        assert_eq!(last.next(MIB), SegmentPlace { timeline: 3, position: 0x1_0000_0100 });
        assert_eq!(last.first_byte(16 * MIB), 0x1_FF00_0000);
        for size in [MIB, 16 * MIB, 1 << 30] {
            let mut place = SegmentPlace::of_byte(3, 0x1_2345_6789, size);
            for _ in 0..5000 {
                assert_eq!(SegmentPlace::of_byte(3, place.first_byte(size), size), place);
                assert_eq!(place.next(size).first_byte(size) - place.first_byte(size), u64::from(size));
                assert!(place < place.next(size));
                place = place.next(size);
            }
        }
    }
}
