//! Decodes the programs' records, whose layout `bpf/record.h` defines.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use poolwright_trace::{Flags, Gap, Op};

/// `NAMES_BYTES`, `USER_PATH` and `NO_ROOT` of `bpf/record.h`.
const NAMES_BYTES: usize = 16384;
const USER_PATH: usize = 4096;
const NO_ROOT: u16 = 0xffff;

/// The sizes of the records in bytes: without their names, of which only the used part is sent.
const GAP: usize = 32;
const IO: usize = 48 + GAP;
const PATH: usize = 12;
const FILE: usize = 32 + PATH + 4;
const PENDING: usize = 40;
const NAME: usize = 40 + GAP + 2 * PATH + 8;

/// The numbers of name records that are not operations of a trace.
const LINK: u8 = 200;
const SYMLINK: u8 = 201;

/// A record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Io(Io),
    File(NewFile),
    Name(Box<Name>),
}

/// A finished operation. Times are in nanoseconds of the kernel's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Io {
    pub op: Op,
    pub flags: Flags,
    pub file: u32,
    pub t: u64,
    pub dur: u64,
    pub off: u64,
    pub len: u64,
    pub pid: u32,
    pub tid: u32,
    pub gap: Option<Gap>,
}

/// A file seen for the first time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NewFile {
    pub file: u32,
    pub ino: u64,
    pub size: u64,
    pub pid: u32,
    /// The number of its names.
    pub links: u32,
    pub location: EntryPath,
}

/// The position of a directory entry: its names below a followed directory, or below the root of its file system.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EntryPath {
    /// The number of the followed directory.
    pub root: Option<u16>,
    /// The kernel's device number, with the major number in the upper 12 bits.
    pub dev: u32,
    /// The names, outermost first.
    pub names: Vec<OsString>,
    /// Whether the outer names are missing because the path was too long or too deep.
    pub truncated: bool,
}

/// The effect of a call with file names as arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// An operation of a trace.
    Op(Op),
    /// The first name's file got the second name.
    Link,
    /// A symbolic link was made.
    Symlink,
}

/// A call with file names as arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub what: Naming,
    pub pid: u32,
    pub tid: u32,
    pub t: u64,
    pub dur: u64,
    /// The flags of a rename, or the length of a truncate in bytes.
    pub arg: u64,
    pub gap: Option<Gap>,
    pub from_dir: EntryPath,
    pub from: OsString,
    pub to_dir: EntryPath,
    /// The second name; empty if the call has only one.
    pub to: OsString,
    /// Whether a name is cut.
    pub cut: bool,
}

/// Decodes one record. Returns `None` if it is invalid, for example if programs and recorder are of different builds.
pub(crate) fn decode(bytes: &[u8]) -> Option<Record> {
    match (bytes.first()?, bytes.len()) {
        (1, IO) => io(bytes).map(Record::Io),
        (2, FILE..) => new_file(bytes).map(Record::File),
        (3, NAME..) => name(bytes).map(|n| Record::Name(Box::new(n))),
        _ => None,
    }
}

/// The number of an operation is its position in [`Op::ALL`] (`enum op` of `bpf/record.h`).
fn io(b: &[u8]) -> Option<Io> {
    Some(Io {
        op: *Op::ALL.get(usize::from(b[1]))?,
        flags: Flags(u16_at(b, 2)),
        file: u32_at(b, 4),
        t: u64_at(b, 8),
        dur: u64_at(b, 16),
        off: u64_at(b, 24),
        len: u64_at(b, 32),
        pid: u32_at(b, 40),
        tid: u32_at(b, 44),
        gap: gap(&b[48..]),
    })
}

fn gap(b: &[u8]) -> Option<Gap> {
    let known = u32_at(b, 24) != 0;
    let gap = Gap {
        cpu_ns: u64_at(b, 0),
        ready_ns: u32_at(b, 8),
        wake_ns: u32_at(b, 12),
        waker: u32_at(b, 16),
        served_ns: u32_at(b, 20),
    };
    known.then_some(gap)
}

fn new_file(b: &[u8]) -> Option<NewFile> {
    Some(NewFile {
        file: u32_at(b, 4),
        ino: u64_at(b, 8),
        size: u64_at(b, 16),
        pid: u32_at(b, 24),
        links: u32_at(b, 28),
        location: location(&b[32..], &mut &b[FILE..])?,
    })
}

fn name(b: &[u8]) -> Option<Name> {
    let what = match b[1] {
        LINK => Naming::Link,
        SYMLINK => Naming::Symlink,
        op => Naming::Op(*Op::ALL.get(usize::from(op))?),
    };
    let places = 40 + GAP;
    let mut names = &b[NAME..];
    let from_dir = location(&b[places..], &mut names)?;
    let to_dir = location(&b[places + PATH..], &mut names)?;
    let [from_len, to_len] = [0, 4].map(|at| u32_at(b, places + 2 * PATH + at) as usize);
    Some(Name {
        what,
        pid: u32_at(b, 4),
        tid: u32_at(b, 8),
        t: u64_at(b, 16),
        dur: u64_at(b, 24),
        arg: u64_at(b, 32),
        gap: gap(&b[40..]),
        from_dir,
        to_dir,
        from: c_string(names.split_off(..from_len)?),
        to: c_string(names.split_off(..to_len)?),
        cut: from_len.max(to_len) >= USER_PATH || b.len() >= NAME + NAMES_BYTES,
    })
}

