//! The handshake: negotiation of version, flags and sizes with the kernel.

use super::wire::{self, InitIn, InitOut, init};

/// Optional features that the server requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// The kernel may keep dirty pages and write them back later.
    pub writeback: bool,
    /// Requests arrive through io_uring if the kernel offers it.
    pub uring: bool,
}

/// The result of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Negotiated {
    /// The protocol's minor version.
    pub minor: u32,
    /// Flags that both sides support.
    pub flags: u64,
    /// Maximum size of one READ or WRITE, in bytes.
    pub max_write: u32,
}

impl Negotiated {
    /// Whether both sides support this flag.
    pub fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }
}

/// Size of the largest WRITE in bytes: the kernel's limit without privilege (`fs.fuse.max_pages_limit`).
pub const MAX_WRITE: u32 = 1 << 20;
/// Without `MAX_PAGES` the kernel sends 32 pages at most.
const PLAIN_WRITE: u32 = 128 << 10;

/// The answer to `INIT`; `None` if the kernel is too old or has another major version.
pub fn answer_init(kernel: &InitIn, flags2: u32, wanted: Wanted) -> Option<(Negotiated, InitOut)> {
    if kernel.major != wire::MAJOR || kernel.minor < wire::MIN_MINOR {
        return None;
    }
    // Not ATOMIC_O_TRUNC: the kernel would send the truncating open before it checks whether the file is a running
    // program (ETXTBSY), and the open would empty the program.
    let mut want = init::ASYNC_READ
        | init::EXPORT_SUPPORT
        | init::BIG_WRITES
        | init::DO_READDIRPLUS
        | init::READDIRPLUS_AUTO
        | init::ASYNC_DIO
        | init::PARALLEL_DIROPS
        | init::MAX_PAGES
        | init::CACHE_SYMLINKS
        | init::EXPLICIT_INVAL_DATA
        | init::HANDLE_KILLPRIV_V2
        | init::INIT_EXT
        | init::DIRECT_IO_ALLOW_MMAP;
    if wanted.writeback {
        want |= init::WRITEBACK_CACHE;
    }
    if wanted.uring {
        want |= init::OVER_IO_URING;
    }
    let flags = want & (u64::from(kernel.flags) | u64::from(flags2) << 32);
    let max_write = if flags & init::MAX_PAGES != 0 { MAX_WRITE } else { PLAIN_WRITE };
    let agreed = Negotiated { minor: kernel.minor.min(wire::MINOR), flags, max_write };
    let out = InitOut {
        major: wire::MAJOR,
        minor: agreed.minor,
        max_readahead: kernel.max_readahead,
        flags: flags as u32,
        max_background: 64,
        congestion_threshold: 48,
        max_write,
        time_gran: 1,
        max_pages: (max_write / 4096) as u16,
        flags2: (flags >> 32) as u32,
        ..InitOut::default()
    };
    Some((agreed, out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_both_know() {
        let kernel = InitIn { major: 7, minor: 45, max_readahead: 131_072, flags: u32::MAX };
        let (agreed, out) = answer_init(&kernel, u32::MAX, Wanted::default()).unwrap();
        assert_eq!((agreed.minor, agreed.max_write, out.max_pages), (wire::MINOR, 1 << 20, 256));
        assert!(agreed.has(init::DIRECT_IO_ALLOW_MMAP) && !agreed.has(init::WRITEBACK_CACHE));
        assert_eq!(out.flags2, (init::DIRECT_IO_ALLOW_MMAP >> 32) as u32);

        let old = InitIn { minor: 31, flags: init::BIG_WRITES as u32, ..kernel };
        let (agreed, _) = answer_init(&old, 0, Wanted { writeback: true, uring: true }).unwrap();
        assert_eq!((agreed.flags, agreed.max_write), (init::BIG_WRITES, PLAIN_WRITE));
        assert!(answer_init(&InitIn { minor: 30, ..kernel }, 0, Wanted::default()).is_none());
        assert!(answer_init(&InitIn { major: 8, ..kernel }, 0, Wanted::default()).is_none());
    }
}
