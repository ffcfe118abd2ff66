//! Encodings that the readers of foreign files do not decode, recognised by their first bytes.

/// An encoding of a whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// gzip (RFC 1952).
    Gzip,
    /// bzip2.
    Bzip2,
    /// xz.
    Xz,
    /// An lz4 frame.
    Lz4,
    /// zstd (RFC 8878).
    Zstd,
    /// A zip archive.
    Zip,
    /// UTF-16, with a byte-order mark or without.
    Utf16,
    /// UTF-8 with a byte-order mark.
    ByteOrderMark,
}

const MAGIC: [(&[u8], Encoding); 11] = [
    (&[0x1f, 0x8b], Encoding::Gzip),
    (b"BZh", Encoding::Bzip2),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], Encoding::Xz),
    (&[0x04, 0x22, 0x4d, 0x18], Encoding::Lz4),
    (&[0x28, 0xb5, 0x2f, 0xfd], Encoding::Zstd),
    (b"PK\x03\x04", Encoding::Zip),
    (&[0xff, 0xfe], Encoding::Utf16),
    (&[0xfe, 0xff], Encoding::Utf16),
    (b"f\0i\0o\0", Encoding::Utf16),
    (b"\0f\0i\0o", Encoding::Utf16),
    (&[0xef, 0xbb, 0xbf], Encoding::ByteOrderMark),
];

impl Encoding {
    /// The encoding of a file that begins with `head`.
    pub fn of(head: &[u8]) -> Option<Encoding> {
        MAGIC.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, encoding)| *encoding)
    }

    /// What the file is: `… is {this}`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Encoding::Gzip => "compressed by gzip",
            Encoding::Bzip2 => "compressed by bzip2",
            Encoding::Xz => "compressed by xz",
            Encoding::Lz4 => "compressed by lz4",
            Encoding::Zstd => "compressed by zstd",
            Encoding::Zip => "a zip archive",
            Encoding::Utf16 => "text in UTF-16",
            Encoding::ByteOrderMark => "text with a byte-order mark",
        }
    }

    /// The command that decodes standard input.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Encoding::Gzip => "gzip -dc",
            Encoding::Bzip2 => "bzip2 -dc",
            Encoding::Xz => "xz -dc",
            Encoding::Lz4 => "lz4 -dc",
            Encoding::Zstd => "zstd -dc",
            Encoding::Zip => "funzip",
            Encoding::Utf16 => "iconv -f UTF-16 -t UTF-8",
            Encoding::ByteOrderMark => "tail -c +4",
        }
    }
}