/// Decodes an entry, and takes its names from `names`: innermost first, each a word with its length, and the name padded to eight
/// bytes.
fn location(b: &[u8], names: &mut &[u8]) -> Option<EntryPath> {
    let count = u32_at(b, 8) as usize;
    let mut parts = Vec::new();
    for _ in 0..count {
        let len = u64_at(names.split_off(..8)?, 0) as usize;
        let padded = names.split_off(..len.checked_next_multiple_of(8)?)?;
        parts.push(OsStr::from_bytes(&padded[..len]).to_owned());
    }
    parts.reverse();
    let root = u16_at(b, 0);
    let root = (root != NO_ROOT).then_some(root);
    Some(EntryPath { root, dev: u32_at(b, 4), names: parts, truncated: u16_at(b, 2) != 0 })
}

fn c_string(b: &[u8]) -> OsString {
    let end = b.iter().position(|&byte| byte == 0).unwrap_or(b.len());
    OsStr::from_bytes(&b[..end]).to_owned()
}

fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(b[at..at + 2].try_into().expect("two bytes"))
}

fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(b[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(b[at..at + 8].try_into().expect("eight bytes"))
}

/// Decodes a request that was in flight when the recording ended: `struct pending` of `bpf/record.h`.
pub(crate) fn decode_pending(b: &[u8]) -> Option<Io> {
    if b.len() != PENDING {
        return None;
    }
    let op = *Op::ALL.get(usize::from(b[36]))?;
    Some(Io {
        op,
        flags: Flags(u16_at(b, 38)),
        file: u32_at(b, 24),
        t: u64_at(b, 0),
        dur: 0,
        off: u64_at(b, 8),
        len: u64_at(b, 16),
        pid: u32_at(b, 28),
        tid: u32_at(b, 32),
        gap: None,
    })
}

/// Decodes a request of a block device that was in flight when the recording ended. A write can be preceded by a flush (`FLUSHES` of
/// `bpf/block.bpf.c`). Empty for a request whose event has been emitted, or which has failed: its file is 0.
pub(crate) fn decode_request(b: &[u8]) -> Vec<Io> {
    // `struct request_in_flight`: the rest is the number of bytes that have not ended.
    let Some(io) = b.get(..PENDING).and_then(decode_pending).filter(|io| io.file != 0) else {
        return Vec::new();
    };
    let flush = (b[37] != 0).then_some(Io { op: Op::Fsync, flags: Flags::default(), off: 0, len: 0, ..io });
    flush.into_iter().chain([io]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The compiler's debug information contains the sizes on the C side.
    #[test]
    fn records_have_the_sizes_of_the_c_side() {
        use libbpf_rs::HasSize as _;
        use libbpf_rs::btf::{Btf, types::Struct};
        let object = concat!(env!("OUT_DIR"), "/syscall.bpf.o");
        let btf = Btf::from_path(object).expect("the object carries BTF");
        for (name, size) in [
            ("gap", GAP),
            ("rec_io", IO),
            ("rec_path", PATH),
            ("rec_file", FILE + NAMES_BYTES),
            ("rec_name", NAME + NAMES_BYTES),
            ("pending", PENDING),
            ("control", 16),
        ] {
            let found = btf.type_by_name::<Struct<'_>>(name).unwrap_or_else(|| panic!("no struct {name}"));
            assert_eq!(found.size(), size, "struct {name}");
        }
    }

    #[test]
    fn names_are_put_outermost_first() {
        let mut b = vec![0u8; PATH];
        (b[0], b[8]) = (3, 2);
        let mut names = Vec::new();
        for name in [&b"ibdata\xff"[..], b"db"] {
            names.extend((name.len() as u64).to_ne_bytes());
            names.extend(name);
            names.resize(names.len().next_multiple_of(8), 0);
        }
        names.extend(b"rest");
        let mut rest = names.as_slice();
        let found = location(&b, &mut rest).unwrap();
        assert_eq!(
            found.names,
            [OsStr::new("db"), OsStr::from_bytes(b"ibdata\xff")],
            "names keep their bytes"
        );
        assert_eq!((found.root, rest), (Some(3), &b"rest"[..]));
        assert_eq!(location(&b, &mut &names[..30]), None, "a name that is not there");
        names[..8].fill(0xff);
        assert_eq!(location(&b, &mut names.as_slice()), None, "an impossible length");
    }

    #[test]
    fn a_gap_is_read_where_the_record_says_that_it_is_known() {
        let mut b = vec![0u8; IO];
        (b[0], b[1]) = (1, 1);
        b[48..56].copy_from_slice(&(1u64 << 40).to_ne_bytes());
        for (at, value) in [(56, 5u32), (60, 6), (64, Gap::OTHER), (68, 7)] {
            b[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        let gap = |b: &[u8]| match decode(b) {
            Some(Record::Io(io)) => io.gap,
            other => panic!("{other:?}"),
        };
        assert_eq!(gap(&b), None);
        b[72] = 1;
        let expected = Gap { cpu_ns: 1 << 40, ready_ns: 5, wake_ns: 6, waker: Gap::OTHER, served_ns: 7 };
        assert_eq!(gap(&b), Some(expected));
    }

    #[test]
    fn foreign_bytes_are_refused() {
        assert_eq!(decode(&[]), None);
        assert_eq!(decode(&[1; 20]), None);
        let mut wrong_op = vec![0; IO];
        (wrong_op[0], wrong_op[1]) = (1, 200);
        assert_eq!(decode(&wrong_op), None);
    }
}
