//! The manifest: one line for each name of a tree, the same whether the engine or a kernel reads it.
//!
//! Fields, separated by tabs: dataset and path, object number, type, permissions, uid, gid, size, links, device, time of the
//! last change of content, block size (of files with more than one block), content, extended attributes. Content is a
//! symbolic link's target, or the SHA-256 over a file's non-zero pages and their offsets, so that it does not matter what
//! is a hole and a sparse file costs only its data.

use sha2::{Digest as _, Sha256};

const PAGE: usize = 4096;

/// What a name leads to, as either side knows it.
#[derive(Default)]
pub struct Facts {
    pub object: u64,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    pub links: u64,
    pub device: (u32, u32),
    pub mtime: (i64, u32),
    pub block_size: u64,
    pub content: String,
    /// Names and values.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Facts {
    pub fn line(&mut self, dataset: &str, path: &[u8]) -> String {
        let kind = match self.mode >> 12 {
            0o01 => "fifo",
            0o02 => "char",
            0o04 => "dir",
            0o06 => "block",
            0o10 => "file",
            0o12 => "link",
            0o14 => "socket",
            _ => "unknown",
        };
        let device = if matches!(kind, "char" | "block") {
            format!("{}:{}", self.device.0, self.device.1)
        } else {
            "-".into()
        };
        let block = if kind == "file" && self.size > self.block_size {
            self.block_size.to_string()
        } else {
            "-".into()
        };
        format!(
            "{dataset}:/{}\t{}\t{kind}\t{:04o}\t{}\t{}\t{}\t{}\t{device}\t{}.{:09}\t{block}\t{}\t{}",
            plain(path),
            self.object,
            self.mode & 0o7777,
            self.uid,
            self.gid,
            self.size,
            self.links,
            self.mtime.0,
            self.mtime.1,
            if self.content.is_empty() { "-" } else { &self.content },
            xattrs(&mut self.xattrs),
        )
    }
}

fn xattrs(all: &mut [(Vec<u8>, Vec<u8>)]) -> String {
    if all.is_empty() {
        return "-".into();
    }
    all.sort();
    let one = |(name, value): &(Vec<u8>, Vec<u8>)| {
        let mut sum = Sha256::new();
        sum.update(value);
        format!("{}={}/{}", plain(name), value.len(), &hex(sum)[..16])
    };
    all.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn hex(sum: Sha256) -> String {
    sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes as one printable word.
pub fn plain(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'!'..=b'~' if *byte != b'\\' => out.push(*byte as char),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out
}

/// Sums up a file's content. Data is given in order of its offset; each piece starts on a page boundary.
pub struct Content {
    sum: Sha256,
}

impl Content {
    pub fn new() -> Content {
        Content { sum: Sha256::new() }
    }

    pub fn data(&mut self, offset: u64, data: &[u8]) {
        assert_eq!(offset % PAGE as u64, 0, "a piece starts on a page boundary");
        for (n, page) in data.chunks(PAGE).enumerate() {
            if page.iter().any(|byte| *byte != 0) {
                self.sum.update((offset + (n * PAGE) as u64).to_le_bytes());
                // trailing zeros are no content either: the page may be cut by the end of the file
                let end = page.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
                self.sum.update(&page[..end]);
                self.sum.update([0]);
            }
        }
    }

    pub fn hex(self) -> String {
        hex(self.sum)
    }
}
