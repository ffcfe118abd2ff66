//! Decodes the programs' records, whose layout `bpf/record.h` defines.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;

use poolwright_trace::{Flags, Gap, Op};

/// `PATH_DEPTH`, `PATH_BYTES + NAME_SLOT`, `USER_PATH` and `NO_ROOT` of `bpf/record.h`.
const PATH_DEPTH: usize = 40;
const PATH_BYTES: usize = 1024 + 256;
const USER_PATH: usize = 1024;
const NO_ROOT: u8 = 255;

/// The exact sizes of the records, in bytes.
const GAP: usize = 24;
const IO: usize = 48 + GAP;
const PATH: usize = 8 + PATH_DEPTH + PATH_BYTES;
const FILE: usize = 32 + PATH;
const NAME: usize = 40 + GAP + 2 * PATH + 2 * USER_PATH;

/// The operations, in the order of their numbers.
const OPS: [Op; 15] = [
    Op::Read,
    Op::Write,
    Op::Fsync,
    Op::Fdatasync,
    Op::Truncate,
    Op::Punch,
    Op::Allocate,
    Op::Open,
    Op::Close,
    Op::Create,
    Op::Unlink,
    Op::Rename,
    Op::Map,
    Op::Lock,
    Op::Unlock,
];

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
    pub location: EntryPath,
}

/// The position of a directory entry: its names below a followed directory, or below the root of its file system.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EntryPath {
    /// The number of the followed directory.
    pub root: Option<u8>,
    /// The kernel's device number, with the major number in the upper 12 bits.
    pub dev: u32,
    /// The names, outermost first.
    pub names: Vec<OsString>,
    /// Whether the outer names are missing because the path was too long or too deep.
    pub truncated: bool,
}

/// A call with file names as arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub op: Op,
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
}

/// Decodes one record. Returns `None` if it is invalid, for example if programs and recorder are of different builds.
pub(crate) fn decode(bytes: &[u8]) -> Option<Record> {
    match (bytes.first()?, bytes.len()) {
        (1, IO) => io(bytes).map(Record::Io),
        (2, FILE) => Some(Record::File(new_file(bytes))),
        (3, NAME) => name(bytes).map(|n| Record::Name(Box::new(n))),
        _ => None,
    }
}

fn io(b: &[u8]) -> Option<Io> {
    Some(Io {
        op: *OPS.get(usize::from(b[1]))?,
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
    let known = u32_at(b, 20) != 0;
    let gap =
        Gap { cpu_ns: u64_at(b, 0), ready_ns: u32_at(b, 8), wake_ns: u32_at(b, 12), waker: u32_at(b, 16) };
    known.then_some(gap)
}

fn new_file(b: &[u8]) -> NewFile {
    NewFile {
        file: u32_at(b, 4),
        ino: u64_at(b, 8),
        size: u64_at(b, 16),
        pid: u32_at(b, 24),
        location: location(&b[32..]),
    }
}

fn name(b: &[u8]) -> Option<Name> {
    let places = 40 + GAP;
    let strings = places + 2 * PATH;
    Some(Name {
        op: *OPS.get(usize::from(b[1]))?,
        pid: u32_at(b, 4),
        tid: u32_at(b, 8),
        t: u64_at(b, 16),
        dur: u64_at(b, 24),
        arg: u64_at(b, 32),
        gap: gap(&b[40..]),
        from_dir: location(&b[places..]),
        to_dir: location(&b[places + PATH..]),
        from: c_string(&b[strings..strings + USER_PATH]),
        to: c_string(&b[strings + USER_PATH..]),
    })
}

/// Decodes the names of an entry: innermost first, each padded to eight bytes.
fn location(b: &[u8]) -> EntryPath {
    let depth = usize::from(b[1]).min(PATH_DEPTH);
    let lengths = &b[8..8 + depth];
    let bytes = &b[8 + PATH_DEPTH..PATH];
    let mut at = 0;
    let mut names = Vec::with_capacity(depth);
    for &len in lengths {
        let len = usize::from(len);
        let Some(name) = bytes.get(at..at + len) else { break };
        names.push(OsStr::from_bytes(name).to_owned());
        at += len.next_multiple_of(8);
    }
    names.reverse();
    EntryPath { root: (b[0] != NO_ROOT).then_some(b[0]), dev: u32_at(b, 4), names, truncated: b[2] != 0 }
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
    if b.len() != 40 {
        return None;
    }
    let op = *OPS.get(usize::from(b[36]))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_have_the_numbers_of_the_trace() {
        for (number, op) in OPS.into_iter().enumerate() {
            assert_eq!(op as usize, number, "{op:?}");
        }
    }

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
            ("rec_file", FILE),
            ("rec_name", NAME),
            ("pending", 40),
            ("control", 16),
        ] {
            let found = btf.type_by_name::<Struct<'_>>(name).unwrap_or_else(|| panic!("no struct {name}"));
            assert_eq!(found.size(), size, "struct {name}");
        }
    }

    #[test]
    fn names_are_put_outermost_first() {
        let mut b = vec![0u8; PATH];
        b[0] = 3;
        b[1] = 2;
        b[8] = 9;
        b[9] = 2;
        b[8 + PATH_DEPTH..][..9].copy_from_slice(b"ibdata.ib");
        b[8 + PATH_DEPTH + 16..][..2].copy_from_slice(b"db");
        let location = location(&b);
        assert_eq!(location.names, ["db", "ibdata.ib"]);
        assert_eq!(location.root, Some(3));
    }

    #[test]
    fn names_keep_their_bytes() {
        let mut b = vec![0u8; PATH];
        (b[0], b[1], b[8]) = (3, 1, 2);
        b[8 + PATH_DEPTH..][..2].copy_from_slice(b"t\xff");
        assert_eq!(location(&b).names, [OsStr::from_bytes(b"t\xff")]);
    }

    #[test]
    fn a_gap_is_read_where_the_record_says_that_it_is_known() {
        let mut b = vec![0u8; IO];
        (b[0], b[1]) = (1, 1);
        b[48..56].copy_from_slice(&(1u64 << 40).to_ne_bytes());
        for (at, value) in [(56, 5u32), (60, 6), (64, Gap::OTHER)] {
            b[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        }
        let gap = |b: &[u8]| match decode(b) {
            Some(Record::Io(io)) => io.gap,
            other => panic!("{other:?}"),
        };
        assert_eq!(gap(&b), None);
        b[68] = 1;
        let expected = Gap { cpu_ns: 1 << 40, ready_ns: 5, wake_ns: 6, waker: Gap::OTHER };
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
